"""What advice has destroyed once, each as the command lines that did it. A test is named by what was lost."""

import os
import re
import shutil
import subprocess
import unittest

from advice_oracle import Oracle
from advice_steps import next_steps
from advice_world import SECOND, World, hash_of, mount_ext4

BIN = os.environ.get("TEST_LZY_BIN", "")
# Whole seconds, long ago.
LONG_AGO = 1_600_000_000 * SECOND


class Lost(unittest.TestCase):
    def setUp(self):
        self.world = World(BIN)
        self.addCleanup(self.world.remove)
        self.addCleanup(self.tell)

    def tell(self):
        """What happened, if the test failed."""
        outcome = getattr(self, "_outcome", None)
        failed = outcome is not None and not outcome.success
        if failed:
            print(self.world.story())

    def files(self, names, size=3000, mtime_ns=LONG_AGO):
        for name in names:
            self.world.write_random(name, size, mtime_ns)

    def judge(self, *commands, codes=None):
        """Runs these commands under an oracle that looks now for the first time."""
        oracle = Oracle(self.world)
        done = [oracle.run(command) for command in commands]
        if codes is not None:
            self.assertEqual([one.code for one in done], codes, self.world.story())
        return done

    def follow(self, command):
        return Oracle(self.world).follow(command)

    def intact(self, *commands):
        self.judge(*commands, codes=[0] * len(commands))

    def swap(self, one, other, also_sidecars=False):
        world = self.world
        pairs = [(one, other)] + ([(world.sidecar(one), world.sidecar(other))] if also_sidecars else [])
        for left, right in pairs:
            world.must(f"mv {left} between && mv {right} {left} && mv between {right}")


class Backups(Lost):
    """Files that a backup put back correctly stay as they are."""

    COMMANDS = ("lzy-verify src", "lzy-info src", "lzy-verify --repair src", "lzy-restore src", "lzy-scrub --repair src", "lzy-verify src")

    def stays(self, put_back, count=40, size=3000, protect="src", name="src/{}"):
        self.files([name.format(i) for i in range(count)], size)
        # The first time, so that the second one finds the inodes that this one leaves.
        self.world.must("tar cf a.tar src && rm -rf src && tar xf a.tar && rm a.tar")
        self.world.protect(protect)
        before = self.world.files()
        self.world.must(put_back)
        self.assertEqual(self.world.files(), before)
        self.intact(*self.COMMANDS)
        self.assertEqual(self.world.files(), before)

    def test_a_backup_put_back_by_tar_stays_as_it_is(self):
        self.stays("tar cf b.tar src && rm -rf src && tar xf b.tar && rm b.tar")

    def test_a_backup_of_larger_files_stays_as_it_is(self):
        self.stays("tar cf b.tar src && rm -rf src && tar xf b.tar && rm b.tar", count=8, size=200000)

    def test_a_backup_of_sets_stays_as_it_is(self):
        self.files([f"src/{kind}.{rank}" for kind in "sn" for rank in range(12)])
        self.world.must("tar cf a.tar src && rm -rf src && tar xf a.tar && rm a.tar")
        self.world.protect("'src/s.%r' 'src/n.%r'")
        before = self.world.files()
        self.world.must("tar cf b.tar src && rm -rf src && tar xf b.tar && rm b.tar")
        self.intact("lzy-verify 'src/s.%r'", "lzy-verify 'src/n.%r'", *self.COMMANDS, "lzy-restore 'src/s.%r' 'src/n.%r'")
        self.assertEqual(self.world.files(), before)

    def test_single_files_put_back_by_cp_stay_as_they_are(self):
        self.stays("cp -a src kept && for f in kept/* kept/.LZY*; do rm src/${f#kept/}; done && "
                   "for f in kept/* kept/.LZY*; do cp -a $f src/; done && rm -rf kept")

    @unittest.skipIf(shutil.which("rsync") is None, "no rsync")
    def test_a_backup_put_back_by_rsync_stays_as_it_is(self):
        self.stays("rsync -a src/ kept/ && rm -rf src && rsync -a kept/ src/ && rm -rf kept")

    def test_a_file_in_the_inode_of_another_stays_as_it_is(self):
        """As after any backup, whatever the file system does with inodes that are free."""
        world = self.world
        self.files(["f", "g"])
        world.protect("f g")
        contents = {name: world.read(name) for name in ("f", "g")}
        self.swap("f", "g")
        for name, content in contents.items():
            world.write(name, content, LONG_AGO)
        self.intact("lzy-verify f g", "lzy-info f", "lzy-verify .", "lzy-restore f g", "lzy-verify --repair .", "lzy-scrub --repair .")
        self.assertEqual({name: world.read(name) for name in ("f", "g")}, contents)

    def test_members_in_the_inodes_of_each_other_stay_as_they_are(self):
        world = self.world
        names = [f"s.{rank}" for rank in range(4)]
        self.files(names)
        world.protect("'s.%r'")
        contents = {name: world.read(name) for name in names}
        self.swap("s.0", "s.1")
        for name, content in contents.items():
            world.write(name, content, LONG_AGO)
        self.intact("lzy-verify 's.%r'", "lzy-verify .", "lzy-restore 's.%r'", "lzy-verify --repair 's.%r'", "lzy-scrub --repair .")
        self.assertEqual({name: world.read(name) for name in names}, contents)


    def test_members_in_the_inodes_of_another_set_stay_as_they_are(self):
        world = self.world
        names = [f"{kind}.{rank}" for kind in "sn" for rank in range(4)]
        self.files(names)
        world.protect("'s.%r' 'n.%r'")
        contents = {name: world.read(name) for name in names}
        self.swap("s.0", "n.3")
        self.swap("s.1", "n.1")
        for name, content in contents.items():
            world.write(name, content, LONG_AGO)
        self.judge("lzy-restore 's.%r'", "lzy-restore 'n.%r'", "lzy-scrub --repair .")
        self.intact("lzy-verify 's.%r' 'n.%r'", "lzy-verify .")
        self.assertEqual({name: world.read(name) for name in names}, contents)


class Names(Lost):
    """Files that were renamed, swapped, or got a second name."""

    def restored(self, *commands):
        """Nothing that was in a file is gone; the oracle sees to that."""
        oracle = Oracle(self.world)
        for command in commands:
            oracle.run(command)

    def test_a_file_that_was_swapped_with_a_member_is_not_overwritten(self):
        self.files(["g", *(f"s.{rank}" for rank in range(4))])
        self.world.protect("'s.%r' g")
        self.swap("s.2", "g")
        self.restored("lzy-verify 's.%r'", "lzy-verify --repair 's.%r'", "lzy-restore 's.%r'", "lzy-restore g", "lzy-restore .")

    def test_a_file_that_was_swapped_with_a_member_and_brought_its_sidecar_is_not_overwritten(self):
        self.files(["g", *(f"s.{rank}" for rank in range(4))])
        self.world.protect("'s.%r' g")
        self.swap("s.2", "g", also_sidecars=True)
        self.restored("lzy-verify 's.%r'", "lzy-verify --repair 's.%r'", "lzy-restore 's.%r'", "lzy-restore g", "lzy-restore .")

    def test_the_advice_for_a_copy_in_another_directory_is_not_to_overwrite_it(self):
        self.files(["a/f", "b/g"], 200000)
        self.world.protect("a/f b/g")
        self.world.must("cp -a a/f b/g")
        self.follow("lzy-verify --repair .")

    def test_a_file_that_was_moved_over_a_member_is_not_overwritten(self):
        self.files(["g", *(f"s.{rank}" for rank in range(4))])
        self.world.protect("'s.%r' g")
        self.world.must("mv g s.2")
        self.restored("lzy-verify 's.%r'", "lzy-verify --repair 's.%r'", "lzy-restore 's.%r'", "lzy-restore .")

    def test_members_of_two_sets_that_were_swapped_are_not_overwritten(self):
        self.files(["s.0", "s.1", "n.0"])
        self.files(["n.1", "n.2"], 70000)
        self.world.protect("'s.%r' 'n.%r'")
        self.swap("s.0", "n.0")
        self.swap("s.1", "n.1")
        self.restored("lzy-verify --repair 's.%r'", "lzy-restore 's.%r'", "lzy-restore 'n.%r'")

    def test_a_commit_of_one_of_two_swapped_sets_lets_no_repair_of_the_other_overwrite_it(self):
        world = self.world
        self.files([f"{kind}.{rank}" for kind in "sn" for rank in range(5)])
        world.protect("'s.%r' 'n.%r'")
        for rank in range(5):
            self.swap(f"s.{rank}", f"n.{rank}")
        self.assertEqual(world.run("lzy-protect -q 'n.%r'").code, 9)  # its sidecars are what proves the members of s.%r
        world.must("lzy-protect -q --force 'n.%r'")
        before = world.files()
        for command in ("lzy-verify --repair 's.%r'", "lzy-restore 's.%r'", "lzy-restore --salvage 's.%r'", "lzy-verify --repair ."):
            world.run(command)
            self.assertEqual(world.files(), before, world.story())

    def test_a_member_that_changed_its_place_is_not_overwritten_by_a_salvage(self):
        self.files([f"s.{rank}" for rank in range(5)])
        self.world.protect("'s.%r'")
        self.swap("s.0", "s.4")
        self.world.must("rm s.2")
        self.restored("lzy-verify 's.%r'", "lzy-restore 's.%r'", "lzy-restore --salvage 's.%r'")

    def test_a_file_with_two_names_is_not_overwritten(self):
        self.files(["f", "g"])
        self.world.protect("f g")
        self.world.must("ln -f g f")
        self.restored("lzy-verify f g", "lzy-verify --repair f", "lzy-restore f", "lzy-restore .")

    def test_a_file_with_a_second_name_in_another_directory_is_not_overwritten(self):
        self.files(["a/f", "b/g", "b/h"])
        self.world.protect("a/f b/g b/h")
        self.world.must("ln -f b/g a/f")
        self.restored("lzy-verify a/f", "lzy-verify --repair a/f", "lzy-restore a/f", "lzy-restore .")

    def test_a_file_that_is_also_a_member_is_not_overwritten(self):
        self.files(["g", *(f"s.{rank}" for rank in range(4))])
        self.world.protect("'s.%r' g")
        self.world.must("ln -f g s.0")
        self.restored("lzy-verify 's.%r'", "lzy-verify --repair 's.%r'", "lzy-restore 's.%r'", "lzy-restore .")

    def test_the_sidecar_of_a_file_that_another_replaced_is_not_removed(self):
        self.files(["f", "g", "h"])
        self.world.protect("f g h")
        self.world.must("mv g h && mv f g")
        self.restored("lzy-restore g h", "lzy-verify --repair .", "lzy-restore .")

    def test_a_commit_of_another_file_leaves_the_sidecar_of_one_that_was_replaced(self):
        self.files(["f", "g", "j"])
        self.world.protect("f g j")
        self.world.must("mv g f && mv j g")
        self.world.write_random("j", 3000)
        self.restored("lzy-verify j", "lzy-protect j")

    def test_a_member_that_was_moved_into_another_set_takes_none_of_its_sidecars(self):
        self.files([f"{kind}.{rank}" for kind in "sn" for rank in range(5)])
        self.world.protect("'s.%r' 'n.%r'")
        self.world.must("mv s.4 s.3 && mv n.0 s.4")
        self.restored("lzy-restore s.2", "lzy-verify --repair .", "lzy-restore 's.%r'", "lzy-restore 'n.%r'")


