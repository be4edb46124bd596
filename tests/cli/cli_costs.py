"""What the advice of reports costs. It must not read healthy files, nor the sidecars around once for each file."""

import os
import time
import unittest

from harness import CliTest, pattern_bytes


def counters():
    """Bytes and calls of reading, of this process and of all children that it waited for."""
    with open("/proc/self/io", encoding="ascii") as file:
        fields = dict(line.split(": ") for line in file.read().splitlines())
    return int(fields["rchar"]), int(fields["syscr"])


@unittest.skipUnless(os.path.exists("/proc/self/io"), "this kernel does not count what a process reads")
class Costs(CliTest):
    SIZE = 4 << 20

    def cost(self, exit_code, *words):
        """Bytes and calls of one run, and what it printed."""
        before = counters()
        done = self.check(exit_code, *words)
        after = counters()
        return after[0] - before[0], after[1] - before[1], done.stdout

    def lose(self, count, *options):
        """A set of 8 members, of which the last `count` are lost with their sidecars."""
        for rank in range(8):
            self.write(f"s.{rank}", pattern_bytes(self.SIZE, rank))
            self.age(f"s.{rank}")
        self.check(0, "lzy-protect", "--parity", "2", *options, "s.%r")
        for rank in range(8 - count, 8):
            os.remove(self.path(f"s.{rank}"))
            os.remove(self.path(f".LZY.s.{rank}"))

    def test_healthy_members_are_not_compared_with_lost_ones(self):
        self.lose(2)
        self.assertLess(self.cost(1, "lzy-info", "s.%r")[0], self.SIZE)  # only metadata, and the program itself
        for quiet in ((), ("--quiet",), ("--json",)):
            self.assertLess(self.cost(1, "lzy-verify", *quiet, "s.%r")[0], 10 * self.SIZE, quiet)  # data and parity once

    def find_moved(self, *options):
        self.lose(0, *options)
        for rank in (6, 7):
            os.rename(self.path(f"s.{rank}"), self.path(f"moved{rank}"))
            os.remove(self.path(f".LZY.s.{rank}"))
        read, _, said = self.cost(1, "lzy-verify", *options, "s.%r")
        self.assertIn("if they were moved by mistake, move them back: mv -n moved6 s.6 && mv -n moved7 s.7\n", said)
        self.assertLess(read, 13 * self.SIZE)  # the two files once more, whatever the number of lost members
        self.assertLess(self.cost(1, "lzy-info", *options, "s.%r")[0], self.SIZE)

    def test_a_moved_member_is_found_by_its_record(self):
        self.find_moved()

    def test_a_moved_member_of_a_sealed_set_is_found_by_its_record(self):
        self.write("key", b"k" * 32)
        os.chmod(self.path("key"), 0o600)
        self.find_moved("--key", "key")

    def test_edited_files_do_not_ask_for_all_sidecars_each(self):
        def calls(files):
            directory = f"d{files}"
            for i in range(files):
                self.write(f"{directory}/f{i}", pattern_bytes(5000 + i % 7, i))
                self.age(f"{directory}/f{i}")
            self.check(0, "lzy-protect", directory)
            for i in range(0, files, 3):
                self.write(f"{directory}/f{i}", pattern_bytes(5000 + i % 7, files + i))
            time.sleep(2.5)  # of a directory that has just changed, no look is kept
            return {quiet: self.cost(9, "lzy-verify", *quiet, directory)[1] for quiet in ((), ("--quiet",), ("--json",))}
        few, many = calls(45), calls(180)
        for quiet, count in many.items():
            self.assertLess(count, 7 * few[quiet], (quiet, few, many))  # 4 times as many files; 10 if each asks for all


if __name__ == "__main__":
    unittest.main(verbosity=2)
