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

    def test_a_wrong_reading_is_no_repair(self):
        self.write("f", pattern_bytes(20 * BLOCK))
        self.age("f")
        self.check(0, "lzy-protect", "--block-size", "512", "f")
        self.write("wrong", f"{os.stat(self.path('f')).st_ino} {3 * BLOCK}".encode())
        done = self.check(0, "lzy-verify", "f", env={"LD_PRELOAD": LIBRARY, "WRONG_ONCE": self.path("wrong")})
        self.assertEqual(self.read("wrong"), b"")
        self.assertIn("differs from its hash; a second read was right", done.stdout)
        self.assertNotIn("repaired", done.stdout)

    def test_a_sidecar_that_cannot_be_read_is_not_destroyed(self):
        self.write("f", pattern_bytes(200 * BLOCK))
        self.check(0, "lzy-protect", "--block-size", "512", "f")
        sidecar = os.stat(self.path(".LZY.f"))
        self.flip("f", 1000)
        before = self.read("f"), self.read(".LZY.f")
        # A page is bad if a sector in it is.
        self.write("bad", "".join(f"{sidecar.st_ino} {at} 1\n" for at in range(0, sidecar.st_size, 4096)).encode())
        env = {"LD_PRELOAD": LIBRARY, "BAD_SECTORS": self.path("bad")}
        for words in (["lzy-verify"], ["lzy-verify", "--repair"], ["lzy-restore"], ["lzy-protect"], ["lzy-protect", "--force"]):
            done = self.check(6, *words, "f", env=env)
            self.assertIn(".LZY.f: read of", done.stderr)
            self.assertIn("what is there may be whole. Look at the log of the kernel", done.stderr)
            self.assertNotRegex(done.stdout + done.stderr, r"lzy-protect (--force )?f\b")
        self.assertEqual((self.read("f"), self.read(".LZY.f")), before)
        self.check(0, "lzy-verify", "--repair", "f")
        self.assertEqual(self.read("f"), pattern_bytes(200 * BLOCK))
