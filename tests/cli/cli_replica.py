"""lzy-restore --from: what comes from another copy, and what is refused."""

import os
import subprocess
import unittest

from harness import BIN, MPIEXEC, CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K")


class ReplicaCase(CliTest):
    def put(self, name, content):
        self.write(name, content)
        self.age(name)

    def ruin(self, name, begin=0, count=40):
        """Damages more of the file than parity can rebuild."""
        for block in range(count):
            self.flip(name, begin + block * 4096 + 17)

    def expect(self, files):
        for name, content in files.items():
            self.assertEqual(self.read(name), content, name)


class Replicas(ReplicaCase):
    def test_a_file(self):
        content = pattern_bytes(500000)
        for replica in ("copy", "copies"):
            self.put("f", content)
            self.check(0, "lzy-protect", *SMALL, "f")
            self.put("copy", content)
            self.put("copies/f", content)
            self.ruin("f")
            self.ruin(f"{'copies/f' if replica == 'copies' else 'copy'}", 400000, 20)  # elsewhere
            # What the tools advise is what helps.
            for words in (("lzy-verify",), ("lzy-verify", "--repair"), ("lzy-restore",), ("lzy-restore", "--dry-run")):
                self.assertIn("  if you have another copy of it: lzy-restore --from REPLICA f\n", self.check(2, *words, "f").stdout, words)
            dry = self.report(1, "lzy-restore", "--dry-run", "--from", replica, "f")
            self.assertGreaterEqual(dry["datasets"][0]["from_replica"], 40 * 4096)
            done = self.check(0, "lzy-restore", "--from", replica, "f")
            self.assertIn("KiB came from the replica\n", done.stdout)
            self.expect({"f": content})
            self.check(0, "lzy-verify", "f")
            os.remove(self.path("f"))
            os.remove(self.path(".LZY.f"))

    def test_a_lost_file(self):
        content = pattern_bytes(500000)
        self.put("f", content)
        self.check(0, "lzy-protect", *SMALL, "f")
        self.put("copy", content + b"more")
        self.flip("copy", 100)
        before = os.stat(self.path("copy")).st_mtime_ns
        os.remove(self.path("f"))
        self.check(2, "lzy-restore", "f")
        self.assertFalse(os.path.exists(self.path("f")))
        found = self.report(0, "lzy-restore", "--from", "copy", "f")["datasets"][0]
        self.assertEqual(found["state"], "restored")
        # All but the damaged block, and a few at the end that are alone in their rows: parity has these.
        self.assertLessEqual(found["from_replica"], 500000 - 4096)
        self.assertGreater(found["from_replica"], 500000 - 16 * 4096)
        self.expect({"f": content})
        self.check(0, "lzy-verify", "f")
        self.assertEqual(os.stat(self.path("copy")).st_mtime_ns, before)

    def test_a_replica_that_does_not_suffice(self):
        content = pattern_bytes(500000)
        self.put("f", content)
        self.check(0, "lzy-protect", *SMALL, "f")
        self.put("copy", content)
        self.ruin("f")
        self.ruin("copy", 0, 40)
        damaged = self.read("f")
        done = self.check(2, "lzy-restore", "--from", "copy", "f")
        self.assertIn("copy: it has 0 of ", done.stderr)
        self.assertIn("  if you have one more copy of it: lzy-restore --from REPLICA f\n", done.stdout)
        self.expect({"f": damaged})
        for replica, text in (("gone", "--from: gone: there is no such file or directory"), ("empty", "empty: it has no replica of f: there is no empty/f")):
            os.makedirs(self.path("empty"), exist_ok=True)
            done = self.check(3, "lzy-restore", "--from", replica, "f")
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertIn("is f itself", self.check(3, "lzy-restore", "--from", "f", "f").stderr)
        self.assertIn("for a file, a file or a directory", self.check(3, "lzy-restore", "--from", "c.%r", "f").stderr)

    def test_a_directory(self):
        files = {f"a/{name}": pattern_bytes(200000, seed) for seed, name in enumerate(("x", "below/y", "below/z"))}
        for name, content in files.items():
            self.put(name, content)
            self.put("b" + name[1:], content)
        self.check(0, "lzy-protect", *SMALL, "a")
        for name in files:
            self.ruin(name)
        os.remove(self.path("a/below/z"))
        self.assertIn("several datasets", self.check(3, "lzy-restore", "--from", "b/x", "a").stderr)
        self.check(0, "lzy-restore", "--from", "b", "a/")
        self.expect(files)
        self.check(0, "lzy-verify", "a")


