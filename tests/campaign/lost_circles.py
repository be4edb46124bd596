"""Advice that led in circles, or did not say where a content is: each state is followed to its end, whatever is chosen of what is printed."""

import os
import random
import re
import subprocess
import unittest

import advice_campaign
from advice_lost import Lost
from advice_oracle import Oracle
from advice_steps import next_steps

STEPS = 8  # that follow each other


class Circles(Lost):
    """A state, and what is printed for it."""

    def text(self, command, code=None):
        done, = self.judge(command)
        if code is not None:
            self.assertEqual(done.code, code, self.world.story())
        return done.text

    def step(self, text, start):
        """The command of `text` that begins so."""
        found = [step for step in next_steps(text) if step.startswith(start)]
        self.assertTrue(found, text)
        return found[0]

    def take(self, text, start):
        """Types it, under the oracle."""
        return self.judge(self.step(text, start))[0]

    def walk(self, command, walks=6):
        """Follows the advice several times from the same state, each time by other choices. No walk comes back to a command that did nothing."""
        world = self.world
        world.must("rm -rf ../kept && cp -a . ../kept")
        for seed in range(walks):
            world.must("find . -mindepth 1 -delete && cp -a ../kept/. .")
            world.log.append(f"# walk {seed}")
            Oracle(world).follow(command, rounds=STEPS, choose=random.Random(seed).choice)


class Held(Circles):
    """A lost member whose content another file holds."""

    def setUp(self):
        super().setUp()
        self.files([f"s.{rank}" for rank in range(4)], 200000)
        self.world.protect("'s.%r'")

    def test_files_that_were_protected_since_are_named(self):
        before = self.world.read("s.1"), self.world.read("s.2")
        self.world.must("cp -a s.1 a && cp -a s.2 b && rm s.1 s.2 && lzy-protect -q a b")
        text = self.text("lzy-verify 's.%r'", 2)
        self.assertNotIn("--salvage", text)
        self.take(text, "cp -np a s.1 && cp -np b s.2")
        self.assertEqual((self.world.read("s.1"), self.world.read("s.2")), before)
        self.intact("lzy-verify .", "lzy-verify 's.%r'", "lzy-verify a b")

    def test_renamed_files_that_were_protected_since_are_named(self):
        self.world.must("mv s.1 a && mv s.2 b && lzy-protect -q a b")
        self.take(self.text("lzy-verify .", 2), "cp -np a s.1 && cp -np b s.2")
        self.intact("lzy-verify .")

    def test_one_command_moves_all(self):
        self.world.must("mv s.1 a && mv s.2 b")
        self.take(self.text("lzy-verify 's.%r'", 2), "mv -n a s.1 && mv -n b s.2")
        self.intact("lzy-verify 's.%r'")

    def test_the_sidecar_goes_with_its_file(self):
        self.world.must("mv s.1 a && mv .LZY.s.1 .LZY.a")
        self.world.flip("s.2", 100)
        self.take(self.text("lzy-verify 's.%r'", 2), "mv -n a s.1 && mv -n .LZY.a .LZY.s.1")
        self.judge("lzy-verify --repair 's.%r'", codes=[0])

    def test_a_member_without_a_sidecar_is_known_by_the_others(self):
        before = self.world.read("s.1")
        self.world.must("cp -a s.1 a && rm s.1 .LZY.s.1")
        self.world.flip("s.2", 100)
        self.take(self.text("lzy-verify 's.%r'", 2), "mv -n a s.1")
        self.judge("lzy-restore 's.%r'", codes=[0])
        self.assertEqual(self.world.read("s.1"), before)

    def test_equal_members_are_copied_and_not_moved(self):
        self.world.must("cp -a s.0 s.1 && lzy-protect -q --force 's.%r' && rm s.1 s.2")
        self.assertNotIn("mv -n s.0", self.text("lzy-verify 's.%r'", 2))

    def test_after_a_salvage_the_content_is_still_named(self):
        """It said that nothing more can be recovered."""
        before = self.world.read("s.1")
        self.world.must("cp -a s.1 a && rm s.1")
        self.world.flip("s.2", 100)
        text = self.text("lzy-restore --salvage 's.%r'", 2)
        self.assertNotIn("nothing more", text)
        self.take(text, "mv -n s.1 s.1.away && cp -np a s.1")
        self.judge("lzy-verify --repair 's.%r'", codes=[0])
        self.assertEqual(self.world.read("s.1"), before)

    def test_a_sealed_set_is_searched_with_its_key(self):
        self.world.must("head -c 32 /dev/urandom > ../key && chmod 600 ../key && lzy-protect -q --force --key ../key 's.%r'")
        self.world.must("cp -a s.1 a && cp -a s.2 b && rm s.1 s.2")
        self.step(self.text("lzy-verify --key ../key 's.%r'", 2), "mv -n a s.1 && mv -n b s.2")


