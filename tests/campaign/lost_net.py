"""The net below all cases: nothing writes over bytes that are not known elsewhere, and nothing takes the last sidecar that knows a content.
Each as the command lines that led to a loss."""

import os
import unittest

from advice_lost import LONG_AGO, WholeSeconds
from advice_steps import next_steps
from advice_world import SECOND
from lost_copies import Rotten


class NamesOfPatterns(Rotten):
    """A file whose name is the pattern of a set: commands cannot tell them apart, so neither hides the other."""

    def state(self, name="s.%r", members="s.{}"):
        world = self.world
        self.files([members.format(rank) for rank in range(3)], 20_000)
        world.protect(f"'{members.format('%r')}'")
        self.files([name], 3000)

    def is_told(self, moves, sidecar=False, member="s.1"):
        """The set is judged, whatever is typed, and the message has commands that part the two."""
        world = self.world
        good, _ = self.rot(member)
        for command in ("lzy-verify .", "lzy-protect .", "lzy-scrub .") if sidecar else ("lzy-protect .",):
            done = world.run(command)
            self.assertNotIn(done.code, (0, 4), world.story())
            self.assertIn("%r: damaged" if "/" not in member else "/s: damaged", done.text)
            self.assertIn(f"Give it another name: {moves}\n", done.text)
        world.must("lzy-verify --repair . || true; lzy-verify --repair '" + ("s.%r'" if "/" not in member else "n%r/s'") + (" || true" if sidecar else ""))
        self.assertEqual(world.files()[member], good, world.story())
        world.must(moves + " && lzy-protect . && lzy-verify .")

    def test_a_new_file(self):
        self.state()
        self.is_told("mv -n s.%r s._r")

    def test_a_file_that_was_protected_before_the_set(self):
        world = self.world
        self.files(["s.%r"], 3000)
        world.protect(".")
        world.must("mv s.%r x && mv .LZY.s.%r .LZY.x")
        self.files([f"s.{rank}" for rank in range(3)], 20_000)
        world.protect("'s.%r'")
        world.must("mv x s.%r && mv .LZY.x .LZY.s.%r")
        self.is_told("mv -n s.%r s._r && mv -n .LZY.s.%r .LZY.s._r", sidecar=True)

    def test_a_sidecar_that_is_left_over(self):
        world = self.world
        self.files(["x"], 3000)
        world.protect("x")
        self.state()
        world.must("rm s.%r x && mv .LZY.x .LZY.s.%r && lzy-verify -q 's.%r'")
        good, _ = self.rot("s.1")
        for command in ("lzy-verify .", "lzy-verify 's.%r'"):
            self.assertIn("s.%r: damaged", world.run(command).text)
        world.run("lzy-restore 's.%r'")
        self.assertEqual(world.files()["s.1"], good, world.story())

    def test_a_file_in_a_directory_of_such_a_name(self):
        self.state("n%r/s", "n{}/s")
        self.is_told("mv -n n%r n_r", member="n1/s")

    def test_a_pattern_makes_a_set_of_files_though_a_protected_file_has_its_name(self):
        world = self.world
        self.files(["s.%r"], 3000)
        world.protect(".")
        self.files([f"s.{rank}" for rank in range(3)], 20_000)
        done = world.run("lzy-protect 's.%r'")
        self.assertEqual(done.code, 4, world.story())
        self.assertIn("Give it another name: mv -n s.%r s._r && mv -n .LZY.s.%r .LZY.s._r\n", done.text)
        self.assertIn("s.%r: protected (set of 3 files", done.text)

    def test_without_a_set_the_name_means_the_file(self):
        world = self.world
        self.files(["s.%r"], 3000)
        world.protect(".")
        good, _ = self.rot("s.%r")
        world.must("lzy-verify --repair 's.%r'")
        self.assertEqual(world.files()["s.%r"], good)