class Exchanged(Lost):
    """Members and sidecars of two sets, of equal times."""

    def two_sets(self, sizes, options=""):
        for kind, size in zip("ab", sizes):
            self.files([f"{kind}.{rank}" for rank in range(3)], size)
        self.world.must(f"lzy-protect -q {options} 'a.%r' 'b.%r'")
        self.world.note_commit(self.world.files())

    def stay(self, *commands):
        """No content that is in a file now gets lost."""
        before = set(self.world.files().values())
        for command in commands:
            self.world.run(command)
            self.assertLessEqual(before, set(self.world.files().values()), self.world.story())

    def test_one_or_two_members_of_two_sets_are_not_overwritten(self):
        for swapped in ((0,), (0, 1)):
            with self.subTest(swapped=swapped):
                self.two_sets((60000, 60100))
                for rank in swapped:
                    self.swap(f"a.{rank}", f"b.{rank}")
                self.stay("lzy-verify .", "lzy-restore a.2", "lzy-restore .", "lzy-restore --salvage .", "lzy-verify --repair .")
                self.assertIn("a.0: it holds what 'b.0' was", self.world.run("lzy-verify 'a.%r'").text)
                self.world.must("rm -f a.* b.* .LZY*")

    def test_the_sidecar_of_another_set_outvotes_no_members(self):
        self.two_sets((60000, 60000), "--parity 2")
        self.world.must("cp .LZY.b.0 .LZY.a.0")
        self.stay("lzy-verify --repair 'a.%r'", "lzy-restore 'a.%r'", "lzy-restore --salvage 'a.%r'")

    def test_a_member_that_was_moved_into_a_renamed_set_is_not_overwritten(self):
        self.two_sets((40000, 40000))
        for rank in range(3):
            self.world.must(f"mv b.{rank} old.{rank}")
        self.world.must("mv a.1 old.2")
        self.stay("lzy-verify .", "lzy-restore 'b.%r'", "lzy-restore .")

    def test_exchanged_sidecars_are_those_of_their_files_still(self):
        self.files([f"s.{rank}" for rank in range(3)] + ["g"], 70000)
        self.world.protect("'s.%r' g")
        self.swap(".LZY.g", ".LZY.s.2")
        self.intact("lzy-verify .", "lzy-restore .", "lzy-verify g", "lzy-verify 's.%r'")

    def test_the_proof_of_a_copied_content_is_not_committed_away(self):
        self.files(["f", "g"])
        self.world.protect("f g")
        self.world.must("cp -p f t && cp -p g f && cp -p t g && rm t")
        self.stay("lzy-verify .", "lzy-protect f", "lzy-verify --repair .", "lzy-protect g", "lzy-verify --repair .")

    def test_rot_in_a_small_file_from_a_backup_is_repaired(self):
        world = self.world
        self.files(["src/f", "src/g"])
        world.must("tar cf a.tar src && rm -rf src && tar xf a.tar && rm a.tar")
        world.protect("src")
        world.must("tar cf b.tar src && rm -rf src && tar xf b.tar && rm b.tar")
        before = world.files()
        about = os.stat(world.path("src/f"))
        with open(world.path("src/f"), "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        os.utime(world.path("src/f"), ns=(about.st_atime_ns, about.st_mtime_ns))
        self.assertEqual(world.run("lzy-verify src").code, 1, world.story())
        self.assertEqual(world.run("lzy-protect src/f").code, 1, world.story())
        rotten = world.files()["src/f"]
        self.assertEqual(world.run("lzy-verify --repair src").code, 0, world.story())
        # It could be a similar file that somebody put there: one block of one differs.
        self.assertEqual(world.files(), before | {"src/f.replaced": rotten}, world.story())

    def test_rot_in_a_large_file_from_a_backup_is_kept(self):
        """It may be a similar version of the file, with its time."""
        world = self.world
        self.files(["src/f"], 70000)
        world.protect("src --block-size 4K")
        world.must("cp -a src/f . && rm src/f && cp -a f src/f && rm f")
        before = world.files()
        world.flip("src/f", 1000)
        rotten = world.files()["src/f"]
        self.judge("lzy-verify --repair src", codes=[0])
        self.assertEqual(world.files(), before | {"src/f.replaced": rotten})
        world.flip("src/f", 1000)  # of the file that the repair made
        self.judge("lzy-verify --repair src/f", codes=[0])
        self.assertEqual(world.files(), before | {"src/f.replaced": rotten})

    def test_a_file_that_an_editor_replaced_is_committed(self):
        self.files(["f"])
        self.world.protect("f")
        self.world.write_random("f.new", 3000)
        self.world.must("mv f.new f && lzy-protect f && lzy-verify f")


class Patterns(Lost):
    """A pattern that is mistyped writes nothing: the files belong to other sets."""

    def sets(self):
        self.files(["ck.0.0", "ck.0.1", "ck.1.0", "ck.1.1"])
        self.world.protect("'ck.0.%r' 'ck.1.%r'")

    def refused(self, command, *sets):
        world = self.world
        before = {path: hash_of(world.read(path)) for path, _ in world.walk()}
        done, = self.judge(command, codes=[3])
        self.assertEqual({path: hash_of(world.read(path)) for path, _ in world.walk()}, before)
        for name in sets:
            self.assertIn(name, done.text)

    def test_a_pattern_across_two_sets_restores_nothing(self):
        self.sets()
        self.refused("lzy-restore 'ck.%r.1'", "ck.0.%r", "ck.1.%r")
        self.intact("lzy-verify 'ck.0.%r' 'ck.1.%r'", "lzy-verify .")

    def test_a_pattern_across_two_sets_repairs_nothing(self):
        self.sets()
        self.refused("lzy-verify --repair 'ck.%r.0'")
        self.intact("lzy-verify 'ck.0.%r' 'ck.1.%r'")

    def test_a_pattern_across_two_sets_protects_nothing(self):
        self.sets()
        self.refused("lzy-protect 'ck.%r.0'")
        self.intact("lzy-verify 'ck.0.%r' 'ck.1.%r'")

    def test_a_pattern_across_two_sets_takes_no_member_that_lost_its_sidecar(self):
        self.sets()
        self.world.must("rm .LZY.ck.0.0 .LZY.ck.1.0")
        for tool in ("lzy-verify", "lzy-protect", "lzy-restore"):
            self.refused(f"{tool} 'ck.%r.0'")
        self.follow("lzy-verify .")
        self.intact("lzy-verify .")

    def test_a_pattern_across_two_sets_whose_members_changed_places_is_refused(self):
        self.sets()
        for kind in "01":
            self.swap(f"ck.{kind}.0", f"ck.{kind}.1", also_sidecars=True)
        for tool in ("lzy-verify", "lzy-protect", "lzy-restore"):
            before = self.world.print_of()
            done = self.world.run(f"{tool} 'ck.%r.0'")
            self.assertEqual(done.code, 3, self.world.story())
            self.assertNotIn("--force", done.text)
            self.assertEqual(self.world.print_of(), before)

    def test_a_lost_member_of_the_right_set_is_restored_after_a_mistyped_pattern(self):
        self.sets()
        content = self.world.read("ck.0.1")
        os.remove(self.world.path("ck.0.1"))
        oracle = Oracle(self.world)
        oracle.run("lzy-restore 'ck.%r.1'")
        self.assertEqual(oracle.run("lzy-restore 'ck.0.%r'").code, 0, self.world.story())
        self.assertEqual(self.world.read("ck.0.1"), content)

    def test_a_pattern_without_the_zeros_calls_nothing_damaged(self):
        self.files([f"s.{rank:02}" for rank in range(12)])
        self.world.protect("'s.%02r'")
        done, = self.judge("lzy-verify 's.%r'")
        self.assertIn(done.code, (0, 3), self.world.story())
        self.intact("lzy-verify 's.%02r'")

    def test_a_pattern_with_a_zero_typed_out_makes_no_members(self):
        self.files([f"s.{rank:02}" for rank in range(12)])
        self.world.protect("'s.%02r'")
        before = self.world.files()
        self.judge("lzy-restore 's.0%r'", codes=[3])
        self.assertEqual(self.world.files(), before)
        self.intact("lzy-verify 's.%02r'")


class Sidecars(Lost):
    """A sidecar that is the last to know something stays."""

    def test_restoring_one_set_leaves_the_sidecars_of_the_other(self):
        world = self.world
        for kind, size in (("s", 3000), ("n", 3000)):
            self.files([f"{kind}.{rank}" for rank in range(5)], size)
        world.protect("'s.%r' 'n.%r'")
        lost, rotten = hash_of(world.read("n.3")), hash_of(world.read("n.1"))
        for rank in range(5):
            self.swap(f"s.{rank}", f"n.{rank}")
        os.remove(world.path("s.3"))  # the content that was made as n.3
        world.log.append("rm s.3")
        world.flip("n.1", 100)
        oracle = Oracle(world)
        for _ in range(2):
            oracle.run("lzy-restore 's.%r'", advised=True)
            oracle.run("lzy-restore 'n.%r'", advised=True)
        # At the latest when the files have their names again.
        if not {lost, rotten} <= set(world.files().values()):
            for rank in (0, 1, 2, 4):
                self.swap(f"s.{rank}", f"n.{rank}")
            world.must("mv n.3 s.3")
            world.run("lzy-restore 's.%r' 'n.%r'")
        self.assertLessEqual({lost, rotten}, set(world.files().values()), world.story())

    def test_the_last_sidecar_that_knows_a_swapped_file_is_not_removed(self):
        world = self.world
        self.files(["f", "g"])
        world.protect("f g")
        lost = hash_of(world.read("g"))
        self.swap("f", "g")
        os.remove(world.path("f"))  # what was g
        world.log.append("rm f")
        oracle = Oracle(world)
        oracle.run("lzy-verify .")  # as after "mv f g", which replaces g; lzy-info --prune tells of the sidecar
        oracle.run("lzy-restore f")
        oracle.run("lzy-restore .")
        knows = {commit.content for _, commit in world.known_sidecars().values()}
        self.assertIn(lost, knows | set(world.files().values()), world.story())


    def two_sets(self, of_n=3):
        world = self.world
        self.files([f"n.{rank}" for rank in range(of_n)], 20000)
        self.files([f"s.{rank}" for rank in range(3)], 30000)
        world.protect("'n.%r' 's.%r'")

    def test_sidecars_that_two_directories_exchanged_are_made_again_and_lost_by_neither(self):
        # The newer set has as many members, more or less; the names are the same or others.
        for one, other, newer in (("s", "s", 3), ("s", "s", 2), ("s", "s", 5), ("s", "n", 3)):
            world = self.world = World(BIN, f"{self.id()} {other} {newer}")
            self.addCleanup(world.remove)
            self.files([f"a/{one}.{rank}" for rank in range(3)])
            self.files([f"b/{other}.{rank}" for rank in range(newer)])
            world.protect(f"'a/{one}.%r' 'b/{other}.%r'")
            self.swap(f"a/.LZY.{one}.1", f"b/.LZY.{other}.1")
            for _ in range(3):
                done = self.follow("lzy-verify .")
            self.assertEqual(done.code, 0, world.story())

    def test_members_whose_sidecars_two_directories_exchanged_are_not_damaged(self):
        world = self.world
        self.files([f"{directory}/s.{rank}" for directory in "ab" for rank in range(4)])
        world.protect("'a/s.%r' 'b/s.%r'")
        self.swap("a/.LZY.s.1", "b/.LZY.s.1")
        self.judge("lzy-protect 'a/s.%r'", "lzy-protect 'b/s.%r'", "lzy-verify .", codes=[0, 0, 0])

    def test_a_member_beside_the_sidecar_of_another_file_is_not_damaged(self):
        world = self.world
        self.files(["f", *(f"s.{rank}" for rank in range(4))])
        world.protect("f 's.%r'")
        lost = hash_of(world.read("f"))
        world.must("mv .LZY.f .LZY.s.1 && rm f && lzy-protect 's.%r'")
        self.judge("lzy-verify 's.%r'", "lzy-verify .", "lzy-restore f", "lzy-verify .", codes=[0, 1, 0, 0])
        self.assertEqual(world.files()["f"], lost)

    def test_an_older_member_that_was_put_back_with_its_sidecar_is_kept(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)])
        world.protect("'s.%r'")
        for commit in (1, 2):
            world.must("mkdir -p ../kept && cp -a . ../kept")
            self.files([f"s.{rank}" for rank in range(4)], mtime_ns=LONG_AGO + commit * SECOND)
            world.protect("'s.%r'")
        newest, older = world.read("s.2"), None
        for times in range(2):
            world.must("cp -a ../kept/s.2 ../kept/.LZY.s.2 .")
            older = world.read("s.2")
            done = self.follow("lzy-verify 's.%r'")
            self.assertEqual(done.code, 0, world.story())
            self.assertEqual(world.read("s.2"), newest)
            self.assertEqual(world.read("s.2.commit-2" + (".2" if times else "")), older, world.story())
        self.intact("lzy-verify .")
        world.must("cp -a ../kept/s.2 ../kept/.LZY.s.2 . && lzy-restore --force 's.%r' && rm -r ../kept")
        self.assertEqual(world.read("s.2"), newest)

    def test_a_member_that_is_committed_by_another_set_leaves_its_sidecar(self):
        self.two_sets()
        world = self.world
        parity = world.superblocks()[".LZY.n.1"]
        world.must("mv n.1 s.1 && echo more >> s.1 && rm n.2")  # half of n.2 can be rebuilt by the parity of n.1
        world.must("lzy-protect 's.%r'")
        self.assertEqual(world.superblocks().get(".LZY.n.1"), parity, world.story())
        self.assertEqual(world.run("lzy-verify 's.%r'").code, 0, world.story())

    def test_a_set_whose_members_were_all_moved_into_another_and_edited_keeps_its_sidecars(self):
        self.two_sets(of_n=2)
        world = self.world
        for rank in range(2):
            self.swap(f"n.{rank}", f"s.{rank}")
        world.write_random("s.1", 20000, LONG_AGO + SECOND)
        oracle = Oracle(world)
        oracle.run("lzy-verify --repair 's.%r'")
        oracle.run("lzy-protect 's.%r'")
        self.assertEqual(world.run("lzy-verify 's.%r'").code, 0, world.story())

    def test_a_lost_member_does_not_wait_for_the_sidecar_of_another(self):
        world = self.world
        for name in ("p.0", "p.1", "p.2", "p.3", "l"):
            world.write_random(name, 3000)
        world.protect("'p.%r'")
        world.protect("l")
        world.must("mv .LZY.p.0 between && mv .LZY.p.3 .LZY.p.0 && mv between .LZY.p.3")
        world.must("ln -f p.0 l && rm p.0")
        self.assertNotIn("another process", world.run("lzy-restore 'p.%r'", env={"LZY_TIMEOUT": "1"}).text)

    def test_a_lost_member_of_exchanged_sets_is_repairable_for_verify_too(self):
        world = self.world
        for kind in ("s", "n"):
            for rank in range(5):
                world.write_random(f"{kind}.{rank}", 3000)
        world.protect("'s.%r' 'n.%r'")
        for rank in range(5):
            self.swap(f"s.{rank}", f"n.{rank}")
        world.must("rm s.3")
        self.judge("lzy-verify 's.%r'", "lzy-restore 's.%r'", "lzy-verify .", codes=[1, 0, 0])

    def test_a_set_that_was_renamed_and_edited_leaves_nothing_behind(self):
        self.two_sets()
        world = self.world
        for rank in range(3):
            world.must(f"mv n.{rank} m.{rank}")
        world.write_random("m.1", 20000, LONG_AGO + SECOND)
        self.judge("lzy-protect 'm.%r'", "lzy-verify 'm.%r'", codes=[0, 0])
        self.assertEqual(sorted(path for path in world.superblocks() if "s." not in path), [f".LZY.m.{rank}" for rank in range(3)], world.story())

    def test_a_sidecar_of_a_set_beside_another_file_is_no_set(self):
        self.two_sets()
        world = self.world
        os.makedirs(world.path("d"))
        world.write_random("d/f", 30000, LONG_AGO)
        world.must("cp -p .LZY.s.1 d/.LZY.f")
        done = world.run("lzy-verify .")
        self.assertIn("d/.LZY.f: it is the sidecar of rank 1 of the set s.%r, not that of d/f", done.text)
        self.assertNotIn("beyond repair", done.text)


