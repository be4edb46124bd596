"""lzy-copy: what arrives, what is refused, what a failure leaves, and how an interrupted copy goes on."""

import os
import resource
import signal
import stat
import subprocess
import time
import unittest

from harness import BIN, CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K")
MIB = 1 << 20


class CopyCase(CliTest):
    def protect(self, name, content, *options):
        self.write(name, content)
        self.age(name)
        self.check(0, "lzy-protect", *SMALL, *options, "--", name)

    def copies(self, exit_code, *words):
        """The entries of the JSON document, by source."""
        document = self.report(exit_code, "lzy-copy", *words)
        return {entry["from"]: entry for entry in document.get("copies", [])}, document

    def hidden(self, directory):
        return sorted(name for name in os.listdir(self.path(directory)) if name.startswith(".LZY"))

    def start(self, *words):
        """Starts a copy that is so slow that something can be done to it meanwhile."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        process = subprocess.Popen([os.path.join(BIN, "lzy-copy"), *words], cwd=self.scratch, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, name, size):
        """Until a file has so many bytes on its way."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.path.exists(self.path(name)) and os.stat(self.path(name)).st_size >= size:
                return
            time.sleep(0.01)
        self.fail(f"{name} did not get {size} bytes")

    def one_row(self):
        """Damages two blocks of one row of s/f: beyond repair with one parity block."""
        for offset in range(0, 16384 * 3, 16384):
            self.flip("s/f", offset)


