"""What is taken out of write buffers, so that a commit need not read it back."""

import unittest

import mpi_known
from layered import CLIENT, Layer


class Capture(Layer):
    """What is taken out of write buffers need not be read back."""

    GEOMETRY = {"block_size": "4K", "stripe": "64K"}

    def test_a_checkpoint_is_not_read_back(self):
        for ranks, threads in [(1, 1), (1, 2), (2, 1), (3, 2)]:  # with two, captured while it is written
            for parity in [0, 1, 2]:
                with self.subTest(ranks=ranks, threads=threads, parity=parity):
                    self.clear()
                    self.quiet(self.client("slabs", ranks=ranks, report="report", parity=parity, threads=threads, **self.GEOMETRY))
                    [report] = self.reports()
                    self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))
                    self.assertEqual(self.verify(), 0)
                    # The same as without.
                    captured = self.info()["root"]
                    self.client("slabs", ranks=ranks, report="report", parity=parity, capture="off", **self.GEOMETRY)
                    report = self.reports()[1]
                    self.assertGreaterEqual(report["bytes_reread"], report["bytes"])
                    self.assertEqual((report["bytes_captured"], self.info()["root"]), (0, captured))
                    self.assertEqual(self.verify(), 0)

    def test_nonblocking_writes_are_not_read_back(self):
        for how in ["wait", "test", "waitall", "testall", "waitany", "testany", "waitsome", "testsome", "split"]:
            with self.subTest(how):
                self.clear()
                action = "slabs_split" if how == "split" else "slabs_nonblocking"
                self.quiet(self.client(action, argument=how, report="report", **self.GEOMETRY))
                [report] = self.reports()
                self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))
                self.assertEqual(self.verify(), 0)

    def test_a_write_that_fails_or_falls_short_is_read_back(self):
        for call, threads in [("write_at", 1), ("write_at", 2), ("iwrite_at", 2), ("iwrite_at_all", 2), ("write_at_all_begin", 2)]:
            with self.subTest(call, threads=threads):
                self.clear()
                bare = self.run_program([CLIENT, "too_large", "bare", call], ranks=1, layer=False)
                mpi_known.leave_out_if_known(self, f"MPI_File_{call} that fails", bare)
                self.client("too_large", argument=call, ranks=1, report="report", threads=threads, **self.GEOMETRY)
                before, after = self.reports()
                self.assertEqual((before["bytes_captured"], after["bytes_captured"]), (before["bytes"], 0))
                self.assertEqual(self.verify(), 0)
                self.assertEqual(self.content("f")[-1:], b"n")  # in the first half some MPIs write nothing, either

    def test_the_individual_pointer_is_where_mpi_sets_it(self):
        bare = self.run_program([CLIENT, "pointer_set_back", "bare"], layer=False)
        mpi_known.leave_out_if_known(self, "MPI_File_iwrite_at_all", bare)
        self.client("pointer_set_back", block_size="4K", stripe="4K")
        self.assertEqual(self.content("f"), self.content("bare"))
        self.assertEqual(self.verify(), 0)

    def test_a_header_written_by_posix_calls_is_committed(self):
        """Behind MPI's back, before the close: a small file is compared with what was captured."""
        for options in [{}, self.GEOMETRY]:
            with self.subTest(**options):
                self.clear()
                self.quiet(self.client("patched", **options))
                self.assertEqual(self.content("f")[:6], b"HEADER")
                self.assertEqual(self.verify(), 0)

    def test_a_header_of_a_member_written_by_posix_calls_is_committed(self):
        for options in [{}, self.GEOMETRY]:
            with self.subTest(**options):
                self.clear()
                self.quiet(self.client("set_patched", name="s", set="s.%r", parity=0, **options))
                self.assertEqual(self.content("s.1")[:6], b"HEADER")
                self.assertEqual(self.verify("s.%r"), 0)

    def test_what_two_handles_of_a_member_write_is_read_back(self):
        """The first close does not commit, because a member has another name then."""
        for parity in (0, 1):
            with self.subTest(parity=parity):
                self.clear()
                self.client("set_two_handles", name="s", set="s.%r", parity=parity)
                self.client("set_two_handles", name="bare", layer=False)
                self.assertEqual([self.content(f"s.{rank}") for rank in range(2)], [self.content(f"bare.{rank}") for rank in range(2)])
                self.assertEqual(self.verify("s.%r"), 0)

    def test_a_handle_that_wrote_nothing_is_closed_while_another_one_writes(self):
        """The commit of the first close covers what the other handle has written."""
        for capture in ("on", "off"):
            with self.subTest(capture=capture):
                self.clear()
                options = {"capture": capture, "set": "s.%r", "block_size": "4K"}
                self.quiet(self.client("set", name="s", **options))
                self.quiet(self.client("set_written_by_another_handle", name="s", verify_reads="on", **options))
                self.assertEqual(self.verify("s.%r"), 0)

    def test_data_written_twice_in_one_epoch_are_read_back(self):
        self.client("slabs", ranks=2, report="report", **self.GEOMETRY)
        self.client("slabs_twice", ranks=2, report="report", **self.GEOMETRY)
        self.assertLess(self.reports()[1]["bytes_captured"], self.reports()[1]["bytes"] // 100)  # block 0, which stays open
        self.assertEqual(self.verify(), 0)


if __name__ == "__main__":
    unittest.main()
