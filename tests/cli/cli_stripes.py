"""Option stripe=servers, on what a preloaded library (tests/support/stripes.c) makes look like Lustre."""

import os
import struct

from harness import BIN, CliTest, pattern_bytes

LIBRARY = os.path.join(BIN, "..", "tests", "libtold_stripes.so")
UNIT = 65536


def lov(unit, osts, count=None):
    """struct lov_user_md_v1 as a client of Lustre gives it."""
    header = struct.pack("<II16sIHH", 0x0BD10BD0, 1, bytes(16), unit, len(osts) if count is None else count, 0)
    return header + b"".join(struct.pack("<16sII", bytes(16), 0, ost) for ost in osts)


class Stripes(CliTest):
    def striped(self, data, sidecar=None, **more):
        """A file of 20 units with these attributes, and the environment for tools."""
        self.content = pattern_bytes(20 * UNIT + 5)
        self.write("f", self.content)
        self.age("f")
        self.write("f.lov", data)
        self.write("sidecar.lov", lov(UNIT, [14, 15]) if sidecar is None else sidecar)
        return {"LD_PRELOAD": LIBRARY, "STRIPES_COUNT": self.path("count"), **more}

    def test_one_server_is_one_device(self):
        env = self.striped(lov(UNIT, [3, 0, 10]))
        made = self.report(0, "lzy-protect", "--stripe", "servers", "f", env=env)["datasets"][0]
        self.assertEqual(made["warnings"], [])
        self.assertEqual(len(self.read("count")), 2)  # once of the file, once of its sidecar
        info = self.report(0, "lzy-info", "--map", "f", env=env)["datasets"][0]
        self.assertEqual((info["devices"], info["unit"], info["warnings"]), (3, UNIT, []))
        self.assertEqual([d["server"] for d in info["map"][0]], ["OST0003", "OST0000", "OST000a"])
        self.assertEqual(info["stripes"], {"file_system": "Lustre", "unit": UNIT, "servers": 3, "redundant": False, "by_servers": True,
                                           "worst_server": {"server": info["stripes"]["worst_server"]["server"], "blocks_of_a_row": 1}})
        text = self.check(0, "lzy-info", "--map", "f", env=env).stdout
        self.assertIn("stripes:   Lustre, 64 KiB on 3 servers (stripe=servers)", text)
        self.assertIn("server OST000a", text)
        # What was on OST 0 is lost.
        lost = bytearray(self.content)
        for at in range(UNIT, len(lost), 3 * UNIT):
            lost[at:at + UNIT] = bytes(len(lost[at:at + UNIT]))
        times = os.stat(self.path("f"))
        self.write("f", bytes(lost))
        os.utime(self.path("f"), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.check(1, "lzy-verify", "f")
        self.check(0, "lzy-verify", "--repair", "f")
        self.assertEqual(self.read("f"), self.content)
        # Elsewhere nobody tells stripes, and it stays what it is.
        self.assertFalse(self.report(0, "lzy-protect", "f")["datasets"][0]["committed"])
        self.assertNotIn("stripes", self.report(0, "lzy-info", "f")["datasets"][0])

    def test_without_the_option(self):
        env = self.striped(lov(UNIT, [1, 2, 3]))
        self.check(0, "lzy-protect", "f", env=env)
        self.assertFalse(os.path.exists(self.path("count")))
        info = self.report(0, "lzy-info", "f", env=env)["datasets"][0]
        self.assertEqual(info["devices"], 8)
        self.assertEqual(len(info["warnings"]), 1)
        self.assertIn("Option stripe=servers makes a device of each server", info["warnings"][0])

    def test_what_makes_no_sense_changes_nothing(self):
        for attribute, why in ((lov(UNIT, [1]), "one server, OST0001"), (lov(0, [1, 2]), "make no sense"), (lov(UNIT, [1, 2], 999), "cut off"),
                               (b"\xff" * 40, "make no sense")):
            with self.subTest(why=why):
                env = self.striped(attribute)
                made = self.report(0, "lzy-protect", "--stripe", "servers", "f", env=env)["datasets"][0]
                self.assertEqual(len(made["warnings"]), 1)
                self.assertIn("stripe=servers changes nothing: ", made["warnings"][0])
                self.assertIn(why, made["warnings"][0])
                root = made["root"]
                os.remove(self.path(".LZY.f"))
                self.assertEqual(self.report(0, "lzy-protect", "f")["datasets"][0]["root"], root)
                os.remove(self.path(".LZY.f"))
