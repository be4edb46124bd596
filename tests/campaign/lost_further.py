"""More of what was destroyed or told wrongly once, each as the command lines that did it (advice_lost.py has the first ones)."""

import re
import unittest

from advice_lost import LONG_AGO, Lost, WholeSeconds
from advice_world import SECOND


class Copied(Lost):
    """lzy-copy never makes rot look proven."""

    def test_rot_under_a_new_time_replaces_no_copy(self):
        for size in (300, 300000):
            with self.subTest(size=size):
                world, name = self.world, f"f{size}"
                self.files([name], size)
                world.protect(name)
                right = world.read(name)
                self.judge(f"lzy-copy {name} copy{size}", codes=[0])
                world.flip(name, 100)
                world.must(f"touch {name}")
                done = self.judge(f"lzy-copy {name} copy{size}", f"lzy-copy {name} new{size}", f"lzy-verify copy{size}", codes=[9, 9, 0])
                self.assertIn(f"What to do: lzy-verify {name}", done[0].text)
                self.assertEqual(world.read(f"copy{size}"), right)
                self.assertNotIn(f"new{size}", world.files())

    def test_rot_in_a_file_from_a_backup_leads_to_a_repair(self):
        """The advice of the copy was to copy again, for ever."""
        world = self.world
        self.files(["f"], 300)
        world.protect("f")
        right = world.read("f")
        world.must("cp -p f g && mv g f")
        world.flip("f", 100)
        self.judge("lzy-copy f copy", "lzy-verify f", "lzy-restore f", "lzy-copy f copy", codes=[9, 1, 0, 0])
        self.assertEqual(world.read("copy"), right)


class Mistyped(Lost):
    """A pattern that fits a part of a set that was renamed as a whole."""

    def renamed(self, also_sidecars, members=3):
        self.files([f"s.{rank}" for rank in range(members)])
        self.world.protect("'s.%r'")
        for rank in range(members):
            name = f"a.{rank // 2}.{rank % 2}"
            self.world.must(f"mv s.{rank} {name}" + (f" && mv .LZY.s.{rank} .LZY.{name}" if also_sidecars else ""))

    def sidecars(self):
        return sorted(self.world.superblocks().items())

    def test_a_restore_that_fails_renames_no_sidecar(self):
        for also_sidecars in (True, False):
            for members in (3, 4, 5):
                with self.subTest(also_sidecars=also_sidecars, members=members):
                    self.setUp()
                    self.renamed(also_sidecars, members)
                    before = self.sidecars()
                    for command in ("lzy-restore", "lzy-verify --repair", "lzy-restore --salvage"):
                        for pattern in ("a.1.%r", "a.%r.0", "a.%r.1", "s.%r", "a.2.%r"):
                            done, = self.judge(f"{command} '{pattern}'")
                            self.assertNotEqual(done.code, 0, done)
                            self.assertEqual(self.sidecars(), before, done)

    def test_a_set_whose_sidecars_changed_places_is_beyond_repair_as_it_is(self):
        """Two of three are lost: nothing can be restored, and the sidecars stay where they are."""
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)])
        world.protect("'s.%r'")
        world.must("mv .LZY.s.0 t && mv .LZY.s.1 .LZY.s.0 && mv t .LZY.s.1 && rm s.2 s.3")
        before = self.sidecars()
        self.judge("lzy-restore 's.%r'", codes=[2])
        self.assertEqual(self.sidecars(), before)

    def test_a_restore_that_succeeds_gives_sidecars_their_names(self):
        world = self.world
        self.files([f"s.{rank}" for rank in range(4)])
        world.protect("'s.%r'")
        before, sidecars = world.files(), self.sidecars()
        world.must("mv .LZY.s.0 t && mv .LZY.s.1 .LZY.s.0 && mv t .LZY.s.1 && rm s.2")
        self.judge("lzy-restore 's.%r'", codes=[0])
        self.assertEqual(world.files(), before)
        self.assertEqual([name for name, _ in self.sidecars()], [name for name, _ in sidecars])
        self.intact("lzy-verify 's.%r'")


