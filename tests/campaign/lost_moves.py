"""What was lost when files exchanged names, or moved to another directory or file system, each as the command lines that did it
(advice_lost.py has the first ones)."""

import os
import unittest

from advice_lost import LONG_AGO, Lost
from advice_world import SECOND, hash_of


class Forced(Lost):
    """--force on a directory: the result does not depend on which thread is first, and what is undone is kept."""

    TIMES = 4
    COMMANDS = ("lzy-verify --repair --force d", "lzy-restore --force d")

    def ends(self, change, edited, same_time, command):
        """Protects d/a, d/b, d/c, changes them, and forces. Returns what each file holds, by words."""
        world = self.world
        for number, name in enumerate("abc"):
            self.files([f"d/{name}"], 3000, LONG_AGO + (0 if same_time else number * SECOND))
        contents = {hash_of(world.read(f"d/{name}")): f"what {name} was" for name in "abc"}
        world.protect("d")
        world.must(change)
        if edited:
            world.write_random(edited, 3000)
            contents[hash_of(world.read(edited))] = "the edit"
        before = set(world.files().values())
        done = world.run(command)
        after = world.files()
        self.assertEqual(before - set(after.values()), set(), world.story())
        end = (done.code, sorted((name, contents[content]) for name, content in after.items()))
        world.must("rm -rf d")
        return end

    def all_end_alike(self, change, edited=None):
        for same_time in (True, False):
            for command in self.COMMANDS:
                with self.subTest(same_time=same_time, command=command):
                    ends = [self.ends(change, edited, same_time, command) for _ in range(self.TIMES)]
                    self.assertEqual(ends, ends[:1] * self.TIMES, self.world.story())

    SWAP = "mv d/a t && mv d/b d/a && mv t d/b"

    def test_the_first_of_two_files_that_exchanged_names_was_edited(self):
        self.all_end_alike(self.SWAP, "d/a")

    def test_the_second_of_two_files_that_exchanged_names_was_edited(self):
        self.all_end_alike(self.SWAP, "d/b")

    def test_a_new_file_came_in_the_place_of_the_second(self):
        self.all_end_alike(self.SWAP + " && rm d/b", "d/b")

    def test_a_copy_came_in_the_place_of_a_file_that_was_renamed(self):
        self.all_end_alike("mv d/a d/x && cp -a d/c d/a")

    def test_the_copied_file_was_edited_then(self):
        self.all_end_alike("mv d/a d/x && cp -a d/c d/a", "d/c")

    def test_three_files_were_rotated_and_one_edited(self):
        self.all_end_alike("mv d/a t && mv d/b d/a && mv d/c d/b && mv t d/c", "d/b")

    def test_an_edit_that_is_set_back_is_kept(self):
        world = self.world
        self.files(["d/a"])
        world.protect("d")
        right = world.read("d/a")
        world.write_random("d/a", 3000)
        edited = world.files()["d/a"]
        world.must("lzy-verify --repair --force d/a")
        self.assertEqual(world.files(), {"d/a": hash_of(right), "d/a.replaced": edited})


