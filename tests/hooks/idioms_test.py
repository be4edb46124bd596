"""The ways in which programs open, cut, grow and rewrite a file (bench/idioms.c): nothing is read back, and the commit is
the same as if all had been."""

import os
import struct
import unittest

from layered import BUILD, LAYER, Layer

PROGRAM = f"{BUILD}/bench/bench_idioms"
NO_PAGES = f"{BUILD}/tests/libno_pages.so"
IDIOMS = ["plain", "cut-to-zero", "final-size", "grow", "shrink", "preallocate", "exclusive", "delete", "sync", "header-last",
          "header-in-place", "random", "random-large", "small", "backwards"]
OVER = ["plain", "cut-to-zero", "preallocate", "delete", "header-last"]
MIB = 1 << 20
# A file from 2 MiB on has the unit of large files: 4 * 8 devices * 64 KiB.
GEOMETRY = {"block_size": "4K", "stripe": "64K"}
EXTENT_COUNT, EXTENTS, EXTENT = 256, 264, struct.Struct("<HHIQQQQ")  # docs/format.md, section 4
PARITY = 5


@unittest.skipUnless(os.path.exists(PROGRAM), "the benchmarks are not built")
class Idioms(Layer):
    """Each idiom, with captures and without."""

    def parity(self, name):
        """The bytes of the parity region."""
        sidecar = self.content(f".LZY.{name}")
        [count] = struct.unpack_from("<I", sidecar, EXTENT_COUNT)
        extents = [EXTENT.unpack_from(sidecar, EXTENTS + i * EXTENT.size) for i in range(count)]
        [(offset, length)] = [(one[4], one[5]) for one in extents if one[0] == PARITY]
        return sidecar[offset:offset + length]

    def write(self, idiom, ranks, size, own=(), preload=LAYER, **options):
        """Runs the idiom, if it is in OVER over an older file with other contents; returns what its commits report."""
        self.clear()
        if own:
            options["set"] = "f.%r"
        if idiom in OVER:
            older = [PROGRAM, "backwards", "f", str(192 * 1024 * ranks), *own]
            done = self.run_program(["env", f"LD_PRELOAD={preload}", *older], ranks=ranks, layer=False, **GEOMETRY, **options)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.run_program(["env", f"LD_PRELOAD={preload}", PROGRAM, idiom, "f", str(size), *own], ranks=ranks, layer=False,
                                report="report", **GEOMETRY, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.verify("f.%r" if own else "f"), 0)
        return self.reports()

    def check(self, ranks, size, idioms=tuple(IDIOMS), most=0.01, **options):
        """At most the share `most` of the file is read back, and the sidecar is that of a commit that reads all."""
        root, parity = None, None
        for idiom in idioms:
            with self.subTest(idiom=idiom, ranks=ranks, size=size, **options):
                reports = self.write(idiom, ranks, size, **options)
                read, captured = (sum(one[key] for one in reports) for key in ("bytes_reread", "bytes_captured"))
                self.assertLessEqual(read, most * size)
                self.assertGreaterEqual(captured, (1 - most) * size)
                if root is None:
                    reread = self.write(idiom, ranks, size, capture="off", **options)
                    self.assertGreaterEqual(sum(one["bytes_reread"] for one in reread), size)
                    root, parity = self.info()["root"], self.parity("f")
                    self.write(idiom, ranks, size, **options)
                self.assertEqual(self.info()["root"], root)
                self.assertEqual(self.parity("f"), parity)

    def test_of_a_large_file_nothing_is_read_back(self):
        self.check(2, 8 * MIB)

    def test_of_a_large_file_with_two_parity_blocks_nothing_is_read_back(self):
        self.check(2, 8 * MIB, ["cut-to-zero", "sync", "random"], parity=2)

    def test_of_a_small_file_nothing_is_read_back(self):
        self.check(3, 3 * 192 * 1024, ["plain", "cut-to-zero", "grow", "shrink", "sync", "header-last", "backwards"])

    # The file is cut in the middle of a rank's part. What is cut off is in the sums of the rows there.
    def test_of_a_file_that_is_cut_only_the_rows_at_the_cut_are_read_back(self):
        self.check(1, 8 * MIB, ["shrink"], most=0.12)
        self.check(3, 12 * MIB, ["shrink"], most=0.08)

    def test_of_members_without_parity_nothing_is_read_back(self):
        """Not even if the program cuts its file: no rows are spoiled."""
        size, root = 8 * MIB, None
        for idiom in IDIOMS:
            with self.subTest(idiom=idiom):
                reports = self.write(idiom, 2, size, ["own"], parity=0, set_sync="on")
                read, captured = (sum(one[key] for one in reports) for key in ("bytes_reread", "bytes_captured"))
                self.assertLessEqual(read, 0.01 * size)
                self.assertGreaterEqual(captured, 0.99 * size)
                if root is None:
                    reread = self.write(idiom, 2, size, ["own"], parity=0, capture="off")
                    self.assertGreaterEqual(sum(one["bytes_reread"] for one in reread), size)
                    root = self.info("f.%r")["root"]
                    self.write(idiom, 2, size, ["own"], parity=0)
                self.assertEqual(self.info("f.%r")["root"], root)

    def test_members_with_parity_are_read(self):
        """Their bytes are needed, and hashed once."""
        [report] = self.write("plain", 2, 8 * MIB, ["own"])
        self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (8 * MIB, 0))

    def test_if_pages_do_not_stay_in_memory_parity_is_made_of_copies(self):
        for parity in (1, 2):
            self.write("plain", 3, 12 * MIB, ["own"], parity=parity)
            root, made = self.info("f.%r")["root"], [self.parity(f"f.{rank}") for rank in range(3)]
            for idiom in ["plain", "cut-to-zero", "shrink", "sync", "header-last", "random", "small"]:
                with self.subTest(idiom=idiom, parity=parity):
                    reports = self.write(idiom, 3, 12 * MIB, ["own"], preload=f"{LAYER}:{NO_PAGES}", parity=parity, set_sync="on")
                    read, captured = (sum(one[key] for one in reports) for key in ("bytes_reread", "bytes_captured"))
                    self.assertLessEqual(read, 0.01 * 12 * MIB if idiom != "sync" else 0.6 * 12 * MIB)
                    self.assertGreaterEqual(captured, 0.99 * 12 * MIB)
                    self.assertEqual(self.info("f.%r")["root"], root)
                    self.assertEqual([self.parity(f"f.{rank}") for rank in range(3)], made)

    def test_copies_keep_to_the_option_memory(self):
        """A third of it. What there is no room for is read. Block 0 is compared, too."""
        self.write("plain", 2, 32 * MIB, ["own"])
        root, made = self.info("f.%r")["root"], [self.parity(f"f.{rank}") for rank in range(2)]
        [report] = self.write("plain", 2, 32 * MIB, ["own"], preload=f"{LAYER}:{NO_PAGES}", memory="15M")
        self.assertEqual(report["bytes_reread"] + report["bytes_captured"], report["bytes"] + 2 * 4096)
        self.assertGreater(report["bytes_captured"], 2 * 4 * MIB)
        self.assertLessEqual(report["bytes_captured"], 2 * 5 * MIB)
        self.assertEqual((self.info("f.%r")["root"], [self.parity(f"f.{rank}") for rank in range(2)]), (root, made))

    def test_with_verify_writes_nothing_is_told_of_members_without_pages(self):
        self.write("header-last", 2, 8 * MIB, ["own"], preload=f"{LAYER}:{NO_PAGES}", verify_writes="on", memory="8M")


if __name__ == "__main__":
    unittest.main()
