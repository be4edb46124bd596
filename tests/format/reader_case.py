"""What tests of format_reader.py share: files, sidecars of them, and changes to these."""
import os
import random
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import format_reader  # noqa: E402
from format_writer_for_tests import H, write  # noqa: E402


def flip(path, offset, bit=1):
    stat = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)
        assert byte, f"{path} ends before {offset}"
        f.seek(offset)
        f.write(bytes([byte[0] ^ bit]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def set_field(path, copies, offset, value):
    """A superblock field of all copies, hashes made right again."""
    with open(path, "r+b") as f:
        for c, at in enumerate(copies):
            f.seek(at)
            page = bytearray(f.read(4096))
            size = 1024 if page[32] & 4 else 4096
            del page[size:]
            page[offset:offset + len(value)] = value
            page[size - 16:] = H(0x10, c, bytes(page[:size - 16]))
            f.seek(at)
            f.write(page)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.folder)
        self.random = random.Random(self.id())

    def files(self, *sizes):
        paths = []
        for rank, size in enumerate(sizes):
            paths.append(os.path.join(self.folder, f"state.{rank}"))
            with open(paths[-1], "wb") as f:
                f.write(self.random.randbytes(size))
        return paths

    def shared(self, size=50001, **options):
        paths = self.files(size)
        options = {"groups": ((0, 1, 2, 3, 4),), "m": 2, **options}
        (sidecar, layout), = write(paths, **options)
        return paths, sidecar, layout

    def set(self, sizes=(20000, 0, 6100, 20000, 511, 3072, 9000), groups=((0, 2, 5, 6), (1, 3, 4)), m=1, **options):
        paths = self.files(*sizes)
        return paths, write(paths, "set", groups=groups, m=m, name="state.%r", **options)

    def accept(self, paths, **options):
        result = format_reader.check(paths, **options)
        self.assertEqual((result.lines, result.errors, result.exit_code), ([], [], 0))
        report, = result.reports
        return report

    def reject(self, paths, *words, code=1, **options):
        result = format_reader.check(paths, **options)
        text = "\n".join(result.lines + result.errors)
        self.assertEqual(result.exit_code, code, text)
        for word in words:
            self.assertIn(word, text)
        return result
