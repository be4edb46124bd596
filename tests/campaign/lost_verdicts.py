"""Verdicts that were wrong, or that depended on how lzy was asked, each as the command lines that led to it (advice_lost.py has the
first ones)."""

import re
import unittest

from advice_lost import LONG_AGO, Lost, WholeSeconds
from advice_world import SECOND


class SingleFilesOfAPattern(WholeSeconds):
    """A pattern over files that were protected one by one commits nothing that a commit of the file alone refuses."""

    def state(self, size, same_time):
        """p.0 is what a was, damaged. Returns what a was."""
        world = self.world
        for number, name in enumerate(("a", "p.0", "p.1")):
            self.files([name], size, LONG_AGO + (0 if same_time else number * SECOND))
        world.protect(".")
        right = world.read("a")
        world.flip("a", 100)
        world.must("mv a p.0")
        return right

    def refused(self, size, same_time):
        world = self.world
        right = self.state(size, same_time)
        rot = world.read("p.0")
        alone = self.judge("lzy-protect p.0")[0]
        done = self.judge("lzy-protect 'p.%r'")[0]
        self.assertNotEqual(alone.code, 0, world.story())
        self.assertEqual(done.code, alone.code, world.story())
        self.assertNotIn("p.%r: protected", done.text)
        self.assertIn("see first what was committed before: lzy-verify p.0", done.text)
        self.assertEqual(world.read("p.0"), rot)
        world.must("mv p.0 a && lzy-verify --repair -q a")
        self.assertEqual(world.read("a"), right, world.story())
        world.must("rm -f a p.* .LZY*")

    def test_a_damaged_file_that_was_renamed_becomes_no_member(self):
        for same_time in (False, True):
            for size in (3000, 30000, 300000):
                with self.subTest(size=size, same_time=same_time):
                    self.refused(size, same_time)

    def test_an_edited_file_becomes_a_member(self):
        world = self.world
        self.files(["a", "p.0", "p.1"])
        world.protect(".")
        world.write_random("p.0", 3000)
        self.judge("lzy-protect 'p.%r'", "lzy-verify .", codes=[0, 0])


class DirectoriesAndNames(Lost):
    """A directory says of a file what its name says."""

    def test_a_damaged_file_whose_sidecar_was_set_aside(self):
        world = self.world
        self.files(["a/f", "a/q"], 20000)
        world.protect("a")
        right = world.read("a/f")
        world.must("mv a/f a/g && mv a/q a/f && cp -a a bk && rm -rf a")
        world.flip("bk/g", 100)
        self.judge("lzy-protect bk")
        world.must("rm bk/.LZY.q")  # of a file that is f now, and protected as f
        name, directory = self.judge("lzy-verify bk/g", "lzy-verify bk", codes=[4, 4])
        said = "bk/g: by its size and time, and by its inode or most of its content, it was 'f'"
        self.assertIn(said, name.text)
        self.assertIn(said, directory.text)
        for command in ("lzy-verify --repair bk", "lzy-restore bk", "lzy-scrub bk"):
            done = self.judge(command, codes=[4])[0]
            self.assertIn(said, done.text)
        world.must("mv bk/f bk/q && mv bk/g bk/f && rm bk/.LZY.f && mv bk/.LZY-tmp.*.f bk/.LZY.f && lzy-verify --repair -q bk/f")
        self.assertEqual(world.read("bk/f"), right, world.story())

    def test_a_new_file_beside_a_sidecar_that_was_set_aside(self):
        """It is not protected, and nothing else is to be said of it."""
        world = self.world
        self.files(["a/f", "a/q"], 20000)
        world.protect("a")
        world.must("mv a/f a/g && mv a/q a/f && cp -a a bk && rm -rf a")
        world.flip("bk/g", 100)
        self.judge("lzy-protect bk")
        world.must("rm bk/.LZY.q bk/g")
        self.files(["bk/new"], 20000)
        done = self.judge("lzy-verify bk", codes=[0])[0]
        self.assertIn("1 file is not protected", done.text)

    def test_a_loss_is_no_less_a_loss(self):
        """The catalogue knows the file, and a sidecar that no file uses might be of it."""
        world = self.world
        self.files(["a/f", "a/q"], 20000)
        world.protect("a")
        world.must("mv a/f a/g && mv a/q a/f && cp -a a bk && rm -rf a")
        world.must("lzy-protect -q bk && rm bk/.LZY.g bk/.LZY.q")
        world.write_random("bk/g", 20000, LONG_AGO)
        for _ in range(2):
            done = world.run("lzy-verify bk")
            self.assertEqual(done.code, 4, world.story())
            self.assertIn("bk/g: ", done.text)


