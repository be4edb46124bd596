"""The root and the parity of a dataset do not depend on who protected it."""

import os
import unittest

import format_reader
from layered import BUILD, Layer


class Determinism(Layer):
    """The same bytes have the same root and the same parity, whoever protected them, with however many ranks. The independent
    reader computes both."""
    OPTIONS = {"parity": 2, "group": 4, "block_size": "4K", "stripe": "16K"}

    def facts(self, *names):
        result = format_reader.check([self.path(name) for name in names])
        self.assertEqual((result.errors, result.lines), ([], []))
        self.assertEqual(len(result.reports), 1)
        report = result.reports[0]
        roots = [(member["data_root"], member["parity_root"]) for member in report["members"]]
        return report["root"], report["parity_sha256"], roots

    def heat3d(self, *arguments, ranks, **options):
        done = self.run_program([f"{BUILD}/examples/heat3d", "--size", "48", "--steps", "4", "--every", "2", *arguments], ranks=ranks,
                                **self.OPTIONS, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def protect(self, name, ranks):
        """By lzy-protect, without the sidecars of before."""
        for file in self.files():
            if file.startswith(".LZY."):
                os.remove(self.path(file))
        options = [f"--{key.replace('_', '-')}={value}" for key, value in self.OPTIONS.items()]
        done = self.run_program([f"{BUILD}/bin/lzy-protect", "--quiet", *options, name], ranks=ranks, layer=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_shared_file(self):
        found = {}
        for ranks in [1, 2, 3, 4]:
            # From the second on, over what the one before left: rows touched at each checkpoint, in place.
            self.heat3d("--checkpoint", "f", ranks=ranks)
            found[f"hook, {ranks} ranks"] = self.facts("f")
        for ranks in [1, 2, 3, 4]:
            self.protect("f", ranks)
            found[f"lzy-protect, {ranks} ranks"] = self.facts("f")
        self.assertEqual(len(set(map(str, found.values()))), 1, found)

    def test_set(self):
        names = [f"s.{rank}" for rank in range(4)]
        self.heat3d("--checkpoint", "s.%r", ranks=4, set="s.%r")
        found = {"hook": self.facts(*names)}
        for ranks in [1, 2, 3, 4]:
            self.protect("s.%r", ranks)
            found[f"lzy-protect, {ranks} ranks"] = self.facts(*names)
        self.assertEqual(len(set(map(str, found.values()))), 1, found)


if __name__ == "__main__":
    unittest.main()
