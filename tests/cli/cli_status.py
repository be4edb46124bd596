"""lzy-status: from the catalogue alone; and what it writes for Prometheus."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import time
import unittest

from catalogued import MIB, Catalogued
from harness import BIN


class Status(Catalogued):
    def status(self, exit_code, *words):
        document = json.loads(self.check(exit_code, "lzy-status", "--json", *words).stdout)
        self.assertEqual((document["schema"], document["exit_code"]), ("lzy-status/1", exit_code))
        return document

    def test_one_screen_that_ends_with_what_to_type(self):
        for name in ("d/a", "d/b", "d/c"):
            self.make(name, 300000, seed=ord(name[-1]))
        self.check(0, "lzy-protect", "d")
        self.assertIn("3 never; oldest: ", self.check(0, "lzy-status").stdout)
        self.check(0, "lzy-scrub", "d")
        self.days_pass(40)
        self.check(0, "lzy-verify", "d/a", "d/b")
        text = self.check(0, "lzy-status").stdout
        self.assertRegex(text, r"datasets:  3, 878\.9 KiB of data, ")
        self.assertIn("state:     3 intact\n", text)
        self.assertRegex(text, r"oldest: /\S+/d/c, verified 40 days ago")
        self.assertRegex(text, r"scrub:     last 40 days ago, ")
        self.flip("d/b", 70000)
        self.check(1, "lzy-scrub", "d")
        text = self.check(1, "lzy-status").stdout
        path = os.path.realpath(self.path("d/b"))
        self.assertIn("state:     1 damaged, 2 intact\n", text)
        self.assertIn(f"{path}: damaged, repairable, as of ", text)
        self.assertIn(f"  {path}: data, offset 65536, length 65536, at {os.path.dirname(path)}: differs from its hash\n", text)
        # The command that it ends with is the right one.
        command = text.splitlines()[-1].split(": ", 1)[1].split()
        self.check(0, *command)
        self.assertIn("state:     3 intact\n", self.check(0, "lzy-status").stdout)

    def test_exit_codes_are_those_of_verify(self):
        for name in ("d/a", "d/b", "d/c"):
            self.make(name, 300000, seed=ord(name[-1]))
        self.check(0, "lzy-protect", "d")
        self.write("d/a", b"edited")
        self.check(9, "lzy-verify", "d")
        self.assertIn("to commit the change: lzy-protect", self.check(9, "lzy-status").stdout)
        self.flip("d/b", 100)
        self.check(1, "lzy-verify", "d")
        self.check(1, "lzy-status")
        for offset in (70000, 200000):
            self.flip("d/c", offset)
        self.check(2, "lzy-verify", "d")
        told = self.check(2, "lzy-status").stdout
        path = os.path.realpath(self.path("d/c"))
        self.assertIn(f"  if you have another copy of it: lzy-restore --from REPLICA {path}\n  nothing more of it can be recovered; copy the rest from a backup", told)
        self.check(9, "lzy-status", "d/a")
        self.assertEqual(self.status(2)["states"]["unrepairable"], 1)

    def test_a_lost_sidecar_waits_for_edits(self):
        for seed in (0, 10):
            for rank in range(4):
                self.make(f"n{rank}/s", 200000, seed=seed + rank)
            if seed == 0:
                self.check(0, "lzy-protect", "n%r/s")
        os.remove(self.path("n1/.LZY.s"))
        self.check(1, "lzy-verify", "n%r/s")
        # A restore can make nothing of it, so it would be typed for ever.
        for _ in range(2):
            text = self.check(1, "lzy-status").stdout
            self.assertNotIn("restore with", text)
            self.assertIn("damaged: what was edited must be committed first", text)
            self.assertIn("to commit the edits and make the rest again: lzy-protect /", text)
            self.check(1, "lzy-restore", "n%r/s")
        self.check(0, "lzy-protect", "n%r/s")
        self.check(0, "lzy-status")

    def test_paths_choose(self):
        for name in ("d/a", "d/b", "e/a"):
            self.make(name, 1000)
        self.check(0, "lzy-protect", "d", "e")
        self.assertEqual(self.status(0, "d")["datasets"], 2)
        self.assertEqual(self.status(0, "e/a")["datasets"], 1)
        self.assertEqual(self.status(0, "e/a", "d")["datasets"], 3)
        for paths in (("d/",), ("./d//",), ("d", "d/", "d/a", "d/./b")):
            self.assertEqual(self.status(0, *paths)["datasets"], 2)
        for paths in ((".",), ("./",), ("/",), ("/", "d")):
            self.assertEqual(self.status(0, *paths)["datasets"], 3)
        self.assertIn("lzy-status --rescan f", self.check(3, "lzy-status", "f").stderr)

    def test_the_catalogue_is_made_again_from_sidecars(self):
        for name in ("d/a", "d/b"):
            self.make(name, 300000, seed=ord(name[-1]))
        for rank in range(3):
            self.make(f"n{rank}/s", 200000, seed=rank)
        self.check(0, "lzy-protect", "d", "n%r/s")
        before = self.status(0)
        os.remove(self.catalog)
        done = self.check(3, "lzy-status")
        self.assertIn("there is no such file; to make one: lzy-status --rescan PATH", done.stderr)
        after = json.loads(self.check(0, "lzy-status", "--json", "--rescan", "d", "n%r/s").stdout)
        self.assertEqual([before[field] for field in ("states", "bytes", "sidecar_bytes")],
                         [after[field] for field in ("states", "bytes", "sidecar_bytes")])
        self.assertEqual(self.status(0)["never_verified"], 3)
        os.remove(self.path("d/a"))
        self.assertEqual(json.loads(self.check(2, "lzy-status", "--json", "--rescan", "d").stdout)["states"]["unrepairable"], 1)
        os.remove(self.path("d/.LZY.a"))
        self.assertEqual(json.loads(self.check(4, "lzy-status", "--json", "--rescan", "d").stdout)["states"]["vanished"], 1)
        self.check(3, "lzy-status", "--rescan")

    def test_the_gravest_are_named_first(self):
        for number in range(30):
            self.make(f"d/{number:02}", 1000, seed=number)
        self.check(0, "lzy-protect", "--parity", "0", "d")
        for number in range(29):
            self.write(f"d/{number:02}", b"edited")
        self.flip("d/29", 0)
        self.check(2, "lzy-verify", "d")
        text = self.check(2, "lzy-status").stdout
        self.assertIn("and 10 more datasets", text)
        self.assertRegex(text, r"(?m)^\S+/d/29: damaged beyond repair")
        self.assertEqual(self.status(2)["not_intact"][0]["path"], self.real("d/29"))

    def test_a_verification_in_the_future_is_none(self):
        for name in ("a", "b"):
            self.make(name, 1000)
        self.check(0, "lzy-protect", "a", "b")
        self.check(0, "lzy-verify", "a", "b")
        with contextlib.closing(sqlite3.connect(self.catalog)) as database, database:
            database.execute("UPDATE datasets SET last_verified = last_verified + ? WHERE path LIKE '%/b'", (10 * 86400 * 10**9,))
        text = self.check(0, "lzy-status").stdout
        self.assertRegex(text, r"verified:  1 in the future, which counts as never; oldest: \S+/b, known since ")
        document = self.status(0)
        self.assertEqual((document["never_verified"], document["verified_in_future"]), (1, 1))

    def test_errors_have_the_schema_of_the_tool(self):
        for words in (("lzy-status", "--bad"), ("lzy-status", "--forget"), ("lzy-status", "--catalog", "off"), ("lzy-plan", "--bad"),
                      ("lzy-plan", "--devices", "0")):
            document = json.loads(self.check(3, *words, "--json").stdout)
            self.assertEqual((document["schema"], document["exit_code"]), (f"{words[0]}/1", 3), words)
            self.assertEqual(document["errors"][0]["code"], "invalid-argument")
            self.assertNotIn("datasets", document)

    def test_names_that_are_no_utf8_are_told_as_bytes(self):
        for raw in (b"x\xff", b"x\xfe"):
            name = os.fsdecode(raw)
            self.write(name, b"x" * 1000)
            self.check(0, "lzy-protect", "--quiet", name)
        names = [one["path_hex"] for one in self.report(0, "lzy-verify", ".")["datasets"]]
        self.assertEqual(sorted(bytes.fromhex(name).split(b"/")[-1] for name in names), [b"x\xfe", b"x\xff"])

    def test_info_tells_the_last_verdict(self):
        self.make("a", 300000)
        self.check(0, "lzy-protect", "a")
        self.assertIn("a: not verified since its last commit; no verdict is known\n", self.check(0, "lzy-info", "a").stdout)
        self.check(0, "lzy-verify", "a")
        self.days_pass(3)
        self.assertIn("a: not verified; last verdict: intact 3 days ago\n", self.check(0, "lzy-info", "a").stdout)
        self.flip("a", 100)
        self.check(1, "lzy-verify", "a")
        self.assertIn("a: not verified; last verdict: damaged 0 seconds ago\n", self.check(0, "lzy-info", "a").stdout)
        self.assertEqual(self.report(0, "lzy-info", "a")["datasets"][0]["last_verdict"]["state"], "damaged")
        self.assertIn("a: not verified; no verdict is known\n", self.check(0, "lzy-info", "--catalog", "off", "a").stdout)
        self.assertIsNone(self.report(0, "lzy-info", "--catalog", "off", "a")["datasets"][0]["last_verdict"])

    def test_nothing_is_written(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "a")
        before = self.read(self.catalog)
        self.check(0, "lzy-status", "--events")
        self.assertEqual(self.read(self.catalog), before)
        self.check(3, "lzy-status", "--catalog", "absent.sqlite")
        self.assertFalse(os.path.exists(self.path("absent.sqlite")))

    def test_events_are_the_history(self):
        self.make("d/a", 300000)
        self.check(0, "lzy-protect", "d")
        self.flip("d/a", 100)
        self.check(1, "lzy-scrub", "d")
        self.days_pass(3)
        self.check(0, "lzy-scrub", "--repair", "d")
        lines = self.check(0, "lzy-status", "--events").stdout.splitlines()
        events = [re.sub(r"^\S+ \S+ UTC  ", "", line) for line in lines if " UTC  " in line]
        self.assertEqual([event.split()[0] for event in events],
                         ["lzy-protect", "lzy-protect", "lzy-scrub", "lzy-scrub", "lzy-scrub"])
        self.assertIn("differs from its hash; repaired 3 days later", events[2])
        self.assertEqual([event["what"] for event in self.status(0, "--events")["events"]], ["protected", "run", "damage", "run", "run"])

    def test_growth_is_told_by_place(self):
        for rank in range(4):
            self.make(f"n{rank}/s", 2 * MIB, seed=rank)
        self.check(0, "lzy-protect", "--parity", "2", "--group", "4", "n%r/s")
        for offset in (100, 300000, 900000):
            self.flip("n2/s", offset)
        self.flip("n1/s", 600000)
        self.check(1, "lzy-scrub", "n%r/s")
        places = self.status(1)["places"]
        self.assertEqual(sum(place["lately"] for place in places), 4)
        # On one node, the members have one failure domain unless somebody names others.
        self.assertEqual(len(places), 1)
        self.assertIn("4 of 4 new damages are at ", self.check(1, "lzy-status").stdout)

    def test_device_directories_are_places(self):
        for d in range(4):
            os.mkdir(self.path(f"p{d}"))
        dirs = ":".join(f"p{d}" for d in range(4))
        self.make("f", 12 * MIB)
        self.check(0, "lzy-protect", "--device-dirs", dirs, "f")
        part = [name for name in os.listdir(self.path("p3")) if name.startswith(".LZY")][0]
        for offset in (20000, 150000, 280000):
            size = os.path.getsize(self.path(f"p3/{part}"))
            self.flip(f"p3/{part}", size - offset)
        self.flip("f", 100)
        self.run_tool("lzy-scrub", "--device-dirs", dirs, "f")
        self.assertRegex(self.run_tool("lzy-status").stdout, r"3 of 4 new damages are at /\S+/p3: look there for failing hardware")

    def test_odd_names_are_shown_and_quoted(self):
        name = "d/<b>\x1b[31m\"\n'"
        self.make(name, 300000)
        self.check(0, "lzy-protect", "d")
        self.flip(name, 100)
        self.check(1, "lzy-scrub", "d")
        text = self.check(1, "lzy-status", "--events").stdout
        self.assertNotIn("\x1b", text)
        command = [line for line in text.splitlines() if "repair with: lzy-" in line][0].split(": ", 1)[1]
        subprocess.run(["bash", "-c", f"PATH={BIN}:$PATH {command}"], check=True, capture_output=True, cwd=self.scratch)
        self.check(0, "lzy-status")

    def test_a_hundred_thousand_datasets_are_fast(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "a")
        with contextlib.closing(sqlite3.connect(self.catalog)) as database, database:
            database.executemany("INSERT INTO datasets SELECT NULL, ?, kind, uuid, root, state, exit_code, devices, parity, groups, block_size, "
                                 "bytes, sidecar_bytes, generation, first_seen, last_seen, last_commit, 1, 0, 0, 0, 0, '' FROM datasets WHERE id = 1",
                                 ((f"/archive/project/run{i // 1000}/f{i}",) for i in range(100000)))
        begin = time.monotonic()
        text = self.check(0, "lzy-status").stdout
        self.assertLess(time.monotonic() - begin, 2)  # 0.3 s where nothing else runs
        self.assertIn("datasets:  100001,", text)


class Metrics(Catalogued):
    """The textfile of Prometheus, read by a parser of its own after the format's description."""

    SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"\})? (-?[0-9.e+-]+)$')

    def metrics(self, name):
        """{(metric, label value or None): value}."""
        samples, types = {}, {}
        for line in self.read(name).decode("utf-8").splitlines():
            if line.startswith("# TYPE "):
                _, _, metric, kind = line.split(" ")
                self.assertIn(kind, ("gauge", "counter"))
                self.assertNotIn(metric, types)
                types[metric] = kind
            elif not line.startswith("# HELP "):
                match = self.SAMPLE.match(line)
                self.assertIsNotNone(match, line)
                self.assertIn(match[1], types, "a sample comes after its type")
                self.assertNotIn((match[1], match[3]), samples)
                samples[match[1], match[3]] = float(match[4])
        return samples

    def test_numbers_are_those_of_the_catalogue(self):
        for name in ("d/a", "d/b", "d/c"):
            self.make(name, 300000, seed=ord(name[-1]))
        self.check(0, "lzy-protect", "d")
        self.check(0, "lzy-scrub", "d/a", "d/b")
        self.days_pass(10)
        self.flip("d/b", 100)
        self.check(1, "lzy-scrub", "d/b")
        self.check(1, "lzy-status", "--prometheus", "lzy.prom", "--quiet")
        metrics = self.metrics("lzy.prom")
        self.assertEqual(metrics["lzy_datasets", "intact"], 2)
        self.assertEqual(metrics["lzy_datasets", "damaged"], 1)
        self.assertEqual(metrics["lzy_datasets", "unrepairable"], 0)
        self.assertEqual(metrics["lzy_bytes", "data"], 900000)
        self.assertEqual(metrics["lzy_never_verified_datasets", None], 1)
        self.assertLess(abs(metrics["lzy_oldest_verification_seconds", None] - 10 * 86400), 3600)
        self.assertEqual(metrics["lzy_damage_open", None], 1)
        self.assertEqual(metrics["lzy_damage_found_total", None], 1)
        self.assertEqual(metrics["lzy_place_damage_found_total", os.path.dirname(os.path.realpath(self.path("d/b")))], 1)
        self.assertGreater(metrics["lzy_last_scrub_bytes_per_second", None], 0)
        self.assertLess(abs(metrics["lzy_last_scrub_timestamp_seconds", None] - time.time()), 600)
        # PATHs that overlap, or have damage at the same place, count once.
        self.flip("d/a", 100)
        self.check(1, "lzy-scrub", "d/a")
        for paths in (("d", "d/b"), ("d/b", "d/a", "d/c", "./d/a"), ()):
            self.check(1, "lzy-status", "--prometheus", "lzy.prom", "--quiet", *paths)
            metrics = self.metrics("lzy.prom")
            self.assertEqual(metrics["lzy_bytes", "data"], 900000)
            self.assertEqual(metrics["lzy_place_damage_found_total", os.path.dirname(os.path.realpath(self.path("d/b")))], 2)
        self.check(0, "lzy-restore", "d")
        self.check(0, "lzy-status", "--prometheus", "lzy.prom", "--quiet")
        self.assertEqual(self.metrics("lzy.prom")["lzy_damage_open", None], 0)
        self.assertEqual(sorted(os.listdir(self.scratch)), ["d", "lzy.prom"])

    def test_a_file_that_cannot_be_written_is_an_error(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "a")
        self.assertIn("absent", self.check(6, "lzy-status", "--prometheus", "absent/lzy.prom").stderr)


if __name__ == "__main__":
    unittest.main()
