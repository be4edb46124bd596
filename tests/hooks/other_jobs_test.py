"""Two jobs that work on one file at the same time."""

import contextlib
import fcntl
import re
import unittest

from layered import Held


class OtherJobs(Held):
    """Other processes that work on the same file meanwhile."""
    TIMEOUT = 3

    def state(self):
        return self.info(code=None)["state"]

    @contextlib.contextmanager
    def locked(self):
        with open(self.path(".LZY.f"), "r+b") as sidecar:
            fcntl.lockf(sidecar, fcntl.LOCK_EX)
            yield

    def seconds(self, done):
        return max(float(text) for text in re.findall(r"took ([0-9.]+)", done.stdout))

    def test_uncommitted_writes_of_another_job_stay_at_risk(self):
        self.client("plain", ranks=3, **self.SMALL)
        self.start("held_up", ranks=1)
        with self.between(1):
            self.crash("write_and_crash", ranks=1, **self.SMALL)
        done = self.finish()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.quiet(done)
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.state(), "at-risk")  # he may write yet
        self.client("scattered_updates", ranks=3)
        self.assertEqual(self.state(), "intact")
        self.assertEqual(self.verify(), 0)

    def test_opening_without_writing_leaves_no_intent(self):
        for _ in range(2):
            self.quiet(self.client("one_of_several_writes", ranks=3))
            self.assertEqual((self.verify(), self.state()), (0, "intact"))

    def test_an_open_waits_for_a_lock_no_longer_than_the_timeout(self):
        self.client("plain")
        with self.locked():
            done = self.client("timed_open", timeout=self.TIMEOUT)
        self.assertIn("another process is committing", done.stderr)
        self.assertGreater(self.seconds(done), self.TIMEOUT - 1)
        self.assertLess(self.seconds(done), 4 * self.TIMEOUT)  # some of it for a busy machine

    def test_a_close_waits_for_a_lock_no_longer_than_the_timeout(self):
        self.client("plain")
        self.start("held_up", timeout=self.TIMEOUT)
        with contextlib.ExitStack() as lock:
            with self.between(1):
                lock.enter_context(self.locked())
            done = self.finish()
        self.assertIn("no redundancy was made", done.stderr)
        self.assertEqual(len(re.findall(r"close \d ok", done.stdout)), 2)
        self.assertGreater(self.seconds(done), self.TIMEOUT - 1)
        self.assertLess(self.seconds(done), 4 * self.TIMEOUT)
        self.assertEqual(self.state(), "at-risk")

    def test_a_failed_commit_leaves_an_intent(self):
        self.client("plain")
        self.start("held_up_at_sync", timeout=1)
        with contextlib.ExitStack() as lock:
            with self.between(1):
                lock.enter_context(self.locked())
            with self.between(2):
                lock.close()
                # The failed commit's intent goes, as it does when a commit fails after it has counted.
                self.assertEqual(self.run_tool("lzy-protect", "--quiet", "f").returncode, 0)
                self.assertEqual(self.state(), "intact")
        done = self.finish()
        self.assertIn("no redundancy was made", done.stderr)
        self.assertEqual(self.state(), "at-risk")


if __name__ == "__main__":
    unittest.main()
