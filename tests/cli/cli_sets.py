"""File sets from the command line: patterns, lost members, restore."""

import os
import shutil
import sys
import unittest

from harness import CliTest, pattern_bytes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from reader_fields import PARITY, PARITY_LEVEL
from reader_sidecar import Sidecar

SMALL = ("--block-size", "4K", "--stripe", "16K")
RANKS = 5


class Sets(CliTest):
    def setUp(self):
        super().setUp()
        for rank in range(RANKS):
            self.write(f"d/state.{rank}", self.content(rank))
            self.age(f"d/state.{rank}")
        self.check(0, "lzy-protect", *SMALL, "--parity", "2", "d/state.%r")

    @staticmethod
    def content(rank):
        return pattern_bytes(100000 + 5000 * rank, seed=rank)

    def only(self, document):
        self.assertEqual(len(document["datasets"]), 1)
        return document["datasets"][0]

    def check_content(self):
        for rank in range(RANKS):
            self.assertEqual(self.read(f"d/state.{rank}"), self.content(rank), rank)

    def lose(self, *ranks):
        for rank in ranks:
            os.remove(self.path(f"d/state.{rank}"))
            os.remove(self.path(f"d/.LZY.state.{rank}"))

    def test_intact_however_named(self):
        for path in ("d/state.%r", "d", "d/state.3", "d/*.%r"):
            dataset = self.only(self.report(0, "lzy-verify", path))
            self.assertEqual((dataset["kind"], dataset["path"], dataset["devices"], dataset["parity"]),
                             ("set", "d/state.%r", RANKS, 2))
            self.assertEqual(dataset["bytes"], sum(len(self.content(rank)) for rank in range(RANKS)))

    def test_lost_members_are_restored(self):
        self.lose(1, 4)
        dataset = self.only(self.report(1, "lzy-verify", "d/state.%r"))
        missing = {damage["path"] for damage in dataset["damage"] if damage["cause"] == "missing" and damage["part"] == "data"}
        self.assertEqual(missing, {"d/state.1", "d/state.4"})
        self.assertIn("restore with: lzy-restore d/state.%r", self.check(1, "lzy-verify", "d/state.%r").stdout)
        # Repair never creates files.
        self.run_tool("lzy-verify", "--repair", "d/state.%r")
        self.assertFalse(os.path.exists(self.path("d/state.1")))
        self.run_tool("lzy-restore", "--dry-run", "d/state.%r")
        self.assertFalse(os.path.exists(self.path("d/state.1")))

        self.assertEqual(self.only(self.report(0, "lzy-restore", "d/state.%r"))["state"], "restored")
        self.check_content()
        self.check(0, "lzy-verify", "--from-disk", "d/state.%r")

    def test_a_named_device_keeps_its_edits(self):
        edited = b"new result" + self.content(1)[10:] + b"more"
        self.write("d/state.1", edited)
        self.check(9, "lzy-restore", "d/state.%r")
        self.check(9, "lzy-restore", "--device", "1", "d/state.%r")
        self.assertEqual(self.read("d/state.1"), edited)
        self.check(0, "lzy-restore", "--device", "1", "--force", "d/state.%r")
        self.check_content()

    def test_salvage_of_named_devices_gives_up_nothing(self):
        done = self.check(0, "lzy-restore", "--device", "0", "--device", "1", "--device", "2", "--salvage", "d/state.%r")
        self.assertIn("--device is ignored", done.stdout + done.stderr)
        self.check_content()
        self.check(0, "lzy-verify", "d/state.%r")

    def test_swapped_members_with_a_lost_sidecar(self):
        os.remove(self.path("d/.LZY.state.0"))
        os.rename(self.path("d/state.0"), self.path("d/x"))
        os.rename(self.path("d/state.2"), self.path("d/state.0"))
        os.rename(self.path("d/x"), self.path("d/state.2"))
        kept = self.read("d/.LZY.state.2")
        self.run_tool("lzy-restore", "d/state.%r")
        self.assertEqual(self.read("d/.LZY.state.2"), kept)
        self.assertEqual(self.read("d/state.0"), self.content(2))
        os.rename(self.path("d/state.0"), self.path("d/x"))
        os.rename(self.path("d/state.2"), self.path("d/state.0"))
        os.rename(self.path("d/x"), self.path("d/state.2"))
        self.check(0, "lzy-restore", "d/state.%r")
        self.check(0, "lzy-verify", "d/state.%r")
        self.check_content()

    def test_edits_and_a_lost_sidecar_are_not_beyond_repair(self):
        for rank in (0, 1, 2):
            self.write(f"d/state.{rank}", self.content(rank + 10))
        os.remove(self.path("d/.LZY.state.3"))
        self.assertIn(self.run_tool("lzy-restore", "d/state.%r").returncode, (1, 9))
        self.check(0, "lzy-protect", "d/state.%r")
        self.check(0, "lzy-verify", "d/state.%r")

    def test_damage_of_files_that_were_no_set_before(self):
        for rank in range(3):
            self.write(f"e/s.{rank}", self.content(rank))
            self.age(f"e/s.{rank}")
        self.check(0, "lzy-protect", *SMALL, "e")
        self.flip("e/s.1", 50000)
        kept = {name: self.read(f"e/{name}") for name in os.listdir(self.path("e"))}
        for ranks in (None, 2):
            told = self.check(1, "lzy-protect", "e/s.%r", ranks=ranks).stdout
            self.assertIn("e/s.%r: damaged: the damage was not committed (set of 3 files", told)
            self.assertIn("repair first what was committed before: lzy-verify --repair e/s.1\n", told)
            self.assertIn("lzy-protect --force e/s.%r", told)
            self.assertEqual({name: self.read(f"e/{name}") for name in os.listdir(self.path("e"))}, kept)
        self.check(0, "lzy-verify", "--repair", "e/s.1")
        self.assertEqual(self.read("e/s.1"), self.content(1))
        self.check(0, "lzy-protect", "e/s.%r")
        self.check(0, "lzy-verify", "e/s.%r")

    def test_protect_that_refuses_leaves_nothing_behind(self):
        self.flip("d/state.1", 5000)
        os.remove(self.path("d/.LZY.state.3"))
        names = sorted(os.listdir(self.path("d")))
        self.check(1, "lzy-protect", "d/state.%r")
        self.assertEqual(sorted(os.listdir(self.path("d"))), names)
        self.check(0, "lzy-restore", "d/state.%r")
        self.check_content()

    def test_repair_of_a_grown_member_without_sidecar(self):
        before = os.stat(self.path("d/state.3"))
        self.write("d/state.3", self.content(3) + b"x" * 100)
        os.utime(self.path("d/state.3"), ns=(before.st_atime_ns, before.st_mtime_ns))
        os.remove(self.path("d/.LZY.state.3"))
        self.check(1, "lzy-verify", "--repair", "d/state.%r")
        self.check(0, "lzy-restore", "d/state.%r")
        self.check_content()

    def test_a_set_grows(self):
        self.write(f"d/state.{RANKS}", self.content(RANKS))
        self.check(0, "lzy-protect", "d/state.%r")
        self.assertEqual(self.only(self.report(0, "lzy-verify", "d/state.%r"))["devices"], RANKS + 1)
        os.remove(self.path(f"d/state.{RANKS}"))
        self.check(0, "lzy-restore", "d/state.%r")
        self.assertEqual(self.read(f"d/state.{RANKS}"), self.content(RANKS))

    def test_a_set_shrinks_by_force(self):
        self.lose(RANKS - 1)
        self.check(1, "lzy-protect", "d/state.%r")
        self.check(0, "lzy-protect", "--force", "d/state.%r")
        self.assertEqual(self.only(self.report(0, "lzy-verify", "d/state.%r"))["devices"], RANKS - 1)

    def test_links_for_members(self):
        os.remove(self.path("d/state.2"))
        os.symlink(self.path("elsewhere"), self.path("d/state.2"))
        self.assertIn("symbolic link", self.check(6, "lzy-restore", "d/state.%r").stderr)
        self.assertFalse(os.path.lexists(self.path("elsewhere")))
        os.remove(self.path("d/state.2"))
        os.symlink("state.3", self.path("d/state.2"))
        self.assertIn("is a symbolic link", self.check(6, "lzy-restore", "d/state.%r").stderr)
        os.remove(self.path("d/state.2"))
        self.check(0, "lzy-restore", "d/state.%r")
        self.check_content()

    def test_sidecar_that_lost_its_hashes(self):
        sidecar = "d/.LZY.state.1"
        reader = Sidecar(self.path(sidecar), self.path("d/state.1"))
        leaves = [next(extent.offset for extent in reader._extents(copy, PARITY_LEVEL) if extent.level == 0)
                  for copy in reader.copies.values()]
        self.assertEqual(len(set(leaves)), 2)
        base = next(extent.offset for extent in reader._extents(next(iter(reader.copies.values())), PARITY))
        for at in (*leaves, base + 100):
            self.flip(sidecar, at)
        self.check(1, "lzy-verify", "d/state.%r")
        self.check(0, "lzy-restore", "d/state.%r")
        self.check(0, "lzy-verify", "d/state.%r")

    def test_lost_member_named_alone(self):
        self.lose(2)
        self.check(0, "lzy-restore", "d/state.2")
        self.check_content()

    def test_too_many_lost(self):
        self.lose(0, 1, 2)
        self.check(2, "lzy-verify", "d/state.%r")
        done = self.check(2, "lzy-restore", "d/state.%r")
        self.assertIn("--salvage", done.stdout)
        for rank in range(3):
            self.assertFalse(os.path.exists(self.path(f"d/state.{rank}")))

    def test_device_named_as_lost(self):
        self.flip("d/state.3", 50)
        self.check(0, "lzy-restore", "--device", "3", "d/state.%r")
        self.check_content()
        self.check(0, "lzy-verify", "d")
        self.check(3, "lzy-restore", "--device", "99", "d/state.%r")

    def test_damage_names_the_members_file(self):
        self.flip("d/state.2", 4096)
        damage = self.only(self.report(1, "lzy-verify", "d"))["damage"]
        self.assertEqual([(entry["path"], entry["offset"]) for entry in damage], [("d/state.2", 4096)])
        self.check(0, "lzy-verify", "--repair", "d")
        self.check_content()

    def test_map(self):
        text = self.check(0, "lzy-info", "--map", "d/state.%r").stdout
        for rank in range(RANKS):
            self.assertIn(f"d/state.{rank}", text)
        dataset = self.only(self.report(0, "lzy-info", "--map", "d/state.%r"))
        self.assertEqual(sorted(device["device"] for group in dataset["map"] for device in group), list(range(RANKS)))

    def test_each_step_is_a_set(self):
        for step in (10, 20):
            for rank in range(3):
                self.write(f"c/ckpt.{step}.{rank}", self.content(rank))
        paths = [d["path"] for d in self.report(0, "lzy-protect", *SMALL, "c/ckpt.*.%r")["datasets"]]
        self.assertEqual(paths, ["c/ckpt.10.%r", "c/ckpt.20.%r"])
        paths = [d["path"] for d in self.report(0, "lzy-verify", "c")["datasets"]]
        self.assertEqual(paths, ["c/ckpt.10.%r", "c/ckpt.20.%r"])

    def test_rank_in_the_directory(self):
        for rank in range(3):
            self.write(f"local/{rank}/state", self.content(rank))
        self.check(0, "lzy-protect", *SMALL, "local/%r/state")
        os.remove(self.path("local/1/state"))
        os.remove(self.path("local/1/.LZY.state"))
        os.rmdir(self.path("local/1"))
        self.check(0, "lzy-restore", "local/%r/state")
        self.assertEqual(self.read("local/1/state"), self.content(1))

    def test_fewer_members_than_parity_needs(self):
        for rank in range(2):
            self.write(f"few.{rank}", self.content(rank))
        self.check(3, "lzy-protect", "--parity", "2", "few.%r")

    def test_an_edited_member_that_has_lost_its_sidecar(self):
        """A restore without --force can do nothing here, so it is not advised."""
        os.remove(self.path("d/.LZY.state.1"))
        edited = b"edited" + self.content(1)[6:]
        self.write("d/state.1", edited)
        said = self.check(1, "lzy-verify", "d/state.%r").stdout
        self.assertNotIn("restore with", said)
        self.assertNotIn("repairable\n  d", said)
        self.assertIn("d/.LZY.state.1: metadata, offset 0, length 0, device 1: missing; the next commit makes it again", said)
        self.assertIn("to commit the edits and make the rest again: lzy-protect d/state.%r; to undo it: lzy-restore --force d/state.%r", said)
        # Damage elsewhere can be repaired, and the edit stays.
        self.flip("d/state.3", 5000)
        self.assertIn("restore with: lzy-restore d/state.%r", self.check(1, "lzy-verify", "d/state.%r").stdout)
        self.check(1, "lzy-restore", "d/state.%r")
        self.assertEqual((self.read("d/state.1"), self.read("d/state.3")), (edited, self.content(3)))
        self.assertEqual(self.check(1, "lzy-verify", "d/state.%r").stdout.splitlines()[1:], said.splitlines()[1:])
        self.check(0, "lzy-protect", "d/state.%r")
        self.check(0, "lzy-verify", "d/state.%r")
        self.assertEqual(self.read("d/state.1"), edited)

    def test_fewer_ranks_make_a_new_set(self):
        for rank in range(3):
            self.write(f"d/state.{rank}", self.content(rank + 10))
            os.remove(self.path(f"d/.LZY.state.{rank}"))
        for rank in range(3, RANKS):
            os.rename(self.path(f"d/state.{rank}"), self.path(f"elsewhere.{rank}"))
            os.rename(self.path(f"d/.LZY.state.{rank}"), self.path(f".LZY.elsewhere.{rank}"))
        self.check(0, "lzy-protect", *SMALL, "d/state.%r")
        for rank in range(3, RANKS):
            os.rename(self.path(f"elsewhere.{rank}"), self.path(f"d/state.{rank}"))
            os.rename(self.path(f".LZY.elsewhere.{rank}"), self.path(f"d/.LZY.state.{rank}"))
        self.assertEqual(self.only(self.report(0, "lzy-verify", "d/state.%r"))["devices"], 3)
        # The others are not protected any more.
        found = {one["path"]: one["state"] for one in self.report(4, "lzy-verify", "d")["datasets"]}
        older = {f"d/state.{rank}": "unprotected" for rank in range(3, RANKS)}
        self.assertEqual(found, {"d/state.%r": "intact"} | older)


