"""Every call of MPI-IO that writes, and every mode of write_calls: same results as without the layer, and protected
afterwards.
"""

import os
import re
import subprocess
import unittest

import mpi_known
from layered import MPIEXEC, WRITE_CALLS, Layer


def listed_calls():
    out = subprocess.run([MPIEXEC, "-n", "1", WRITE_CALLS, "--list"], check=True, capture_output=True, text=True)
    return [name for name in out.stdout.split() if re.match(r"i?write", name)]


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

    def test_each_call_is_committed_over_a_committed_file(self):
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

    def test_delete_removes_the_sidecar(self):
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

    def test_the_layer_switched_off_protects_nothing(self):
        self.mode("sync", disable=1)
        self.assertEqual(self.files(), ["f"])


if __name__ == "__main__":
    unittest.main()