class KeptByARepair(Rotten):
    """A repair keeps what it overwrites, unless the file is by its stamp the committed one."""

    def sets(self, size=20_000):
        self.files([f"{name}.{rank}" for name in "st" for rank in range(3)], size)
        self.world.protect("'s.%r' 't.%r'")

    def undo(self, codes=(0,)):
        """Types what is printed to undo the change of t.%r."""
        world = self.world
        text = world.run("lzy-verify 't.%r'").text
        undo = text.split("to undo it: ")[1].splitlines()[0]
        self.assertIn("--force", undo)
        self.assertIn(world.run(undo).code, codes, world.story())

    def test_an_undo_keeps_a_rotten_member_that_was_moved_here(self):
        world = self.world
        self.sets()
        other = world.files()["t.1"]
        world.must("mv s.1 t.1")
        good, bad = self.rot("t.1")
        self.undo()
        self.assertEqual(world.files()["t.1"], other)
        self.assertEqual(world.files()["t.1.replaced"], bad, world.story())
        world.must("mv t.1.replaced s.1 && lzy-verify --repair 's.%r'")
        self.assertEqual(world.files()["s.1"], good)

    def test_an_undo_keeps_a_rotten_member_that_was_written_into_another(self):
        world = self.world
        self.sets()
        good, bad = self.rot("s.1")
        world.must("cp -p s.1 t.1 && touch -d '2026-10-05 12:00:00.25' t.1 && rm s.1")
        self.undo()
        self.assertEqual(world.files()["t.1.replaced"], bad, world.story())
        self.assertNotEqual(good, bad)

    def test_an_undo_keeps_an_edit(self):
        world = self.world
        self.files(["f"], 20_000)
        world.protect("f")
        was = world.files()["f"]
        world.must("printf NEW | dd of=f bs=1 seek=100 conv=notrunc")
        edited = world.files()["f"]
        world.must("lzy-verify --repair --force f")
        self.assertEqual((world.files()["f"], world.files()["f.replaced"]), (was, edited))

    def test_a_similar_version_of_a_member_that_was_moved_with_its_sidecar(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)], 300_000)
        world.protect("--block-size 4K 's.%r'")
        world.must("mv s.0 s.0.prev && mv .LZY.s.0 .LZY.s.0.prev && cp s.0.prev s.0 && printf NEW | dd of=s.0 bs=1 seek=100 conv=notrunc && "
                   "touch -r s.0.prev s.0")
        new = world.files()["s.0"]
        world.run("lzy-verify .")
        for command in ("lzy-protect s.0.prev", "lzy-verify --repair 's.%r'", "lzy-verify ."):
            world.run(command)
        self.assertIn(new, world.files().values(), world.story())

    def test_a_similar_version_whose_old_file_is_gone(self):
        world = self.world
        self.files(["ck"], 300_000)
        world.protect("--block-size 4K ck")
        world.must("cp ck new && printf NEW | dd of=new bs=1 seek=100000 conv=notrunc && touch -r ck new && mv new ck")
        new = world.files()["ck"]
        world.must("lzy-verify --repair ck")
        self.assertEqual(world.files()["ck.replaced"], new, world.story())

    def test_a_similar_member_without_a_sidecar(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)], 300_000)
        world.protect("--block-size 4K 's.%r'")
        world.must("rm .LZY.s.1 && cp s.1 new && printf NEW | dd of=new bs=1 seek=100000 conv=notrunc && touch -r s.1 new && mv new s.1")
        new = world.files()["s.1"]
        world.must("lzy-restore 's.%r'")
        self.assertEqual(world.files()["s.1.replaced"], new, world.story())

    # What is ordinary leaves nothing behind.

    def leaves_nothing(self, path):
        self.assertEqual([name for name in self.world.files() if "replaced" in name or name.count(".LZY-tmp")], [], self.world.story())
        self.assertEqual([name for name in os.listdir(self.world.home) if "LZY-" in name], [])
        self.intact(f"lzy-verify '{path}'")

    def test_plain_rot_is_not_kept(self):
        self.files(["f"], 20_000)
        self.world.protect("f")
        good, _ = self.rot("f")
        self.world.must("lzy-verify --repair f")
        self.assertEqual(self.world.files()["f"], good)
        self.leaves_nothing("f")

    def test_an_edit_and_a_commit_leave_nothing(self):
        self.files(["f"], 20_000)
        self.world.protect("f")
        self.world.must("echo more >>f && lzy-protect f && cp f n && echo again >>n && mv n f && lzy-protect --force f")
        self.leaves_nothing("f")

    def test_a_backup_that_is_put_back_whole_leaves_nothing(self):
        self.files([f"s.{rank}" for rank in range(3)], 20_000)
        self.world.protect("'s.%r'")
        self.world.must("mkdir ../bk && cp -a s.? ../bk && rm s.? && cp -a ../bk/s.? . && lzy-verify --repair 's.%r'")
        good, _ = self.rot("s.1")
        self.world.must("lzy-verify --repair 's.%r'")
        self.assertEqual(self.world.files()["s.1"], good)
        self.leaves_nothing("s.%r")


