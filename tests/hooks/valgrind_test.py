"""One run of each tool, alone and by two ranks, and of programs under the layer, in valgrind: no access to what is not there or was
never set, and nothing lost for good. Not among the usual tests (ctest -C Slow -L slow): processes are 30 times slower.

Environment: as for layered.py.
"""

import os
import random
import shutil
import subprocess
import unittest

from layered import BUILD, CLIENT, PATIENCE, Layer

# No suppressions. What MPI libraries themselves leave behind is not looked for where they are loaded.
MEMCHECK = ["valgrind", "-q", "--error-exitcode=99"]
LEAKS = ["--leak-check=full", "--errors-for-leak-kinds=definite"]


@unittest.skipUnless(shutil.which("valgrind"), "no valgrind")
class Valgrind(Layer):
    def setUp(self):
        super().setUp()
        bytes_of = random.Random(3).randbytes
        for name, size in [("f", 1_000_000)] + [(f"s.{rank}", 300_000 + 5000 * rank) for rank in range(4)]:
            with open(self.path(name), "wb") as file:
                file.write(bytes_of(size))

    def check(self, code, *command, ranks=1, layer=False, **options):
        if ranks == 1:  # without MPI
            done = subprocess.run([*MEMCHECK, *LEAKS, *command], cwd=self.dir, capture_output=True, text=True, check=False,
                                  timeout=PATIENCE)
        else:
            done = self.run_program([*MEMCHECK, *command], ranks=ranks, layer=layer, **options)
        found = [line for line in done.stderr.splitlines() if line.startswith("==") and "SHM_HUGETLB" not in line]
        self.assertEqual(found, [], " ".join(command))
        self.assertEqual(done.returncode, code, done.stderr)

    def tool(self, code, name, *words, **options):
        self.check(code, f"{BUILD}/bin/{name}", *words, **options)

    def test_tools(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.tool(0, "lzy-protect", "--force", "--block-size", "4K", "--parity", "2", "f", "s.%r", ranks=ranks)
                self.damage("f", 5000)
                self.damage("s.0", 100)
                self.tool(1, "lzy-verify", "f", "s.%r", ranks=ranks)
                self.tool(0, "lzy-verify", "--repair", "--json", "f", ranks=ranks)
                for name in ("s.1", ".LZY.s.2"):
                    os.remove(self.path(name))
                self.tool(0, "lzy-restore", "s.%r", ranks=ranks)
                self.tool(0, "lzy-verify", "--from-disk", "f", "s.%r", ranks=ranks)
                self.tool(0, "lzy-info", "--map", "f", "s.%r", ranks=ranks)
        self.tool(0, "lzy-info", "--tuning")
        self.tool(0, "lzy-run", "--parity", "2", "--", "true")

    def test_programs(self):
        for action in ("plain", "scattered_updates"):
            self.check(0, CLIENT, action, "g", "", ranks=2, layer=True)
        self.check(0, CLIENT, "plain", "h", "", ranks=2, layer=True, verify_writes="on")
        self.check(0, CLIENT, "set", "m", "", ranks=2, layer=True, set="m.%r")
        self.check(0, f"{BUILD}/clients/reads_client", "make", "r", "400000")
        self.tool(0, "lzy-protect", "--block-size", "4K", "r")
        for call in ("read_at_all", "iread_at", "read_ordered"):
            self.damage("r", 5000)
            self.check(0, f"{BUILD}/clients/reads_client", call, "strided", "r", ranks=2, layer=True, verify_reads="on")
            self.assertEqual(self.verify("r"), 0)
