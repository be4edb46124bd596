"""Faults of MPI libraries that options verify-writes and verify-reads find: programs with such calls, bare and under lzy.

A test first runs the program bare. If the library gets it right, the test is skipped, since there is nothing to find.
docs/mpi-families.md says which libraries have which fault. Environment: as for layered.py.
"""

import array

from layered import BUILD, LAYER, Layer

PROGRAM = f"{BUILD}/clients/library_faults"
SLOW = f"{BUILD}/tests/libslow_reads.so"
# The faults of writes are races that the programs nearly always lose. Runs in which they win them prove nothing.
BARE_RUNS = 2
RUNS = 5


class LibraryFaults(Layer):
    def write(self, kind, ranks, words, layer, **options):
        """Writes "f", of so many words, on slow storage; whether it is right then."""
        self.clear()
        preload = ":".join(([LAYER] if layer else []) + [SLOW])
        self.done = self.run_program(["env", f"LD_PRELOAD={preload}", PROGRAM, kind, "f"], ranks=ranks, layer=False, **options)
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        return self.content("f") == array.array("I", range(1, words + 1)).tobytes()

    def written(self, *what):
        if all(self.write(*what, layer=False) for _ in range(BARE_RUNS)):
            self.skipTest("this MPI library does not have the fault")
        for _ in range(RUNS):
            right = self.write(*what, layer=True, verify_writes="on", report="report")
            self.assertTrue(right, self.done.stderr)
            self.assertEqual(self.reports()[0]["bytes_not_compared"], 0)
            self.assertEqual(self.verify(), 0)
            if "blocks on the device were not what was written; they were written again" in self.done.stderr:
                return
            self.quiet(self.done)
        self.fail(f"in none of {RUNS} runs under lzy did the library write wrongly, or lzy did not say so")

    def test_columns_through_a_cartesian_communicator(self):
        self.written("columns", 3, 512 + 4 * 300)

    def test_pieces_between_those_of_another_rank(self):
        self.written("between", 2, 12 * 1024 * 32)

    def read(self, **options):
        done = self.run_program([PROGRAM, "together", "f"], ranks=3, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_reads_of_which_one_contains_the_others(self):
        self.assertEqual(self.run_program([PROGRAM, "make", "f"], ranks=1, layer=False).returncode, 0)
        if self.read(layer=False).stdout == "0 wrong\n":
            self.skipTest("this MPI library does not have the fault")
        self.assertEqual(self.run_tool("lzy-protect", "f").returncode, 0)
        done = self.read(verify_reads="on")
        self.assertEqual(done.stdout, "0 wrong\n", done.stderr)
        self.assertIn("read wrongly, but correctly when they were read again", done.stderr)
        self.assertEqual(self.verify(), 0)