class Moved(Lost):
    """Files that were moved, and committed under their new names."""

    def test_a_file_that_was_moved_over_a_member_and_committed_with_its_set(self):
        world = self.world
        self.files(["f", "g", "s.0", "s.1", "s.2"])
        world.protect("'s.%r' f g")
        self.swap("f", "s.1", also_sidecars=True)
        world.must("mv s.2 s.2.aside && mv g s.2 && lzy-protect .")
        self.intact("lzy-verify 's.%r'")
        done = self.follow("lzy-verify .")  # g is gone, and can be made again
        self.assertEqual(done.code, 0, world.story())


    def test_members_that_were_renamed_to_names_without_a_rank(self):
        world = self.world
        self.files(["s.0", "s.1", "s.2"])
        world.protect("'s.%r'")
        world.must("mv s.0 first && mv s.1 second && mv s.2 third")
        done, = self.judge("lzy-verify .", codes=[4])
        self.assertIn("rename it back: mv -n first s.0; to protect it alone: lzy-protect first\n", done.text)
        self.assertNotIn("device", done.text)
        done = Oracle(world).follow("lzy-verify second", choose=lambda steps: steps[-1])  # to protect it alone
        self.assertEqual(done.code, 0, world.story())


class Proven(Lost):
    """What a sidecar in reach proves is no damage, however it came there; and what proves it stays."""

    def kept(self, *commands, codes=None):
        """No content is lost by these commands, each one typed after the other."""
        world = self.world
        before = set(world.files().values()) - {hash_of(b"")}
        done = [world.run(command) for command in commands]
        self.assertLessEqual(before, set(world.files().values()), world.story())
        if codes is not None:
            self.assertEqual([one.code for one in done], codes, world.story())
        return done

    def test_a_file_that_was_empty_is_not_emptied_again(self):
        self.files(["a/f", "s.1"], 0)
        self.files(["b/f", "s.0", "s.2", "g"], 60000)
        self.world.protect("a b g 's.%r'")
        self.swap("a/f", "b/f")
        self.swap("s.1", "g")
        self.kept("lzy-restore .", "lzy-restore a", "lzy-verify --repair 's.%r'", "lzy-restore 's.%r'")

    def test_a_file_that_became_longer_is_not_cut(self):
        self.files(["f"], 65536)
        self.world.must("mkdir a && cp -p f a/f && head -c 300000 /dev/urandom >> f && touch -r a/f f")
        self.world.protect("f a/f")
        self.world.must("mv f a/f")
        self.kept("lzy-restore a", "lzy-verify --repair .")
        self.world.must("rm .LZY.f")  # now nothing proves it
        self.kept("lzy-restore --catalog off a/f")

    def test_a_new_file_in_the_place_of_a_member_that_took_its_sidecar_along(self):
        self.files([f"s.{rank}" for rank in range(4)], 60000)
        self.world.protect("'s.%r'")
        self.world.must("mv s.0 s.0.old && mv .LZY.s.0 .LZY.s.0.old")
        self.files(["s.0"], 60000)
        self.kept("lzy-restore 's.%r'", "lzy-restore .")

    def test_rot_in_a_member_that_was_swapped_with_its_sidecar(self):
        self.files([f"s.{rank}" for rank in range(4)], 60000)
        self.world.protect("--parity 2 's.%r'")
        self.swap("s.0", "s.1", also_sidecars=True)
        self.world.flip("s.1", 100)
        self.kept("lzy-restore 's.%r'", "lzy-protect 's.%r'", "lzy-restore .")
        self.swap("s.0", "s.1", also_sidecars=True)
        self.judge("lzy-restore 's.%r'", "lzy-verify .", codes=[0, 0])

    def test_a_member_with_the_sidecar_of_another_set_of_the_same_name_is_not_salvaged(self):
        world = self.world
        self.files(["s.0", "s.1", "d2/s.0", "d2/s.2", "d2/s.3", "d2/s.4"])
        self.files(["d2/s.1"], 200000)
        world.protect("'s.%r' 'd2/s.%r'")
        for name in ("s.0", ".LZY.s.0", "s.1", ".LZY.s.1"):
            world.must(f"mv {name} between && mv d2/{name} {name} && mv between d2/{name}")
        world.must("rm s.0")
        self.kept("lzy-restore .", "lzy-restore --salvage 'd2/s.%r'", "lzy-restore --salvage 's.%r'")

    def test_the_sidecar_of_another_member_is_not_overwritten(self):
        self.files([f"s.{rank}" for rank in range(4)], 60000)
        self.world.protect("--parity 2 's.%r'")
        key = self.world.known_sidecars()[".LZY.s.1"][0]
        self.swap("s.0", "s.1", also_sidecars=True)
        self.world.must("rm s.0")
        self.kept("lzy-restore 's.%r'")
        self.assertIn(key, [known for known, _ in self.world.known_sidecars().values()], self.world.story())

    def test_all_paths_of_a_command_are_in_reach_from_the_start(self):
        self.files(["f", "x/g"])
        self.world.protect("f x/g")
        self.world.must("cp -a x/g f")
        self.kept("lzy-verify --repair --catalog off f x/g", "lzy-restore --catalog off f x")

    def test_pruning_keeps_the_sidecar_of_an_empty_member(self):
        world = self.world
        self.files(["s.0"], 0)
        self.files(["s.1", "s.2"], 9000)
        world.protect("'s.%r'")
        world.must("mkdir b && mv s.? b/ && lzy-info --prune .; mv b/s.? . && rm s.2")
        self.judge("lzy-restore 's.%r'", "lzy-verify .", codes=[0, 0])

    def test_a_member_of_another_set_that_was_moved_here_dissolves_no_set(self):
        world = self.world
        self.files([f"a/s.{rank}" for rank in range(3)], 9000)
        world.protect("'a/s.%r'")
        self.files(["b/s.0", "b/s.1"], 9000)
        world.protect("'b/s.%r'")
        whole = hash_of(world.read("a/s.1"))
        world.must("mv b/s.1 b/.LZY.s.1 a/")
        done = world.run("lzy-protect 'a/s.%r'")
        self.assertNotEqual(done.code, 0, world.story())
        self.assertIn("members of two sets are mixed here", done.text, world.story())
        world.must("mv a/s.1 a/.LZY.s.1 b/")
        self.judge("lzy-restore 'a/s.%r'", "lzy-verify .", codes=[0, 0])
        self.assertEqual(hash_of(world.read("a/s.1")), whole, world.story())

    def test_no_sidecar_is_to_be_removed_where_two_sets_exchanged_members(self):
        world = self.world
        self.files(["b/s.0", "b/s.1"], 9000)
        world.protect("'b/s.%r'")
        self.files([f"a/s.{rank}" for rank in range(5)], 9000)
        world.protect("--parity 3 'a/s.%r'")
        for name in ("s.1", ".LZY.s.1"):
            world.must(f"mv a/{name} between && mv b/{name} a/{name} && mv between b/{name}")
        world.flip("a/s.1", 100)
        text = world.run("lzy-verify .").text
        self.assertNotIn("rm ", text, world.story())
        self.assertIn("b/s.%r", text, world.story())

    def test_the_sidecar_of_a_renamed_member_is_not_removed(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)], 9000)
        world.protect("'s.%r'")
        world.must("mv s.1 n && rm s.3")
        for command in ("lzy-protect --remove --yes n", "lzy-protect --remove --yes ."):
            done = world.run(command)
            self.assertNotEqual(done.code, 0, world.story())
            self.assertIn("whose other members may need it", done.text, world.story())
        world.must("mv n s.1")
        self.judge("lzy-restore 's.%r'", "lzy-verify .", codes=[0, 0])

    def test_a_link_in_the_place_of_a_file_is_not_that_file(self):
        world = self.world
        self.files(["b", "c", "d/e"], 9000)
        world.protect("b c d/e")
        world.must("ln -sf b c")
        told = world.run("lzy-verify .").text
        self.judge("lzy-verify c", "lzy-restore c", "lzy-verify --repair c", "lzy-protect c", codes=[2, 2, 2, 3])
        self.assertIn("c is a symbolic link now; first move it away", told, world.story())
        self.assertIn("c is a symbolic link now; first move it away", world.run("lzy-verify c").text, world.story())
        world.must("ln -s d/e l")  # a link in nobody's place
        self.judge("lzy-verify l", codes=[0])

    def test_what_a_set_records_of_a_lost_member_proves_a_file_of_another_set(self):
        names = [f"{of}.{rank}" for of in "sn" for rank in range(3)]
        self.files(names, 60000)
        self.world.protect("'s.%r' 'n.%r'")
        self.world.must("cp -p s.1 n.1 && rm s.1 .LZY.s.1 s.2")
        self.kept("lzy-restore 'n.%r'", "lzy-verify --repair 'n.%r'", "lzy-restore .")

    def test_what_a_set_records_of_a_lost_member_proves_a_file_of_another_directory(self):
        self.files(["a/s.0", "a/s.1", "a/s.2"], 60000)
        self.world.must("mkdir b && cp -p a/s.1 b/f")
        self.world.flip("b/f", 100)
        self.world.protect("'a/s.%r' b/f")
        self.world.must("cp -p a/s.1 b/f && rm a/s.1 a/.LZY.s.1 a/s.2")
        self.kept("lzy-restore b/f", "lzy-verify --repair b")

    def test_a_copy_of_a_rotten_file_that_only_a_set_records_does_not_prove_it(self):
        self.files(["f", "s.0", "s.1"], 60000)
        self.world.protect("f")
        self.world.flip("f", 100)
        self.world.must("cp -p f s.1")
        self.world.protect("'s.%r'")
        self.world.must("rm .LZY.s.1")
        self.judge("lzy-restore f", "lzy-verify f", codes=[0, 0])

    def test_a_commit_of_a_set_leaves_the_proof_of_another_file(self):
        self.files(["s.0", "s.1", "n.0", "n.1"])
        self.world.protect("'s.%r' 'n.%r'")
        self.world.must("cp -a s.1 n.1")
        self.world.write_random("s.1", 3000)
        self.kept("lzy-verify .", "lzy-protect 's.%r'", "lzy-verify --repair .", codes=[9, 9, 9])

    def test_a_commit_leaves_the_proof_of_a_file_in_another_directory(self):
        self.files(["f", "x/g", "h", "x/i"])
        self.world.protect("f x/g h x/i")
        self.world.must("cp -a f x/g && mv h t && mv x/i h && mv t x/i")
        self.world.write_random("f", 3000)
        self.kept("lzy-protect f", "lzy-protect h", "lzy-verify --repair .", "lzy-protect x/i", "lzy-verify --repair .")

    def test_files_that_were_written_within_one_tick_have_the_same_time(self):
        self.files(["f", "g", "s.0", "s.1", "h"], mtime_ns=LONG_AGO + 25 * SECOND // 100)
        self.world.protect("f g 's.%r' h")
        self.world.must("cp -p f g && echo x >> f && cp -p s.1 h && echo x >> s.1")
        self.kept("lzy-protect f", "lzy-protect 's.%r'", "lzy-verify --repair .", codes=[9, 9, 9])

    def test_a_commit_leaves_the_proof_of_files_that_had_another_size_or_lost_their_sidecar(self):
        self.files(["d2/a", "ck.0", "ck.1", "fa", "n.0", "n.1"])
        self.files(["f"], 300)
        self.world.protect("d2/a f 'ck.%r' 'n.%r' fa")
        self.world.must("cp -a f t && cp -a d2/a f && cp -a t d2/a && rm t")
        self.world.must("mv ck.0 n.1 && mv fa ck.0 && rm .LZY.n.1")
        self.kept("lzy-protect d2/a", "lzy-restore f", "lzy-protect f", "lzy-restore d2/a")
        self.kept("lzy-protect 'ck.%r'", "lzy-restore 'n.%r'", "lzy-protect .", "lzy-restore 'n.%r'")

    def test_a_copy_leaves_the_proof_of_another_file(self):
        for one, options in (("f", ""), ("i", "--no-protect ")):
            other = one + ".other"
            self.files([one, other, "h"])
            self.world.protect(f"{one} {other} h")
            self.world.must(f"cp -p {one} {other} && lzy-copy {options}h {one}")
            self.kept("lzy-verify --repair .", "lzy-info --prune .", f"lzy-verify --repair {other}")
            self.world.must("rm h .LZY.h")

    def test_a_sidecar_that_was_set_aside_proves_files_of_other_directories(self):
        self.files(["a/f", "a/h", "b/g"])
        self.world.protect("a b")
        self.world.must("cp -p a/f b/g && mv a/h a/f && lzy-protect a/f")
        self.kept("lzy-verify --repair a b", "lzy-restore b/g", "lzy-verify --repair b")

    def test_a_sidecar_that_proves_another_file_is_not_pruned(self):
        self.files(["f", "h", "x/g", "i"], 200000)
        self.world.must("cp -a f g && printf x | dd of=g conv=notrunc status=none && touch -r f g")
        self.world.protect(". ")
        self.world.must("mv f g && cp -a h i && rm h && cp -a x/g s && mv s f && rm x/g")
        self.kept("lzy-info --prune .", "lzy-verify --repair .", "lzy-info --prune .", "lzy-verify --repair .")

    def test_a_file_that_was_copied_back_has_its_own_sidecar(self):
        self.files(["f"], 200000)
        self.world.protect("f")
        self.world.must("cp -a f ../good && sleep 0.05 && echo edit >> f && mv f f.bak && cp ../good f && rm ../good")
        done = self.kept("lzy-verify .", "lzy-restore f", "lzy-protect f.bak", "lzy-verify f", codes=[0, 0, 0, 0])
        self.assertIn("f: intact", done[3].text)

    def test_a_member_in_another_directory_keeps_the_parity_that_it_brought_along(self):
        self.files([f"node{rank}/state" for rank in range(3)] + [f"s.{rank}" for rank in range(3)], 20000)
        self.world.protect("'node%r/state' 's.%r'")
        self.world.must("mv node1 old1 && mkdir keep && mv s.1 keep/x && mv .LZY.s.1 keep/.LZY.x")
        self.kept("lzy-protect old1/state", "lzy-protect keep/x")
        self.world.must("mv old1 node1 && mv keep/x s.1 && mv keep/.LZY* . && rm node0/state s.0")
        self.world.must("lzy-restore 'node%r/state' && lzy-restore 's.%r'")

    def test_a_mistyped_pattern_after_whole_sets_exchanged_their_names(self):
        self.files(["ck.0.0", "ck.0.1", "ck.1.0", "ck.1.1"], 20000)
        self.world.protect("'ck.0.%r' 'ck.1.%r'")
        for rank in range(2):
            self.swap(f"ck.0.{rank}", f"ck.1.{rank}")
        before = self.world.print_of()
        for tool in ("lzy-protect", "lzy-restore", "lzy-verify"):
            self.kept(f"{tool} 'ck.%r.1'", codes=[3])
        self.assertEqual(self.world.print_of(), before)

    def test_files_that_exchanged_their_names_are_judged_alike_by_all_threads(self):
        for attempt in range(5):
            one, other = f"d{attempt}/f", f"d{attempt}/g"
            self.files([one, other], 5000)
            self.world.protect(f"{one} {other}")
            self.swap(one, other)
            self.kept("lzy-restore .", "lzy-verify .", codes=[0, 0])

    def test_a_set_that_was_rotated_with_its_sidecars_is_not_committed_unseen(self):
        self.files([f"s.{rank}" for rank in range(4)], 20000)
        self.world.protect("'s.%r'")
        self.world.must("for i in 3 2 1 0; do mv s.$i s.$((i+1)); mv .LZY.s.$i .LZY.s.$((i+1)); done")
        self.files(["s.0"], 20000)
        self.world.flip("s.2", 100)
        done, = self.kept("lzy-protect 's.%r'")
        self.assertNotEqual(done.code, 0, self.world.story())

    def test_a_new_file_in_the_place_of_a_member_that_went_elsewhere_is_kept(self):
        for number, made in enumerate(("head -c 20000 /dev/urandom > s.0", "head -c 100 /dev/urandom > s.0", "head -c 90000 /dev/urandom > s.0")):
            directory = self.world.path(f"d{number}")
            os.mkdir(directory)
            names = [f"d{number}/s.{rank}" for rank in range(3)]
            self.files(names, 20000)
            self.world.protect(f"'d{number}/s.%r'")
            self.world.must(f"cd d{number} && mkdir x && mv s.0 .LZY.s.0 x && {made} && touch -r x/s.0 s.0")
            self.kept(f"lzy-restore 'd{number}/s.%r'", f"lzy-verify 'd{number}/s.%r'", codes=[0, 0])
            self.assertTrue(os.path.exists(self.world.path(names[0] + ".replaced")), self.world.story())

    def test_rot_in_a_member_without_its_sidecar_is_kept(self):
        """No stamp shows that it is the committed file."""
        self.files([f"s.{rank}" for rank in range(3)], 200000)
        self.world.protect("'s.%r'")
        self.world.must("rm .LZY.s.0")
        self.world.flip("s.0", 100)
        rotten = self.world.read("s.0")
        self.world.must("lzy-restore 's.%r'")
        self.assertEqual(self.world.read("s.0.replaced"), rotten, self.world.story())

    def test_a_whole_member_without_its_sidecar_leaves_no_file_behind(self):
        self.files([f"s.{rank}" for rank in range(3)], 200000)
        self.world.protect("'s.%r'")
        self.world.must("rm .LZY.s.0 && lzy-restore 's.%r' && lzy-restore --device 0 's.%r'")
        self.assertFalse(os.path.exists(self.world.path("s.0.replaced")), self.world.story())

    def test_rot_in_a_member_that_was_renamed_with_its_sidecar_has_advice_that_ends(self):
        self.files([f"s.{rank}" for rank in range(3)], 20000)
        self.world.protect("'s.%r'")
        self.world.must("mv s.0 g && mv .LZY.s.0 .LZY.g")
        self.world.flip("g", 100)
        self.follow("lzy-verify g")


class Undone(Lost):
    """Rot that others hold as well, files with several names, members that were renamed and are damaged; and what --force takes back."""

    def each(self, names, size, step=10):
        """Each with a time of its own."""
        for number, name in enumerate(names):
            self.files([name], size, LONG_AGO + number * step * 10**9)

    def keeps(self, *commands):
        before = set(self.world.files().values())
        done = [self.world.run(command) for command in commands]
        self.assertLessEqual(before, set(self.world.files().values()), self.world.story())
        return done

    def test_a_copy_of_a_rotten_file_does_not_prove_it(self):
        world = self.world
        copies = ("mkdir {0}.b && cp -p {0}/g {0}.b && lzy-protect -q {0}.b", "cp -p {0}/g {0}/g.bak && lzy-protect -q {0}/g.bak",
                  "mkdir {0}.b && ln {0}/g {0}.b/g && lzy-protect -q --force {0}.b", "cp -r {0} {0}.b && lzy-protect -q {0}.b/g")
        for number, copy in enumerate(copies):
            for size in (100, 300000):
                tree = f"a{number}.{size}"
                self.each([f"{tree}/g"], size)
                world.protect(tree)
                right = world.files()[f"{tree}/g"]
                world.flip(f"{tree}/g", size // 2)
                world.run("sleep 0.02")
                world.must(copy.format(tree))
                self.assertEqual(world.run(f"lzy-protect {tree}/g").code, 1, world.story())
                world.run(f"lzy-verify --repair {tree}/g")
                self.assertEqual(world.files()[f"{tree}/g"], right, world.story())

    def test_what_was_copied_over_a_file_is_proven_by_the_file_that_it_came_from(self):
        self.files(["f", "x/g"], 20000)
        self.world.protect("f x")
        self.world.run("sleep 0.02")
        self.world.must("cp -p x/g f && rm x/g")
        self.keeps("lzy-verify --repair .", "lzy-verify --repair f", "lzy-restore f")

    def test_a_file_that_became_another_size_in_place_is_not_overwritten(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)], 20000)
        self.files(["f"], 20000)
        self.files(["other", "more"], 300000)
        self.files(["less"], 10000)
        world.protect("'s.%r' f")
        world.must("cp -p other s.0 && cp -p more f && cp -p less s.2 && rm other more less")
        self.keeps("lzy-verify --repair .", "lzy-restore 's.%r'", "lzy-verify --repair f")

    def test_rot_beyond_repair_elsewhere_makes_no_old_file_of_another_one(self):
        world = self.world
        self.files(["k", "new"], 300000)
        world.must("dd if=k of=new bs=1000 count=65 conv=notrunc status=none && touch -r k new")
        world.protect("k")
        world.must("mkdir b && cp -p k b && mv new k")
        self.keeps("lzy-restore --from b k", "lzy-restore k", "lzy-verify --repair k")

    def test_undoing_a_link_leaves_the_other_names_as_they_are(self):
        world = self.world
        self.each(["s.0", "s.1", "s.2", "a", "b", "c"], 3000)
        world.protect("'s.%r' a b c")
        world.must("ln -f a s.1 && ln -f b c")
        self.keeps("lzy-verify --repair --force 's.%r'", "lzy-verify --repair --force c")
        world.must("lzy-verify a b 's.%r' c")

    def test_undoing_keeps_what_another_dataset_committed(self):
        world = self.world
        self.each(["s.0", "s.1", "s.2", "x/a"], 3000)
        world.protect("'s.%r' x/a")
        self.swap("x/a", "s.1")
        self.keeps("lzy-verify --repair --force 's.%r'")
        self.assertTrue(os.path.exists(world.path("s.1.replaced")), world.story())

    def test_sidecars_of_files_that_were_moved_or_are_damaged_are_not_pruned(self):
        world = self.world
        self.each([f"s.{rank}" for rank in range(3)] + ["a", "f"], 30000)
        world.protect("'s.%r' a f")
        world.must("mkdir y && mv s.* a y && mv f g")
        world.flip("g", 10)
        world.flip("y/a", 10)
        sidecars = set(world.superblocks())
        world.run("lzy-info --prune .")
        self.assertEqual(set(world.superblocks()), sidecars, world.story())

    def test_members_that_were_renamed_and_are_damaged_are_not_committed(self):
        world = self.world
        for names, pattern, options in (([f"d{rank}/s" for rank in range(4)], "d%r/s", "--parity 2"), ([f"s.{rank}" for rank in range(4)], "s.%r", "")):
            self.each(names, 20000)
            world.protect(f"{options} '{pattern}'")
            self.swap(names[1], names[3], also_sidecars=pattern == "d%r/s")
            world.flip(names[3], 2918)
            self.assertNotEqual(world.run(f"lzy-protect '{pattern}'").code, 0, world.story())
            self.assertNotEqual(world.run(f"lzy-verify '{pattern}'").code, 0, world.story())
            self.swap(names[1], names[3], also_sidecars=pattern == "d%r/s")
            self.assertEqual(world.run(f"lzy-verify --repair '{pattern}'").code, 0, world.story())


