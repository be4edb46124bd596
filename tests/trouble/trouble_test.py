"""Real trouble: full and read-only file systems, limits, permissions, and things in place of a sidecar, while programs run. The
program gets the same results and codes as without the layer (or, with on-error=fail, the documented one on all ranks), and once
the trouble is over its file can be protected.

Environment: as for layered.py. What needs a file system of its own is skipped where none may be mounted.
"""

import contextlib
import os
import shutil
import subprocess
import unittest

from layered import BUILD, CLIENT, PATIENCE, Held, Layer

RANKS = 3
EACH = 100000  # bytes that a rank of hooks_client writes
BYTES = RANKS * EACH
READER = f"{BUILD}/clients/reads_client"
# Root may write anywhere.
AS_ANYBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


class Trouble(Layer):
    def expect_unharmed(self, done, codes="ok"):
        """The program came to its end; every sync and close returned this."""
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(line.split()[2] for line in done.stdout.splitlines()), [codes] * 2 * RANKS, done.stdout)
        self.client("plain", name="g", ranks=RANKS, layer=False)
        self.assertTrue(self.content("f") == self.content("g"), "the file is not what the program wrote")
        os.remove(self.path("g"))

    def expect_told(self, done, what):
        """In lines of the layer's own, of which none is said twice."""
        lines = done.stderr.splitlines()
        self.assertGreater(len(lines), 0)
        self.assertEqual(len(lines), len(set(lines)), done.stderr)
        for line in lines:
            self.assertRegex(line, rf"^lzy: {self.path('f')}: (not protected|no redundancy was made): .*{what}")

    def expect_no_debris(self):
        self.assertEqual([name for name in self.files() if name.startswith((".LZY-new", ".LZY-tmp", ".LZY-data"))], [])

    def expect_protectable(self):
        done = subprocess.run([f"{BUILD}/bin/lzy-protect", "f"], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.verify("f"), 0)
        self.damage("f", 70000)
        self.assertEqual(self.verify("f"), 1)

    def both_ways(self, what, action="codes", argument=""):
        """Warned of, and as an error."""
        for on_error, codes in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
            with self.subTest(on_error=on_error):
                self.prepare()
                done = self.client(action, argument=argument, ranks=RANKS, on_error=on_error)
                self.expect_told(done, what)
                self.after_run()
                self.expect_unharmed(done, codes)
                self.expect_no_debris()
                self.expect_protectable()

    def prepare(self):
        for name in self.files():
            os.remove(self.path(name))

    def after_run(self):
        """The trouble is over."""


