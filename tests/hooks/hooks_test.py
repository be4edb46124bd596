"""Programs with and without the interposition layer: same results, and protected afterwards.

Environment: as for layered.py.
"""

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest

import format_reader
import mpi_known
from layered import BUILD, CLIENT, LAYER, MPIEXEC, PATIENCE, WRITE_CALLS, Held, Layer


def listed_calls():
    out = subprocess.run([MPIEXEC, "-n", "1", WRITE_CALLS, "--list"], check=True, capture_output=True, text=True)
    return [name for name in out.stdout.split() if re.match(r"i?write", name)]


class Symbols(unittest.TestCase):
    """The table of calls against the MPI library's own."""
    TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../romio_hooks/layer/wrapped_calls.def")

    def exported(self, library):
        out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
        return {line.split()[-1].split("@")[0] for line in out.stdout.splitlines()}

    def setUp(self):
        self.layer = self.exported(LAYER)
        self.mpi = self.exported(os.environ["HOOKS_TEST_MPI"])
        with open(self.TABLE, encoding="utf-8") as table:
            entries = re.findall(r"^LZY_(\w+)\((\w+)", table.read(), re.MULTILINE)
        self.wrapped = {f"MPI_{name}" for kind, name in entries if kind not in ("UNWRAPPED", "CHANGES_NOTHING")}
        self.wrapped |= {f"MPI_{name}_c" for kind, name in entries if kind.endswith("_TWINS")}
        self.unwrapped = {f"MPI_{name}" for kind, name in entries if kind in ("UNWRAPPED", "CHANGES_NOTHING")}
        self.assertEqual(len(entries), len(self.wrapped) + len(self.unwrapped) - len(
            [1 for kind, _ in entries if kind.endswith("_TWINS")]), "a call stands in the table twice")

    def test_every_call_of_mpi_io_is_in_the_table(self):
        """A function that a new MPI brings fails this until somebody has thought about it."""
        calls = {name for name in self.mpi if re.match(r"MPI_File_[a-z]", name)}
        self.assertGreater(len(calls), 50)
        unlisted = {name for name in calls - self.wrapped if name.removesuffix("_c") not in self.unwrapped}
        self.assertEqual(unlisted, set())

    def test_everything_that_writes_is_wrapped(self):
        writes = {name for name in self.mpi if re.match(r"MPI_File_i?write", name) and not name.endswith("_end")}
        self.assertGreaterEqual(len(writes), 14)
        self.assertEqual(writes - self.layer, set())

    def test_nothing_is_wrapped_that_mpi_does_not_have(self):
        """Programs look which calls there are, and would take it for one."""
        self.assertEqual(self.layer - self.mpi, set())

    def test_what_is_listed_is_in_mpi(self):
        """But for large counts and sessions, which not every MPI has yet."""
        new = {name for name in self.wrapped if name.endswith("_c")} | {"MPI_Session_finalize"}
        self.assertEqual(self.wrapped - self.mpi - new, set())

    def test_both_names_are_exported_and_nothing_else(self):
        short = {name for name in self.layer if name.startswith("MPI_")}
        self.assertEqual(self.layer, short | {"P" + name for name in short})
        self.assertEqual(short - self.wrapped, set())

    def test_the_layer_itself_calls_mpi_by_its_second_name(self):
        """So that tools which count what a program does do not count it, nor are called from within its calls."""
        [half] = glob.glob(f"{BUILD}/lib/liblzy_mpiio-*.so")
        out = subprocess.run(["nm", "-D", "--undefined-only", half], check=True, capture_output=True, text=True).stdout
        called = {line.split()[-1].split("@")[0] for line in out.splitlines()}
        self.assertIn("PMPI_File_get_position", called)
        self.assertEqual({name for name in called if name.startswith("MPI_")}, set())

    def test_the_preloaded_half_needs_no_mpi(self):
        out = subprocess.run(["readelf", "-d", LAYER], check=True, capture_output=True, text=True).stdout
        needed = re.findall(r"NEEDED.*\[(.*)\]", out)
        self.assertEqual([name for name in needed if not re.match(r"libc\.|libdl\.|ld-linux", name)], [])


class Calls(Layer):
    """Every call that writes, bare and under the layer."""
    VIEW = []

    def leave_out_if_known(self, call, bare):
        mpi_known.leave_out_if_known(self, f"MPI_File_{call}{' through a view' if self.VIEW else ''}", bare)

    def test_calls(self):
        calls = listed_calls()
        self.assertEqual(len(calls), len(set(calls)))
        for call in calls:
            with self.subTest(call=call):
                command = [WRITE_CALLS, "--call", call, *self.VIEW]
                bare = self.run_program([*command, f"bare.{call}"], layer=False)
                self.leave_out_if_known(call, bare)
                done = self.run_program([*command, f"with.{call}"])
                self.quiet(done)
                self.assertEqual(done.returncode, bare.returncode)
                if not re.match(r"i?write_shared", call):  # the order is open, so runs may differ
                    self.assertEqual(self.content(f"with.{call}"), self.content(f"bare.{call}"))
                check = self.run_program([*command, "--check", f"with.{call}"], layer=False)
                self.assertEqual(check.returncode, 0, check.stderr)
                self.assertTrue(self.has(f".LZY.with.{call}"))
                self.assertEqual(self.verify(f"with.{call}"), 0)

    def test_each_call_is_seen(self):
        """Written over a committed file, whose blocks must not be taken for untouched."""
        self.assertEqual(self.run_program([WRITE_CALLS, "--call", "set_size", *self.VIEW, "f"]).returncode, 0)
        for call in listed_calls():
            with self.subTest(call=call):
                # set_size leaves another content than the calls do
                self.assertEqual(self.run_program([WRITE_CALLS, "--call", "set_size", *self.VIEW, "f"]).returncode, 0)
                self.assertEqual(self.verify(), 0)
                done = self.run_program([WRITE_CALLS, "--call", call, *self.VIEW, "f"])
                if done.returncode != 0:
                    self.leave_out_if_known(
                        call, self.run_program([WRITE_CALLS, "--call", call, *self.VIEW, "bare"], layer=False))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.verify(), 0)


class CallsWithView(Calls):
    VIEW = ["--view"]


