"""What tools find and advise after files or sidecars were lost, exchanged, put back or edited past repair."""

import os
import shutil
import unittest

from harness import CliTest, pattern_bytes


class Findings(CliTest):
    def file(self, name, size=1000000, *options):
        self.write(name, pattern_bytes(size))
        self.age(name)
        self.check(0, "lzy-protect", "-q", *options, name)

    def files(self, count, *options, size=100000):
        for rank in range(count):
            self.write(f"s.{rank}", pattern_bytes(size, seed=rank))
            self.age(f"s.{rank}")
        self.check(0, "lzy-protect", "-q", *options, "s.%r")

    def exchange(self, one, other):
        os.rename(self.path(one), self.path("between"))
        os.rename(self.path(other), self.path(one))
        os.rename(self.path("between"), self.path(other))

    def edit(self, name, size):
        with open(self.path(name), "r+b") as file:
            file.write(pattern_bytes(size, seed=99))

    def datasets(self, code, *words):
        return self.report(code, *words)["datasets"]

    def test_parity_that_can_rebuild_a_deleted_file_is_no_leftover(self):
        self.file("small", 100000)
        os.remove(self.path("small"))
        self.assertEqual(self.datasets(1, "lzy-info", "small")[0]["state"], "damaged")
        self.assertIn("if you deleted it: lzy-protect --remove --force small", self.check(0, "lzy-info", "--prune", ".").stdout)
        self.check(0, "lzy-restore", "small")
        self.assertEqual(self.read("small"), pattern_bytes(100000))

    def test_info_says_that_a_large_deleted_file_is_lost(self):
        self.file("large", 10000000)
        os.remove(self.path("large"))
        self.assertEqual(self.datasets(2, "lzy-info", "large")[0]["state"], "unrepairable")
        self.check(2, "lzy-verify", "large")

    def test_protecting_a_missing_file_advises_a_restore(self):
        self.file("f", 100000)
        os.remove(self.path("f"))
        for words in (("lzy-protect",), ("lzy-protect", "--dry-run")):
            self.assertIn("lzy-restore f", self.check(1, *words, "f").stdout)

    def test_an_old_sidecar_that_was_put_back_gives_way_to_newer_parts(self):
        for directory in ("d0", "d1", "d2"):
            os.mkdir(self.path(directory))
        self.file("q", 300000, "--device-dirs", "d0:d1:d2")
        shutil.copy2(self.path(".LZY.q"), self.path("old"))
        self.edit("q", 4)
        self.check(0, "lzy-protect", "-q", "q")
        shutil.copy2(self.path("old"), self.path(".LZY.q"))
        parts = sorted(os.listdir(self.path("d0")))
        self.assertNotIn("stale", self.check(1, "lzy-verify", "q").stdout)
        self.check(0, "lzy-restore", "q")
        self.assertEqual(sorted(os.listdir(self.path("d0"))), parts)
        self.check(0, "lzy-verify", "q")

    def test_exchanged_sidecars_find_their_members(self):
        for options in ((), ("--parity", "0")):
            self.files(3, *options)
            self.exchange(".LZY.s.0", ".LZY.s.1")
            self.check(0, "lzy-verify", "s.%r")
            self.check(0, "lzy-restore", "s.%r")
            self.check(0, "lzy-protect", "s.%r")
            self.check(0, "lzy-verify", "s.%r")
            for sidecar in [name for name in os.listdir(self.scratch) if name.startswith(".LZY.s")]:
                os.remove(self.path(sidecar))

    def test_edits_beyond_repair_are_not_called_loss(self):
        self.file("f")
        self.edit("f", 900000)
        edited = self.read("f")
        self.assertIn("it cannot be undone", self.check(9, "lzy-verify", "f").stdout)
        for words in (("lzy-verify", "--repair", "--force"), ("lzy-restore", "--force"), ("lzy-restore", "--force", "--dry-run")):
            done = self.check(2, *words, "f")
            self.assertIn("nothing was reset: more of it changed than parity can rebuild", done.stderr)
            self.assertIn("f: stale", done.stdout)
            self.assertIn("to commit the change: lzy-protect f", done.stdout)
            self.assertNotIn("lost:", done.stdout)
            self.assertEqual(self.read("f"), edited)

    def test_exchanged_members_are_edits_and_a_lost_sidecar_waits_for_them(self):
        self.files(4)
        self.exchange("s.3", "s.0")
        os.remove(self.path(".LZY.s.1"))
        self.assertEqual(self.datasets(1, "lzy-verify", "s.%r")[0]["state"], "damaged")
        told = self.check(2, "lzy-restore", "--force", "s.%r").stdout
        self.assertIn("the next commit makes it again", told)
        self.assertIn("to commit the edits and make the rest again: lzy-protect s.%r", told)
        self.check(0, "lzy-protect", "s.%r")
        self.check(0, "lzy-verify", "s.%r")

    def test_salvage_makes_no_file_if_nothing_can_be_recovered(self):
        self.file("f", 1000000, "--parity", "0")
        os.remove(self.path("f"))
        told = self.check(2, "lzy-restore", "--salvage", "f").stdout
        self.assertIn("nothing of it can be recovered, so no file was written", told)
        self.assertFalse(os.path.exists(self.path("f")))

    def test_gaps_of_a_salvage_are_damage_for_every_tool(self):
        self.files(4)
        for rank in (1, 2):
            os.remove(self.path(f"s.{rank}"))
        self.check(2, "lzy-restore", "--salvage", "s.%r")
        self.assertNotEqual(self.datasets(2, "lzy-verify", "s.%r")[0]["damage"], [])
        self.assertEqual(self.datasets(1, "lzy-info", "s.%r")[0]["state"], "damaged")
        self.check(2, "lzy-protect", "s.%r")

    def test_removing_nothing_says_that_nothing_is_protected(self):
        self.write("f", b"bytes")
        for words in (("--dry-run",), ("--yes",)):
            self.check(4, "lzy-protect", "--remove", *words, "f")

    def test_a_dry_run_refuses_directories_that_a_run_refuses(self):
        self.write("f", pattern_bytes(300000))
        for directory in ("a", "b"):
            os.mkdir(self.path(directory))
        for named, why in (("a:a", "is named twice"), ("a:nope:b", "'nope' does not exist")):
            for words in ((), ("--dry-run",)):
                self.assertIn(why, self.check(3, "lzy-protect", *words, "--device-dirs", named, "f").stderr)
        self.check(0, "lzy-protect", "--device-dirs", "a:b", "f")
        self.assertIn("'nope' is not a directory", self.check(0, "lzy-verify", "--device-dirs", "nope:b", "f").stderr)

    def test_more_devices_than_parity_are_refused_and_the_file_is_intact(self):
        self.file("f")
        done = self.check(2, "lzy-restore", "--device", "0", "--device", "1", "f")
        self.assertIn("more of f would be lost than parity 1 can rebuild; nothing was written", done.stderr)
        self.assertIn("f: intact", done.stdout)
        self.check(0, "lzy-verify", "f")