class MovedOn(Lost):
    """A file was moved to another file system, and rotted there. Something else has its old name."""

    SIZE = 300_000  # more blocks than parity can give back

    def state(self, at_old_name):
        world = self.world
        away = world.other_file_system()
        if away is None:
            self.skipTest("no second file system")
        os.mkdir(os.path.join(away, "e"))
        world.must(f"ln -s {away}/e e")
        self.files(["d/a", "d/z"], self.SIZE)
        world.protect("d")
        right = world.files()["d/a"]
        world.must("mv d/a e/a")
        at_old_name()
        world.flip("e/a", 100)
        return right, hash_of(world.read("e/a"))

    def is_told(self, at_old_name, away_with_it):
        """Neither the rot nor what has the old name takes the only parity that can give the content back."""
        world = self.world
        right, rot = self.state(at_old_name)
        for words in ("d e/", "e/ d", "e/ d"):
            done = world.run(f"lzy-protect {words}")
            self.assertNotEqual(done.code, 0, world.story())
            self.assertIn("d/a", done.text)
        self.assertEqual(hash_of(world.read("e/a")), rot)
        self.assertFalse(os.path.exists(world.path("e/.LZY.a")), world.story())
        world.must(away_with_it)
        world.must("mv e/a d/a && lzy-verify --repair d")
        self.assertEqual(world.files()["d/a"], right)

    def test_a_new_file_of_equal_size(self):
        self.is_told(lambda: self.world.write_random("d/a", self.SIZE), "mv d/a new")

    def test_a_new_file_of_another_size(self):
        self.is_told(lambda: self.world.write_random("d/a", 5000), "mv d/a new")

    def test_a_link_to_the_new_place(self):
        self.is_told(lambda: self.world.must("ln -s ../e/a d/a"), "rm d/a")

    def test_a_whole_file_is_committed(self):
        world = self.world
        away = world.other_file_system()
        if away is None:
            self.skipTest("no second file system")
        self.files(["d/a"], self.SIZE)
        world.protect("d")
        world.must(f"mv d/a {away}/a")
        world.write_random("d/a", self.SIZE)
        self.judge(f"lzy-protect d {away}", f"lzy-verify d {away}", codes=[0, 0])

    def test_a_copy_of_a_file_that_is_there_is_committed(self):
        """Whoever copies a file and changes a few bytes with its time kept has made another file."""
        world = self.world
        self.files(["d/a"], self.SIZE)
        world.protect("d")
        world.must("mkdir e && cp -a d/a e/a")
        world.flip("e/a", 100)
        self.judge("lzy-protect d e", codes=[0])


class Displaced(Lost):
    """A single file was given the name of a member, and left its sidecar behind."""

    def set_of(self):
        for number, name in enumerate(("k0", "k1", "k2", "b")):
            self.files([name], 3000, LONG_AGO + number * SECOND)
        self.world.protect("k%r b")
        return self.world.files()

    def test_what_is_repairable_is_repaired(self):
        world = self.world
        before = self.set_of()
        world.must("mv b k0")
        world.flip("k1", 100)
        done = self.judge("lzy-verify k%r", "lzy-verify --repair k%r", "lzy-verify k%r", codes=[1, 9, 9])
        self.assertIn("repair with: lzy-verify --repair k%r", done[0].text)
        self.assertIn("lzy-verify --repair --force k%r", done[2].text)
        self.assertEqual((world.files()["k0"], world.files()["k1"]), (before["b"], before["k1"]))

    def test_the_undo_that_is_printed_is_done(self):
        world = self.world
        before = self.set_of()
        world.must("mv b k0")
        world.must("lzy-verify --repair --force k%r && lzy-verify k%r")
        after = world.files()
        self.assertEqual({name: after[name] for name in ("k0", "k1", "k2")}, {name: before[name] for name in ("k0", "k1", "k2")})
        self.assertEqual(after["k0.replaced"], before["b"])

    def test_a_restore_does_the_same(self):
        world = self.world
        before = self.set_of()
        world.must("mv b k0 && rm k2")
        self.judge("lzy-restore k%r", codes=[9])
        world.must("lzy-restore --force k%r && lzy-verify k%r")
        self.assertEqual(world.files(), {**{name: before[name] for name in ("k0", "k1", "k2")}, "k0.replaced": before["b"]})

    def test_a_refused_commit_renames_no_sidecar(self):
        """It took the sidecar of another set along, and set that of the member aside."""
        world = self.world
        for number, name in enumerate(("k0", "k1", "k2", "j0", "j1", "j2")):
            self.files([name], 3000, LONG_AGO + number * SECOND)
        world.protect("k%r j%r")
        world.must("mv j2 k0")
        world.flip("k1", 100)
        before = world.superblocks()
        for words in ("k%r", "k%r j%r", "."):
            done = world.run(f"lzy-protect {words}")
            self.assertNotEqual(done.code, 0, world.story())
            self.assertEqual(world.superblocks(), before, world.story())

    def test_a_refused_commit_of_exchanged_files_renames_no_sidecar(self):
        world = self.world
        for number, name in enumerate(("a", "b")):
            self.files([name], 300_000, LONG_AGO + number * SECOND)
        world.protect("a b")
        self.swap("a", "b")
        world.flip("b", 100)
        before = world.superblocks()
        done = world.run("lzy-protect b")
        self.assertEqual(done.code, 1, world.story())
        self.assertEqual(world.superblocks(), before, world.story())


