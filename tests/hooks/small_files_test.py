"""Small files, whose sidecars have the compact form."""

import os
import struct

from layered import Layer

PAGE = 4096
PARITY_SIZE_AT, GENERATION_AT = 168, 56  # docs/format.md §4


class SmallFiles(Layer):
    """What their sidecars take on disk (docs/reference/limits.md)."""

    def allocated(self, name=".LZY.f"):
        return os.stat(self.path(name)).st_blocks * 512

    def test_one_page_beyond_the_parity(self):
        for size in (1, 5, 4096, 10 << 10, 64 << 10):
            for block in (4 << 10, 64 << 10):
                with self.subTest(size=size, block=block):
                    self.clear()
                    for generation in (2, 4):
                        self.quiet(self.client("small", argument=str(size), block_size=block))
                        self.assertEqual(self.content("f")[:1], b"x")
                        parity, = struct.unpack_from("<Q", self.content(".LZY.f"), PARITY_SIZE_AT)
                        self.assertLessEqual(self.allocated(), max(2 * PAGE, -(-parity // PAGE) * PAGE + PAGE))
                        if size <= PAGE:
                            self.assertLessEqual(self.allocated(), 8 << 10)
                        if size <= 10 << 10 or block == 4 << 10:
                            self.assertLessEqual(self.allocated(), 16 << 10)
                        self.assertEqual(struct.unpack_from("<Q", self.content(".LZY.f"), GENERATION_AT)[0], generation)
                        self.assertEqual(self.verify(), 0)

    def test_a_crash_leaves_it_at_risk(self):
        self.client("small", argument="4096", ranks=1)
        self.crash("write_and_crash", ranks=1)
        self.assertEqual(self.verify(), 9)
        self.assertEqual(self.run_tool("lzy-protect", "--quiet", "f").returncode, 0)
        self.assertEqual(self.verify(), 0)