class Ranks(Lost):
    """Set and rank say which member a sidecar is of, wherever it is."""

    BACKUP = "cp -a . ../kept && find . -mindepth 1 -delete && cp -a ../kept/. . && rm -rf ../kept"

    def repaired(self, pattern, rotten):
        content = self.world.files()[rotten]
        self.world.flip(rotten, 100)
        oracle = Oracle(self.world)
        codes = [oracle.run(command).code for command in (f"lzy-verify '{pattern}'", f"lzy-verify --repair '{pattern}'", "lzy-verify .")]
        self.assertEqual(codes, [1, 0, 0], self.world.story())
        self.assertEqual(self.world.files()[rotten], content)

    def test_rot_beside_exchanged_sidecars_is_repaired_after_a_backup(self):
        self.files([f"s.{rank}" for rank in range(3)], 20000)
        self.world.protect("'s.%r'")
        self.swap(".LZY.s.0", ".LZY.s.1")
        self.world.must(self.BACKUP)
        self.repaired("s.%r", "s.0")

    def test_rot_beside_sidecars_that_two_directories_exchanged_is_repaired(self):
        self.files([f"d{rank}/s" for rank in range(3)], 20000)
        self.world.protect("'d%r/s'")
        self.swap("d0/.LZY.s", "d1/.LZY.s")
        self.repaired("d%r/s", "d1/s")

    def test_a_member_that_was_moved_alone_is_not_beyond_repair(self):
        self.files([f"s.{rank}" for rank in range(4)])
        self.world.protect("'s.%r'")
        self.world.must("mkdir x && mv s.1 .LZY.s.1 x/")
        done, = self.judge("lzy-verify .", codes=[1])
        self.assertIn("move it back: mv -n x/s.1 s.1 && mv -n x/.LZY.s.1 .LZY.s.1", done.text)
        self.assertNotIn("x/s.%r: damaged", done.text)
        self.world.must("mv -n x/s.1 x/.LZY.s.1 ./")
        self.intact("lzy-verify .")
        self.world.must("cp -p s.1 .LZY.s.1 x/")
        done, = self.judge("lzy-verify .", codes=[4])
        self.assertIn("if it is a file that you want, copy it to another name", done.text)
        self.assertNotIn("rm ", done.text)

    def test_a_misplaced_sidecar_makes_no_set(self):
        """Its name had the rank in it: lzy-restore 't%r.2' was the advice, which makes files that never were."""
        world = self.world
        for name in ("t1.2", "t2.2"):
            self.files(["t.0", "t.1", "t.2", "t.3", name])
            world.protect("'t.%r'")
            before = set(world.files())
            world.must(f"mv .LZY.t.{name[1]} .LZY.{name} && rm t.? .LZY.t.?")
            done = self.follow("lzy-verify .")
            self.assertNotRegex(done.text, r"t2\.%r|t%r\.2", world.story())
            self.assertLessEqual(set(world.files()), before, world.story())
            world.must("rm -f t* .LZY*")

    def test_two_members_that_changed_places_with_their_sidecars_are_known(self):
        """Not "its hashes are lost", with lzy-protect as the remedy, which refused it and advised itself."""
        for rot in (False, True):
            self.files(["s.0", "s.1"])
            self.world.protect("'s.%r'")
            self.swap("s.0", "s.1", also_sidecars=True)
            if rot:
                self.world.flip("s.0", 100)
            done = self.follow("lzy-verify 's.%r'")
            self.assertNotIn("hashes are lost", done.text, self.world.story())
            self.world.must("rm -f s.* .LZY*")