class LastToKnow(Rotten):
    """A sidecar that is the last to know something stays: for a removal, a commit and --prune."""

    REMOVE = "lzy-protect --remove --yes"

    def is_not_removed(self, *words, free=()):
        """`free`: sidecars of whole files, which may go."""
        world = self.world
        sidecars = world.superblocks()
        for operand in (".", *words):
            done = world.run(f"{self.REMOVE} {operand}")
            self.assertIn(done.code, (1, 4), world.story())
        self.assertEqual({name: block for name, block in world.superblocks().items() if name not in free},
                         {name: block for name, block in sidecars.items() if name not in free}, world.story())

    def exchanged(self, one, other, with_sidecars=True):
        """The first is rotten, and then both change places."""
        good, _ = self.rot(one)
        self.swap(one, other)
        if with_sidecars:
            self.swap(f".LZY.{one}", f".LZY.{other}")
        return good

    def sets(self):
        self.files([f"{name}.{rank}" for name in "st" for rank in range(3)], 20_000)
        self.world.protect("'s.%r' 't.%r'")

    def test_prune_keeps_the_parity_of_a_damaged_copy_of_a_set(self):
        """The copies in the other directory have other inodes, so only the damaged one shows that its set is needed."""
        world = self.world
        world.must("mkdir a b")
        self.files([f"a/s.{rank}" for rank in range(3)], 20_000)
        world.protect("'a/s.%r'")
        world.must("cp -p a/s.* b")
        world.must("rm a/s.0 a/s.1 a/s.2")
        good, _ = self.rot("b/s.1", 3)
        world.run("lzy-info --prune a")
        world.must("mv b/s.* a")
        self.assertEqual(world.run("lzy-verify --repair a").code, 0, world.story())
        self.assertEqual(world.files()["a/s.1"], good, world.story())

    def test_members_of_two_sets_were_exchanged_with_their_sidecars(self):
        world = self.world
        self.sets()
        good = self.exchanged("t.0", "s.1")
        self.is_not_removed("'s.%r'", "'t.%r'")
        self.exchanged_back("t.0", "s.1")
        world.must("lzy-verify --repair .")
        self.assertEqual(world.files()["t.0"], good)

    def exchanged_back(self, one, other):
        self.swap(one, other)
        self.swap(f".LZY.{one}", f".LZY.{other}")

    def test_members_of_two_sets_were_exchanged_without_their_sidecars(self):
        world = self.world
        self.sets()
        good = self.exchanged("t.0", "s.1", with_sidecars=False)
        self.is_not_removed("'s.%r'", "'t.%r'")
        self.swap("t.0", "s.1")
        world.must("lzy-verify --repair .")
        self.assertEqual(world.files()["t.0"], good)

    def test_a_member_and_a_file_were_exchanged(self):
        world = self.world
        self.files(["f", "s.0", "s.1", "s.2"], 20_000)
        world.protect("f 's.%r'")
        good = self.exchanged("s.1", "f")
        self.is_not_removed("f", "'s.%r'", free=[".LZY.s.1"])
        world.must("mv s.1 x && rm -f .LZY.s.1 && mv f s.1 && mv .LZY.f .LZY.s.1 && lzy-verify --repair 's.%r'")
        self.assertEqual(world.files()["s.1"], good)

    def test_whole_sets_are_removed(self):
        self.sets()
        self.world.must(f"echo more >>s.1 && {self.REMOVE} .")
        self.assertEqual(self.world.superblocks(), {})

    def replaced(self):
        """ck was moved and rots, and a new one has its name, size and time. Returns what it was."""
        world = self.world
        self.files(["ck"], 20_000)
        world.protect("ck")
        world.must("mv ck ck.1")
        good, _ = self.rot("ck.1")
        self.files(["ck"], 20_000)
        return good

    def test_a_printed_commit_says_who_needs_the_parity(self):
        self.replaced()
        for command in ("lzy-verify .", "lzy-verify ck", "lzy-protect ck"):
            text = self.world.run(command).text
            self.assertIn("lzy-protect --force ck", text)
            self.assertIn("ck: 'ck.1' has the size and time of what this file was at its last commit", text)

    def test_a_forced_commit_keeps_the_sidecar(self):
        world = self.world
        good = self.replaced()
        done = world.run("lzy-protect --force ck")
        self.assertEqual(done.code, 0, world.story())
        step = next(step for step in next_steps(done.text) if "ck.1" in step)
        self.assertIn("because only that can repair ck.1", done.text)
        world.must("lzy-info --prune .")
        world.must(step)
        self.assertEqual(world.files()["ck.1"], good, world.story())
        self.intact("lzy-verify ck", "lzy-verify .")

    def test_a_forced_commit_keeps_the_sidecar_beside_one_that_has_the_name(self):
        world = self.world
        self.files(["ck", "ck.1"], 20_000)
        world.protect("ck ck.1")
        world.must("mv ck ck.1")
        good, _ = self.rot("ck.1")
        self.files(["ck"], 20_000, LONG_AGO + SECOND)
        done = world.run("lzy-protect --force ck")
        self.assertEqual(done.code, 0, world.story())
        kept, = (name for name in os.listdir(world.home) if name.startswith(".LZY-tmp."))
        listed = world.run("lzy-info .")
        self.assertIn(f"{kept}: orphan: it was set aside; it may be of this file", listed.text)
        world.must("lzy-info --prune . && mv .LZY.ck.1 away")
        world.must(next(step for step in next_steps(done.text) if "ck.1" in step))
        self.assertEqual(world.files()["ck.1"], good, world.story())

    def test_a_forced_commit_keeps_nothing_that_nobody_needs(self):
        world = self.world
        self.files(["ck"], 20_000)
        world.protect("ck")
        world.must("mv ck ck.1")
        self.files(["ck"], 20_000)
        world.must("rm ck.1 && lzy-protect --force ck")
        self.assertEqual([name for name in os.listdir(world.home) if name.startswith(".LZY")], [".LZY.ck"])

    def pruned(self, to, move="mv d/a {}"):
        world = self.world
        self.files(["d/a", "d/b"], self.SIZE)
        world.protect("d")
        world.must(f"mkdir -p ./{os.path.dirname(to)} && {move.format(to)}")
        good, _ = self.rot(to)
        done = world.run("lzy-info --prune d")
        self.assertIn(f"{os.path.basename(to)}\n", done.text)
        self.assertIn("d/.LZY.a", world.superblocks())
        world.must(f"mv {to} d/a && lzy-verify --repair d")
        self.assertEqual(world.files()["d/a"], good, world.story())

    def test_prune_finds_a_file_in_a_directory_beside(self):
        self.pruned("e/z")

    def test_prune_finds_a_file_two_directories_away(self):
        self.pruned("e/f/z")

    def test_prune_finds_a_file_above(self):
        self.pruned("z")

    def test_prune_removes_the_sidecar_of_a_deleted_file(self):
        world = self.world
        self.files(["d/a", "d/b", "e/c"], self.SIZE)
        world.protect("d")
        world.must("rm d/a && lzy-info --prune d")
        self.assertEqual(sorted(world.superblocks()), ["d/.LZY.b"])


