"""Parity that was computed wrongly: by a library that errs (tests/support/other_isal.c), or committed so."""

import os

from harness import BIN, CliTest, pattern_bytes

LIBRARY = os.path.join(BIN, "..", "tests", "libother_isal.so")
BLOCK = 4096


def with_isal(kind):
    return {"LD_PRELOAD": LIBRARY, "OTHER_ISAL": kind}


class ParityTest(CliTest):
    def all_files(self):
        return {name: self.read(name) for name in os.listdir(self.scratch) if os.path.isfile(self.path(name))}


class OtherLibrary(ParityTest):
    def make_set(self, members, size=3 * BLOCK):
        for rank in range(members):
            self.write(f"s.{rank}", pattern_bytes(size, seed=rank))
            self.age(f"s.{rank}")

    def test_tables_of_another_version_give_the_same_parity(self):
        self.make_set(12)
        before = self.all_files()
        words = ["--parity", "8", "--group", "12", "--block-size", "4K", "s.%r"]
        self.check(0, "lzy-protect", *words, env=with_isal("gfni"))
        self.check(0, "lzy-verify", "s.%r")
        for rank in range(8):
            os.remove(self.path(f"s.{rank}"))
            os.remove(self.path(f".LZY.s.{rank}"))
        self.check(0, "lzy-restore", "s.%r")
        self.assertEqual({name: self.read(name) for name in before}, before)

    def test_a_library_that_computes_wrongly_commits_nothing(self):
        self.make_set(5)
        self.write("f", pattern_bytes(9 * BLOCK))
        before = self.all_files()
        for words in (["s.%r"], ["f"], ["--device-dirs", "a:b:c:d", "f"]):
            for directory in "abcd":
                os.makedirs(self.path(directory), exist_ok=True)
            done = self.check(7, "lzy-protect", "--parity", "2", "--group", "4", *words, env=with_isal("rows"))
            self.assertRegex(done.stderr, r"ISA-L \(.*libother_isal.so\) computes wrongly on this processor")
            self.assertEqual(self.all_files(), before)
            self.assertEqual([name for directory in "abcd" for name in os.listdir(self.path(directory))], [])

    def test_the_commit_of_before_still_counts(self):
        self.write("f", pattern_bytes(9 * BLOCK))
        self.age("f")
        self.check(0, "lzy-protect", "--parity", "2", "--group", "4", "f")
        self.write("f", pattern_bytes(9 * BLOCK, seed=2))
        before = self.all_files()
        self.check(7, "lzy-protect", "f", env=with_isal("rows"))
        self.assertEqual(self.all_files(), before)
        self.check(0, "lzy-protect", "f")


class WrongParityTest(ParityTest):
    """Committed by a library that computes what is 4096 bytes long wrongly: rows of one block of that size."""

    SMALL = ["--parity", "2", "--block-size", "4K", "--stripe", "4K"]

    def protect(self, *words, **more):
        self.check(0, "lzy-protect", *words, env=with_isal("short"), **more)

    def check_all(self, path, files, options=(), **more):
        """What --encode finds, and no other check; what it repairs. `files`: those with parity."""
        self.assertEqual(self.report(0, "lzy-verify", *options, path, **more)["datasets"][0]["damage"], [])
        found = self.report(1, "lzy-verify", "--encode", *options, path, **more)["datasets"][0]
        self.assertEqual(found["state"], "damaged")
        self.assertEqual({(d["part"], d["cause"], d["repaired"]) for d in found["damage"]}, {("parity", "encoding", False)})
        self.assertEqual({d["path"] for d in found["damage"]}, set(files))
        self.assertEqual(found["bytes_encoded"], found["bytes"])
        self.check(0, "lzy-verify", "--repair", *options, path, **more)
        done = self.check(1, "lzy-verify", "--encode", "--repair", "--dry-run", *options, path, **more)
        self.assertIn("would be repaired", done.stdout)
        fixed = self.report(0, "lzy-verify", "--encode", "--repair", *options, path, **more)["datasets"][0]
        self.assertEqual([d["repaired"] for d in fixed["damage"]], [True] * len(found["damage"]))
        self.assertEqual(fixed["root"], found["root"])
        self.assertEqual(fixed["generation"], found["generation"] + 1)
        self.assertEqual(self.report(0, "lzy-verify", "--encode", *options, path, **more)["datasets"][0]["state"], "intact")

    def make(self, name, size, seed=1):
        self.write(name, pattern_bytes(size, seed=seed))
        self.age(name)


