#!/usr/bin/python3
"""Tests of format_reader.py: the compact form of sidecars (docs/format.md §14), and golden files of both forms."""
import contextlib
import hashlib
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import format_reader  # noqa: E402
import golden  # noqa: E402
from format_writer_for_tests import write  # noqa: E402
from reader_case import Case, flip, set_field  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


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

    FORMS = {"compact-automatic": {("compact", 1)}, "compact-parity": {("compact", 0)}, "compact-set": {("compact", 0)},
             "compact-shared": {("compact", 0)}, "copied": {("compact", 1), ("ordinary", 1)},
             "interrupted": {("ordinary", 0)}, "ordinary-automatic": {("ordinary", 1)},
             "ordinary-groups": {("ordinary", 0)}, "ordinary-parity": {("ordinary", 0)}, "ordinary-set": {("ordinary", 0)},
             "ordinary-shared": {("ordinary", 0)}, "ordinary-updated": {("ordinary", 0)}, "parts": {("ordinary", 0)},
             "sealed-set": {("compact", 0)}, "sealed-shared": {("compact", 1), ("ordinary", 1)}}

    def read(self, name):
        """What the reader says about a folder, and its sidecars."""
        with open(golden.SECRET, "rb") as file:
            secret = file.read() if name.startswith("sealed-") else None
        with contextlib.ExitStack() as stack:
            folder = os.path.join(golden.FOLDER, name)
            if name == "parts":
                folder = shutil.copytree(folder, stack.enter_context(golden.place_of_parts()), dirs_exist_ok=True)
            files = [e.path for e in os.scandir(folder) if e.is_file() and not e.name.startswith(".")]
            key = format_reader.Key(secret) if secret else None
            sidecars = [format_reader.Sidecar(*format_reader.sidecar_of(file), key) for file in files]
            return format_reader.check(sorted(files), ignore_stamps=True, secret=secret), sidecars

    def test_all(self):
        self.assertEqual(sorted(os.listdir(golden.FOLDER)), sorted(self.FORMS))
        for name, forms in self.FORMS.items():
            with self.subTest(name):
                result, sidecars = self.read(name)
                # The last writing of "interrupted" is in no commit.
                if name != "interrupted":
                    self.assertEqual((result.lines, result.errors, result.exit_code), ([], [], 0))
                self.assertEqual({("compact" if s.compact else "ordinary", copy.compatible)
                                  for s in sidecars for copy in s.copies.values()}, forms)
                self.assertEqual({r["sealed"] for r in result.reports}, {name.startswith("sealed-")})

    def test_none_was_changed(self):
        """A new form adds files and lines here, and changes none. `sha256sum -c` reads this list, too."""
        with open(golden.FOLDER + ".sha256", encoding="utf-8") as file:
            known = {name: digest for digest, name in (line.split("  ") for line in file.read().splitlines())}
        found = {}
        for folder, _, files in os.walk(golden.FOLDER):
            for file in files:
                with open(os.path.join(folder, file), "rb") as content:
                    found[os.path.relpath(content.name, golden.FOLDER)] = hashlib.sha256(content.read()).hexdigest()
        self.assertEqual(found, known)

    def test_they_are_what_their_names_say(self):
        """So that nobody replaces one by something easier to read."""
        groups = self.read("ordinary-groups")[0].reports[0]
        self.assertEqual((groups["m"], len(groups["groups"]), len(groups["members"])), (2, 2, 6))
        for name, m, groups in (("ordinary-parity", 3, 1), ("compact-parity", 2, 1)):
            self.assertEqual({(r["m"], len(r["groups"])) for r in self.read(name)[0].reports}, {(m, groups)})
        self.assertEqual(self.read("ordinary-updated")[0].reports[0]["generation"], 2)
        parts = self.read("parts")[0].reports[0]
        self.assertEqual((parts["placement"], parts["devices"]), ("in directories", 4))

    def test_interrupted(self):
        """One block was written after the last commit, and a new file was never committed."""
        result, _ = self.read("interrupted")
        self.assertEqual(result.errors, [])
        self.assertEqual([(r["name"], r["state"], r["generation"], r["intent_set"]) for r in result.reports],
                         [("new", 3, 0, True), ("rows", 1, 1, True)])
        self.assertEqual(len(result.lines), 2)
        self.assertIn("data block 7", result.lines[0])
        self.assertIn("parity of block row (0, 0)", result.lines[1])

    def test_the_dump_in_the_document(self):
        with open(os.path.join(golden.FOLDER, "compact-shared", ".LZY.five"), "rb") as f:
            page = f.read(4096)
        with open(os.path.join(HERE, "..", "..", "docs", "format.md"), encoding="utf-8") as f:
            lines = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{8} ?){4})", f.read(), re.MULTILINE)
        told = {int(at, 16): bytes.fromhex(row) for at, row in lines}
        self.assertEqual(told, {at: page[at:at + 16] for at in range(0, 4096, 16) if any(page[at:at + 16])})


if __name__ == "__main__":
    unittest.main()
