"""The last sidecar that knew what a file was, and that a commit or a removal took away; and rot that a commit accepted because the
file had come from another place. Each as the command lines that led to it."""

import os
import unittest

from advice_lost import LONG_AGO
from lost_copies import Rotten


class Replaced(Rotten):
    """A file was moved away and rots. A new one has its name, and its sidecar."""

    SIZE = 100_000

    def state(self, to="d/old/log.1", size=SIZE, others=("d/old/x",), move="mv d/log {to}", words="d"):
        world = self.world
        self.files(["d/log", *others], size)
        world.protect(" ".join([words, *others]))
        world.must(f"mkdir -p {os.path.dirname(to)} && {move.format(to=to)}")
        good, bad = self.rot(to)
        world.write_random("d/log", size)
        return good, bad

    def is_kept(self, good, bad, to="d/old/log.1", words="d/log", name="d/log"):
        """The sidecar stays, whatever is typed without --force, and can give back what the file was."""
        world = self.world
        sidecar = world.superblocks()[world.sidecar(name)]
        shown = world.run(f"lzy-verify {os.path.dirname(name)}")
        for command in ("lzy-status", f"lzy-protect {words}", f"lzy-protect {os.path.dirname(name)}", "lzy-status"):
            done = world.run(command)
            self.assertEqual(done.code, 9, world.story())
            self.assertIn(f"lzy-protect --force {words}", done.text.replace("'", "").replace(world.home + "/", ""))
        self.assertIn(to, shown.text)
        self.assertNotIn(f"lzy-protect {words}", shown.text.replace("'", ""))
        self.assertEqual(world.superblocks()[world.sidecar(name)], sidecar)
        self.assertEqual(world.files()[to], bad)
        world.must(f"mv {name} new && mv {to} {name} && lzy-verify --repair '{words}'")
        self.assertEqual(world.files()[name], good)

    def test_to_a_directory_below(self):
        self.is_kept(*self.state())

    def test_to_a_directory_below_in_which_nothing_is_protected(self):
        self.is_kept(*self.state(others=()))

    def test_to_a_directory_that_only_the_catalogue_knows(self):
        self.is_kept(*self.state("e/log.1", others=["e/x"]), to="e/log.1")

    def test_of_one_block(self):
        self.is_kept(*self.state(size=3000))

    def test_of_one_block_to_another_file_system(self):
        self.is_kept(*self.state(size=3000, move="cp -p d/log {to} && rm d/log"))

    def test_to_another_file_system(self):
        self.is_kept(*self.state(move="cp -p d/log {to} && rm d/log"))

    def test_of_a_member(self):
        world = self.world
        self.files([f"d/s.{rank}" for rank in range(4)] + ["d/old/x"], 20_000)
        world.protect("'d/s.%r' d/old")
        world.must("mv d/s.1 d/old/")
        good, bad = self.rot("d/old/s.1")
        world.write_random("d/s.1", 20_000)
        self.is_kept(good, bad, "d/old/s.1", "d/s.%r", "d/s.1")

    def test_by_a_copy(self):
        world = self.world
        good, bad = self.state()
        world.write_random("new", 5000)
        world.must("lzy-copy new d/log")
        kept = [name for name in os.listdir(world.path("d")) if "LZY" in name and name != ".LZY.log"]
        self.assertEqual(len(kept), 1, world.story())
        world.must(f"mv d/log . && mv d/.LZY.log . && mv d/old/log.1 d/log && mv d/{kept[0]} d/.LZY.log && lzy-verify --repair d/log")
        self.assertEqual(world.files()["d/log"], good)
        self.assertNotEqual(good, bad)

    def test_a_whole_file_stops_no_commit(self):
        world = self.world
        self.files(["d/log"], self.SIZE)
        world.protect("d")
        world.must("mkdir d/old && mv d/log d/old/log.1")
        world.write_random("d/log", self.SIZE)
        self.judge("lzy-protect d/log", "lzy-verify d/log", codes=[0, 0])

    def test_a_program_that_replaces_its_file_is_never_refused(self):
        world = self.world
        self.files(["d/log", "d/old/log.0", "e/x"], self.SIZE)
        world.protect("d e")
        for _ in range(3):
            world.write_random("d/next", self.SIZE)
            world.must("mv d/next d/log")
            self.judge("lzy-protect d/log", "lzy-verify d/log", codes=[0, 0])
        self.assertEqual([name for name in os.listdir(world.path("d")) if name.startswith(".LZY")], [".LZY.log"])

    def test_a_file_that_was_edited_after_the_move_stops_no_commit(self):
        world = self.world
        self.files(["d/log"], self.SIZE, LONG_AGO)
        world.protect("d")
        world.must("mkdir d/old && mv d/log d/old/log.1 && echo more >>d/old/log.1")
        world.write_random("d/log", self.SIZE)
        self.judge("lzy-protect d/log", "lzy-verify d/log", codes=[0, 0])


