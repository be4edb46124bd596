"""The Python package. Run by ctest (python.*), or by pytest with the package installed."""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import lzy

BLOCK = 64 << 10


class InDirectory(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lzy-python-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def write(self, name, blocks=20):
        path = self.dir / name
        path.write_bytes(b"".join(bytes([i % 251]) * BLOCK for i in range(blocks)))
        return path

    def rot(self, path, offset):
        before = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 0x40]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Operations(InDirectory):
    def test_protect_and_info(self):
        path = self.write("a")
        report = lzy.protect(path, parity=2, group=5, stripe=BLOCK)
        self.assertTrue(report.ok)
        [dataset] = report.datasets
        self.assertEqual((dataset.path, dataset.kind, dataset.state), (str(path), "shared", "intact"))
        self.assertEqual((dataset.devices, dataset.parity, dataset.block_size, dataset.bytes), (5, 2, BLOCK, 20 * BLOCK))
        self.assertTrue(dataset.committed)
        self.assertFalse(lzy.protect(path).datasets[0].committed)
        self.assertEqual(lzy.info(path).datasets[0].root, dataset.root)
        self.assertEqual(len(dataset.root), 32)

    def test_damage_is_found_and_repaired(self):
        path = self.write("a")
        whole = path.read_bytes()
        lzy.protect(path)
        self.rot(path, 7 * BLOCK + 5)
        report = lzy.verify(path)
        self.assertEqual((report.code, report.ok), (lzy.Code.DAMAGED, False))
        [damage] = report.datasets[0].damage
        self.assertEqual((damage.path, damage.part, damage.offset, damage.length, damage.cause, damage.repaired),
                         (str(path), "data", 7 * BLOCK, BLOCK, "hash", False))
        with self.assertRaises(lzy.Damaged) as caught:
            report.check()
        self.assertIs(caught.exception.report, report)
        [repaired] = lzy.repair(path).datasets[0].damage
        self.assertTrue(repaired.repaired)
        self.assertEqual(path.read_bytes(), whole)
        self.assertTrue(lzy.verify(path, from_disk=True).ok)

    def test_what_lies_in_damage_is_named(self):
        # Classic netCDF: one variable of floats, from byte 4096 on.
        count = BLOCK // 2
        head = b"CDF\1" + struct.pack(">iii", 0, 10, 1) + struct.pack(">i4si", 1, b"x", count) + bytes(8)
        head += struct.pack(">ii", 11, 1) + struct.pack(">i4s", 1, b"T") + struct.pack(">ii", 1, 0) + bytes(8)
        head += struct.pack(">iii", 5, 4 * count, 4096)
        path = self.dir / "a.nc"
        path.write_bytes(head.ljust(4096, b"\0") + bytes(4 * count))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        lzy.protect(path)
        self.rot(path, BLOCK + 5)
        [dataset] = lzy.verify(path).datasets
        [damage] = dataset.damage
        self.assertEqual((damage.objects, damage.objects_left_off, dataset.warnings), (("/T",), 0, ()))
        first = (BLOCK - 4096) // 4
        self.assertEqual(damage.object_texts, (f"/T (raw data, elements [{first}] to [{first + BLOCK // 4 - 1}])",))
        self.assertEqual(lzy.verify(path, name_objects=False).datasets[0].damage[0].objects, ())
        self.assertEqual(lzy.repair(path).datasets[0].damage[0].objects, ("/T",))

    def test_a_lost_member_of_a_set_is_restored(self):
        members = [self.write(f"s.{rank}") for rank in range(3)]
        pattern = str(self.dir / "s.%r")
        self.assertEqual(lzy.protect(pattern).datasets[0].kind, "set")
        whole = members[1].read_bytes()
        members[1].unlink()
        (self.dir / ".LZY.s.1").unlink()
        self.assertEqual(lzy.restore(pattern, dry_run=True).code, lzy.Code.DAMAGED)
        self.assertFalse(members[1].exists())
        self.assertEqual(lzy.restore(pattern).datasets[0].state, "restored")
        self.assertEqual(members[1].read_bytes(), whole)

    def test_a_named_device_is_rebuilt(self):
        path = self.write("a")
        lzy.protect(path)
        self.assertIn(2, {damage.device for damage in lzy.restore(path, devices=[2]).datasets[0].damage})
        with self.assertRaises(lzy.LzyError):
            lzy.restore(path, devices=[200])

    def test_each_failure_has_its_exception(self):
        path = self.write("a")
        self.assertEqual(lzy.verify(path).code, lzy.Code.UNPROTECTED)
        with self.assertRaises(lzy.Unprotected):
            lzy.repair(path)
        with self.assertRaisesRegex(lzy.UsageError, "parity"):
            lzy.protect(path, parity=255)
        with self.assertRaises(ValueError):
            lzy.verify(self.dir / "absent")
        members = [self.write(f"s.{rank}") for rank in range(3)]
        pattern = str(self.dir / "s.%r")
        lzy.protect(pattern, parity=1)
        for member in members[:2]:
            member.unlink()
        self.assertEqual(lzy.verify(pattern).code, lzy.Code.UNREPAIRABLE)
        with self.assertRaises(lzy.Unrepairable) as caught:
            lzy.restore(pattern)
        self.assertEqual(caught.exception.code, lzy.Code.UNREPAIRABLE)
        self.assertIn(pattern, str(caught.exception))

    def test_every_code_but_ok_has_a_class_of_its_own(self):
        classes = set()
        for code in lzy.Code:
            report = lzy.Report("verify", code, "")
            if code == lzy.Code.OK:
                self.assertIs(report.check(), report)
                continue
            with self.assertRaises(lzy.LzyError) as caught:
                report.check()
            classes.add(type(caught.exception))
            self.assertEqual(str(caught.exception), code.text)
        self.assertEqual(len(classes), len(lzy.Code) - 1)

    def test_names_may_be_any_bytes(self):
        path = os.fsencode(self.dir) + b"/n\xff\xc3\xa4"
        with open(path, "wb") as file:
            file.write(b"a" * BLOCK)
        [dataset] = lzy.protect(os.fsdecode(path)).datasets
        self.assertEqual(os.fsencode(dataset.path), path)

    def test_the_environment_counts_only_if_it_is_asked_for(self):
        path = self.write("a")
        os.environ["LZY_PARITY"] = "3"
        self.addCleanup(os.environ.pop, "LZY_PARITY")
        self.assertEqual(lzy.protect(path).datasets[0].parity, 1)
        self.assertEqual(lzy.protect(self.write("b"), use_environment=True).datasets[0].parity, 3)