class Threads(Lost):
    """Files that exchanged names, one of them edited, came back from a backup. What is said of them does not depend on threads."""

    BACKUPS = ("tar cf t.tar d && rm -rf d && tar xf t.tar && rm t.tar", "cp -r d e && rm -rf d && mv e d")
    SWAP = "mv d/a t && mv d/b d/a && mv t d/b"
    ROTATION = "mv d/a t && mv d/b d/a && mv d/c d/b && mv t d/c"

    def said(self, change, edited, same_time, command="lzy-verify d", times=3):
        world = self.world
        for back in self.BACKUPS:
            with self.subTest(back=back, edited=edited, same_time=same_time):
                for number, name in enumerate("abc"):
                    self.files([f"d/{name}"], 3000, LONG_AGO + (0 if same_time else number * SECOND))
                world.protect("d")
                world.must(change)
                world.write_random(edited, 3000)
                world.must(back)
                ends = set()
                for threads in ("1", "2", "4") * times:
                    done = world.run(command, {"LZY_THREADS": threads})
                    lines = re.sub(r", [\d.]+ \w+/s\)", ")", done.text).splitlines(keepends=True)  # the speed varies
                    ends.add((done.code, "".join(sorted(lines))))
                world.must("rm -rf d")
                self.assertEqual(len(ends), 1, "\n".join(text for _, text in ends))
                code, text = ends.pop()
                self.assertEqual(code, 4, text)
                self.assertIn(f"{edited}: it is not protected any more: by its content", text)

    def test_the_first_of_two_files_that_exchanged_names_was_edited(self):
        for same_time in (True, False):
            self.said(self.SWAP, "d/a", same_time)

    def test_the_second_of_two_files_that_exchanged_names_was_edited(self):
        for same_time in (True, False):
            self.said(self.SWAP, "d/b", same_time)

    def test_one_of_three_files_that_were_rotated_was_edited(self):
        for edited in ("d/a", "d/b", "d/c"):
            self.said(self.ROTATION, edited, same_time=False)

    def test_what_is_advised_protects_all_of_them(self):
        world = self.world
        for edited in ("d/a", "d/b"):
            self.files(["d/a", "d/b"])
            world.protect("d")
            world.must(self.SWAP)
            world.write_random(edited, 3000)
            world.must(self.BACKUPS[0])
            self.follow("lzy-verify d")
            self.judge("lzy-verify d", "lzy-verify --all d", codes=[0, 0])
            world.must("rm -rf d")


class LostMembers(Lost):
    """Sidecars of members that are gone, and of which a commit of the others says nothing."""

    def test_a_set_that_was_committed_without_its_last_member(self):
        world = self.world
        for rank in range(4):
            self.files([f"d/s.{rank}"], 70000, LONG_AGO + rank * SECOND)
        world.protect("'d/s.%r'")
        world.must("mv d/s.1 t && mv d/s.2 d/s.1 && mv t d/s.2 && rm d/s.3 && lzy-protect -q --force 'd/s.%r'")
        done = self.judge("lzy-verify d", "lzy-verify 'd/s.%r'", codes=[4, 0])
        self.assertIn("'d/s.3' no longer exists, and was only a member of an older set of 4 files", done[0].text)
        self.assertIn("lzy-info --prune d", done[0].text)
        self.judge("lzy-info --prune d", "lzy-verify d", codes=[0, 0])

    def test_a_set_whose_member_is_in_another_directory_needs_the_sidecar(self):
        """Members of two sets were exchanged, with their sidecars, and one set was committed without its last member."""
        world = self.world
        for rank in range(3):
            self.files([f"s.{rank}", f"e/s.{rank}"], 70000, LONG_AGO + rank * SECOND)
        world.protect("s.%r")
        world.protect("e/s.%r")
        self.swap("s.1", "e/s.1", also_sidecars=True)
        world.must("rm e/s.2 && lzy-protect -q --force e/s.%r")
        done = self.judge("lzy-info --prune e", "lzy-verify e", codes=[0, 4])
        self.assertIn("its set may need it", done[0].text)
        self.assertIn("e/.LZY.s.2", world.superblocks())

    def test_a_member_that_has_another_name_is_not_lost(self):
        world = self.world
        for rank in range(3):
            self.files([f"d/s.{rank}"], 3000, LONG_AGO + rank * SECOND)
        world.protect("'d/s.%r'")
        world.must("cp -a d/s.2 d/old && rm d/s.2 && lzy-protect -q --force 'd/s.%r' && lzy-protect -q d/old")
        self.judge("lzy-verify d", codes=[0])

    def test_a_sidecar_that_came_along_with_another_name_makes_no_set(self):
        """A member of another directory changed places with a file, was renamed there, and its set was committed again."""
        world = self.world
        self.files(["a/h", "a/l"] + [f"b/s.{rank}" for rank in range(5)], 70000)
        world.protect("'b/s.%r' --parity 2")
        world.protect("a/h a/l")
        self.swap("a/l", "b/s.4", also_sidecars=True)
        world.must("mv a/l a/l.old && tar cf t.tar --exclude='.LZY*' a b && find a b -type f ! -name '.LZY*' -delete && tar xf t.tar && rm t.tar")
        self.judge("lzy-protect 'b/s.%r'")
        done = world.run("lzy-verify .")
        self.assertNotIn("a/s.%r", done.text)
        self.assertIn("a/l: its sidecar is that of member 4 of the set b/s.%r, which is elsewhere", done.text)
        self.assertNotEqual(done.code, 0)


if __name__ == "__main__":
    unittest.main()