class CameFrom(Rotten):
    """A file without a sidecar has the size and time of one that was protected elsewhere, and is gone from there. It is rotten."""

    SIZE = 100_000

    def is_refused(self, command, good, bad, now, was, words=None, repair="lzy-verify --repair"):
        world = self.world
        done = world.run(command)
        self.assertNotEqual(done.code, 0, world.story())
        self.assertIn(f"lzy-protect --force {now}", done.text)
        self.assertNotIn(world.sidecar(now), world.superblocks())
        self.assertEqual(world.files()[now], bad)
        world.must(f"rm -f {was} && mv {now} {was} && {repair} '{words or was}'")
        self.assertEqual(world.files()[was], good)

    def state(self, move, moved):
        world = self.world
        self.files(["d/a", "d/y"], self.SIZE)
        world.protect("d")
        world.must(f"mkdir e && {move}")
        return self.rot(moved)

    def test_a_directory_that_only_the_catalogue_knows(self):
        self.is_refused("lzy-protect e", *self.state("mv d/a e/b", "e/b"), "e/b", "d/a")

    def test_another_file_system_and_a_directory_that_only_the_catalogue_knows(self):
        self.is_refused("lzy-protect e/b", *self.state("cp -p d/a e/b && rm d/a", "e/b"), "e/b", "d/a")

    def test_a_set_that_only_the_catalogue_knows(self):
        world = self.world
        self.files([f"d/s.{rank}" for rank in range(4)], 20_000)
        world.protect("'d/s.%r'")
        world.must("mkdir e && mv d/s.1 e/b")
        self.is_refused("lzy-protect e", *self.rot("e/b"), "e/b", "d/s.1", "d/s.%r")

    def test_a_place_that_has_a_link_to_the_new_one_now(self):
        self.is_refused("lzy-protect .", *self.state("mv d/a e/a && rm d/y d/.LZY.y && ln -s ../e/a d/a", "e/a"), "e/a", "d/a")

    def test_a_whole_file_is_committed(self):
        world = self.world
        self.files(["d/a", "d/y"], self.SIZE)
        world.protect("d")
        world.must("mkdir e && mv d/a e/b")
        self.judge("lzy-protect e", "lzy-verify e", codes=[0, 0])

    def test_a_copy_of_a_file_that_is_there_is_committed(self):
        self.state("cp -p d/a e/b", "e/b")
        self.judge("lzy-protect e", "lzy-verify e", codes=[0, 0])

    # A member that lost its sidecar: only the records of its set tell its size and time.

    def renamed_member(self, to):
        world = self.world
        self.files([f"live/s.{rank}" for rank in range(4)], 20_000, LONG_AGO)
        world.protect("'live/s.%r'")
        world.must(f"mkdir o && rm live/.LZY.s.1 && mv live/s.1 {to}")
        return self.rot(to)

    def test_a_set_that_lost_its_sidecar(self):
        good, bad = self.renamed_member("live/t")
        self.is_refused("lzy-protect live", good, bad, "live/t", "live/s.1", "live/s.%r", "lzy-restore")

    def test_a_set_in_another_directory_that_lost_its_sidecar(self):
        good, bad = self.renamed_member("o/t")
        self.is_refused("lzy-protect .", good, bad, "o/t", "live/s.1", "live/s.%r", "lzy-restore")

    def test_a_member_that_was_made_again_leaves_no_claim(self):
        self.renamed_member("live/t")
        self.world.must("lzy-restore -q 'live/s.%r'")
        self.judge("lzy-protect live/t", "lzy-verify live", codes=[0, 0])

    def test_a_copy_of_another_member_is_committed(self):
        world = self.world
        self.files([f"live/s.{rank}" for rank in range(4)], 20_000, LONG_AGO)
        world.protect("'live/s.%r'")
        world.must("rm live/.LZY.s.1 live/s.1 && cp -p live/s.2 live/t")
        self.judge("lzy-protect live/t", "lzy-verify live/t", codes=[0, 0])


