"""Advice that was wrong once, or led nowhere, each as the command lines that showed it (advice_lost.py has what was destroyed)."""

import re
import unittest

from advice_lost import LONG_AGO, Lost
from advice_steps import next_steps
from advice_world import SECOND


class Advice(Lost):
    """What is printed next, and what comes of it."""

    def text(self, command, code=None):
        done, = self.judge(command)
        if code is not None:
            self.assertEqual(done.code, code, self.world.story())
        return done.text

    def do(self, text, start):
        """Types the command of `text` that begins so."""
        found = re.search(rf"(?m)(?<=: ){re.escape(start)}.*$", text)
        self.assertIsNotNone(found, text)
        self.world.must(found.group())


class Renamed(Advice):
    """The file that holds the content of a lost one is named beside it."""

    def setUp(self):
        super().setUp()
        self.files(["a", "b"], 200000)
        self.world.protect("a b")
        self.world.must("cp -a a c && rm a")

    def test_a_lost_file_is_found_under_its_new_name(self):
        before = self.world.read("c")
        text = self.text("lzy-verify .", 2)
        self.assertIn("c holds what it was", text)
        self.assertNotIn("--salvage", text)
        self.do(text, "mv -n c a")
        self.assertEqual(self.world.read("a"), before)
        self.intact("lzy-verify .")

    def test_after_the_new_name_is_protected_the_old_one_can_be_restored_from_it(self):
        before = self.world.read("c")
        self.do(self.text("lzy-verify .", 2), "lzy-protect c")
        text = self.text("lzy-verify .", 2)
        self.assertIn("c holds what it was, and is protected", text)
        self.do(text, "lzy-restore --from c a")
        self.assertEqual(self.world.read("a"), before)
        self.intact("lzy-verify .")

    def test_after_the_new_name_is_protected_the_old_one_can_be_forgotten(self):
        self.do(self.text("lzy-verify .", 2), "lzy-protect c")
        self.assertIn("lzy-protect --remove --force a", next_steps(self.text("lzy-verify .", 2)))
        self.world.must("lzy-protect --yes --remove --force a")
        self.intact("lzy-verify .")

    def test_what_is_left_of_a_lost_file_is_repaired_under_its_name(self):
        before = self.world.read("c")
        self.world.flip("c", 100)
        text = self.text("lzy-verify .", 2)
        self.assertIn("c may be what is left of it", text)
        self.do(text, "mv -n c a && lzy-verify --repair a")
        self.assertEqual(self.world.read("a"), before)

    def test_lzy_status_leads_to_the_file_and_not_in_a_circle(self):
        self.judge("lzy-scrub .", codes=[2])
        step, = next_steps(self.text("lzy-status"))
        self.assertRegex(step, r"^lzy-verify \S*/a$")
        self.assertTrue([one for one in next_steps(self.text(step, 2)) if one.startswith("lzy-protect ")])

    def test_a_file_that_another_one_was_copied_over_is_named(self):
        self.files(["p", "q"], 200000)
        self.world.protect("p q", ["p", "q"])
        self.world.must("mv p p.1 && cp -a q p")
        text = self.text("lzy-verify p", 9)
        self.assertIn("p.1 holds what it was at its last commit", text)
        self.do(text, "lzy-protect p.1")
        self.assertNotIn("p.1", self.text("lzy-verify p", 9))


    def test_of_files_that_were_swapped_nothing_is_to_be_protected_besides(self):
        """A member and a single file. The commands would have led in a circle."""
        self.files(["s.0", "s.1", "m"])
        self.world.protect("'s.%r' m")
        self.swap("s.0", "m")
        self.assertNotIn("lzy-protect s.0", next_steps(self.text("lzy-verify m")))
        self.judge("lzy-scrub .")
        self.assertFalse([one for one in next_steps(self.text("lzy-status")) if one.endswith("s.0")])


