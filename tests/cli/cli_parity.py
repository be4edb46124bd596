"""Parity that was computed wrongly: by a library that errs (tests/support/other_isal.c), or committed so."""

import os

from harness import BIN, CliTest, pattern_bytes

LIBRARY = os.path.join(BIN, "..", "tests", "libother_isal.so")
BLOCK = 4096


def with_isal(kind):
    return {"LD_PRELOAD": LIBRARY, "OTHER_ISAL": kind}


class OtherLibrary(CliTest):
    def make_set(self, members, size=3 * BLOCK):
        for rank in range(members):
            self.write(f"s.{rank}", pattern_bytes(size, seed=rank))
            self.age(f"s.{rank}")

    def all_files(self):
        return {name: self.read(name) for name in os.listdir(self.scratch) if os.path.isfile(self.path(name))}

    def test_tables_of_another_version_give_the_same_parity(self):
        self.make_set(12)
        before = self.all_files()
        words = ["--parity", "8", "--group", "12", "--block-size", "4K", "s.%r"]
        self.check(0, "lzy-protect", *words, env=with_isal("gfni"))
        self.check(0, "lzy-verify", "s.%r")
        for rank in range(8):
            os.remove(self.path(f"s.{rank}"))
            os.remove(self.path(f".LZY.s.{rank}"))
        self.check(0, "lzy-restore", "s.%r")
        self.assertEqual({name: self.read(name) for name in before}, before)

    def test_a_library_that_computes_wrongly_commits_nothing(self):
        self.make_set(5)
        self.write("f", pattern_bytes(9 * BLOCK))
        before = self.all_files()
        for words in (["s.%r"], ["f"], ["--device-dirs", "a:b:c:d", "f"]):
            for directory in "abcd":
                os.makedirs(self.path(directory), exist_ok=True)
            done = self.check(7, "lzy-protect", "--parity", "2", "--group", "4", *words, env=with_isal("rows"))
            self.assertRegex(done.stderr, r"ISA-L \(.*libother_isal.so\) computes wrongly on this processor")
            self.assertEqual(self.all_files(), before)
            self.assertEqual([name for directory in "abcd" for name in os.listdir(self.path(directory))], [])

    def test_the_commit_of_before_still_counts(self):
        self.write("f", pattern_bytes(9 * BLOCK))
        self.age("f")
        self.check(0, "lzy-protect", "--parity", "2", "--group", "4", "f")
        self.write("f", pattern_bytes(9 * BLOCK, seed=2))
        before = self.all_files()
        self.check(7, "lzy-protect", "f", env=with_isal("rows"))
        self.assertEqual(self.all_files(), before)
        self.check(0, "lzy-protect", "f")