class ReplicasOfSets(CliTest):
    def test_sets(self):
        for ranks in (None, 3):
            files = {f"n{rank}/s": pattern_bytes(100000 + rank, rank) for rank in range(4)}
            for name, content in files.items():
                self.write(name, content)
                self.age(name)
                self.write("b/" + name, content)
            self.check(0, "lzy-protect", *SMALL, "n%r/s")
            for name in ("n0/s", "n2/s", "n2/.LZY.s"):
                os.remove(self.path(name))
            self.flip("b/n1/s", 5)
            self.check(2, "lzy-restore", "n%r/s", ranks=ranks)
            self.assertIn("for a set, a pattern", self.check(3, "lzy-restore", "--from", "b/n0/s", "n%r/s", ranks=ranks).stderr)
            replica = "b" if ranks else "b/n%r/s"
            self.assertIn("from the replica", self.check(0, "lzy-restore", "--from", replica, "n%r/s", ranks=ranks).stdout)
            for name, content in files.items():
                self.assertEqual(self.read(name), content, name)
            self.check(0, "lzy-verify", "n%r/s")
            for name in files:
                os.remove(self.path(os.path.dirname(name) + "/.LZY.s"))

    def test_a_shared_file(self):
        content = pattern_bytes(900000)
        self.write("f", content)
        self.age("f")
        self.write("copy", content)
        self.check(0, "lzy-protect", *SMALL, "f")
        os.remove(self.path("f"))
        self.check(0, "lzy-restore", "--from", "copy", "f", ranks=3)
        self.assertEqual(self.read("f"), content)
        self.check(0, "lzy-verify", "f")


class ReplicasApart(ReplicaCase):
    """Ranks in directories of their own: the same relative path is another file for each, as with disks of nodes."""

    def apart(self, exit_code, *words, ranks=2):
        script = 'cd node${PMI_RANK:-$OMPI_COMM_WORLD_RANK} && exec "$@"'
        done = subprocess.run([MPIEXEC, "-n", str(ranks), "sh", "-c", script, "sh", os.path.join(BIN, words[0]), *words[1:]],
                              cwd=self.scratch, env={k: v for k, v in os.environ.items() if not k.startswith("LZY_")},
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, exit_code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def test_restore_and_diff(self):
        content = pattern_bytes(500000)
        for name in ("node0/copy/f", "node1/data/f", "node1/data/g"):
            self.put(name, content)
        os.makedirs(self.path("node2"))
        self.check(0, "lzy-protect", *SMALL, "node1/data")
        self.check(0, "lzy-protect", *SMALL, "--parity", "2", "node0/copy")
        self.flip("node0/copy/f", 450000)
        done = self.apart(1, "lzy-diff", "data", "copy", ranks=3)
        self.assertIn("g: only in A (data/g)\n1 file the same", done.stdout)
        done = self.apart(1, "lzy-diff", "--deep", "copy", "data/f")
        self.assertIn("  bytes 450000 to 450000\n", done.stdout)
        self.ruin("node1/data/f")
        self.assertIn("--from: none: there is no such file or directory", self.apart(3, "lzy-restore", "--from", "none", "data/f").stderr)
        self.assertIn("copy/none: there is no such file", self.apart(3, "lzy-diff", "copy/none", "data").stderr)
        self.assertIn("came from the replica", self.apart(0, "lzy-restore", "--from", "copy", "data/f", ranks=3).stdout)
        self.expect({"node1/data/f": content})
        self.check(0, "lzy-verify", "node1/data")


if __name__ == "__main__":
    unittest.main()