class Replaced(CliTest):
    """Something that is no file has the name of a file."""

    def replace(self, name, kind):
        os.remove(self.path(name))
        if kind == "a directory":
            os.mkdir(self.path(name))
        elif kind == "no regular file":
            os.mkfifo(self.path(name))
        else:
            os.symlink("other", self.path(name))

    def test_a_member(self):
        self.write("other", b"other")
        for kind in ("a directory", "no regular file", "a symbolic link"):
            with self.subTest(kind=kind):
                for rank in range(3):
                    self.write(f"{kind}/s.{rank}", pattern_bytes(50000, seed=rank))
                self.check(0, "lzy-protect", *SMALL, f"{kind}/s.%r")
                self.replace(f"{kind}/s.1", kind)
                way = f"  {kind}/s.1 is {kind} now; first move it away: mv -n '{kind}/s.1' '{kind}/s.1.away'\n"
                self.assertIn(way + f"  restore with: lzy-restore '{kind}/s.%r'", self.check(1, "lzy-verify", f"{kind}/s.%r").stdout)
                self.assertIn(way, self.check(6, "lzy-restore", f"{kind}/s.%r").stdout)
                os.rename(self.path(f"{kind}/s.1"), self.path(f"{kind}/s.1.away"))
                self.check(0, "lzy-restore", f"{kind}/s.%r")
                self.assertEqual(self.read(f"{kind}/s.1"), pattern_bytes(50000, seed=1))
                self.assertTrue(os.path.lexists(self.path(f"{kind}/s.1.away")))

    def test_a_member_that_is_a_link_to_a_file(self):
        for rank in range(3):
            self.write(f"s.{rank}", pattern_bytes(50000, seed=rank))
        self.check(0, "lzy-protect", *SMALL, "s.%r")
        self.write("other", b"other")
        self.replace("s.1", "a symbolic link")
        said = self.check(1, "lzy-verify", "s.%r").stdout
        self.assertIn("  s.1 is a symbolic link now; first move it away: mv -n s.1 s.1.away\n", said)
        self.assertNotIn("was moved there", said)

    def test_a_link_that_leads_nowhere(self):
        self.write("f", pattern_bytes(500000))
        self.check(0, "lzy-protect", *SMALL, "f")
        os.remove(self.path("f"))
        os.symlink("nowhere", self.path("f"))
        for tool in ("lzy-verify", "lzy-restore"):
            said = self.check(2, tool, "f").stdout
            self.assertIn("  f is a symbolic link now; first move it away: mv -n f f.away\n", said)

    def test_only_one_file_of_a_pattern(self):
        self.write("a.1.b", pattern_bytes(5000))
        said = self.check(4, "lzy-verify", "a.%r.b").stderr
        self.assertIn("only one file matches, and a set has at least two. To protect it alone: lzy-protect a.1.b", said)

    def test_a_file(self):
        for kind in ("a directory", "no regular file", "a symbolic link"):
            with self.subTest(kind=kind):
                name = f"{kind}/f"
                self.write(name, pattern_bytes(500000))
                self.write(f"{kind}/other", b"other")
                self.check(0, "lzy-protect", *SMALL, name)
                self.replace(name, kind)
                # The link itself, if it is named, leads to another file.
                for path in [kind] if kind == "a symbolic link" else [kind, name]:
                    said = self.check(2, "lzy-verify", path).stdout
                    self.assertIn(f"{name} is {kind} now; first move it away: mv -n", said)
                    self.assertIn(f"if you deleted it: lzy-protect --remove --force '{name}'", said)
                self.check(2, "lzy-status", kind)
                self.check(2, "lzy-status", "--rescan", kind)
                self.assertIn(f"to see what can be restored: lzy-verify '{name}'", self.check(0, "lzy-info", "--prune", kind).stdout)
                self.assertTrue(os.path.exists(self.path(f"{kind}/.LZY.f")))