class Removed(Rotten):
    """lzy-protect --remove took the only parity of a damaged file."""

    SIZE = 100_000
    REMOVE = "lzy-protect --remove --yes"

    def is_refused(self, words, code, *texts):
        world = self.world
        sidecars = world.superblocks()
        for command in (f"{self.REMOVE} {words}", f"{self.REMOVE} d"):
            done = world.run(command)
            self.assertEqual(done.code, code, world.story())
            for text in texts:
                self.assertIn(text, done.text)
            self.assertEqual(world.superblocks(), sidecars)

    def protect(self, names, words, size=SIZE):
        self.files(names, size)
        self.world.protect(words)

    def test_of_a_file(self):
        self.protect(["d/f"], "d")
        good, _ = self.rot("d/f")
        self.is_refused("d/f", 1, "lzy-verify --repair d/f", f"{self.REMOVE[:-6]} --force d/f")
        self.world.must("lzy-verify --repair d/f")
        self.assertEqual(self.world.files()["d/f"], good)
        self.world.must(f"{self.REMOVE} d/f")
        self.assertEqual(self.world.superblocks(), {})

    def test_of_a_member(self):
        self.protect([f"d/s.{rank}" for rank in range(4)], "'d/s.%r'", 20_000)
        good, _ = self.rot("d/s.1")
        self.is_refused("'d/s.%r'", 1, "lzy-verify --repair d/s.%r")
        self.world.must("lzy-verify --repair 'd/s.%r'")
        self.assertEqual(self.world.files()["d/s.1"], good)

    def test_of_a_file_that_was_moved_while_another_one_has_its_name(self):
        world = self.world
        self.protect(["d/f", "e/x"], "d e")
        world.must("mv d/f e/g")
        good, _ = self.rot("e/g")
        world.write_random("d/f", 500)
        self.is_refused("d/f", 4, "e/g", "--force")
        world.must("mv e/g d/f && lzy-verify --repair d/f")
        self.assertEqual(world.files()["d/f"], good)

    def test_of_a_member_that_was_moved_while_another_file_has_its_name(self):
        world = self.world
        self.protect([f"d/s.{rank}" for rank in range(4)], "'d/s.%r'", 20_000)
        world.must("mkdir d/old && mv d/s.1 d/old/t")
        good, _ = self.rot("d/old/t")
        world.write_random("d/s.1", 20_000)
        self.is_refused("'d/s.%r'", 4, "d/old/t", "--force")
        world.must("mv d/old/t d/s.1 && lzy-verify --repair 'd/s.%r'")
        self.assertEqual(world.files()["d/s.1"], good)

    def test_force_removes_it(self):
        self.protect(["d/f"], "d")
        self.rot("d/f")
        self.world.must(f"{self.REMOVE} --force d/f")
        self.assertEqual(self.world.superblocks(), {})

    def test_of_whole_and_of_edited_files_it_is_removed(self):
        self.protect(["d/f", "d/g"], "d")
        self.world.must("echo more >>d/g")
        self.world.must(f"{self.REMOVE} d")
        self.assertEqual(self.world.superblocks(), {})


if __name__ == "__main__":
    unittest.main()
