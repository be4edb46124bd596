"""Option stripe=servers in programs: the layer asks the file system how a file is striped. A preloaded library
(tests/support/stripes.c) makes the directory look like Lustre: it returns attributes that the test has written."""

import os
import struct
import subprocess
import unittest
import unittest.mock

from layered import BUILD, CLIENT, MPIEXEC, PATIENCE, Layer

LZY_RUN = f"{BUILD}/bin/lzy-run"
LIBRARY = f"{BUILD}/tests/libtold_stripes.so"
UNIT = 65536


def lov(unit, osts, count=None):
    """struct lov_user_md_v1 as a client of Lustre gives it."""
    header = struct.pack("<II16sIHH", 0x0BD10BD0, 1, bytes(16), unit, len(osts) if count is None else count, 0)
    return header + b"".join(struct.pack("<16sII", bytes(16), 0, ost) for ost in osts)


class Stripes(Layer):
    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def run_striped(self, action, data, *options):
        """A program under lzy-run; every file has the layout `data`, every sidecar is on OSTs 14 and 15."""
        self.write("f.lov", data)
        self.write("sidecar.lov", lov(UNIT, [14, 15]))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        command = [LZY_RUN, "--block-size", "4K", "--report", self.path("report"), *options, "--", MPIEXEC, "-n", "2", CLIENT, action, "f", ""]
        done = subprocess.run(command, cwd=self.dir, env={**environment, "LD_PRELOAD": LIBRARY}, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def told(self, *options):
        """The report of lzy-info, if the file system reports its stripes."""
        with unittest.mock.patch.dict(os.environ, LD_PRELOAD=LIBRARY):
            return self.info("f", *options)

    def test_a_program_makes_one_server_one_device(self):
        self.quiet(self.run_striped("slabs", lov(UNIT, [3, 0, 10]), "--stripe", "servers"))
        [report] = self.reports()
        self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))  # captured in this geometry
        info = self.told("--map")
        self.assertEqual((info["devices"], info["unit"], info["warnings"]), (3, UNIT, []))
        self.assertEqual([device["server"] for device in info["map"][0]], ["OST0003", "OST0000", "OST000a"])
        self.assertTrue(info["stripes"]["by_servers"])
        # The data on OST 0 are lost.
        right = self.content("f")
        self.assertGreater(len(right), 3 * UNIT)
        lost = bytearray(right)
        for at in range(UNIT, len(lost), 3 * UNIT):
            lost[at:at + UNIT] = bytes(len(lost[at:at + UNIT]))
        times = os.stat(self.path("f"))
        self.write("f", lost)
        os.utime(self.path("f"), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual(self.verify(), 1)
        self.assertEqual(self.run_tool("lzy-verify", "--repair", "f").returncode, 0)
        self.assertEqual(self.content("f"), right)
        # The next program keeps this geometry, even if the file system reports other stripes then.
        self.quiet(self.run_striped("scattered_updates", lov(UNIT, [1, 2]), "--stripe", "servers"))
        self.assertEqual(self.told()["devices"], 3)
        self.assertEqual(self.verify(), 0)

    def test_what_makes_no_sense_changes_nothing(self):
        for attribute, why in ((lov(UNIT, [1]), "one server, OST0001"), (lov(UNIT, [1, 2], 999), "cut off"), (b"\xff" * 40, "make no sense")):
            with self.subTest(why=why):
                self.clear()
                done = self.run_striped("slabs", attribute, "--stripe", "servers")
                self.assertEqual(done.stderr.count("stripe=servers changes nothing: "), 1, done.stderr)
                self.assertIn(why, done.stderr)
                self.assertEqual(self.told()["devices"], 8)
                self.assertEqual(self.verify(), 0)


if __name__ == "__main__":
    unittest.main()