class Modes(Layer):
    """The other modes of write_calls."""

    def mode(self, name, **options):
        done = self.run_program([WRITE_CALLS, "--call", name, "f"], **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.quiet(done)
        check = self.run_program([WRITE_CALLS, "--call", name, "--check", "f"], layer=False)
        self.assertEqual(check.returncode, 0, check.stderr)

    def test_protected_afterwards(self):
        for name in ["set_size", "preallocate", "sync", "update", "read_only"]:
            with self.subTest(mode=name):
                self.mode(name)
                self.assertEqual(self.files(), [".LZY.f", "f"])
                self.assertEqual(self.verify(), 0)
                os.remove(self.path("f"))
                os.remove(self.path(".LZY.f"))

    def test_delete_takes_the_sidecar_along(self):
        self.mode("delete")
        self.assertEqual(self.files(), [])

    def test_delete_on_close_leaves_nothing(self):
        self.mode("delete_on_close")
        self.assertEqual(self.files(), [])

    def test_reading_makes_no_sidecar(self):
        self.run_program([WRITE_CALLS, "--call", "write", "f"], layer=False)
        done = self.run_program([WRITE_CALLS, "--call", "read_only", "--existing", "f"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files(), ["f"])

    def test_nothing_written_makes_no_sidecar(self):
        self.mode("close_only")
        self.assertEqual(self.files(), ["f"])

    def test_a_renamed_file_keeps_its_protection(self):
        self.mode("rename")
        self.assertEqual(self.verify(), 0)
        # The next to write it finds the sidecar by its stamp.
        done = self.run_program([WRITE_CALLS, "--call", "update", "--existing", "f"], report="report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files(), [".LZY.f", "f", "report"])
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.reports()[0]["generation"], 2)

    def test_ranks_that_hold_no_descriptor(self):
        """With deferred open only aggregators open the file; here one rank of three, which writes for all."""
        with open(self.path("hints"), "w", encoding="utf-8") as hints:
            hints.write("romio_no_indep_rw true\nromio_cb_write enable\ncb_nodes 1\n")
        for call in ["write_at_all", "update"]:
            words = [] if call == "write_at_all" else ["--existing"]
            for name, layer in [("bare", False), ("with", True)]:
                done = self.run_program(["env", f"ROMIO_HINTS={self.path('hints')}", WRITE_CALLS, "--call", call, *words, name],
                                        ranks=3, layer=layer)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(self.content("with"), self.content("bare"))
            self.assertEqual(self.verify("with"), 0)

    def test_disabled(self):
        self.mode("sync", disable=1)
        self.assertEqual(self.files(), ["f"])


class Capture(Layer):
    """What is taken out of write buffers need not be read back."""

    GEOMETRY = {"block_size": "4K", "stripe": "64K"}

    def root(self):
        info = subprocess.run([f"{BUILD}/bin/lzy-info", "--json", "f"], cwd=self.dir, capture_output=True, text=True,
                              check=True, timeout=PATIENCE)
        return json.loads(info.stdout)["datasets"][0]["root"]

    def test_a_checkpoint_is_not_read_back(self):
        for ranks, threads in [(1, 1), (1, 2), (2, 1), (3, 2)]:  # with two, captured while it is written
            for parity in [0, 1, 2]:
                with self.subTest(ranks=ranks, threads=threads, parity=parity):
                    for name in self.files():
                        os.remove(self.path(name))
                    self.quiet(self.client("slabs", ranks=ranks, report="report", parity=parity, threads=threads, **self.GEOMETRY))
                    [report] = self.reports()
                    self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))
                    self.assertEqual(self.verify(), 0)
                    # The same as without.
                    captured = self.root()
                    self.client("slabs", ranks=ranks, report="report", parity=parity, capture="off", **self.GEOMETRY)
                    report = self.reports()[1]
                    self.assertGreaterEqual(report["bytes_reread"], report["bytes"])
                    self.assertEqual((report["bytes_captured"], self.root()), (0, captured))
                    self.assertEqual(self.verify(), 0)

    def test_nonblocking_writes_are_not_read_back(self):
        for how in ["wait", "test", "waitall", "testall", "waitany", "testany", "waitsome", "testsome", "split"]:
            with self.subTest(how):
                for name in self.files():
                    os.remove(self.path(name))
                action = "slabs_split" if how == "split" else "slabs_nonblocking"
                self.quiet(self.client(action, argument=how, report="report", **self.GEOMETRY))
                [report] = self.reports()
                self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))
                self.assertEqual(self.verify(), 0)

    def test_a_write_that_fails_or_falls_short_is_read_back(self):
        for call, threads in [("write_at", 1), ("write_at", 2), ("iwrite_at", 2), ("iwrite_at_all", 2), ("write_at_all_begin", 2)]:
            with self.subTest(call, threads=threads):
                for name in self.files():
                    os.remove(self.path(name))
                bare = self.run_program([CLIENT, "too_large", "bare", call], ranks=1, layer=False)
                mpi_known.leave_out_if_known(self, f"MPI_File_{call} that fails", bare)
                self.client("too_large", argument=call, ranks=1, report="report", threads=threads, **self.GEOMETRY)
                before, after = self.reports()
                self.assertEqual((before["bytes_captured"], after["bytes_captured"]), (before["bytes"], 0))
                self.assertEqual(self.verify(), 0)
                self.assertEqual(self.content("f")[-1:], b"n")  # in the first half some MPIs write nothing, either

    def test_the_pointer_is_where_mpi_has_it(self):
        bare = self.run_program([CLIENT, "pointer_set_back", "bare"], layer=False)
        mpi_known.leave_out_if_known(self, "MPI_File_iwrite_at_all", bare)
        self.client("pointer_set_back", block_size="4K", stripe="4K")
        self.assertEqual(self.content("f"), self.content("bare"))
        self.assertEqual(self.verify(), 0)

    def test_written_again_in_the_same_epoch_it_is_read(self):
        self.client("slabs", ranks=2, report="report", **self.GEOMETRY)
        self.client("slabs_twice", ranks=2, report="report", **self.GEOMETRY)
        self.assertEqual(self.reports()[1]["bytes_captured"], 0)
        self.assertEqual(self.verify(), 0)


