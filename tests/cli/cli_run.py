"""lzy-run --sweep, --explain and --summary: what programs wrote without MPI-IO. tests/hooks/launch_test.py has programs with MPI."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from harness import BIN, CliTest

LZY_RUN = os.path.join(BIN, "lzy-run")

STATIC = """#include <stdio.h>
int main(int argc, char** argv) { FILE* f = fopen(argv[1], "w"); return argc != 2 || fputs("static", f) < 0 || fclose(f) != 0; }
"""
FORTRAN = """program write_unformatted
  integer :: unit
  open(newunit=unit, file='restart.dat', form='unformatted', status='replace')
  write(unit) (/ 1.0d0, 2.0d0, 3.0d0 /)
  close(unit)
end program
"""


class RunTest(CliTest):
    def run_shell(self, *options, script, exit_code=0, env=None):
        return self.check(exit_code, "lzy-run", *options, "--", "sh", "-c", script, env=env)

    def compile(self, compiler, name, source, *flags):
        """Compiles a program elsewhere; returns its path. Skips the test if that cannot be done here."""
        if shutil.which(compiler) is None:
            self.skipTest(f"there is no {compiler}")
        source_path = os.path.join(os.environ["XDG_STATE_HOME"], name)
        with open(source_path, "w", encoding="utf-8") as file:
            file.write(source)
        done = subprocess.run([compiler, *flags, "-o", source_path + ".out", source_path], capture_output=True, text=True, timeout=100)
        if done.returncode != 0:
            self.skipTest(f"{compiler} {flags}: {done.stderr}")
        return source_path + ".out"

    def sidecars(self, directory="."):
        return sorted(name for name in os.listdir(self.path(directory)) if name.startswith(".LZY"))

    def datasets(self, *paths):
        """What lzy-verify finds, all intact: kinds by paths."""
        return {one["path"]: one["kind"] for one in self.report(0, "lzy-verify", *paths)["datasets"]}


class Sweep(RunTest):
    def test_what_was_made_or_changed_below_the_directories(self):
        for name in ("a/old", "a/changed", "b/old", "c/old"):
            self.write(name, b"before")
        done = self.run_shell("--sweep", "a:b/", script="echo >> a/changed; mkdir b/new; echo > b/new/made; echo > c/made; echo out")
        self.assertEqual(done.stdout, "out\n")
        self.assertEqual(done.stderr, "lzy-run: --sweep: the command wrote 2 files; all are protected, 2 of them by the sweep\n")
        self.assertEqual(self.datasets("a", "b"), {"a/changed": "shared", "b/new/made": "shared"})
        self.assertEqual(self.sidecars("c"), [])

    def test_numbered_files_are_sets(self):
        self.run_shell("--sweep", ".", "--parity", "2",
                       script="for step in 100 200; do for rank in 0 1 2; do echo $step $rank > ckpt.$step.$rank; done; done; echo > log")
        self.assertEqual(self.datasets("."), {"ckpt.100.%r": "set", "ckpt.200.%r": "set", "log": "shared"})
        for rank in (0, 2):
            os.remove(self.path(f"ckpt.200.{rank}"))
        self.check(0, "lzy-restore", "ckpt.200.%r")
        self.assertEqual(self.read("ckpt.200.2"), b"200 2\n")

    def test_a_set_that_grows_or_changes_stays_a_set(self):
        self.run_shell("--sweep", ".", script="for rank in 0 1; do echo > s.$rank; done")
        self.run_shell("--sweep", ".", script="for rank in 0 1 2 3; do echo more > s.$rank; done")
        self.run_shell("--sweep", ".", script="echo still more > s.2")
        self.assertEqual(self.datasets("."), {"s.%r": "set"})
        self.assertEqual(len(self.sidecars()), 4)

    def test_declared_sets(self):
        self.run_shell("--sweep", ".", "--set", "node%r/state", script="mkdir node0 node1; echo 0 > node0/state; echo 1 > node1/state")
        self.assertEqual(self.report(0, "lzy-verify", "node%r/state")["datasets"][0]["kind"], "set")
        shutil.rmtree(self.path("node1"))
        os.mkdir(self.path("node1"))
        self.check(0, "lzy-restore", "node%r/state")
        self.assertEqual(self.read("node1/state"), b"1\n")

    def test_a_second_sweep_reads_nothing_again(self):
        self.run_shell("--sweep", ".", script="echo > a; echo > b")
        done = self.run_shell("--sweep", ".", "--report", "commits", script="chmod 600 a; echo more > b")
        self.assertIn("wrote 2 files; all are protected, 1 of them by the sweep", done.stderr)
        with open(self.path("commits"), encoding="utf-8") as file:
            self.assertEqual([os.path.basename(json.loads(line)["path"]) for line in file], ["b"])

    def test_static_programs(self):
        program = self.compile("cc", "static.c", STATIC, "-static")
        self.check(0, "lzy-run", "--sweep", ".", "--", program, "data")
        self.assertEqual(self.datasets("."), {"data": "shared"})

    def test_fortran(self):
        program = self.compile("gfortran", "unformatted.f90", FORTRAN)
        self.check(0, "lzy-run", "--sweep", ".", "--", program)
        self.assertEqual(self.datasets("."), {"restart.dat": "shared"})

    @unittest.skipUnless(os.environ["TEST_LZY_MAKE_HDF5"], "there is no serial HDF5")
    def test_serial_hdf5(self):
        self.check(0, "lzy-run", "--sweep", ".", "--", os.environ["TEST_LZY_MAKE_HDF5"], "run.h5", "latest")
        self.assertEqual(self.datasets("."), {"run.h5": "shared"})

    def test_what_is_left_out(self):
        """Links, hidden files, what the options leave out, and where lzy-run writes itself."""
        self.write("elsewhere/data", b"x")
        with open(self.path("job.log"), "w", encoding="utf-8") as log:
            subprocess.run([LZY_RUN, "--sweep", ".", "--exclude", "*.tmp", "--explain", "--", "sh", "-c",
                            "echo out; echo > .hidden; echo > a.tmp; echo > kept; ln -s elsewhere/data link; ln -s elsewhere links;"
                            "echo >> link; mkfifo pipe"], cwd=self.scratch, stdout=log, stderr=log, check=True, timeout=100)
        self.assertEqual(self.sidecars(), [".LZY.kept"])
        self.assertEqual(self.sidecars("elsewhere"), [".LZY.data"])
        text = self.read("job.log").decode()
        self.assertTrue(text.startswith("out\n"))
        self.assertIn("  a.tmp: other; not protected: option include or exclude leaves it out\n", text)
        self.assertIn("  job.log: other; not protected: it is where lzy-run and the command write their messages\n", text)

    def test_a_directory_that_the_command_makes_and_one_that_it_does_not(self):
        done = self.run_shell("--sweep", "made:never", script="mkdir made; echo > made/a")
        self.assertEqual(self.sidecars("made"), [".LZY.a"])
        self.assertIn("--sweep: never: there is no such directory", done.stderr)

    def test_bad_directories_start_nothing(self):
        self.write("file", b"")
        for bad in ("file", "", "a:", "file/below"):
            done = self.run_shell("--sweep", bad, script="echo > started", exit_code=3)
            self.assertIn("--sweep: '", done.stderr)
        self.assertFalse(os.path.exists(self.path("started")))

    def test_a_sweep_that_fails_is_told_and_changes_no_exit_code(self):
        long = "x" * 250  # leaves no room for the name of a sidecar
        for code in (0, 5):
            done = self.run_shell("--sweep", ".", script=f"echo {code} > {long}; echo {code} > good; exit {code}", exit_code=code)
            self.assertIn(f"lzy-run: --sweep: not protected, because lzy-protect failed or the file is still being written: {long}; "
                          f"when nobody writes any more, type lzy-protect {long}\n", done.stderr)
            self.assertEqual(self.sidecars(), [".LZY.good"])

    def test_protected_also_if_the_command_fails(self):
        self.run_shell("--sweep", ".", script="echo > a; exit 3", exit_code=3)
        self.run_shell("--sweep", ".", script="echo > b; kill -KILL $$", exit_code=-9)
        self.check(127, "lzy-run", "--sweep", ".", "--", "no-such-command")
        self.assertEqual(self.sidecars(), [".LZY.a", ".LZY.b"])


class Waits(RunTest):
    """Between the caller and the command, lzy-run is not to be noticed."""

    def start(self, script):
        process = subprocess.Popen([LZY_RUN, "--sweep", ".", "--", "sh", "-c", script], cwd=self.scratch, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_signals_reach_the_command(self):
        process = self.start("trap 'echo > caught; exit 9' USR1; echo ready; while :; do read line || :; done")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=100), 9)
        self.assertEqual(self.sidecars(), [".LZY.caught"])

    def test_it_ends_by_the_signal_that_ends_the_command(self):
        process = self.start("echo > a; echo ready; exec cat")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=100), -signal.SIGTERM)
        self.assertEqual(self.sidecars(), [".LZY.a"])

    def test_the_command_does_not_outlive_it(self):
        process = self.start("echo ready; exec cat")
        process.kill()
        self.assertEqual(process.stdout.read(), "")  # ends only with the last process that has this pipe
        self.assertEqual(process.wait(timeout=100), -signal.SIGKILL)

    def test_ignored_signals_stay_ignored(self):
        done = subprocess.run(["sh", "-c", f"trap '' HUP; exec {LZY_RUN} --sweep . -- sh -c 'kill -HUP $PPID $$; echo alive'"],
                              cwd=self.scratch, capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"))

    def test_nothing_stays_behind(self):
        os.mkdir(self.path("tmp"))
        self.run_shell("--explain", script="test -s $LZY_OPENED || test -e $LZY_OPENED; echo > a", env={"TMPDIR": self.path("tmp")})
        self.assertEqual(os.listdir(self.path("tmp")), [])


class Told(RunTest):
    def last_line(self, *options, script):
        return self.run_shell(*options, script=script).stderr.splitlines()[-1]

    def test_summary(self):
        self.write("old", b"")
        self.assertEqual(self.last_line("--summary", script="echo > a; mkdir d; echo > 'd/b c'"),
                         "lzy-run: 0 files are protected; not protected: a, d/b c; type lzy-protect a 'd/b c'")
        self.check(0, "lzy-protect", "a")
        self.assertEqual(self.last_line("--summary", script=":"), "lzy-run: 0 files are protected")
        self.assertEqual(self.last_line("--summary", "--sweep", "d", script="echo more > a; for i in 0 1 2; do echo > d/s.$i; done"),
                         "lzy-run: 3 files are protected; not protected: a; type lzy-protect a")
        self.assertEqual(self.last_line("--summary", script="for i in 0 1 2; do echo more > d/s.$i; done"),
                         "lzy-run: 0 files are protected; not protected: d/s.%r; type lzy-protect d/s.%r")

    def test_a_long_list_is_short(self):
        self.assertEqual(self.last_line("--summary", script="for i in 1 2 3 5 6 7; do echo > f$i; done"),
                         "lzy-run: 0 files are protected; not protected: f1, f2, f3, f5 and 2 more; type lzy-protect .")

    def test_the_printed_command_protects(self):
        command = self.last_line("--summary", script="echo > \"it's\"; echo > '50%.0'; echo > '50%.1'").split("; type ")[1]
        path = os.environ["PATH"]
        subprocess.run(["bash", "-c", command], cwd=self.scratch, env={**os.environ, "PATH": f"{BIN}:{path}"}, check=True, timeout=100)
        self.assertEqual(self.sidecars(), [".LZY.50%.0", ".LZY.50%.1", ".LZY.it's"])

    def test_explain(self):
        done = self.run_shell("--explain", "--sweep", "d", script="mkdir d; echo > d/a; echo > b; echo > s0; echo > s1")
        self.assertEqual(done.stderr.splitlines()[2:], [
            "lzy-run:   b: other; not protected; lzy-run --sweep . would do it, or now: lzy-protect b",
            "lzy-run:   d/a: other; protected by --sweep",
            "lzy-run:   s%r (2 files): other; not protected; lzy-run --sweep . would do it, or now: lzy-protect s%r"])
        self.assertIn("wrote no files", self.run_shell("--explain", script=":").stderr)


if __name__ == "__main__":
    unittest.main()
