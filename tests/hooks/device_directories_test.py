"""Shared files whose parity is in parts, one in each device directory."""

import os
import shutil
import unittest

from layered import WRITE_CALLS, Layer


class DeviceDirectories(Layer):
    """Parity of shared files in parts, one a directory."""

    GEOMETRY = {"block_size": "4K", "stripe": "64K", "parity": 2}

    def setUp(self):
        super().setUp()
        self.directories = [self.path(f"d{device}") for device in range(4)]
        for directory in self.directories:
            os.mkdir(directory)
        self.options = {**self.GEOMETRY, "device_dirs": ":".join(self.directories)}

    def parts(self):
        return [len(os.listdir(directory)) for directory in self.directories]

    def lose(self, device, unit):
        """Its units of the file, and its directory's content."""
        for at in range(device * unit, os.path.getsize(self.path("f")), len(self.directories) * unit):
            self.damage("f", at)
        for part in os.listdir(self.directories[device]):
            os.remove(os.path.join(self.directories[device], part))

    def test_a_checkpoint_is_not_read_back(self):
        for ranks in [1, 2, 3]:
            with self.subTest(ranks=ranks):
                for name in self.files():
                    if name in ("f", ".LZY.f", "report"):
                        os.remove(self.path(name))
                self.quiet(self.client("slabs", ranks=ranks, report="report", **self.options))
                [report] = self.reports()
                self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))
                self.assertEqual(self.verify(), 0)
                # The same data, and so the same root, as with one sidecar.
                here = self.info()["root"]
                self.client("slabs", name="g", ranks=ranks, group=4, **self.GEOMETRY)
                self.assertEqual(self.info("g")["root"], here)
                before = self.content("f")
                unit = self.info()["unit"]
                for device in [0, 3]:
                    self.lose(device, unit)
                self.assertEqual(self.verify(), 1)
                self.assertEqual(self.run_tool("lzy-restore", "--quiet", "f").returncode, 0)
                self.assertEqual((self.content("f"), self.verify()), (before, 0))

    def test_commits_in_place(self):
        self.quiet(self.client("rounds", ranks=3, report="report", block_size="4K", stripe="4K", device_dirs=self.options["device_dirs"]))
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.parts(), [1, 1, 1, 1])
        reports = self.reports()
        self.assertEqual([report["generation"] for report in reports], [1, 2, 3])
        for report in reports[1:]:
            self.assertLess(report["bytes_reread"], report["bytes"])

    def test_an_update_after_a_lost_part_encodes_the_whole_file(self):
        self.client("slabs", **self.options)
        self.lose(1, self.info()["unit"])
        self.assertEqual(self.run_tool("lzy-verify", "--repair", "--quiet", "f").returncode, 0)
        [part] = os.listdir(self.directories[1])
        os.remove(os.path.join(self.directories[1], part))
        self.quiet(self.client("scattered_updates", ranks=3, **self.options))
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.parts(), [1, 1, 1, 1])

    def test_delete_removes_the_parts(self):
        done = self.run_program([WRITE_CALLS, "--call", "write_at_all", "f"], **self.options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parts(), [1, 1, 1, 1])
        done = self.run_program([WRITE_CALLS, "--call", "delete", "f"], **self.options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parts(), [0, 0, 0, 0])

    def test_without_a_device_directory_writes_succeed_unprotected(self):
        self.client("slabs", **self.options)
        shutil.rmtree(self.directories[2])
        done = self.client("scattered_updates", ranks=2, **self.options)
        self.assertRegex(done.stderr, r"^lzy: .*/d2.*not there[^\n]*\n$")
        self.assertEqual(self.verify(), 1)  # at risk, too
        os.mkdir(self.directories[2])
        self.quiet(self.client("scattered_updates", ranks=2, **self.options))
        self.assertEqual(self.verify(), 0)

    def test_a_lost_sidecar_is_recovered_from_a_spare(self):
        """And what a lost device has done to the file is not taken for new."""
        self.client("slabs", **self.options)
        before = self.content("f")
        os.remove(self.path(".LZY.f"))
        at = len(before) - 1000
        self.damage("f", at)
        self.client("scattered_updates", ranks=1, **self.options)
        self.assertEqual(self.run_tool("lzy-verify", "--repair", "--quiet", "f").returncode, 0)
        self.assertEqual(self.content("f")[at], before[at])

    def test_directories_that_cannot_be_used(self):
        for directories, why in [("d0:none", "does not exist"), ("d0:d0", "named twice")]:
            with self.subTest(directories):
                done = self.client("slabs", name="h", **self.GEOMETRY | {"parity": 1}, device_dirs=directories)
                self.assertRegex(done.stderr, f"^lzy: .*device-dirs: .*{why}.*\n$")
                self.assertRegex(done.stderr, f"with: lzy-protect .*--parity 1 .*--device-dirs {directories} ")
                self.assertFalse(any(self.parts()))


if __name__ == "__main__":
    unittest.main()
