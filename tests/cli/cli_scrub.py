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
            # A scrub without one does not know what was read and what is missing.
            for words, code in ((("lzy-protect",), 0), (("lzy-verify",), 0), (("lzy-scrub",), 6)):
                done = self.check(code, *words, "--catalog", bad, "d")
                self.assertEqual(done.stderr.count("the catalogue is not used"), 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(self.check(code, *words, "--quiet", "--catalog", bad, "d").stderr.count("\n"), 1 if code else 0)
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
        done = self.check(4, "lzy-scrub", "--older-than", "1d", "d")
        self.assertIn(f"{self.real('d/b')}: vanished: ", done.stdout)
        self.assertNotIn("d/a: vanished", done.stdout)
        self.assertEqual(self.dataset("d/b")[0], "vanished")
        self.assertGreater(self.dataset("d/z")[1], verified)
        self.assertEqual(len(self.query("SELECT * FROM datasets WHERE path LIKE '%/d/a'")), 0)
        self.assertEqual(len(self.events("moved")), 1)

    def test_a_clock_that_was_set_back(self):
        self.make("a", 100000)
        self.check(0, "lzy-protect", "a")
        self.check(0, "lzy-scrub", "a")
        self.days_pass(-100)
        self.assertEqual(self.scrubbed(0, "--older-than", "30d", "a"), ["a"])

    def test_a_file_without_a_sidecar_is_not_passed_over_if_it_is_named(self):
        self.write("f", b"text")
        self.write("g", b"more text")
        self.check(0, "lzy-protect", "g")
        self.assertIn("f: no sidecar", self.check(4, "lzy-scrub", "g", "f").stderr)

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
    def test_losses_and_unprotected_files(self):
        for name in ("d/a", "d/b", "d/c"):
            self.make(name, 1000)
        self.check(0, "lzy-protect", "d")
        os.remove(self.path("d/.LZY.a"))
        for words in (("lzy-scrub",), ("lzy-verify", "--all")):
            document = self.report(4, *words, "d", ranks=2)
            self.assertEqual([(os.path.basename(loss["path"]), loss["what"]) for loss in document["losses"]], [("a", "unprotected")])
        self.assertEqual(document["unprotected"], ["d/a"])

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


class Losses(Catalogued):
    """What was protected and is not any more."""

    CRON = ("lzy-scrub", "--quiet", "--share", "5")

    def protect(self, *names):
        for name in names:
            self.make(name, 1000, seed=len(name) + ord(name[-1]))
        self.check(0, "lzy-protect", "d")
        self.check(0, "lzy-scrub", "--quiet", "d")

    def remove(self, *names):
        for name in names:
            os.remove(self.path(name))

    def told(self, exit_code, *words):
        """The losses that a tool reports, by name."""
        return [(os.path.basename(loss["path"]), loss["what"]) for loss in self.report(exit_code, *words).get("losses", [])]

    def test_the_shipped_line_tells_every_night_until_somebody_acknowledges(self):
        self.protect("d/a", "d/b", "d/c", "d/e/f")
        self.remove("d/a", "d/.LZY.a", "d/.LZY.b", "d/e/f", "d/e/.LZY.f")
        for _ in range(2):
            done = self.check(4, *self.CRON, "d")
            self.assertEqual(done.stdout, "")
            lines = [line.split(", noticed ")[0] for line in done.stderr.splitlines()]
            self.assertEqual(lines, [f"lzy-scrub: {self.real('d/a')}: vanished: the file and its sidecar were deleted",
                                     f"lzy-scrub: {self.real('d/b')}: is not protected any more: its sidecar was deleted",
                                     f"lzy-scrub: {self.real('d/e/f')}: vanished: the file and its sidecar were deleted"])
        self.assertEqual(self.told(4, "lzy-verify", "d"), [("a", "vanished"), ("b", "unprotected"), ("f", "vanished")])
        text = self.check(4, "lzy-status").stdout
        self.assertIn("state:     1 intact, 1 unprotected, 2 vanished\n", text)
        self.check(0, "lzy-status", "--forget", "d/e")
        # The pattern meets names of one directory only.
        self.assertIn("nothing is missed there", self.check(3, "lzy-status", "--forget", "*").stderr)
        # The printed commands do what they say.
        commands = [line.split(": ", 1)[1] for line in text.splitlines() if "--forget" in line and "d/a" in line]
        subprocess.run(commands[0], shell=True, check=True, cwd=self.scratch, env={**os.environ, "PATH": BIN}, capture_output=True)
        self.check(0, "lzy-protect", "d/b")
        self.assertEqual(self.check(0, *self.CRON, "d").stderr, "")
        self.assertIn("state:     2 intact\n", self.check(0, "lzy-status").stdout)

    def test_a_pattern_acknowledges_many(self):
        self.protect("d/ck.1", "d/ck.2", "d/other")
        self.remove("d/ck.1", "d/.LZY.ck.1", "d/ck.2", "d/.LZY.ck.2", "d/.LZY.other")
        self.check(4, *self.CRON, "d")
        self.assertIn("2 datasets will not be missed any more", self.check(0, "lzy-status", "--forget", "d/ck.*").stdout)
        self.assertEqual(self.told(4, "lzy-scrub", "d"), [("other", "unprotected")])

    def test_what_comes_back_is_none_any_more(self):
        self.protect("d/a", "d/b")
        os.rename(self.path("d"), self.path("away"))
        os.mkdir(self.path("d"))
        self.make("d/x", 1000)
        self.check(0, "lzy-protect", "d")
        self.assertEqual(self.told(4, "lzy-scrub", "d"), [("a", "vanished"), ("b", "vanished")])
        for name in ("a", ".LZY.a", "b", ".LZY.b"):
            os.rename(self.path(f"away/{name}"), self.path(f"d/{name}"))
        self.assertEqual(self.told(0, "lzy-scrub", "d"), [])

    def test_no_events_of_what_was_wanted(self):
        self.protect("d/moved", "d/removed", "d/replaced", "d/into", "d/pruned")
        os.mkdir(self.path("d/sub"))
        for name in ("moved", ".LZY.moved"):
            os.rename(self.path(f"d/{name}"), self.path(f"d/sub/{name}"))
        for prefix in ("", ".LZY."):  # over another one
            os.rename(self.path(f"d/{prefix}into"), self.path(f"d/{prefix}replaced"))
        self.check(0, "lzy-protect", "--remove", "--yes", "--catalog", "off", "d/removed")
        self.assertEqual(self.told(0, "lzy-verify", "--catalog", "off", "d"), [])
        # With another catalogue: nobody told this one. But the notes beside it.
        self.check(0, "lzy-protect", "d/removed")
        self.check(0, "lzy-protect", "--remove", "--yes", "d/removed")
        self.remove("d/removed", "d/pruned")
        self.check(0, "lzy-protect", "--remove", "--yes", "--force", "d/pruned")
        self.assertEqual(self.told(0, "lzy-scrub", "d"), [])
        self.assertEqual(self.events("vanished") + self.events("unprotected"), [])

    def test_a_set(self):
        for rank in range(3):
            self.make(f"d/s.{rank}", 1000, seed=rank)
            self.make(f"d/t.{rank}", 1000, seed=rank)
        self.make("d/a", 1000)
        self.check(0, "lzy-protect", "d/s.%r", "d/t.%r", "d/a")
        self.check(0, "lzy-scrub", "d")
        for rank in range(3):
            self.remove(f"d/s.{rank}", f"d/.LZY.s.{rank}", f"d/.LZY.t.{rank}")
        self.assertEqual(self.told(4, "lzy-scrub", "d"), [("s.%r", "vanished"), ("t.%r", "unprotected")])
        self.check(0, "lzy-status", "--forget", "d/s.%r")
        self.check(0, "lzy-protect", "d/t.%r")
        self.assertEqual(self.told(0, "lzy-scrub", "d"), [])

    def test_a_directory_that_cannot_be_looked_into_says_nothing(self):
        if os.geteuid() == 0:
            self.skipTest("root may look everywhere")
        self.protect("d/e/a", "d/b")
        os.chmod(self.path("d/e"), 0)
        self.addCleanup(os.chmod, self.path("d/e"), 0o700)
        self.assertEqual(self.told(6, "lzy-scrub", "d"), [])

    def test_a_link_is_protected_by_the_sidecar_of_its_target(self):
        self.protect("d/b")
        self.make("other/a", 1000)
        os.symlink("../other/a", self.path("d/link"))
        self.check(0, "lzy-protect", "d/link")
        self.assertEqual(self.told(0, "lzy-scrub", "d"), [])
        self.remove("other/.LZY.a")
        self.assertEqual(self.told(4, "lzy-scrub", "d"), [("link", "unprotected")])

    def test_rescan_finds_them_too(self):
        self.protect("d/a", "d/b")
        self.remove("d/.LZY.a")
        text = self.check(4, "lzy-status", "--rescan", "d").stdout
        self.assertIn("is not protected any more", text)

    def test_on_damage_is_told_once(self):
        self.protect("d/a", "d/b")
        self.remove("d/a", "d/.LZY.a")
        for told in (True, False):
            self.check(4, "lzy-scrub", "--quiet", "--on-damage", "cat > told", "d")
            self.assertEqual(os.path.exists(self.path("told")), told)
            if told:
                document = json.loads(self.read("told"))
                self.assertEqual([one["path"] for one in document["datasets"]], [self.real("d/a")])
                self.remove("told")

    def test_without_a_usable_catalogue_each_day_reads_something_else(self):
        for number in range(20):
            self.make(f"d/{number:02}", 1000, seed=number)
        self.check(0, "lzy-protect", "--catalog", "off", "d")
        day = int(time.time() // 86400)
        document = self.report(6, "lzy-scrub", "--share", "5", "--catalog", "/proc/none/c.sqlite", "d")
        self.assertIn("the catalogue is not used", document["errors"][0]["message"])
        # At midnight, it may be the next one.
        self.assertIn([one["path"] for one in document["datasets"]], [[f"d/{(day + next) % 20:02}"] for next in (0, 1)])
        self.assertEqual(len(self.check(6, *self.CRON, "--catalog", "/proc/none/c.sqlite", "d").stderr.splitlines()), 1)
        # Nobody wants one.
        self.check(0, *self.CRON, "--catalog", "off", "d")

    def test_a_large_file_without_a_catalogue_is_not_read_from_its_beginning_each_day(self):
        self.make("big", 70 * MIB)
        self.check(0, "lzy-protect", "--catalog", "off", "--stripe", "64K", "big")
        portion = self.report(0, "lzy-scrub", "--share", "13", "--catalog", "off", "big")["datasets"][0]["portion"]
        begin = int(time.time() // 86400) * 0.13 % 1
        self.assertIn(round((portion["first_row"] / portion["rows"] - begin) % 1, 1), (0, 0.1, 1))  # 0.1: at midnight


class Unprotected(Catalogued):
    """Files below a directory that have no sidecar."""

    def test_are_counted_and_fail_if_asked(self):
        for name in ("d/a", "d/b", "d/e/c", "d/.hidden"):
            self.make(name, 1000, seed=ord(name[-1]))
        self.check(0, "lzy-protect", "d/a")
        self.assertIn("d: 2 files are not protected; --all names them\n", self.check(0, "lzy-verify", "d").stdout)
        self.assertEqual(self.check(0, "lzy-verify", "--quiet", "d").stderr, "")
        self.assertEqual(self.report(0, "lzy-verify", "d")["unprotected_files"], 2)
        self.assertIn("  d/b\n  d/e/c\n", self.check(4, "lzy-verify", "--all", "d").stdout)
        self.assertEqual(self.report(4, "lzy-verify", "--all", "d")["unprotected"], ["d/b", "d/e/c"])
        self.assertIn("2 files are not protected", self.check(4, "lzy-verify", "--all", "--quiet", "d").stderr)
        self.check(0, "lzy-protect", "d")
        self.assertEqual(self.report(0, "lzy-verify", "--all", "d")["unprotected"], [])
        self.assertNotIn("unprotected_files", self.report(0, "lzy-verify", "d/a"))

    def test_the_catalogue_is_never_protected(self):
        self.make("d/a", 1000)
        for _ in range(2):
            self.assertEqual([one["path"] for one in self.report(0, "lzy-protect", "--catalog", "d/c.sqlite", "d")["datasets"]], ["d/a"])
        self.check(0, "lzy-verify", "--catalog", "d/c.sqlite", "--all", "d")
        # Nor is one that is protected stale for ever.
        self.check(0, "lzy-protect", "--catalog", "off", "d/c.sqlite")
        for words in (("lzy-scrub",), ("lzy-verify",)):
            self.check(0, *words, "--catalog", "d/c.sqlite", "d")
        self.check(0, "lzy-status", "--catalog", "d/c.sqlite")


if __name__ == "__main__":
    unittest.main()
