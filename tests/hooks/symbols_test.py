"""The functions that the preloaded library exports and calls, against the MPI library's own."""

import glob
import os
import re
import subprocess
import unittest

from layered import BUILD, LAYER


class Symbols(unittest.TestCase):
    """The table of calls against the MPI library's own."""
    TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../romio_hooks/contract/wrapped_calls.def")

    def exported(self, library):
        out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
        return {line.split()[-1].split("@")[0] for line in out.stdout.splitlines()}

    def setUp(self):
        # liblzy.so finds one function of the layer by its name; others are POSIX's and C's (option posix); the rest is MPI's.
        everything = self.exported(LAYER)
        self.assertIn("lzy_mpiio_await_commits", everything)
        self.plain = {name for name in everything if not re.match(r"P?MPI_", name)} - {"lzy_mpiio_await_commits"}
        self.layer = everything - self.plain - {"lzy_mpiio_await_commits"}
        self.mpi = self.exported(os.environ["HOOKS_TEST_MPI"])
        with open(self.TABLE, encoding="utf-8") as table:
            entries = re.findall(r"^LZY_(\w+)\((\w+)", table.read(), re.MULTILINE)
        self.wrapped = {f"MPI_{name}" for kind, name in entries if kind not in ("UNWRAPPED", "CHANGES_NOTHING")}
        self.wrapped |= {f"MPI_{name}_c" for kind, name in entries if kind.endswith("_TWINS")}
        self.unwrapped = {f"MPI_{name}" for kind, name in entries if kind in ("UNWRAPPED", "CHANGES_NOTHING")}
        self.assertEqual(len(entries), len(self.wrapped) + len(self.unwrapped) - len(
            [1 for kind, _ in entries if kind.endswith("_TWINS")]), "a call stands in the table twice")

    def test_every_call_of_mpi_io_is_in_the_table(self):
        """A function that a new MPI brings fails this until somebody has thought about it."""
        calls = {name for name in self.mpi if re.match(r"MPI_File_[a-z]", name)}
        self.assertGreater(len(calls), 50)
        unlisted = {name for name in calls - self.wrapped if name.removesuffix("_c") not in self.unwrapped}
        self.assertEqual(unlisted, set())

    def test_the_calls_that_begin_and_end_files_are_wrapped(self):
        """And no other function of the C library, which every program would call through the layer."""
        opens = {"open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2", "creat", "creat64",
                 "fopen", "fopen64", "freopen", "freopen64"}
        closes = {"close", "fclose", "close_range", "closefrom"}
        copies = {"dup", "dup2", "dup3", "fcntl", "fcntl64"}
        names = {"rename", "renameat", "renameat2", "unlink", "unlinkat", "remove", "truncate", "truncate64", "link", "linkat"}
        self.assertEqual(self.plain, opens | closes | copies | names)

    def test_everything_that_writes_is_wrapped(self):
        writes = {name for name in self.mpi if re.match(r"MPI_File_i?write", name) and not name.endswith("_end")}
        self.assertGreaterEqual(len(writes), 14)
        self.assertEqual(writes - self.layer, set())

    def test_nothing_is_wrapped_that_mpi_does_not_have(self):
        """Programs look which calls there are, and would take it for one."""
        self.assertEqual(self.layer - self.mpi, set())

    def test_every_listed_call_is_in_mpi(self):
        """But for large counts and sessions, which not every MPI has yet."""
        new = {name for name in self.wrapped if name.endswith("_c")} | {"MPI_Session_finalize"}
        self.assertEqual(self.wrapped - self.mpi - new, set())

    def test_both_names_are_exported_and_nothing_else(self):
        short = {name for name in self.layer if name.startswith("MPI_")}
        self.assertEqual(self.layer, short | {"P" + name for name in short})
        self.assertEqual(short - self.wrapped, set())

    def test_the_layer_calls_mpi_by_pmpi_names(self):
        """So that tools which count what a program does do not count it, nor are called from within its calls."""
        [half] = glob.glob(f"{BUILD}/lib/liblzy_mpiio-*.so")
        out = subprocess.run(["nm", "-D", "--undefined-only", half], check=True, capture_output=True, text=True).stdout
        called = {line.split()[-1].split("@")[0] for line in out.splitlines()}
        self.assertIn("PMPI_File_get_position", called)
        self.assertEqual({name for name in called if name.startswith("MPI_")}, set())

    def test_the_preloaded_half_needs_no_mpi(self):
        out = subprocess.run(["readelf", "-d", LAYER], check=True, capture_output=True, text=True).stdout
        needed = re.findall(r"NEEDED.*\[(.*)\]", out)
        self.assertEqual([name for name in needed if not re.match(r"libc\.|libdl\.|ld-linux", name)], [])


if __name__ == "__main__":
    unittest.main()
