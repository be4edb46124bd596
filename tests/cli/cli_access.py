"""Who may use what lzy makes: restored files, copies, sidecars. Whatever it cannot reproduce becomes narrower, and is told."""

import os
import shutil
import struct
import subprocess
import unittest

from harness import BIN, CliTest, pattern_bytes

ACL, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
OWNER, USER, OWN_GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
NOBODY, DAEMON = 65534, 1
NARROWER = "fewer users may use it than when it was protected"


def acl(user, permissions, group, mask, other=0, owner=6):
    """As linux/posix_acl_xattr.h has it."""
    none = 0xffffffff
    entries = [(OWNER, owner, none), (USER, permissions, user), (OWN_GROUP, group, none), (MASK, mask, none), (OTHER, other, none)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@unittest.skipUnless(os.geteuid() == 0, "needs root, to give files to others")
class Access(CliTest):
    def setUp(self):
        super().setUp()
        self.write("f", pattern_bytes(100_000))
        try:
            os.setxattr(self.path("f"), ACL, acl(NOBODY, 4, 0, 4))
            os.removexattr(self.path("f"), ACL)
        except OSError:
            self.skipTest("no ACLs on this file system")
        os.chmod(self.path("f"), 0o600)

    def test_a_file_that_nobody_may_write(self):
        self.write("d", pattern_bytes(100_000))
        self.age("d")
        self.check(0, "lzy-protect", "d")
        self.flip("d", 10)
        sidecar = self.read(".LZY.d")
        if subprocess.run(["chattr", "+i", self.path("d")], capture_output=True, check=False).returncode != 0:
            self.skipTest("no immutable files on this file system")
        try:
            done = self.run_tool("lzy-verify", "--repair", "d")
        finally:
            subprocess.run(["chattr", "-i", self.path("d")], check=True)
        self.assertEqual(done.returncode, 6)
        self.assertIn("d: open: Operation not permitted", done.stderr)
        self.assertEqual(self.read(".LZY.d"), sidecar)  # without a note that a repair did not finish
        self.check(0, "lzy-verify", "--repair", "d")

    def test_a_set_behind_links_of_ones_own(self):
        for rank in range(4):
            self.write(f"disk{rank}/s", pattern_bytes(20_000, rank))
            os.symlink(f"disk{rank}", self.path(f"n{rank}"))
        self.check(0, "lzy-protect", "n%r/s")
        self.assertIn("intact (set of 4 files", self.check(0, "lzy-verify", "n%r/s").stdout)
        os.remove(self.path("disk2/s"))
        self.check(0, "lzy-restore", "n%r/s")
        self.assertEqual(self.read("disk2/s"), pattern_bytes(20_000, 2))
        # Where another user could have moved them here.
        os.chown(self.scratch, NOBODY, NOBODY)
        done = self.check(6, "lzy-verify", "n%r/s")
        self.assertIn("n0: is a symbolic link. Only links in the given PATH are followed", done.stderr)

    def mode(self, name):
        return os.stat(self.path(name)).st_mode & 0o7777

    def acl_of(self, name, which=ACL):
        try:
            return os.getxattr(self.path(name), which)
        except OSError:
            return b""

    def lose(self, *names):
        for name in names:
            os.remove(self.path(name))

    def give_acl(self, name, value=None):
        os.chown(self.path(name), 0, DAEMON)
        os.setxattr(self.path(name), ACL, value or acl(NOBODY, 4, 0, 4))

    # The mask of the ACL shows as the group's bits.
    def test_an_acl_comes_back_and_its_mask_is_not_the_groups_right(self):
        self.give_acl("f")
        self.assertEqual(self.mode("f"), 0o640)
        before = self.acl_of("f")
        self.check(0, "lzy-protect", "f")
        self.assertEqual(self.acl_of(".LZY.f"), before, "the sidecar can be read by the same users")
        self.lose("f")
        done = self.check(0, "lzy-restore", "f")
        self.assertEqual(self.acl_of("f"), before)
        self.assertEqual((self.mode("f"), os.stat(self.path("f")).st_gid), (0o640, DAEMON))
        self.assertNotIn(NARROWER, done.stderr)

    def test_a_lost_member_with_an_acl_comes_back_narrower_and_that_is_told(self):
        for rank in range(4):
            self.write(f"s.{rank}", pattern_bytes(100_000, rank))
            os.chmod(self.path(f"s.{rank}"), 0o600)
        self.give_acl("s.1")
        self.check(0, "lzy-protect", "s.%r")
        self.lose("s.1", ".LZY.s.1")
        done = self.check(0, "lzy-restore", "s.%r")
        self.assertEqual((self.mode("s.1"), self.acl_of("s.1")), (0o600, b""))
        self.assertEqual(self.mode(".LZY.s.1"), 0o600)
        self.assertIn(NARROWER, done.stderr)
        self.assertIn("setfacl", done.stderr)

    def test_a_denied_user_gets_nothing_as_one_of_the_others(self):
        for rank in range(3):
            self.write(f"s.{rank}", pattern_bytes(50_000, rank))
        os.setxattr(self.path("s.0"), ACL, acl(NOBODY, 0, 4, 4, other=4))
        self.check(0, "lzy-protect", "s.%r")
        self.lose("s.0", ".LZY.s.0")
        self.assertIn(NARROWER, self.check(0, "lzy-restore", "s.%r").stderr)
        self.assertEqual(self.mode("s.0"), 0o600)

    # The new file has an ACL of the directory from the start, and its mask opens with the mode.
    def test_the_default_acl_of_the_directory_opens_nothing(self):
        os.chmod(self.path("f"), 0o640)
        self.check(0, "lzy-protect", "f")
        os.setxattr(self.scratch, DEFAULT, acl(NOBODY, 6, 6, 6, owner=7))
        self.lose("f")
        self.check(0, "lzy-restore", "f")
        self.assertEqual((self.mode("f"), self.acl_of("f")), (0o640, b""))

    def test_a_later_change_of_the_mode_is_recorded_when_it_is_seen(self):
        # A compact sidecar, and one that is updated in place. lib/commit/access_test.cc has all tools.
        for tool, size in ((["lzy-protect"], 5_000), (["lzy-verify", "--repair"], 100_000)):
            for then, now in ((0o644, 0o600), (0o600, 0o644)):
                self.write("g", pattern_bytes(size))
                os.chmod(self.path("g"), then)
                self.check(0, "lzy-protect", "g")
                os.chmod(self.path("g"), now)
                self.check(0, *tool, "g")
                self.assertEqual(self.mode(".LZY.g"), now, tool)
                self.lose("g")
                self.check(0, "lzy-restore", "g")
                self.assertEqual(self.mode("g"), now, (tool, then, size))
                self.lose("g", ".LZY.g")

    def test_a_later_change_in_a_set_is_in_every_sidecar(self):
        for tool in (["lzy-protect"], ["lzy-scrub", "--repair"]):
            for rank in range(4):
                self.write(f"s.{rank}", pattern_bytes(200_000, rank))
                os.chmod(self.path(f"s.{rank}"), 0o644)
            self.check(0, "lzy-protect", "s.%r")
            os.chmod(self.path("s.2"), 0o600)
            os.chown(self.path("s.3"), 1234, 2345)
            self.check(0, *tool, "s.%r")
            self.lose("s.2", ".LZY.s.2")
            self.check(0, "lzy-restore", "s.%r")
            self.assertEqual(self.mode("s.2"), 0o600, tool)
            self.lose("s.3", ".LZY.s.3")
            self.check(0, "lzy-restore", "s.%r")
            self.assertEqual(os.stat(self.path("s.3")).st_uid, 1234, tool)
            for rank in range(4):
                self.lose(f"s.{rank}", f".LZY.s.{rank}")

    def test_a_new_owner_is_recorded(self):
        os.chown(self.path("f"), 1234, 2345)
        self.check(0, "lzy-protect", "f")
        os.chown(self.path("f"), 4321, 2345)
        self.check(0, "lzy-verify", "--repair", "f")
        self.assertEqual(os.stat(self.path(".LZY.f")).st_uid, 4321)
        self.lose("f")
        self.check(0, "lzy-restore", "f")
        self.assertEqual(os.stat(self.path("f")).st_uid, 4321)

    def test_nothing_to_record_is_nothing_to_do(self):
        self.give_acl("f", acl(NOBODY, 5, 1, 7))
        self.check(0, "lzy-protect", "f")
        before = self.read(".LZY.f")
        for tool in (["lzy-protect"], ["lzy-verify", "--repair"]):
            self.check(0, *tool, "f")
            self.assertEqual(self.read(".LZY.f"), before, tool)

    # Nobody saw it, but the sidecar was restricted by hand.
    def test_a_restricted_sidecar_restricts_its_file(self):
        os.chmod(self.path("f"), 0o644)
        self.check(0, "lzy-protect", "f")
        os.chmod(self.path(".LZY.f"), 0o600)
        self.lose("f")
        self.assertIn(NARROWER, self.check(0, "lzy-restore", "f").stderr)
        self.assertEqual(self.mode("f"), 0o600)

    # What is there is replaced: it is newer than the record.
    def test_what_is_replaced_limits_what_replaces_it(self):
        for rank in range(3):
            self.write(f"s.{rank}", pattern_bytes(50_000, rank))
            os.chmod(self.path(f"s.{rank}"), 0o644)
        self.check(0, "lzy-protect", "s.%r")
        os.chmod(self.path("s.1"), 0o600)
        os.chown(self.path("s.2"), 1234, 0)
        self.assertIn(NARROWER, self.check(0, "lzy-restore", "--device", "1", "s.%r").stderr)
        self.assertEqual(self.mode("s.1"), 0o600)
        self.assertIn(NARROWER, self.check(0, "lzy-restore", "--device", "2", "s.%r").stderr)
        self.assertEqual((self.mode("s.2"), os.stat(self.path("s.2")).st_uid), (0o600, 0))

    def test_copies_keep_their_acls(self):
        os.makedirs(self.path("d/sub"))
        shutil.copy2(self.path("f"), self.path("d/sub/f"))
        self.give_acl("d/sub/f", acl(NOBODY, 5, 1, 5, owner=7))
        os.chown(self.path("d/sub"), 0, DAEMON)
        os.setxattr(self.path("d/sub"), ACL, acl(NOBODY, 5, 0, 5, owner=7))
        os.setxattr(self.path("d/sub"), DEFAULT, acl(NOBODY, 7, 0, 7, owner=7))
        self.check(0, "lzy-copy", "d", "to")
        for name, which in (("sub", ACL), ("sub", DEFAULT), ("sub/f", ACL)):
            self.assertEqual(self.acl_of("to/" + name, which), self.acl_of("d/" + name, which), (name, which))
            self.assertEqual(self.mode("to/" + name), self.mode("d/" + name))
        self.assertEqual(self.acl_of("to/sub/f", DEFAULT), b"")

    def test_copies_inherit_nothing(self):
        os.makedirs(self.path("d/sub"), 0o750)
        os.chmod(self.path("d/sub"), 0o750)
        os.makedirs(self.path("to"))
        os.setxattr(self.path("to"), DEFAULT, acl(NOBODY, 7, 7, 7, owner=7))
        self.check(0, "lzy-copy", "d", "to/")
        for name in ("to/d", "to/d/sub"):
            self.assertEqual((self.acl_of(name), self.acl_of(name, DEFAULT)), (b"", b""))
        self.assertEqual(self.mode("to/d/sub"), 0o750)

    def test_a_user_who_copies_directories_of_root_gets_their_mode(self):
        """The group is another one, so it gets what others had. Members of the old group are others now: if they had less, others get that."""
        for name, mode in (("open", 0o755), ("closed", 0o705), ("group", 0o775)):
            os.makedirs(self.path(f"d/{name}"))
            os.chmod(self.path(f"d/{name}"), mode)
        os.chmod(self.path("d"), 0o755)
        os.chmod(self.scratch, 0o755)
        os.makedirs(self.path("to"))
        os.chown(self.path("to"), NOBODY, NOBODY)
        done = subprocess.run([os.path.join(BIN, "lzy-copy"), self.path("d"), self.path("to/")], user=NOBODY, group=NOBODY, extra_groups=[],
                              env=os.environ | {"HOME": self.path("to"), "LZY_CATALOG": "off"}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([self.mode(f"to/d/{name}") for name in ("open", "closed", "group")], [0o755, 0o700, 0o755])


if __name__ == "__main__":
    unittest.main()
