"""File sets, one file for each rank: common commits, groups, ranks that are late or missing."""

import os
import re
import time
import unittest

from layered import CLIENT, PATIENCE, RANK, Layer


class Sets(Layer):
    """One file a rank."""
    # For ranks that do not come: those that do are together at a barrier just before, and have this long to meet.
    TIMEOUT = 6

    def members(self, action, argument="", ranks=3, pattern="s.%r", **options):
        return self.client(action, name="s", argument=argument, ranks=ranks, set=pattern, **options)

    def closes(self, done):
        """Seconds that each rank's close took."""
        return {int(rank): float(time) for rank, time in re.findall(r"close (\d+) took ([0-9.]+)", done.stdout)}

    def test_commit_at_close(self):
        self.quiet(self.members("set"))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_a_set_of_one_rank(self):
        self.quiet(self.members("set", ranks=1, parity=0))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_another_number_of_ranks_makes_another_set(self):
        for ranks in [2, 3]:
            self.quiet(self.members("set", ranks=ranks, report="report"))
            self.assertEqual(self.verify("s.%r"), 0)
        self.assertEqual([line["bytes"] for line in self.reports()], [200000, 300000])

    def test_members_can_be_rebuilt(self):
        self.quiet(self.members("set"))
        lost = self.content("s.1")
        os.remove(self.path("s.1"))
        self.assertEqual(self.run_tool("lzy-restore", "--quiet", "s.%r").returncode, 0)
        self.assertEqual(self.content("s.1"), lost)

    def test_steps_are_sets_of_their_own(self):
        self.quiet(self.members("set_steps", pattern="s.*.%r"))
        for step in range(3):
            self.assertEqual(self.verify(f"s.{step}.%r"), 0)

    def test_the_same_set_is_written_many_times(self):
        for _ in range(2):
            self.quiet(self.members("set_again", report="report"))
            self.assertEqual(self.verify("s.%r"), 0)
        reports = self.reports()
        self.assertEqual([line["kind"] for line in reports], ["set"] * 6)
        self.assertEqual([line["generation"] for line in reports], [1, 2, 3, 4, 5, 6])

    def test_groups_are_dealt_across_domains(self):
        def groups():
            return {frozenset(one["device"] for one in group) for group in self.info("s.%r", "--map")["map"]}

        self.quiet(self.members("set", ranks=4, group=2))
        self.assertEqual(groups(), {frozenset([0, 2]), frozenset([1, 3])})
        self.clear()
        named = f"export LZY_DOMAIN=rack$(({RANK} % 2)); exec \"$@\""
        self.quiet(self.run_program(["sh", "-c", named, "sh", CLIENT, "set", "s", ""], ranks=4, set="s.%r", group=2))
        self.assertEqual(groups(), {frozenset([0, 1]), frozenset([2, 3])})
        self.clear()
        # Three of four in one rack.
        named = named.replace("% 2", "/ 3")
        done = self.run_program(["sh", "-c", named, "sh", CLIENT, "set", "s", ""], ranks=4, set="s.%r", group=4)
        self.assertIn("3 members of one failure domain are in one group; if this failure domain is lost, parity 1 cannot rebuild them",
                      done.stderr)

    def test_groups_that_are_kept_while_domains_change(self):
        def run_in(racks, **options):
            named = f"export LZY_DOMAIN=rack$(({RANK} {racks})); exec \"$@\""
            return self.run_program(["sh", "-c", named, "sh", CLIENT, "set", "s", ""], ranks=4, set="s.%r", **options).stderr

        self.assertEqual(run_in("% 2", group=2), "")
        warning = run_in("/ 2", group=2)
        self.assertIn("2 members of one failure domain are in one group now, more than when the groups were made. If this "
                      "failure domain is lost, parity 1 cannot rebuild them.", warning)
        self.assertEqual(warning.count("\n"), 1)
        self.assertEqual(run_in("/ 2", group=2), "", "it is told once")
        self.assertEqual(self.verify("s.%r"), 0)
        self.clear()
        # What parity can still repair is nothing to be warned of.
        for racks in ("* 1", "* 10", "/ 2"):
            self.assertEqual(run_in(racks, group=4, parity=2), "")

    def test_a_set_declared_by_a_hint(self):
        self.quiet(self.client("set_hint", name="s", ranks=3))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_sync_commits_only_when_asked_to(self):
        self.crash("set_sync", name="s", set="s.%r")
        self.assertEqual(self.verify("s.%r"), 9)
        self.crash("set_sync", name="s", set="s.%r", set_sync="on")
        self.assertEqual(self.verify("s.%r"), 0)

    def test_a_missing_rank_is_named(self):
        for missing in [2, 0]:
            with self.subTest(missing=missing):
                done = self.members("set_missing", argument=str(missing), timeout=self.TIMEOUT)
                self.assertIn(f"lzy: set {self.path('s.%r')}: close waited {self.TIMEOUT} s for rank {missing}; its members "
                              "stay at risk until the next commit\n", done.stderr)
                self.assertIn(f"never committed: rank {missing} did not close a member of it", done.stderr)
                times = self.closes(done)
                self.assertEqual(len(times), 2)
                # Twice the time-out at most, and what a busy machine adds; not the minutes of waits that multiply.
                self.assertLess(max(times.values()), 5 * self.TIMEOUT)
                self.assertEqual(len(re.findall(r"close \d ok", done.stdout)), 2)
                self.assertEqual(self.verify("s.%r"), 9)
                self.clear()

    def test_a_late_rank_is_named_and_the_set_is_committed_at_the_end(self):
        for late in [2, 0]:
            with self.subTest(late=late):
                done = self.members("set_late", argument=str(late), timeout=self.TIMEOUT)
                self.assertIn(f"close waited {self.TIMEOUT} s for rank {late};", done.stderr)
                self.assertIn(f"close came late on rank {late}", done.stderr)
                self.assertLess(self.closes(done)[late], self.TIMEOUT)
                self.assertEqual(self.verify("s.%r"), 0)

    def test_missing_ranks_can_be_errors(self):
        done = self.members("set_missing", argument="2", on_error="fail", timeout=self.TIMEOUT)
        self.assertEqual(sorted(re.findall(r"close (\d) (ok|MPI_ERR_IO)", done.stdout)),
                         [("0", "MPI_ERR_IO"), ("1", "MPI_ERR_IO")])

    def test_writing_the_member_of_another_rank_is_refused(self):
        done = self.members("set_wrong_rank")
        self.assertIn("it is the member of rank 1 of set s.%r, but rank 0 opened it", done.stderr)
        self.assertEqual(self.files(), ["s.0", "s.1", "s.2"])

    def test_a_set_declared_by_some_ranks_only(self):
        unlike = f"[ {RANK} = 1 ] && unset LZY_SET; exec \"$@\""
        for fail in (False, True):
            start = time.monotonic()
            options = {"on_error": "fail"} if fail else {}
            done = self.run_program(["sh", "-c", unlike, "sh", CLIENT, "set", "s", ""], ranks=3, set="s.%r", timeout=PATIENCE,
                                    **options)
            self.assertLess(time.monotonic() - start, PATIENCE / 2, "somebody waited for the others")
            self.assertEqual(done.returncode, 0, done.stderr)
            codes = dict(re.findall(r"close (\d) (ok|MPI_ERR_IO)", done.stdout))
            self.assertEqual(codes, {"0": "MPI_ERR_IO", "1": "ok", "2": "MPI_ERR_IO"} if fail else dict.fromkeys("012", "ok"))
            for rank in (0, 2):
                self.assertIn(f"s.{rank}: not protected: it is a member of set s.%r on rank {rank}, but LZY_SET is not the "
                              "same on all ranks", done.stderr)
            self.assertEqual([self.verify(f"s.{rank}") for rank in range(3)], [4, 0, 4])
        # Hints that all ranks give count, whatever some have in their environment.
        hinted = self.run_program(["sh", "-c", unlike, "sh", CLIENT, "set_hint", "s", ""], ranks=3, set="s.%r", timeout=PATIENCE)
        self.assertEqual((hinted.returncode, hinted.stderr), (0, ""))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_ranks_with_different_parity(self):
        unlike = f"export LZY_PARITY=$((1 + {RANK} / 2)); exec \"$@\""
        done = self.run_program(["sh", "-c", unlike, "sh", CLIENT, "set", "s", ""], ranks=3, set="s.%r")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("s.%r: parity is 1 on rank 0 and 2 on rank 2: the ranks must agree on it", done.stderr)
        self.assertEqual(self.verify("s.%r"), 9)
        self.quiet(self.members("set"))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_an_edited_member_that_the_next_run_does_not_write(self):
        self.quiet(self.members("set"))
        with open(self.path("s.1"), "r+b") as file:
            file.write(b"edited")
        self.quiet(self.members("set_but_one", argument="1"))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_a_member_renamed_while_open_keeps_its_sidecar(self):
        self.quiet(self.members("set"))
        done = self.members("set_renamed", argument="1")
        self.assertEqual(done.stderr.count("s.1: renamed to "), 1, done.stderr)
        self.assertIn("the files of rank 1 were removed or renamed", done.stderr)
        self.assertTrue(self.has(".LZY.s.1"), self.files())
        # Where the name is all that was changed back, nothing of the group's parity is lost.
        os.rename(self.path("s.1.away"), self.path("s.1"))
        os.remove(self.path("s.2"))
        self.assertEqual(self.run_tool("lzy-restore", "--quiet", "s.%r").returncode, 0)
        self.assertTrue(self.has("s.2"))

    def test_a_member_that_cannot_be_protected_stops_the_others_at_once(self):
        os.mkdir(self.path(".LZY.s.1"))
        done = self.members("set", timeout=PATIENCE // 2)
        self.assertLess(max(self.closes(done).values()), PATIENCE // 2)  # nobody waited for the time-out
        self.assertIn("close rank 1: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