class RenamedSet(Circles):
    """A set that was renamed as a whole. Advice for single members would have torn it apart."""

    def setUp(self):
        super().setUp()
        self.files([f"s.{rank}" for rank in range(3)], 200000)
        self.world.protect("'s.%r'")
        self.world.must("for i in 0 1 2; do cp -a s.$i t.$i && rm s.$i; done")

    def test_it_can_be_protected_under_its_new_name(self):
        text = self.text("lzy-verify .", 2)
        self.assertIn("t.%r holds what it was", text)
        self.take(text, "lzy-protect t.%r")
        self.intact("lzy-verify 't.%r'")
        self.take(self.text("lzy-verify 's.%r'", 2), "lzy-restore --from t.%r s.%r")
        self.intact("lzy-verify .")

    def test_it_gets_its_old_name_by_one_command(self):
        self.take(self.text("lzy-verify .", 2), "mv -n t.0 s.0 && mv -n t.1 s.1 && mv -n t.2 s.2")
        self.intact("lzy-verify .", "lzy-verify 's.%r'")

    def test_the_old_name_can_be_forgotten(self):
        self.world.must("lzy-protect -q 't.%r'")
        self.take(self.text("lzy-verify .", 2), "lzy-protect --remove --force s.%r")
        self.intact("lzy-verify .")


class NothingLeft(Circles):
    """More is lost than parity covers."""

    @classmethod
    def setUpClass(cls):
        advice_campaign.use_memory()
        cls.addClassCleanup(advice_campaign.leave_memory)

    def lose(self, members, parity, lost, bare, size):
        names = [f"s.{rank}" for rank in range(members)]
        self.files(names, size)
        self.world.protect(f"'s.%r' --parity {parity}")
        for rank in lost:
            self.world.must(f"rm s.{rank}" + (f" .LZY.s.{rank}" if bare else ""))

    def test_each_chain_ends(self):
        for members, parity, lost in ((2, 1, (0, 1)), (3, 1, (1, 2)), (4, 1, (0, 3)), (5, 1, (1, 2)), (5, 1, (0, 1, 2)), (4, 2, (0, 1, 2))):
            for bare in (False, True):
                for size in (3000, 200000):
                    with self.subTest(members=members, parity=parity, lost=lost, bare=bare, size=size):
                        self.setUp()
                        self.lose(members, parity, lost, bare, size)
                        self.walk("lzy-verify 's.%r'", 2)

    def test_a_salvage_that_would_write_nothing_is_not_advised(self):
        self.lose(3, 1, (1, 2), True, 200000)
        for command in ("lzy-verify 's.%r'", "lzy-restore 's.%r'", "lzy-protect 's.%r'", "lzy-verify --repair 's.%r'"):
            self.assertNotIn("--salvage", self.text(command, 2))
        text = self.text("lzy-restore --salvage 's.%r'", 2)
        self.assertIn("nothing was written", text)
        self.assertNotIn("was written;", text.replace("nothing was written", ""))

    def test_a_commit_that_was_refused_does_not_advise_itself(self):
        self.lose(3, 1, (1, 2), False, 200000)
        self.take(self.text("lzy-verify 's.%r'", 2), "lzy-restore --salvage")
        self.take(self.text("lzy-protect 's.%r'", 2), "lzy-protect --force 's.%r'".replace("'", ""))
        self.intact("lzy-verify 's.%r'")

    def test_renamed_rotten_and_lost_members_come_to_an_end(self):
        changes = ("mv s.1 a", "mv s.1 a && mv .LZY.s.1 .LZY.a", "cp -a s.1 a && rm s.1", "cp -a s.1 a && rm s.1 .LZY.s.1", "mv s.1 s.0",
                   "cp -a s.1 a && rm s.1 && lzy-protect -q a")
        for members in (2, 3):
            for change in changes:
                for second in ("flip", "rm s.{0}", "rm s.{0} .LZY.s.{0}", "mv s.{0} b"):
                    with self.subTest(members=members, change=change, second=second):
                        self.setUp()
                        self.lose(members, 1, (), False, 3000)
                        self.world.must(change)
                        last = members - 1 if members > 2 else 0
                        if second == "flip":
                            self.world.flip(f"s.{last}", 100)
                        else:
                            self.world.must(second.format(last).replace("rm ", "rm -f ") + " || true")
                        self.walk("lzy-verify .", 2)