class Mounts(Trouble):
    def mount(self, directory, *words):
        """Until the test ends. Skips the test where it may not be."""
        os.makedirs(directory, exist_ok=True)
        done = subprocess.run(["mount", *words, directory], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no file system of its own: {done.stderr.strip()}")
        # A rank that failed may be there still; or the test has taken it away.
        self.addCleanup(subprocess.run, ["umount", "--lazy", directory], check=False, capture_output=True)


class FullFileSystem(Mounts):
    """With so many pages to `spare` when the data are written (`is_there`: they were before)."""

    def setUp(self):
        super().setUp()
        self.dir = os.path.join(self.dir, "disk")
        self.mount(self.dir, "-t", "tmpfs", "-o", "size=1m", "lzy-test")

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", "lzy-test", self.dir], check=True)

    def prepare(self):
        super().prepare()
        if self.is_there:
            self.client("plain", ranks=RANKS, layer=False)
        self.resize((-(-BYTES // 4096) + self.spare) * 4096)

    def after_run(self):
        self.resize("4m")

    def test_no_room_for_an_intent(self):
        self.is_there, self.spare = True, 0
        self.both_ways("No space left on device")

    def test_no_room_for_parity(self):
        self.is_there, self.spare = False, 12
        self.both_ways("No space left on device")

    def test_no_room_for_a_new_sidecar_beside_the_old_one(self):
        """Of a file that grew: the commit of before stands, as at risk."""
        self.resize("4m")
        self.client("plain", ranks=1)
        self.assertEqual(self.verify("f"), 0)
        taken = sum(-(-os.stat(self.path(name)).st_blocks // 8) for name in self.files())
        self.resize((taken + -(-(BYTES - 100000) // 4096) + 3) * 4096)
        done = self.client("codes", ranks=RANKS)
        self.expect_told(done, "No space left on device")
        self.resize("4m")
        self.expect_unharmed(done)
        self.assertEqual(self.verify("f"), 9)
        self.expect_no_debris()
        self.expect_protectable()

    def test_an_update_in_place_needs_no_room(self):
        self.resize("4m")
        self.client("plain", ranks=RANKS)
        taken = sum(-(-os.stat(self.path(name)).st_blocks // 8) for name in self.files())
        self.resize(taken * 4096)
        done = self.client("codes", ranks=RANKS)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.verify("f"), 0)
        self.resize("4m")
        self.expect_unharmed(done)


class OnDisk(Mounts):
    """A file system on a disk of its own."""
    MAKE, SIZE, OPTIONS = ["mkfs.ext4", "-q", "-F"], 32 << 20, "loop,errors=remount-ro"

    def setUp(self):
        super().setUp()
        if shutil.which(self.MAKE[0]) is None:
            self.skipTest(f"{self.MAKE[0]} is not installed")
        self.image, self.disk = self.path("image"), self.path("disk")
        with open(self.image, "wb") as file:
            file.truncate(self.SIZE)
        subprocess.run([*self.MAKE, self.image], check=True, capture_output=True, timeout=PATIENCE)
        self.mount(self.disk, "-o", self.OPTIONS, self.image)


class FullDisk(OnDisk):
    """With so many bytes to `spare`, which a ballast leaves."""

    def setUp(self):
        super().setUp()
        self.dir = self.disk
        self.ballast = self.path("ballast")

    def prepare(self):
        for name in self.files():
            if name != "lost+found":
                os.remove(self.path(name))
        if self.is_there:
            self.client("plain", ranks=RANKS, layer=False)
        os.sync()
        free = os.statvfs(self.dir)
        with open(self.ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - (1 << 20)))
            written = 1 << 20  # until it is full, and so much less
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
                    file.flush()
                    written += 4096
            os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - self.spare)
            os.fsync(file.fileno())

    def after_run(self):
        os.remove(self.ballast)

    def test_no_room_for_an_intent(self):
        self.is_there, self.spare = True, 4096
        self.both_ways(r"No space left on device \(make room there: df -h .*\); after you have fixed that: lzy-protect \S+/f$")

    def test_no_room_for_parity(self):
        self.is_there, self.spare = False, BYTES + 100000
        self.both_ways(r"No space left on device \(make room there: df -h .*\).* with: lzy-protect \S+/f$")


class FullXfs(FullDisk):
    MAKE, SIZE, OPTIONS = ["mkfs.xfs", "-q", "-f"], 320 << 20, "loop"


class DiskThatGivesUp(Held, OnDisk):
    def test_it_becomes_read_only_while_a_program_runs(self):
        """As ext4 does when it meets an error: the program's own calls fail as they do without the layer."""
        os.symlink(f"{self.disk}/f", self.path("f"))
        codes = {}
        for run, options in (("bare", {"layer": False}), ("warn", {}), ("fail", {"on_error": "fail"})):
            for name in ("disk/f", "disk/.LZY.f", "STEP.1", "GO.1"):
                if self.has(name):
                    os.remove(self.path(name))
            self.start("held_up_codes", ranks=RANKS, timeout=5, **options)
            with self.between(1):
                spoilt = self.spoil()
            done = self.finish()
            if not spoilt:
                self.skipTest("this kernel has no means to bring about an error of ext4")
            self.assertEqual(done.returncode, 0, done.stderr)
            codes[run] = sorted(done.stdout.splitlines())
            self.assertEqual([line for line in done.stderr.splitlines() if not line.startswith("lzy: ")], [])
            subprocess.run(["umount", self.disk], check=True)
            subprocess.run(["mount", "-o", self.OPTIONS, self.image, self.disk], check=True)
            if run != "bare":
                self.assertIn(self.verify("disk/f"), (0, 9))
                self.assertRegex(done.stderr, "Read-only file system|Input/output error")
        self.assertIn("write 0 MPI_ERR_IO", codes["bare"])
        self.assertEqual(codes["warn"], codes["bare"])
        self.assertEqual([line.split()[2] for line in codes["fail"]], ["MPI_ERR_IO"] * 3 * RANKS)

    def spoil(self):
        """Has ext4 meet an error, where it can be told to."""
        mounted = subprocess.run(["findmnt", "-n", "-o", "SOURCE", self.disk], check=True, capture_output=True, text=True)
        trigger = f"/sys/fs/ext4/{os.path.basename(mounted.stdout.strip())}/trigger_fs_error"
        if os.path.exists(trigger):
            with open(trigger, "w", encoding="utf-8") as file:
                file.write("lzy-test")
        return os.path.exists(trigger)


class ReadOnly(Mounts):
    """Data and sidecars on a file system that is mounted read-only."""

    def setUp(self):
        super().setUp()
        self.dir = self.path("disk")
        os.mkdir(self.dir)
        subprocess.run([READER, "make", self.path("f"), "300000"], check=True)
        self.tool(0, "lzy-protect", "--block-size=4K", "f")
        self.good = self.content("f")

    def tool(self, code, *words):
        done = subprocess.run([f"{BUILD}/bin/{words[0]}", *words[1:]], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def freeze(self):
        self.mount(self.dir, "--bind", self.dir)
        subprocess.run(["mount", "-o", "remount,ro,bind", self.dir], check=True)

    def test_tools(self):
        self.freeze()
        self.tool(0, "lzy-verify", "f")
        self.tool(0, "lzy-verify", "--from-disk", "f")
        self.tool(0, "lzy-info", "f")

    def test_tools_where_there_is_something_to_do(self):
        self.damage("f", 70000)
        self.freeze()
        self.tool(1, "lzy-verify", "f")
        for words in (["lzy-verify", "--repair", "f"], ["lzy-restore", "f"], ["lzy-protect", "--force", "f"]):
            done = self.tool(6, *words)
            self.assertIn("Read-only file system", done.stderr)
            self.assertIn("is on a file system that is mounted read-only. lzy-verify and lzy-info work there; for anything else, "
                          "mount it for writing, or copy data and sidecars elsewhere", done.stdout + done.stderr)

    def test_programs_read_what_was_committed(self):
        self.damage("f", 70000)
        bare = self.run_program([READER, "read_at_all", "plain", "f"], layer=False)
        self.freeze()
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                done = self.run_program([READER, "read_at_all", "plain", "f"], ranks=ranks, verify_reads="on")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotEqual(sorted(set(done.stdout.split())), sorted(set(bare.stdout.split())))
                self.assertRegex(done.stderr, r"lzy: \S+/f: .*(not repaired on disk|on disk)")
                self.assertEqual(len(done.stderr.splitlines()), len(set(done.stderr.splitlines())))


class Permissions(Trouble):
    """Who may write the files, but make none beside them."""

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        if AS_ANYBODY and subprocess.run([*AS_ANYBODY, "test", "-x", CLIENT], check=False, capture_output=True).returncode != 0:
            self.skipTest("another user cannot run what is in the build directory")

    def put(self, directory, names, content=None):
        """Files that may be written, in a directory that may not."""
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)
        for name in names:
            path = os.path.join(directory, name)
            if content is not None:
                with open(path, "wb") as file:
                    file.write(content)
            if AS_ANYBODY:
                os.chown(path, 65534, 65534)
        os.chmod(directory, 0o555)
        self.addCleanup(os.chmod, directory, 0o755)

    def run_as_anybody(self, *words, ranks, **options):
        done = self.run_program([*AS_ANYBODY, CLIENT, *words], ranks=ranks, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_of_a_shared_file(self):
        for ranks in (2, 3):
            for on_error, codes in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
                with self.subTest(ranks=ranks, on_error=on_error):
                    self.put(self.dir, ["f"], b"")
                    done = self.run_as_anybody("codes", self.path("f"), "", ranks=ranks, on_error=on_error)
                    self.expect_told(done, "Permission denied; after you have fixed that: lzy-protect ")
                    self.assertEqual([line.split()[2] for line in done.stdout.splitlines()], [codes] * 2 * ranks)
                    self.assertEqual(os.path.getsize(self.path("f")), ranks * EACH)
                    self.assertEqual(self.files(), ["f"])
                    os.chmod(self.dir, 0o755)
                    self.expect_protectable()
                    os.remove(self.path(".LZY.f"))

    def test_tools(self):
        self.put(self.dir, ["f"], b"some")
        done = subprocess.run([*AS_ANYBODY, f"{BUILD}/bin/lzy-protect", "f"], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertIn("Permission denied", done.stderr)
        self.assertIn("you have no permission to write to ", done.stdout + done.stderr)
        self.assertEqual(self.files(), ["f"])


class OneMember(Mounts):
    """What befalls one rank of a set: all are told, with on-error=fail, and the set can be protected when it is over."""

    def both_ways(self, what, spoil, repair, argument=""):
        for ranks, rank in ((2, 1), (3, 0)):
            for on_error, code in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
                with self.subTest(what=what, ranks=ranks, rank=rank, on_error=on_error):
                    for name in self.files():
                        subprocess.run(["umount", self.path(name)], check=False, capture_output=True)
                        shutil.rmtree(self.path(name))
                    for r in range(ranks):
                        os.mkdir(self.path(f"node{r}"))
                    spoil(self.path(f"node{rank}"))
                    done = self.run_program([CLIENT, "set_codes", "node@/f", f"{argument},{rank}" if argument else ""],
                                            ranks=ranks, set="node%r/f", set_sync="on", on_error=on_error, parity=ranks - 1)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual([line.split()[2] for line in done.stdout.splitlines()], [code] * 2 * ranks, done.stderr)
                    self.expect_told(done, what)
                    self.expect_written(ranks)
                    repair(self.path(f"node{rank}"))
                    protect = subprocess.run([f"{BUILD}/bin/lzy-protect", "node%r/f"], cwd=self.dir, capture_output=True,
                                             text=True, timeout=PATIENCE, check=False)
                    self.assertEqual(protect.returncode, 0, protect.stdout + protect.stderr)
                    self.assertEqual(self.verify("node%r/f"), 0)

    def expect_told(self, done, what):
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), len(set(lines)), done.stderr)
        for line in lines:
            self.assertRegex(line, f"^lzy: .*{what}")
        self.assertRegex(done.stderr, r"lzy-protect \S")

    def expect_written(self, ranks):
        content = b"".join(self.content(f"node{r}/f") for r in range(ranks))
        self.client("plain", name="g", ranks=ranks, layer=False)
        self.assertTrue(content == self.content("g"), "not what the program wrote")
        os.remove(self.path("g"))

    def test_its_disk_is_full(self):
        for there, spare in ((True, 0), (False, 14)):
            def spoil(directory, there=there, spare=spare):
                self.mount(directory, "-t", "tmpfs", "-o", f"size={(-(-EACH // 4096) + spare) * 4096}", "lzy-test")
                if there:
                    with open(f"{directory}/f", "wb") as file:
                        file.write(bytes(EACH))

            self.both_ways("No space left on device", spoil,
                           lambda directory: subprocess.run(["mount", "-o", "remount,size=4m", directory], check=True))

    def test_its_files_may_not_be_so_large(self):
        self.both_ways("File too large", lambda directory: None, lambda directory: None, argument=EACH + 1000)


class Limits(Trouble):
    def test_largest_file_allowed(self):
        """RLIMIT_FSIZE lets the data through but not the sidecar; its signal is left as it is by default."""
        for on_error, codes in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
            with self.subTest(on_error=on_error):
                self.prepare()
                done = self.client("codes", argument=str(BYTES + 1000), ranks=RANKS, on_error=on_error, group=3, parity=2,
                                   block_size="4K")
                self.expect_told(done, "File too large")
                self.expect_unharmed(done, codes)
                self.expect_no_debris()
                self.expect_protectable()


class InPlaceOfASidecar(Held, Trouble):
    """Something else takes the place of a sidecar while its file is open for writing."""

    def take_place(self, put):
        """What a program that had the file open says of it."""
        self.start("held_up", ranks=RANKS)
        with self.between(1):
            os.remove(self.path(".LZY.f"))
            put(self.path(".LZY.f"))
        done = self.finish()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("close"), 2 * RANKS)
        self.assertEqual(done.stdout.count(" ok"), RANKS)
        self.expect_no_debris()
        return done

    def test_a_fifo(self):
        self.expect_told(self.take_place(os.mkfifo), "")

    def test_a_directory(self):
        self.expect_told(self.take_place(os.mkdir), "")

    def test_a_link(self):
        with open(self.path("elsewhere"), "wb") as file:
            file.write(b"precious")
        self.expect_told(self.take_place(lambda path: os.symlink(self.path("elsewhere"), path)), "")
        self.assertEqual(self.content("elsewhere"), b"precious")

    def test_an_empty_file_or_random_bytes(self):
        def rubbish(path):
            with open(path, "wb") as file:
                file.write(os.urandom(5000))

        for put in (rubbish, lambda path: None):
            with self.subTest(put):
                self.assertEqual(self.take_place(put).stderr, "")
                self.assertEqual(self.verify("f"), 0)
                for name in self.files():
                    os.remove(self.path(name))


del Held, Layer, Mounts, OnDisk, Trouble  # have no tests of their own

if __name__ == "__main__":
    unittest.main()
