"""Content that only the parity of a file could still give back, and that was lost because a copy of the rotten file was protected,
because the rotten file was moved, or because a snapshot shared its sidecar. Each as the command lines that did it."""

import os
import unittest

from advice_lost import LONG_AGO, Lost

REPAIR, COMMIT = "lzy-verify --repair --force", "lzy-protect --force"


class Rotten(Lost):
    """A file that rots, and its content before and after that."""

    SIZE = 300_000  # more blocks than parity can give back

    def rot(self, path, count=10):
        good = self.world.files()[path]
        self.world.flip(path, 100, count)
        return good, self.world.files()[path]

    def holders_of(self, content):
        return {path for path, had in self.world.files().items() if had == content}


class VouchedFor(Rotten):
    """A copy that was made after rot, and protected, proves the rot. That must not take away what the parity of the file can give."""

    def state(self, change, copy="bak/f"):
        world = self.world
        self.files(["src/f"], self.SIZE, LONG_AGO)
        world.protect("src/f")
        good, bad = self.rot("src/f")
        world.must(f"mkdir -p bak && cp -a src/f {copy} && lzy-protect -q {copy} && {change}")
        return good, bad

    def both_are_left(self, good, bad, words, copy="bak/f"):
        """What a user may type without --force, and then either choice."""
        world = self.world
        for command in (f"lzy-verify {words}", f"lzy-verify --repair {words}", f"lzy-restore {words}"):
            world.run(command)
        done = world.run(f"lzy-protect {words}")
        self.assertEqual(done.code, 9, world.story())
        self.assertEqual(self.holders_of(bad) - {"src/other"}, {"src/f", copy})
        for command in (f"{COMMIT} src/f", f"{REPAIR} src/f"):
            self.assertIn(command, done.text)
        world.must(f"{REPAIR} src/f")
        self.assertEqual(world.files()["src/f"], good)
        self.assertIn(bad, (world.files().get("src/f.replaced"), world.files().get("src/other")))
        self.assertEqual(world.files()[copy], bad)

    def test_of_a_file_whose_mode_was_changed_since(self):
        self.both_are_left(*self.state("chmod 600 src/f"), "src/f bak/f")

    def test_of_directories_that_are_named_in_any_order(self):
        self.both_are_left(*self.state("chmod 600 src/f"), "bak src")

    def test_of_a_file_that_got_another_name_since(self):
        self.both_are_left(*self.state("cp -al src/f src/other"), "src/f bak/f")

    def test_of_a_file_that_was_copied_in_its_place(self):
        self.both_are_left(*self.state("cp -a src/f src/g && mv src/g src/f"), ".")

    def test_of_a_copy_beside_it(self):
        self.both_are_left(*self.state("chmod 600 src/f", copy="src/copy"), "src", copy="src/copy")

    def test_of_a_copy_that_only_the_catalogue_knows(self):
        self.both_are_left(*self.state("lzy-verify -q bak; chmod 600 src/f"), "src/f")

    def test_a_copy_that_is_gone_again_leaves_the_sidecar_of_the_file(self):
        world = self.world
        good, _ = self.state("chmod 600 src/f && rm src/copy", copy="src/copy")
        for command in ("lzy-verify src", "lzy-protect src", "lzy-info --prune ."):
            world.run(command)
        kept = [name for name in os.listdir(world.path("src")) if "LZY" in name and name != ".LZY.f"]
        self.assertTrue(kept, world.story())
        world.must("cd src && mv .LZY.f ../vouches && mv .LZY*.f .LZY.f && lzy-verify --repair --force f")
        self.assertEqual(world.files()["src/f"], good)

    def test_another_file_that_is_committed_once_more_still_proves_what_was_copied_from_it(self):
        for size in (3000, self.SIZE):
            with self.subTest(size=size):
                world = self.world
                self.files(["src/f", "bak/g"], size, LONG_AGO)
                world.protect("src bak")
                world.must("cp -p bak/g src/f && chmod 600 bak/g && lzy-protect -q bak/g")
                given = world.files()["src/f"]
                for command in ("lzy-verify --repair src bak", "lzy-restore src bak", "lzy-protect src bak"):
                    self.assertEqual(world.run(command).code, 9, world.story())
                self.assertEqual(world.files()["src/f"], given)
                world.must("rm -r src bak")

    def test_of_members_of_a_set(self):
        world = self.world
        self.files([f"src/s.{rank}" for rank in range(4)], self.SIZE)
        world.protect("'src/s.%r'")
        good, bad = self.rot("src/s.1")
        world.must("mkdir bak && cp -a src/s.? bak/ && lzy-protect -q 'bak/s.%r' && chmod 600 src/s.1")
        done = world.run("lzy-protect 'src/s.%r' 'bak/s.%r'")
        self.assertEqual(done.code, 9, world.story())
        self.assertIn(f"{COMMIT} src/s.%r", done.text)
        world.must(f"{REPAIR} 'src/s.%r'")
        self.assertEqual(world.files()["src/s.1"], good)
        self.assertEqual(self.holders_of(bad), {"src/s.1.replaced", "bak/s.1"})

    def test_members_that_exchanged_their_contents_are_committed(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(5)], self.SIZE)
        world.protect("--parity 2 's.%r'")
        world.must("cp -p s.1 t && cp -p s.2 s.1 && cp -p t s.2 && rm t")
        self.judge("lzy-verify 's.%r'", "lzy-protect 's.%r'", "lzy-verify 's.%r'", codes=[9, 0, 0])

    def test_a_file_is_committed_if_another_one_holds_what_it_was(self):
        world = self.world
        self.files(["f", "g"], self.SIZE)
        world.protect("f g")
        world.must("mkdir bak && cp -a f bak/f && lzy-protect -q bak/f && cp -p g f && chmod 600 f")
        self.judge("lzy-protect f bak/f", "lzy-verify .", codes=[0, 0])


