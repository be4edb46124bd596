"""lzy-diff: what it says of copies, its exit codes, and that it changes nothing."""

import os
import unittest

from harness import CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K")


class DiffCase(CliTest):
    def put(self, name, content, *options):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        self.write(name, content)
        self.age(name)
        if options:
            self.check(0, "lzy-protect", *options, "--", name)

    def diff(self, exit_code, *words, **more):
        """Field `diff` of the JSON document."""
        before = self.image()
        document = self.report(exit_code, "lzy-diff", *words, **more)
        self.assertEqual(self.image(), before)
        return document.get("diff")

    def image(self):
        found = {}
        for directory, _, names in os.walk(self.scratch):
            for name in names:
                path = os.path.join(directory, name)
                stat = os.lstat(path)
                with open(path, "rb") as file:
                    found[path] = (file.read(), stat.st_mtime_ns, stat.st_mode)
        return found


class DiffFiles(DiffCase):
    def test_ranges_of_copies_with_other_geometry(self):
        content = bytearray(pattern_bytes(1000000))
        self.put("a/f", content, *SMALL, "--parity", "1", "--group", "4")
        content[50000] ^= 1
        content[999999] ^= 1
        self.put("b/f", content, *SMALL, "--parity", "2", "--group", "8")
        found = self.diff(1, "a/f", "b/f")
        self.assertEqual((found["kind"], found["by"], found["same"]), ("files", "hashes", 0))
        [difference] = found["differences"]
        self.assertEqual((difference["verdict"], difference["block_size"]), ("different", 4096))
        self.assertEqual(difference["ranges"], [{"offset": 49152, "length": 4096}, {"offset": 999424, "length": 576}])
        self.assertEqual(self.diff(1, "--deep", "a/f", "b/f")["differences"][0]["ranges"],
                         [{"offset": 50000, "length": 1}, {"offset": 999999, "length": 1}])
        self.assertEqual(self.check(1, "lzy-diff", "a/f", "b").stdout,
                         "a/f: 4.6 KiB of 976.6 KiB differ, in blocks of 4 KiB\n  bytes 49152 to 53247\n  bytes 999424 to 999999\n")
        self.assertEqual(self.check(1, "lzy-diff", "--quiet", "a/f", "b/f").stdout, "")

    def test_the_same(self):
        content = pattern_bytes(300000)
        self.put("a/f", content, *SMALL)
        self.put("b/f", content, *SMALL, "--parity", "2")
        self.assertEqual(self.check(0, "lzy-diff", "a/f", "b/f").stdout, "a/f and b/f are the same: 293 KiB, by their hashes\n")
        self.assertEqual(self.diff(0, "a/f", "b/f")["same_bytes"], 300000)
        self.assertIn("are one and the same", self.check(0, "lzy-diff", "a/f", "a/f").stderr)

    def test_what_cannot_be_compared(self):
        content = pattern_bytes(100000)
        self.put("a", content, *SMALL)
        self.put("plain", content)
        self.put("blocks", content, "--block-size", "8K")
        self.put("edited", content, *SMALL)
        os.utime(self.path("edited"))
        for other, code, text in (("plain", 4, "plain: it is not protected"), ("blocks", 3, "blocks of 8192 bytes"),
                                  ("edited", 9, "edited: it was changed since its last commit")):
            done = self.check(code, "lzy-diff", "a", other)
            self.assertIn(text, done.stderr)
            self.assertIn("--deep", done.stderr)
            self.assertEqual(self.diff(code, "a", other)["differences"][0]["verdict"], "unknown")
            self.assertEqual(self.diff(0, "--deep", "a", other)["same"], 1)

    def test_sealed(self):
        content = pattern_bytes(100000)
        self.write("key", b"0123456789abcdef0123456789abcdef")
        os.chmod(self.path("key"), 0o600)
        self.put("a", content, *SMALL, "--key", "key")
        self.put("b", content, *SMALL, "--key", "key")
        self.put("open", content, *SMALL)
        self.assertIn("give the key with --key", self.check(3, "lzy-diff", "a", "b").stderr)
        self.check(0, "lzy-diff", "--key", "key", "a", "b")
        self.assertIn("--deep", self.check(4, "lzy-diff", "--key", "key", "a", "open").stderr)
        self.check(0, "lzy-diff", "--deep", "a", "open")

    def test_bad_paths(self):
        self.put("a", b"a" * 5000, *SMALL)
        for words, text in ((("a",), "two are needed"), (("a", "a", "a"), "two are needed"), (("a", "gone"), "gone: there is no such file"),
                            (("a", "a.%r"), "a set is compared with a set"), (("a.%r", "b.%q"), "b.%q"), (("x.%r", "y.%r"), "nothing matches")):
            self.assertIn(text, self.check(3, "lzy-diff", *words).stderr)