class WholeSeconds(Lost):
    """On an ext4 where times are in seconds, and times of birth are unknown."""

    def setUp(self):
        super().setUp()
        mounted = mount_ext4(16 << 20, "-I", "128")
        if mounted is None:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(os.rmdir, mounted)
        self.addCleanup(subprocess.run, ["umount", mounted], check=True)
        self.world.home = os.path.join(mounted, "home")
        os.mkdir(self.world.home)


class CoarseClocks(WholeSeconds):
    """Edits within the second of the commit."""

    def test_files_that_were_swapped_and_are_damaged_are_not_committed(self):
        for number, name in enumerate(("a", "b")):
            self.files([name], 30000, LONG_AGO + number * 10**9)
        self.world.protect("a b")
        self.swap("a", "b")
        self.world.flip("a", 9)
        self.world.flip("b", 9)
        self.assertNotEqual(self.world.run("lzy-protect .").code, 0, self.world.story())
        self.assertNotEqual(self.world.run("lzy-verify .").code, 0, self.world.story())

    def test_files_that_were_renamed_and_are_damaged_are_not_committed(self):
        self.files(["f", "s.0", "s.1", "s.2"], 30000)
        self.world.protect("f 's.%r'")
        self.world.must("mv f g && mv s.0 t.0 && mv s.1 t.1 && mv s.2 t.2")
        self.world.flip("g", 9)
        self.world.flip("t.1", 9)
        self.judge("lzy-protect g", "lzy-protect 't.%r'", codes=[4, 4])
        self.world.must("mv g f && mv t.0 s.0 && mv t.1 s.1 && mv t.2 s.2")
        self.judge("lzy-verify --repair .", "lzy-verify .", codes=[0, 0])

    def test_a_copy_of_a_rotten_file_does_not_prove_it(self):
        world = self.world
        self.files(["f", "s.0", "s.1", "s.2", "s.3"], 9000)
        world.protect("f 's.%r'")
        for name in ("f", "s.2"):
            world.flip(name, 4500)
            world.must(f"cp {name} {name}.copy && sleep 1.1 && lzy-protect {name}.copy")  # the copy's commit has another second
        self.judge("lzy-protect f", "lzy-protect 's.%r'", codes=[1, 1])
        self.judge("lzy-restore .", "lzy-verify f", "lzy-verify 's.%r'", codes=[0, 0, 0])

    def test_another_file_in_the_inode_of_a_member_is_kept(self):
        """A backup that was put back, of which nobody knows that it is not the file."""
        world = self.world
        self.files(["s.0", "s.1", "s.2", "f"], 9000)
        world.protect("'s.%r'")
        world.protect("--parity 3 --group 6 f")
        before = set()
        for name in ("s.1", "f"):
            mtime = os.stat(world.path(name)).st_mtime_ns
            world.must(f"head -c 9000 /dev/urandom | dd of={name} conv=notrunc status=none")
            os.utime(world.path(name), ns=(mtime, mtime))
            before.add(hash_of(world.read(name)))
        world.run("lzy-restore .")
        self.assertLessEqual(before, set(world.files().values()), world.story())
        self.assertTrue(os.path.exists(world.path("s.1.replaced")), world.story())

    def test_what_protect_refused_it_does_not_advise(self):
        world = self.world
        self.files(["s.0", "s.1", "s.2"], 9000)
        world.protect("'s.%r'")
        world.must("mv s.0 x.0 && mv s.1 x.1 && mv s.2 x.2")
        world.flip("x.2", 100)
        done = world.run("lzy-protect 'x.%r'")
        self.assertEqual(done.code, 4, world.story())
        self.assertNotIn("protect it with", done.text, world.story())

    def test_an_edit_in_the_second_of_the_commit_is_not_undone(self):
        world = self.world
        for attempt in range(8):
            name = f"f{attempt}"
            world.write_random(name, 3000)
            world.must(f"lzy-protect -q {name}")
            world.note_commit(world.files())
            committed = os.stat(world.path(name)).st_mtime_ns
            world.write_random(name, 3000)
            if os.stat(world.path(name)).st_mtime_ns == committed:
                break
        else:
            self.fail("the machine is too slow for an edit within a second")
        edited = hash_of(world.read(name))
        oracle = Oracle(world)
        self.assertEqual(oracle.run(f"lzy-verify {name}").code, 9, world.story())
        oracle.run(f"lzy-verify --repair {name}")
        oracle.run(f"lzy-restore {name}")
        self.assertEqual(hash_of(world.read(name)), edited, world.story())
        self.assertEqual(oracle.follow(f"lzy-verify {name}").code, 0, world.story())
        self.assertEqual(hash_of(world.read(name)), edited, world.story())


class Reach(Lost):
    """What a look at more than one directory proved holds for the narrower command that it prints."""

    def test_a_member_that_holds_a_file_of_another_directory_is_not_overwritten(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)] + ["x/g"], 20000)
        world.protect("--parity 2 's.%r'")
        world.protect("x/g")
        world.must("cp -p x/g t && cp -p s.2 x/g && cp -p t s.2 && rm t s.0")
        self.judge("lzy-verify .", "lzy-restore 's.%r'")

    def members(self, parity=1):
        self.files([f"d{rank}/st" for rank in range(4)], 20000)
        self.world.protect(f"--parity {parity} 'd%r/st'")

    def test_a_member_without_its_sidecar_is_not_protected_alone(self):
        world = self.world
        self.members(2)
        world.must("rm d0/.LZY.st d2/st")
        self.judge("lzy-protect .", "lzy-restore 'd%r/st'", "lzy-verify .", codes=[1, 0, 0])

    def test_a_set_whose_directories_were_renamed_stays_one(self):
        world = self.world
        self.members()
        world.must("for i in 0 1 2 3; do mv d$i e$i; done")
        self.assertIn("e%r/st: intact", world.run("lzy-verify .").text)
        world.must("lzy-protect . && rm e1/st && lzy-restore 'e%r/st'")

    def test_a_member_that_was_renamed_in_its_directory_makes_no_other_set(self):
        world = self.world
        self.members()
        world.must("mv d0/st d0/st.old && mv d0/.LZY.st d0/.LZY.st.old")
        self.assertNotIn("d%r/st.old", world.run("lzy-verify .").text)

    def test_an_older_member_is_not_cut_by_a_salvage(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)])
        world.protect("'s.%r'")
        world.must("mkdir ../bk && cp -a s.3 .LZY.s.3 ../bk")
        older = world.files()["s.3"]
        world.write("s.3", world.read("s.3") + bytes(100))
        world.protect("'s.%r'")
        world.write_random("s.2", 3000)
        world.must("cp -a ../bk/. .")
        world.run("lzy-restore --salvage 's.%r'")
        self.assertEqual(world.files()["s.3"], older, world.story())


class Advised(Lost):
    """The printed next step is the wrong one."""

    def test_zeros_are_not_committed_after_the_sidecar_was_emptied(self):
        world = self.world
        for directory in ("d0", "d1", "d2"):
            os.mkdir(world.path(directory))
        self.files(["ck"], 1000000)
        world.must("lzy-protect -q --device-dirs d0:d1:d2 --stripe 64K ck")
        world.note_commit(world.files())
        about = os.stat(world.path("ck"))
        with open(world.path("ck"), "r+b") as file:
            for unit in range(0, 1000000 // 65536, 3):
                file.seek(unit * 65536)
                file.write(bytes(65536))
        os.truncate(world.path("ck"), about.st_size)
        os.utime(world.path("ck"), ns=(about.st_atime_ns, about.st_mtime_ns))
        os.truncate(world.path(".LZY.ck"), 0)
        world.log.append("units 0, 3, 6 ... of ck become zeros, with the old time; truncate -s 0 .LZY.ck")
        zeros = hash_of(world.read("ck"))
        oracle = Oracle(world)
        self.assertNotEqual(oracle.run("lzy-verify ck").code, 0, world.story())
        for command in ("lzy-protect ck", "lzy-verify --repair ck", "lzy-restore ck"):
            oracle.run(command)
            self.assertEqual(hash_of(world.read("ck")), zeros)
            self.assertNotEqual(oracle.run("lzy-verify ck").code, 0, world.story())
        # The directories know what it was.
        oracle.run("lzy-verify --repair --device-dirs d0:d1:d2 ck")
        self.assertEqual(oracle.run("lzy-verify ck").code, 0, world.story())
        self.assertIn(hash_of(world.read("ck")), oracle.kept | set(world.true), world.story())

    def test_members_that_are_one_file_are_not_restored_in_turn(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)])
        world.protect("'s.%r'")
        world.must("ln -f s.0 s.1")
        before = world.files()
        oracle = Oracle(world)
        for command in ("lzy-verify 's.%r'", "lzy-restore 's.%r'", "lzy-verify --repair --force 's.%r'", "lzy-restore --force 's.%r'"):
            done = oracle.run(command)
            self.assertFalse(done.code == 0 and world.files()["s.0"] == world.files()["s.1"], world.story())
        oracle.follow("lzy-verify 's.%r'")
        self.assertIn(before["s.0"], world.files().values(), world.story())

    def test_a_sidecar_that_cannot_be_read_is_not_called_destroyed(self):
        world = self.world
        library = os.path.join(BIN, "..", "tests", "libbad_sectors.so")
        if not os.path.exists(library):
            self.skipTest("no library with bad sectors in this build")
        self.files(["f"])
        world.protect("f")
        sidecar = os.stat(world.path(".LZY.f"))
        bad = os.path.join(world.scratch, "bad")
        with open(bad, "w", encoding="ascii") as file:
            for page in range(0, sidecar.st_size, 4096):
                file.write(f"{sidecar.st_ino} {page} 512\n")
        for tool in ("lzy-verify", "lzy-restore", "lzy-info"):
            done = world.run(f"{tool} f", env={"LD_PRELOAD": library, "BAD_SECTORS": bad})
            self.assertEqual(done.code, 6, world.story())
            self.assertNotIn("lzy-protect", done.text)


