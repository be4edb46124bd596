"""lzy-copy from nodes that see only the source to nodes that see only the destination, through the network between them."""

import os
import random
import subprocess
import time
import unittest

import nodes


class Copies(nodes.Nodes):
    NODES = 3

    def setUp(self):
        super().setUp()
        self.random = random.Random(7)
        self.source = f"{self.local}/src"
        self.into = f"{self.local}/in"
        os.makedirs(self.disk("n1", "src", "sub"))
        os.makedirs(self.disk("n2", "in"))
        self.sizes = {"large": 30_000_000, "empty": 0, "sub/one": 1, "sub/two": 70_000, "sub/new\nline": 5}
        for name, size in self.sizes.items():
            with open(self.disk("n1", "src", name), "wb") as file:
                file.write(self.random.randbytes(size))
        os.symlink("large", self.disk("n1", "src", "link"))

    def protect(self, node, path):
        done = self.cluster("exec", self.dir, node, f"{nodes.BUILD}/bin/lzy-protect", "--quiet", path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def same(self):
        for name in self.sizes:
            self.assertEqual(self.content(self.disk("n2", "in", "src", name)), self.content(self.disk("n1", "src", name)), name)
        self.assertEqual(os.readlink(self.disk("n2", "in", "src", "link")), "large")
        debris = [name for _, _, names in os.walk(self.disk("n2", "in")) for name in names if name.startswith(".LZY-")]
        self.assertEqual(debris, [])


class BetweenNodes(Copies):
    def test_a_tree(self):
        self.protect("n1", self.source)
        # Damage that parity repairs on the way; the source stays as it is.
        committed = self.content(self.disk("n1", "src", "large"))
        stat = os.stat(self.disk("n1", "src", "large"))
        with open(self.disk("n1", "src", "large"), "r+b") as file:
            file.seek(20_000_000)
            file.write(bytes([committed[20_000_000] ^ 1]))
        os.utime(self.disk("n1", "src", "large"), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        # The third rank sees neither; there are two readers and two writers.
        done = self.tool(0, "lzy-copy", self.source, f"{self.into}/", on=["n3", "n1:2", "n2:2"])
        self.assertIn("damaged in the source, and rebuilt in the copy", done.stdout)
        self.assertEqual(self.content(self.disk("n2", "in", "src", "large")), committed)
        with open(self.disk("n1", "src", "large"), "wb") as file:
            file.write(committed)
        self.same()
        done = self.cluster("exec", self.dir, "n2", f"{nodes.BUILD}/bin/lzy-verify", f"{self.into}/src")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Where it goes is missing: nothing is written anywhere.
        before = self.everything()
        done = self.tool(3, "lzy-copy", self.source, f"{self.local}/none/", on=["n1", "n2"])
        self.assertIn("none/: is no directory", done.stderr)
        self.assertEqual(self.everything(), before)


class BrokenOff(Copies):
    def test_one_of_a_pair_is_killed(self):
        words = [f"{nodes.BUILD}/bin/lzy-copy", "--limit", "40M", self.source, f"{self.into}/"]
        with open(self.disk("n1", "src", "large"), "wb") as file:
            file.write(self.random.randbytes(120_000_000))
        copy = subprocess.Popen(self.words_of_job(words, on=["n1", "n2"]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=nodes.environment(), cwd=self.dir)
        journal = self.disk("n2", "in", "src", ".LZY-journal.large")
        end = time.monotonic() + nodes.PATIENCE
        # When a part of it is proven.
        while not (os.path.exists(journal) and os.path.getsize(journal) > 10_000) and time.monotonic() < end:
            self.assertIsNone(copy.poll(), "it ended too soon")
            time.sleep(0.02)
        self.kill("n1")
        copy.wait(timeout=nodes.PATIENCE)
        self.boot("n1")
        self.assertFalse(os.path.exists(self.disk("n2", "in", "src", "large")))
        done = self.tool(0, "lzy-copy", "--resume", self.source, f"{self.into}/", on=["n1", "n2"])
        self.assertRegex(done.stdout, r"\d MiB of an earlier copy used")
        self.same()


class Drained(Copies):
    def test_a_set_to_a_shared_directory_and_back(self):
        self.solve(10)
        before = self.contents()
        os.makedirs(f"{self.shared}/ckpt")
        done = self.tool(0, "lzy-copy", self.set, f"{self.shared}/ckpt/state.%r")
        self.assertIn("set of 3 members protected, with the root of the source", done.stdout)
        for rank, content in before.items():
            self.assertEqual(self.content(f"{self.shared}/ckpt/state.{rank}"), content)
        # Back to empty disks, each member to the node that had it.
        self.lose("n1", "n2", "n3")
        self.boot("n1", "n2", "n3")
        self.tool(0, "lzy-copy", f"{self.shared}/ckpt/state.%r", self.set)
        self.is_whole(before)
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n3", 2)])


if __name__ == "__main__":
    unittest.main()
