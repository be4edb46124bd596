"""Option drain: committed members are copied elsewhere in the background, and the program does not notice."""

import os
import shutil
import time
import unittest

from layered import BUILD, CLIENT, Layer


class Drain(Layer):
    def members(self, action, **options):
        options.setdefault("catalog", self.path("catalog"))
        return self.client(action, name="s", ranks=2, **options)

    def test_steps_are_copied_and_the_program_has_no_children(self):
        self.quiet(self.members("set_drain", set="s.*.%r", drain="s.*.%r=far/step*/s.%r"))
        for step in range(3):
            for rank in range(2):
                self.assertEqual(self.content(f"far/step{step}/s.{rank}"), self.content(f"s.{step}.{rank}"))
        done = self.run_tool("lzy-verify", "--quiet", "far")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # And back, as a set.
        os.mkdir(self.path("back"))
        done = self.run_tool("lzy-copy", "far/step1/s.%r", "back/s.%r")
        self.assertIn("set of 2 members protected", done.stdout)

    def test_the_last_commit_of_a_member_counts(self):
        self.quiet(self.members("set_again", set="s.%r", drain="s.%r=far/s.%r"))
        for rank in range(2):
            self.assertEqual(self.content(f"far/s.{rank}"), self.content(f"s.{rank}"))
        self.assertEqual([name for name in os.listdir(self.path("far")) if name.startswith(".LZY-")], [])

    def test_other_sets_are_not_copied(self):
        self.quiet(self.members("set", set="s.%r", drain="t.%r=far/t.%r"))
        self.assertFalse(self.has("far"))

    def test_what_fails_is_told_with_the_command_to_go_on(self):
        with open(self.path("far"), "w", encoding="utf-8"):
            pass
        done = self.members("set", set="s.%r", drain="s.%r=far/s.%r")
        for rank in range(2):
            self.assertRegex(done.stderr, f"lzy: drain of {self.path(f's.{rank}')} to {self.path(f'far/s.{rank}')}: failed: .*far.*; "
                                          f"to go on: lzy-copy --resume {self.path(f's.{rank}')} {self.path(f'far/s.{rank}')}\n")
        self.assertEqual(self.run_tool("lzy-verify", "--quiet", "s.%r").returncode, 0, "the set itself is committed")

    def test_what_takes_too_long_is_not_waited_for(self):
        # The layer takes the lzy-copy beside it: here, one that lasts.
        shutil.copytree(f"{BUILD}/lib", self.path("moved/lib"), symlinks=True,
                        ignore=lambda _, names: [name for name in names if not name.startswith("liblzy_mpiio")])
        os.makedirs(self.path("moved/bin"))
        with open(self.path("moved/bin/lzy-copy"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $$ >>{self.path('pids')}\nexec sleep 60\n")
        os.chmod(self.path("moved/bin/lzy-copy"), 0o755)
        begin = time.monotonic()
        done = self.run_with(f"{self.path('moved/lib')}/liblzy_mpiio.so", set="s.%r", drain="s.%r=far/s.%r", timeout=2)
        took = time.monotonic() - begin
        with open(self.path("pids"), encoding="utf-8") as file:
            pids = [int(line) for line in file]
        self.assertEqual(len(pids), 2)
        for pid in pids:
            self.assertEqual(os.getpriority(os.PRIO_PROCESS, pid), 19)
            os.kill(pid, 9)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has not ended after 2 s and goes on in the background; if it is ended, type: lzy-copy --resume ", done.stderr)
        self.assertLess(took, 50)

    def run_with(self, layer, **options):
        return self.run_program(["env", f"LD_PRELOAD={layer}", CLIENT, "set", "s", ""], layer=False, **options)

    def test_what_lzy_run_accepts(self):
        done = self.run_tool("lzy-run", "--drain", "a.%r=b.%r", "true")
        self.assertEqual(done.returncode, 3)
        self.assertIn("--drain: no file set is declared", done.stderr)
        for wrong, why in [("a.%r", "a pair FROM=TO"), ("a.%r=b", "both patterns need %r"), ("a.%r=b.%r=c.%r", "a pair FROM=TO"),
                           ("a.%r=b.*.%r", "TO has more '*' than FROM")]:
            done = self.run_tool("lzy-run", "--set", "a.%r", "--drain", wrong, "true")
            self.assertEqual(done.returncode, 3, wrong)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
