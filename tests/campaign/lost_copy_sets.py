"""Sets of which a member is rotten, of an older version, or gone, and nothing beside it shows that: what lzy-copy made of them."""

import unittest

from lost_copies import Rotten


class CopiedSets(Rotten):
    """lzy-copy copies no member whose content is not that of the last commit of its set, and misses the ones that are gone."""

    def members(self, directory="src", pattern="s.%r", parity=""):
        self.files([f"{directory}/{pattern}".replace("%r", str(rank)) for rank in range(4)], 20000)
        self.world.protect(f"{parity} '{directory}/{pattern}'")

    def copies_no_set(self, command, path):
        done = self.world.run(command)
        self.assertEqual(done.code, 9, self.world.story())
        self.assertIn(f"{path}: has no sidecar of the last commit of its set", done.text)
        self.assertIn("What to do: lzy-verify src/s.%r", done.text)
        self.assertFalse([name for name in self.world.files() if name.startswith("copy")])

    def leaves_out(self, command, path, copy):
        done = self.world.run(command)
        self.assertEqual(done.code, 9, self.world.story())
        self.assertIn(f"{path}: is a member of a set, and its content is not that of the set's last commit", done.text)
        self.assertIn(f"What to do: lzy-verify {path}", done.text)
        self.assertNotIn(copy, self.world.files())

    def test_a_copy_is_brought_up_to_date(self):
        """What the older copy holds is another content of the same name, not damage."""
        self.members()
        self.world.must("lzy-copy 'src/s.%r' 'copy/s.%r'")
        for edit in ("printf new >> src/s.1", "printf x >> src/s.0; printf y >> src/s.3"):
            self.world.must(edit)
            self.world.protect("'src/s.%r'")
            done = self.world.run("lzy-copy 'src/s.%r' 'copy/s.%r'")
            self.assertEqual(done.code, 0, self.world.story())
            self.assertNotIn("warning", done.text)
            self.assertEqual(self.world.run("lzy-verify 'copy/s.%r'").code, 0, self.world.story())

    def test_a_rotten_member_without_a_sidecar_is_not_copied(self):
        world = self.world
        for change in ("rm src/.LZY.s.1", "truncate -s 0 src/.LZY.s.1"):
            with self.subTest(change=change):
                self.members()
                good, bad = self.rot("src/s.1", 1)
                world.must(change)
                self.copies_no_set("lzy-copy 'src/s.%r' 'copy/s.%r'", "src/s.1")
                self.copies_no_set("lzy-copy --no-protect 'src/s.%r' 'copy/s.%r'", "src/s.1")
                self.leaves_out("lzy-copy src tree", "src/s.1", "tree/s.1")
                self.leaves_out("mkdir one && lzy-copy src/s.1 one/", "src/s.1", "one/s.1")
                world.must("lzy-copy --salvage 'src/s.%r' 'saved/s.%r' && lzy-copy --salvage src kept")
                self.assertEqual({world.files()[path] for path in ("saved/s.1", "kept/s.1")}, {bad})
                world.run("lzy-restore 'src/s.%r'")
                self.assertEqual(world.files()["src/s.1"], good)
                self.intact("lzy-copy 'src/s.%r' 'copy/s.%r'", "lzy-verify copy")
                world.must("rm -r src copy tree one saved kept")

    def test_a_right_member_without_a_sidecar_is_copied(self):
        world = self.world
        for change in ("rm src/.LZY.s.1", "truncate -s 0 src/.LZY.s.1", "rm src/.LZY.s.1 && touch src/s.1"):
            with self.subTest(change=change):
                self.members()
                world.must(change)
                for command in ("lzy-copy 'src/s.%r' 'copy/s.%r'", "lzy-copy src tree", "mkdir one && lzy-copy src/s.1 one/"):
                    self.assertNotIn("without a check", world.must(command).text)
                self.intact("lzy-verify copy", "lzy-verify tree", "lzy-verify one")
                world.must("rm -r src copy tree one")

    def test_a_member_from_an_older_backup_is_not_copied(self):
        world = self.world
        self.members()
        world.must("cp -a src bak")
        world.write_random("src/s.1", 20000)
        world.must("lzy-protect 'src/s.%r' && cp -a bak/s.1 bak/.LZY.s.1 src/")
        for _ in range(2):  # as it was, and rotten
            self.copies_no_set("lzy-copy 'src/s.%r' 'copy/s.%r'", "src/s.1")
            self.leaves_out("lzy-copy src tree && false", "src/s.1", "tree/s.1")
            world.must("rm -r tree")
            _, bad = self.rot("src/s.1", 1)
        done = world.run("lzy-copy --salvage src tree")
        self.assertNotIn("somebody committed it", done.text)
        self.assertEqual(world.files()["tree/s.1"], bad)

    def test_a_member_with_an_older_sidecar_and_the_last_content_is_copied(self):
        world = self.world
        self.members()
        world.must("cp -a src bak")
        world.write_random("src/s.2", 20000)
        world.must("lzy-protect 'src/s.%r' && cp -a bak/s.1 bak/.LZY.s.1 src/")
        self.intact("lzy-copy 'src/s.%r' 'copy/s.%r'", "lzy-verify copy", "lzy-copy src tree", "lzy-verify tree")

    def test_a_file_that_no_commit_has_yet_is_copied(self):
        self.members()
        self.files(["src/s.4", "src/s"], 20000)
        self.intact("lzy-copy 'src/s.%r' 'copy/s.%r'", "lzy-verify copy", "lzy-copy src tree", "lzy-verify tree")

    def test_a_member_that_was_taken_out_of_its_set_is_copied(self):
        world = self.world
        self.members()
        world.must("mkdir one && cp -a src/s.2 src/.LZY.s.2 one/")
        self.intact("lzy-copy one copy", "lzy-verify copy")
        self.assertIn("copy/s.2", world.files())

    def test_a_lost_member_is_missed_in_a_directory(self):
        world = self.world
        self.members()
        self.files([f"src/single.{number}" for number in range(3)] + [f"src/r.{number}" for number in range(12)])
        world.protect("src/single.0 src/single.1 src/r.1 src/r.2")
        self.intact("lzy-copy src whole")
        for rank, source, shown in ((1, "src", "src/s."), (3, "src/", "src/s."), (0, ".", "src/s.")):
            world.must(f"rm src/s.{rank} src/.LZY.s.{rank}")
            done = world.run(f"lzy-copy {source} ../copy{rank}")
            self.assertEqual(done.code, 6, world.story())
            self.assertIn(f"{shown}{rank}: is missing with its sidecar, and is a member of a set; what to do: lzy-verify {shown}%r", done.text)
            self.assertEqual(done.text.count("is missing"), 1)
            world.must("lzy-restore 'src/s.%r'")
        self.intact("lzy-copy src again")

    def test_a_lost_member_is_missed_in_directories_of_members(self):
        world = self.world
        self.members(pattern="node.%r/state")
        self.intact("lzy-copy src whole", "lzy-copy src/node.1 one")
        world.must("rm -r src/node.2")
        done = world.run("lzy-copy src copy")
        self.assertEqual(done.code, 6, world.story())
        self.assertIn("src/node.2/state: is missing with its sidecar, and is a member of a set; what to do: lzy-verify src/node.%r/state", done.text)
        self.assertIn("copy/node.1/state", world.files())
        self.intact("lzy-copy src/node.1 again")

    def test_members_that_a_smaller_set_no_longer_has_are_not_missed(self):
        world = self.world
        self.files([f"src/s.{rank}" for rank in range(12)])
        world.protect("'src/s.%r'")
        world.must("mkdir old && mv src/s.? src/s.10 src/s.11 old/ && mv old/s.[0-3] src/ && mv src/.LZY.s.10 src/.LZY.s.11 old/")
        world.must("cd src && rm .LZY.s.? && lzy-protect 's.%r' && mv ../old/s.10 ../old/.LZY.s.10 .")
        done = world.run("lzy-copy src copy")
        self.assertNotIn("is missing", done.text, world.story())
        self.assertIn("copy/s.10", world.files())

    def test_the_advice_for_a_set_that_is_beyond_repair_names_it(self):
        self.members()
        for rank in range(3):
            self.rot(f"src/s.{rank}", 1)
        done = self.world.run("lzy-copy src copy")
        self.assertEqual(done.code, 2)
        self.assertIn("repair the set first: lzy-verify --repair src/s.1", done.text)

