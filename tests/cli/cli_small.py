"""What sidecars of small files take on disk."""

import os
import shutil
import sys

from harness import CliTest, pattern_bytes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
import golden  # noqa: E402

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
    """Sidecars that were written once, by the versions up to this one, are read, repair, and are committed anew."""

    def setUp(self):
        super().setUp()
        with open(golden.SECRET, "rb") as file:
            self.write("secret", file.read())
        os.chmod(self.path("secret"), 0o600)
        # Not in the scratch directory.
        self.parts = self.enterContext(golden.place_of_parts())

    def at(self, name, file=""):
        return os.path.join(self.parts, file) if name == "parts" else self.path(os.path.join(name, file))

    def put(self, name):
        """A copy of a folder, with the times of its commits. Returns the contents of its files."""
        source, contents = os.path.join(golden.FOLDER, name), {}
        shutil.copytree(source, self.at(name), dirs_exist_ok=True)
        for folder, _, files in os.walk(source):
            for file in files:
                path = os.path.relpath(os.path.join(folder, file), source)
                contents[path] = self.read(self.at(name, path))
        for file in self.data_files(contents):
            later = 10**9 if name == "ordinary-updated" else 0
            os.utime(self.at(name, file), ns=(golden.MTIME + later,) * 2)
        return contents

    @staticmethod
    def data_files(contents):
        return sorted(path for path in contents if not os.path.basename(path).startswith("."))

    def in_folder(self, exit_code, name, *words):
        key = ("--key", self.path("secret")) if name.startswith("sealed-") else ()
        return self.check(exit_code, *words, *key, ".", cwd=self.at(name))

    def names(self):
        return sorted(set(os.listdir(golden.FOLDER)) - {"interrupted"})

    def test_all(self):
        for name in self.names():
            contents = self.put(name)
            with self.subTest(name):
                self.in_folder(0, name, "lzy-verify")
                data = self.data_files(contents)[0]
                self.flip(self.at(name, data), 1)
                self.in_folder(1, name, "lzy-verify")
                self.in_folder(0, name, "lzy-verify", "--repair")
                self.assertEqual(self.read(self.at(name, data)), contents[data])
                self.in_folder(0, name, "lzy-verify")

    def test_a_lost_file(self):
        """Of sets, together with its sidecar. A shared file of one block has a whole copy of it as parity."""
        for name in self.names():
            contents = self.put(name)
            lost = self.data_files(contents)[0]
            is_set = lost.startswith("state.")
            if not is_set and lost != "five":
                continue
            with self.subTest(name):
                os.remove(self.at(name, lost))
                if is_set:
                    os.remove(self.at(name, f".LZY.{lost}"))
                self.in_folder(0, name, "lzy-restore")
                self.assertEqual(self.read(self.at(name, lost)), contents[lost])
                self.in_folder(0, name, "lzy-verify")

    def test_a_lost_device_directory(self):
        contents = self.put("parts")
        part, = (path for path in contents if path.startswith("d1/"))
        os.remove(self.at("parts", part))
        self.in_folder(1, "parts", "lzy-verify")
        self.in_folder(0, "parts", "lzy-verify", "--repair")
        self.in_folder(0, "parts", "lzy-verify")

    def test_interrupted(self):
        """What was written after the last commit is taken back; a file that was never committed is committed."""
        contents = self.put("interrupted")
        self.in_folder(9, "interrupted", "lzy-verify")
        self.check(0, "lzy-verify", "--repair", "--force", "rows", cwd=self.path("interrupted"))
        self.assertEqual(self.read("interrupted/rows"), self.put("ordinary-automatic")["rows"])
        self.check(0, "lzy-protect", "new", cwd=self.path("interrupted"))
        self.in_folder(0, "interrupted", "lzy-verify")
        self.assertEqual(self.read("interrupted/new"), contents["new"])

    def test_a_new_commit(self):
        """This version goes on where an older one stopped."""
        for name in self.names():
            contents = self.put(name)
            with self.subTest(name):
                for file in self.data_files(contents):
                    self.write(self.at(name, file), pattern_bytes(len(contents[file]) + 1, seed=9))
                self.in_folder(0, name, "lzy-protect")
                self.in_folder(0, name, "lzy-verify")