class Files(CopyCase):
    def test_one_file(self):
        content = pattern_bytes(300000)
        self.protect("s/f", content)
        os.chmod(self.path("s/f"), 0o751)
        os.makedirs(self.path("d"))
        for verify in ("device", "cache", "none"):
            told = self.check(0, "lzy-copy", "--verify", verify, "s/f", "d/g").stdout
            self.assertRegex(told, r"^copied 1 file, 293 KiB, in ")
            self.assertIn("1 file protected, 1 with the root of the source", told)
            self.assertEqual(self.read("d/g"), content)
            before, after = os.stat(self.path("s/f")), os.stat(self.path("d/g"))
            self.assertEqual((after.st_mtime_ns, after.st_mode), (before.st_mtime_ns, before.st_mode))
            self.assertEqual(self.hidden("d"), [".LZY.g"])
            self.check(0, "lzy-verify", "d/g")
        # Into a directory, with a geometry of its own.
        entries, _ = self.copies(0, "--parity", "2", "s/f", "d")
        self.assertEqual(entries["s/f"]["to"], "d/f")
        self.assertFalse(entries["s/f"]["same_root"])
        self.check(0, "lzy-copy", "--no-protect", "s/f", "d/h")
        self.assertEqual(self.hidden("d"), [".LZY.f", ".LZY.g"])

    def test_rot_is_healed_on_the_way(self):
        content = pattern_bytes(300000)
        self.protect("s/f", content)
        self.flip("s/f", 100000)
        rotten = self.read("s/f")
        done = self.check(0, "lzy-copy", "s/f", "g")
        self.assertIn("g: 4 KiB damaged in s/f, and rebuilt in the copy", done.stdout)
        self.assertIn("lzy-verify --repair s/f", done.stdout)
        self.assertEqual((self.read("g"), self.read("s/f")), (content, rotten))
        self.assertEqual(self.copies(0, "s/f", "g")[0]["s/f"]["healed"], 4096)

    def test_beyond_repair_and_salvage(self):
        self.protect("s/f", pattern_bytes(300000))
        self.one_row()
        rotten = self.read("s/f")
        done = self.check(2, "lzy-copy", "s/f", "g")
        self.assertRegex(done.stderr, r"s/f: bytes \d+ to \d+ are damaged, and cannot be rebuilt")
        self.assertEqual(set(os.listdir(self.scratch)) - {".cache"}, {"s"})
        entries, document = self.copies(2, "--salvage", "s/f", "g")
        lost = entries["s/f"]["lost"]
        self.assertEqual(sum(entry["length"] for entry in lost), document["copied"]["lost"])
        copy = self.read("g")
        for entry in lost:
            self.assertEqual(copy[entry["offset"]:entry["offset"] + entry["length"]], rotten[entry["offset"]:entry["offset"] + entry["length"]])
        self.check(0, "lzy-verify", "g")

    def test_refusals(self):
        self.protect("s/f", pattern_bytes(10000))
        os.symlink("f", self.path("s/link"))
        for words, text in ((("s/f", "s/f"), "s/f and s/f are the same"), (("s/link", "s/f"), "s/link and s/f are the same"),
                            (("s", "s/x"), "s/x is inside s"), (("--resume", "s", "s"), "are the same"), (("s/f",), "the destination is missing"),
                            (("s/.LZY.f", "g"), "is a file of lzy's own"), (("s/none", "g"), "s/none: there is no such file"),
                            (("s/f", "s", "none"), "none: is no directory"),
                            (("s/f", "none/g"), "none/g: its directory does not exist"), (("s", "s/f"), "s/f is inside s"),
                            (("--verify", "disk", "s/f", "g"), "--verify: 'disk' is not accepted"),
                            (("--limit", "fast", "s/f", "g"), "--limit: 'fast' is not accepted")):
            with self.subTest(words=words):
                self.assertIn(text, self.check(3, "lzy-copy", *words).stderr)
        self.assertEqual(self.hidden("s"), [".LZY.f"])
        self.check(0, "lzy-verify", "s/f")

    def test_places_that_are_no_files(self):
        """A name of lzy's own, a pipe: nothing is put in their place."""
        self.protect("f", pattern_bytes(100000))
        self.write("g", b"other")
        sidecar = self.read(".LZY.f")
        self.assertIn("names that begin with .LZY are for lzy's own files", self.check(3, "lzy-copy", "g", ".LZY.f").stderr)
        self.assertIn("names that begin with .LZY", self.check(3, "lzy-copy", "--no-protect", "g", ".LZY-new.f").stderr)
        self.assertEqual(self.read(".LZY.f"), sidecar)
        os.mkfifo(self.path("pipe"))
        self.assertIn("neither a file nor a directory", self.check(3, "lzy-copy", "g", "pipe").stderr)
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("pipe")).st_mode))
        if os.path.exists("/proc/cpuinfo"):
            self.assertIn("says that it is empty", self.check(6, "lzy-copy", "/proc/cpuinfo", "c").stderr)
            self.assertFalse(os.path.exists(self.path("c")))

    def test_planted_links_lead_nowhere(self):
        """A temporary name that is a further name of another file: that file stays."""
        self.write("f", pattern_bytes(20 * MIB))
        for name in (".LZY-copy.g", ".LZY-journal.g"):
            self.write("victim", b"victim")
            os.link(self.path("victim"), self.path(name))
            self.check(0, "lzy-copy", "--resume", "f", "g")
            self.assertEqual(self.read("g"), self.read("f"))
            self.assertEqual(self.read("victim"), b"victim")
            os.remove(self.path("g"))

    def test_a_file_with_two_names_is_compared_by_either(self):
        content = pattern_bytes(300000)
        self.protect("z", content)
        os.link(self.path("z"), self.path("a"))
        self.flip("z", 1000)
        for source in ("a", "z"):
            document = self.report(0, "lzy-copy", source, "copy")
            self.assertTrue(document["copies"][0]["compared"])
            self.assertEqual(self.read("copy"), content)

    def test_in_the_place_of_a_renamed_file(self):
        """Its sidecar follows it, before the copy gets the name."""
        self.write("f", b"new" * 1000)
        for options in ([], ["--no-protect"]):
            self.protect("a", pattern_bytes(100000))
            self.age("a")
            os.rename(self.path("a"), self.path("b"))
            self.check(0, "lzy-copy", *options, "f", "a")
            self.assertEqual(self.read("a"), self.read("f"))
            self.check(0, "lzy-verify", "b")
            os.remove(self.path("b"))
            self.check(0, "lzy-info", "--prune", self.scratch)

    def test_sealed(self):
        self.write("key", b"k" * 40)
        os.chmod(self.path("key"), 0o600)
        self.protect("s/f", pattern_bytes(100000), "--key", "key")
        self.assertIn("s/.LZY.f: it is sealed with key", self.check(3, "lzy-copy", "s/f", "g").stderr)
        self.assertFalse(os.path.exists(self.path("g")))
        self.check(0, "lzy-copy", "--key", "key", "s/f", "g")
        self.check(0, "lzy-verify", "--key", "key", "g")
        self.check(3, "lzy-verify", "g")

    def test_full_disk(self):
        """By a limit for the size of files, which needs no disk of its own."""
        self.write("f", pattern_bytes(3 * MIB))
        for protect in ((), ("--no-protect",)):
            done = subprocess.run([os.path.join(BIN, "lzy-copy"), *protect, "f", "g"], cwd=self.scratch, capture_output=True, text=True,
                                  timeout=60, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB)))
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("File too large", done.stderr)
            self.assertFalse(os.path.exists(self.path("g")))
            self.assertEqual(self.hidden("."), [])

    def test_a_full_disk_is_told_once(self):
        for number in range(5):
            self.write(f"s/f{number}", pattern_bytes(MIB + 5, number))
        self.write("s/small", b"small")
        done = subprocess.run([os.path.join(BIN, "lzy-copy"), "s", "d"], cwd=self.scratch, capture_output=True, text=True,
                              timeout=60, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB)))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        self.assertIn("4 more files could not be copied: File too large", done.stderr)
        self.assertEqual(self.read("d/small"), b"small")

    def test_names_without_room_for_a_sidecar(self):
        names = ["n" * 235, "n" * 254 + "a", "n" * 254 + "b"]
        for name in names:
            self.write("s/" + name, name.encode())
        self.check(0, "lzy-copy", "--no-protect", "s", "d")
        self.check(0, "lzy-copy", "--no-protect", "s/" + names[1], "d/" + names[2])
        self.assertEqual(sorted(os.listdir(self.path("d"))), sorted(names))
        self.assertEqual(self.read("d/" + names[2]), names[1].encode())
        self.assertEqual(self.read("d/" + names[0]), names[0].encode())
        self.assertIn("the name has 235 bytes", self.check(3, "lzy-copy", "s/" + names[0], "d/").stderr)

    def test_what_is_not_sealed_is_copied_and_told(self):
        self.write("key", b"k" * 40)
        os.chmod(self.path("key"), 0o600)
        self.protect("s/sealed", pattern_bytes(100000), "--key", "key")
        self.protect("s/unsealed", pattern_bytes(100000, 2))
        self.write("s/plain", b"plain")
        self.flip("s/unsealed", 5000)
        entries, _ = self.copies(4, "--key", "key", "s", "d")
        self.assertEqual(entries["s/unsealed"]["healed"], 4096)
        for name in ("sealed", "plain"):
            self.assertEqual(self.read("d/" + name), self.read("s/" + name))
        told = self.check(4, "lzy-copy", "--key", "key", "s/plain", "p").stderr
        self.assertIn("s/plain: is not sealed with the key", told)
        self.check(3, "lzy-verify", "d/sealed")
        for name in ("unsealed", "plain"):
            self.check(0, "lzy-verify", "d/" + name)
        # A sealed file is not replaced by one of which nobody knows who wrote it.
        before = self.read("d/sealed")
        told = self.check(4, "lzy-copy", "--key", "key", "s/plain", "d/sealed").stderr
        self.assertIn("d/sealed is, and would be replaced", told)
        self.assertEqual(self.read("d/sealed"), before)

    def test_holes_stay_holes(self):
        with open(self.path("f"), "wb") as file:
            file.truncate(5 << 30)
            file.seek(3 << 30)
            file.write(b"an island")
        self.check(0, "lzy-copy", "--no-protect", "f", "g")
        self.assertLess(os.stat(self.path("g")).st_blocks * 512, 4 * MIB)
        with open(self.path("g"), "rb") as file:
            self.assertEqual(os.fstat(file.fileno()).st_size, 5 << 30)
            file.seek(3 << 30)
            self.assertEqual(file.read(9), b"an island")
            # All that is data is in one block.
            self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_DATA) // MIB, (3 << 30) // MIB)

    def test_small_holes_stay_holes(self):
        with open(self.path("h"), "wb") as file:
            file.truncate(20 * MIB)
            for at in range(0, 20 * MIB, MIB):
                file.seek(at)
                file.write(b"x" * 5000)
        self.age("h")
        used = os.stat(self.path("h")).st_blocks
        for options in ([], ["--no-protect"], ["--verify", "none"]):
            self.check(0, "lzy-copy", *options, "h", "copy")
            self.assertEqual(self.read("copy"), self.read("h"))
            self.assertLessEqual(os.stat(self.path("copy")).st_blocks, used * 1.2 + 16)

    def test_limit(self):
        self.write("f", pattern_bytes(4 * MIB))
        begin = time.monotonic()
        self.check(0, "lzy-copy", "--limit", "2M", "f", "g")
        self.assertGreater(time.monotonic() - begin, 1.9)
        self.assertEqual(self.read("g"), self.read("f"))