class Members(Lost):
    """Members of sets that were moved among those of other sets, or to other directories."""

    def two_sets(self):
        """b/s.%r is newer and smaller than a/s.%r, and lends it a member."""
        world = self.world
        self.files([f"a/s.{rank}" for rank in range(3)], 9000)
        world.protect("'a/s.%r'")
        self.files(["b/s.0", "b/s.1"], 9000)
        world.protect("'b/s.%r'")
        world.must("mv b/s.1 b/.LZY.s.1 a/")

    def test_a_newer_member_that_was_moved_here_costs_nothing_that_is_here(self):
        world = self.world
        self.two_sets()
        before = world.files()
        for command in ("lzy-verify .", "lzy-scrub .", "lzy-verify --repair .", "lzy-restore .", "lzy-protect .", "lzy-protect 'a/s.%r'"):
            done = world.run(command)
        self.assertIn("members of two sets are mixed here", done.text, world.story())
        self.assertLessEqual(set(before), set(world.files()))
        world.must("mv a/s.1 a/.LZY.s.1 b/")
        self.judge("lzy-restore 'a/s.%r'", "lzy-verify .", codes=[0, 0])

    def test_an_older_member_that_was_put_back_is_of_the_older_set(self):
        """Nothing is elsewhere: the newer set counts, as before."""
        world = self.world
        self.files([f"a/s.{rank}" for rank in range(3)], 9000)
        world.protect("'a/s.%r'")
        world.must("cp -p a/s.0 a/.LZY.s.0 ..")
        self.files(["new/s.0", "new/s.1"], 9000)
        world.must("lzy-protect -q --catalog off 'new/s.%r' && mv -f new/s.? new/.LZY.s.? a && rmdir new && mv ../s.0 ../.LZY.s.0 a")
        self.assertIn("a/s.%r: damaged: what was edited must be committed first (set of 2 files", world.run("lzy-verify 'a/s.%r'").text, world.story())

    def test_rot_in_members_that_other_directories_have_now_is_not_committed(self):
        world = self.world
        for also_sidecars in (False, True):
            names = [f"d{rank}/s" for rank in range(5)]
            for number, name in enumerate(names):
                self.files([name], 9000, LONG_AGO + number * SECOND)
            world.protect("--parity 2 'd%r/s'")
            before = world.files()
            self.swap(names[1], names[3], also_sidecars)
            for name in (names[1], names[3]):
                world.flip(name, 100)
            rotten = world.files()
            for command in ("lzy-protect 'd%r/s'", "lzy-protect .", "lzy-protect 'd%r/s'"):
                self.assertEqual(world.run(command).code, 9, world.story())
            done = world.run("lzy-verify .")
            self.assertEqual(done.code, 9, world.story())
            self.assertIn("it is the file that was 'd3/s' at the last commit", done.text)
            self.assertEqual(world.files(), rotten)
            self.swap(names[1], names[3])
            self.judge("lzy-verify --repair .", "lzy-verify .", codes=[0, 0])
            self.assertEqual(world.files(), before)
            world.must("rm -r d?")

    def test_rot_in_a_member_that_was_moved_over_a_file_is_not_committed(self):
        world = self.world
        self.files([f"a/s.{rank}" for rank in range(4)], 9000)
        self.files(["b/f"], 300, LONG_AGO + SECOND)
        world.protect("'a/s.%r' b/f")
        world.must("mv a/s.1 b/f")
        world.flip("b/f", 100)
        for command in ("lzy-protect .", "lzy-protect b/f"):
            self.assertNotEqual(world.run(command).code, 0, world.story())
        self.assertIn("a/s.1' at the last commit", world.run("lzy-verify b/f").text, world.story())
        world.must("mv b/f a/s.1")
        self.judge("lzy-verify --repair 'a/s.%r'", "lzy-restore b/f", "lzy-verify .", codes=[0, 0, 0])

    def test_an_empty_file_in_the_place_of_a_member_is_kept(self):
        world = self.world
        for also_sidecar in (False, True):
            self.files([f"s.{rank}" for rank in range(3)], 9000)
            self.files(["f"], 300)
            self.files(["e", "g"], 0)
            world.protect("'s.%r' f")
            before = world.files()
            world.must("mv e s.1 && mv g f" + (" && rm .LZY.s.1" if also_sidecar else ""))
            done, _ = self.judge("lzy-restore .", "lzy-verify .", codes=[0, 0])
            self.assertIn("that is kept as s.1.replaced", done.text)
            self.assertIn("f: it was empty, and it may be another file; that is kept as f.replaced", done.text)
            del before["e"], before["g"]
            empty = hash_of(b"")
            self.assertEqual(world.files(), {**before, "s.1.replaced": empty, "f.replaced": empty})
            world.must("rm -f * .LZY*")

    def test_a_file_that_was_cut_to_nothing_leaves_no_file_behind(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)], 9000)
        world.protect("'s.%r'")
        before = world.files()
        world.must("touch -r s.1 then && truncate -s 0 s.1 && touch -r then s.1 && rm then")
        self.judge("lzy-restore 's.%r'", "lzy-verify .", codes=[0, 0])
        self.assertEqual(world.files(), before)

    def test_what_protect_refuses_is_not_advised(self):
        """Two sets exchanged their names; two sets exchanged members."""
        world = self.world
        names = [f"{directory}/{name}.{rank}" for directory, name in (("a", "s"), ("a", "n"), ("b", "s")) for rank in range(3)]
        for exchange in (("a/s.{}", "a/n.{}", (0, 1, 2), False), ("a/s.{}", "b/s.{}", (1,), True)):
            self.files(names, 9000)
            world.protect("'a/s.%r' 'a/n.%r' 'b/s.%r'")
            one, other, ranks, also_sidecars = exchange
            for rank in ranks:
                self.swap(one.format(rank), other.format(rank), also_sidecars)
            for command in ("lzy-verify .", "lzy-scrub .", "lzy-verify --repair .", "lzy-restore .", "lzy-status"):
                done = world.run(command)
                steps = [step for step in next_steps(done.text) if step.startswith("lzy-protect ")]
                self.assertTrue(steps, world.story())
                self.assertEqual([step for step in steps if "--force" not in step], [], world.story())
            world.must("rm -r a b && lzy-verify -q . ; lzy-status --forget .")

    def test_a_set_whose_members_are_told_of_one_by_one_is_none_any_more(self):
        """Half of a set has the names of another one. Once the sidecars are under the names of their files, no set is found."""
        world = self.world
        names = [f"ck.0.{rank}" for rank in range(6)] + [f"ck.1.{rank}" for rank in range(3)]
        for number, name in enumerate(names):
            self.files([name], 3000, LONG_AGO + number * SECOND)
        world.protect("'ck.0.%r' 'ck.1.%r'")
        for rank in range(3):
            self.swap(f"ck.0.{rank}", f"ck.1.{rank}")
        world.run("lzy-verify . ; lzy-verify --repair .")
        verify, status = world.run("lzy-verify ."), world.run("lzy-status")
        self.assertEqual((verify.code, status.code), (4, 4), world.story())
        self.assertNotIn("beyond repair", status.text, world.story())

    def test_a_member_whose_sidecar_came_back_is_no_file_of_its_own_any_more(self):
        """lzy-status went on to advise a commit that did nothing."""
        world = self.world
        self.files(["i.dat", "n.0", "n.1", "n.2"], 9000)
        world.protect("'n.%r' i.dat")
        self.swap(".LZY.n.0", ".LZY.i.dat")
        world.must("cp -r . ../kept && find . -mindepth 1 -delete && cp -r ../kept/. . && rm -rf ../kept")
        self.assertIn("n.0: stale", world.run("lzy-verify .").text)
        world.must("lzy-verify --repair 'n.%r'")
        self.assertNotIn("n.0: ", world.run("lzy-status").text, world.story())
        self.judge("lzy-verify --repair .", "lzy-status", codes=[0, 0])


