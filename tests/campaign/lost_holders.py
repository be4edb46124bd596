"""Rot that a commit accepted because another file holds it, too, each as the command lines that led to it."""

import unittest

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
        world.must(f"mkdir -p o && cp -p live/{rotten} {copy} && lzy-protect -q o")
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

    def test_members_that_exchanged_their_contents_are_committed(self):
        world = self.world
        self.files(self.NAMES, self.SIZE)
        world.protect("--parity 2 'live/s.%r'")
        world.must("cd live && cp -p s.1 t && cp -p s.2 s.1 && cp -p t s.2 && rm t")
        world.must("mkdir o && cp -p live/s.1 live/s.2 o/ && lzy-protect -q o")
        self.judge("lzy-protect live", "lzy-verify live", codes=[0, 0])


if __name__ == "__main__":
    unittest.main()