class MovedAway(Rotten):
    """A rotten file was moved to another directory, and its sidecar stayed."""

    def state(self, move="mv d1/f d2/f"):
        world = self.world
        self.files(["d1/f"], self.SIZE)
        world.protect("d1/f")
        good, _ = self.rot("d1/f")
        world.must(f"mkdir d2 && {move}")
        return good

    def comes_back(self, good):
        world = self.world
        world.must("mv d2/f d1/f && lzy-verify --repair --force d1/f")
        self.assertEqual(world.files()["d1/f"], good)

    def is_refused(self, command, good):
        done = self.world.run(command)
        self.assertIn("lzy-protect --force d2/f", done.text)
        self.assertNotEqual(done.code, 0)
        self.assertNotIn("d2/.LZY.f", self.world.superblocks())
        self.comes_back(good)

    def is_not_pruned(self, good):
        """lzy-protect did not see where the file came from, because it had no catalogue."""
        world = self.world
        world.must("lzy-protect --catalog off d2/f")
        for command in ("lzy-info .", "lzy-info --prune .", "lzy-verify .", "lzy-info --prune ."):
            done = world.run(command)
        self.assertIn("d1/.LZY.f", world.superblocks(), world.story())
        self.assertIn("d2/f", done.text)
        self.comes_back(good)

    def test_its_sidecar_is_not_pruned(self):
        self.is_not_pruned(self.state())

    def test_its_sidecar_is_not_pruned_after_a_move_to_another_file_system(self):
        self.is_not_pruned(self.state("cp -a d1/f d2/f && rm d1/f"))

    def test_it_is_not_committed_with_all_of_the_directories(self):
        self.is_refused("lzy-protect .", self.state())

    def test_it_is_not_committed_with_both_directories(self):
        self.is_refused("lzy-protect d1 d2", self.state())

    def test_it_is_not_committed_after_a_move_to_another_file_system(self):
        self.is_refused("lzy-protect .", self.state("cp -a d1/f d2/f && rm d1/f"))

    def test_a_whole_file_is_committed_and_what_it_left_is_pruned(self):
        world = self.world
        self.files(["d1/f"], self.SIZE)
        world.protect("d1/f")
        world.must("mkdir d2 && mv d1/f d2/f")
        self.judge("lzy-protect .", "lzy-info --prune .", "lzy-verify .", codes=[0, 0, 0])
        self.assertNotIn("d1/.LZY.f", world.superblocks())

    def test_other_files_of_equal_size_and_time_do_not_keep_the_sidecar_of_a_deleted_file(self):
        world = self.world
        self.files(["d1/f", "d1/g", "d2/h"], self.SIZE, LONG_AGO)
        world.protect("d1 d2")
        world.must("rm d1/f && lzy-info --prune .")
        self.assertNotIn("d1/.LZY.f", world.superblocks())