class Rotated(Advice):
    """A file was renamed onto another one, and came back from a backup, so it is known by its content."""

    def setUp(self):
        super().setUp()
        for index, name in enumerate("ijl"):
            self.world.write_random(name, 65537 if name == "j" else 300, LONG_AGO + index * SECOND)
        self.world.protect("i j l")
        self.world.must("mv l i && mv j l")
        for name in "il":
            self.world.must(f"cp -a {name} t && rm {name} && mv t {name}")

    def test_a_restore_of_the_old_name_tells_that_the_file_has_no_sidecar_then(self):
        self.intact("lzy-verify l")
        done, = self.judge("lzy-restore j")
        self.assertIn("l: it is not protected any more", done.text)
        self.assertIn("lzy-protect l", next_steps(done.text))
        self.assertEqual(done.code, 4)
        self.assertEqual(self.world.read("j"), self.world.read("l"))

    def test_a_restore_tells_nothing_of_a_copy_in_another_directory(self):
        self.files(["x/n"])
        self.world.must("lzy-protect -q x/n && cat l > x/n && rm l")
        done, = self.judge("lzy-restore j", codes=[0])
        self.assertNotIn("x/n", done.text)

    def test_a_restore_of_a_file_that_was_only_copied_tells_nothing(self):
        self.world.must("rm -f * .LZY*")
        self.files(["f"], 65537)
        self.world.protect("f")
        self.world.must("cp f g && rm f")
        done, = self.judge("lzy-restore f", codes=[0])
        self.assertNotIn("not protected any more", done.text)


class Split(Advice):
    """Members of a set were moved to another directory, with their sidecars."""

    def split(self, ranks):
        names = [f"x/s.{rank}" for rank in range(6)]
        self.files(names, 200000)
        self.world.protect("'x/s.%r'")
        self.world.must("mkdir y")
        for rank in ranks:
            self.world.must(f"mv x/s.{rank} x/.LZY.s.{rank} y")

    def test_either_report_leads_to_the_whole_set(self):
        for ranks in ((3, 4, 5), (0, 1, 2), (0, 1, 2, 5), (1, 3)):
            for command in ("lzy-verify .", "lzy-verify 'x/s.%r' 'y/s.%r'", "cd y && lzy-verify 's.%r'"):
                with self.subTest(ranks=ranks, command=command):
                    self.setUp()
                    self.split(ranks)
                    text = self.world.run(command).text
                    moves = set(re.findall(r"(?m)(?<=bring all members together: )mv -n .*$", text))
                    self.assertTrue(moves, text)
                    self.assertNotIn("--salvage", text)
                    self.world.must(("cd y && " if command.startswith("cd ") else "") + sorted(moves)[0])
                    present = "x" if "x/s.0" in self.world.files() else "y"
                    self.intact(f"lzy-verify '{present}/s.%r'", "lzy-verify .")


    def test_members_that_were_renamed_without_their_sidecars_are_named(self):
        names = [f"s.{rank}" for rank in range(4)]
        self.files(names, 200000)
        self.world.protect("'s.%r'")
        self.world.must("mv s.1 a && mv s.2 b")
        text = self.text("lzy-verify 's.%r'", 2)
        self.assertNotIn("--salvage", text)
        for move in re.findall(r"(?m)(?<=: )mv -n .*$", text):
            self.world.must(move)
        self.intact("lzy-verify 's.%r'")

    def test_sets_that_exchanged_names_are_not_to_be_salvaged(self):
        """Of the larger one, two members had changed places before. The pattern in the printed command was refused."""
        self.files([f"n.{rank}" for rank in range(4)] + [f"c.{rank}" for rank in range(5)], 65536, None)
        self.world.protect("'n.%r' 'c.%r'")
        self.swap("c.0", "c.1")
        for rank in range(4):
            self.swap(f"n.{rank}", f"c.{rank}")
        text = self.text("lzy-verify .", 2)
        self.assertNotIn("--salvage", text)
        self.assertIn("give them their names or contents back", text)

    def test_a_link_to_a_protected_file_stays_where_it_is(self):
        self.files(["r/a"], 200000)
        self.world.must("ln -s r/a l")
        self.world.protect("l")
        self.world.must("rm r/a")
        self.assertNotIn("mv l", self.text("lzy-verify l", 2))