class OldSidecars(Rotten):
    """lzy-copy says what it does to the sidecar of the file that it replaces."""

    EDITED = "printf EDITED | dd of=src bs=1 conv=notrunc status=none && touch -r live/x src"

    def state(self, change):
        self.files(["live/x"], self.SIZE)
        self.world.must(f"lzy-protect -q --block-size 4K live && {change}")

    def test_of_a_file_that_another_version_replaces_unprotected(self):
        world = self.world
        self.state(f"cp -p live/x src && {self.EDITED}")
        done = world.must("lzy-copy --no-protect src live/x")
        self.assertRegex(done.text, r"live/x: its old sidecar is kept as \S+/\.LZY-tmp\.\d+\.x, because")
        step = "lzy-protect --force live/x"
        self.assertIn(f"it is right: {step}", done.text)
        for command in ("lzy-verify live", "lzy-verify --repair live", "lzy-restore live", "lzy-protect live"):
            self.assertIn(f"To commit it as it is: {step}; if it is damaged, give it its sidecar back", world.run(command).text)
        copied = world.files()["src"]
        self.intact(step, "lzy-verify live", "lzy-verify --repair live", "lzy-info --prune live", "lzy-restore live")
        self.assertEqual(world.files()["live/x"], copied)

    def test_of_a_file_that_another_version_replaces(self):
        world = self.world
        self.state(f"cp -p live/x src && {self.EDITED}")
        self.assertRegex(world.must("lzy-copy src live/x").text, r"live/x: its old sidecar is kept as \S+, because \S+/src may be the file that it was")
        self.intact("lzy-verify live", "lzy-verify --repair live")

    def test_of_a_file_that_an_unlike_one_replaces(self):
        world = self.world
        self.files(["live/y"])
        self.state("head -c 3000 /dev/urandom > src && mkdir old && cp src old/x && cp src old/y")
        world.must("lzy-verify live")
        self.assertIn("live/x: was protected, and the copy is not: its sidecar was removed\n", world.must("lzy-copy --no-protect src live/x").text)
        self.assertNotIn("not protected any more", world.must("lzy-verify live").text)
        world.must("lzy-protect live")
        self.assertIn("the same of 1 more: was protected", world.must("lzy-copy --no-protect old/x old/y live/").text)
        world.must("lzy-protect live")
        self.assertNotIn("sidecar", world.must("lzy-copy src live/x").text)


