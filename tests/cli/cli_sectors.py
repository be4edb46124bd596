"""Sectors that cannot be read, as a preloaded library (tests/support/bad_sectors.c) has them."""

import os

from harness import BIN, CliTest, pattern_bytes

LIBRARY = os.path.join(BIN, "..", "tests", "libbad_sectors.so")
BLOCK = 512


class BadSectors(CliTest):
    def test_what_is_beside_a_bad_sector_is_read(self):
        """On a device that reads sector by sector: a reading that ends before its end is no end of the file."""
        content = pattern_bytes(3 * BLOCK + 100)
        for sector in range(1, 4):
            with self.subTest(sector=sector):
                for rank in range(3):
                    self.write(f"{sector}/s.{rank}", pattern_bytes(5 * BLOCK, seed=rank) if rank else content)
                    self.age(f"{sector}/s.{rank}")
                self.check(0, "lzy-protect", "--block-size", "512", "--stripe", "512", f"{sector}/s.%r")
                inode = os.stat(self.path(f"{sector}/s.0")).st_ino
                self.write("bad", f"{inode} {sector * BLOCK} {min(BLOCK, len(content) - sector * BLOCK)}\n".encode())
                env = {"LD_PRELOAD": LIBRARY, "BAD_SECTORS": self.path("bad"), "BAD_SECTORS_PAGE": "512"}
                for tool in (["lzy-verify"], ["lzy-verify", "--from-disk"], ["lzy-restore"]):
                    fixed = tool == ["lzy-restore"]
                    damage = self.report(0 if fixed else 1, *tool, f"{sector}/s.%r", env=env)["datasets"][0]["damage"]
                    self.assertEqual([(d["path"], d["offset"], d["cause"], d["repaired"]) for d in damage],
                                     [(f"{sector}/s.0", sector * BLOCK, "unreadable", fixed)], tool)
                self.assertEqual(self.read(f"{sector}/s.0"), content)
                self.assertEqual(self.read("bad"), b"")
                self.check(0, "lzy-verify", f"{sector}/s.%r", env=env)