class MovedOntoAMember(Rotten):
    """A member has the name of another one: the other one is known to parity only."""

    def test_the_advised_commands_give_both_back(self):
        world = self.world
        for rank in range(3):
            self.files([f"s.{rank}"], 20_000, LONG_AGO + rank * SECOND)
        world.protect("'s.%r'")
        before = {name: content for name, content in world.files().items() if "LZY" not in name}
        world.must("mv s.1 s.2")
        step = next(step for step in next_steps(world.run("lzy-verify .").text) if step.startswith("cp -np "))
        world.must(step)
        done = world.run("lzy-verify .")
        self.assertNotIn("to commit the change: lzy-protect s.%r", done.text)
        self.assertEqual(world.run("lzy-protect 's.%r'").code, 9, world.story())
        world.must(done.text.split("to undo it: ")[1].splitlines()[0])
        self.assertEqual({name: world.files()[name] for name in before}, before)
        self.intact("lzy-verify 's.%r'")


class CutFiles(Rotten):
    """The end of a file is cut off: tools that read no data say what lzy-verify says."""

    def agree(self, words, cuts, code):
        world = self.world
        for path, size in cuts:
            world.must(f"touch -r {path} ../time && truncate -s {size} {path} && touch -r ../time {path}")
        lines = [[line for line in world.run(command).text.splitlines() if ": data, " in line and "lost:" not in line]
                 for command in (f"lzy-verify {words}", f"lzy-protect --dry-run {words}")]
        self.assertEqual(lines[0], lines[1], world.story())
        self.assertNotEqual(lines[0], [])
        for command in ("lzy-verify", "lzy-info", "lzy-protect --dry-run"):
            self.assertEqual(world.run(f"{command} {words}").code, code, world.story())

    def test_of_which_parity_gives_nothing_back(self):
        self.files(["f"], 300_000)
        self.world.protect("f")
        self.agree("f", [("f", 100_000)], 2)

    def test_of_which_parity_gives_all_back(self):
        self.files(["f"], 300_000)
        self.world.protect("f")
        self.agree("f", [("f", 299_990)], 1)

    def test_of_two_members(self):
        self.files([f"s.{rank}" for rank in range(3)], 300_000)
        self.world.protect("'s.%r'")
        self.agree("'s.%r'", [("s.1", 100_000), ("s.2", 200_000)], 2)

    def test_of_one_member(self):
        self.files([f"s.{rank}" for rank in range(3)], 300_000)
        self.world.protect("'s.%r'")
        self.agree("'s.%r'", [("s.1", 100_000)], 1)