class Told(Lost):
    """What is said of a state: a loss that nobody tells of, and words that promise what no command does."""

    def same_words(self, code):
        """lzy-status prints the commands that lzy-verify has printed, and exits with the same code."""
        world = self.world
        verify, status = world.run("lzy-verify ."), world.run("lzy-status")
        self.assertEqual((verify.code, status.code), (code, code), world.story())
        steps = [set(next_steps(text.replace(os.path.realpath(world.home) + "/", ""))) for text in (verify.text, status.text)]
        self.assertEqual(*steps, world.story())
        return steps[0]

    def test_status_says_force_where_verify_does(self):
        self.files(["a/f", "b/g"])
        self.world.protect("a b")
        self.world.must("cp -a a/f b/g")
        self.assertIn("lzy-protect --force b/g", self.same_words(9))

    def test_status_undoes_nothing_that_parity_cannot(self):
        self.files(["f"], 200000)
        self.world.protect("f")
        self.world.write_random("f", 200000)
        self.assertEqual(self.same_words(9), {"lzy-protect f"})

    def test_status_moves_away_what_is_in_the_way(self):
        self.files(["f", "g"])
        self.world.protect("f g")
        self.world.must("rm f && mkdir f")
        self.assertEqual(self.same_words(1), {"mv -n f f.away && lzy-restore f"})

    def test_status_of_an_edited_member_without_its_sidecar(self):
        self.files([f"s.{rank}" for rank in range(3)])
        self.world.protect("'s.%r'")
        self.world.write_random("s.1", 3000)
        self.world.must("rm .LZY.s.1")
        self.assertEqual(self.same_words(1), {"lzy-protect s.%r", "lzy-restore --force s.%r"})
        for command in ("lzy-verify .", "lzy-status"):
            self.assertIn("s.%r: damaged: what was edited must be committed first", self.world.run(command).text)

    def test_status_knows_of_members_that_were_renamed(self):
        self.files([f"s.{rank}" for rank in range(3)])
        self.world.protect("'s.%r'")
        self.world.must("mv s.0 first && mv s.1 second && mv s.2 third")
        self.assertEqual(self.same_words(4), {"lzy-protect first", "lzy-protect second", "lzy-protect third",
                                              "mv -n first s.0", "mv -n second s.1", "mv -n third s.2"})
        self.world.must("mv first s.0 && mv second s.1 && mv third s.2")
        self.same_words(0)

    def test_status_knows_of_what_could_not_be_read(self):
        self.files(["g", *(f"s.{rank}" for rank in range(4))])
        self.world.protect("'s.%r' g")
        self.world.must("ln -f s.0 s.1")
        self.assertEqual(self.world.run("lzy-verify .").code, 6, self.world.story())
        status = self.world.run("lzy-status")
        self.assertEqual(status.code, 6, self.world.story())
        self.assertIn("s.%r: could not be read", status.text)
        self.assertIn("lzy-verify " + os.path.realpath(self.world.home) + "/s.%r", status.text)
        self.world.must("cp -p s.1 t && mv t s.1")
        self.world.run("lzy-verify .")
        self.assertNotEqual(self.world.run("lzy-status").code, 6, self.world.story())

    def test_a_file_with_two_names_is_repaired_once(self):
        world = self.world
        names = [f"f{i}" for i in range(12)]
        self.files(names, 50000)
        self.files(["large"], 2000000)
        names.append("large")
        world.must(" && ".join(f"ln {name} {name}.too" for name in names))
        world.protect(".")
        before = world.files()
        for name in names:
            world.flip(name, 100)
        done, _ = self.judge("lzy-verify --repair .", "lzy-verify .", codes=[0, 0])
        self.assertNotIn("second read", done.text)
        self.assertEqual(done.text.count("; repaired"), len(names), world.story())
        self.assertEqual(world.files(), before)

    def exchange_and_lose(self, lost, *names):
        """The sidecars of these files go round; then one of the files is deleted."""
        world = self.world
        sidecars = [world.sidecar(name) for name in names]
        world.must(f"mv {sidecars[0]} between && " + " && ".join(f"mv {b} {a}" for a, b in zip(sidecars, sidecars[1:])) +
                   f" && mv between {sidecars[-1]} && rm {lost}")

    def test_a_file_that_was_deleted_after_its_sidecar_was_exchanged_is_missed(self):
        world = self.world
        for names in (("f", "g"), ("f", "g", "h"), ("f", "s.1")):
            for command in ("lzy-restore .", "lzy-restore f", "lzy-verify --repair . ; lzy-restore f"):
                self.files(["f", "g", "h", *(f"s.{rank}" for rank in range(3))])
                world.protect("f g h 's.%r'")
                content = world.read("f")
                self.exchange_and_lose("f", *names)
                done = world.run("lzy-verify .")
                self.assertEqual(done.code, 1, world.story())
                self.assertIn("f: data, offset 0, length 3000, device 0: missing", done.text)
                self.judge(command, "lzy-verify .", codes=[0, 0])
                self.assertEqual(world.read("f"), content)
                world.must("rm -f f g h s.* .LZY*")

    def test_a_file_that_was_moved_over_another_one_is_not_missed(self):
        for move in ("mv f g", "mv f g && mv .LZY.f .LZY.g", "mv f h && mv .LZY.f .LZY.h"):
            self.files(["f", "g"])
            self.world.protect("f g")
            self.world.must(move)
            self.judge("lzy-verify .", "lzy-status", codes=[0, 0])
            self.world.must("rm -f f g h .LZY* && lzy-verify . ; lzy-status --forget .")

    def test_a_copy_is_not_the_file_that_was_moved(self):
        world = self.world
        self.files(["a/f", *(f"a/s.{rank}" for rank in range(3))])
        world.must("lzy-protect -q 'a/s.%r' a/f && mkdir b && cp -p a/* a/.LZY* b")
        self.judge("lzy-verify .", codes=[0])
        world.must("rm -r a && mkdir a")
        done = world.run("lzy-verify .")
        self.assertEqual(done.code, 4, world.story())
        for lost in ("a/f", "a/s.%r"):
            self.assertIn(f"{lost}: vanished", done.text)
            self.assertIn(f"{lost}: vanished", world.run("lzy-status").text)

    def test_a_file_that_was_moved_is_not_missed(self):
        for move in ("mv a b", "mkdir b && mv a/* a/.LZY* b", "cp -pr a ../c && rm -r a && mv ../c b"):
            with self.subTest(move=move):
                self.files(["a/f", *(f"a/s.{rank}" for rank in range(3))])
                self.world.protect("'a/s.%r' a/f")
                self.judge("lzy-verify .", codes=[0])
                self.world.must(move)
                self.judge("lzy-verify .", "lzy-status", codes=[0, 0])
                self.world.must("rm -rf a b && lzy-verify . ; lzy-status --forget .")

    def test_a_glob_of_unprotected_files_is_not_silent(self):
        self.files(["u1", "u2", "d/u3", "p"])
        self.world.protect("p")
        for glob in ("u*", "d/*"):
            for command in ("lzy-verify", "lzy-verify --all", "lzy-restore", "lzy-scrub"):
                for paths in (f"'{glob}'", f"p '{glob}'"):
                    done, = self.judge(f"{command} {paths}", codes=[4])
                    self.assertIn(f"'{glob}': nothing that it matches is protected", done.text)
                    self.assertIn(f"protect it with: lzy-protect '{glob}'", done.text)
        self.judge("lzy-verify '*'", codes=[0])  # the others are none of its business

    def test_members_that_vanished_are_told_of_while_others_come_back(self):
        """A backup put back some of the members, without their sidecars."""
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)])
        world.protect("'s.%r'")
        world.must("lzy-verify -q . && cp -p s.0 s.1 .. && rm -f s.* .LZY* && mv ../s.0 ../s.1 .")
        for command in ("lzy-verify .", "lzy-status", "lzy-protect -q . ; lzy-verify .", "lzy-status"):
            done = world.run(command)
            self.assertEqual(done.code, 4, world.story())
            self.assertIn("s.%r: vanished", done.text, world.story())
            self.assertNotIn("lzy-protect s.%r", done.text)

    def test_a_renamed_member_with_rot_is_not_to_be_protected(self):
        for also_sidecar in (False, True):
            world = self.world
            self.files([f"s.{rank}" for rank in range(3)])
            world.protect("'s.%r'")
            before = world.files()
            world.must("mv s.1 s.1.old" + (" && mv .LZY.s.1 .LZY.s.1.old" if also_sidecar else ""))
            world.flip("s.1.old", 100)
            done = world.run("lzy-verify .")
            self.assertNotIn("lzy-protect s.1.old", done.text, world.story())
            step = re.search(r"it be repaired: (mv .*)", done.text).group(1)
            world.must(step)
            self.judge("lzy-verify --repair .", "lzy-verify .", codes=[0, 0])
            self.assertEqual(world.files(), before)
            world.must("rm -f s.* .LZY*")

    def test_what_cannot_be_recovered_is_not_to_be_salvaged_again(self):
        """lzy-restore --salvage named lzy-protect, which refused the file and named lzy-restore --salvage."""
        world = self.world
        self.files(["f"], 300000)
        world.protect("f")
        for offset in (70000, 200000):
            world.flip("f", offset)
        for command in ("lzy-restore --salvage f", "lzy-protect f", "lzy-verify f"):
            done = world.run(command)
            self.assertEqual(done.code, 2, world.story())
            self.assertNotIn(": lzy-restore --salvage", done.text, world.story())
            how = "copy the rest from a backup. To accept it as it is: lzy-protect --force f" if command.startswith("lzy-protect") else (
                "copy the rest from a backup, then commit it: lzy-protect f")
            self.assertIn(how, done.text, world.story())

    def test_the_set_is_chosen_alike_before_a_restore_and_in_it(self):
        """A newer set of the same name has left a sidecar here; a lost member's own one has the name of another member."""
        world = self.world
        for directory in "ab":
            self.files([f"{directory}/s.{rank}" for rank in range(4)])
            world.protect(f"--parity 2 '{directory}/s.%r'")
        self.swap("a/.LZY.s.1", "a/.LZY.s.3")
        world.must("rm a/s.1 && cp -p b/.LZY.s.2 a/.LZY.s.2")
        self.judge("lzy-restore 'a/s.%r'", "lzy-verify .", codes=[0, 0])

    # -------------------------------------------------------------------------------------------- files of two commits in one place
    def contents(self, names):
        return {name: self.world.read(name) for name in names}

    def test_members_of_an_older_larger_set_are_not_protected(self):
        """A run of fewer ranks wrote over some members. The others and their sidecars can restore the whole older set."""
        world = self.world
        names = [f"s.{rank}" for rank in range(5)]
        self.files(names)
        world.protect("--parity 3 's.%r'")
        older = self.contents(names)
        self.files(["new/s.0", "new/s.1"])
        world.must("lzy-protect -q --catalog off 'new/s.%r' && cp -p new/s.? new/.LZY.s.? . && rm -r new && rm s.4")
        newer = self.contents(names[:2])
        for command in ("lzy-verify --quiet .", "lzy-verify --quiet --all .", "lzy-scrub --quiet .", "lzy-protect --quiet .", "lzy-protect --force ."):
            done = world.run(command)
            self.assertEqual(done.code, 4, world.story())
            self.assertIn("s.3", done.text)
            self.assertIn("s.2", done.text)
            self.assertNotIn("rm ", done.text)
        status = world.run("lzy-status")
        self.assertEqual(status.code, 4, world.story())
        self.assertIn("2 unprotected", status.text)
        done = world.run("lzy-verify .")
        self.assertIn("s.4 is missing", done.text)
        self.assertEqual(world.run("lzy-verify 's.%r'").code, 0, world.story())
        world.must(re.search(r": (mkdir newer && .* && lzy-restore s.%r)", done.text).group(1))
        self.judge("lzy-verify .", "lzy-status", codes=[0, 0])
        self.assertEqual(self.contents(names), older)
        self.assertEqual({name: world.read(f"newer/{name}") for name in newer}, newer)

    def test_one_member_of_a_newer_commit_makes_nothing_unrepairable(self):
        """A healthy set, and a member of a newer copy of it: the older commit is found again."""
        world = self.world
        names = [f"s.{rank}" for rank in range(6)]
        self.files(names, 9000)
        world.protect("--parity 3 's.%r'")
        older = self.contents(names)
        world.must("mkdir cp && cp -p s.? .LZY.s.? cp")
        for name in names:
            world.write_random(f"cp/{name}", 9000)
        world.must("lzy-protect -q 'cp/s.%r' && mv cp/s.1 cp/.LZY.s.1 . && rm -r cp")
        newer = world.read("s.1")
        for command in ("lzy-verify .", "lzy-restore .", "lzy-protect ."):
            done = world.run(command)
            self.assertEqual(done.code, 2, world.story())
            self.assertIn("  5 of 6 members are as commit 1 left them, and the set can be restored as it was then: mkdir newer", done.text)
            self.assertNotIn("--salvage", done.text)  # nothing of the newer commit can be recovered
        world.must(re.search(r": (mkdir newer && .* && lzy-restore s.%r)", done.text).group(1))
        self.judge("lzy-verify 's.%r'", codes=[0])
        self.assertEqual(self.contents(names), older)
        self.assertEqual(world.read("newer/s.1"), newer)

    def test_what_needs_a_commit_is_not_to_be_restored(self):
        """Without what an edit replaced, the lost sidecar of another member cannot be made again."""
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)], 9000)
        world.protect("'s.%r'")
        world.write_random("s.0", 9000)
        world.must("rm .LZY.s.2")
        for command in ("lzy-verify .", "lzy-verify --repair .", "lzy-restore 's.%r'"):
            done = world.run(command)
            self.assertEqual(done.code, 1, world.story())
            self.assertIn("what was edited must be committed first", done.text)
            self.assertNotIn("repairable", done.text)
            self.assertEqual(next_steps(done.text), ["lzy-protect s.%r"], world.story())
        self.judge("lzy-protect 's.%r'", "lzy-verify .", codes=[0, 0])

    def test_what_a_restore_kept_is_not_to_be_put_over_the_member(self):
        for pattern in ("s.%r", "node%r/state"):
            world = self.world
            names = [pattern.replace("%r", str(rank)) for rank in range(5)]
            self.files(names, 100)
            world.protect(f"--parity 2 '{pattern}'")
            kept = world.sidecar(names[1])
            world.must(f"cp -p {names[1]} ../old && cp -p {kept} ../old.sidecar")
            self.files(names, 100, LONG_AGO + SECOND)
            world.must(f"lzy-protect -q '{pattern}' && mv ../old {names[1]} && mv ../old.sidecar {kept}")
            for name in names[3:]:
                world.write_random(name, 100)
            self.assertIn(f"that is kept as {names[1]}.commit-1", world.run(f"lzy-restore '{pattern}'").text)
            done = world.run("lzy-verify .")
            self.assertEqual(done.code, 1, world.story())
            for wrong in ("rename it back", "beyond repair", "lzy-restore"):
                self.assertNotIn(wrong, done.text)
            world.must(f"lzy-protect '{pattern}' && rm {names[1]}.commit-1")
            self.judge("lzy-verify .", codes=[0])
            world.must(f"lzy-protect --remove --yes '{pattern}' && rm -r s.* || rm -r node*")

    def test_a_stray_name_that_keeps_a_set_from_being_committed_is_to_be_changed(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)])
        world.protect("'s.%r'")
        self.files(["s.4"])
        world.write_random("s.0", 3000)
        done = world.run("lzy-verify .")
        self.assertEqual(done.code, 9, world.story())
        self.assertNotIn("makes it a member", done.text)
        refused = world.run("lzy-protect 's.%r'")
        self.assertEqual(refused.code, 6, world.story())
        self.assertIn("If s.4 is no member, give it another name", refused.text)
        world.must(re.search(r"for example: (mv -n s\.4 s\.4\.away)", done.text).group(1))
        self.judge("lzy-protect 's.%r'", "lzy-verify .", codes=[0, 0])

    def test_files_that_hold_each_others_content_are_not_to_be_committed_in_turn(self):
        world = self.world
        names = ["c", *(f"s.{rank}" for rank in range(5))]
        self.files(names)
        world.protect("'s.%r' c")
        before = self.contents(names)
        for name, other in (("c", "s.4"), ("s.4", "c")):
            world.write(name, before[other], LONG_AGO)
        self.assertIn("c and s.4 changed places; if that was a mistake, give the files their names back: mv -n ", world.run("lzy-verify .").text)
        for path, other in (("c", "s.4"), ("s.%r", "c")):
            done = world.run(f"lzy-protect '{path}'")
            self.assertEqual(done.code, 9, world.story())
            self.assertIn(f"it and '{other}' hold what the other one was at its last commit", done.text)
            self.assertNotIn("First commit", done.text)
        for name in ("c", "s.4"):
            world.write(name, before[name], LONG_AGO)
        self.judge("lzy-verify .", codes=[0])

    def test_no_undo_is_advised_that_needs_the_replica(self):
        world = self.world
        names = [f"s.{rank}" for rank in range(3)]
        self.files(names, 9000)
        world.protect("'s.%r'")
        world.must("mkdir ../replica && cp -p s.? ../replica")
        for name in names[:2]:
            world.write_random(name, 9000)
        done = world.run("lzy-restore --from '../replica/s.%r' 's.%r'")
        self.assertIn("it cannot be undone", done.text)
        self.assertIn("it cannot be undone", world.run("lzy-verify .").text)