class DeviceDirectories(Layer):
    """Parity of shared files in parts, one a directory."""

    GEOMETRY = {"block_size": "4K", "stripe": "64K", "parity": 2}

    def setUp(self):
        super().setUp()
        self.directories = [self.path(f"d{device}") for device in range(4)]
        for directory in self.directories:
            os.mkdir(directory)
        self.options = {**self.GEOMETRY, "device_dirs": ":".join(self.directories)}

    def parts(self):
        return [len(os.listdir(directory)) for directory in self.directories]

    def info(self, name="f"):
        done = subprocess.run([f"{BUILD}/bin/lzy-info", "--json", name], cwd=self.dir, capture_output=True, text=True, check=True,
                              timeout=PATIENCE)
        return json.loads(done.stdout)["datasets"][0]

    def lose(self, device, unit):
        """Its units of the file, and its directory's content."""
        for at in range(device * unit, os.path.getsize(self.path("f")), len(self.directories) * unit):
            self.damage("f", at)
        for part in os.listdir(self.directories[device]):
            os.remove(os.path.join(self.directories[device], part))

    def test_a_checkpoint_is_not_read_back(self):
        for ranks in [1, 2, 3]:
            with self.subTest(ranks=ranks):
                for name in self.files():
                    if name in ("f", ".LZY.f", "report"):
                        os.remove(self.path(name))
                self.quiet(self.client("slabs", ranks=ranks, report="report", **self.options))
                [report] = self.reports()
                self.assertEqual((report["bytes_reread"], report["bytes_captured"]), (0, report["bytes"]))
                self.assertEqual(self.verify(), 0)
                # The same data, and so the same root, as with one sidecar.
                here = self.info()["root"]
                self.client("slabs", name="g", ranks=ranks, group=4, **self.GEOMETRY)
                self.assertEqual(self.info("g")["root"], here)
                before = self.content("f")
                unit = self.info()["unit"]
                for device in [0, 3]:
                    self.lose(device, unit)
                self.assertEqual(self.verify(), 1)
                subprocess.run([f"{BUILD}/bin/lzy-restore", "--quiet", "f"], cwd=self.dir, check=True, timeout=PATIENCE)
                self.assertEqual((self.content("f"), self.verify()), (before, 0))

    def test_commits_in_place(self):
        self.quiet(self.client("rounds", ranks=3, report="report", block_size="4K", stripe="4K", device_dirs=self.options["device_dirs"]))
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.parts(), [1, 1, 1, 1])
        reports = self.reports()
        self.assertEqual([report["generation"] for report in reports], [1, 2, 3])
        for report in reports[1:]:
            self.assertLess(report["bytes_reread"], report["bytes"])

    def test_an_update_after_a_part_was_lost_makes_all_anew(self):
        self.client("slabs", **self.options)
        self.lose(1, self.info()["unit"])
        subprocess.run([f"{BUILD}/bin/lzy-verify", "--repair", "--quiet", "f"], cwd=self.dir, check=True, timeout=PATIENCE)
        [part] = os.listdir(self.directories[1])
        os.remove(os.path.join(self.directories[1], part))
        self.quiet(self.client("scattered_updates", ranks=3, **self.options))
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.parts(), [1, 1, 1, 1])

    def test_delete_takes_the_parts_along(self):
        done = self.run_program([WRITE_CALLS, "--call", "write_at_all", "f"], **self.options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parts(), [1, 1, 1, 1])
        done = self.run_program([WRITE_CALLS, "--call", "delete", "f"], **self.options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parts(), [0, 0, 0, 0])

    def test_a_directory_that_is_lost_costs_protection_and_nothing_else(self):
        self.client("slabs", **self.options)
        shutil.rmtree(self.directories[2])
        done = self.client("scattered_updates", ranks=2, **self.options)
        self.assertRegex(done.stderr, r"^lzy: .*/d2.*not there[^\n]*\n$")
        self.assertEqual(self.verify(), 1)  # at risk, too
        os.mkdir(self.directories[2])
        self.quiet(self.client("scattered_updates", ranks=2, **self.options))
        self.assertEqual(self.verify(), 0)

    def test_a_lost_sidecar_is_had_from_a_spare(self):
        """And what a lost device has done to the file is not taken for new."""
        self.client("slabs", **self.options)
        before = self.content("f")
        os.remove(self.path(".LZY.f"))
        at = len(before) - 1000
        self.damage("f", at)
        self.client("scattered_updates", ranks=1, **self.options)
        done = subprocess.run([f"{BUILD}/bin/lzy-verify", "--repair", "--quiet", "f"], cwd=self.dir, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.content("f")[at], before[at])

    def test_directories_that_cannot_be_used(self):
        for directories, why in [("d0:none", "does not exist"), ("d0:d0", "named twice")]:
            with self.subTest(directories):
                done = self.client("slabs", name="h", **self.GEOMETRY | {"parity": 1}, device_dirs=directories)
                self.assertRegex(done.stderr, f"^lzy: .*device-dirs: .*{why}.*\n$")
                self.assertRegex(done.stderr, f"by: lzy-protect .*--parity 1 .*--device-dirs {directories} ")
                self.assertFalse(any(self.parts()))