class NoBirths(WholeSeconds):
    """Files that exchanged or rotated their names, one of them rotten."""

    def check_told(self, names, rotten):
        """The names were given to each other in turn, and the file that has the name `rotten` now has rot."""
        world = self.world
        for number, name in enumerate(names):
            self.files([name], 30000, LONG_AGO + 5 * number * SECOND)
        world.protect(" ".join(names))
        world.must(f"mv {names[-1]} between")
        for one, other in reversed(list(zip(names, names[1:]))):
            world.must(f"mv {one} {other}")
        world.must(f"mv between {names[0]}")
        world.flip(rotten, 100)
        rot = world.files()[rotten]
        for command in ("lzy-verify .", "lzy-protect .", "lzy-verify .", "lzy-protect .", "lzy-verify --repair .", "lzy-verify ."):
            done = world.run(command)
            self.assertNotEqual(done.code, 0, self.world.story())
            self.assertIn(f"{rotten}: ", done.text)
            self.assertNotIn(f"to protect it as it is: lzy-protect {rotten}", done.text)
        self.assertEqual(world.files()[rotten], rot)
        # Each name back to its file. If the rotten one has lost its sidecar to a commit of the others, the command says where it is.
        world.must(f"mv {names[0]} between")
        for one, other in zip(names, names[1:]):
            world.must(f"mv {other} {one}")
        world.must(f"mv between {names[-1]}")
        world.run("lzy-protect .")  # gives the others their sidecars back
        text = world.run("lzy-protect .").text
        for back in re.findall(r"repair it: (mv -n .*)", text):
            world.must(back)
        for name in re.findall(r"(\w+): its own sidecar was set aside", text):
            world.must(f"mv .LZY-tmp.*.{name} .LZY.{name}")
        world.must("lzy-verify --repair . && lzy-verify .")
        self.assertTrue(set(world.files().values()) <= set(world.true), world.story())
        self.assertEqual({name for name in names if world.sidecar(name) in world.superblocks()}, set(names))

    def test_rot_in_the_first_of_two_files_that_exchanged_names_is_told(self):
        self.check_told(["f", "g"], "f")

    def test_rot_in_the_second_of_two_files_that_exchanged_names_is_told(self):
        self.check_told(["f", "g"], "g")

    def test_rot_in_the_first_of_three_files_that_were_rotated_is_told(self):
        self.check_told(["f", "g", "h"], "f")

    def test_rot_in_the_second_of_three_files_that_were_rotated_is_told(self):
        self.check_told(["f", "g", "h"], "g")

    def test_rot_in_the_last_of_three_files_that_were_rotated_is_told(self):
        self.check_told(["f", "g", "h"], "h")


class Typed(Lost):
    """What is advised can be typed, and leads on."""

    def test_a_pattern_of_files_that_are_no_set(self):
        world = self.world
        self.files(["t.0", "u.2", "u.3", "v.0"])
        world.protect("t.0 u.2 u.3")
        for command in ("lzy-verify", "lzy-restore", "lzy-info", "lzy-scrub"):
            for pattern, step in (("t.%r", "lzy-verify t.0"), ("u.%r", "lzy-verify u.2 u.3"), ("v.%r", "lzy-protect v.0")):
                done = world.run(f"{command} '{pattern}'")
                self.assertEqual(done.code, 4, done)
                self.assertIn(step, done.text)
                self.assertNotIn("lzy-protect " + pattern, done.text)
                self.assertNotEqual(world.run(step + " --dry-run" if "protect" in step else step).code, 3)

    def test_a_file_whose_sidecar_is_recorded_as_that_of_another_one_is_named(self):
        """Files from a backup were rotated, and the sidecar of the name that the first one has now must stay: it belongs to the third."""
        world = self.world
        self.files(["j", "k", "n.0", "n.1"], 300)
        world.protect("j k")
        world.protect("'n.%r'", ["n.0", "n.1"])
        world.must("tar cf t.tar --exclude='.LZY*' j k && rm j k && tar xf t.tar && rm t.tar && mv k n.1 && mv j k")
        world.write_random("j", 3000)
        done = world.run("lzy-verify --repair k")
        after = world.run("lzy-verify j")
        self.assertTrue(after.code != 4 or (done.code == 4 and "j: it is not protected any more" in done.text), world.story())

    def test_a_link_to_a_directory_is_that_directory(self):
        world = self.world
        self.files(["d/f"])
        world.protect("d")
        world.must("ln -s d l && mkdir empty")
        for command in ("lzy-status l", "lzy-status --rescan l"):
            self.assertEqual(world.run(command).code, 0, world.story())
        self.assertIn("lzy-status --rescan empty", world.run("lzy-status empty").text)
        self.assertNotIn("lzy-status --rescan empty", world.run("lzy-status --rescan empty").text)