class Names(CliTest):
    def test_advice_for_names_that_look_like_options(self):
        self.write("-f", pattern_bytes(100000))
        told = self.check(4, "lzy-verify", "--", "-f").stderr
        self.assertIn("lzy-protect ./-f", told)
        self.assertNotIn("lzy-protect -f", told)

    def test_a_file_named_like_a_pattern(self):
        self.write("t.%r", pattern_bytes(100000))
        self.check(0, "lzy-protect", "-q", "t.%r")
        self.check(0, "lzy-verify", "t.%r")
        self.assertTrue(os.path.exists(self.path(".LZY.t.%r")))

    def test_a_file_is_no_directory(self):
        self.write("f", pattern_bytes(1000))
        for tool in ("lzy-protect", "lzy-verify", "lzy-info", "lzy-restore"):
            self.assertIn("'f/' is a file, not a directory", self.check(3, tool, "f/").stderr)

    def test_nothing_is_advised_where_nothing_can_be_protected(self):
        os.mkdir(self.path("empty"))
        done = self.check(4, "lzy-verify", "empty")
        self.assertNotIn("lzy-protect", done.stdout + done.stderr)

    def test_switches_take_a_value_too(self):
        for given, seen in (("--heal", "on"), ("--heal=on", "on"), ("--heal=off", "off")):
            done = self.check(0, "lzy-run", given, "--set", "a.%r", "--", "sh", "-c", "echo $LZY_HEAL")
            self.assertEqual(done.stdout, seen + "\n")
        self.assertIn("'maybe' is not accepted: on or off", self.check(3, "lzy-run", "--heal=maybe", "--", "true").stderr)


if __name__ == "__main__":
    unittest.main()