class Trees(CopyCase):
    def make_tree(self):
        self.protect("s/a/protected", pattern_bytes(200000, seed=1))
        self.write("s/a/plain", pattern_bytes(2 * MIB + 5, seed=2))
        self.write("s/empty", b"")
        self.write("s/a/b/new\nline", b"odd")
        self.write("s/.hidden/deep/x", b"hidden")
        os.link(self.path("s/a/plain"), self.path("s/a/b/again"))
        os.symlink("../a/plain", self.path("s/.hidden/link"))
        os.symlink("nowhere", self.path("s/dangling"))
        os.makedirs(self.path("s/nothing"))
        os.chmod(self.path("s/a"), 0o2750)
        os.chmod(self.path("s/a/plain"), 0o604)
        for name in ("s/a/b", "s/nothing", "s/a", "s"):
            os.utime(self.path(name), ns=(10**18 + 7, 10**18 + 9))

    def image(self, directory):
        """What there is but for lzy's own files; names of hard links by the first of them."""
        found, first = {}, {}
        for folder, folders, names in os.walk(self.path(directory)):
            for name in [*folders, *names]:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.path(directory))
                about = os.lstat(path)
                if name.startswith(".LZY"):
                    continue
                if stat.S_ISLNK(about.st_mode):
                    found[relative] = os.readlink(path)
                elif stat.S_ISDIR(about.st_mode):
                    found[relative] = (about.st_mode, about.st_mtime_ns if relative in ("a", "a/b", "nothing") else None)
                else:
                    with open(path, "rb") as file:
                        found[relative] = (about.st_mode, about.st_mtime_ns, about.st_nlink, file.read(),
                                           first.setdefault(about.st_ino, len(first)) if about.st_nlink > 1 else None)
        return found

    def test_a_tree(self):
        self.make_tree()
        told = self.check(0, "lzy-copy", "s", "d").stdout
        self.assertIn("2 symbolic links, 1 hard link", told)
        self.assertEqual(self.image("d"), self.image("s"))
        self.check(0, "lzy-verify", "d")
        # Again: only with --resume, which finds all of it there.
        self.assertIn("add --resume", self.check(3, "lzy-copy", "s", "d").stderr)
        entries, document = self.copies(0, "--resume", "s", "d")
        self.assertEqual((document["copied"]["files"], document["copied"]["already"]), (0, 5))
        self.assertTrue(all(entry["already"] for entry in entries.values()))
        # What was lost or edited is copied again, and nothing else.
        os.remove(self.path("d/a/plain"))
        os.remove(self.path("d/a/b/again"))
        self.write("d/a/protected", b"edited")
        _, document = self.copies(0, "--resume", "s", "d")
        self.assertEqual(document["copied"]["files"], 2)
        self.assertEqual(self.image("d"), self.image("s"))
        self.check(0, "lzy-verify", "d")

    def test_the_protected_one_of_several_names(self):
        content = pattern_bytes(300000)
        self.protect("s/z", content)
        os.link(self.path("s/z"), self.path("s/a"))
        os.link(self.path("s/z"), self.path("s/zz"))
        self.flip("s/z", 1000)
        self.check(0, "lzy-copy", "s", "d")
        for name in ("a", "z", "zz"):
            self.assertEqual(self.read(f"d/{name}"), content)
            self.assertEqual(os.stat(self.path(f"d/{name}")).st_nlink, 3)

    def test_lost_files_are_told(self):
        for name in "abcd":
            self.protect(f"s/{name}", pattern_bytes(100000, seed=ord(name)))
        os.remove(self.path("s/b"))
        os.rename(self.path("s/c"), self.path("s/c2"))  # its sidecar has the old name still
        told = self.check(6, "lzy-copy", "s", "d").stderr
        self.assertIn("s/b: is missing, and its sidecar is there; what to do: lzy-verify s/b", told)
        self.assertNotIn("s/c:", told)
        self.check(0, "lzy-protect", "--remove", "--force", "--yes", "s/b")
        self.check(0, "lzy-copy", "--resume", "s", "d")
        self.assertEqual(sorted(n for n in os.listdir(self.path("d")) if not n.startswith(".")), ["a", "c2", "d"])

    def test_what_is_there_is_called_compared_only_if_it_is(self):
        self.protect("s/f", pattern_bytes(100000))
        self.check(0, "lzy-copy", "--no-protect", "s", "d")
        self.assertEqual(self.copies(0, "--no-protect", "--resume", "s", "d")[0]["s/f"]["compared"], False)
        self.check(0, "lzy-copy", "s", "e")
        self.assertEqual(self.copies(0, "--resume", "s", "e")[0]["s/f"]["compared"], False)

    def test_several_sources_and_slashes(self):
        self.write("a/f", b"1")
        self.write("b/g", b"2")
        self.write("h", b"3")
        os.makedirs(self.path("d"))
        self.check(0, "lzy-copy", "a", "b", "h", "d")
        self.check(0, "lzy-copy", "a", "d/b/")
        self.assertEqual(sorted(self.image("d")), ["a", "a/f", "b", "b/a", "b/a/f", "b/g", "h"])
        self.write("c/f", b"4")
        done = self.check(3, "lzy-copy", "a/f", "c/f", "d")
        self.assertIn("c/f: another source has the same name, d/f", done.stderr)
        self.assertEqual(self.read("d/f"), b"1")

    def test_failures_of_single_files_leave_the_rest(self):
        self.protect("s/f", pattern_bytes(300000))
        self.one_row()
        self.write("s/ok", b"fine")
        os.mkfifo(self.path("s/fifo"))
        entries, document = self.copies(6, "s", "d")
        self.assertEqual(sorted(self.image("d")), ["ok"])
        self.assertEqual({name: entry["error"]["code"] for name, entry in entries.items() if "error" in entry},
                         {"s/f": "beyond-repair", "s/fifo": "io"})
        os.remove(self.path("s/fifo"))
        self.check(2, "lzy-copy", "--resume", "s", "d")

    def test_links_in_the_destination_lead_nowhere(self):
        self.write("s/sub/f", b"new")
        self.write("s/g", b"new")
        self.write("outside/f", b"old")
        self.write("outside/g", b"old")
        os.makedirs(self.path("d"))
        os.symlink("../outside", self.path("d/sub"))
        os.symlink("../outside/g", self.path("d/g"))
        done = self.check(5, "lzy-copy", "--resume", "s", "d")
        self.assertIn("d/sub: is a symbolic link, which is not followed below the destination", done.stderr)
        self.assertEqual((self.read("outside/f"), self.read("outside/g"), self.read("d/g")), (b"old", b"old", b"new"))
        self.assertFalse(os.path.islink(self.path("d/g")))
        self.assertEqual(sorted(os.listdir(self.path("outside"))), ["f", "g"])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_what_cannot_be_read(self):
        self.write("s/secret", b"x")
        self.write("s/ok", b"y")
        os.chmod(self.path("s/secret"), 0)
        done = self.check(6, "lzy-copy", "s", "d")
        self.assertIn("s/secret", done.stderr)
        self.assertEqual(self.read("d/ok"), b"y")

    def test_dry_run(self):
        self.make_tree()
        told = self.check(0, "lzy-copy", "--dry-run", "s", "d").stdout
        self.assertIn("s/a/protected -> d/a/protected (195.3 KiB)\n", told)
        self.assertIn("would copy 5 files", told)
        self.assertFalse(os.path.exists(self.path("d")))


