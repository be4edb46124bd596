"""What was lost when files of equal size and time changed places, and what commands on one name did to another file, each as the
command lines that did it (advice_lost.py has the first ones)."""

import unittest

from advice_lost import LONG_AGO, Lost
from advice_world import SECOND


class EqualTimes(Lost):
    """Size and time are no proof: two files may have both."""

    def rotten_after_swap(self, size):
        world = self.world
        self.files(["a/f0", "a/f1"], size)
        world.protect("a")
        right = world.read("a/f0")
        self.swap("a/f0", "a/f1")
        world.flip("a/f1", 100)
        done = self.judge("lzy-protect a/f0", "lzy-protect a", codes=[9, 9])
        self.assertIn("First give that file its name back", done[0].text)
        self.swap("a/f0", "a/f1")
        world.must("lzy-verify --repair -q a/f0")
        self.assertEqual(world.read("a/f0"), right)

    def test_a_swap_with_rot_is_not_committed(self):
        self.rotten_after_swap(20000)

    def test_the_same_with_several_blocks(self):
        self.rotten_after_swap(300000)

    def test_a_file_without_a_sidecar_whose_old_name_has_a_file_of_its_size_and_time(self):
        world = self.world
        for size in (20000, 200000):
            self.files(["a/f", "a/q"], size)
            world.protect("a")
            world.must("mv a/f a/g && mv a/q a/f && cp -a a bk && rm -rf a")
            world.flip("bk/g", 100)
            done = self.judge("lzy-protect bk", codes=[4])[0]
            self.assertIn("bk/g: by its size and time", done.text)
            world.must("rm -rf bk")

    def test_a_commit_beside_it_sets_the_sidecar_aside(self):
        world = self.world
        for _ in range(6):
            self.files(["a/f"], 20000)
            self.files(["a/q"], 20000, LONG_AGO + 9 * SECOND)
            world.protect("a")
            world.must("mv a/f a/g && mv a/q a/f && cp -a a bk && rm -rf a")
            world.flip("bk/g", 100)
            self.judge("lzy-protect bk", codes=[4])
            world.must("rm -rf bk")

    def test_a_rotation_that_came_back(self):
        world = self.world
        self.files(["a/f1", "a/f2"], 20000)
        world.protect("a")
        world.must("mv a/f2 a/f3 && mv a/f1 a/f2")
        self.files(["a/f1"], 20000)
        world.must("cp -a a bk && rm -rf a")
        right = world.read("bk/f3")
        world.flip("bk/f3", 100)
        done = world.run("lzy-protect bk")
        self.assertNotEqual(done.code, 0, world.story())
        self.assertIn("bk/f3: by its size and time", done.text)
        world.must("mv bk/f2 bk/f1.old && mv bk/f3 bk/f2 && lzy-verify --repair -q bk/f2")
        self.assertEqual(world.read("bk/f2"), right)


class MovedMember(Lost):
    """A member that was moved to another directory with its sidecar, and is damaged there. A new file has its name."""

    def refused(self, member, sidecar, commands):
        world = self.world
        for rank in range(3):
            self.files([f"s.{rank}"], 30000, LONG_AGO + rank * SECOND)
        world.must("mkdir e")
        world.protect("s.%r")
        right = world.read("s.1")
        world.flip("s.1", 15000)
        world.must(f"mv s.1 {member} && mv .LZY.s.1 {sidecar}")
        self.files(["s.1"], 30500, LONG_AGO + 500 * SECOND)
        for command in commands:
            done = self.judge(command)[0]
            self.assertNotEqual(done.code, 0, world.story())
            self.assertNotIn("s.%r: protected", done.text)
        world.must(f"mv s.1 other && mv {member} s.1 && mv {sidecar} .LZY.s.1 && lzy-verify --repair -q s.%r")
        self.assertEqual(world.read("s.1"), right, world.story())

    def test_is_needed_by_its_set(self):
        self.refused("e/old", "e/.LZY.old", ("lzy-protect .", "lzy-protect s.%r"))


