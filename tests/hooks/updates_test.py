"""Programs that change files that were committed before."""

import os
import unittest

from layered import WRITE_CALLS, Layer


class Updates(Layer):
    """Files that were committed before."""

    def test_an_update_reads_less_than_the_file(self):
        self.run_program([WRITE_CALLS, "--call", "write_at_all", "f"], block_size="4K", stripe="4K", report="report")
        self.run_program([WRITE_CALLS, "--call", "update", "--existing", "f"], block_size="4K", stripe="4K", report="report")
        first, second = self.reports()
        self.assertEqual((first["generation"], second["generation"]), (1, 2))
        self.assertEqual(first["bytes"], second["bytes"])
        self.assertGreaterEqual(first["bytes_reread"] + first["bytes_captured"], first["bytes"])
        self.assertLess(second["bytes_reread"], second["bytes"] // 2)
        self.assertEqual(self.verify(), 0)

    def test_scattered_updates(self):
        self.client("plain", ranks=3)
        for _ in range(2):
            self.quiet(self.client("scattered_updates", ranks=3))
            self.assertEqual(self.verify(), 0)

    def test_writes_by_the_individual_pointer(self):
        bare = self.client("own_pointer", ranks=1, layer=False)
        content = self.content("f")
        os.remove(self.path("f"))
        done = self.client("own_pointer", ranks=1, block_size="4K", stripe="4K")
        self.assertEqual(sorted(done.stdout.split("\n")), sorted(bare.stdout.split("\n")))
        self.assertEqual(self.content("f"), content)
        self.assertEqual(self.verify(), 0)
        self.client("own_pointer", ranks=1)  # other places, since it is longer now
        self.assertEqual(self.verify(), 0)

    def test_commits_at_sync(self):
        self.client("rounds", ranks=3, report="report", block_size="4K", stripe="4K")
        self.assertEqual(self.verify(), 0)
        reports = self.reports()
        self.assertEqual([report["generation"] for report in reports], [1, 2, 3])
        # One rank's block of three was written in each of the later rounds, and that rank began the epoch.
        for report in reports[1:]:
            self.assertLess(report["bytes_reread"], report["bytes"])

    def test_rot_in_blocks_that_were_not_written_is_reported(self):
        small = {"block_size": "4K", "stripe": "4K"}
        self.run_program([WRITE_CALLS, "--call", "write_at_all", "f"], **small)
        # The update begins in block 320. Blocks 312 and 327 are in one row (docs/format.md: unit row 45), so the parity
        # of the former's row is made anew.
        self.damage("f", 312 * 4096 + 5)
        done = self.run_program([WRITE_CALLS, "--call", "update", "--existing", "f"], **small)
        self.assertEqual(done.returncode, 0)
        self.assertIn("4 KiB that this program did not write differ", done.stderr)
        self.assertIn("4 KiB of them cannot be repaired any more", done.stderr)
        # With parity 1 nothing could: its row has lost the rotten block and what was in place of the new one.
        self.assertEqual(self.verify(), 2)

    def test_rot_is_not_committed_when_the_file_is_truncated(self):
        small = {"block_size": "4K", "stripe": "4K"}
        self.client("slabs", ranks=2, **small)
        self.damage("f", 5 << 20)
        done = self.client("cut_and_write", ranks=2, report="report", **small)
        self.assertNotEqual(self.verify(), 0, done.stderr)
        [report] = self.reports()
        self.assertLess(report["bytes_reread"], report["bytes"] // 2)

    def test_truncated_behind_the_layer(self):
        self.client("plain", ranks=3)
        self.client("truncated_by_posix", ranks=3)
        self.assertEqual(self.verify(), 0)

    def test_truncated_amid_writes(self):
        self.client("plain", ranks=3, block_size="512", stripe="512")
        self.quiet(self.client("truncated_amid_writes", ranks=3))
        self.assertEqual(self.verify(), 0)

    def test_made_smaller_by_mpi(self):
        self.client("plain", ranks=3, block_size="512", stripe="512")
        self.damage("f", 50)
        self.client("smaller", ranks=3)  # nothing else is touched, so the old hash stands
        self.assertEqual(self.verify(), 1)

    def test_written_after_a_refused_view(self):
        self.client("plain", ranks=3, block_size="512", stripe="512")
        self.quiet(self.client("written_after_a_refused_view", ranks=2))
        self.assertEqual(self.verify(), 0)

    def test_changed_behind_the_layer_between_runs(self):
        self.client("plain", ranks=3)
        with open(self.path("f"), "r+b") as file:
            file.write(b"edited")
        self.client("scattered_updates", ranks=3)
        self.assertEqual(self.verify(), 0)

    def test_reading_through_a_writable_handle_changes_nothing(self):
        self.client("plain")
        before = self.content(".LZY.f")
        self.client("only_read", report="report")
        self.assertFalse(self.has("report"))
        self.assertEqual(len(self.content(".LZY.f")), len(before))
        self.assertEqual(self.verify(), 0)


if __name__ == "__main__":
    unittest.main()