class Swapped(Circles):
    """Files that changed places, one of them damaged since."""

    def swapped(self):
        self.files(["a", "b"], 200000)
        self.world.protect("a b")
        before = {name: self.world.read(name) for name in "ab"}
        self.swap("a", "b")
        for name in "ab":  # known by its content only
            self.world.must(f"cp -a {name} between && rm {name} && mv between {name}")
        self.world.flip("a", 100)
        return before

    def change_back(self):
        before = self.swapped()
        text = self.text("lzy-verify .", 9)
        moves = [step for step in next_steps(text) if step.startswith("mv ")]
        self.assertEqual(len(moves), 1, text)
        self.judge(moves[0])
        self.judge("lzy-verify --repair b", codes=[0])
        self.assertEqual({name: self.world.read(name) for name in "ab"}, before)
        self.intact("lzy-verify .")

    def test_one_command_gives_both_their_names_back(self):
        self.change_back()

    def test_the_reports_on_both_have_the_same_command(self):
        self.swapped()
        self.assertEqual(self.step(self.text("lzy-verify a", 9), "mv "), self.step(self.text("lzy-verify b", 9), "mv "))

    def test_a_member_and_a_file_get_their_places_back(self):
        self.files(["s.0", "s.1", "m"])
        self.world.protect("'s.%r' m")
        self.swap("s.0", "m")
        for name in ("s.0", "m"):
            self.world.must(f"cp -a {name} between && rm {name} && mv between {name}")
        self.take(self.text("lzy-verify m"), "mv -n m m.away && mv -n s.0 m && mv -n m.away s.0")
        self.intact("lzy-verify .")

    def test_a_file_that_was_only_copied_over_another_one_is_not_to_be_moved(self):
        self.files(["a", "b"], 200000)
        self.world.protect("a b")
        self.world.must("cp -a a b")
        self.assertFalse([step for step in next_steps(self.text("lzy-verify b")) if step.startswith("mv ")])

    def test_inodes_of_128_bytes(self):
        """No times of birth, and times in seconds."""
        done = subprocess.run([os.sys.executable, "-B", "-m", "unittest", "lost_circles.CoarseSwap"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, LZY_TEST_COARSE="1"), cwd=os.path.dirname(os.path.abspath(__file__)))
        if "skipped" in done.stderr:
            self.skipTest("no ext4 can be mounted here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class CoarseSwap(Swapped):
    """Run by Swapped, in a process of its own that mounts an ext4 of that kind."""

    def setUp(self):
        if "LZY_TEST_COARSE" not in os.environ:
            self.skipTest("Swapped runs it")
        where = advice_campaign.mount_ext4(64 << 20, "-I", "128")
        if where is None:
            self.skipTest("no ext4 can be mounted here")
        self.addCleanup(os.rmdir, where)
        self.addCleanup(subprocess.run, ["umount", where], check=True)
        super().setUp()
        self.world.remove()
        self.world = type(self.world)(os.environ["TEST_LZY_BIN"], parent=where)
        self.addCleanup(self.world.remove)

    def test_inodes_of_128_bytes(self):
        self.assertEqual(os.stat(self.world.home).st_mtime_ns % 10**9, 0)


class Words(Circles):
    """Words that were wrong."""

    def test_a_member_of_another_set_is_not_of_an_older_one(self):
        self.files(["ck.0.0", "ck.1.0", "x.0", "x.1"])
        self.world.protect("'ck.%r.0' 'x.%r'")
        self.world.must("mv x.0 ck.9.0 && mv .LZY.x.0 .LZY.ck.9.0")
        text = self.text("lzy-verify 'ck.%r.0'")
        self.assertNotIn("older", text)
        self.assertIn("a member of another set, 'x.%r'", text)

    def test_a_file_without_a_seal_is_not_damaged(self):
        self.files(["a", "c"], 200000)
        self.world.must("head -c 32 /dev/urandom > ../key && chmod 600 ../key && lzy-protect -q --key ../key a && lzy-protect -q c && touch -r a c")
        self.world.must("lzy-protect -q c")
        text = self.text("lzy-verify --key ../key .", 4)
        self.assertNotIn("mv -n", text)
        self.assertNotIn("it is damaged", text)
        self.world.flip("c", 100)
        text = self.text("lzy-verify --key ../key .", 4)
        self.assertNotIn("mv -n", text)
        self.assertEqual(next_steps(text), ["lzy-verify --repair c"])
        self.judge("lzy-verify --repair c", codes=[0])

    def test_a_resumed_copy_does_not_claim_to_have_read_what_was_there(self):
        self.files(["src/a", "src/b"], 200000)
        self.world.protect("src")
        self.world.must("lzy-copy src dst")
        self.world.flip("dst/a", 100)
        text = self.world.must("lzy-copy --resume src dst").text
        self.assertIn("2 files there already, by size and time; they were not read again", text)
        self.assertNotIn("compared", text)
        self.assertNotIn("read back", text)
        self.assertEqual(self.world.run("lzy-verify dst").code, 1)

    def test_a_hint_goes_where_its_message_goes(self):
        self.files(["f", "g"], 200000)
        self.world.protect("g")
        self.world.flip("g", 100)
        self.world.log.append("# streams")
        only_errors = self.world.run("lzy-verify f g 2>&1 >/dev/null").text
        only_reports = self.world.run("lzy-verify f g 2>/dev/null").text
        self.assertEqual(next_steps(only_errors), ["lzy-protect f"], only_errors)
        self.assertEqual(next_steps(only_reports), ["lzy-verify --repair g"], only_reports)
        for text in (only_errors, only_reports):
            self.assertTrue(re.match(r"\S", text), text)  # no hint without what it is about


if __name__ == "__main__":
    unittest.main()
