"""MPI_Finalize of programs under the layer, and of tools, when one rank comes late: MPICH before 4.2 over UCX does not answer
such a rank by itself."""

import functools
import os
import re
import shutil
import subprocess
import unittest

import mpi_known
from layered import BUILD, CLIENT, LAYER, MPIEXEC, Layer

LATE_RANK = f"{BUILD}/tests/liblate_rank.so"
LINKED = f"{BUILD}/clients/hooks_linked_client"
RANKS = 4
# Bounds what a rank can hang for.
PATIENCE = 60


@functools.cache
def why_not():
    """Empty if the MPI has the fault: of others, nobody knows when a rank waits for the late one."""
    if not re.search(r"MPICH Version: (3|4\.[01])\b", mpi_known.mpi()):
        return f"{mpi_known.mpi()} does not wait so"
    linked = subprocess.run(["ldd", os.environ["HOOKS_TEST_MPI"]], check=True, capture_output=True, text=True).stdout
    return "" if "libucp" in linked else "this MPICH does not use UCX"


class Finalize(Layer):
    """Each program hangs in nearly every run without what lzy does about it."""
    ROUNDS = int(os.environ.pop("LZY_TEST_ROUNDS", "1"))  # lzy would ask what this is

    def setUp(self):
        super().setUp()
        if why_not():
            self.skipTest(why_not())

    def come_late(self, *command, layer=True):
        for number in range(self.ROUNDS):
            notes = self.path("notes")
            os.mkdir(notes)
            preload = ":".join([*LAYER.split(":")[:-1], LATE_RANK, *([LAYER] if layer else [])])
            # Without tests/support/sleeping_ranks.c: MPI waits as it does for users.
            settings = ["-u", "LD_LIBRARY_PATH", "UCX_TLS=tcp,self", f"LATE_RANK={notes}", f"LD_PRELOAD={preload}"]
            try:
                done = subprocess.run([MPIEXEC, "-n", str(RANKS), "env", *settings, *command], cwd=self.dir, capture_output=True,
                                      text=True, check=False, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.fail(f"hung in run {number}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"run {number}")
            self.assertEqual(sorted(os.listdir(notes)), [f"WAITS.{rank}" for rank in range(RANKS)])
            shutil.rmtree(notes)

    def test_of_a_program_that_sends_nothing(self):
        self.come_late(CLIENT, "silent", "f")

    def test_of_a_program_that_writes(self):
        self.come_late(CLIENT, "plain", "f")
        self.assertEqual(self.verify(), 0)

    def test_of_a_program_that_is_linked_with_the_layer(self):
        self.come_late(LINKED, "silent", "f", layer=False)

    def test_of_a_tool(self):
        with open(self.path("f"), "wb") as file:
            file.write(bytes(1 << 20))
        self.assertEqual(self.run_tool("lzy-protect", "f").returncode, 0)
        self.come_late(f"{BUILD}/bin/lzy-verify", "--quiet", "f", layer=False)


if __name__ == "__main__":
    unittest.main()