class Cut(Rotten):
    """Files of which storage cuts off the end."""

    def cut(self, path):
        """Storage cuts off the end of a file. Returns what it was."""
        was = self.world.files()[path]
        size = os.path.getsize(self.world.path(path)) * 9 // 10
        self.world.must(f"touch -r {path} ../time && truncate -s {size} {path} && touch -r ../time {path}")
        return was


class OtherSizes(Cut):
    """A file that was renamed and was cut off, or has grown, with the mtime of its commit: it is the committed file, damaged, though no search
    by size finds it."""

    def is_refused(self, path, home, was, repairable=True):
        """lzy-protect commits nothing that takes the parity of what was `home` and is `path`; then that can be had back."""
        world = self.world
        for command in ("lzy-protect .", "lzy-protect --threads 1 ."):
            done = world.run(command)
            self.assertIn(done.code, (1, 4, 9), world.story())
            self.assertNotIn(f"{path}: protected", done.text, world.story())
        if repairable:
            world.must(f"mkdir -p away && {{ test ! -e {home} || mv {home} away; }} && mv {path} {home}")
            world.run(f"lzy-restore {home}")
            self.assertEqual(world.files()[home], was, world.story())

    def member(self):
        self.files([f"s.{rank}" for rank in range(3)], 20_000)
        self.world.protect("'s.%r'")
        self.world.must("mv s.1 s.1.old")

    def test_a_member_that_was_cut_off(self):
        self.member()
        was = self.cut("s.1.old")
        self.files(["s.1"], 20_000, LONG_AGO + SECOND)
        self.is_refused("s.1.old", "s.1", was)

    def test_a_member_that_has_grown(self):
        world = self.world
        self.member()
        was = world.files()["s.1.old"]
        world.must("head -c 500 /dev/zero >>s.1.old && touch -r s.0 s.1.old")
        world.flip("s.1.old", 9000, 3)
        self.files(["s.1"], 20_000, LONG_AGO + SECOND)
        self.is_refused("s.1.old", "s.1", was)

    def test_a_file_of_which_nothing_is_left(self):
        world = self.world
        self.files(["a", "b"], 20_000)
        world.protect(".")
        was = world.files()["a"]
        world.must("mv a old && truncate -s 0 old && touch -r b old")
        self.files(["a"], 20_000)
        self.is_refused("old", "a", was, repairable=False)

    def test_a_file_in_a_directory_below(self):
        self.files(["a", "d/b"], 20_000)
        self.world.protect("a")
        self.world.must("mv a d/")
        was = self.cut("d/a")
        self.files(["a"], 20_000, LONG_AGO + SECOND)
        self.is_refused("d/a", "a", was)

    def test_a_file_in_a_directory_beside(self):
        self.files(["d/a", "e/b"], 20_000)
        self.world.protect("d/a")
        self.world.must("mv d/a e/c")
        was = self.cut("e/c")
        self.files(["d/a"], 20_000, LONG_AGO + SECOND)
        self.is_refused("e/c", "d/a", was)

    def test_a_member_of_a_set_whose_name_another_set_has(self):
        world = self.world
        self.files([f"{name}.{rank}" for name in "st" for rank in range(3)], 20_000)
        world.protect("'s.%r' 't.%r'")
        for rank in range(3):
            world.must(f"mv s.{rank} u.{rank} && mv t.{rank} s.{rank}")
        was = self.cut("u.1")
        self.is_refused("u.1", "s.1", was, repairable=False)
        for rank in range(3):
            world.must(f"mv s.{rank} t.{rank} && mv u.{rank} s.{rank}")
        world.run("lzy-verify --repair 's.%r'")
        self.assertEqual(world.files()["s.1"], was, world.story())

    def test_a_file_beside_a_new_one_with_its_size_and_time(self):
        self.files(["a", "b"], 20_000)
        self.world.protect(".")
        self.world.must("mv a old")
        was = self.cut("old")
        self.files(["a"], 20_000)
        self.is_refused("old", "a", was)

    def test_a_second_name_of_a_file(self):
        self.files(["a", "b"], 20_000)
        self.world.protect(".")
        self.world.must("ln a link")
        was = self.cut("a")
        self.is_refused("link", "a", was)

    def test_prune_keeps_the_sidecar(self):
        world = self.world
        self.files(["d/a", "d/b"], self.SIZE)
        world.protect("d")
        world.must("mkdir -p e/f && mv d/a e/f/z")
        self.cut("e/f/z")
        world.run("lzy-info --prune d")
        self.assertIn("d/.LZY.a", world.superblocks(), world.story())

    # Those that somebody wrote to are no damage.

    def test_a_renamed_file_that_was_written_since_is_committed(self):
        world = self.world
        self.files(["a", "b"], 20_000)
        world.protect(".")
        world.must("mv a old && echo more >>old")
        self.files(["a"], 20_000, LONG_AGO + SECOND)
        world.must("lzy-protect . && lzy-verify .")


