"""Option verify-reads: what programs read is what was committed, or they are told that it is not.

Environment: as for layered.py.
"""

import os
import shutil
import subprocess

import mpi_known
from layered import BUILD, PATIENCE, Layer

CLIENT = f"{BUILD}/clients/reads_client"
BYTES = 3_000_000
BLOCK = 4096
ALONE = ["read", "read_at", "iread", "iread_at", "read_shared", "iread_shared"]
TOGETHER = ["read_all", "read_at_all", "iread_all", "iread_at_all", "read_ordered", "split_all", "split_at_all",
            "split_ordered"]
# Where another rank moves the pointer meanwhile, MPI does not tell where a read was.
UNPLACED = ["read_shared", "iread_shared"]


class Reads(Layer):
    """A protected file "f", of which "good" is a copy."""

    def setUp(self):
        super().setUp()
        subprocess.run([CLIENT, "make", self.path("good"), str(BYTES)], check=True)
        self.afresh()

    def afresh(self, parity=1):
        shutil.copy(self.path("good"), self.path("f"))
        os.utime(self.path("f"), ns=(10**18, 10**18))
        if self.has(".LZY.f"):
            os.remove(self.path(".LZY.f"))
        self.tool("lzy-protect", "--block-size", "4K", "--parity", str(parity), "f")

    def tool(self, *command, code=0):
        done = subprocess.run([f"{BUILD}/bin/{command[0]}", *command[1:]], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def read(self, call, *words, ranks=1, **options):
        """Lines that ranks print, sorted; what the layer says is in self.said. `words`: shape, mode, size."""
        shape, *others = words or ["plain"]
        done = self.run_program([CLIENT, call, shape, "f", *others], ranks=ranks, **{"verify_reads": "on", **options})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.said = [line for line in done.stderr.splitlines() if line.startswith("lzy")]
        return sorted(line for line in done.stdout.splitlines() if line)

    def is_good(self):
        return self.content("f") == self.content("good")

    def damage_row(self):
        """More than parity 1 gives back: the first blocks of all units of the first rows."""
        for unit in range(1, 8):
            self.damage("f", unit * 65536)


class EveryCall(Reads):
    def heal(self, calls, shape, ranks, mode):
        for call in calls:
            with self.subTest(call=call, shape=shape, ranks=ranks, mode=mode):
                bare = self.read(call, shape, mode, ranks=ranks, layer=False)
                self.assertEqual([line.split()[1] for line in bare], ["right"] * ranks)
                for offset in (5000, BYTES // 2, BYTES - 90_000):
                    self.damage("f", offset)
                times = os.stat(self.path("f")).st_mtime_ns
                lines = self.read(call, shape, mode, ranks=ranks)
                if call in UNPLACED and ranks > 1:  # either it is right, or the program is told to read it again
                    lines = [line for line in lines if "read it again" not in line]
                    bare = [line for line in bare if line in lines]
                self.assertEqual(lines, bare)
                self.assertTrue(self.said)
                self.assertTrue(self.is_good(), "it was repaired on disk")
                self.assertEqual(os.stat(self.path("f")).st_mtime_ns, times)
                self.assertEqual(self.verify(), 0)

    def test_alone(self):
        self.heal(ALONE + TOGETHER, "plain", 1, "rdonly")

    def test_through_a_view(self):
        self.heal(ALONE + TOGETHER, "strided", 2, "rdonly")

    def test_into_a_buffer_with_gaps(self):
        self.heal(ALONE + TOGETHER, "holes", 2, "rdwr")


class Damage(Reads):
    def test_nothing_is_reported_without_damage(self):
        self.assertEqual(self.read("read_at_all", ranks=2), ["0 right 187500", "1 right 187500"])
        self.assertEqual(self.said, [])

    def test_verify_reads_off(self):
        self.damage("f", 5000)
        self.assertEqual(self.read("read_at", verify_reads="off"), ["0 wrong 625"])
        self.assertEqual(self.said, [])
        self.assertFalse(self.is_good())

    def test_beyond_repair(self):
        self.damage_row()
        bad = self.content("f")
        line, = self.read("read_at")
        self.assertRegex(line, rf"^0 error MPI_ERR_IO lzy: {self.path('f')}: bytes \d+ to \d+ are damaged: "
                               r"\d+ blocks of its row are lost")
        self.assertEqual(self.content("f"), bad, "nothing was written")

    def test_in_a_sealed_file(self):
        with open(os.open(self.path("key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))
        self.tool("lzy-protect", "--key", "key", "--force", "f")
        self.damage("f", 5000)
        self.assertEqual(self.read("read_at"), ["0 wrong 625"])
        self.assertRegex("".join(self.said), r"reads are not checked: .*it is sealed with key")
        self.assertEqual(self.read("read_at", key="key"), ["0 right 375000"])
        self.assertTrue(self.is_good(), "it was repaired on disk")
        self.tool("lzy-verify", "--key", "key", "f")

    def test_an_error_is_the_ranks_own(self):
        self.damage_row()
        first, second = self.read("read_at_all", ranks=2)
        self.assertIn("0 error MPI_ERR_IO", first)
        self.assertEqual(second, "1 right 187500")

    def test_cut_short(self):
        """Keeping its mtime: a program that does not look at the count would take for data what was in its buffer."""
        # Open MPI's own MPI-IO waits for ever for nonblocking reads that end behind the end of the file, lzy or not.
        nonblocking = [] if "Open MPI" in mpi_known.mpi() else ["iread_at"]
        for call in ["read_at", "read", "read_all", *nonblocking]:
            with self.subTest(call=call):
                os.truncate(self.path("f"), BYTES - 100)
                os.utime(self.path("f"), ns=(10**18, 10**18))
                self.assertEqual(self.read(call, "plain", "rdonly", str(BYTES // 8)), ["0 right 375000"])
                self.assertTrue(self.is_good())

    def test_cut_and_rotten_in_a_file_opened_for_writing(self):
        self.damage("f", 100)
        os.truncate(self.path("f"), BYTES - 5000)
        os.utime(self.path("f"), ns=(10**18, 10**18))
        self.assertEqual(self.read("read_at", "plain", "rdwr", str(BYTES // 8)), ["0 right 375000"])
        self.assertTrue(self.is_good())

    def test_a_destroyed_sidecar_is_reported(self):
        with open(self.path(".LZY.f"), "r+b") as sidecar:
            sidecar.write(b"x" * os.path.getsize(self.path(".LZY.f")))
        self.assertEqual(self.read("read_at"), ["0 right 375000"])
        self.assertEqual(len(self.said), 1)
        self.assertIn("reads are not checked", self.said[0])

    def test_cut_beyond_repair(self):
        os.truncate(self.path("f"), BYTES // 2)
        os.utime(self.path("f"), ns=(10**18, 10**18))
        line, = self.read("read_at", "plain", "rdonly", str(BYTES // 8))
        self.assertRegex(line, "^0 error MPI_ERR_IO lzy: ")

    def test_a_file_without_a_sidecar_is_read(self):
        os.remove(self.path(".LZY.f"))
        self.assertEqual(self.read("read_at_all", ranks=2), ["0 right 187500", "1 right 187500"])
        self.assertEqual(self.said, [])
        self.assertFalse(self.has(".LZY.f"))

    def test_file_without_a_handler_that_returns(self):
        """Files have MPI_ERRORS_RETURN unless somebody changes that; HDF5 and others look at codes only."""
        self.afresh(parity=2)
        for offset in (41 * BLOCK, 42 * BLOCK):
            self.damage("f", offset)
        self.assertEqual(self.read("read"), ["0 right 375000"])

    def test_a_renamed_file_is_checked(self):
        """Also if it is opened for writing, too: restarts begin so. Its sidecar comes along."""
        for mode in ("rdonly", "rdwr"):
            with self.subTest(mode):
                self.afresh()
                os.rename(self.path("f"), self.path("moved"))
                os.rename(self.path("moved"), self.path("f.restart"))
                self.damage("f.restart", 5000)
                done = self.run_program([CLIENT, "read_at", "plain", "f.restart", mode], ranks=1, verify_reads="on")
                self.assertEqual(done.stdout.split(), ["0", "right", "375000"])
                self.assertIn("were damaged; rebuilt from parity", done.stderr)
                self.assertEqual(self.content("f.restart"), self.content("good"))
                self.assertEqual(self.verify("f.restart"), 0)
                os.remove(self.path("f.restart"))

    def test_a_member_of_a_set(self):
        for rank in range(4):
            shutil.copy(self.path("good"), self.path(f"s.{rank}"))
        self.tool("lzy-protect", "--block-size", "4K", "s.%r")
        self.damage("s.2", 5000)
        os.rename(self.path("f"), self.path("other"))
        done = self.run_program([CLIENT, "read_at", "plain", "s.2"], ranks=1, verify_reads="on")
        self.assertEqual(done.stdout.split(), ["0", "right", "375000"])
        self.assertEqual(self.content("s.2"), self.content("good"))
        self.assertEqual(self.verify("s.%r"), 0)


class Writers(Reads):
    """What somebody has written is never taken for damage."""

    def test_own_writes(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.afresh()
                lines = self.read("rewrite", "plain", "rdwr", ranks=ranks)
                self.assertEqual(lines, [f"{rank} right 4" for rank in range(ranks)])
                self.assertEqual(self.said, [])
                self.assertEqual(self.verify(), 0)

    def test_an_edit_behind_mpi(self):
        with open(self.path("f"), "r+b") as file:
            file.seek(5000)
            file.write(b"edited")
        edited = self.content("f")
        self.assertEqual(self.read("read_at"), ["0 wrong 625"])
        self.assertEqual(self.said, [])
        self.assertEqual(self.content("f"), edited)

    def test_an_epoch_that_never_ended(self):
        """The same if the mtime tells nothing: network file systems are late with it."""
        self.crash("crash_after_sync")
        os.utime(self.path("f"), ns=(10**18, 10**18))
        written = self.content("f")
        self.assertNotEqual(written, self.content("good"))
        self.read("read_at")
        self.assertEqual(self.said, [])
        self.assertEqual(self.content("f"), written)
