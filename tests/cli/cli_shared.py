"""A shared file from protection through damage to repair, as seen from the command line."""

import json
import os
import signal
import subprocess
import unittest

from harness import BIN, CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K", "--group", "4")  # many blocks and rows in a small file
BLOCK = 4096


class SharedFile(CliTest):
    def setUp(self):
        super().setUp()
        self.content = pattern_bytes(300 * 1000 + 17)
        self.write("a", self.content)
        self.age("a")
        self.check(0, "lzy-protect", *SMALL, "a")

    def only(self, document):
        self.assertEqual(len(document["datasets"]), 1)
        return document["datasets"][0]

    def test_intact(self):
        for options in ([], ["--from-disk"], ["--repair"]):
            dataset = self.only(self.report(0, "lzy-verify", *options, "a"))
            self.assertEqual((dataset["path"], dataset["kind"], dataset["state"]), ("a", "shared", "intact"))
            self.assertEqual((dataset["bytes"], dataset["block_size"], dataset["parity"]), (len(self.content), BLOCK, 1))
            self.assertEqual(dataset["damage"], [])
            self.assertNotEqual(dataset["root"], "0" * 32)
        self.assertIn("a: intact", self.check(0, "lzy-verify", "a").stdout)

    def test_protecting_twice_changes_nothing(self):
        root = self.only(self.report(0, "lzy-info", "a"))["root"]
        self.assertIn("up to date", self.check(0, "lzy-protect", *SMALL, "a").stdout)
        self.assertEqual(self.only(self.report(0, "lzy-info", "a"))["root"], root)

    def test_flipped_byte_is_pinpointed_repaired_and_proven(self):
        offset = 7 * BLOCK + 123
        self.flip("a", offset)
        mtime = os.stat(self.path("a")).st_mtime_ns
        dataset = self.only(self.report(1, "lzy-verify", "a"))
        self.assertEqual(dataset["state"], "damaged")
        self.assertEqual(len(dataset["damage"]), 1)
        damage = dataset["damage"][0]
        self.assertEqual((damage["offset"], damage["length"]), (7 * BLOCK, BLOCK))
        self.assertEqual((damage["part"], damage["cause"], damage["repaired"]), ("data", "hash", False))
        text = self.check(1, "lzy-verify", "a").stdout
        self.assertIn(f"offset {7 * BLOCK}, length {BLOCK}", text)
        self.assertIn("repair with: lzy-verify --repair a", text)
        self.assertNotEqual(self.read("a"), self.content)  # verify changes nothing

        dataset = self.only(self.report(0, "lzy-verify", "--repair", "a"))
        self.assertTrue(all(entry["repaired"] for entry in dataset["damage"]))
        self.assertEqual(self.read("a"), self.content)
        self.assertEqual(os.stat(self.path("a")).st_mtime_ns, mtime)
        self.assertEqual(self.only(self.report(0, "lzy-verify", "--from-disk", "a"))["state"], "intact")

    def test_a_lost_device_is_one_line(self):
        unit = 4 * BLOCK
        self.write("large", pattern_bytes(100 * unit))
        self.age("large")
        self.check(0, "lzy-protect", *SMALL, "large")
        offsets = range(0, 100 * unit, unit)
        for offset in offsets:
            self.flip("large", offset)
        units = [entry["offset"] for entry in self.only(self.report(2, "lzy-verify", "large"))["damage"]
                 if entry["device"] == 1]
        self.assertGreater(len(units), 20)
        for offset in offsets:
            if offset not in units:
                self.flip("large", offset)  # back
        lines = self.check(1, "lzy-verify", "large").stdout.splitlines()
        self.assertEqual([line for line in lines if "device" in line], [
            f"  large: data, {len(units)} places from offset {units[0]} to {units[-1] + BLOCK}, "
            f"together {len(units) * BLOCK // 1024} KiB, device 1: differs from its hash; repairable; --json lists them"])
        self.assertEqual(len(self.only(self.report(0, "lzy-verify", "--repair", "large"))["damage"]), len(units))

    def test_restore_repairs_a_damaged_file(self):
        self.flip("a", 0)
        self.flip("a", len(self.content) - 1)
        before = self.read("a")
        self.assertIn(self.run_tool("lzy-restore", "--dry-run", "a").returncode, (0, 1))
        self.assertEqual(self.read("a"), before)
        self.check(0, "lzy-restore", "a")
        self.assertEqual(self.read("a"), self.content)
        self.check(0, "lzy-verify", "a")

    def test_damage_beyond_repair_is_listed_and_nothing_touched(self):
        for block in range(len(self.content) // BLOCK):
            self.flip("a", block * BLOCK)
        before = self.read("a")
        dataset = self.only(self.report(2, "lzy-verify", "a"))
        self.assertEqual(dataset["state"], "unrepairable")
        text = self.check(2, "lzy-verify", "a").stdout
        self.assertIn("lost: a: bytes 0 to ", text)
        self.check(2, "lzy-verify", "--repair", "a")
        self.check(2, "lzy-restore", "a")
        self.assertEqual(self.read("a"), before)

    def test_edit_is_stale_not_damaged(self):
        edited = b"edited" + self.content[6:]
        self.write("a", edited)
        text = self.check(9, "lzy-verify", "a").stdout
        self.assertIn("changed since its last commit", text)
        self.assertIn("lzy-protect a", text)
        self.assertIn("lzy-verify --repair --force a", text)
        self.check(9, "lzy-verify", "--repair", "a")
        self.assertEqual(self.read("a"), edited)
        self.check(0, "lzy-protect", "a")
        self.check(0, "lzy-verify", "a")

    def test_force_takes_an_edit_back(self):
        self.write("a", b"edited" + self.content[6:])
        self.check(0, "lzy-verify", "--repair", "--force", "a")
        self.assertEqual(self.read("a"), self.content)
        self.check(0, "lzy-verify", "a")

    def test_touched_but_unchanged_is_intact(self):
        os.utime(self.path("a"))
        self.check(0, "lzy-verify", "a")

    def test_protect_does_not_bless_damage_without_force(self):
        self.flip("a", 5 * BLOCK)
        done = self.check(1, "lzy-protect", "a")
        self.assertIn("lzy-verify --repair a", done.stdout)
        self.check(1, "lzy-verify", "a")
        self.check(0, "lzy-protect", "--force", "a")
        self.check(0, "lzy-verify", "a")

    def test_missing_data_is_damage_not_a_bad_path(self):
        os.remove(self.path("a"))
        dataset = self.only(self.report(2, "lzy-verify", "a"))
        self.assertEqual(dataset["state"], "unrepairable")
        self.assertTrue(any(entry["cause"] == "missing" for entry in dataset["damage"]))
        self.assertIn("if you deleted it: lzy-protect --remove --force a", self.check(2, "lzy-verify", "a").stdout)
        self.check(2, "lzy-verify", "--repair", "a")
        self.assertFalse(os.path.exists(self.path("a")))

    def test_destroyed_sidecar(self):
        size = os.stat(self.path(".LZY.a")).st_size
        self.write(".LZY.a", bytes(size))
        done = self.check(4, "lzy-verify", "a")
        self.assertIn("lzy-protect --force a", done.stderr)
        self.assertNotIn("lzy-protect a", done.stderr)
        for words in ((), ("--dry-run",)):
            refused = self.check(4, "lzy-protect", *words, "a")
            self.assertEqual(self.read(".LZY.a"), bytes(size))
            self.assertIn("if you have another copy of it, compare the two: lzy-diff --deep REPLICA a", refused.stdout + refused.stderr)
        forced = self.check(0, "lzy-protect", "--force", "a")
        self.assertIn("it is made again, for the data as they are now", forced.stderr)
        self.check(0, "lzy-verify", "a")

    def test_damaged_metadata(self):
        self.flip(".LZY.a", 100)
        dataset = self.only(self.report(1, "lzy-verify", "a"))
        self.assertTrue(any(entry["part"] == "metadata" for entry in dataset["damage"]))
        self.check(0, "lzy-verify", "--repair", "a")
        self.check(0, "lzy-verify", "a")

    def test_renamed_file_keeps_its_protection(self):
        os.rename(self.path("a"), self.path("b"))
        self.check(0, "lzy-verify", "b")
        self.assertEqual(self.only(self.report(0, "lzy-verify", "."))["path"], "b")
        self.check(0, "lzy-protect", "b")
        self.check(0, "lzy-verify", "b")

    def test_named_twice_is_handled_once(self):
        os.symlink("a", self.path("link"))
        os.makedirs(self.path("d"))
        document = self.report(0, "lzy-verify", "a", "./a", "d/../a", "link", self.path("a"), ".")
        self.assertEqual([dataset["path"] for dataset in document["datasets"]], ["a"])

    def test_worst_state_decides(self):
        self.write("free", b"x" * 100)
        self.check(4, "lzy-verify", "a", "free")
        self.flip("a", 0)
        self.check(1, "lzy-verify", "a", "free")
        self.check(3, "lzy-verify", "a", "free", "absent")

    def test_info(self):
        text = self.check(0, "lzy-info", "a").stdout
        root = self.only(self.report(0, "lzy-info", "a"))["root"]
        for part in ("shared file", "one group", "4 KiB", root, "ago"):
            self.assertIn(part, text)
        self.assertIn("group 0", self.check(0, "lzy-info", "--map", "a").stdout)

    def test_info_calls_another_size_at_the_same_time_damage(self):
        before = os.stat(self.path("a"))
        for size in (len(self.content) - 5000, len(self.content) + 300):
            with open(self.path("a"), "r+b") as file:
                file.truncate(size)
            os.utime(self.path("a"), ns=(before.st_atime_ns, before.st_mtime_ns))
            dataset = self.only(self.report(1, "lzy-info", "a"))
            self.assertEqual(dataset["state"], "damaged")
            damage = dataset["damage"][0]
            # As lzy-verify says it: the block in which the file ends is lost as a whole.
            begin, end = sorted((size, len(self.content)))
            begin -= begin % 4096 if size < end else 0
            self.assertEqual((damage["path"], damage["part"], damage["offset"], damage["length"]), ("a", "data", begin, end - begin))
            os.utime(self.path("a"), ns=(before.st_atime_ns, before.st_mtime_ns + 1))
            self.assertEqual(self.only(self.report(9, "lzy-info", "a"))["state"], "stale")
            os.utime(self.path("a"), ns=(before.st_atime_ns, before.st_mtime_ns))
            self.check(0, "lzy-verify", "--repair", "a")

    def test_odd_names(self):
        for name in ("with space", "it's", "[a,b]", "50%", "umlaut-ü", "-dash"):
            self.write(name, self.content)
            self.age(name)
            self.check(0, "lzy-protect", *SMALL, "--", name)
            self.flip(name, 1)
            self.check(1, "lzy-verify", "--", name)
            self.check(0, "lzy-verify", "--repair", "--", name)
            self.assertEqual(self.read(name), self.content)

    def test_empty_file(self):
        self.write("empty", b"")
        self.check(0, "lzy-protect", "empty")
        self.assertEqual(self.only(self.report(0, "lzy-verify", "empty"))["bytes"], 0)

    def test_report_has_a_line_for_each_commit(self):
        self.write("b", self.content)
        self.check(0, "lzy-protect", "--report", "log.jsonl", "b")
        self.check(0, "lzy-protect", "--report", "log.jsonl", "b")  # up to date: no commit
        lines = self.read("log.jsonl").splitlines()
        self.assertEqual(len(lines), 1)
        self.assertEqual(json.loads(lines[0])["path"], "b")


class Output(CliTest):
    def setUp(self):
        super().setUp()
        self.write("a", pattern_bytes(100000))
        self.age("a")
        self.check(0, "lzy-protect", "a")

    def test_quiet_prints_nothing_but_errors(self):
        for tool in ("lzy-protect", "lzy-verify", "lzy-restore", "lzy-info"):
            done = self.check(0, tool, "--quiet", "a")
            self.assertEqual((done.stdout, done.stderr), ("", ""), tool)
        self.flip("a", 10)
        done = self.check(1, "lzy-verify", "--quiet", "a")
        self.assertEqual((done.stdout, done.stderr), ("", "lzy-verify: a: damaged, repairable\n"))

    def test_json_is_all_there_is_on_stdout(self):
        for tool in ("lzy-protect", "lzy-verify", "lzy-restore", "lzy-info"):
            self.report(0, tool, "a")

    def test_no_progress_where_stderr_is_no_terminal(self):
        self.assertEqual(self.check(0, "lzy-verify", "a").stderr, "")

    def test_full_disk_on_stdout_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([os.path.join(BIN, "lzy-verify"), "a"], cwd=self.scratch, stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 6)
        self.assertIn("standard output", done.stderr)

    def test_streams_that_cannot_be_written(self):
        """No tool aborts, and none gives a file the number of a closed stream: messages would go into it."""
        cases = [(0, "lzy-verify --quiet a"), (6, "lzy-verify --log info a"), (3, "lzy-verify none"), (1, "lzy-verify --quiet b"), (3, "lzy-run"),
                 (3, "lzy-plan"), (3, "lzy-copy"), (3, "lzy-diff a"), (3, "lzy-scrub"), (3, "lzy none"), (4, "lzy-info c"), (6, "lzy-info a"),
                 (6, "lzy --help"), (6, "lzy-status --help"), (6, "lzy-run --help"), (6, "lzy-protect --json a"), (3, "lzy-restore --json none")]
        self.write("b", pattern_bytes(50000))
        self.age("b")
        self.check(0, "lzy-protect", "b")
        self.flip("b", 10)
        self.write("c", b"")
        before = {name: self.read(name) for name in ("a", ".LZY.a", "b", ".LZY.b")}
        for where in (">/dev/full 2>&1", ">&- 2>&-", "<&- >&- 2>&-"):
            for code, words in cases:
                tool, *rest = words.split()
                done = subprocess.run(["sh", "-c", f'exec "$@" {where}', "sh", os.path.join(BIN, tool), *rest], cwd=self.scratch, timeout=60)
                self.assertEqual(done.returncode, code, words + where)
        self.assertEqual({name: self.read(name) for name in before}, before)

    def test_log_info_tells_the_phases(self):
        self.assertRegex(self.check(0, "lzy-verify", "--log", "info", "a").stderr, r"^lzy-verify: a: \d+\.\d{3} s")

    def test_interrupt_ends_cleanly(self):
        with open(self.path("large"), "wb") as file:
            file.truncate(1 << 40)  # a hole: nothing to store, hours to read
        tool = subprocess.Popen([os.path.join(BIN, "lzy-protect"), "large"], cwd=self.scratch, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        catches = 1 << (signal.SIGINT - 1)
        while tool.poll() is None:
            with open(f"/proc/{tool.pid}/status") as status:
                caught = next(line for line in status if line.startswith("SigCgt:")).split()[1]
            if int(caught, 16) & catches:
                break
        tool.send_signal(signal.SIGINT)
        _, errors = tool.communicate(timeout=60)
        self.assertEqual(tool.returncode, 130, errors)
        self.assertEqual(errors.count("interrupted"), 1, errors)


class Directories(CliTest):
    def setUp(self):
        super().setUp()
        for name in ("d/a.h5", "d/b.nc", "d/e/c.h5", "d/.hidden"):
            self.write(name, pattern_bytes(20000, seed=len(name)))
            self.age(name)

    def paths(self, exit_code, *words):
        return [dataset["path"] for dataset in self.report(exit_code, *words)["datasets"]]

    def test_a_directory_means_all_files_below(self):
        self.assertEqual(self.paths(0, "lzy-protect", "d"), ["d/a.h5", "d/b.nc", "d/e/c.h5"])
        self.assertEqual(self.paths(0, "lzy-verify", "d"), ["d/a.h5", "d/b.nc", "d/e/c.h5"])
        self.flip("d/e/c.h5", 1000)
        self.assertEqual(self.paths(1, "lzy-verify", "d"), ["d/a.h5", "d/b.nc", "d/e/c.h5"])
        self.check(0, "lzy-restore", "d")
        self.check(0, "lzy-verify", "d")

    def test_include_and_exclude(self):
        self.assertEqual(self.paths(0, "lzy-protect", "--include", "*.h5", "--exclude", "*/e/*", "d"), ["d/a.h5"])
        # What is named is meant.
        self.assertEqual(self.paths(0, "lzy-protect", "--include", "*.h5", "d/b.nc"), ["d/b.nc"])

    def test_glob(self):
        self.assertEqual(self.paths(0, "lzy-protect", "d/*.h5"), ["d/a.h5"])

    def test_hidden_file_can_be_named(self):
        self.check(0, "lzy-protect", "d/.hidden")
        self.assertEqual(self.paths(0, "lzy-verify", "d"), ["d/.hidden"])

    def test_set_option_makes_members_one_dataset(self):
        for rank in range(4):
            self.write(f"d/state.{rank}", pattern_bytes(20000, seed=rank))
        self.assertEqual(self.paths(0, "lzy-protect", "--set", "d/state.%r", "d"),
                         ["d/a.h5", "d/b.nc", "d/e/c.h5", "d/state.%r"])
        self.assertEqual(self.paths(0, "lzy-verify", "d"), ["d/a.h5", "d/b.nc", "d/e/c.h5", "d/state.%r"])

    def test_orphans_are_listed_and_pruned(self):
        self.write("d/e/c.h5", pattern_bytes(10_000_000))
        self.check(0, "lzy-protect", "d")
        os.remove(self.path("d/e/c.h5"))
        listed = self.run_tool("lzy-info", "d").stdout
        self.assertIn("d/e/.LZY.c.h5: orphan", listed)
        self.assertIn("lzy-info --prune d", listed)
        self.assertTrue(os.path.exists(self.path("d/e/.LZY.c.h5")))
        document = self.report(0, "lzy-info", "--prune", "d")
        self.assertEqual(document["orphans"], [{"path": "d/e/.LZY.c.h5", "reason": "its file is gone", "removed": True}])
        self.assertFalse(os.path.exists(self.path("d/e/.LZY.c.h5")))
        self.assertTrue(os.path.exists(self.path("d/.LZY.a.h5")))
        self.assertIn("no orphaned sidecars", self.check(0, "lzy-info", "--prune", "d").stdout)
        self.check(0, "lzy-verify", "d")

    def test_prune_keeps_what_can_rebuild_a_small_file(self):
        self.write("d/e/c.h5", pattern_bytes(4000))  # a single block
        self.check(0, "lzy-protect", "d")
        content = self.read("d/e/c.h5")
        os.remove(self.path("d/e/c.h5"))
        for words in (("--prune", "--dry-run"), ("--prune",)):
            told = self.check(0, "lzy-info", *words, "d").stdout
            self.assertIn("can be rebuilt from it; to restore it: lzy-restore d/e/c.h5; "
                          "if you deleted it: lzy-protect --remove --force d/e/c.h5", told)
        (orphan,) = self.report(0, "lzy-info", "--prune", "d")["orphans"]
        self.assertFalse(orphan["removed"])
        self.check(0, "lzy-restore", "d/e/c.h5")
        self.assertEqual(self.read("d/e/c.h5"), content)

    def test_a_deleted_small_file_is_forgotten_by_name(self):
        self.write("d/e/c.h5", pattern_bytes(4000))  # a single block
        self.check(0, "lzy-protect", "d")
        os.remove(self.path("d/e/c.h5"))
        self.check(1, "lzy-protect", "--remove", "--yes", "d/e/c.h5")
        self.assertTrue(os.path.exists(self.path("d/e/.LZY.c.h5")))
        self.check(0, "lzy-protect", "--remove", "--yes", "--force", "d/e/c.h5")
        self.assertFalse(os.path.exists(self.path("d/e/.LZY.c.h5")))


if __name__ == "__main__":
    unittest.main()
