"""Option heal: members of a set that are rebuilt in MPI_Init."""

import os
import unittest

from layered import CLIENT, RANK, Layer


class Heal(Layer):
    """Option heal: MPI_Init of any program that declares a set finds its members rebuilt."""

    def setUp(self):
        super().setUp()
        self.quiet(self.client("set", name="s", ranks=3, set="s.%r"))
        self.before = {name: self.content(name) for name in self.files()}

    def program(self, **options):
        done = self.client("plain", name="g", set="s.%r:t.*.%r", heal="on", include="s.*", **options)
        os.remove(self.path("g"))
        return done

    def lose(self, *names):
        for name in names:
            os.remove(self.path(name))

    def test_nothing_is_reported_if_nothing_is_lost(self):
        self.quiet(self.program())
        self.lose(*self.files())
        self.quiet(self.program())
        self.assertEqual(self.files(), [])

    def test_a_member_that_is_lost(self):
        for ranks in (1, 3, 4):
            for names in (["s.1", ".LZY.s.1"], ["s.2"], [".LZY.s.0"]):
                with self.subTest(ranks=ranks, names=names):
                    self.lose(*names)
                    done = self.program(ranks=ranks)
                    self.assertRegex(done.stderr, rf"^lzy: {self.path('s.%r')}: rebuilt before the program opens it, in [0-9.]+ s: "
                                     + ", ".join(sorted(names)) + "\n$")
                    self.assertEqual({name: self.content(name) for name in self.files() if not name.startswith(".")},
                                     {name: data for name, data in self.before.items() if not name.startswith(".")})
                    self.assertEqual(self.verify("s.%r"), 0)

    def test_a_member_that_is_truncated(self):
        times = os.stat(self.path("s.1"))
        os.truncate(self.path("s.1"), 5000)
        os.utime(self.path("s.1"), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertIn("rebuilt before", self.program().stderr)
        self.assertEqual(self.content("s.1"), self.before["s.1"])

    def test_more_losses_than_parity_are_reported_and_left(self):
        self.lose("s.1", "s.2")
        done = self.program()
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn(": not healed: ", done.stderr)
        self.assertIn("lzy-verify", done.stderr)
        self.assertEqual(self.files(), [".LZY.s.0", ".LZY.s.1", ".LZY.s.2", "s.0"])

    def test_members_of_an_open_epoch_are_left(self):
        self.crash("set_sync", name="s", set="s.%r")
        self.lose("s.1", ".LZY.s.1")
        done = self.program()
        self.assertIn(": not healed: it is being written, or a program ended while it wrote it;", done.stderr)
        self.assertFalse(self.has("s.1"))

    def test_a_member_of_another_commit_is_left(self):
        old = {name: self.content(name) for name in ("s.1", ".LZY.s.1")}
        times = {name: os.stat(self.path(name)) for name in old}
        self.quiet(self.client("set_again", name="s", ranks=3, set="s.%r"))
        for name, data in old.items():
            with open(self.path(name), "wb") as file:
                file.write(data)
            os.utime(self.path(name), ns=(times[name].st_atime_ns, times[name].st_mtime_ns))
        self.assertIn("not healed: .LZY.s.1 is not that of the last commit", self.program().stderr)
        self.assertEqual(self.content("s.1"), old["s.1"])

    def test_an_edit_is_left(self):
        with open(self.path("s.1"), "r+b") as file:
            file.write(b"edited")
        self.quiet(self.program())
        self.assertEqual(self.content("s.1")[:6], b"edited")

    def test_only_if_all_ranks_ask_for_it(self):
        self.lose("s.1")
        only = f"[ {RANK} = 0 ] || unset LZY_HEAL; exec \"$@\""
        done = self.run_program(["sh", "-c", only, "sh", CLIENT, "plain", "g", ""], ranks=2, set="s.%r", heal="on", include="s.*")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.has("s.1"))


if __name__ == "__main__":
    unittest.main()