class NoSuchSet(Advice):
    """A pattern that names no set."""

    def test_a_file_that_is_protected_alone_is_named(self):
        self.files(["ck.0.0", "ck.0.1"])
        self.world.protect("ck.0.0")
        for tool in ("lzy-verify", "lzy-restore", "lzy-scrub"):
            self.assertEqual(next_steps(self.text(f"{tool} 'ck.%r.0'", 4)), ["lzy-verify ck.0.0"])


    def test_a_damaged_file_that_was_renamed_is_not_to_be_protected(self):
        self.files(["a"], 200000)
        self.world.protect("a")
        self.world.must("cp -a a s.5 && rm a")
        self.world.flip("s.5", 100)
        self.assertEqual(next_steps(self.text("lzy-verify 's.%r'", 4)), ["lzy-verify s.5"])


class Transposed(Advice):
    """Sets with two numbers in their names."""

    def transpose(self, count=3):
        """ck.0.1 becomes ck.1.0, each with its sidecar."""
        for number in range(count):
            for rank in range(number):
                self.swap(f"ck.{number}.{rank}", f"ck.{rank}.{number}", also_sidecars=True)

    def test_a_set_whose_number_has_another_place_in_the_name_now(self):
        world = self.world
        self.files([f"ck.{number}.{rank}" for number in range(3) for rank in range(3)])
        world.protect("ck.0.%r ck.1.%r ck.2.%r")
        self.transpose()
        sets = [f"ck.%r.{number}" for number in range(3)]
        self.intact("lzy-verify .", *(f"lzy-verify {name}" for name in sets), "lzy-verify ck.0.0")
        self.assertIn("Name one of the sets that are here: ck.%r.0, ck.%r.1, ck.%r.2\n", self.text("lzy-verify ck.0.%r", 3))
        good = world.files()
        world.must("rm ck.0.0 .LZY.ck.0.0 ck.2.1 .LZY.ck.2.1")
        self.judge("lzy-restore ck.%r.0", "lzy-restore ck.%r.1", "lzy-verify .", codes=[0, 0, 0])
        self.assertEqual(world.files(), good)
        self.transpose()
        self.intact("lzy-verify .", "lzy-verify ck.0.%r", "lzy-verify ck.1.%r", "lzy-verify ck.2.%r")


class MovedInTheTree(Advice):
    """A file that was moved to a directory without any sidecar is named where its old place is judged."""

    def setUp(self):
        super().setUp()
        self.files(["d1/f"], 300000)
        self.world.protect("d1")

    def test_a_whole_file(self):
        before = self.world.read("d1/f")
        self.world.must("mkdir d2 && mv d1/f d2/g")
        for command in ("lzy-verify .", "lzy-verify d1 d2", "lzy-scrub .", "lzy-verify d2 d1/f"):
            self.assertIn("d2/g holds what it was, so nothing is lost", self.text(command, 2))
        self.do(self.text("lzy-verify .", 2), "mv -n d2/g d1/f")
        self.assertEqual(self.world.read("d1/f"), before)
        self.intact("lzy-verify .")

    def test_a_damaged_file(self):
        before = self.world.read("d1/f")
        self.world.flip("d1/f", 100)
        self.world.must("mkdir d2 && mv d1/f d2/f")
        self.assertIn("d2/f may be what is left of it", self.text("lzy-verify .", 2))
        self.do(self.text("lzy-verify .", 2), "mv -n d2/f d1/f && lzy-verify --repair d1/f")
        self.assertEqual(self.world.read("d1/f"), before)

    def test_another_file_of_this_size_and_time_is_not_named(self):
        self.world.must("rm d1/f")
        self.files(["d2/f", "d2/g"], 300000)
        self.assertNotIn("d2", self.text("lzy-verify .", 2))


