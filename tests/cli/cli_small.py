"""What sidecars of small files take on disk."""

import os

from harness import CliTest, pattern_bytes

PAGE = 4096
SIZES = (0, 1, 5, 4095, 4096, 4097, 10 << 10, 64 << 10)


def pages(size):
    return -(-size // PAGE) * PAGE


class SmallFiles(CliTest):
    def allocated(self, name):
        return os.stat(self.path(name)).st_blocks * 512

    def test_one_page_beyond_the_parity(self):
        """Whose size, of a file of one block, is that of the file."""
        for size in SIZES:
            with self.subTest(size=size):
                self.write("f", pattern_bytes(size))
                self.check(0, "lzy-protect", "f")
                self.check(0, "lzy-protect", "--block-size", "64K", "f")
                self.assertLessEqual(self.allocated(".LZY.f"), max(2 * PAGE, pages(size) + PAGE))
                self.check(0, "lzy-verify", "f")

    def test_small_blocks_make_the_parity_small(self):
        for size in SIZES:
            with self.subTest(size=size):
                self.write("f", pattern_bytes(size))
                self.check(0, "lzy-protect", "f")
                self.assertLessEqual(self.allocated(".LZY.f"), (8 if size <= PAGE else 16) << 10)
                self.check(0, "lzy-verify", "f")

    def block_size(self):
        return self.report(0, "lzy-info", "f")["datasets"][0]["block_size"]

    def test_the_block_size_follows_the_size_of_the_file(self):
        for size, block in ((0, 4096), (65536, 4096), (65537, 65536), (70000, 65536), (65536, 4096)):
            with self.subTest(size=size):
                self.write("f", pattern_bytes(size))
                self.check(0, "lzy-protect", "f")
                self.assertEqual(self.block_size(), block)
                self.check(0, "lzy-verify", "f")

    def test_a_block_size_that_was_chosen_stays(self):
        self.write("f", pattern_bytes(20000))
        for words, block in (((), 4096), (("--block-size", "8K"), 8192), ((), 8192), (("--block-size", "auto"), 4096)):
            with self.subTest(words=words, block=block):
                self.check(0, "lzy-protect", *words, "f")
                self.assertEqual(self.block_size(), block)
        self.check(0, "lzy-protect", "--block-size", "4K", "f")
        self.write("f", pattern_bytes(70000))
        self.check(0, "lzy-protect", "f")
        self.assertEqual(self.block_size(), 4096)
        self.check(0, "lzy-verify", "f")

    def test_members_of_sets(self):
        for rank in range(8):
            self.write(f"s.{rank}", pattern_bytes(3000, seed=rank))
        self.check(0, "lzy-protect", "s.%r")
        for rank in range(8):
            self.assertLessEqual(self.allocated(f".LZY.s.{rank}"), 8 << 10)
        os.remove(self.path("s.3"))
        os.remove(self.path(".LZY.s.3"))
        self.check(0, "lzy-restore", "s.%r")
        self.assertEqual(self.read("s.3"), pattern_bytes(3000, seed=3))
        self.assertLessEqual(self.allocated(".LZY.s.3"), 8 << 10)

    def test_a_repair_leaves_it_as_small(self):
        content = pattern_bytes(4096)
        self.write("f", content)
        self.age("f")
        self.check(0, "lzy-protect", "f")
        before = self.read(".LZY.f")
        for name, offset in (("f", 100), (".LZY.f", 10), (".LZY.f", 3000), (".LZY.f", 6144 + 100)):
            with self.subTest(name=name, offset=offset):
                self.flip(name, offset)
                self.check(1, "lzy-verify", "f")
                self.check(0, "lzy-verify", "--repair", "f")
                self.assertEqual((self.read("f"), self.read(".LZY.f")), (content, before))
                self.assertLessEqual(self.allocated(".LZY.f"), 8 << 10)

    def test_it_follows_the_size_of_the_file(self):
        for size, small in ((100, True), (70000, False), (100, True)):
            self.write("f", pattern_bytes(size))
            self.check(0, "lzy-protect", "f")
            self.assertEqual(self.allocated(".LZY.f") <= 8 << 10, small)
            self.check(0, "lzy-verify", "f")


class Golden(CliTest):
    """Sidecars that were written once, by this version and by the first one, are read, and mend."""
    FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format", "golden")

    def test_all(self):
        for name in sorted(os.listdir(self.FOLDER)):
            files = sorted(os.listdir(os.path.join(self.FOLDER, name)))
            contents = {}
            for file in files:
                with open(os.path.join(self.FOLDER, name, file), "rb") as golden:
                    contents[file] = golden.read()
                self.write(f"{name}/{file}", contents[file])
            for file in files:
                if not file.startswith("."):
                    os.utime(self.path(f"{name}/{file}"), ns=(1767323045 * 10**9,) * 2)
            with self.subTest(name):
                self.check(0, "lzy-verify", name)
                data = next(file for file in files if not file.startswith("."))
                self.flip(f"{name}/{data}", 1)
                self.check(1, "lzy-verify", name)
                self.check(0, "lzy-verify", "--repair", name)
                self.assertEqual(self.read(f"{name}/{data}"), contents[data])
                self.check(0, "lzy-verify", name)