class Progress(InDirectory):
    def test_function_is_told_how_far_the_work_is(self):
        path = self.write("a", 100)
        told = []
        lzy.protect(path)
        lzy.verify(path, progress=lambda *words: told.append(words))
        self.assertTrue(told)
        for phase, done, total in told:
            self.assertTrue(phase)
            self.assertLessEqual(done, total)
        self.assertEqual(told[-1][1], told[-1][2])

    def test_its_exception_is_the_callers(self):
        path = self.write("a", 100)

        def stop(phase, done, total):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            lzy.protect(path, progress=stop)
        # The work was done nevertheless.
        self.assertTrue(lzy.verify(path).ok)


class OpenVerified(InDirectory):
    def test_an_intact_file_is_opened(self):
        path = self.write("a")
        lzy.protect(path)
        with lzy.open_verified(path) as file:
            self.assertEqual(file.read(), path.read_bytes())

    def test_a_damaged_file_is_not_unless_it_is_repaired(self):
        path = self.write("a")
        whole = path.read_bytes()
        lzy.protect(path)
        self.rot(path, 100)
        with self.assertRaises(lzy.Damaged), lzy.open_verified(path):
            self.fail("a damaged file was opened")
        with lzy.open_verified(path, repair=True) as file:
            self.assertEqual(file.read(), whole)

    def test_an_unprotected_file_is_not(self):
        with self.assertRaises(lzy.Unprotected), lzy.open_verified(self.write("a")):
            self.fail("an unprotected file was opened")


