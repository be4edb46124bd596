"""Programs without MPI, or with another MPI, under the layer."""

import glob
import os
import shutil
import subprocess
import sys
import unittest

from layered import BUILD, LAYER, PATIENCE, Layer


class Foreign(Layer):
    """Processes that the layer has nothing to do with."""
    FOREIGN = f"{BUILD}/tests/foreign"

    def preloaded(self, command, **more):
        return subprocess.run(command, env={**os.environ, "LD_PRELOAD": LAYER, **more}, capture_output=True, text=True,
                              timeout=PATIENCE)

    def test_programs_without_mpi(self):
        for bind in [{}, {"LD_BIND_NOW": "1"}]:
            for command in [["true"], ["sh", "-c", "echo hello"], [sys.executable, "-c", "print('hello')"]]:
                with self.subTest(command=command, bind=bind):
                    done = self.preloaded(command, **bind)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_layer_loads_no_mpi_into_programs_without_it(self):
        done = self.preloaded(["cat", "/proc/self/maps"])
        self.assertIn("liblzy_mpiio.so", done.stdout)
        self.assertNotRegex(done.stdout, r"/libmpi|liblzy_mpiio-")

    def test_another_mpi_is_left_alone_and_reported_once(self):
        done = self.preloaded([f"{self.FOREIGN}/hooks_foreign_client"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("Other MPI 1.0", done.stderr)

    def test_another_mpi_loaded_by_dlopen(self):
        program = "import ctypes, os, sys; sys.exit(ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL).foreign_main())"
        [library] = glob.glob(f"{self.FOREIGN}/libmpi.so.[0-9]*")
        odd = self.path("libvendor_gnu_91.so.12")
        shutil.copy(library, odd)
        for name in [library, odd]:  # an MPI may be called anything
            done = self.preloaded([sys.executable, "-c", program, name])
            self.assertEqual(done.returncode, 0)
            self.assertIn("Other MPI 1.0", done.stderr)

    def test_another_mpi_with_the_layer_switched_off(self):
        done = self.preloaded([f"{self.FOREIGN}/hooks_foreign_client"], LZY_DISABLE="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