class Sealed(Layer):
    """With option key: datasets that nobody else could have made."""

    GEOMETRY = {"block_size": "4K", "stripe": "64K"}

    def setUp(self):
        super().setUp()
        with open(os.open(self.path("key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))

    def judge(self, *options, name="f"):
        return subprocess.run([f"{BUILD}/bin/lzy-verify", *options, name], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE).returncode

    def test_what_programs_write_is_sealed(self):
        for capture in ["on", "off"]:
            with self.subTest(capture=capture):
                self.quiet(self.client("slabs", key="key", capture=capture, report="report", **self.GEOMETRY))
                self.assertEqual(self.reports()[-1]["bytes_reread"] == 0, capture == "on")
                self.assertEqual((self.judge("--key", "key"), self.judge()), (0, 3))
                result = format_reader.check([self.path("f")], secret=bytes(range(32)))
                self.assertEqual((result.lines, result.errors), ([], []))
                self.damage("f", 5000)
                self.assertEqual(self.judge("--key", "key"), 1)
                self.assertEqual(self.judge("--repair", "--key", "key"), 0)

    def test_updates_are_sealed_again(self):
        self.quiet(self.client("slabs", key="key", **self.GEOMETRY))
        self.quiet(self.client("slabs_twice", key="key", **self.GEOMETRY))
        self.assertEqual(self.judge("--key", "key"), 0)

    def test_a_program_without_the_key_loses_protection_and_nothing_else(self):
        self.client("slabs", name="bare", layer=False)
        self.client("slabs", key="key", **self.GEOMETRY)
        seal = self.content(".LZY.f")
        done = self.client("slabs_twice", **self.GEOMETRY)
        self.assertRegex(done.stderr, r"f: not protected: .*: it is sealed with key [0-9a-f]{32}, which has to be given")
        self.client("slabs_twice", name="bare", layer=False)
        self.assertEqual(self.content("f"), self.content("bare"))
        self.assertEqual(self.content(".LZY.f"), seal)

    def test_a_file_that_is_not_sealed_is_for_its_user_to_seal(self):
        self.client("slabs", **self.GEOMETRY)
        done = self.client("slabs_twice", key="key", **self.GEOMETRY)
        self.assertRegex(done.stderr, r"f: not protected: .*: it is not sealed with key [0-9a-f]{32}")
        self.assertEqual(self.judge("--key", "key"), 4)

    def test_a_key_that_cannot_be_used(self):
        os.chmod(self.path("key"), 0o644)
        for key in ["key", "nowhere", "."]:
            with self.subTest(key=key):
                done = self.client("slabs", key=key, ranks=3)
                self.assertIn(f"LZY_KEY: '{key}' is not accepted", done.stderr)
                self.assertFalse(self.has(".LZY.f"))


class Updates(Layer):
    """Files that were committed before."""

    def test_an_update_reads_less_than_the_file(self):
        self.run_program([WRITE_CALLS, "--call", "write_at_all", "f"], block_size="4K", stripe="4K", report="report")
        self.run_program([WRITE_CALLS, "--call", "update", "--existing", "f"], block_size="4K", stripe="4K", report="report")
        first, second = self.reports()
        self.assertEqual((first["generation"], second["generation"]), (1, 2))
        self.assertEqual(first["bytes"], second["bytes"])
        self.assertGreaterEqual(first["bytes_reread"] + first["bytes_captured"], first["bytes"])
        self.assertLess(second["bytes_reread"], second["bytes"] // 2)
        self.assertEqual(self.verify(), 0)

    def test_scattered_updates(self):
        self.client("plain", ranks=3)
        for _ in range(2):
            self.quiet(self.client("scattered_updates", ranks=3))
            self.assertEqual(self.verify(), 0)

    def test_by_the_individual_pointer_wherever_it_was_moved(self):
        bare = self.client("own_pointer", ranks=1, layer=False)
        content = self.content("f")
        os.remove(self.path("f"))
        done = self.client("own_pointer", ranks=1, block_size="4K", stripe="4K")
        self.assertEqual(sorted(done.stdout.split("\n")), sorted(bare.stdout.split("\n")))
        self.assertEqual(self.content("f"), content)
        self.assertEqual(self.verify(), 0)
        self.client("own_pointer", ranks=1)  # other places, since it is longer now
        self.assertEqual(self.verify(), 0)

    def test_commits_at_sync(self):
        self.client("rounds", ranks=3, report="report", block_size="4K", stripe="4K")
        self.assertEqual(self.verify(), 0)
        reports = self.reports()
        self.assertEqual([report["generation"] for report in reports], [1, 2, 3])
        # One rank's block of three was written in each of the later rounds, and that rank began the epoch.
        for report in reports[1:]:
            self.assertLess(report["bytes_reread"], report["bytes"])

    def test_what_was_not_written_is_not_taken_for_new(self):
        small = {"block_size": "4K", "stripe": "4K"}
        self.run_program([WRITE_CALLS, "--call", "write_at_all", "f"], **small)
        # The update begins in block 320. Blocks 312 and 327 are in one row (docs/format.md: unit row 45), so the parity
        # of the former's row is made anew.
        self.damage("f", 312 * 4096 + 5)
        done = self.run_program([WRITE_CALLS, "--call", "update", "--existing", "f"], **small)
        self.assertEqual(done.returncode, 0)
        self.assertIn("4 KiB not written by this program differ", done.stderr)
        self.assertIn("4 KiB of them can not be mended any more", done.stderr)
        # With parity 1 nothing could: its row has lost the rotten block and what was in place of the new one.
        self.assertEqual(self.verify(), 2)

    def test_rot_is_not_taken_for_new_where_the_file_was_cut(self):
        small = {"block_size": "4K", "stripe": "4K"}
        self.client("slabs", ranks=2, **small)
        self.damage("f", 5 << 20)
        done = self.client("cut_and_write", ranks=2, report="report", **small)
        self.assertNotEqual(self.verify(), 0, done.stderr)
        [report] = self.reports()
        self.assertLess(report["bytes_reread"], report["bytes"] // 2)

    def test_truncated_behind_the_layer(self):
        self.client("plain", ranks=3)
        self.client("truncated_by_posix", ranks=3)
        self.assertEqual(self.verify(), 0)

    def test_truncated_amid_writes(self):
        self.client("plain", ranks=3, block_size="512", stripe="512")
        self.quiet(self.client("truncated_amid_writes", ranks=3))
        self.assertEqual(self.verify(), 0)

    def test_made_smaller_by_mpi(self):
        self.client("plain", ranks=3, block_size="512", stripe="512")
        self.damage("f", 50)
        self.client("smaller", ranks=3)  # nothing else is touched, so the old hash stands
        self.assertEqual(self.verify(), 1)

    def test_written_after_a_refused_view(self):
        self.client("plain", ranks=3, block_size="512", stripe="512")
        self.quiet(self.client("written_after_a_refused_view", ranks=2))
        self.assertEqual(self.verify(), 0)

    def test_changed_behind_the_layer_between_runs(self):
        self.client("plain", ranks=3)
        with open(self.path("f"), "r+b") as file:
            file.write(b"edited")
        self.client("scattered_updates", ranks=3)
        self.assertEqual(self.verify(), 0)

    def test_reading_through_a_writable_handle_changes_nothing(self):
        self.client("plain")
        before = self.content(".LZY.f")
        self.client("only_read", report="report")
        self.assertFalse(self.has("report"))
        self.assertEqual(len(self.content(".LZY.f")), len(before))
        self.assertEqual(self.verify(), 0)


class SmallFiles(Layer):
    """What their sidecars take on disk (docs/reference/limits.md)."""

    def allocated(self, name=".LZY.f"):
        return os.stat(self.path(name)).st_blocks * 512

    def test_one_page_beyond_the_parity(self):
        page = 4096
        for size in (1, 5, 4096, 10 << 10, 64 << 10):
            for block in (4 << 10, 64 << 10):
                with self.subTest(size=size, block=block):
                    for name in self.files():
                        os.remove(self.path(name))
                    for generation in (2, 4):
                        self.quiet(self.client("small", argument=str(size), block_size=block))
                        self.assertEqual(self.content("f")[:1], b"x")
                        parity = struct.unpack_from("<Q", self.content(".LZY.f"), 168)[0]
                        self.assertLessEqual(self.allocated(), max(2 * page, -(-parity // page) * page + page))
                        if size <= 4096:
                            self.assertLessEqual(self.allocated(), 8 << 10)
                        if size <= 10 << 10 or block == 4 << 10:
                            self.assertLessEqual(self.allocated(), 16 << 10)
                        self.assertEqual(struct.unpack_from("<Q", self.content(".LZY.f"), 56)[0], generation)
                        self.assertEqual(self.verify(), 0)

    def test_a_crash_leaves_it_at_risk(self):
        self.client("small", argument="4096", ranks=1)
        self.crash("write_and_crash", ranks=1)
        self.assertEqual(self.verify(), 9)
        self.assertEqual(subprocess.run([f"{BUILD}/bin/lzy-protect", "--quiet", "f"], cwd=self.dir).returncode, 0)
        self.assertEqual(self.verify(), 0)


class Lifetimes(Layer):
    """Files that are open in several ways, or do not end with a close."""

    def test_handles_beside_each_other(self):
        for action in ["two_handles", "alone_and_together", "each_alone"]:
            for again in range(2):
                with self.subTest(action=action, again=again):
                    self.quiet(self.client(action, name=action, ranks=3))
                    self.assertEqual(self.verify(action), 0)

    def test_renamed_while_open(self):
        self.quiet(self.client("renamed_while_open"))
        self.assertEqual(self.files(), [".LZY.f.final", "f.final"])
        self.assertEqual(self.verify("f.final"), 0)

    def test_deleted_while_open(self):
        for action in ["deleted_while_open", "deleted_by_posix"]:
            with self.subTest(action=action):
                self.quiet(self.client(action))
                self.assertEqual(self.files(), [])

    def test_deleting_a_link_leaves_its_target_protected(self):
        self.client("plain")
        os.symlink("f", self.path("link"))
        self.client("delete_it", name="link")
        self.assertEqual(self.files(), [".LZY.f", "f"])

    def test_written_through_a_link(self):
        os.mkdir(self.path("d"))
        os.symlink("d/target", self.path("link"))
        self.client("plain", name="link")
        self.assertEqual(sorted(os.listdir(self.path("d"))), [".LZY.target", "target"])
        self.assertEqual(self.verify("link"), 0)

    def test_not_closed(self):
        done = self.client("not_closed")
        self.assertEqual(done.stderr, f"lzy: {self.path('f')}: not closed before MPI_Finalize; it stays at risk until the "
                                      "next commit\n")
        self.assertEqual(self.verify(), 9)

    def test_a_crash_after_a_commit_leaves_it_intact(self):
        self.crash("crash_after_commit")
        self.assertEqual(self.verify(), 0)

    def test_a_crash_after_a_write_leaves_it_at_risk(self):
        self.crash("crash_after_sync")
        self.assertEqual(self.verify(), 9)
        # whoever comes next covers all of it
        self.client("scattered_updates", ranks=3)
        self.assertEqual(self.verify(), 0)

    def test_threads(self):
        for again in range(2):
            self.quiet(self.client("threads"))
            for name in ["f"] + [f"f.{number}" for number in range(8)]:
                with self.subTest(again=again, name=name):
                    self.assertEqual(self.verify(name), 0)

    def test_no_positions_to_ask_for(self):
        self.quiet(self.client("sequential"))
        self.assertEqual(self.verify(), 0)

    def test_a_prefix_for_romio(self):
        # Only ROMIO takes it for one: to Open MPI's own I/O it is a part of the name.
        self.client("plain", name="ufs:f", layer=False)
        [name] = self.files()
        self.client("plain", name="ufs:f")
        self.assertEqual(self.files(), sorted([f".LZY.{name}", name]))
        self.client("delete_it", name="ufs:f")
        self.assertEqual(self.files(), [])


class Others(Held):
    """Other processes that work on the same file meanwhile."""
    TIMEOUT = 3

    def state(self):
        info = subprocess.run([f"{BUILD}/bin/lzy-info", "--json", "f"], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        return json.loads(info.stdout)["datasets"][0]["state"]

    @contextlib.contextmanager
    def locked(self):
        with open(self.path(".LZY.f"), "r+b") as sidecar:
            fcntl.lockf(sidecar, fcntl.LOCK_EX)
            yield

    def seconds(self, done):
        return max(float(text) for text in re.findall(r"took ([0-9.]+)", done.stdout))

    def test_what_another_job_wrote_and_did_not_commit(self):
        self.client("plain", ranks=3, **self.SMALL)
        self.start("held_up", ranks=1)
        with self.between(1):
            self.crash("write_and_crash", ranks=1, **self.SMALL)
        done = self.finish()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.quiet(done)
        self.assertEqual(self.verify(), 0)
        self.assertEqual(self.state(), "at-risk")  # he may write yet
        self.client("scattered_updates", ranks=3)
        self.assertEqual(self.state(), "intact")
        self.assertEqual(self.verify(), 0)

    def test_who_opens_it_and_does_not_write_leaves_no_trace(self):
        for _ in range(2):
            self.quiet(self.client("one_of_several_writes", ranks=3))
            self.assertEqual((self.verify(), self.state()), (0, "intact"))

    def test_an_open_waits_for_a_lock_no_longer_than_the_timeout(self):
        self.client("plain")
        with self.locked():
            done = self.client("timed_open", timeout=self.TIMEOUT)
        self.assertIn("another process is committing", done.stderr)
        self.assertGreater(self.seconds(done), self.TIMEOUT - 1)
        self.assertLess(self.seconds(done), 4 * self.TIMEOUT)  # some of it for a busy machine

    def test_a_close_waits_for_a_lock_no_longer_than_the_timeout(self):
        self.client("plain")
        self.start("held_up", timeout=self.TIMEOUT)
        with contextlib.ExitStack() as lock:
            with self.between(1):
                lock.enter_context(self.locked())
            done = self.finish()
        self.assertIn("no redundancy was made", done.stderr)
        self.assertEqual(len(re.findall(r"close \d ok", done.stdout)), 2)
        self.assertGreater(self.seconds(done), self.TIMEOUT - 1)
        self.assertLess(self.seconds(done), 4 * self.TIMEOUT)
        self.assertEqual(self.state(), "at-risk")

    def test_after_a_commit_that_failed_there_is_an_intent(self):
        self.client("plain")
        self.start("held_up_at_sync", timeout=1)
        with contextlib.ExitStack() as lock:
            with self.between(1):
                lock.enter_context(self.locked())
            with self.between(2):
                lock.close()
                # The failed commit's intent goes, as it does when a commit fails after it has counted.
                protect = [f"{BUILD}/bin/lzy-protect", "--quiet", "f"]
                subprocess.run(protect, cwd=self.dir, timeout=PATIENCE, check=True)
                self.assertEqual(self.state(), "intact")
        done = self.finish()
        self.assertIn("no redundancy was made", done.stderr)
        self.assertEqual(self.state(), "at-risk")


class Selection(Layer):
    """Which files are protected, and with which options."""

    def test_include_and_exclude(self):
        self.client("plain", include="*.h5:f")
        self.assertTrue(self.has(".LZY.f"))
        self.client("plain", name="g", include="*.h5:f")
        self.client("plain", name="h", exclude="?")
        self.assertEqual(self.files(), [".LZY.f", "f", "g", "h"])

    def test_hint_over_environment(self):
        done = self.client("with_hint", argument="lzy_parity=2", parity=1, ranks=3)
        self.quiet(done)
        info = subprocess.run([f"{BUILD}/bin/lzy-info", "--json", "f"], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(json.loads(info.stdout)["datasets"][0]["parity"], 2)

    def test_an_unusable_hint_is_named_once(self):
        for hint, words in [("lzy_parity=many", ["lzy_parity", "many", "number"]), ("lzy_colour=red", ["lzy_colour"])]:
            with self.subTest(hint=hint):
                done = self.client("with_hint", argument=hint)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertEqual(self.files(), ["f"])

    def test_an_unusable_variable_is_named_once(self):
        done = self.client("rounds", parity="many")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("LZY_PARITY", done.stderr)
        self.assertEqual(self.files(), ["f"])

    def test_where_it_is_asked_for_an_unusable_option_fails_sync_and_close(self):
        for name, options in (("f", {"parity": "many"}), ("f", {"parity": "3", "group": "3"}), ("f", {"set": "x"}),
                              ("f" * 251, {})):
            for ranks in (1, 2):
                with self.subTest(options=options, ranks=ranks):
                    done = self.client("codes", name=name, ranks=ranks, on_error="fail", **options)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertEqual(done.stdout.count("MPI_ERR_IO"), 2 * ranks, done.stdout)
                    self.assertEqual(self.files(), [name])
                    done = self.client("codes", name=name, ranks=ranks, on_error="fail", exclude="f*", **options)
                    self.assertEqual(done.stdout.count("ok"), 2 * ranks, "it is not meant")
                    os.remove(self.path(name))

    def test_refusals_are_mpis_own(self):
        bare = self.client("refused", layer=False)
        done = self.client("refused")
        self.assertEqual(done.stdout, bare.stdout)
        self.assertNotIn("lzy", done.stderr)  # MPI may say itself what it refuses
        self.assertEqual(self.verify(), 0)

    def test_closing_no_file_is_mpis_own_affair(self):
        bare = self.run_program([CLIENT, "close_nothing", "f"], layer=False)
        mpi_known.leave_out_if_known(self, "MPI_File_close(MPI_FILE_NULL)", bare)
        self.assertEqual(self.client("close_nothing").stdout, bare.stdout)

    def test_reports(self):
        self.client("rounds", report="report")
        lines = self.reports()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertEqual(line["path"], self.path("f"))
            self.assertEqual(line["bytes"], 200000)
            self.assertGreater(line["bytes_reread"] + line["bytes_captured"], 0)
            self.assertLessEqual({"read", "hash", "encode", "exchange", "write", "sync", "total"}, set(line["seconds"]))


class Summary(Layer):
    LINE = (r"lzy: (?P<path>\S+): (?P<what>.*), (?P<seconds>\d+\.\d{3}) s added, (?P<share>\d+\.\d) % of "
            r"(?P<run>\d+\.\d{3}) s$")

    def summary(self, done):
        matches = [re.match(self.LINE, line) for line in done.stderr.splitlines()]
        self.assertNotIn(None, matches, done.stderr)
        for match in matches:
            seconds, share, run = (float(match[key]) for key in ("seconds", "share", "run"))
            self.assertLessEqual(seconds, run)
            self.assertAlmostEqual(share, 100 * seconds / run, delta=100 * 0.001 / run + 0.1)
        return {match["path"]: match["what"] for match in matches}

    def test_off(self):
        self.quiet(self.client("plain"))

    def test_of_a_shared_file(self):
        told = self.summary(self.client("rounds", summary="on"))
        sidecar = os.path.getsize(self.path(".LZY.f"))
        self.assertEqual(list(told), [self.path("f")])
        # 200000 bytes; the first round commits, and two in which one rank writes
        self.assertRegex(told[self.path("f")], r"^195\.3 KiB in 3 commits, parity and hashes \S+ KiB$")
        self.assertIn(f"{sidecar / 1024:.1f} KiB".replace(".0 KiB", " KiB"), told[self.path("f")])

    def test_of_a_set(self):
        told = self.summary(self.client("set", name="s", set="s.%r", summary="on"))
        self.assertEqual(list(told), [self.path("s.%r")])
        self.assertRegex(list(told.values())[0], r" in 1 commit, parity and hashes ")

    def test_of_what_was_never_committed(self):
        self.client("plain")
        told = self.summary(self.client("nothing", summary="on"))
        self.assertEqual(told, {self.path("f"): "nothing committed"})

    def test_hints_in_effect_are_told(self):
        done = self.client("hints", argument="lzy_parity=2:lzy_group=5", block_size="4K", stripe="64K")
        told = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("lzy_"))
        self.assertEqual({key: told[key] for key in ["lzy_parity", "lzy_group", "lzy_block_size", "lzy_stripe", "lzy_on_error"]},
                         {"lzy_parity": "2", "lzy_group": "5", "lzy_block_size": "4K", "lzy_stripe": "64K", "lzy_on_error": "warn"})
        bare = self.client("hints", argument="lzy_parity=2:lzy_group=5", layer=False)
        others = [[line for line in out.splitlines() if not line.startswith("lzy_")] for out in (done.stdout, bare.stdout)]
        self.assertEqual(*others)


class Sets(Layer):
    """One file a rank."""
    # For ranks that do not come: those that do are together at a barrier just before, and have this long to meet.
    TIMEOUT = 6

    def members(self, action, argument="", ranks=3, pattern="s.%r", **options):
        return self.client(action, name="s", argument=argument, ranks=ranks, set=pattern, **options)

    def closes(self, done):
        """Seconds that each rank's close took."""
        return {int(rank): float(time) for rank, time in re.findall(r"close (\d+) took ([0-9.]+)", done.stdout)}

    def test_commit_at_close(self):
        self.quiet(self.members("set"))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_of_one_rank(self):
        self.quiet(self.members("set", ranks=1, parity=0))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_another_number_of_ranks_makes_another_set(self):
        for ranks in [2, 3]:
            self.quiet(self.members("set", ranks=ranks, report="report"))
            self.assertEqual(self.verify("s.%r"), 0)
        self.assertEqual([line["bytes"] for line in self.reports()], [200000, 300000])

    def test_members_can_be_rebuilt(self):
        self.quiet(self.members("set"))
        lost = self.content("s.1")
        os.remove(self.path("s.1"))
        restore = subprocess.run([f"{BUILD}/bin/lzy-restore", "--quiet", "s.%r"], cwd=self.dir, timeout=PATIENCE)
        self.assertEqual(restore.returncode, 0)
        self.assertEqual(self.content("s.1"), lost)

    def test_steps_are_sets_of_their_own(self):
        self.quiet(self.members("set_steps", pattern="s.*.%r"))
        for step in range(3):
            self.assertEqual(self.verify(f"s.{step}.%r"), 0)

    def test_again_and_again(self):
        for _ in range(2):
            self.quiet(self.members("set_again", report="report"))
            self.assertEqual(self.verify("s.%r"), 0)
        reports = self.reports()
        self.assertEqual([line["kind"] for line in reports], ["set"] * 6)
        self.assertEqual([line["generation"] for line in reports], [1, 2, 3, 4, 5, 6])

    def test_groups_are_dealt_across_domains(self):
        def groups():
            done = subprocess.run([f"{BUILD}/bin/lzy-info", "--json", "--map", "s.%r"], cwd=self.dir, capture_output=True,
                                  text=True, timeout=PATIENCE)
            return {frozenset(one["device"] for one in group) for group in json.loads(done.stdout)["datasets"][0]["map"]}

        self.quiet(self.members("set", ranks=4, group=2))
        self.assertEqual(groups(), {frozenset([0, 2]), frozenset([1, 3])})
        for name in self.files():
            os.remove(self.path(name))
        named = "export LZY_DOMAIN=rack$((${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}} % 2)); exec \"$@\""
        self.quiet(self.run_program(["sh", "-c", named, "sh", CLIENT, "set", "s", ""], ranks=4, set="s.%r", group=2))
        self.assertEqual(groups(), {frozenset([0, 1]), frozenset([2, 3])})
        for name in self.files():
            os.remove(self.path(name))
        # Three of four in one rack.
        named = named.replace("% 2", "/ 3")
        done = self.run_program(["sh", "-c", named, "sh", CLIENT, "set", "s", ""], ranks=4, set="s.%r", group=4)
        self.assertIn("3 members of one failure domain are in one group; losing that failure domain cannot be mended with parity 1",
                      done.stderr)

    def test_groups_that_are_kept_while_domains_change(self):
        def run_in(racks, **options):
            named = f"export LZY_DOMAIN=rack$((${{PMI_RANK:-${{OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}}} {racks})); exec \"$@\""
            return self.run_program(["sh", "-c", named, "sh", CLIENT, "set", "s", ""], ranks=4, set="s.%r", **options).stderr

        self.assertEqual(run_in("% 2", group=2), "")
        warning = run_in("/ 2", group=2)
        self.assertIn("2 members of one failure domain are in one group now, more than when groups were dealt; losing that failure "
                      "domain cannot be mended with parity 1", warning)
        self.assertEqual(warning.count("\n"), 1)
        self.assertEqual(run_in("/ 2", group=2), "", "it is told once")
        self.assertEqual(self.verify("s.%r"), 0)
        for name in self.files():
            os.remove(self.path(name))
        # What parity can still mend is nothing to be warned of.
        for racks in ("* 1", "* 10", "/ 2"):
            self.assertEqual(run_in(racks, group=4, parity=2), "")

    def test_by_hint(self):
        self.quiet(self.client("set_hint", name="s", ranks=3))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_sync_commits_only_when_asked_to(self):
        self.crash("set_sync", name="s", set="s.%r")
        self.assertEqual(self.verify("s.%r"), 9)
        self.crash("set_sync", name="s", set="s.%r", set_sync="on")
        self.assertEqual(self.verify("s.%r"), 0)

    def test_a_missing_rank_is_named(self):
        for missing in [2, 0]:
            with self.subTest(missing=missing):
                done = self.members("set_missing", argument=str(missing), timeout=self.TIMEOUT)
                self.assertIn(f"lzy: set {self.path('s.%r')}: close waited {self.TIMEOUT} s for rank {missing}; its members "
                              "stay at risk until the next commit\n", done.stderr)
                self.assertIn(f"never committed: rank {missing} did not close a member of it", done.stderr)
                times = self.closes(done)
                self.assertEqual(len(times), 2)
                # Twice the time-out at most, and what a busy machine adds; not the minutes of waits that multiply.
                self.assertLess(max(times.values()), 5 * self.TIMEOUT)
                self.assertEqual(len(re.findall(r"close \d ok", done.stdout)), 2)
                self.assertEqual(self.verify("s.%r"), 9)
                for name in self.files():
                    os.remove(self.path(name))

    def test_a_late_rank_is_told_and_the_end_mends_it(self):
        for late in [2, 0]:
            with self.subTest(late=late):
                done = self.members("set_late", argument=str(late), timeout=self.TIMEOUT)
                self.assertIn(f"close waited {self.TIMEOUT} s for rank {late};", done.stderr)
                self.assertIn(f"close came late on rank {late}", done.stderr)
                self.assertLess(self.closes(done)[late], self.TIMEOUT)
                self.assertEqual(self.verify("s.%r"), 0)

    def test_missing_ranks_can_be_errors(self):
        done = self.members("set_missing", argument="2", on_error="fail", timeout=self.TIMEOUT)
        self.assertEqual(sorted(re.findall(r"close (\d) (ok|MPI_ERR_IO)", done.stdout)),
                         [("0", "MPI_ERR_IO"), ("1", "MPI_ERR_IO")])

    def test_the_member_of_another_rank(self):
        done = self.members("set_wrong_rank")
        self.assertIn("it is the member of rank 1 of set s.%r, but rank 0 writes it", done.stderr)
        self.assertEqual(self.files(), ["s.0", "s.1", "s.2"])

    def test_declared_by_some_ranks_only(self):
        unlike = "[ ${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}} = 1 ] && unset LZY_SET; exec \"$@\""
        for fail in (False, True):
            start = time.monotonic()
            options = {"on_error": "fail"} if fail else {}
            done = self.run_program(["sh", "-c", unlike, "sh", CLIENT, "set", "s", ""], ranks=3, set="s.%r", timeout=PATIENCE,
                                    **options)
            self.assertLess(time.monotonic() - start, PATIENCE / 2, "somebody waited for the others")
            self.assertEqual(done.returncode, 0, done.stderr)
            codes = dict(re.findall(r"close (\d) (ok|MPI_ERR_IO)", done.stdout))
            self.assertEqual(codes, {"0": "MPI_ERR_IO", "1": "ok", "2": "MPI_ERR_IO"} if fail else dict.fromkeys("012", "ok"))
            for rank in (0, 2):
                self.assertIn(f"s.{rank}: not protected: it is a member of set s.%r on rank {rank}, but LZY_SET is not the "
                              "same on all ranks", done.stderr)
            self.assertEqual([self.verify(f"s.{rank}") for rank in range(3)], [4, 0, 4])
        # Hints that all ranks give count, whatever some have in their environment.
        hinted = self.run_program(["sh", "-c", unlike, "sh", CLIENT, "set_hint", "s", ""], ranks=3, set="s.%r", timeout=PATIENCE)
        self.assertEqual((hinted.returncode, hinted.stderr), (0, ""))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_ranks_that_want_unlike_parity(self):
        unlike = "export LZY_PARITY=$((1 + ${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}} / 2)); exec \"$@\""
        done = self.run_program(["sh", "-c", unlike, "sh", CLIENT, "set", "s", ""], ranks=3, set="s.%r")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("s.%r: parity is 1 on rank 0 and 2 on rank 2: the ranks must agree on it", done.stderr)
        self.assertEqual(self.verify("s.%r"), 9)
        self.quiet(self.members("set"))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_a_member_edited_behind_the_layer_that_the_next_run_does_not_write(self):
        self.quiet(self.members("set"))
        with open(self.path("s.1"), "r+b") as file:
            file.write(b"edited")
        self.quiet(self.members("set_but_one", argument="1"))
        self.assertEqual(self.verify("s.%r"), 0)

    def test_a_member_renamed_while_open_keeps_its_sidecar(self):
        self.quiet(self.members("set"))
        done = self.members("set_renamed", argument="1")
        self.assertEqual(done.stderr.count("s.1: renamed to "), 1, done.stderr)
        self.assertIn("the files of rank 1 were removed or renamed", done.stderr)
        self.assertTrue(self.has(".LZY.s.1"), self.files())
        # Where the name is all that was changed back, nothing of the group's parity is lost.
        os.rename(self.path("s.1.away"), self.path("s.1"))
        os.remove(self.path("s.2"))
        restore = subprocess.run([f"{BUILD}/bin/lzy-restore", "--quiet", "s.%r"], cwd=self.dir, timeout=PATIENCE)
        self.assertEqual(restore.returncode, 0)
        self.assertTrue(self.has("s.2"))

    def test_a_member_that_cannot_be_protected_stops_the_others_at_once(self):
        os.mkdir(self.path(".LZY.s.1"))
        done = self.members("set", timeout=PATIENCE // 2)
        self.assertLess(max(self.closes(done).values()), PATIENCE // 2)  # nobody waited for the time-out
        self.assertIn("close rank 1: ", done.stderr)


class Heal(Layer):
    """Option heal: MPI_Init of any program that declares a set finds its members rebuilt."""

    def setUp(self):
        super().setUp()
        self.quiet(self.client("set", name="s", ranks=3, set="s.%r"))
        self.before = {name: self.content(name) for name in self.files()}

    def program(self, **options):
        done = self.client("plain", name="g", set="s.%r:t.*.%r", heal="on", include="s.*", **options)
        os.remove(self.path("g"))
        return done

    def lose(self, *names):
        for name in names:
            os.remove(self.path(name))

    def test_nothing_to_do_is_said_of_nothing(self):
        self.quiet(self.program())
        self.lose(*self.files())
        self.quiet(self.program())
        self.assertEqual(self.files(), [])

    def test_a_member_that_is_lost(self):
        for ranks in (1, 3, 4):
            for names in (["s.1", ".LZY.s.1"], ["s.2"], [".LZY.s.0"]):
                with self.subTest(ranks=ranks, names=names):
                    self.lose(*names)
                    done = self.program(ranks=ranks)
                    self.assertRegex(done.stderr, rf"^lzy: {self.path('s.%r')}: rebuilt before the program opens it, in [0-9.]+ s: "
                                     + ", ".join(sorted(names)) + "\n$")
                    self.assertEqual({name: self.content(name) for name in self.files() if not name.startswith(".")},
                                     {name: data for name, data in self.before.items() if not name.startswith(".")})
                    self.assertEqual(self.verify("s.%r"), 0)

    def test_one_that_is_cut_short(self):
        times = os.stat(self.path("s.1"))
        os.truncate(self.path("s.1"), 5000)
        os.utime(self.path("s.1"), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertIn("rebuilt before", self.program().stderr)
        self.assertEqual(self.content("s.1"), self.before["s.1"])

    def test_more_than_parity_is_told_and_left(self):
        self.lose("s.1", "s.2")
        done = self.program()
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn(": not healed: ", done.stderr)
        self.assertIn("lzy-verify", done.stderr)
        self.assertEqual(self.files(), [".LZY.s.0", ".LZY.s.1", ".LZY.s.2", "s.0"])

    def test_what_somebody_may_be_writing_is_left(self):
        self.crash("set_sync", name="s", set="s.%r")
        self.lose("s.1", ".LZY.s.1")
        done = self.program()
        self.assertIn(": not healed: it is being written, or was when a program broke off;", done.stderr)
        self.assertFalse(self.has("s.1"))

    def test_a_member_of_another_commit_is_left(self):
        old = {name: self.content(name) for name in ("s.1", ".LZY.s.1")}
        times = {name: os.stat(self.path(name)) for name in old}
        self.quiet(self.client("set_again", name="s", ranks=3, set="s.%r"))
        for name, data in old.items():
            with open(self.path(name), "wb") as file:
                file.write(data)
            os.utime(self.path(name), ns=(times[name].st_atime_ns, times[name].st_mtime_ns))
        self.assertIn("not healed: .LZY.s.1 is not that of the last commit", self.program().stderr)
        self.assertEqual(self.content("s.1"), old["s.1"])

    def test_an_edit_is_left(self):
        with open(self.path("s.1"), "r+b") as file:
            file.write(b"edited")
        self.quiet(self.program())
        self.assertEqual(self.content("s.1")[:6], b"edited")

    def test_where_not_all_ranks_ask_for_it(self):
        self.lose("s.1")
        only = "[ ${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}} = 0 ] || unset LZY_HEAL; exec \"$@\""
        done = self.run_program(["sh", "-c", only, "sh", CLIENT, "plain", "g", ""], ranks=2, set="s.%r", heal="on", include="s.*")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.has("s.1"))


class Failures(Layer):
    """A sidecar that cannot be written: a directory has its name."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path(".LZY.f"))

    def test_warn(self):
        done = self.client("codes", ranks=3)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(f"lzy: {self.path('f')}: not protected: ", done.stderr)
        self.assertEqual(done.stdout.count("ok"), 6)

    def test_fail(self):
        done = self.client("codes", ranks=3, on_error="fail")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout.count("MPI_ERR_IO"), 6)

    def test_the_data_are_written_all_the_same(self):
        self.client("codes", on_error="fail")
        self.client("plain", name="g", layer=False)
        self.assertEqual(self.content("f"), self.content("g"))

    def test_level_error_is_quiet(self):
        self.quiet(self.client("codes", log="error"))


class Determinism(Layer):
    """The same bytes have the same root and the same parity, whoever protected them, with however many ranks. The independent
    reader computes both."""
    OPTIONS = {"parity": 2, "group": 4, "block_size": "4K", "stripe": "16K"}

    def facts(self, *names):
        result = format_reader.check([self.path(name) for name in names])
        self.assertEqual((result.errors, result.lines), ([], []))
        self.assertEqual(len(result.reports), 1)
        report = result.reports[0]
        roots = [(member["data_root"], member["parity_root"]) for member in report["members"]]
        return report["root"], report["parity_sha256"], roots

    def heat3d(self, *arguments, ranks, **options):
        done = self.run_program([f"{BUILD}/examples/heat3d", "--size", "48", "--steps", "4", "--every", "2", *arguments], ranks=ranks,
                                **self.OPTIONS, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def protect(self, name, ranks):
        """By lzy-protect, without the sidecars of before."""
        for file in self.files():
            if file.startswith(".LZY."):
                os.remove(self.path(file))
        options = [f"--{key.replace('_', '-')}={value}" for key, value in self.OPTIONS.items()]
        done = self.run_program([f"{BUILD}/bin/lzy-protect", "--quiet", *options, name], ranks=ranks, layer=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_shared_file(self):
        found = {}
        for ranks in [1, 2, 3, 4]:
            # From the second on, over what the one before left: rows touched at each checkpoint, in place.
            self.heat3d("--checkpoint", "f", ranks=ranks)
            found[f"hook, {ranks} ranks"] = self.facts("f")
        for ranks in [1, 2, 3, 4]:
            self.protect("f", ranks)
            found[f"lzy-protect, {ranks} ranks"] = self.facts("f")
        self.assertEqual(len(set(map(str, found.values()))), 1, found)

    def test_set(self):
        names = [f"s.{rank}" for rank in range(4)]
        self.heat3d("--checkpoint", "s.%r", ranks=4, set="s.%r")
        found = {"hook": self.facts(*names)}
        for ranks in [1, 2, 3, 4]:
            self.protect("s.%r", ranks)
            found[f"lzy-protect, {ranks} ranks"] = self.facts(*names)
        self.assertEqual(len(set(map(str, found.values()))), 1, found)


class Foreign(Layer):
    """Processes that the layer has nothing to do with."""
    FOREIGN = f"{BUILD}/tests/foreign"

    def preloaded(self, command, **more):
        return subprocess.run(command, env={**os.environ, "LD_PRELOAD": LAYER, **more}, capture_output=True, text=True,
                              timeout=PATIENCE)

    def test_programs_without_mpi(self):
        for bind in [{}, {"LD_BIND_NOW": "1"}]:
            for command in [["true"], ["sh", "-c", "echo hello"], [sys.executable, "-c", "print('hello')"]]:
                with self.subTest(command=command, bind=bind):
                    done = self.preloaded(command, **bind)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_programs_without_mpi_do_not_get_one(self):
        done = self.preloaded(["cat", "/proc/self/maps"])
        self.assertIn("liblzy_mpiio.so", done.stdout)
        self.assertNotRegex(done.stdout, r"/libmpi|liblzy_mpiio-")

    def test_another_mpi_passes_through_and_is_told_of_once(self):
        done = self.preloaded([f"{self.FOREIGN}/hooks_foreign_client"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("Other MPI 1.0", done.stderr)

    def test_another_mpi_loaded_out_of_sight(self):
        program = "import ctypes, os, sys; sys.exit(ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL).foreign_main())"
        [library] = glob.glob(f"{self.FOREIGN}/libmpi.so.[0-9]*")
        odd = self.path("libvendor_gnu_91.so.12")
        shutil.copy(library, odd)
        for name in [library, odd]:  # an MPI may be called anything
            done = self.preloaded([sys.executable, "-c", program, name])
            self.assertEqual(done.returncode, 0)
            self.assertIn("Other MPI 1.0", done.stderr)

    def test_another_mpi_with_the_layer_switched_off(self):
        done = self.preloaded([f"{self.FOREIGN}/hooks_foreign_client"], LZY_DISABLE="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
