"""lzy-restore --from and lzy-diff between nodes that see one of the two copies each."""

import os
import random
import subprocess
import time
import unittest

import nodes

MIB = 1 << 20


class Replicas(nodes.Nodes):
    NODES = 3

    def setUp(self):
        super().setUp()
        self.random = random.Random(7)
        for node, name in (("n1", "data"), ("n2", "copy")):
            os.makedirs(self.disk(node, name))
        self.data, self.copy = f"{self.local}/data", f"{self.local}/copy"

    def put(self, node, *names, content):
        with open(self.disk(node, *names), "wb") as file:
            file.write(content)
        then = 1_600_000_000
        os.utime(self.disk(node, *names), (then, then))

    def protect(self, node, path, *options):
        done = self.cluster("exec", self.dir, node, f"{nodes.BUILD}/bin/lzy-protect", "--quiet", *options, path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def overwrite(self, node, *names, offset, length):
        """As a faulty disk does it: the times stay."""
        path = self.disk(node, *names)
        stat = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(offset)
            old = file.read(length)
            file.seek(offset)
            file.write(bytes(byte ^ 255 for byte in old))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


class OnAnotherNode(Replicas):
    def test_restore_and_diff(self):
        contents = {name: self.random.randbytes(size) for name, size in (("large", 20 * MIB + 5), ("small", 3000))}
        for name, content in contents.items():
            self.put("n1", "data", name, content=content)
            self.put("n2", "copy", name, content=content)
        self.protect("n1", self.data, "--parity", "1")
        self.protect("n2", self.copy, "--parity", "2", "--group", "6")
        on = ["n3", "n2:2", "n1:2"]  # the first rank sees neither
        before = self.everything()
        done = self.tool(0, "lzy-diff", self.data, self.copy, on=on)
        self.assertIn("2 files the same (20 MiB, by their hashes), 0 different", done.stdout)
        # What was lost since the commit shows in the data only.
        self.overwrite("n1", "data", "large", offset=5 * MIB, length=3 * MIB)
        self.overwrite("n2", "copy", "large", offset=15 * MIB, length=MIB)
        self.tool(0, "lzy-diff", self.data, self.copy, on=on)
        done = self.tool(1, "lzy-diff", "--deep", f"{self.data}/large", f"{self.copy}/large", on=on)
        self.assertRegex(done.stdout, f"bytes {5 * MIB} to {8 * MIB - 1}\n  bytes {15 * MIB} to {16 * MIB - 1}\n")
        # A wrong path is told before anything is done.
        done = self.tool(3, "lzy-restore", "--from", f"{self.local}/none", self.data, on=on)
        self.assertIn(f"--from: {self.local}/none: there is no such file or directory", done.stderr)
        done = self.tool(3, "lzy-diff", self.data, f"{self.local}/none", on=on)
        self.assertIn(f"{self.local}/none: there is no such file or directory", done.stderr)
        self.tool(2, "lzy-restore", self.data, on=["n1"])
        self.tool(1, "lzy-restore", "--dry-run", "--from", self.copy, self.data, on=on)
        for path, was in self.everything().items():
            if not path.endswith("/large"):
                self.assertEqual(was, before[path])
        copy = self.content(self.disk("n2", "copy", "large"))
        os.remove(self.disk("n1", "data", "small"))
        done = self.tool(0, "lzy-restore", "--from", self.copy, self.data, on=on)
        self.assertIn("came from the replica", done.stdout)
        for name, content in contents.items():
            self.assertEqual(self.content(self.disk("n1", "data", name)), content)
        self.assertEqual(self.content(self.disk("n2", "copy", "large")), copy)
        done = self.cluster("exec", self.dir, "n1", f"{nodes.BUILD}/bin/lzy-verify", self.data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.no_debris()

    def test_a_set(self):
        self.solve(10)
        before = self.contents()
        for rank, content in before.items():
            self.put("n2", "copy", f"state.{rank}", content=content)
        self.cluster("exec", self.dir, "n2", f"{nodes.BUILD}/bin/lzy-protect", "--quiet", f"{self.copy}/state.%r")
        done = self.tool(0, "lzy-diff", self.set, f"{self.copy}/state.%r")
        self.assertIn("3 members the same", done.stdout)
        for rank in (0, 2):  # more than parity covers
            os.remove(self.disk(f"n{rank + 1}", f"state.{rank}"))
        self.tool(2, "lzy-restore", self.set)
        done = self.tool(0, "lzy-restore", "--from", f"{self.copy}/state.%r", self.set)
        self.assertIn("came from the replica", done.stdout)
        self.is_whole(before)


class BrokenOff(Replicas):
    def test_the_node_of_the_replica_dies(self):
        content = self.random.randbytes(100 * MIB) * 3
        self.put("n1", "data", "f", content=content)
        self.put("n2", "copy", "f", content=content)
        self.protect("n1", f"{self.data}/f")
        os.remove(self.disk("n1", "data", "f"))
        words = [f"{nodes.BUILD}/bin/lzy-restore", "--from", f"{self.copy}/f", f"{self.data}/f"]
        restore = subprocess.Popen(self.words_of_job(words, on=["n1", "n2"]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=nodes.environment(), cwd=self.dir)
        end = time.monotonic() + nodes.PATIENCE
        # While blocks are on their way.
        while not any(name.startswith(".LZY-") for name in os.listdir(self.disk("n1", "data"))) and time.monotonic() < end:
            self.assertIsNone(restore.poll(), "it ended too soon")
            time.sleep(0.005)
        self.kill("n2")
        self.assertNotEqual(restore.wait(timeout=nodes.PATIENCE), 0)
        self.boot("n2")
        self.assertFalse(os.path.exists(self.disk("n1", "data", "f")))
        self.tool(0, "lzy-restore", "--from", f"{self.copy}/f", f"{self.data}/f", on=["n1", "n2"])
        self.assertEqual(self.content(self.disk("n1", "data", "f")), content)
        self.assertEqual([name for name in os.listdir(self.disk("n1", "data")) if name.startswith(".LZY-")], [])


if __name__ == "__main__":
    unittest.main()