class OneName(Lost):
    """A command on one name takes nothing away from another file."""

    def test_a_copy_in_the_place_of_a_lost_file_keeps_what_can_rebuild_it(self):
        world = self.world
        self.files(["a/f"], 300)
        self.files(["b/f"], 300, LONG_AGO - SECOND)
        world.protect("a b")
        lost = world.read("b/f")
        world.must("rm b/f")
        done = world.run("lzy-copy a/f b/")
        self.assertEqual(done.code, 0, world.story())
        self.assertIn("its sidecar can rebuild it", done.text)
        world.must("mkdir away && mv b/f b/.LZY.f away/ && " + done.text.split("then: ")[1].splitlines()[0])
        self.assertEqual(world.read("b/f"), lost)

    def test_a_set_is_not_copied_over_its_own_members(self):
        world = self.world
        self.files(["ck.0.0", "ck.0.1", "ck.1.0"])
        world.protect("ck.0.%r ck.1.0")
        before = world.files()
        done = world.run("lzy-copy 'ck.0.%r' 'ck.%r.0'")
        self.assertEqual((done.code, world.files()), (3, before), world.story())
        self.assertIn("ck.0.0: is a member of ck.0.%r, too", done.text)

    def test_a_copy_of_a_lost_file_replaces_its_sidecar(self):
        world = self.world
        self.files(["a/f"], 300)
        world.must("cp -r a b")
        world.protect("a b")
        world.must("rm b/f")
        done = world.run("lzy-copy a/f b/")
        self.assertEqual((done.code, sorted(world.superblocks())), (0, ["a/.LZY.f", "b/.LZY.f"]), world.story())

    def test_a_lost_file_with_a_star_in_its_name(self):
        world = self.world
        self.files(["a/f*", "a/f1", "a/f2"])
        world.protect("a")
        world.must("rm 'a/f*' && lzy-protect --remove --yes --force 'a/f*'")
        self.assertEqual(sorted(world.superblocks()), ["a/.LZY.f1", "a/.LZY.f2"], world.story())

    def test_a_lost_file_with_a_rank_in_its_name(self):
        world = self.world
        self.files(["a/p%r", "a/p0", "a/p1"])
        world.protect("a")
        lost = world.read("a/p%r")
        world.must("rm 'a/p%r' && lzy-restore -q 'a/p%r'")
        self.assertEqual(world.read("a/p%r"), lost)

    def test_losses_are_forgotten_by_name(self):
        world = self.world
        self.files(["a/g[1]", "a/g1"])
        world.protect("a")
        world.must("rm 'a/g[1]' a/g1 'a/.LZY.g[1]' a/.LZY.g1")
        self.assertEqual(world.run("lzy-verify a").code, 4)
        self.assertIn("1 dataset", world.run("lzy-status --forget 'a/g[1]'").text)
        self.assertEqual(world.run("lzy-verify a").code, 4, world.story())

    def test_the_protection_of_a_renamed_file_is_not_removed(self):
        world = self.world
        self.files(["a"], 30000)
        world.protect("a")
        world.must("mv a a.1")
        self.files(["a"], 31000, LONG_AGO + SECOND)
        done = world.run("lzy-protect --remove --yes a")
        self.assertEqual(done.code, 4, world.story())
        self.assertIn("its sidecar is that of 'a.1', which was renamed", done.text)
        self.assertIn("a.1: intact", world.run("lzy-verify a.1").text)

    def test_the_protection_of_a_file_that_changed_places_is_not_removed(self):
        world = self.world
        self.files(["a", "b"], 30000)
        world.protect("a b")
        self.swap("a", "b")
        self.assertEqual(world.run("lzy-protect --remove --yes a").code, 4, world.story())
        self.assertEqual(world.run("lzy-verify a b").code, 0, world.story())

    def test_a_hard_link_to_a_damaged_file_is_not_committed(self):
        world = self.world
        self.files(["ck"], 30000)
        world.protect("ck")
        right = world.read("ck")
        world.must("ln ck t")
        world.flip("ck", 100)
        for command, code in (("lzy-protect t", 4), ("lzy-protect .", 1)):
            done = self.judge(command, codes=[code])[0]
            self.assertIn("t: it is a hard link to", done.text)
        world.must("lzy-verify --repair -q ck && lzy-protect -q t")
        self.assertEqual((world.read("ck"), world.read("t")), (right, right))

    def test_a_member_that_is_committed_alone_keeps_the_parity_of_a_lost_one(self):
        world = self.world
        for number, name in enumerate(["k", "ck.0", "ck.1"]):
            self.files([name], 70000, LONG_AGO + number * SECOND)
        world.protect("ck.%r")
        world.protect("k")
        world.must("mv k ck.1 && mv ck.0 k && lzy-protect -q k")
        self.assertIn(".LZY.ck.0", world.superblocks(), world.story())


if __name__ == "__main__":
    unittest.main()