class WholeSecondsBack(Lost):
    """A tool that keeps whole seconds (tar in its default format) put a backup back, and files were damaged before lzy saw them."""

    def back(self, names, words, size, mtime_ns=LONG_AGO + 123456789):
        world = self.world
        self.files([f"d/{name}" for name in names], size, mtime_ns)
        world.protect(words)
        before = world.files()
        world.must("tar cf t.tar d && rm -rf d && tar xf t.tar && rm t.tar")
        return before

    def is_damage(self, names, words, size, rotten, count=1):
        world = self.world
        before = self.back(names, words, size)
        world.flip(rotten, 100, count)
        done = self.judge(f"lzy-verify {words}", f"lzy-protect {words}", f"lzy-verify {words}", codes=[1, 1, 1])
        self.assertIn("whole seconds", done[0].text)
        self.judge(f"lzy-verify --repair {words}", codes=[0])
        self.intact(f"lzy-verify {words}", f"lzy-protect {words}")
        after = world.files()
        self.assertEqual({name: after[name] for name in before}, before)

    def test_a_file_of_one_block(self):
        self.is_damage(["a", "b"], "d", 3000, "d/a")

    def test_a_file_of_several_blocks(self):
        self.is_damage(["a", "b"], "d", 300_000, "d/a")

    def test_a_member_of_one_block(self):
        self.is_damage(["k0", "k1", "k2"], "d/k%r", 3000, "d/k1")

    def test_a_member_of_several_blocks(self):
        self.is_damage(["k0", "k1", "k2"], "d/k%r", 300_000, "d/k1")

    def is_an_edit(self, size, names=("a", "b"), words="d", edited="d/a", mtime_ns=None):
        """As before: it may be committed, and no repair touches it."""
        world = self.world
        self.back(names, words, size)
        world.write_random(edited, size, mtime_ns)
        edit = world.files()[edited]
        self.judge(f"lzy-verify {words}", f"lzy-verify --repair {words}", f"lzy-protect {words}", codes=[9, 9, 0])
        self.assertEqual(world.files()[edited], edit)

    def test_an_edit(self):
        self.is_an_edit(300_000)

    def test_an_edit_of_a_small_file(self):
        self.is_an_edit(3000)

    def test_another_content_with_the_time_of_the_backup(self):
        """Written within the second of the commit, and put back like the others."""
        self.is_an_edit(300_000, mtime_ns=LONG_AGO)

    def test_another_small_content_with_the_time_of_the_backup(self):
        self.is_an_edit(3000, mtime_ns=LONG_AGO)

    def test_another_content_of_a_member_with_the_time_of_the_backup(self):
        self.is_an_edit(3000, ("k0", "k1", "k2"), "d/k%r", "d/k1", mtime_ns=LONG_AGO)

    def test_a_small_edit_within_the_second_is_kept(self):
        """Nothing tells it from damage. The repair keeps what was there."""
        world = self.world
        before = self.back(["a"], "d", 300_000)
        content = bytearray(world.read("d/a"))
        content[1000:1010] = b"0123456789"
        world.write("d/a", bytes(content), LONG_AGO)
        world.must("lzy-verify --repair d")
        self.assertEqual(world.files(), {"d/a": before["d/a"], "d/a.replaced": hash_of(bytes(content))})


if __name__ == "__main__":
    unittest.main()
