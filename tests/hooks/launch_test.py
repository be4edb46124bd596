"""lzy-run in front of launchers: what it sets must reach every rank, wherever and however it is started, and nobody else
must notice. Environment as for layered.py."""

import json
import os
import subprocess
import sys
import unittest

from layered import BUILD, CLIENT, LAYER, MPIEXEC, PATIENCE, RANK, Layer

LZY_RUN = f"{BUILD}/bin/lzy-run"

# In place of ssh: what follows the host's name is run with an environment in which nothing is left of the caller's.
AGENT = """#!/bin/sh
while :; do
  case $1 in
    -*) shift ;;
    *) break ;;
  esac
done
echo "$1" >> "{directory}/hosts"
shift
exec env -i PATH="$PATH" HOME="$HOME" {passed} sh -c "$*"
"""


def launcher():
    text = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    for mark, name in [("OpenRTE", "openmpi4"), ("Open MPI", "openmpi5"), ("Intel(R) MPI", "intel"), ("HYDRA", "hydra")]:
        if mark in text:
            return name
    raise AssertionError(f"{MPIEXEC} is a launcher that this test does not know: {text}")


class Started(Layer):
    def lzy_run(self, command, options=("--parity", "1"), expected=0):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        done = subprocess.run([LZY_RUN, *options, "--", *command], cwd=self.dir, env=environment, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done

    def assert_protected(self, name="data"):
        self.assertTrue(self.has(f".LZY.{name}"))
        self.assertEqual(self.verify(name), 0)


class Launchers(Started):
    def test_programs_that_exec_others(self):
        self.lzy_run([MPIEXEC, "-n", "2", "sh", "-c", 'exec env A=b "$0" plain data', CLIENT])
        self.assert_protected()

    def test_a_script_that_calls_the_launcher(self):
        self.lzy_run(["sh", "-c", '"$0" -n 2 "$1" plain data && "$0" -n 1 "$1" plain more', MPIEXEC, CLIENT])
        self.assert_protected("data")
        self.assert_protected("more")

    def test_the_exit_code_and_output_are_those_of_the_command(self):
        # One rank: launchers end the others where one fails, perhaps before they said anything.
        self.assertEqual(self.lzy_run([MPIEXEC, "-n", "1", "sh", "-c", "echo out; echo err >&2; exit 5"], expected=5).stdout,
                         "out\n")

    def test_shells_of_a_job_load_no_mpi(self):
        """The processes of a job that are not MPI programs: shells and what they call, in every rank."""
        done = self.lzy_run([MPIEXEC, "-n", "2", "sh", "-c", "cat /proc/self/maps; cat /proc/$$/maps"])
        self.assertIn(os.path.realpath(LAYER), done.stdout)
        self.assertNotRegex(done.stdout, r"/libmpi|liblzy_mpiio-")
        self.assertEqual(done.stderr, "")

    def test_other_preloads_come_first(self):
        other = f"{BUILD}/lib/liblzy.so"  # any library
        done = self.lzy_run(["env", f"LD_PRELOAD={other}", LZY_RUN, "--", "sh", "-c", "echo $LD_PRELOAD"])
        self.assertEqual(done.stdout.split(), [f"{other}:{LAYER}"])

    def test_tools_that_trace_calls_see_the_same_calls(self):
        tool = f"{BUILD}/tests/libhooks_tool.so"
        ranks = [MPIEXEC, "-n", "2", "env", f"LD_PRELOAD={tool}"]
        bare = subprocess.run([*ranks, CLIENT, "plain", "data"], cwd=self.dir, capture_output=True, text=True, check=True,
                              timeout=PATIENCE).stdout
        self.assertEqual(bare.splitlines(), ["opened 1 written 1 closed 1 completed 0 collective 0"] * 2)
        done = self.lzy_run(["env", f"LD_PRELOAD={tool}", LZY_RUN, "--", MPIEXEC, "-n", "2", CLIENT, "plain", "data"])
        self.assertEqual(done.stdout, bare)
        self.assert_protected()

    def test_tools_that_are_linked_see_requests_complete(self):
        """They come after lzy, where all programs wait."""
        tool = f"{BUILD}/tests/libhooks_tool.so"
        for preload in [tool, f"{tool}:{LAYER}", f"{LAYER}:{tool}"]:
            done = subprocess.run([MPIEXEC, "-n", "2", "env", f"LD_PRELOAD={preload}", CLIENT, "slabs_nonblocking",
                                   "data", "wait"], cwd=self.dir, capture_output=True, text=True, check=True, timeout=PATIENCE)
            self.assertEqual([line.split("completed ")[1] for line in done.stdout.splitlines()], ["4 collective 0"] * 2)
            self.assertEqual(done.stderr, "")
        self.assert_protected()

    def test_option_values_reach_the_ranks_unchanged(self):
        patterns = "a;b,c d=e.%r"
        done = self.lzy_run([MPIEXEC, "-n", "2", "sh", "-c", "echo $LZY_SET"], ["--set", patterns])
        self.assertEqual(done.stdout.splitlines(), [patterns] * 2)

    def test_nodes_in_a_hostfile(self):
        """Nodes reached through something like ssh, which passes no environment on."""
        kind = launcher()
        # Wrappers and daemons of wheels find their libraries by these; ssh would be told by the user's shell profile.
        names = [name for name in ("LD_LIBRARY_PATH", "I_MPI_ROOT", "FI_PROVIDER_PATH", "OMPI_ALLOW_RUN_AS_ROOT",
                                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") if name in os.environ]
        passed = " ".join(f"{name}='{os.environ[name]}'" for name in names)
        agent = self.path("agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(directory=self.dir, passed=passed))
        os.chmod(agent, 0o755)
        hosts = ["nodea", "nodeb"] if kind == "openmpi5" else ["127.0.0.2", "127.0.0.3"]
        with open(self.path("hostfile"), "w", encoding="utf-8") as file:
            for host in hosts:
                file.write(f"{host} slots=1\n" if kind.startswith("openmpi") else f"{host}:1\n")
        arguments = {
            "hydra": ["-launcher", "ssh", "-launcher-exec", agent, "-f", "hostfile", "-localhost", "127.0.0.1"],
            "intel": ["-launcher", "ssh", "-launcher-exec", agent, "-f", "hostfile", "-ppn", "1"],
            "openmpi4": ["--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca",
                         "oob_tcp_if_include", "lo", "--hostfile", "hostfile"],
            "openmpi5": ["--prtemca", "plm_ssh_agent", agent, "--hostfile", "hostfile"],
        }[kind]
        done = self.lzy_run([MPIEXEC, *arguments, "-n", "2", "sh", "-c", "echo $LZY_PARITY $LZY_SET $LD_PRELOAD"],
                            ["--parity", "2", "--set", "set.%r"])
        self.assertEqual(done.stdout.splitlines(), [f"2 set.%r {os.path.realpath(LAYER)}"] * 2)
        with open(self.path("hosts"), encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().split()), hosts)

    def test_the_users_own_list_of_variables(self):
        if not launcher().startswith("openmpi"):
            self.skipTest("-x is Open MPI's")
        done = self.lzy_run([MPIEXEC, "-x", "MINE=yes", "-n", "1", "sh", "-c", "echo $MINE $LZY_PARITY $LD_PRELOAD"])
        self.assertEqual(done.stdout.split(), ["yes", "1", os.path.realpath(LAYER)])

    def test_a_launcher_like_srun(self):
        if launcher() not in ("hydra", "intel"):
            self.skipTest("only programs of MPICH's family speak PMI-1")
        srun = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "srun_like.py")]
        self.lzy_run([*srun, "3", CLIENT, "set", "set"], ["--set", "set.%r", "--parity", "1"])
        self.assertEqual(self.verify("set.%r"), 0)
        self.assertEqual(sorted(name for name in self.files() if name.startswith(".LZY.")), [".LZY.set.0", ".LZY.set.1", ".LZY.set.2"])


class Watched(Started):
    """--sweep and --explain beside MPI-IO: what the layer committed is left alone, and told as such."""

    def commits(self):
        """Names of datasets, in the order of their commits."""
        with open(self.path("commits"), encoding="utf-8") as file:
            return [os.path.basename(json.loads(line)["path"]) for line in file]

    def told(self, done):
        return [line.removeprefix("lzy-run:   ") for line in done.stderr.splitlines() if line.startswith("lzy-run:   ")]

    def test_what_mpi_io_committed_is_left_alone(self):
        script = '"$0" -n 2 "$1" plain data; "$0" -n 3 "$1" set set; echo > log'
        done = self.lzy_run(["sh", "-c", script, MPIEXEC, CLIENT], ["--sweep", ".", "--explain", "--set", "set.%r", "--report", "commits"])
        self.assertEqual(sorted(self.commits()), ["data", "log", "set.%r"])
        self.assertEqual(self.told(done), ["commits: other; not protected: it is the file of option report", "data: MPI-IO; protected",
                                           "log: other; protected by --sweep", "set.%r (3 files): MPI-IO; protected"])
        self.assertIn("the command wrote 5 files; all are protected, 1 of them by the sweep", done.stderr)

    def test_what_changed_after_its_commit_is_committed_again(self):
        done = self.lzy_run(["sh", "-c", '"$0" -n 2 "$1" plain data; echo >> data', MPIEXEC, CLIENT], ["--explain"])
        self.assertEqual(self.told(done), ["data: MPI-IO; not protected: it changed after its last commit, or its commit failed; "
                                           "type lzy-protect data"])
        self.lzy_run(["sh", "-c", '"$0" -n 2 "$1" plain data; echo >> data', MPIEXEC, CLIENT], ["--sweep", "."])
        self.assert_protected()

    def test_why_mpi_io_is_not_protected(self):
        cases = {"option exclude leaves it out": ["--exclude", "dat*"], "option include leaves it out": ["--include", "other"]}
        for why, options in cases.items():
            done = self.lzy_run([MPIEXEC, "-n", "2", CLIENT, "plain", "data"], ["--explain", *options])
            self.assertEqual(self.told(done), [f"data: MPI-IO; not protected: {why}"])

    def test_one_lzy_run_in_each_rank(self):
        """That of rank 0 sweeps, when the other ranks have ended."""
        script = f'"$0" set set; if [ {RANK} = 0 ]; then echo > first; else while [ ! -e first ]; do :; done; echo > last; fi'
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        done = subprocess.run([MPIEXEC, "-n", "2", LZY_RUN, "--sweep", ".", "--set", "set.%r", "--report", "commits", "--", "sh", "-c",
                               script, CLIENT], cwd=self.dir, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.commits()), ["first", "last", "set.%r"])
        self.assertEqual(done.stderr.count("--sweep:"), 1)


class Linked(Layer):
    """A program that is linked with the layer ahead of MPI needs no preload."""

    def test_linked_ahead_of_mpi(self):
        done = subprocess.run([MPIEXEC, "-n", "2", f"{BUILD}/clients/hooks_linked_client", "plain", "data"], cwd=self.dir,
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.quiet(done)
        self.assertEqual(self.verify("data"), 0)
        self.assertTrue(self.has(".LZY.data"))


if __name__ == "__main__":
    unittest.main()