class RottenSources(Rotten):
    """A protected file that was renamed or moved, and is damaged, has no sidecar that could show it."""

    def refused(self, moves, source, target="n", back="new", code=9):
        world = self.world
        self.files(["live/x", "live/y"], 20_000)
        world.protect("live")
        good, bad = self.rot("live/x")
        world.must(f"mkdir n o && {moves}")
        done = world.run(f"lzy-copy {source} {target}")
        self.assertEqual(done.code, code, world.story())
        self.assertIn("it was renamed or moved, and is damaged. So it was not copied", done.text)
        self.assertNotIn(bad, [content for path, content in world.files().items() if path.startswith("n/")])
        self.assertEqual(world.run(f"lzy-copy --salvage {source} o").code, 0 if code == 9 else code, world.story())
        world.must(f"mv {back} live/x && lzy-verify --repair live/x")
        self.assertEqual(world.files()["live/x"], good)

    def test_of_one_that_was_moved(self):
        self.refused("lzy-scrub live; mv live/x new", "new")

    def test_of_one_that_was_renamed_and_put_back(self):
        self.refused("mv live/x live/new && cp -a live b && rm -r live && mv b live", "live/new", back="live/new")

    def test_of_one_in_a_directory(self):
        self.refused("mkdir old && mv live/x old/new", "old live", back="old/new", code=6)

    def test_good_ones_are_copied(self):
        world = self.world
        self.files(["live/x"], 20_000)
        world.protect("live")
        world.must("mv live/x live/new && cp -p live/new copy && mkdir n && lzy-copy live/new copy n")
        self.intact("lzy-verify n")


if __name__ == "__main__":
    unittest.main()
