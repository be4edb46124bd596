"""File systems that share blocks or files below lzy: copy-up in overlayfs, snapshots and reflinks of btrfs.

A file gets another inode while its name, content and times stay (copy-up), or two files have the same inode, birth and times in two
directories (snapshots). What is right there stays as it is, and rot is found and repaired where it is, nowhere else.
"""

import os
import shutil
import subprocess
import unittest

import mounts
from filesystems_test import CLIENT, OnFileSystem

LONG_AGO = 1600000000


class Layered(OnFileSystem):
    def make(self, *names, directory=""):
        contents = {os.path.join(directory, name): self.random.randbytes(300000) for name in names}
        for name, content in contents.items():
            self.write_file(name, content)
            os.utime(self.path(name), (LONG_AGO, LONG_AGO))
        return contents

    def are(self, contents):
        self.assertEqual([name for name, content in contents.items() if self.content(name) != content], [], self.told())


class CopyUp(Layered, unittest.TestCase):
    """Files are protected in the lower directory, and written through the overlay."""
    KIND = "Tmpfs"

    def setUp(self):
        super().setUp()
        self.merged = os.path.join(self.scratch, "merged")
        self.directories = [os.path.join(self.views[0], name) for name in ("lower", "upper", "work")]
        for directory in (*self.directories, self.merged):
            os.mkdir(directory)
        self.addCleanup(os.rmdir, self.merged)
        self.below, self.views = self.views, self.directories[:1]
        self.addCleanup(setattr, self, "views", self.below)

    def cover(self):
        lower, upper, work = self.directories
        mounts.run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "lzy-test", self.merged)
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.merged], check=True)
        self.views = [self.merged]

    def test_a_program_writes_a_file_that_was_protected_below(self):
        model = os.path.join(self.scratch, "model")
        self.assertEqual(self.job(CLIENT, "f", model, "11", "3", layer=False).returncode, 0, self.told())
        before = self.content("f")
        self.write_file("bare", before)
        self.tool("lzy-protect", "f", codes=[0])
        self.cover()
        self.tool("lzy-verify", "f", codes=[0])
        done = self.job(CLIENT, "f", model, "12", "3")
        self.assertEqual((done.returncode, done.stderr), (0, ""), self.told())
        self.assertEqual(self.job(CLIENT, "bare", model, "12", "3", layer=False).returncode, 0, self.told())
        self.are({"f": self.content("bare")})
        self.assertNotEqual(self.content("f"), before)
        self.tool("lzy-verify", "f", codes=[0])
        self.tool("lzy-verify", "--encode", "f", codes=[0])
        self.rot("f", len(before) // 2, 0)
        self.tool("lzy-verify", "--repair", "f", codes=[0])
        self.are({"f": self.content("bare")})
        self.views = self.directories[:1]
        self.are({"f": before})
        self.tool("lzy-verify", "f", codes=[0])

    def test_rot_below_is_repaired_above(self):
        contents = self.make("f", "g", "s.0", "s.1", "s.2")
        self.tool("lzy-protect", "f", "g", "s.%r", codes=[0])
        self.rot("g", 1000, 0)
        self.rot("s.1", 70000, 0)
        rotten = self.content("g")
        self.cover()
        with open(self.path("f"), "rb"):  # it stays the lower one for whoever has it open
            os.close(os.open(self.path("f"), os.O_RDWR))
            self.tool("lzy-verify", ".", codes=[1])
            self.tool("lzy-verify", "--repair", ".", codes=[0])
        self.are(contents)
        os.remove(self.path("s.2"))
        self.tool("lzy-restore", ".", codes=[0])
        self.are(contents)
        self.tool("lzy-verify", ".", codes=[0])
        self.views = self.directories[:1]
        self.are({"g": rotten, "f": contents["f"]})


class Snapshots(Layered, unittest.TestCase):
    """Snapshots have the inodes, births and times of what they were made of; only the file system id differs."""
    KIND = "Btrfs"

    def btrfs(self, *words):
        mounts.run("btrfs", "subvolume", *words, cwd=self.views[0])

    def setUp(self):
        super().setUp()
        self.btrfs("create", "a")
        self.addCleanup(self.remove_all)

    def remove_all(self):
        for name in os.listdir(self.views[0]):
            subprocess.run(["btrfs", "subvolume", "delete", self.path(name)], capture_output=True, check=True)

    def sets(self):
        contents = self.make("f", "g", "s.0", "s.1", "s.2", directory="a")
        self.tool("lzy-protect", "a/f", "a/g", "a/s.%r", codes=[0])
        self.btrfs("snapshot", "a", "b")
        self.btrfs("snapshot", "-r", "a", "old")
        return contents

    @staticmethod
    def of(directory, contents):
        return {f"{directory}{name[1:]}": content for name, content in contents.items()}

    def test_each_snapshot_is_judged_and_repaired_by_itself(self):
        contents = self.sets()
        self.tool("lzy-verify", ".", codes=[0])
        self.rot("b/g", 1000, 0)
        self.rot("a/s.1", 70000, 0)
        self.tool("lzy-verify", "--repair", ".", codes=[0])  # also "old", where nothing can be written
        for directory in ("a", "b", "old"):
            self.are(self.of(directory, contents))
        self.write_file("a/f", self.random.randbytes(300000))
        self.tool("lzy-protect", "a", codes=[0])
        self.tool("lzy-verify", ".", codes=[0])
        self.are(self.of("b", contents))

    def test_a_snapshot_that_was_put_back_is_intact(self):
        contents = self.sets()
        self.write_file("a/f", self.random.randbytes(300000))
        self.tool("lzy-protect", "a", codes=[0])
        os.rename(self.path("a"), self.path("new"))
        self.btrfs("snapshot", "old", "a")
        self.tool("lzy-verify", "a", codes=[0])
        self.tool("lzy-verify", "--repair", "a", "new", codes=[0])
        self.are(contents)

    def test_a_reflink_over_a_member_is_not_overwritten(self):
        contents = self.sets()
        subprocess.run(["cp", "--reflink=always", "-p", self.path("a/g"), self.path("a/s.1")], check=True)
        contents["a/s.1"] = contents["a/g"]
        self.tool("lzy-verify", "a", codes=[9])
        for words in (["lzy-restore", "a"], ["lzy-verify", "--repair", "a/s.%r"]):
            self.tool(*words, codes=[9])
            self.are(contents)
        self.rot("a/g", 5, 0)  # the blocks are not shared any more
        self.tool("lzy-verify", "--repair", "a/g", codes=[0])
        self.are(contents)


del Layered, OnFileSystem

if __name__ == "__main__":
    unittest.main()