class CameBack(Lost):
    """A file was renamed, came back from a backup with another inode, and rotted. Only the sidecar of its old name can give its
    content back, so no commit without --force takes that sidecar, or makes the rot right."""

    def back(self, directory="d"):
        self.world.must(f"cp -a {directory} new && rm -r {directory} && mv new {directory}")

    def test_of_a_file_whose_old_name_is_free(self):
        world = self.world
        self.files(["d/a"], 60000)
        world.protect("d/a")
        world.must("mv d/a d/a.1")
        self.back()
        world.flip("d/a.1", 100)
        done = self.judge("lzy-protect d", "lzy-verify d/a.1", codes=[4, 4])
        self.assertIn("it was 'a' at the last commit", done[0].text)
        world.must("mv -n d/a.1 d/a")
        self.judge("lzy-verify --repair --force d/a", codes=[0])

    def test_of_a_log_that_was_rotated(self):
        world = self.world
        self.files(["d/log"], 60000)
        world.protect("d/log")
        right = world.read("d/log")
        world.must("mv d/log d/log.1")
        world.write_random("d/log", 9000)
        self.back()
        world.flip("d/log.1", 100)
        done = self.judge("lzy-verify d", "lzy-protect d", codes=[9, 9])[1]
        self.assertIn("'d/log.1' has the size and time of what this file was at its last commit", done.text)
        self.assertIn("lzy-protect --force d/log", done.text)
        world.must("mv d/log d/log.0 && mv d/log.1 d/log && lzy-verify -q --repair --force d/log")
        self.assertEqual(world.read("d/log"), right)

    def test_of_members_that_exchanged_their_names(self):
        world = self.world
        for rank in range(4):
            self.files([f"d/ck.{rank}"], 40000, LONG_AGO + rank * SECOND)
        world.protect("'d/ck.%r'")
        before = world.files()
        world.must("mv d/ck.0 x && mv d/ck.1 d/ck.0 && mv x d/ck.1")
        self.back()
        world.flip("d/ck.1", 100)
        done = self.judge("lzy-protect d", codes=[9])[0]
        self.assertIn("d/ck.1: it is the file that was 'ck.0' at the last commit", done.text)
        rotten = world.files()["d/ck.1"]
        world.must("mv d/ck.0 x && mv d/ck.1 d/ck.0 && mv x d/ck.1 && lzy-restore -q 'd/ck.%r'")
        self.assertEqual(world.files(), before | {"d/ck.0.replaced": rotten})


class RenamedMember(Lost):
    """A member was renamed and rotted, and another file has its name now. The parity of its set is all that can repair it."""

    def set_of(self):
        self.files(["k0", "k1", "k2"])
        self.world.protect("k%r")
        return self.world.read("k0")

    def test_that_has_the_next_rank(self):
        world = self.world
        self.set_of()
        before = world.files()
        world.must("mv k2 k3")
        world.flip("k3", 100)
        world.write_random("k2", 3000)
        done = self.judge("lzy-verify k%r", "lzy-protect k%r", codes=[9, 4])[1]
        self.assertIn("k3: by its size and time, and by its inode or most of its content, it was 'k2'", done.text)
        world.must("rm k2 && mv k3 k2 && lzy-restore -q k%r")
        self.assertEqual(world.files(), before)

    def test_that_has_a_name_beside_the_set(self):
        world = self.world
        right = self.set_of()
        world.must("mv k0 old")
        world.flip("old", 100)
        world.write_random("k0", 3000)
        sidecars = sorted(world.superblocks())
        for command, code in (("lzy-protect k%r", 9), ("lzy-protect .", 1)):  # the second one looks at 'old' first, which is damaged
            done = self.judge(command, codes=[code])[0]
            self.assertEqual(sorted(world.superblocks()), sidecars, "a refused commit renames nothing")
            self.assertIn("k0: 'old' has the size and time of what this file was", done.text)
        world.must("mv k0 new && mv old k0 && lzy-restore -q k%r")
        self.assertEqual(world.read("k0"), right)

    def test_that_exchanged_its_name_with_one_of_another_set(self):
        world = self.world
        right = self.set_of()
        self.files(["j0", "j1", "j2"], 3000, LONG_AGO + SECOND)
        world.protect("j%r")
        world.must("mv k0 T && mv j0 k0 && mv T j0")
        world.flip("j0", 100)
        self.judge("lzy-protect k%r", codes=[1])
        world.must("mv k0 T && mv j0 k0 && mv T j0 && lzy-restore -q k%r")
        self.assertEqual(world.read("k0"), right)

    def test_what_came_in_its_place_is_kept_by_force(self):
        world = self.world
        right = self.set_of()
        self.files(["b"], 12000)
        world.protect("b")
        of_b = world.read("b")
        world.must("mv b k0")
        world.run("lzy-verify --repair --force k%r")
        world.run("lzy-restore --force k%r")
        self.assertEqual((world.read("k0"), world.read("k0.replaced")), (right, of_b))


if __name__ == "__main__":
    unittest.main()
