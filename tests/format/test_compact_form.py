#!/usr/bin/python3
"""Tests of format_reader.py: the compact form of sidecars (docs/format.md §14), and golden files of both forms."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import format_reader  # noqa: E402
from format_writer_for_tests import write  # noqa: E402
from reader_case import Case, flip, set_field  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden")


class CompactForm(Case):
    """§14."""

    def compact(self, size=5, **options):
        paths = self.files(size)
        (sidecar, layout), = write(paths, **{"groups": ((0, 1, 2, 3),), "compact": True, **options})
        return paths, sidecar, layout

    def test_shared_files(self):
        for size in (0, 1, 5, 511, 512, 513, 4096, 10000, 20000):
            for m in (0, 1, 2, 3):
                with self.subTest(size=size, m=m):
                    report = self.accept(self.compact(size, m=m)[0])
                    self.assertEqual((report["bytes"], report["notes"]), (size, []))

    def test_sets(self):
        paths, _ = self.set((300, 0, 1200, 700, 511, 1, 900), m=2, compact=True)
        self.accept(paths)

    def test_intents(self):
        paths, sidecar, layout = self.compact(4096, intent=[(0, 512)])
        report = self.accept(paths)
        self.assertEqual(report["members"][0]["intents"][0]["ranges"], [(0, 512)])
        os.truncate(sidecar, layout["intent"])
        self.assertFalse(self.accept(paths)["intent_set"])
        os.truncate(sidecar, layout["intent"] + 4096)
        self.reject(paths, "expected the file to end at")

    def test_each_copy_is_found_without_the_others(self):
        paths, sidecar, layout = self.compact(4096, m=2)
        supers = [layout[f"super{c}"] for c in range(3)]
        for spared in range(3):
            for c in range(3):
                if c != spared:
                    flip(sidecar, supers[c] + 100)
            self.assertEqual(len(self.reject(paths, "superblock hash").lines), 2)
            for c in range(3):
                if c != spared:
                    flip(sidecar, supers[c] + 100)
        self.accept(paths)

    def test_any_byte(self):
        for size, m in ((9000, 1), (5, 2)):
            paths, sidecar, layout = self.compact(size, m=m)
            for at, length in layout["spans"]:
                for offset in range(at, at + length, 13):
                    flip(sidecar, offset)
                    self.assertTrue(format_reader.check(paths).lines, offset)
                    flip(sidecar, offset)
            self.accept(paths)

    def test_lies(self):
        for field, offset, value, words, code in (
                ("state", 80, b"\2", "state", 2), ("version", 12, b"\1", "major version", 2),
                ("copy 1", 72, (4096 + 512).to_bytes(8, "little"), "which is no multiple", 2)):
            with self.subTest(field):
                paths, sidecar, layout = self.compact(9000)
                set_field(sidecar, [layout["super0"], layout["super1"]], offset, value)
                self.reject(paths, words, code=code)


class Golden(Case):
    """Sidecars that were written once. They are never changed: what could be read stays readable."""

    def test_all(self):
        forms = set()
        for name in sorted(os.listdir(GOLDEN)):
            with self.subTest(name):
                folder = os.path.join(GOLDEN, name)
                files = [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if not f.startswith(".")]
                result = format_reader.check(files, ignore_stamps=True)
                self.assertEqual((result.lines, result.errors, result.exit_code), ([], [], 0))
                for path in files:
                    sidecar = format_reader.Sidecar(*format_reader.sidecar_of(path))
                    for copy in sidecar.copies.values():
                        forms.add(("compact" if sidecar.compact else "ordinary", copy.compatible, name))
        expected = {(form, 0, f"{form}-{kind}") for form in ("ordinary", "compact") for kind in ("shared", "set")}
        self.assertEqual(forms, expected | {("compact", 1, "compact-automatic")})

    def test_the_dump_in_the_document(self):
        with open(os.path.join(GOLDEN, "compact-shared", ".LZY.five"), "rb") as f:
            page = f.read(4096)
        with open(os.path.join(HERE, "..", "..", "docs", "format.md"), encoding="utf-8") as f:
            lines = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{8} ?){4})", f.read(), re.MULTILINE)
        told = {int(at, 16): bytes.fromhex(row) for at, row in lines}
        self.assertEqual(told, {at: page[at:at + 16] for at in range(0, 4096, 16) if any(page[at:at + 16])})


if __name__ == "__main__":
    unittest.main()