class SetAside(Cut):
    """A sidecar that was set aside, because another file has the name of its file, is found there."""

    def test_by_threads_that_commit_side_by_side(self):
        world = self.world
        for attempt in range(20):
            world.must("rm -rf ./* .LZY*")
            self.files(["a", "b"], 20_000)
            world.protect(".")
            world.must("mv a old && mv b a")
            self.cut("old")
            done = world.run("lzy-protect ." if attempt % 2 else "lzy-protect --threads 1 .")
            self.assertNotIn("old: protected", done.text, world.story())
            self.assertNotEqual(done.code, 0, world.story())

    def test_of_a_file_in_another_directory(self):
        world = self.world
        self.files(["d/a", "d/b"], 20_000)
        world.protect("d")
        world.must("mkdir e && mv d/a e/old && mv d/b d/a")
        good, _ = self.rot("e/old", 3)
        world.must("lzy-protect d && touch -d '2 hours ago' d/.LZY-tmp*")
        world.run("lzy-info --prune d")
        kept, = (name for name in os.listdir(world.path("d")) if name.startswith(".LZY-tmp."))
        done = world.run("lzy-protect .")
        self.assertNotIn("e/old: protected", done.text, world.story())
        world.must(f"mv d/{kept} e/.LZY.old && lzy-verify --repair e/old")
        self.assertEqual(world.files()["e/old"], good, world.story())

    def test_of_a_deleted_file_is_removed(self):
        world = self.world
        self.files(["d/a", "d/b"], self.SIZE)
        world.protect("d")
        world.must("mkdir e && mv d/a e/old && mv d/b d/a && lzy-protect d && touch -d '2 hours ago' d/.LZY-tmp* && rm e/old && lzy-info --prune d")
        self.assertEqual(sorted(world.superblocks()), ["d/.LZY.a"])


