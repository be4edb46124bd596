"""Option key: programs that write sealed datasets."""

import os
import unittest

import format_reader
from layered import Layer


class Sealed(Layer):
    """With option key: datasets that nobody else could have made."""

    GEOMETRY = {"block_size": "4K", "stripe": "64K"}

    def setUp(self):
        super().setUp()
        with open(os.open(self.path("key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))

    def judge(self, *options, name="f"):
        return self.run_tool("lzy-verify", *options, name).returncode

    def test_what_programs_write_is_sealed(self):
        for capture in ["on", "off"]:
            with self.subTest(capture=capture):
                self.quiet(self.client("slabs", key="key", capture=capture, report="report", **self.GEOMETRY))
                self.assertEqual(self.reports()[-1]["bytes_reread"] == 0, capture == "on")
                self.assertEqual((self.judge("--key", "key"), self.judge()), (0, 3))
                result = format_reader.check([self.path("f")], secret=bytes(range(32)))
                self.assertEqual((result.lines, result.errors), ([], []))
                self.damage("f", 5000)
                self.assertEqual(self.judge("--key", "key"), 1)
                self.assertEqual(self.judge("--repair", "--key", "key"), 0)

    def test_updates_are_sealed_again(self):
        self.quiet(self.client("slabs", key="key", **self.GEOMETRY))
        self.quiet(self.client("slabs_twice", key="key", **self.GEOMETRY))
        self.assertEqual(self.judge("--key", "key"), 0)

    def test_without_the_key_writes_succeed_unprotected(self):
        self.client("slabs", name="bare", layer=False)
        self.client("slabs", key="key", **self.GEOMETRY)
        seal = self.content(".LZY.f")
        done = self.client("slabs_twice", **self.GEOMETRY)
        self.assertRegex(done.stderr, r"f: not protected: .*: it is sealed with key [0-9a-f]{32}; give the key")
        self.client("slabs_twice", name="bare", layer=False)
        self.assertEqual(self.content("f"), self.content("bare"))
        self.assertEqual(self.content(".LZY.f"), seal)

    def test_a_file_that_is_not_sealed_is_not_sealed_by_a_program(self):
        self.client("slabs", **self.GEOMETRY)
        done = self.client("slabs_twice", key="key", **self.GEOMETRY)
        self.assertRegex(done.stderr, r"f: not protected: .*: it is not sealed with key [0-9a-f]{32}")
        self.assertEqual(self.judge("--key", "key"), 4)

    def test_a_key_that_cannot_be_used(self):
        os.chmod(self.path("key"), 0o644)
        for key in ["key", "nowhere", "."]:
            with self.subTest(key=key):
                done = self.client("slabs", key=key, ranks=3)
                self.assertIn(f"LZY_KEY: '{key}' is not accepted", done.stderr)
                self.assertFalse(self.has(".LZY.f"))


if __name__ == "__main__":
    unittest.main()
