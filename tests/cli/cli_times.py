"""Files whose times are not those of their commit although nothing was edited, and file systems with times of whole seconds."""

import os
import shutil
import subprocess

import harness


class Unpacked(harness.CliTest):
    """As from an archive with times of whole seconds, and as after cp -r."""

    FILES = ("d/s.0", "d/s.1", "d/s.2", "e/f")

    def protect(self):
        for name in self.FILES:
            self.write(name, harness.pattern_bytes(70_000, seed=len(name)))
            self.age(name)
        self.check(0, "lzy-protect", "d/s.%r", "e/f", "--parity=1")

    def unpack(self):
        for name in self.FILES:
            second = os.stat(self.path(name)).st_mtime_ns // 10**9 * 10**9 - 10**9
            os.utime(self.path(name), ns=(second, second))

    def copy(self):
        os.mkdir(self.path("was"))
        for tree in ("d", "e"):
            os.rename(self.path(tree), self.path("was/" + tree))
            subprocess.run(["cp", "-r", "was/" + tree, tree], cwd=self.scratch, check=True)
        for name in self.FILES:
            self.age(name)

    def test_times_are_taken_once_the_content_is_proven(self):
        for change in (self.unpack, self.copy):
            for tool in ("lzy-verify --repair", "lzy-scrub --repair", "lzy-protect"):
                with self.subTest(change=change.__name__, tool=tool):
                    shutil.rmtree(self.scratch)
                    os.mkdir(self.scratch)
                    self.protect()
                    change()
                    times = {name: os.stat(self.path(name)).st_mtime_ns for name in ("d/s.1", "e/f")}
                    found = self.check(0, "lzy-verify", "d/s.%r", "e/f")
                    for path in ("d/s.%r", "e/f"):
                        self.assertIn("times differ from the last commit, content proven; to record the new times: "
                                      f"lzy-verify --repair {path}\n", found.stdout)
                    self.assertEqual([one["stamps"] for one in self.report(0, "lzy-verify", "d/s.%r", "e/f")["datasets"]],
                                     ["times-differ"] * 2)
                    self.assertEqual(self.check(0, "lzy-verify", "--quiet", "e/f").stdout, "")
                    self.check(0, *tool.split(), "d/s.%r", "e/f")
                    self.assertNotIn("times", self.check(0, "lzy-verify", "d/s.%r", "e/f").stdout)
                    for name, mtime in times.items():
                        self.assertEqual(os.stat(self.path(name)).st_mtime_ns, mtime)
                        whole = self.read(name)
                        self.flip(name, 12345)
                        path = name if name == "e/f" else "d/s.%r"
                        self.assertIn("damaged", self.check(1, "lzy-verify", path).stdout)
                        self.check(0, "lzy-verify", "--repair", path)
                        self.assertEqual(self.read(name), whole)

    def test_a_dry_run_takes_none(self):
        self.protect()
        self.unpack()
        before = self.read("e/.LZY.f")
        self.assertIn("lzy-verify --repair e/f", self.check(0, "lzy-verify", "--repair", "--dry-run", "e/f").stdout)
        self.assertEqual(self.read("e/.LZY.f"), before)


    def test_times_that_cannot_be_recorded_yet_are_not_advised(self):
        self.protect()
        future = 4_000_000_000 * 10**9
        os.utime(self.path("e/f"), ns=(future, future))
        for tool in ("lzy-verify", "lzy-verify --repair", "lzy-verify"):
            self.assertNotIn("lzy-verify --repair", self.check(0, *tool.split(), "e/f").stdout)


class WholeSeconds(harness.CliTest):
    """ext4 with inodes of 128 bytes keeps no parts of seconds."""

    def setUp(self):
        super().setUp()
        if shutil.which("mkfs.ext4") is None:
            self.skipTest("mkfs.ext4 is not installed")
        image, self.disk = self.path("image"), self.path("disk")
        os.mkdir(self.disk)
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-I", "128", image], check=True, capture_output=True, timeout=60)
        done = subprocess.run(["mount", "-o", "loop", image, self.disk], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no file system of its own: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)

    def second_of(self, name):
        return os.stat(self.path(name)).st_mtime

    def test_an_edit_within_the_second_of_the_commit_is_kept(self):
        for _ in range(20):  # the second may end in between
            self.write("disk/f", harness.pattern_bytes(100_000))
            self.check(0, "lzy-protect", "disk/f")
            written = self.second_of("disk/f")
            with open(self.path("disk/f"), "r+b") as file:
                file.seek(50_000)
                file.write(b"an edit")
            if self.second_of("disk/f") == written:
                break
        self.assertEqual(self.second_of("disk/f"), written, "no try came within one second")
        edited = self.read("disk/f")
        for words in (["lzy-verify"], ["lzy-verify", "--repair"], ["lzy-scrub", "--repair"], ["lzy-restore"]):
            self.assertIn("stale", self.check(9, *words, "disk/f").stdout)
            self.assertEqual(self.read("disk/f"), edited)
        self.check(0, "lzy-protect", "disk/f")
        self.assertEqual(self.read("disk/f"), edited)

    def test_rot_of_an_old_file_is_repaired(self):
        self.write("disk/f", harness.pattern_bytes(100_000))
        self.age("disk/f")
        self.check(0, "lzy-protect", "disk/f")
        self.flip("disk/f", 50_000)
        self.check(1, "lzy-verify", "disk/f")
        self.check(0, "lzy-verify", "--repair", "disk/f")
        self.assertEqual(self.read("disk/f"), harness.pattern_bytes(100_000))