class Interrupted(CopyCase):
    SIZE = 40 * MIB

    def half_a_copy(self, kill):
        self.content = pattern_bytes(self.SIZE)
        self.write("f", self.content)
        process = self.start("--limit", "30M", "f", "g")
        self.wait_for(".LZY-journal.g", 44 + 36 * 256)  # a batch of 16 MiB
        process.send_signal(kill)
        self.output = process.communicate()
        self.assertFalse(os.path.exists(self.path("g")))
        return process.returncode

    def check_resumed(self):
        entries, document = self.copies(0, "--resume", "f", "g")
        self.assertGreaterEqual(entries["f"]["resumed"], 16 * MIB)
        self.assertEqual(document["copied"]["resumed"], entries["f"]["resumed"])
        self.assertEqual(self.read("g"), self.content)
        self.assertEqual(self.hidden("."), [".LZY.g"])
        self.check(0, "lzy-verify", "g")

    def test_killed(self):
        self.assertEqual(self.half_a_copy(signal.SIGKILL), -signal.SIGKILL)
        self.check_resumed()

    def test_interrupted(self):
        self.assertEqual(self.half_a_copy(signal.SIGINT), 130)
        self.assertIn("add --resume to the same command", self.output[1])
        self.check_resumed()

    def test_begins_anew_without_resume(self):
        self.half_a_copy(signal.SIGKILL)
        entries, _ = self.copies(0, "f", "g")
        self.assertNotIn("resumed", entries["f"])
        self.assertEqual(self.read("g"), self.content)
        self.assertEqual(self.hidden("."), [".LZY.g"])

    def test_source_edited_meanwhile(self):
        self.write("s/f", pattern_bytes(3 * MIB))
        self.write("s/z", b"another")
        process = self.start("--limit", "2M", "s", "d")
        self.wait_for("d/.LZY-copy.f", 3 * MIB)
        with open(self.path("s/f"), "r+b") as file:
            file.write(b"edit")
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 9, errors)
        self.assertIn("s/f: somebody changed it while it was being copied", errors)
        self.assertEqual(self.read("d/z"), b"another")
        self.assertEqual(self.hidden("d"), [".LZY.z"])

    def test_two_copies_to_one_name(self):
        self.write("f", pattern_bytes(3 * MIB))
        process = self.start("--limit", "2M", "f", "g")
        self.wait_for(".LZY-copy.g", 3 * MIB)
        self.assertIn("another process is copying to it", self.check(6, "lzy-copy", "f", "g").stderr)
        process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.read("g"), self.read("f"))


