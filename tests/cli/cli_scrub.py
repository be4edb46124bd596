"""The catalogue, lzy-scrub and --on-damage. Time passes by making what the catalogue says older."""

import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import time
import unittest

from catalogued import MIB, Catalogued
from harness import BIN


class Catalogue(Catalogued):
    def test_tools_note_what_they_found_and_did(self):
        self.make("d/a", 300000)
        self.check(0, "lzy-protect", "d")
        self.assertEqual(self.dataset("d/a")[:2], ("intact", 0))
        self.flip("d/a", 70000)
        self.check(1, "lzy-verify", "d")
        state, verified, _, _ = self.dataset("d/a")
        self.assertEqual(state, "damaged")
        self.assertGreater(verified, 0)
        real = os.path.realpath(self.path("d/a"))
        self.assertEqual(self.events("damage"), [(real, real, "data", 65536, 65536, 0, "")])
        self.check(1, "lzy-verify", "d")
        self.assertEqual(len(self.events("damage")), 1)
        self.check(0, "lzy-restore", "d")
        self.assertEqual(self.events("damage"), [(real, real, "data", 65536, 65536, 1, "repaired")])
        self.assertEqual(self.dataset("d/a")[0], "intact")
        self.check(0, "lzy-protect", "--remove", "--yes", "d/a")
        self.assertEqual(self.dataset("d/a")[0], "gone")

    def test_dry_runs_note_nothing(self):
        self.make("a", 300000)
        self.check(0, "lzy-protect", "--dry-run", "a")
        self.check(0, "lzy-protect", "--catalog", "off", "a")
        self.check(1, "lzy-restore", "--dry-run", "--device", "1", "a")
        self.assertEqual(self.query("SELECT count(*) FROM datasets"), [(0,)])

    def test_another_file_and_none(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "--catalog", "off", "a")
        self.check(0, "lzy-verify", "a", env={"LZY_CATALOG": "off"})
        self.assertFalse(os.path.exists(self.catalog))
        self.check(0, "lzy-verify", "--catalog", "other.sqlite", "a")
        self.assertTrue(os.path.exists(self.path("other.sqlite")))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("other.sqlite")).st_mode), 0o600)

    def test_without_a_usable_catalogue_tools_work_and_say_so_once(self):
        self.make("d/a", 1000)
        self.make("d/b", 1000, seed=2)
        self.write("broken.sqlite", b"this is no SQLite file" * 100)
        for bad in ("broken.sqlite", "/proc/none/catalog.sqlite", "d"):
            for words in (("lzy-protect",), ("lzy-verify",), ("lzy-scrub",)):
                done = self.check(0, *words, "--catalog", bad, "d")
                self.assertEqual(done.stderr.count("the catalogue is not used"), 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(self.check(0, *words, "--quiet", "--catalog", bad, "d").stderr, "")
        self.assertEqual(self.read("broken.sqlite"), b"this is no SQLite file" * 100)

    def test_a_newer_catalogue_is_left_alone(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "a")
        self.query("PRAGMA user_version = 1000")
        self.assertIn("a newer version of lzy made it", self.check(0, "lzy-verify", "a").stderr)
        self.assertEqual(self.query("SELECT last_verified FROM datasets"), [(0,)])

    def test_a_tool_that_holds_the_catalogue_is_waited_for(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "a")
        with contextlib.closing(sqlite3.connect(self.catalog, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            tool = subprocess.Popen([os.path.join(BIN, "lzy-verify"), "a"], cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with self.assertRaises(subprocess.TimeoutExpired):
                tool.wait(0.5)
            other.execute("COMMIT")
            _, errors = tool.communicate(timeout=60)
        self.assertEqual((tool.returncode, errors), (0, b""))
        self.assertGreater(self.dataset("a")[1], 0)


class Scrub(Catalogued):
    def test_oldest_first_and_the_share_is_held(self):
        for i in range(10):
            self.make(f"d/{i}", 200000, seed=i)
        self.check(0, "lzy-protect", "d")
        for i in (7, 3):
            self.check(0, "lzy-verify", f"d/{i}")
            self.days_pass(1)
        # What was never verified comes first, in the order of names; then 7, then 3.
        self.assertEqual(self.scrubbed(0, "--share", "80%", "d"), [f"d/{i}" for i in (0, 1, 2, 4, 5, 6, 8, 9)])
        self.days_pass(1)
        self.assertEqual(self.scrubbed(0, "--share", "20%", "d"), ["d/7", "d/3"])
        self.days_pass(1)
        # They were read side by side, so their order is that of some milliseconds.
        self.assertEqual(sorted(self.scrubbed(0, "--older-than", "36h", "d")), [f"d/{i}" for i in (0, 1, 2, 4, 5, 6, 8, 9)])
        self.assertEqual(self.scrubbed(0, "--older-than", "36h", "d"), [])

    def test_a_large_file_is_read_over_several_runs(self):
        self.make("big", 300 * MIB)
        self.check(0, "lzy-protect", "big")
        size = 300 * MIB
        self.flip("big", size - 5)
        codes = []
        for _ in range(3):
            done = self.run_tool("lzy-scrub", "--share", "40%", "big")
            codes.append(done.returncode)
        self.assertEqual(codes, [0, 0, 1])
        self.assertIn("to the end", done.stdout)
        self.assertEqual(self.dataset("big")[0], "damaged")
        self.assertEqual(self.dataset("big")[2], 0)
        # The next pass begins at the beginning, and finds nothing there; the dataset stays damaged.
        self.check(0, "lzy-scrub", "--share", "40%", "big")
        self.assertEqual(self.dataset("big")[0], "damaged")
        self.assertEqual(len(self.events("damage")), 1)

    def test_repairs_only_if_asked(self):
        self.make("a", 3 * MIB)
        self.check(0, "lzy-protect", "a")
        good = self.read("a")
        self.flip("a", 100)
        self.check(1, "lzy-scrub", "a")
        self.assertNotEqual(self.read("a"), good)
        done = self.check(0, "lzy-scrub", "--repair", "a")
        self.assertIn("repaired", done.stdout)
        self.assertEqual(self.read("a"), good)
        self.assertEqual([event[-1] for event in self.events("damage")], ["repaired"])

    def test_a_file_that_is_being_written_is_left_for_later(self):
        for name in ("a", "b"):
            self.make(name, 300000)
        self.check(0, "lzy-protect", "a", "b")
        self.flip("a", 100)
        self.forge_intent("a")
        document = self.report(9, "lzy-scrub", "a", "b")
        left, read = document["datasets"]
        self.assertTrue(left["left_for_later"])
        self.assertEqual((left["damage"], left["bytes_read"]), ([], 0))
        self.assertEqual(read["state"], "intact")
        self.assertIn("left for later", self.check(9, "lzy-scrub", "a").stdout)
        self.assertEqual(self.events("damage"), [])
        self.assertEqual(self.dataset("a")[1], 0)

    def forge_intent(self, name):
        subprocess.run([os.environ["TEST_LZY_FORGE"], self.path(f".LZY.{name}"), "intent"], check=True, capture_output=True)

    def test_datasets_that_moved_or_went(self):
        for name in ("d/a", "d/b", "d/c"):
            self.make(name, 100000, seed=ord(name[-1]))
        self.check(0, "lzy-protect", "d")
        self.check(0, "lzy-scrub", "d")
        verified = self.dataset("d/a")[1]
        os.rename(self.path("d/a"), self.path("d/z"))
        os.rename(self.path("d/.LZY.a"), self.path("d/.LZY.z"))
        for name in ("d/b", "d/.LZY.b"):
            os.remove(self.path(name))
        done = self.check(0, "lzy-scrub", "--older-than", "1d", "d")
        self.assertIn("are not there any more", done.stderr)
        self.assertEqual(self.dataset("d/b")[0], "gone")
        self.assertGreater(self.dataset("d/z")[1], verified)
        self.assertEqual(len(self.query("SELECT * FROM datasets WHERE path LIKE '%/d/a'")), 0)
        self.assertEqual(len(self.events("moved")), 1)

    def test_a_clock_that_was_set_back(self):
        self.make("a", 100000)
        self.check(0, "lzy-protect", "a")
        self.check(0, "lzy-scrub", "a")
        self.days_pass(-100)
        self.assertEqual(self.scrubbed(0, "--older-than", "30d", "a"), ["a"])

    def test_bad_values(self):
        self.make("a", 100)
        for option, value, accepted in (("share", "0", "a percentage above 0"), ("share", "101%", "a percentage above 0"),
                                        ("older-than", "soon", "a time such as"), ("limit", "0", "bytes a second"),
                                        ("limit", "fast", "bytes a second"), ("max-time", "0", "a time such as")):
            done = self.check(3, "lzy-scrub", f"--{option}", value, "a")
            self.assertIn(f"--{option}: '{value}' is not accepted: {accepted}", done.stderr)


class Pace(Catalogued):
    """A file that is large enough for rates to be measured."""

    def setUp(self):
        super().setUp()
        self.make("big", 240 * MIB)
        self.check(0, "lzy-protect", "big")

    def read_seconds(self, *words, **more):
        """What the tool read, in MiB, and how long it took."""
        begin = time.monotonic()
        document = self.report(0, "lzy-scrub", *words, "big", **more)
        return document["datasets"][0]["bytes_read"] / MIB, time.monotonic() - begin

    def test_the_limit_is_held_within_five_percent(self):
        mib, seconds = self.read_seconds("--limit", "120M")
        self.assertLess(mib / seconds, 1.05 * 120)
        self.assertGreater(mib / seconds, 0.8 * 120)  # other tests may take the processors from it

    def test_sigterm_ends_it_within_a_second_and_it_goes_on_there(self):
        ends = []
        for _ in range(2):
            tool = subprocess.Popen([os.path.join(BIN, "lzy-scrub"), "--limit", "80M", "big"], cwd=self.scratch,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with self.assertRaises(subprocess.TimeoutExpired):
                tool.wait(1.4)
            tool.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            tool.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 1)
            self.assertEqual(tool.returncode, 128 + signal.SIGTERM)
            ends.append(self.dataset("big")[2])
        self.assertTrue(0 < ends[0] < ends[1], ends)
        document = self.report(0, "lzy-scrub", "big")
        portion = document["datasets"][0]["portion"]
        self.assertEqual((portion["first_row"], portion["end_row"]), (ends[1], portion["rows"]))

    def test_max_time_is_no_interrupt(self):
        begin = time.monotonic()
        done = self.check(0, "lzy-scrub", "--limit", "80M", "--max-time", "1s", "big")
        self.assertLess(time.monotonic() - begin, 2)
        self.assertIn("the next lzy-scrub goes on there", done.stdout)


class Alerts(Catalogued):
    """--on-damage COMMAND."""

    def setUp(self):
        super().setUp()
        self.write("alert.sh", b'#!/bin/sh\ncat > "$1/stdin"\nenv > "$1/env"\necho told >> "$1/log"\n')
        os.chmod(self.path("alert.sh"), 0o755)
        self.command = f"{self.path('alert.sh')} {self.scratch}"
        for name in ("d/a", "d/b"):
            self.make(name, 300000, seed=ord(name[-1]))
        self.check(0, "lzy-protect", "d")

    def told(self):
        try:
            return self.read("log").count(b"told")
        except FileNotFoundError:
            return 0

    def test_is_told_of_new_damage_only(self):
        for tool in ("lzy-verify", "lzy-scrub"):
            self.check(0, tool, "--on-damage", self.command, "d")
        self.assertEqual(self.told(), 0)
        self.flip("d/a", 70000)
        self.check(1, "lzy-scrub", "--on-damage", self.command, "d")
        self.assertEqual(self.told(), 1)
        document = json.loads(self.read("stdin"))
        self.check_schema(document)
        self.assertEqual([d["path"] for d in document["datasets"]], ["d/a"])
        self.assertEqual([(d["offset"], d["length"]) for d in document["datasets"][0]["damage"]], [(65536, 65536)])
        variables = dict(line.split("=", 1) for line in self.read("env").decode().splitlines() if "=" in line)
        self.assertEqual(variables["LZY_EVENT_TOOL"], "lzy-scrub")
        self.assertEqual(variables["LZY_EVENT_EXIT_CODE"], "1")
        self.assertEqual(variables["LZY_EVENT_DATASETS"], "1")
        self.assertEqual(variables["LZY_EVENT_SUMMARY"], "1 dataset has new damage: d/a")
        self.check(1, "lzy-scrub", "--on-damage", self.command, "d")
        self.assertEqual(self.told(), 1)
        self.flip("d/b", 200000)
        self.check(1, "lzy-verify", "--on-damage", self.command, "d")
        self.assertEqual(self.told(), 2)
        self.assertEqual([(d["path"], d["damage"][0]["offset"]) for d in json.loads(self.read("stdin"))["datasets"]], [("d/b", 196608)])

    def test_without_a_catalogue_all_damage_is_new(self):
        self.flip("d/a", 70000)
        for count in (1, 2):
            self.check(1, "lzy-verify", "--catalog", "off", "--on-damage", self.command, "d")
            self.assertEqual(self.told(), count)

    def test_the_command_may_be_a_tool_and_may_fail(self):
        self.flip("d/a", 70000)
        repair = f"{os.path.join(BIN, 'lzy-restore')} d >&2"
        done = self.check(1, "lzy-verify", "--on-damage", repair, "--json", "d")
        json.loads(done.stdout)
        self.check(0, "lzy-verify", "d")
        self.flip("d/a", 70000)
        done = self.check(1, "lzy-verify", "--on-damage", "exit 7", "d")
        self.assertIn("--on-damage: exit 7: it ended with exit code 7", done.stderr)


class ScrubUnderMpi(Catalogued):
    def test_ranks_share_the_work_and_one_catalogue(self):
        self.make("d/big", 100 * MIB)
        for i in range(20):
            self.make(f"d/{i:02}", 50000, seed=i)
        self.check(0, "lzy-protect", "d")
        self.flip("d/big", 99 * MIB)
        self.flip("d/07", 100)
        first = self.scrubbed(1, "--share", "50%", "d", ranks=3)
        second = self.scrubbed(1, "--share", "60%", "d", ranks=2)
        self.assertEqual(set(first) | set(second), {"d/big"} | {f"d/{i:02}" for i in range(20)})
        self.assertEqual(sorted(os.path.basename(event[0]) for event in self.events("damage")), ["07", "big"])
        self.assertEqual(self.query("SELECT count(*) FROM datasets WHERE last_verified = 0"), [(0,)])


if __name__ == "__main__":
    unittest.main()
