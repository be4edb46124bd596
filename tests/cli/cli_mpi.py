"""The same tools under mpiexec: one report, one exit code for all ranks."""

import os
import unittest

from harness import BIN, LIB, MPIEXEC, CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K", "--group", "4")
# Notes the exit code of each rank; launchers only tell a combination of them, and Open MPI's ends all ranks as soon as
# one has failed, so none does here.
NOTE = 'rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; "$@"; echo $? > code.$rank'


class UnderMpi(CliTest):
    def setUp(self):
        super().setUp()
        self.content = pattern_bytes(200000)
        self.write("a", self.content)
        self.age("a")
        for rank in range(4):
            self.write(f"s.{rank}", pattern_bytes(50000 + rank, seed=rank))
            self.age(f"s.{rank}")

    def check_ranks(self, exit_code, *words, ranks=2, env=None, before=""):
        """Runs a tool under mpiexec, after what the shell is to do `before`; every rank must end with `exit_code`."""
        import subprocess
        variables = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        variables.update(env or {})
        done = subprocess.run([MPIEXEC, "-n", str(ranks), "sh", "-c", before + NOTE, "sh", os.path.join(BIN, words[0]), *words[1:]],
                              cwd=self.scratch, env=variables, capture_output=True, text=True, timeout=100)
        codes = [int(self.read(f"code.{rank}")) for rank in range(ranks)]
        for rank in range(ranks):
            os.remove(self.path(f"code.{rank}"))
        self.assertEqual(codes, [exit_code] * ranks, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def test_launcher_of_another_mpi_is_told_once(self):
        self.check(0, "lzy-protect", "a")
        # What the launcher of the other family sets, in a process that it started.
        other = "PMI" if "OMPI_COMM_WORLD_SIZE" in self.launched() else "OMPI_COMM_WORLD"
        for rank, told in ((0, 1), (1, 0)):
            done = self.check(0, "lzy-verify", "a", env={f"{other}_SIZE": "4", f"{other}_RANK": str(rank)})
            self.assertEqual(done.stderr.count("the launcher started 4 processes, and each works alone: lzy-verify is built"), told)
        # Not if the processes find each other, or there is only one.
        for ranks in (1, 2):
            self.assertEqual(self.check_ranks(0, "lzy-verify", "a", ranks=ranks).stderr, "")

    def launched(self):
        import subprocess
        return subprocess.run([MPIEXEC, "-n", "1", "env"], capture_output=True, text=True, check=True).stdout

    def test_usage_errors_are_told_once(self):
        for words in (["--bogus"], ["absent"], ["--memory", "x", "a"], ["--force", "a"]):
            done = self.check_ranks(3, "lzy-verify", *words)
            self.assertEqual(done.stderr.count("lzy-verify: "), 1, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(self.check_ranks(0, "lzy-verify", "--version").stdout.count("lzy-verify"), 1)

    def test_not_protected(self):
        done = self.check_ranks(4, "lzy-verify", "a")
        self.assertEqual(done.stderr.count("lzy-protect a"), 1)

    def test_shared_file_with_any_number_of_ranks(self):
        self.check_ranks(0, "lzy-protect", *SMALL, "a", ranks=3)
        root = self.report(0, "lzy-verify", "a")["datasets"][0]["root"]
        with open(self.path(".LZY.a"), "rb") as sidecar:
            self.assertTrue(sidecar.read(1))
        os.remove(self.path(".LZY.a"))
        self.check(0, "lzy-protect", *SMALL, "a")
        for ranks in (1, 2, 4):
            dataset = self.report(0, "lzy-verify", "a", ranks=ranks)["datasets"][0]
            self.assertEqual((dataset["root"], dataset["state"]), (root, "intact"))
        self.flip("a", 9999)
        done = self.check_ranks(1, "lzy-verify", "a")
        self.assertEqual(done.stdout.count("repair with: lzy-verify --repair a"), 1)
        self.check_ranks(0, "lzy-verify", "--repair", "a")
        self.assertEqual(self.read("a"), self.content)
        for block in range(20):
            self.flip("a", 4096 * block)
        self.check_ranks(2, "lzy-restore", "a")

    def test_with_any_topology(self):
        roots = set()
        for topology in ("bcast", "pipelined", "daisy", "hierarchical", "hypercube", "auto", "auto:5:1:1000"):
            done = self.check_ranks(0, "lzy-protect", "--topology", topology, "--force", *SMALL, "a", "s.%r", ranks=3)
            self.assertEqual(done.stderr, "")
            roots.add(tuple(d["root"] for d in self.report(0, "lzy-verify", "a", "s.%r")["datasets"]))
        self.assertEqual(len(roots), 1)

    def test_ranks_that_name_different_topologies(self):
        each = ('case ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} in 0) LZY_TOPOLOGY=daisy;; 1) LZY_TOPOLOGY=pipelined;; '
                '*) LZY_TOPOLOGY=auto:1:1:1;; esac; export LZY_TOPOLOGY; ')
        self.check_ranks(0, "lzy-protect", *SMALL, "a", "s.%r", ranks=3, before=each)
        self.check(0, "lzy-verify", "a", "s.%r")

    def test_with_any_way_of_exchange(self):
        roots = set()
        for way in ("auto", "mpi", "pairwise", "ring", "shared"):
            done = self.check_ranks(0, "lzy-protect", "--exchange", way, "--force", *SMALL, "a", "s.%r", ranks=3)
            self.assertEqual(done.stderr, "")
            roots.add(tuple(d["root"] for d in self.report(0, "lzy-verify", "a", "s.%r")["datasets"]))
            os.remove(self.path("s.1"))
            self.check_ranks(0, "lzy-restore", "--exchange", way, "s.%r", ranks=3)
            self.assertEqual(self.read("s.1"), pattern_bytes(50001, seed=1))
        self.assertEqual(len(roots), 1)

    def test_ranks_that_name_different_ways_of_exchange(self):
        each = ('case ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} in 0) LZY_EXCHANGE=%s;; 1) LZY_EXCHANGE=%s;; *) LZY_EXCHANGE=%s;; esac; '
                'export LZY_EXCHANGE; ')
        for ways in (("mpi", "ring", "shared"), ("shared", "mpi", "pairwise"), ("ring", "auto", "mpi")):
            self.check_ranks(0, "lzy-protect", "--force", *SMALL, "a", "s.%r", ranks=3, before=each % ways)
            self.check(0, "lzy-verify", "a", "s.%r")

    def test_stale(self):
        self.check_ranks(0, "lzy-protect", *SMALL, "a")
        self.write("a", b"edited" + self.content[6:])
        self.check_ranks(9, "lzy-verify", "a")

    def test_set(self):
        self.check_ranks(0, "lzy-protect", *SMALL, "s.%r", ranks=2)
        self.check_ranks(0, "lzy-verify", "s.%r", ranks=3)
        os.remove(self.path("s.2"))
        self.check_ranks(1, "lzy-verify", ".", ranks=2)
        self.check_ranks(0, "lzy-restore", "s.%r", ranks=2)
        self.assertEqual(self.read("s.2"), pattern_bytes(50002, seed=2))

    def test_directory_and_several_paths(self):
        self.check_ranks(0, "lzy-protect", *SMALL, "s.%r", ".")
        document = self.report(0, "lzy-verify", ".", "a", "s.1", ranks=2)
        self.assertIn("a", [dataset["path"] for dataset in document["datasets"]])
        self.assertEqual(len([d for d in document["datasets"] if d["path"] in ("a", "s.%r", "./s.%r")]), 2)

    def test_members_on_disks_of_their_own(self):
        """Each rank sees its own directory only, as with node-local disks."""
        import subprocess
        for rank in range(3):
            self.write(f"node{rank}/s.{rank}", pattern_bytes(60000, seed=rank))
            self.age(f"node{rank}/s.{rank}")

        def on_nodes(exit_code, *words):
            script = 'cd node${PMI_RANK:-$OMPI_COMM_WORLD_RANK} && exec "$@"'
            variables = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
            done = subprocess.run([MPIEXEC, "-n", "3", "sh", "-c", script, "sh", os.path.join(BIN, words[0]), *words[1:]],
                                  cwd=self.scratch, env=variables, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, exit_code, f"{words}\n{done.stdout}\n{done.stderr}")

        on_nodes(0, "lzy-protect", *SMALL, "s.%r")
        for path in ("s.%r", "s.1", "."):
            on_nodes(0, "lzy-verify", path)
        os.remove(self.path("node1/s.1"))
        os.remove(self.path("node1/.LZY.s.1"))
        for path in ("s.%r", "s.1", "s.0", "."):
            on_nodes(1, "lzy-verify", path)
        on_nodes(0, "lzy-restore", "s.%r")
        self.assertEqual(self.read("node1/s.1"), pattern_bytes(60000, seed=1))
        on_nodes(0, "lzy-verify", "s.%r")

    def test_lzy_run_reaches_every_rank(self):
        library = os.path.join(LIB, "liblzy_mpiio.so")
        if not os.path.exists(library):
            self.fail(f"{library} is not built")
        done = self.check(0, "lzy-run", "--parity", "2", "--", MPIEXEC, "-n", "2", "sh", "-c",
                          'echo "$LZY_PARITY $LD_PRELOAD"')
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertTrue(line.startswith("2 ") and "liblzy_mpiio.so" in line, line)
        self.check(5, "lzy-run", "--", MPIEXEC, "-n", "2", "sh", "-c", "exit 5")


if __name__ == "__main__":
    unittest.main()