class Said(Rotten):
    """What is said is so."""

    def test_a_file_of_equal_size_and_time_is_not_called_the_lost_one(self):
        world = self.world
        self.files(["d/a", "d/b"], self.SIZE)
        world.protect("d")
        world.must("rm d/a")
        self.files(["d/new"], self.SIZE)
        self.assertNotIn("may be of this file", world.run("lzy-info d").text)

    def test_a_forced_commit_does_not_say_that_it_needs_force(self):
        world = self.world
        self.files(["ck"], 20_000)
        world.protect("ck")
        world.must("mv ck ../old")
        self.files(["ck"], 20_000)
        self.assertIn("Only --force repairs or commits it", world.run("lzy-protect ck").text)
        done = world.run("lzy-protect --force ck")
        self.assertNotIn("without --force", done.text)


class FullDisk(WholeSeconds):
    """A restore that cannot write was tried and failed (5), and has destroyed nothing."""

    def test_the_exit_code_of_a_restore(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(3)], 1 << 20)
        world.protect("'s.%r'")
        before = world.files()
        world.must("rm s.1; head -c 100M /dev/zero >full; test -s full")
        rest = world.files()
        self.assertEqual(world.run("lzy-restore 's.%r'").code, 5, world.story())
        self.assertEqual(world.files(), rest)
        world.must("rm full && lzy-restore 's.%r'")
        self.assertEqual(world.files(), before)

    def test_the_exit_code_of_a_repair_that_must_keep_the_file(self):
        world = self.world
        self.files(["f"], 3 << 20)
        world.protect("f")
        right = world.files()["f"]
        world.must("cp -p f ../f && rm f && mv ../f f")
        world.flip("f", 100)
        world.must("head -c 100M /dev/zero >full; test -s full")
        rest = world.files()
        self.assertEqual(world.run("lzy-verify --repair f").code, 5, world.story())
        self.assertEqual(world.files(), rest)
        world.must("rm full && lzy-verify --repair f")
        self.assertEqual(world.files()["f"], right)


class LastWithoutBirths(WholeSeconds, LastToKnow):
    """The same where files have no time of birth."""


class KeptWithoutBirths(WholeSeconds, KeptByARepair):
    """The same where files have no time of birth."""


if __name__ == "__main__":
    unittest.main()
