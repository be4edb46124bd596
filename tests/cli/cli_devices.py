"""Shared files with device directories: what the tools make there, find there, and repair."""

import os
import shutil
import subprocess
import unittest

from harness import BIN, CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K")
SIZE = 700001


class Devices(CliTest):
    DEVICES = ("d0", "d1", "d2", "d3", "d4")
    DIRECTORIES = ":".join(DEVICES)

    def protect(self, name="f", *options, ranks=None):
        for device in self.DEVICES:
            os.makedirs(self.path(device), exist_ok=True)
        self.write(name, pattern_bytes(SIZE))
        self.age(name)
        self.check(0, "lzy-protect", *SMALL, "--parity", "2", "--device-dirs", self.DIRECTORIES, *options, name, ranks=ranks)

    def part(self, device):
        names = os.listdir(self.path(device))
        self.assertEqual(len(names), 1, names)
        return os.path.join(device, names[0])

    def lose(self, number, name="f"):
        """The device's units and its directory."""
        unit = 16384
        stat = os.stat(self.path(name))
        with open(self.path(name), "r+b") as file:
            for at in range(number * unit, SIZE, len(self.DEVICES) * unit):
                file.seek(at)
                file.write(bytes(min(unit, SIZE - at)))
        os.utime(self.path(name), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        shutil.rmtree(self.path(self.DEVICES[number]))


class FullDirectory(Devices):
    def test_a_full_directory_keeps_nobody_from_repairing_data(self):
        self.protect()
        self.lose(1)
        os.mkdir(self.path("d1"))
        # A file system of its own, with no room for the part.
        commands = (f"mount -t tmpfs -o size=16k none {self.path('d1')} && {BIN}/lzy-restore f; echo rc $?; ls -A d1; "
                    f"{BIN}/lzy-verify f; echo rc $?")
        done = subprocess.run(["unshare", "-rm", "sh", "-c", commands], cwd=self.scratch, capture_output=True, text=True,
                              timeout=60, check=False)
        if "rc" not in done.stdout:
            self.skipTest("no mount namespaces here")
        self.assertEqual(self.read("f"), pattern_bytes(SIZE), done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("rc 1"), 2, done.stdout + done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertNotIn(".LZY", done.stdout.split("rc 1")[1].splitlines()[1], "no half of a part is left")
        os.makedirs(self.path("d1"), exist_ok=True)
        self.check(0, "lzy-restore", "f")
        self.check(0, "lzy-verify", "f")


class LostDevices(Devices):
    def test_two_devices_with_all_that_was_on_them(self):
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                self.protect(ranks=ranks)
                root = self.report(0, "lzy-verify", "f", ranks=ranks)["datasets"][0]["root"]
                self.lose(1)
                self.lose(4)
                damage = self.report(1, "lzy-verify", "f", ranks=ranks)["datasets"][0]["damage"]
                self.assertEqual({entry["device"] for entry in damage}, {1, 4})
                self.assertEqual({entry["part"] for entry in damage}, {"data", "parity", "metadata"})
                done = self.check(1, "lzy-restore", "f", ranks=ranks)  # the data, but not what has no place
                self.assertIn("device directory 1 is not there: mount it or make it", done.stderr)
                self.assertEqual(self.read("f"), pattern_bytes(SIZE))
                damage = self.report(1, "lzy-verify", "f", ranks=ranks)["datasets"][0]["damage"]
                self.assertEqual({entry["part"] for entry in damage}, {"parity", "metadata"})
                for device in ("d1", "d4"):
                    os.mkdir(self.path(device))
                self.check(0, "lzy-restore", "f", ranks=ranks)
                self.assertEqual(self.read("f"), pattern_bytes(SIZE))
                self.assertEqual(self.report(0, "lzy-verify", "--from-disk", "f", ranks=ranks)["datasets"][0]["root"], root)

    def test_three_are_beyond_repair(self):
        self.protect()
        for number in (0, 2, 3):
            self.lose(number)
            os.mkdir(self.path(self.DEVICES[number]))
        before = self.read("f")
        done = self.check(2, "lzy-restore", "f")
        self.assertIn("device 2", done.stdout)
        self.assertEqual(self.read("f"), before)
        self.assertEqual(os.listdir(self.path("d0")), [])

    def test_a_named_device_is_made_again(self):
        self.protect()
        inode = os.stat(self.path(self.part("d2"))).st_ino
        done = self.check(0, "lzy-restore", "--device", "2", "f")
        self.assertIn("device 2", done.stdout)
        self.assertEqual(os.stat(self.path(self.part("d2"))).st_ino, inode)
        self.check(0, "lzy-verify", "f")

    def test_directories_that_are_elsewhere_now(self):
        self.protect()
        os.rename(self.path("d1"), self.path("moved"))
        shutil.rmtree(self.path("d3"))
        os.mkdir(self.path("new"))
        now = "d0:moved:d2:new:d4"
        document = self.report(1, "lzy-verify", "--device-dirs", now, "f")
        self.assertEqual({entry["device"] for entry in document["datasets"][0]["damage"]}, {3})
        self.check(0, "lzy-restore", "f", env={"LZY_DEVICE_DIRS": now})
        self.check(0, "lzy-verify", "f")
        where = self.report(0, "lzy-info", "--map", "f")["datasets"][0]["map"][0]
        self.assertEqual([os.path.basename(device["path"]) for device in where], ["d0", "moved", "d2", "new", "d4"])

    def test_sidecar(self):
        self.protect()
        os.remove(self.path(".LZY.f"))
        self.check(4, "lzy-verify", "f")
        done = self.check(1, "lzy-verify", "--device-dirs", self.DIRECTORIES, "f")
        self.assertIn(".LZY.f: metadata, offset 0, length 0, device 0: missing; repairable", done.stdout)
        self.assertIn(f"restore with: lzy-restore --device-dirs {self.DIRECTORIES} f", done.stdout)
        self.check(0, "lzy-restore", "--device-dirs", self.DIRECTORIES, "f")
        self.check(0, "lzy-verify", "f")

    def test_of_a_sealed_file(self):
        self.write("key", pattern_bytes(32, seed=5))
        os.chmod(self.path("key"), 0o600)
        self.protect("f", "--key", "key")
        self.lose(0)
        os.mkdir(self.path("d0"))
        os.remove(self.path(".LZY.f"))
        for words in (("lzy-verify",), ("lzy-protect",), ("lzy-restore",)):
            self.check(3, *words, "--device-dirs", self.DIRECTORIES, "f")
        self.assertFalse(os.path.exists(self.path(".LZY.f")))
        self.check(0, "lzy-restore", "--key", "key", "--device-dirs", self.DIRECTORIES, "f")
        self.assertEqual(self.read("f"), pattern_bytes(SIZE))
        self.check(0, "lzy-verify", "--key", "key", "f")


class DestroyedSidecar(Devices):
    def test_the_advice_heals(self):
        """One server of the file system lost what it had, and the sidecar was destroyed."""
        self.protect()
        self.lose(1)
        os.truncate(self.path(".LZY.f"), 0)
        damaged = self.read("f")
        said = self.check(4, "lzy-verify", "f").stderr
        self.assertNotIn("lzy-protect f", said)
        self.assertIn("if its parity is in device directories, name these with --device-dirs: then they tell what it was", said)
        self.check(4, "lzy-protect", "f")
        self.check(4, "lzy-restore", "f")
        self.assertEqual((self.read("f"), self.read(".LZY.f")), (damaged, b""))
        os.mkdir(self.path("d1"))
        self.check(1, "lzy-protect", "--device-dirs", self.DIRECTORIES, "f")
        self.assertEqual(self.read("f"), damaged)
        os.truncate(self.path(".LZY.f"), 0)
        self.check(0, "lzy-restore", "--device-dirs", self.DIRECTORIES, "f")
        self.assertEqual(self.read("f"), pattern_bytes(SIZE))
        self.check(0, "lzy-verify", "f")


class PartsOfParity(Devices):
    def test_one_root_for_directories_and_one_sidecar(self):
        self.protect()
        self.write("g", pattern_bytes(SIZE))
        self.check(0, "lzy-protect", *SMALL, "--parity", "2", "--group", "5", "g")
        one, other = (self.report(0, "lzy-info", name)["datasets"][0] for name in ("f", "g"))
        self.assertEqual(one["root"], other["root"])

    def test_parts_are_no_files_to_protect(self):
        self.protect()
        self.check(0, "lzy-protect", ".")
        self.assertEqual(sorted(os.listdir(self.path("."))), [".LZY.f", "d0", "d1", "d2", "d3", "d4", "f"])

    def test_two_files_of_one_name_share_directories(self):
        for name in ("a/f", "b/f"):
            self.protect(name)
        self.assertEqual(len(os.listdir(self.path("d0"))), 2)
        self.check(0, "lzy-verify", "a", "b")
        self.check(0, "lzy-info", "--prune", ".")
        self.assertEqual(len(os.listdir(self.path("d0"))), 2)
        shutil.rmtree(self.path("a"))
        done = self.check(0, "lzy-info", "--prune", "d0", "d1")
        self.assertIn("which has no sidecar there that says so; rm it if that file is gone", done.stdout)
        self.assertEqual(len(os.listdir(self.path("d0"))), 2)
        os.rename(self.path("b"), self.path("moved"))
        self.check(0, "lzy-info", "--prune", "d0")
        self.check(0, "lzy-verify", "moved")

    def test_prune_removes_what_was_replaced(self):
        self.protect()
        kept = self.path("kept")
        shutil.copy2(self.path(self.part("d0")), kept)
        name = self.part("d0")
        self.check(0, "lzy-protect", "--parity", "1", "f")
        shutil.move(kept, self.path(name))  # as if nobody had got round to removing it
        self.assertEqual(len(os.listdir(self.path("d0"))), 2)
        self.assertIn("has other parts by now; removing it", self.check(0, "lzy-info", "--prune", "d0").stdout)
        self.assertEqual(len(os.listdir(self.path("d0"))), 1)
        self.check(0, "lzy-verify", "f")

    def test_nobody_sees_more_in_parts_than_in_the_file(self):
        self.write("f", b"")
        os.chmod(self.path("f"), 0o600)
        self.protect()
        self.assertEqual(os.stat(self.path(self.part("d1"))).st_mode & 0o777, 0o600)
        os.chmod(self.path("f"), 0o644)
        self.check(0, "lzy-protect", "--device-dirs", "", "f")
        self.protect()
        self.assertEqual(os.stat(self.path(self.part("d1"))).st_mode & 0o777, 0o644)
        os.chmod(self.path("f"), 0o600)
        self.flip(self.part("d1"), 100)
        self.check(0, "lzy-verify", "--repair", "f")
        self.assertEqual(os.stat(self.path(self.part("d2"))).st_mode & 0o777, 0o600)


del CliTest, Devices  # have no tests of their own

if __name__ == "__main__":
    unittest.main()