class ApartSets(CliTest):
    """Members in directories of their own, which several ranks look at."""

    def setUp(self):
        super().setUp()
        for rank in range(4):
            self.write(f"node{rank}/state", pattern_bytes(30000, seed=rank))
        self.check(0, "lzy-protect", *SMALL, "node%r/state")

    @unittest.skipIf(os.geteuid() != 0, "only root goes nowhere but where the user says")
    def test_root_may_name_one_member(self):
        for ranks in (None, 3):
            self.check(0, "lzy-verify", "node0/state", ranks=ranks)

    def test_hard_links_are_refused(self):
        os.remove(self.path("node2/state"))
        os.link(self.path("node1/state"), self.path("node2/state"))
        for ranks in (None, 3):
            for tool in (["lzy-verify"], ["lzy-verify", "--repair", "--force"], ["lzy-restore", "--force"]):
                done = self.check(6, *tool, "node%r/state", ranks=ranks)
                self.assertIn("node2/state: it is the same file as node1/state, by a hard link. Make it a file of its own, then verify the set: "
                              "cp -p node2/state node2/state.copy && mv node2/state.copy node2/state", done.stderr)
        shutil.copy2(self.path("node2/state"), self.path("node2/state.copy"))
        os.rename(self.path("node2/state.copy"), self.path("node2/state"))
        self.check(0, "lzy-verify", "--repair", "--force", "node%r/state")
        for rank in range(4):
            self.assertEqual(self.read(f"node{rank}/state"), pattern_bytes(30000, seed=rank))


if __name__ == "__main__":
    unittest.main()