class Catalogue(Advice):
    """lzy-status has no commands that are of no use any more."""

    def test_a_ruined_sidecar_that_was_removed_is_no_advice_any_more(self):
        self.files(["m", "n"])
        self.world.protect("m n")
        self.world.must("truncate -s 100 .LZY.m && mv m m.real && ln -s m.real m")
        self.judge("lzy-scrub .", codes=[4])
        step, = next_steps(self.text("lzy-status", 4))
        self.assertRegex(step, r"^rm \S*/\.LZY\.m$")
        self.world.must(step)
        step, = next_steps(self.text("lzy-status", 4))
        self.assertTrue(step.startswith("lzy-status --rescan "), step)
        self.assertNotIn(step, next_steps(self.text(step)))
        self.assertNotIn(step, next_steps(self.text("lzy-status")))

    def test_a_file_that_was_renamed_since_is_looked_for(self):
        self.files(["h"], 65536)
        self.world.protect("h")
        self.world.flip("h", 100, 20000)
        self.judge("lzy-scrub .", codes=[2])
        self.world.must("mv h g && mv .LZY.h .LZY.g")
        step, = next_steps(self.text("lzy-status"))
        self.assertTrue(step.startswith("lzy-status --rescan "), step)
        self.assertNotIn(step, next_steps(self.text(step)))

    def test_a_member_that_was_restored_since_is_not_to_be_renamed_back(self):
        self.files([f"p.{rank}" for rank in range(5)])
        self.world.protect("p.%r")
        self.world.must("mv p.4 p.4.old")
        self.judge("lzy-scrub .", codes=[1])
        self.assertIn("mv -n", self.text("lzy-status"))
        self.world.must("lzy-restore p.%r")
        text = self.text("lzy-status", 4)
        self.assertNotIn("mv -n", text)
        step, = next_steps(text)
        self.assertRegex(step, r"^lzy-verify \S*/p\.4\.old$")
        self.text(step, 4)
        self.assertNotIn(step, next_steps(self.text("lzy-status", 4)))

    def test_a_set_of_which_all_sidecars_are_destroyed_is_missed_until_it_is_protected(self):
        self.files(["s.0", "s.1", "n"])
        self.world.protect("'s.%r' n")
        self.world.must("truncate -s 10 .LZY.s.0 .LZY.s.1")
        self.judge("lzy-scrub .", codes=[4])
        text = self.text("lzy-status", 4)
        step, forget = next_steps(text)
        self.assertRegex(step, r"^lzy-protect \S*/s\.%r$")
        self.assertTrue(forget.startswith("lzy-status --forget "), text)
        self.world.must(step)
        self.judge("lzy-scrub .", "lzy-status", codes=[0, 0])

    def test_a_directory_that_is_not_there_is_not_to_be_searched(self):
        self.files(["d/h"], 65536)
        self.world.protect("d")
        self.world.flip("d/h", 100, 20000)
        self.judge("lzy-scrub .", codes=[2])
        self.world.must("mv d ../d")
        text = self.text("lzy-status")
        self.assertEqual(next_steps(text), [])
        self.assertIn("is the file system mounted?", text)

    def test_a_link_to_nothing_is_not_to_be_protected(self):
        self.files(["k", "n"])
        self.world.protect("k n")
        self.world.must("mv k k.aside && ln -s /nowhere k && truncate -s 0 .LZY.k")
        self.assertNotIn("lzy-protect k", next_steps(self.text("lzy-verify k")))
        self.judge("lzy-scrub .")
        self.world.must("rm .LZY.k")
        steps = next_steps(self.text("lzy-scrub ."))
        self.assertEqual([step.split()[:2] for step in steps], [["lzy-status", "--forget"]])

    def test_a_directory_in_the_place_of_a_file_is_no_loss_of_its_own(self):
        self.files(["f", "n"])
        self.world.protect("f n")
        self.world.must("mv f f.aside && mkdir f")
        self.assertNotIn("not protected any more", self.text("lzy-verify f"))


class Times(Advice):
    """Times that differ."""

    def test_a_repair_of_one_member_records_the_times_of_the_others(self):
        names = [f"s.{rank}" for rank in range(4)]
        self.files(names, 200000)
        self.world.protect("'s.%r'")
        self.world.must("touch -d '2021-01-01 12:00' s.0")
        self.world.flip("s.2", 1000)
        self.judge("lzy-verify --repair 's.%r'", codes=[0])
        self.assertEqual(next_steps(self.text("lzy-verify 's.%r'", 0)), [])


if __name__ == "__main__":
    unittest.main()