class Copy(InDirectory):
    def test_a_damaged_file_is_healed_in_its_copy(self):
        path = self.write("a")
        whole = path.read_bytes()
        lzy.protect(path)
        self.rot(path, 3 * BLOCK)
        told = []
        copied = lzy.copy(path, self.dir / "b", parity=2, progress=lambda *words: told.append(words))
        self.assertEqual((copied.files, copied.failed, copied.bytes, copied.healed_bytes), (1, 0, len(whole), BLOCK))
        self.assertEqual((self.dir / "b").read_bytes(), whole)
        self.assertEqual(lzy.verify(self.dir / "b").datasets[0].parity, 2)
        self.assertEqual(lzy.verify(path).code, lzy.Code.DAMAGED)
        self.assertTrue(told)

    def test_a_replica_gives_what_parity_cannot(self):
        path = self.write("a")
        whole = path.read_bytes()
        lzy.protect(path)
        (self.dir / "copy").write_bytes(whole[:-1] + b"!")
        for block in range(8):
            self.rot(path, block * BLOCK)
        with self.assertRaises(lzy.Unrepairable):
            lzy.restore(path)
        self.assertEqual(lzy.restore(path, replica=self.dir / "copy").datasets[0].state, "restored")
        self.assertEqual(path.read_bytes(), whole)

    def test_copies_are_compared(self):
        path = self.write("a")
        lzy.protect(path)
        lzy.copy(path, self.dir / "b", parity=2)
        same = lzy.diff(path, self.dir / "b")
        self.assertFalse(same)
        self.assertEqual((same.code, same.same, same.entries), (lzy.Code.OK, 1, ()))
        self.rot(self.dir / "b", 3 * BLOCK + 5)
        self.assertFalse(lzy.diff(path, self.dir / "b"))  # by what was committed
        found = lzy.diff(path, self.dir / "b", deep=True)
        self.assertTrue(found)
        self.assertEqual([(d.verdict, d.ranges) for d in found.entries], [("different", ((3 * BLOCK + 5, 1),))])
        os.utime(path)
        [unknown] = lzy.diff(path, self.dir / "b").entries
        self.assertEqual((unknown.verdict, unknown.code, unknown.ranges), ("unknown", lzy.Code.STALE, None))
        with self.assertRaises(lzy.UsageError):
            lzy.diff(path, self.dir / "absent")

    def test_copies_without_protection(self):
        lzy.copy(self.write("a"), self.dir / "b", protect=False, verify="cache")
        self.assertEqual(lzy.verify(self.dir / "b").code, lzy.Code.UNPROTECTED)

    def test_what_cannot_be_copied_is_an_exception(self):
        with self.assertRaises(lzy.LzyError):
            lzy.copy(self.dir / "absent", self.dir / "b")
        with self.assertRaisesRegex(ValueError, "verify: 'disk' is not accepted"):
            lzy.copy(self.write("a"), self.dir / "b", verify="disk")

    def test_progress_can_end_a_copy(self):
        def stop(done, total):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            lzy.copy(self.write("a", 200), self.dir / "b", progress=stop)
        self.assertFalse((self.dir / "b").exists())


MEMBERS = """
import sys
import lzy
from mpi4py import MPI
comm = MPI.COMM_WORLD
report = lzy.protect(sys.argv[1], parity=2, comm=comm)
assert report.datasets[0].kind == "set" and report.ok, report
assert len(set(comm.allgather(report.datasets[0].root))) == 1
assert lzy.verify(sys.argv[1], comm=comm.Dup()).ok
ranks = comm.gather(comm.rank)
if comm.rank == 0:
    print(ranks)
"""


class WithMpi4py(InDirectory):
    """Under mpiexec, with the mpi4py that is installed, or that of TEST_LZY_MPI4PY."""

    def run_ranks(self, ranks, code, *words):
        environment = dict(os.environ)
        extra = os.environ.get("TEST_LZY_MPI4PY", "")
        environment["PYTHONPATH"] = os.pathsep.join(path for path in [extra, *sys.path] if path)
        launcher = os.environ.get("TEST_LZY_MPIEXEC", "mpiexec")
        return subprocess.run([launcher, "-n", str(ranks), sys.executable, "-c", code, *words], env=environment,
                              capture_output=True, text=True, timeout=120, check=False)

    def setUp(self):
        super().setUp()
        done = self.run_ranks(1, "from mpi4py import MPI")
        if done.returncode != 0:
            self.skipTest(f"mpi4py does not work here: {done.stderr.strip().splitlines()[-1:]}")

    def test_processes_work_together(self):
        for rank in range(4):
            self.write(f"s.{rank}")
        done = self.run_ranks(2, MEMBERS, str(self.dir / "s.%r"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "[0, 1]\n")


if __name__ == "__main__":
    unittest.main()