class WrongParity(WrongParityTest):
    def test_shared_file(self):
        self.make("f", 11 * BLOCK + 5)
        self.protect("--group", "4", *self.SMALL, "f")
        text = self.check(1, "lzy-verify", "--encode", "f").stdout
        self.assertIn("f: damaged, repairable", text)
        self.assertIn("parity compared: 44 KiB of data were encoded again", text)
        self.assertIn("several devices: is not what the data of its rows give; repairable", text)
        self.assertIn("repair with: lzy-verify --encode --repair f", text)
        self.check_all("f", [".LZY.f"])
        for offset in (0, BLOCK):  # what this row could not have given back before
            self.flip("f", offset)
        self.check(0, "lzy-restore", "f")
        self.assertEqual(self.read("f"), pattern_bytes(11 * BLOCK + 5))

    def test_large_shared_file(self):
        self.make("f", 40 * BLOCK)
        self.protect("--group", "4", *self.SMALL, "f")
        self.check_all("f", [".LZY.f"])

    def test_set_of_two_groups(self):
        for rank in range(8):
            self.make(f"s.{rank}", 2 * BLOCK + rank, seed=rank)
        self.protect("--group", "4", *self.SMALL, "s.%r")
        self.check_all("s.%r", [f".LZY.s.{rank}" for rank in range(8)])
        for rank in (1, 2, 5):
            os.remove(self.path(f"s.{rank}"))
        self.check(0, "lzy-restore", "s.%r")
        self.assertEqual(self.read("s.5"), pattern_bytes(2 * BLOCK + 5, seed=5))

    def test_sealed_dataset(self):
        self.write("key", os.urandom(32))
        os.chmod(self.path("key"), 0o600)
        self.make("f", 9 * BLOCK)
        self.protect("--group", "4", "--key", "key", *self.SMALL, "f")
        self.check_all("f", [".LZY.f"], options=["--key", "key"])

    def test_device_directories(self):
        for directory in "abcd":
            os.makedirs(self.path(directory))
        self.make("f", 40 * BLOCK)
        self.protect("--device-dirs", "a:b:c:d", *self.SMALL, "f")
        parts = [f"{self.path(d)}/{name}" for d in "abcd" for name in os.listdir(self.path(d))]
        self.check_all("f", parts)

    def test_the_rest_is_repaired_as_well_and_edits_stay(self):
        # Rows of many blocks are right. The last row has one block, and its parity is wrong.
        self.make("f", 2 * 65536 * 3 + BLOCK)
        words = ["--parity", "2", "--group", "4", "--block-size", "4K", "--stripe", "64K"]
        self.protect(*words, "f")
        self.flip("f", 100)
        self.flip(".LZY.f", os.path.getsize(self.path(".LZY.f")) // 2)
        fixed = self.report(0, "lzy-verify", "--encode", "--repair", "f")["datasets"][0]
        self.assertTrue(all(d["repaired"] for d in fixed["damage"]), fixed["damage"])
        self.assertEqual({(d["part"], d["cause"]) for d in fixed["damage"] if d["part"] != "metadata"} - {("parity", "hash")},
                         {("data", "hash"), ("parity", "encoding")})
        self.check(0, "lzy-verify", "--encode", "f")
        self.assertEqual(self.read("f"), pattern_bytes(2 * 65536 * 3 + BLOCK))

        self.protect("--force", *words[:-1], "32K", "f")  # another geometry: all of it is encoded again
        with open(self.path("f"), "r+b") as file:
            file.write(b"edited")
        before = self.read("f"), self.read(".LZY.f")
        done = self.check(1, "lzy-verify", "--encode", "--repair", "f")
        self.assertIn("was not made again: something else of the dataset is not as committed", done.stderr)
        self.assertEqual((self.read("f"), self.read(".LZY.f")), before)

    def unrepaired(self, path, sidecars=True):
        """Nothing proves all data of it, so the repair changes neither data nor, unless it left a note, sidecars; what it said."""
        def files():
            return {name: content for name, content in self.all_files().items() if sidecars or not name.startswith(".LZY.")}

        before = files()
        done = self.run_tool("lzy-verify", "--encode", "--repair", path)
        self.assertIn(done.returncode, (1, 2, 4, 5), done.stdout + done.stderr)
        self.assertEqual(files(), before)
        return done.stdout + done.stderr

    def test_rotten_data_are_never_committed(self):
        self.make("f", 11 * BLOCK)
        self.protect("--group", "4", *self.SMALL, "f")
        self.flip("f", 100)
        self.flip("f", BLOCK + 100)
        self.assertIn("the block rebuilt for offset 0 does not have its hash; not written", self.unrepaired("f", sidecars=False))
        self.assertEqual(self.report(1, "lzy-verify", "f")["datasets"][0]["generation"], 1)
        for rank in range(8):
            self.make(f"s.{rank}", 2 * BLOCK + rank, seed=rank)
        self.protect("--group", "4", *self.SMALL, "s.%r")
        self.flip("s.5", 100)
        self.flip("s.6", 100)
        self.assertIn("does not have its hash; not written", self.unrepaired("s.%r", sidecars=False))
        self.flip("s.6", 100)  # back
        os.remove(self.path("s.5"))
        self.assertIn("was not made again", self.unrepaired("s.%r", sidecars=False))
        self.assertEqual(self.report(1, "lzy-verify", "s.%r")["datasets"][0]["generation"], 1)

    def test_what_another_set_needs_stays(self):
        for name in "st":
            for rank in range(4):
                self.make(f"{name}.{rank}", 2 * BLOCK + rank, seed=ord(name) + rank)
            self.protect("--group", "4", *self.SMALL, f"{name}.%r")
        for kind in ("", ".LZY."):
            os.rename(self.path(f"{kind}t.1"), self.path(f"{kind}s.1"))
        self.unrepaired("s.%r")
        self.unrepaired("t.%r")

    def test_rows_with_edits_are_left_out(self):
        self.make("f", BLOCK)
        self.protect("--group", "4", *self.SMALL, "f")
        with open(self.path("f"), "r+b") as file:
            file.write(b"edited")
        self.assertEqual({d["cause"] for d in self.report(9, "lzy-verify", "--encode", "f")["datasets"][0]["damage"]}, {"stale"})

    def test_a_wrong_library_does_not_call_it_intact(self):
        self.make("f", 9 * BLOCK)
        self.check(0, "lzy-protect", "--group", "4", *self.SMALL, "f")
        self.check(0, "lzy-verify", "--encode", "f", env=with_isal("gfni"))
        self.check(7, "lzy-verify", "--encode", "f", env=with_isal("rows"))
        self.check(0, "lzy-verify", "f", env=with_isal("rows"))

    def test_scrub_compares_a_share(self):
        self.make("f", 4000 * BLOCK)  # 2000 rows, of which about 20 are encoded again
        self.protect("--group", "4", *self.SMALL, "f")
        self.assertEqual(self.report(0, "lzy-scrub", "--encode", "0%", "f")["datasets"][0]["bytes_encoded"], 0)
        found = self.report(1, "lzy-scrub", "f")["datasets"][0]
        self.assertEqual({d["cause"] for d in found["damage"]}, {"encoding"})
        self.assertTrue(0 < found["bytes_encoded"] < found["bytes"] / 10, found["bytes_encoded"])
        # A check of hashes does not end what it cannot find.
        self.check(0, "lzy-verify", "f")
        self.assertIn("lzy-verify --encode --repair", self.check(1, "lzy-status", "f").stdout)
        self.check(3, "lzy-scrub", "--encode", "101%", "f")
        self.check(0, "lzy-scrub", "--encode", "100%", "--repair", "f")
        self.check(0, "lzy-status", "f")
        self.check(0, "lzy-scrub", "--encode", "100%", "f")


class WrongParityUnderMpi(WrongParityTest):
    """The same by several ranks."""

    def test_ranks(self):
        self.make("f", 40 * BLOCK)
        self.protect("--group", "4", *self.SMALL, "f")
        self.check_all(self.path("f"), [self.path(".LZY.f")], ranks=3)
        for rank in range(8):
            self.make(f"s.{rank}", 2 * BLOCK + rank, seed=rank)
        self.protect("--group", "4", *self.SMALL, "s.%r", ranks=2)
        self.check_all("s.%r", [f".LZY.s.{rank}" for rank in range(8)], ranks=3)
        found = self.report(0, "lzy-scrub", "--encode", "100%", "s.%r", ranks=2)["datasets"][0]
        self.assertEqual(found["bytes_encoded"], found["bytes"])
