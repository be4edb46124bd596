"""The libraries by which programs write a file for each rank without MPI-IO (option posix), with and without the layer: same files; the set
is protected while nobody asks for it; a lost member comes back the same bit for bit; and all of that again when the files are
written anew.

  plain_clients_test.py [CLASS...]   Exits with 77 if all tests were skipped.
"""

import os
import sys
import unittest

from clients_test import built, python_with, with_libraries
from layered import BUILD, Layer

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 3


class PlainClient(Layer):
    """A program that writes c.0, c.1, c.2."""
    OPTIONS = {"set": "c.%r", "block_size": "4K"}

    def life(self, command, pattern="c.%r", ranks=RANKS, **options):
        options = {**self.OPTIONS, "set": pattern, **options}
        for seed in ("1", "2"):
            with self.subTest(command=command, seed=seed):
                runs = []
                for layer in (False, True):
                    done = self.run_program([*command, "c", seed], ranks=ranks, layer=layer, **options)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                    runs.append({name: self.content(name) for name in self.files() if not name.startswith(".LZY.")})
                self.assertEqual(runs[0], runs[1])
                for one in pattern.split(":"):
                    self.assertEqual(self.verify(one), 0, one)
                    lost = one.replace("%r", "1")
                    os.remove(self.path(lost))
                    self.damage(one.replace("%r", "2"), 10)
                    self.run_tool("lzy-verify", "--quiet", "--repair", one)
                    self.run_tool("lzy-restore", "--quiet", one)
                    self.assertEqual(self.content(lost), runs[1][lost])
                    self.assertEqual(self.verify(one), 0, one)


class PlainCxx(PlainClient):
    def test_streams(self):
        self.life([f"{BUILD}/clients/plain_cxx_client"], parity=2)


class PlainFortran(PlainClient):
    def test_forms(self):
        client = built()["clients"]["plain_fortran"]
        if client["missing"]:
            self.skipTest(client["missing"])
        for form in ("formatted", "unformatted", "stream", "direct"):
            self.life([client["program"], form], parity=2)


class PlainHdf5(PlainClient):
    def command(self, driver):
        client = built()["clients"]["plain_hdf5_client"]
        if client["missing"]:
            self.skipTest(client["missing"])
        return with_libraries([client["program"], driver])

    def test_one_file_for_each_rank(self):
        for driver in ("sec2", "stdio", "core"):
            self.life(self.command(driver), parity=2)

    def test_two_files_for_each_rank(self):
        self.life(self.command("split"), pattern="c.%r-meta:c.%r-raw", parity=2)


class PlainPython(PlainClient):
    def test_ways(self):
        where = python_with("mpi4py", "packaged")[0] or python_with("mpi4py", "published")[0]
        if where is None:
            self.skipTest("no mpi4py for this MPI")
        for way in ("open", "os", "replace", "shutil", "mmap", "pickle"):
            self.life(where.command(f"{HERE}/plain_python_client.py", way), parity=2)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    skipped = len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped else not program.result.wasSuccessful())
