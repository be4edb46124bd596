"""Files that are opened more than once, renamed, deleted, or not closed."""

import os
import shutil
import tempfile
import unittest

from layered import Layer


class Lifetimes(Layer):
    """Files that are open in several ways, or do not end with a close."""

    def test_several_handles_of_one_file(self):
        for action in ["two_handles", "alone_and_together", "each_alone"]:
            for again in range(2):
                with self.subTest(action=action, again=again):
                    self.quiet(self.client(action, name=action, ranks=3))
                    self.assertEqual(self.verify(action), 0)

    def test_renamed_while_open(self):
        self.quiet(self.client("renamed_while_open"))
        self.assertEqual(self.files(), [".LZY.f.final", "f.final"])
        self.assertEqual(self.verify("f.final"), 0)

    def test_deleted_while_open(self):
        for action in ["deleted_while_open", "deleted_by_posix"]:
            with self.subTest(action=action):
                self.quiet(self.client(action))
                self.assertEqual(self.files(), [])

    def test_deleting_a_link_leaves_its_target_protected(self):
        self.client("plain")
        os.symlink("f", self.path("link"))
        self.client("delete_it", name="link")
        self.assertEqual(self.files(), [".LZY.f", "f"])

    def test_what_a_program_deletes_alarms_nobody(self):
        state = tempfile.mkdtemp(prefix="lzy-state-")
        self.addCleanup(shutil.rmtree, state)
        # Options of programs, too: they come as LZY_CATALOG.
        catalog = os.path.join(state, "c.sqlite")
        for name in ("f", "by_hand", "plain", "kept"):
            self.client("plain", name=name)
        scrub = ("lzy-scrub", "--quiet", "--catalog", catalog, ".")
        self.assertEqual(self.run_tool(*scrub).returncode, 0)
        self.client("delete_it", name="f", catalog=catalog)
        # Without a sidecar, there is nothing to note.
        os.remove(self.path(".LZY.plain"))
        os.remove(self.path("plain"))
        self.client("plain", name="plain", layer=False)
        self.client("delete_it", name="plain", catalog=catalog)
        for name in ("by_hand", ".LZY.by_hand"):
            os.remove(self.path(name))
        done = self.run_tool(*scrub)
        self.assertEqual(done.returncode, 4)
        self.assertEqual(sorted(line.split(":")[1].strip() for line in done.stderr.splitlines()), [self.path("by_hand"), self.path("plain")])
        with open(catalog + ".deleted", encoding="utf-8") as notes:
            self.assertEqual([line.split(" ", 1)[1] for line in notes], [self.path("f") + "\n"])

    def test_written_through_a_link(self):
        os.mkdir(self.path("d"))
        os.symlink("d/target", self.path("link"))
        self.client("plain", name="link")
        self.assertEqual(sorted(os.listdir(self.path("d"))), [".LZY.target", "target"])
        self.assertEqual(self.verify("link"), 0)

    def test_not_closed(self):
        done = self.client("not_closed")
        self.assertEqual(done.stderr, f"lzy: {self.path('f')}: not closed before MPI_Finalize; it stays at risk until the "
                                      "next commit\n")
        self.assertEqual(self.verify(), 9)

    def test_a_crash_after_a_commit_leaves_it_intact(self):
        self.crash("crash_after_commit")
        self.assertEqual(self.verify(), 0)

    def test_a_crash_after_a_write_leaves_it_at_risk(self):
        self.crash("crash_after_sync")
        self.assertEqual(self.verify(), 9)
        # whoever comes next covers all of it
        self.client("scattered_updates", ranks=3)
        self.assertEqual(self.verify(), 0)

    def test_several_threads(self):
        for again in range(2):
            self.quiet(self.client("threads"))
            for name in ["f"] + [f"f.{number}" for number in range(8)]:
                with self.subTest(again=again, name=name):
                    self.assertEqual(self.verify(name), 0)

    def test_sequential_mode(self):
        self.quiet(self.client("sequential"))
        self.assertEqual(self.verify(), 0)

    def test_a_file_name_with_a_romio_prefix(self):
        # Only ROMIO takes it for one: to Open MPI's own I/O it is a part of the name.
        self.client("plain", name="ufs:f", layer=False)
        [name] = self.files()
        self.client("plain", name="ufs:f")
        self.assertEqual(self.files(), sorted([f".LZY.{name}", name]))
        self.client("delete_it", name="ufs:f")
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
