"""Buffers that the processor cannot access, as memory of a device: the layer leaves them to MPI. Here pages without access stand
for them (hooks_client_memory.c), and a preloaded library for an MPI library that can use them (staging.c)."""

import subprocess
import unittest

from layered import BUILD, CLIENT, LAYER, Layer

STAGING = f"{BUILD}/tests/libstaging.so"
HALF, HOLE = 4 << 20, 64 << 10
IN_THE_HOLE = HALF + HALF // 2 + (256 << 10) + 5000
GEOMETRY = {"block_size": "4K", "stripe": "64K"}
CASES = [(4096, "whole"), (4096, "hole"), (1 << 20, "whole"), (1 << 20, "hole")]


class Memory(Layer):
    """A program that maps such memory where its buffer was."""

    def act(self, action, name, argument, layer=True, sandbox=False, **options):
        preload = [f"LD_PRELOAD={LAYER}:{STAGING}" if layer else f"LD_PRELOAD={STAGING}", *(["SANDBOX=1"] if sandbox else [])]
        return self.run_program(["env", *preload, CLIENT, action, name, argument], ranks=1, layer=layer, **options)

    def bare(self, action, name, argument):
        done = self.act(action, name, argument, layer=False)
        if done.returncode != 0:
            self.skipTest(f"/proc/self/mem does not get at pages without access here: {done.stderr}")

    def test_is_written(self):
        for size, what in CASES:
            with self.subTest(size=size, what=what):
                self.clear()
                self.bare("write_replaced", "bare", f"{size},{what}")
                done = self.act("write_replaced", "f", f"{size},{what}", report="report", threads=2, verify_writes="on", **GEOMETRY)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, r"\Alzy: .*: verify-writes: .* could not be compared .* memory of a device\n\Z")
                self.assertEqual(self.content("f"), self.content("bare"))
                [report] = self.reports()
                unseen = HALF if what == "whole" else HOLE
                self.assertEqual(report["bytes_not_compared"], unseen)
                self.assertEqual((report["bytes_captured"], report["bytes_reread"]), (2 * HALF - unseen, unseen))
                self.assertEqual(self.verify(), 0)

    def test_is_not_captured_where_a_sandbox_forbids_to_copy(self):
        done = self.act("write_replaced", "f", "1048576,hole", report="report", **GEOMETRY, sandbox=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.quiet(done)
        [report] = self.reports()
        self.assertEqual((report["bytes_captured"], report["bytes_reread"]), (0, 2 * HALF))
        self.assertEqual(self.verify(), 0)
        self.damage("f", IN_THE_HOLE)
        done = self.act("read_replaced", "f", "1048576,hole", verify_reads="on", sandbox=True)
        self.assertEqual((done.returncode, done.stdout), (0, "read_at 0 ok\nread_at 0 MPI_ERR_IO\n"), done.stderr)
        self.assertEqual(self.verify(), 0)

    def protect(self):
        self.bare("write_replaced", "f", "1048576,hole")
        subprocess.run([f"{BUILD}/bin/lzy-protect", "--block-size", "4K", "f"], cwd=self.dir, check=True, capture_output=True)

    def test_is_read(self):
        self.protect()
        for size, what in CASES:
            with self.subTest(size=size, what=what):
                self.bare("read_replaced", "f", f"{size},{what}")
                done = self.act("read_replaced", "f", f"{size},{what}", verify_reads="on")
                self.assertEqual((done.returncode, done.stdout), (0, "read_at 0 ok\nread_at 0 ok\n"), done.stderr)
                self.quiet(done)

    def test_is_not_repaired_but_the_disk_is(self):
        for size, what in CASES[1:3]:
            with self.subTest(size=size, what=what):
                self.clear()
                self.protect()
                good = self.content("f")
                self.damage("f", IN_THE_HOLE)
                done = self.act("read_replaced", "f", f"{size},{what}", verify_reads="on")
                self.assertEqual((done.returncode, done.stdout), (0, "read_at 0 ok\nread_at 0 MPI_ERR_IO\n"), done.stderr)
                self.assertIn("read it again", done.stderr)
                self.assertEqual(self.content("f"), good)


class Gpu(Layer):
    """The memory of a real GPU, where a machine has one (hooks_client_gpu.c)."""
    KINDS = {"host": 2 * HALF, "pinned": 2 * HALF, "managed": 2 * HALF, "device": 0, "reused": HALF}  # bytes that lzy can read, at most

    def act(self, action, name, kind, layer=True, **options):
        preload = f"LD_PRELOAD={LAYER}:{STAGING}" if layer else f"LD_PRELOAD={STAGING}"
        return self.run_program(["env", preload, CLIENT, action, name, kind], ranks=1, layer=layer, **options)

    def bare(self, action, name, kind):
        done = self.act(action, name, kind, layer=False)
        if done.returncode == 77:
            self.skipTest(f"{kind}: {done.stdout.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_is_written_and_read(self):
        for kind, readable in self.KINDS.items():
            with self.subTest(kind=kind):
                self.clear()
                self.bare("write_gpu", "bare", kind)
                done = self.act("write_gpu", "f", kind, report="report")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                self.assertEqual(self.content("f"), self.content("bare"))
                [report] = self.reports()
                self.assertLessEqual(report["bytes_captured"], readable)
                self.assertGreaterEqual(report["bytes_captured"] + report["bytes_reread"], 2 * HALF)
                self.assertEqual(self.verify(), 0)
                self.bare("read_gpu", "f", kind)
                done = self.act("read_gpu", "f", kind, verify_reads="on")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