class Linked(Rotten):
    """A snapshot by cp -al keeps its sidecars as they were, whatever is written in the tree."""

    def state(self, change, names=("f",), words="tree"):
        world = self.world
        self.files([f"tree/{name}" for name in names], self.SIZE, LONG_AGO)
        world.protect(words)
        world.must("cp -al tree snap")
        was = {path: world.read(path) for path in world.superblocks() if path.startswith("snap")}
        world.must(change)
        return was

    def snapshot_stays(self, was, *commands):
        world = self.world
        for command in commands:
            world.run(command)
        self.assertEqual({path: world.read(path) for path in was}, was, world.story())
        for path in was:
            self.assertNotEqual(os.stat(world.path(path)).st_ino, os.stat(world.path(path.replace("snap", "tree"))).st_ino)
        self.assertEqual([name for name in os.listdir(world.path("tree")) if name.startswith((".LZY-new", ".LZY-tmp"))], [])
        self.intact("lzy-verify snap", "lzy-verify tree")

    def test_when_times_are_recorded(self):
        self.snapshot_stays(self.state("cp tree/f t && mv t tree/f"), "lzy-verify --repair tree")

    def test_when_an_identity_is_recorded(self):
        self.snapshot_stays(self.state("cp -p tree/f t && mv t tree/f && touch -d '1 hour ago' tree/f"), "lzy-restore tree")

    def test_when_access_is_committed_in_place(self):
        self.snapshot_stays(self.state("cp -p tree/f t && mv t tree/f && lzy-verify -q --repair tree; chmod 600 tree/f"), "lzy-protect tree")

    def test_when_an_edit_is_committed(self):
        self.snapshot_stays(self.state("head -c 1000 tree/f > t && mv t tree/f"), "lzy-protect tree")

    def test_when_a_set_is_written(self):
        names = [f"s.{rank}" for rank in range(4)]
        was = self.state("for i in 0 1 2 3; do cp tree/s.$i t && mv t tree/s.$i; done", names, "'tree/s.%r'")
        self.snapshot_stays(was, "lzy-verify --repair 'tree/s.%r'", "chmod 600 tree/s.1", "lzy-protect 'tree/s.%r'")

    def test_when_metadata_are_healed(self):
        world = self.world
        self.state("true")
        world.flip("tree/.LZY.f", 200, 4)  # and so in the snapshot
        before = world.read("snap/.LZY.f")
        world.must("lzy-verify --repair tree")
        self.assertEqual(world.read("snap/.LZY.f"), before)
        self.judge("lzy-verify snap", "lzy-verify --repair snap", "lzy-verify snap", codes=[1, 0, 0])

    def test_nothing_is_copied_for_a_command_that_writes_nothing(self):
        world = self.world
        self.state("true")
        self.intact("lzy-protect tree", "lzy-verify --repair tree snap", "lzy-restore tree")
        self.assertEqual(os.stat(world.path("tree/.LZY.f")).st_nlink, 2)

    def test_a_repair_does_not_undo_what_another_name_committed(self):
        world = self.world
        self.state("true")
        old, stat = world.read("tree/f"), os.stat(world.path("tree/f"))
        new = old[:70_000] + b"an edit" + old[70_007:]
        world.write("tree/f", new, stat.st_mtime_ns)
        world.must("lzy-protect --force tree/f")
        for command in ("lzy-verify --repair snap tree", "lzy-verify --repair --force snap"):
            world.run(command)
        self.assertEqual(world.read("tree/f"), new)
        self.intact("lzy-verify tree")

    def test_a_repair_for_all_names_stays_one_file(self):
        world = self.world
        self.state("true")
        good, _ = self.rot("tree/f")
        world.must("lzy-verify --repair tree snap")
        self.assertEqual({world.files()[path] for path in ("tree/f", "snap/f")}, {good})
        self.assertEqual(os.stat(world.path("tree/f")).st_nlink, 2)
        self.intact("lzy-verify snap", "lzy-verify tree")


class CopyTool(Rotten):
    """lzy-copy replaces nothing right by what may be damage, and leaves nothing out silently."""

    def test_a_source_whose_sidecar_is_destroyed_replaces_no_protected_copy(self):
        world = self.world
        self.files(["src/f"], self.SIZE)
        world.protect("src/f")
        world.must("lzy-copy src copy && truncate -s 0 src/.LZY.f")
        good, bad = self.rot("src/f")
        for command in ("lzy-copy src/f copy/f", "touch src/f; lzy-copy --resume src copy", "lzy-copy --no-protect src/f copy/f"):
            done = world.run(command)
            self.assertEqual(done.code, 9, world.story())
            self.assertIn("What to do: lzy-verify src/f", done.text)
            self.assertNotIn("was copied", done.text)
            self.assertEqual(world.files()["copy/f"], good)
        self.intact("lzy-verify copy")
        world.must("lzy-copy src new && lzy-copy --salvage src/f copy/f")
        self.assertEqual({world.files()[path] for path in ("copy/f", "new/f")}, {bad})


if __name__ == "__main__":
    unittest.main()
