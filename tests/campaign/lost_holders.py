"""Rot that a commit accepted because another file holds it, too, each as the command lines that led to it."""

import unittest

from advice_lost import LONG_AGO
from lost_copies import COMMIT, REPAIR, Rotten


class Elsewhere(Rotten):
    """A member of a set rots, and a copy of it is protected in another directory, which only the catalogue knows."""

    SIZE = 20_000
    NAMES = [f"live/s.{rank}" for rank in range(4)]

    def state(self, change, rotten="s.1", copy="o/s.1"):
        world = self.world
        self.files(self.NAMES, self.SIZE)
        world.protect("'live/s.%r'")
        world.must(change)
        good, bad = self.rot(f"live/{rotten}")
        world.run("lzy-scrub live")
        world.must(f"mkdir -p o && cp -p live/{rotten} {copy} && lzy-protect -q --force o")
        return good, bad

    def needs_force(self, good, bad, rotten="live/s.1"):
        world = self.world
        for command in ("lzy-scrub live", "lzy-verify live", "lzy-restore live", "lzy-verify --repair live"):
            self.assertNotIn("lzy-protect live/s.%r", world.run(command).text.replace("'", ""), world.story())
        done = world.run("lzy-protect live")
        self.assertEqual(done.code, 9, world.story())
        self.assertIn(f"{COMMIT} live/s.%r", done.text.replace("'", ""))
        self.assertEqual(world.files()[rotten], bad)
        world.must(f"{REPAIR} 'live/s.%r'")
        self.assertEqual(world.files()[rotten], good)
        self.assertEqual(world.files()[f"{rotten}.replaced"], bad)

    def test_of_a_member_that_came_back_from_a_backup(self):
        self.needs_force(*self.state("cp -a live b && rm -r live && mv b live"))

    def test_of_a_copy_with_another_name(self):
        self.needs_force(*self.state("cp -a live b && rm -r live && mv b live", copy="o/s.2"))

    def test_of_a_member_that_lost_its_sidecar(self):
        good, _ = self.state("rm live/.LZY.s.1")
        world = self.world
        done = world.run("lzy-protect live")
        self.assertNotEqual(done.code, 0, world.story())
        self.assertIn(f"{COMMIT} live/s.%r", done.text)
        world.must("lzy-restore --force 'live/s.%r'")
        self.assertEqual(world.files()["live/s.1"], good)

    def test_members_that_exchanged_their_contents_are_committed(self):
        world = self.world
        self.files(self.NAMES, self.SIZE)
        world.protect("--parity 2 'live/s.%r'")
        world.must("cd live && cp -p s.1 t && cp -p s.2 s.1 && cp -p t s.2 && rm t")
        world.must("mkdir o && cp -p live/s.1 live/s.2 o/ && lzy-protect -q o")
        self.judge("lzy-protect live", "lzy-verify live", codes=[0, 0])

class BesideAGoodCopy(Rotten):
    """A file from a backup rots, and its rotten copy is protected. A good copy exists, too."""

    SIZE = 100_000

    def test_the_rot_is_not_committed(self):
        world = self.world
        self.files(["live/x"], self.SIZE)
        world.protect("live")
        world.must("cp -a live good && cp -a live b && rm -r live && mv b live")
        good, bad = self.rot("live/x")
        world.must("mkdir o && cp -p live/x o/")
        done = world.run("lzy-protect o")
        self.assertEqual(done.code, 4, world.story())
        self.assertIn(f"lzy-verify --repair {world.path('live/x')}", done.text)
        world.must("lzy-protect -q --force o")
        for words in ("live", "live good o"):
            done = world.run(f"lzy-protect {words}")
            self.assertEqual(done.code, 9, world.story())
            self.assertIn(f"{COMMIT} live/x", done.text)
        world.must(f"{REPAIR} live/x")
        self.assertEqual(world.files(), {"live/x": good, "live/x.replaced": bad, "good/x": good, "o/x": bad})