class Left(Lost):
    """What is left when sidecars go to other files or are not needed, and what is said of it."""

    def older_and_newer(self, parity, older=4, newer=2):
        """A set of fewer members was committed where a larger one was; of that one, the sidecars of the members that are gone are left."""
        world = self.world
        self.files([f"d d/c.{rank}" for rank in range(older)])
        world.protect(f"--parity {parity} 'd d/c.%r'")
        left = " ".join(f".LZY.c.{rank}" for rank in range(newer, older))
        world.must(f"mkdir kept && cd 'd d' && mv {left} ../kept && rm c.* .LZY.c.*")
        self.files([f"d d/c.{rank}" for rank in range(newer)])
        world.protect("'d d/c.%r'")
        world.must("mv kept/.LZY.c.* 'd d' && rmdir kept")

    def test_the_sidecar_of_a_member_of_an_older_set_can_be_removed_by_the_command_that_is_printed(self):
        self.older_and_newer(parity=1)
        self.assertEqual(next_steps(self.world.run("lzy-verify 'd d/c.3'").text), ["lzy-info --prune 'd d'"])
        self.follow("lzy-verify 'd d/c.3'")
        self.assertFalse(os.path.exists(self.world.path("d d/.LZY.c.3")))
        self.judge("lzy-verify 'd d'", codes=[0])

    def test_sidecars_that_can_restore_an_older_set_are_not_to_be_removed_with_those_of_the_newer_one(self):
        world = self.world
        self.older_and_newer(parity=2)
        done = world.run("lzy-verify 'd d/c.3'")
        self.assertEqual((done.code, next_steps(done.text)), (4, []), world.story())
        self.assertIn("'d d/.LZY.c.3' may still restore the older set", done.text)
        for command in ("lzy-info 'd d'", "lzy-info --prune 'd d'"):
            listed = world.run(command).text
            self.assertIn("d d/.LZY.c.3: orphan: its file is gone, but can be rebuilt from it; another set has its name", listed)
            self.assertNotIn("--remove", listed)
        world.must("mkdir newer && mv 'd d/'c.? 'd d/.LZY.c.0' 'd d/.LZY.c.1' newer")
        self.judge("lzy-restore 'd d/c.%r'", codes=[2])  # two sidecars of four, so two members are lost; nothing else is touched

    def test_what_gives_a_sidecar_to_another_file_says_that_nothing_protects_the_first(self):
        """After a rotation and a backup. Until then, the new file was taken for an edit of the old one."""
        world = self.world
        self.files(["f", "g", "h"], 9000)
        world.protect("f g h")
        world.must("mv h f && mv g h")
        world.write_random("g", 300)
        world.must("tar cf ../t.tar . && find . -mindepth 1 -delete && tar xf ../t.tar && rm ../t.tar")
        oracle = Oracle(world)
        self.assertEqual(next_steps(oracle.run("lzy-verify g").text)[0], "lzy-protect g")
        done = oracle.run("lzy-protect h")
        self.assertEqual(done.code, 4, world.story())
        self.assertIn("h: protected", done.text)
        self.assertIn("g: it is not protected any more: by its content, the sidecar that it was judged by is that of 'h'", done.text)
        self.assertEqual(next_steps(done.text), ["lzy-protect g"])
        self.judge("lzy-protect g", "lzy-verify --all .", codes=[0, 0])

    def test_a_file_that_the_same_command_protects_is_not_told_of(self):
        world = self.world
        self.files(["f", "g", "h"], 9000)
        world.protect("f g h")
        world.must("mv h f && mv g h")
        world.write_random("g", 300)
        world.must("tar cf ../t.tar . && find . -mindepth 1 -delete && tar xf ../t.tar && rm ../t.tar")
        done, _ = self.judge("lzy-protect h g f", "lzy-verify --all .", codes=[0, 0])
        self.assertNotIn("any more", done.text)

    def test_a_member_that_has_the_name_of_a_file_whose_sidecar_went_to_another(self):
        world = self.world
        self.files(["f", "k", *(f"ck.{rank}" for rank in range(4))])
        world.protect("f k 'ck.%r'")
        world.must("mv k f && mv ck.1 k")
        done, _ = self.judge("lzy-protect f", "lzy-verify f", codes=[4, 0])
        self.assertIn("k: it is not protected any more", done.text)

    def test_a_link_to_a_file_does_not_take_its_sidecar(self):
        world = self.world
        self.files(["g", "i", *(f"p.{rank}" for rank in range(4))])
        world.protect("g i 'p.%r'")
        world.must("ln -f g i && mv .LZY.p.3 between && mv .LZY.g .LZY.p.3 && mv between .LZY.g")
        done, *_ = self.judge("lzy-verify i", "lzy-protect i", "lzy-verify g")
        self.assertNotIn("to give it the right name", done.text)
        self.assertEqual(world.run("lzy-verify g").code, 0, world.story())

    def test_a_member_that_was_renamed_alone_leaves_its_parity_to_the_set(self):
        """A repair of the file under its new name took the sidecar along. So a second member that was lost was beyond repair."""
        world = self.world
        for rename in ("mv s.0 s.0.real", "mv s.0 s.0.real && ln -s s.0.real s.0"):
            names = [f"s.{rank}" for rank in range(3)]
            self.files(names)
            world.protect("'s.%r'")
            before = {name: world.read(name) for name in names}
            world.must(f"{rename} && rm s.2")
            for command in ("lzy-verify --repair s.0.real", "lzy-verify --repair .", "lzy-restore s.0.real"):
                world.run(command)
                self.assertIn("s.%r: damaged, repairable", world.run("lzy-verify .").text)
            world.must("rm -f s.0 && lzy-restore 's.%r'")
            self.assertEqual({name: world.read(name) for name in names}, before)
            world.must("rm s.* .LZY.s.*")

    def nodes(self):
        world = self.world
        names = [f"b/node{rank}/state" for rank in range(3)]
        self.files(["b/k", *names])
        world.protect("b/k 'b/node%r/state'")
        return {name: world.read(name) for name in ["b/k", *names]}

    def test_a_member_that_left_its_directory_is_moved_back_to_where_it_was(self):
        world = self.world
        before = self.nodes()
        for moves, back in (("mv b/node1/state b/m", r"(mv -n \S*b/m b/node1/state)"),
                            ("mv b/node1/state b/m && mv b/node1/.LZY.state b/.LZY.m", r"rename it back: (mv -n b/m b/node1/state && mv -n \S* \S*);"),
                            ("mv b/node1/state b/node1/m", r"rename it back: (mv -n b/node1/m b/node1/state);")):
            world.must(moves)
            world.must(re.search(back, world.run("lzy-verify .").text).group(1))
            self.judge("lzy-verify .", codes=[0])
        self.assertEqual({name: world.read(name) for name in before}, before)

    def test_a_file_that_exchanged_its_sidecar_with_a_member_is_not_damaged(self):
        """It was to be given the name b/state, which nothing ever had."""
        world = self.world
        before = self.nodes()
        world.must("mv b/.LZY.k between && mv b/node1/.LZY.state b/.LZY.k && mv between b/node1/.LZY.state")
        text = world.run("lzy-verify .").text
        self.assertNotIn("and is damaged", text)
        world.must(re.search(r"To give it its own: (mv .*)", text).group(1))
        self.judge("lzy-verify .", codes=[0])
        self.assertEqual({name: world.read(name) for name in before}, before)

    def test_a_sidecar_of_a_set_in_another_directory_makes_no_set_there(self):
        """It said that all members of other/node%r/state are lost, which never was, and that a replica or a salvage is needed."""
        world = self.world
        self.files([f"b/node{rank}/state" for rank in range(3)])
        world.protect("'b/node%r/state'")
        world.must("mkdir other && cp -p b/node0/.LZY.state other/.LZY.x")
        done, = self.judge("lzy-verify .", codes=[4])
        self.assertIn("other/x: its sidecar is that of member 0 of the set b/node%r/state, which is elsewhere and has a sidecar of this member. If you do not need", done.text)
        self.assertNotIn("other/node", done.text)
        world.must("rm b/node0/.LZY.state")
        done, = self.judge("lzy-verify .", codes=[1])
        self.assertIn("move it back: mv -n other/.LZY.x b/node0/.LZY.state", done.text)
        self.assertNotIn("other/node", done.text)
        world.must("mv -n other/.LZY.x b/node0/.LZY.state")
        self.judge("lzy-verify .", codes=[0])

    def test_a_pattern_that_one_member_of_another_set_fits_is_refused(self):
        world = self.world
        self.files(["t0.dat", "t1.dat"], 300)
        self.files([f"ck.0.{rank}" for rank in range(5)])
        world.protect("'t%r.dat' 'ck.0.%r'")
        world.write_random("t0.dat", 5217)
        for one, other in (("t0.dat", "ck.0.0"), ("t1.dat", "ck.0.1")):
            self.swap(one, other)
        for command in ("lzy-protect --dry-run", "lzy-restore", "lzy-protect"):
            done = world.run(f"{command} ck.%r.0")
            self.assertEqual(done.code, 3, world.story())
            self.assertIn("Name one of the sets that are here: ck.0.%r", done.text)


class Versions(Lost):
    """Versions of a file that are alike, with one mtime: what is there may be what somebody wants, so a repair keeps it."""

    def alike(self, name, word, size=9000, mtime_ns=LONG_AGO):
        """A file of which each line says the same."""
        self.world.write(name, (f"set {word} energy 0.5\n".encode() * size)[:size], mtime_ns)

    def sparse(self, name, word):
        """A file of zeros, with some data."""
        self.world.write(name, bytes(9000) + (f"data{word}\n".encode() * 3000)[:3000] + bytes(8000), LONG_AGO)

    def keeps(self, *commands):
        """Follows what they print, and looks that each true content is still somewhere."""
        before = {content for content in self.world.files().values() if content in self.world.true}
        for command in commands:
            done = self.world.run(command)
            for step in next_steps(done.text):
                self.world.run(step)
        self.assertLessEqual(before, set(self.world.files().values()), self.world.story())

    def test_members_that_two_sets_exchanged_are_kept(self):
        world = self.world
        for letter in "de":
            for rank in range(3):
                self.alike(f"{letter}/s.{rank}", f"{letter} {rank}")
        world.protect("'d/s.%r' 'e/s.%r'")
        self.swap("d/s.0", "e/s.0")
        self.keeps("lzy-verify .", "lzy-protect --force 'd/s.%r'", "lzy-verify --repair .", "lzy-restore .")

    def test_an_edited_file_that_was_renamed_over_it_is_kept(self):
        world = self.world
        self.alike("f", "x", 3000)
        world.protect("f")
        self.alike("n", "y", 3000)
        world.must("mv n f")
        self.keeps("lzy-verify f", "lzy-verify --repair f")

    def test_a_small_file_that_was_renamed_over_a_member_is_kept(self):
        world = self.world
        for rank in range(3):
            self.alike(f"s.{rank}", "x", 70000)
        world.protect("'s.%r'")
        self.alike("n", "x", 100)
        world.must("mv n s.1")
        self.keeps("lzy-restore 's.%r'")

    def test_what_has_the_name_of_an_empty_member_without_a_sidecar_is_kept(self):
        for parity in (1, 2):
            world = World(BIN)
            self.addCleanup(world.remove)
            for rank in range(1 + parity):
                world.write(f"ck.{rank}", b"" if rank == 1 else world.random.randbytes(3000), LONG_AGO)
            world.protect(f"--parity {parity} 'ck.%r'")
            world.must("rm .LZY.ck.1")
            world.write_random("new", 100000, LONG_AGO)
            other = world.files()["new"]
            world.must("mv new ck.1 && lzy-restore 'ck.%r'")
            self.assertEqual(world.files().get("ck.1.replaced"), other, world.story())

    def test_a_similar_member_without_a_sidecar_is_kept(self):
        world = self.world
        for name in ("s.0", "s.1"):
            self.alike(name, name, 70000)
        world.protect("'s.%r'")
        self.alike("new", "n.0", 70000)
        world.must("mkdir d && mv s.0 .LZY.s.0 d/ && mv new s.0")
        self.keeps("lzy-verify 's.%r'", "lzy-restore 's.%r'")

    def test_a_file_of_zeros_that_was_renamed_over_it_is_kept(self):
        world = self.world
        self.sparse("f", "x")
        world.protect("f --block-size 4K")
        self.sparse("n", "y")
        world.must("mv n f")
        self.keeps("lzy-scrub --repair .")

    def test_a_rotten_file_that_was_moved_over_another_one_is_kept(self):
        world = self.world
        for name in "xy":
            self.sparse(name, name)
        world.protect("x y")
        before = world.files()
        world.flip("x", 9500)
        world.must("mv x y")
        done, _, _ = self.judge("lzy-verify y", "lzy-verify --repair .", "lzy-restore y")
        self.assertIn("it is the file that was 'x' at the last commit", done.text)
        world.must("mv y x")
        world.run("lzy-verify --repair x")
        self.assertEqual(world.files()["x"], before["x"], world.story())

    def test_an_older_version_that_is_longer_or_shorter_is_kept(self):
        world = self.world
        self.alike("f", "x", 100000)
        world.must("cp -p f first")
        world.write("f", world.read("f") + b"more" * 1000, LONG_AGO)
        world.protect("f")
        world.must("mv first f")
        self.keeps("lzy-verify f", "lzy-restore f")

    def test_an_older_member_of_which_the_newer_one_is_the_beginning_is_kept(self):
        for size in (70000, 65536, 100, 0):
            world = World(BIN)
            self.addCleanup(world.remove)
            for rank in range(3):
                world.write_random(f"s.{rank}", 200000)
            world.protect("'s.%r'")
            older = world.files()["s.1"]
            world.must("mkdir ../bk && cp -a s.1 .LZY.s.1 ../bk/")
            world.write("s.1", world.read("s.1")[:size])
            world.protect("'s.%r'")
            newer = world.files()["s.1"]
            world.must("mv ../bk/s.1 ../bk/.LZY.s.1 .")
            self.assertEqual(world.run("lzy-restore 's.%r'").code, 0, world.story())
            self.assertEqual((world.files()["s.1"], world.files().get("s.1.commit-1")), (newer, older), world.story())

    def test_a_set_that_can_be_repaired_is_no_stray_of_its_backup(self):
        for members, parity in ((2, 1), (3, 2), (4, 2)):
            for commits in (1, 2):
                world = World(BIN)
                self.addCleanup(world.remove)
                for commit in range(commits):
                    for rank in range(members):
                        world.write_random(f"b/s.{rank}", 3000)
                    world.protect(f"--parity {parity} 'b/s.%r'")
                    if commit == 0:
                        world.must("cp -a b x && lzy-verify -q x")
                before = world.files()
                for rank in range(1, parity + 1):
                    world.must(f"rm b/s.{rank}" + (f" b/.LZY.s.{rank}" if parity > 1 else ""))
                for command in ("lzy-verify b", "lzy-verify b x", "lzy-verify ./b"):
                    self.assertEqual(world.run(command).code, 1, world.story())
                self.assertEqual(world.run("lzy-restore b").code, 0, world.story())
                self.assertEqual(world.files(), before, world.story())

    def test_no_command_waits_for_its_own_lock(self):
        world = self.world
        self.files([f"ck.{number}" for number in (1, 2, 3)], 9000)
        world.protect(".")
        before = world.files()
        world.must("mv ck.3 ck.2")
        for command in ("lzy-verify 'ck.%r'", "lzy-restore 'ck.%r'", "lzy-verify --repair .", "lzy-restore ."):
            done = world.run(command)
            self.assertNotIn("another process", done.text, world.story())
        self.assertEqual(world.files()["ck.2"], before["ck.3"], world.story())

    def test_members_of_an_older_commit_are_no_edits_beside_their_backup(self):
        world = self.world
        for commit in range(2):
            self.files([f"b/s.{rank}" for rank in range(3)], 3000, LONG_AGO + commit * SECOND)
            world.protect("'b/s.%r'")
            world.must("cp -a b " + ("x && lzy-verify -q x" if commit == 0 else "v2"))
        newest = {path: content for path, content in world.files().items() if path.startswith("b/")}
        world.must("cp -a x/s.0 x/.LZY.s.0 x/s.1 x/.LZY.s.1 b/")
        self.assertNotEqual(world.run("lzy-protect 'b/s.%r'").code, 0, world.story())
        world.must("lzy-restore --from v2 'b/s.%r'")
        self.assertLessEqual(newest.items(), world.files().items(), world.story())


if __name__ == "__main__":
    unittest.main()