class Sets(CopyCase):
    def make_set(self, parity="2"):
        self.contents = [pattern_bytes(100000 + 5000 * rank, seed=rank) for rank in range(4)]
        for rank, content in enumerate(self.contents):
            self.write(f"local/n{rank}/state", content)
            self.age(f"local/n{rank}/state")
        self.check(0, "lzy-protect", *SMALL, "--parity", parity, "local/n%r/state")

    def check_copy(self, ranks=None):
        self.assertEqual([self.read(f"pfs/state.{rank}") for rank in range(4)], self.contents)
        self.check(0, "lzy-verify", "pfs/state.%r")
        os.remove(self.path("pfs/state.1"))
        os.remove(self.path("pfs/state.2"))
        self.check(0, "lzy-restore", "pfs/state.%r")
        self.assertEqual([self.read(f"pfs/state.{rank}") for rank in range(4)], self.contents)

    def test_drain_and_back(self):
        self.make_set()
        self.flip("local/n3/state", 50000)
        told = self.check(0, "lzy-copy", "local/n%r/state", "pfs/state.%r").stdout
        self.assertIn("set of 4 members protected, with the root of the source", told)
        self.assertIn("4 KiB damaged in the source, and rebuilt in the copy", told)
        self.check_copy()
        # Back, over what is there: the damaged member and all others are replaced.
        document = self.report(0, "lzy-copy", "pfs/state.%r", "local/n%r/state")
        self.assertTrue(document["set"]["same_root"])
        self.check(0, "lzy-verify", "local/n%r/state")
        self.assertEqual(self.read("local/n3/state"), self.contents[3])

    def test_a_lost_member_and_salvage(self):
        self.make_set()
        os.remove(self.path("local/n2/state"))
        self.assertIn("some members are missing", self.check(3, "lzy-copy", "local/n%r/state", "pfs/state.%r").stderr)
        done = self.check(2, "lzy-copy", "--salvage", "local/n%r/state", "pfs/state.%r")
        self.assertIn("local/n2/state: is missing, so it was not copied", done.stderr)
        self.assertIn("is not protected, because it lacks members", done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("pfs"))), ["state.0", "state.1", "state.3"])
        self.assertEqual([self.read(f"pfs/state.{rank}") for rank in (0, 1, 3)], [self.contents[rank] for rank in (0, 1, 3)])
        # An older member in its place would be taken for one of the copy.
        self.write("pfs/state.2", b"old")
        told = self.check(3, "lzy-copy", "--salvage", "local/n%r/state", "pfs/state.%r").stderr
        self.assertIn("pfs/state.%r: has a member 2, which local/n%r/state has lost", told)

    def test_without_protection_and_resumed(self):
        self.make_set()
        self.check(0, "lzy-copy", "--no-protect", "local/n%r/state", "pfs/state.%r")
        self.assertEqual(self.hidden("pfs"), [])
        os.remove(self.path("pfs/state.2"))
        document = self.report(0, "lzy-copy", "--resume", "local/n%r/state", "pfs/state.%r")
        self.assertEqual((document["copied"]["files"], document["copied"]["already"]), (1, 3))
        self.check_copy()

    def test_copies_that_were_protected_one_by_one(self):
        self.make_set()
        os.makedirs(self.path("pfs"))
        for rank in range(4):
            self.check(0, "lzy-copy", f"local/n{rank}/state", f"pfs/state.{rank}")
        self.flip("pfs/state.1", 50000)
        kept = self.read("pfs/.LZY.state.1")
        done = self.check(5, "lzy-copy", "--resume", "local/n%r/state", "pfs/state.%r")
        self.assertIn("repair them first: lzy-verify --repair pfs/state.1", done.stderr)
        self.assertEqual(self.read("pfs/.LZY.state.1"), kept)
        self.check(0, "lzy-verify", "--repair", "pfs/state.1")
        self.check(0, "lzy-copy", "--resume", "local/n%r/state", "pfs/state.%r")
        self.check_copy()

    def test_refusals(self):
        self.make_set()
        self.write("f", b"x")
        for words, text in ((("local/n%r/state", "pfs"), "a set is copied to a set"), (("f", "pfs.%r"), "a set is copied alone"),
                            (("f", "local/n%r/state", "pfs.%r"), "a set is copied alone"), (("none.%r", "pfs.%r"), "none.%r"),
                            (("local/n%r/state", "local/n%r/state"), "is a member of local/n%r/state, too")):
            self.assertIn(text, self.check(3, "lzy-copy", *words).stderr)
        # A single file is never put in the place of a member.
        self.assertIn("member of a protected set", self.check(3, "lzy-copy", "f", "local/n1/state").stderr)
        # The last one, too: without it, there is no gap.
        for rank in (1, 3):
            os.rename(self.path(f"local/n{rank}/state"), self.path("aside"))
            self.assertIn("rebuild them first: lzy-restore", self.check(3, "lzy-copy", "local/n%r/state", "pfs.%r").stderr)
            os.rename(self.path("aside"), self.path(f"local/n{rank}/state"))
        # Nor in the place of a lost one, whose sidecar has parity of the others.
        os.rename(self.path("local/n1/state"), self.path("aside"))
        sidecar = self.read("local/n1/.LZY.state")
        self.assertIn("rebuild it: lzy-restore local/n1/state", self.check(3, "lzy-copy", "f", "local/n1/state").stderr)
        self.assertEqual(self.read("local/n1/.LZY.state"), sidecar)
        self.check(0, "lzy-restore", "local/n%r/state")
        # Members that are not replaced would become members of the copy.
        self.write("pfs/state.4", b"x")
        self.assertIn("pfs/state.%r: has a member 4, and local/n%r/state ends with member 3",
                      self.check(3, "lzy-copy", "local/n%r/state", "pfs/state.%r").stderr)
        self.assertEqual(os.listdir(self.path("pfs")), ["state.4"])

    def test_a_member_beyond_repair_leaves_the_others_unprotected(self):
        self.make_set(parity="1")
        for rank in range(3):
            for offset in range(0, 100000, 4096):
                self.flip(f"local/n{rank}/state", offset)
        done = self.check(2, "lzy-copy", "local/n%r/state", "pfs/state.%r")
        self.assertIn("cannot be rebuilt", done.stderr)
        self.assertEqual(self.hidden("pfs"), [])
        self.assertEqual(self.read("pfs/state.3"), self.contents[3])


class UnderMpi(CopyCase):
    def test_ranks_share_the_members_of_a_set(self):
        Sets.make_set(self)
        done = self.run_tool("lzy-copy", "local/n%r/state", "pfs/state.%r", ranks=3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("with the root of the source", done.stdout)
        Sets.check_copy(self)

    def test_ranks_share_the_files(self):
        for i in range(20):
            self.write(f"s/{i}", pattern_bytes(1000 * i * i, seed=i))
        done = self.run_tool("lzy-copy", "--json", "s", "d", ranks=3)
        self.assertEqual(done.returncode, 0, done.stderr)
        for i in range(20):
            self.assertEqual(self.read(f"d/{i}"), self.read(f"s/{i}"))
        self.check(0, "lzy-verify", "d")
        self.assertIn('"files": 20', done.stdout)
