"""Files that were moved and protected again, sets whose backup lzy knows, and sidecars that a pruned directory had for another one. Each as
the command lines that led to a false verdict, or to the loss of a sidecar."""

import unittest

from lost_copies import Rotten


class MovedAndProtected(Rotten):
    """A file was moved, protected at its new place, and rots: its own sidecar repairs it, whatever the catalogue knows."""

    SIZE = 30_000

    def repaired(self, change, path):
        world = self.world
        self.files(["data/a", "data/b"], self.SIZE)
        world.protect("data")
        world.must(change)
        good, _ = self.rot(path)
        self.judge(f"lzy-scrub --repair {path.split('/')[0]}", codes=[0])
        self.assertEqual(world.files()[path], good)
        self.intact(f"lzy-verify {path}")

    def test_of_a_moved_file(self):
        self.repaired("mkdir arch && mv data/* arch/ && lzy-protect arch", "arch/a")

    def test_of_a_hard_link(self):
        self.repaired("mkdir snap && ln data/a snap/a && lzy-protect snap && rm data/a", "snap/a")


class SimilarVersion(Rotten):
    """A new version has the name and the mtime of a file that was renamed, and is similar to it."""

    def test_a_repair_keeps_the_new_version(self):
        world = self.world
        self.files(["ck"], 300_000)
        world.protect("--block-size 4K ck")
        world.must("mv ck ck.prev && cp ck.prev ck && printf NEW | dd of=ck bs=1 seek=100000 conv=notrunc && touch -r ck.prev ck")
        new = world.files()["ck"]
        for command in ("lzy-verify .", "lzy-verify --repair .", "lzy-restore ."):
            world.run(command)
        self.assertIn(new, world.files().values(), world.story())


class LostSets(Rotten):
    """A set lost more members than parity can rebuild, and its backup is known."""

    def state(self, lost, ranks):
        world = self.world
        self.files([f"data/s.{rank}" for rank in range(ranks)], 30_000)
        world.protect("'data/s.%r'")
        world.must(f"cp -a data bk && lzy-verify data bk && {lost}")
        return {path: content for path, content in world.files().items() if path.startswith("bk/")}

    def is_lost(self, backup):
        world = self.world
        done = world.run("lzy-verify data")
        self.assertEqual(done.code, 2, world.story())
        self.assertIn("data/s.%r: damaged beyond repair", done.text)
        self.assertEqual(world.run("lzy-scrub data").code, 2, world.story())
        self.assertIn("beyond repair", world.run("lzy-status").text)
        self.assertNotIn("mv -n", done.text)
        step = next(line.split("to copy what is lost: ")[1] for line in done.text.splitlines() if "to copy what is lost: " in line)
        self.assertTrue(step.startswith("cp -np "), step)
        world.must(step)
        self.intact("lzy-verify data", "lzy-verify bk")
        self.assertEqual({path: content for path, content in world.files().items() if path.startswith("bk/")}, backup)

    def test_of_which_most_is_lost(self):
        self.is_lost(self.state("rm data/s.1 data/s.2", 3))

    def test_of_which_half_is_lost(self):
        self.is_lost(self.state("rm data/s.1 data/s.2", 4))

    def test_of_which_all_but_one_is_lost_with_the_sidecars(self):
        self.is_lost(self.state("rm data/s.[12] data/.LZY.s.[12]", 3))

    def test_of_which_all_files_are_lost(self):
        self.is_lost(self.state("rm data/s.?", 3))

    def test_a_few_members_that_were_copied_elsewhere_are_no_set(self):
        world = self.world
        self.state("mkdir few && cp -p data/s.1 data/.LZY.s.1 few/", 4)
        self.assertNotEqual(world.run("lzy-verify few data").code, 2, world.story())


class Pruned(Rotten):
    def test_a_directory_keeps_the_sidecar_of_a_file_in_another_one_that_is_named(self):
        world = self.world
        self.files(["data/a", "data/b"], 30_000)
        world.protect("data")
        world.must("mkdir other && mv data/a other/z")
        good, _ = self.rot("other/z")
        done = world.run("lzy-protect other")
        self.assertEqual(done.code, 4, world.story())
        self.assertNotIn("//", done.text)
        world.must("lzy-info --prune data other")
        self.assertEqual(world.run("lzy-protect other").code, 4, world.story())
        world.must("mv other/z data/a && lzy-verify --repair data")
        self.assertEqual(world.files()["data/a"], good)


if __name__ == "__main__":
    unittest.main()