class OtherName(Rotten):
    """A file rots that has a second name, a hard link in another directory."""

    SIZE = 100_000

    def state(self, directory="snap"):
        world = self.world
        self.files(["live/x"], self.SIZE)
        world.protect("live")
        world.must(f"mkdir {directory} && cp -l live/x {directory}/")
        return self.rot("live/x")

    def is_refused(self, words):
        world = self.world
        good, _ = self.state()
        done = world.run(f"lzy-protect {words}")
        self.assertNotEqual(done.code, 0, world.story())
        self.assertIn("lzy-verify --repair", done.text)
        self.assertNotIn("snap/.LZY.x", world.superblocks())
        world.must("lzy-verify --repair live/x")
        self.assertEqual({world.files()[path] for path in ("live/x", "snap/x")}, {good})
        self.judge(f"lzy-protect {words}", f"lzy-verify {words}", codes=[0, 0])

    def test_both_directories_are_named(self):
        self.is_refused("snap live")

    def test_only_the_catalogue_knows_the_first_one(self):
        self.is_refused("snap")


class InWholeSeconds(Rotten):
    """A tool that keeps whole seconds (tar in its default format) put a file back, and another file has its rot."""

    TIME = LONG_AGO + 500_000_000

    def state(self, names, words, size):
        world = self.world
        self.files(names, size, self.TIME)
        world.protect(words)
        world.must("tar cf t.tar live && rm -r live && tar xf t.tar")

    def needs_force(self, good, bad, words="live/x", rotten="live/x"):
        world = self.world
        for command in ("lzy-scrub live", "lzy-verify live", "lzy-restore live", "lzy-verify --repair live"):
            self.assertNotIn(f"lzy-protect {words}", world.run(command).text.replace("'", ""), world.story())
        done = world.run("lzy-protect live")
        self.assertNotEqual(done.code, 0, world.story())
        self.assertIn(f"{COMMIT} {words}", done.text.replace("'", ""))
        self.assertEqual(world.files()[rotten], bad)
        world.must(f"{REPAIR} '{words}'")
        self.assertEqual(world.files()[rotten], good)
        self.assertIn(bad, (world.files().get(f"{rotten}.replaced"), world.files().get("live/a")))

    def test_of_a_file_whose_copy_is_beside_it(self):
        for size in (3000, self.SIZE):
            with self.subTest(size=size):
                self.state(["live/x"], "live", size)
                good, bad = self.rot("live/x")
                self.world.must("cp -p live/x live/a")
                self.assertEqual(self.world.run("lzy-protect live").code, 1, self.world.story())
                self.needs_force(good, bad)
                self.world.must("rm -r live")

    def test_of_a_file_that_is_put_back_twice(self):
        world = self.world
        self.files(["live/x"], self.SIZE, self.TIME)
        world.protect("live")
        good, bad = self.rot("live/x")
        world.must("tar cf t.tar live && rm -r live && tar xf t.tar && lzy-verify -q --repair live")
        self.assertEqual([world.files()[path] for path in ("live/x", "live/x.replaced")], [good, bad])
        world.must("lzy-protect -q live && tar xf t.tar")
        self.needs_force(good, bad)

    def test_of_a_member(self):
        self.state([f"live/s.{rank}" for rank in range(4)], "'live/s.%r'", 20_000)
        good, bad = self.rot("live/s.1")
        self.world.must("mkdir o && cp -p live/s.1 o/ && lzy-protect -q o")
        self.needs_force(good, bad, "live/s.%r", "live/s.1")

    def test_another_content_is_committed(self):
        """It is nothing like what was committed, so it is an edit."""
        for size in (3000, self.SIZE):
            with self.subTest(size=size):
                world = self.world
                self.state(["live/x", "live/a"], "live", size)
                world.must("cp -p live/a live/x")
                self.judge("lzy-protect live", "lzy-verify live", codes=[0, 0])
                world.must("rm -r live")


if __name__ == "__main__":
    unittest.main()