class DiffTrees(DiffCase):
    def test_directories(self):
        content = pattern_bytes(100000)
        for tree in ("a", "b"):
            self.put(f"{tree}/same", content)
            self.put(f"{tree}/below/far/changed", content if tree == "a" else content[:-1] + b"!")
            self.put(f"{tree}/longer", content if tree == "a" else content + b"!")
            self.put(f"{tree}/lost", content)
            os.symlink("same", self.path(f"{tree}/link"))
        self.put("a/only here", content)
        self.put("b/new/file", content)
        os.symlink("same", self.path("b/link2"))
        for tree, parity in (("a", "1"), ("b", "2")):
            self.check(0, "lzy-protect", *SMALL, "--parity", parity, tree)
        os.remove(self.path("b/lost"))
        found = self.diff(1, "a", "b")
        self.assertEqual((found["kind"], found["same"]), ("directories", 2))
        self.assertEqual({d["name"]: d["verdict"] for d in found["differences"]},
                         {"below/far/changed": "different", "longer": "different", "lost": "only-a", "only here": "only-a", "new/": "only-b",
                          "link2": "only-b"})
        [longer] = [d for d in found["differences"] if d["name"] == "longer"]
        self.assertEqual(longer["ranges"], [{"offset": 98304, "length": 1697}])
        done = self.check(1, "lzy-diff", "a", "b")
        self.assertIn("2 files the same (97.7 KiB, by their hashes), 6 different\n", done.stdout)
        self.assertIn("b/lost: it is missing, but its sidecar is there. Restore it with: lzy-restore", done.stderr)
        # What cannot be compared does not hide what differs, and the other way round.
        os.utime(self.path("b/same"))
        self.assertIn("1 could not be compared", self.check(1, "lzy-diff", "a", "b").stdout)
        self.check(0, "lzy-diff", "a", "a")
        self.check(0, "lzy-diff", "--deep", "a/below", "a/below")

    def test_one_that_is_not_protected_among_many(self):
        for tree in ("a", "b"):
            for name in ("x", "y"):
                self.put(f"{tree}/{name}", pattern_bytes(50000), *SMALL)
        os.remove(self.path("b/.LZY.y"))
        found = self.diff(4, "a", "b")
        self.assertEqual([(d["name"], d["verdict"]) for d in found["differences"]], [("y", "unknown")])


class DiffSets(DiffCase):
    def members(self, pattern, *options):
        for rank in range(5):
            self.put(pattern % rank, pattern_bytes(60000 + rank))
        self.check(0, "lzy-protect", *SMALL, *options, pattern.replace("%d", "%r"))

    def test_sets(self):
        self.members("node%d/state")
        self.members("copy.%d", "--parity", "2")
        self.assertEqual(self.check(0, "lzy-diff", "node%r/state", "copy.%r").stdout, "5 members the same (293 KiB, by their hashes), 0 different\n")
        self.flip("copy.3", 20000)
        self.check(0, "lzy-diff", "node%r/state", "copy.%r")  # by what was committed
        found = self.diff(1, "--deep", "node%r/state", "copy.%r")
        self.assertEqual([(d["name"], d["ranges"]) for d in found["differences"]], [("3", [{"offset": 20000, "length": 1}])])
        os.remove(self.path("node1/state"))
        found = self.diff(1, "node%r/state", "copy.%r")
        self.assertEqual([(d["name"], d["verdict"]) for d in found["differences"]], [("1", "only-b")])
        os.remove(self.path("copy.1"))
        self.assertIn("both missing", self.check(4, "lzy-diff", "node%r/state", "copy.%r").stderr)


class DiffUnderMpi(DiffCase):
    def test_any_number_of_ranks(self):
        content = pattern_bytes(100000)
        for rank in range(3):
            self.put(f"a.{rank}", content)
            self.put(f"b.{rank}", content if rank != 1 else content[:50] + b"!" + content[51:])
        self.check(0, "lzy-protect", *SMALL, "a.%r")
        self.check(0, "lzy-protect", *SMALL, "b.%r")
        for ranks in (1, 2, 5):
            found = self.diff(1, "a.%r", "b.%r", ranks=ranks)
            self.assertEqual([(d["name"], d["ranges"]) for d in found["differences"]], [("1", [{"offset": 0, "length": 4096}])])
            found = self.diff(1, "a.1", "b.1", ranks=ranks)
            self.assertEqual(found["differences"][0]["ranges"], [{"offset": 0, "length": 4096}])


if __name__ == "__main__":
    unittest.main()
