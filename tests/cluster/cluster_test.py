"""The cluster itself (scripts/cluster): nodes that are apart, that can be lost, and of which nothing is left."""

import os
import signal
import subprocess
import tempfile
import time
import unittest

import nodes


class SeparateNodes(nodes.Nodes):
    NODES = 2

    def on(self, node, *words):
        done = self.cluster("exec", self.dir, node, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def received(self, node):
        return int(self.on(node, "cat", "/sys/class/net/eth0/statistics/rx_bytes"))

    def test_names_and_namespaces(self):
        for name in ["mnt", "uts", "ipc", "net", "pid"]:
            seen = {self.on(node, "readlink", f"/proc/self/ns/{name}") for node in self.all} | {os.readlink(f"/proc/self/ns/{name}")}
            self.assertEqual(len(seen), 3, name)
        self.assertEqual([self.on(node, "hostname") for node in self.all], self.all)
        done = self.run_job(["hostname"], on=["n2", "n1:2"])
        self.assertEqual(sorted(done.stdout.split()), ["n1", "n1", "n2"])

    def test_disks_and_memory(self):
        for place in [self.local, "/dev/shm"]:
            self.on("n1", "sh", "-c", f"echo mine >{place}/file")
            self.assertEqual(self.on("n2", "ls", place), "")
            self.assertEqual(self.on("n1", "cat", f"{place}/file"), "mine")
        self.assertEqual(self.files("n1"), ["file"])
        self.assertEqual(os.listdir(self.local), [])
        self.on("n1", "sh", "-c", f"echo ours >{self.shared}/file")
        self.assertEqual(self.on("n2", "cat", f"{self.shared}/file"), "ours")

    def test_what_ranks_exchange_crosses_the_network(self):
        """Also of files that all of them see, whose blocks ranks of one node would take from the page cache."""
        pattern = f"{self.shared}/state.%r"
        for parity, name in [("hooks", pattern), ("lzy-protect", f"{self.shared}/other.%r")]:
            with self.subTest(made_by=parity):
                before = [self.received(node) for node in self.all]
                if parity == "hooks":
                    self.solve(10, checkpoint=pattern, set=pattern)
                else:
                    for rank in range(2):
                        os.link(f"{self.shared}/state.{rank}", f"{self.shared}/other.{rank}")
                        os.remove(f"{self.shared}/state.{rank}")
                        os.remove(f"{self.shared}/.LZY.state.{rank}")
                    self.tool(0, "lzy-protect", name)
                # With two devices parity is a copy of the data: each rank's crosses whole.
                size = os.path.getsize(name.replace("%r", "0"))
                for node, count in zip(self.all, before):
                    self.assertGreater(self.received(node) - count, size // 2)

    def test_exit_codes_come_back(self):
        self.assertEqual(self.cluster("exec", self.dir, "n1", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_job(["sh", "-c", "exit 9"]).returncode, 9)

    def test_two_at_once(self):
        other = tempfile.mkdtemp(prefix="lzy-cluster-test-")
        self.addCleanup(self.cluster, "down", other)
        done = self.cluster("up", "2", "--dir", other, "--tied", stdin=self.tie)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.on("n1", "sh", "-c", f"echo mine >{self.local}/file")
        self.assertEqual(self.cluster("exec", other, "n1", "ls", f"{other}/local").stdout, "")
        done = subprocess.run([nodes.CLUSTER, "mpiexec", "--mpiexec", nodes.MPIEXEC, other, "hostname"], capture_output=True,
                              text=True, check=False, timeout=nodes.PATIENCE)
        self.assertEqual(sorted(done.stdout.split()), ["n1", "n2"])
        self.assertEqual(self.cluster("down", other).returncode, 0)
        self.assertEqual(self.on("n2", "hostname"), "n2")


class KilledNodes(nodes.Nodes):
    NODES = 2

    def processes(self):
        """All that run in this cluster, by what their file systems are; holders and what they started."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as file:
                    if f"{self.dir}/" in file.read():
                        found.add(int(pid))
            except OSError:
                continue
        return found

    def test_a_node_that_is_killed_takes_everything_along(self):
        before = self.processes()
        self.assertEqual(len(before), 5)  # a holder each, who waits for it, and the head
        with subprocess.Popen([nodes.CLUSTER, "exec", self.dir, "n1", "sh", "-c", f"echo >{self.local}/here; setsid sleep 1000"],
                              stdin=subprocess.DEVNULL) as process:
            self.wait_until(lambda: self.files("n1") == ["here"])
            self.kill("n1")
            self.assertNotEqual(process.wait(nodes.PATIENCE), 0)
        self.wait_until(lambda: len(self.processes()) == 3)
        self.assertLess(self.processes(), before)
        done = self.cluster("exec", self.dir, "n1", "true")
        self.assertEqual((done.returncode, done.stderr), (1, "cluster: node n1 is down\n"))
        self.assertEqual(self.files("n1"), ["here"])
        self.kill("n1")  # once more: nothing
        self.boot("n1")
        self.boot("n1")
        self.assertEqual(self.cluster("exec", self.dir, "n1", "ls", self.local).stdout, "here\n")
        self.lose("n1")
        self.boot("n1")
        self.assertEqual(self.files("n1"), [])
        self.assertEqual(sorted(self.run_job(["hostname"]).stdout.split()), ["n1", "n2"])

    def test_a_cluster_that_is_taken_down_leaves_nothing(self):
        links = os.listdir("/sys/class/net")
        mounts = self.content("/proc/self/mounts")
        self.assertNotIn(self.dir.encode(), mounts)
        self.down()
        self.assertEqual(self.processes(), set())
        self.assertEqual(os.listdir("/sys/class/net"), links)
        self.down()  # once more: nothing

    def test_a_directory_that_is_no_cluster_is_left_alone(self):
        with tempfile.TemporaryDirectory(prefix="lzy-cluster-test-") as other:
            with open(f"{other}/mine", "w", encoding="utf-8") as file:
                file.write("mine")
            for words in [["down", other], ["up", "1", "--dir", other]]:
                done = self.cluster(*words)
                self.assertEqual(done.returncode, 1)
                self.assertIn(other, done.stderr)
            self.assertEqual(os.listdir(other), ["mine"])

    def test_usage_errors(self):
        for words, code in [([], 3), (["op"], 3), (["up"], 3), (["up", "0"], 3), (["up", "1", "--disk-size", "much"], 3),
                            (["exec", self.dir, "n3", "true"], 1), (["kill", self.dir, "n0"], 1), (["down", "a b"], 1)]:
            with self.subTest(words=words):
                done = self.cluster(*words)
                self.assertEqual((done.returncode, done.stdout), (code, ""))
                self.assertNotEqual(done.stderr, "")

    def wait_until(self, condition):
        end = time.monotonic() + nodes.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)


class AbandonedCluster(unittest.TestCase):
    """A test that is killed leaves a cluster: its nodes end with it, the next one removes the rest."""

    def test_the_next_cluster_removes_an_abandoned_one(self):
        with tempfile.TemporaryDirectory(prefix="lzy-cluster-abandoned-") as base:
            variables = dict(nodes.environment(), TMPDIR=base)
            left = f"{base}/lzy-cluster-left"
            with subprocess.Popen(["/bin/sh", "-c", f"sleep 1000 | {nodes.CLUSTER} up 1 --name left --tied; wait; cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables,
                                  start_new_session=True) as test:
                line = test.stdout.readline()
                if not line:
                    os.killpg(test.pid, signal.SIGKILL)
                    self.skipTest(test.stderr.read().strip())
                self.assertIn("1 nodes are up", line)
                self.assertEqual(self.list(variables), f"{left}: n1\n")
                os.killpg(test.pid, signal.SIGKILL)
            end = time.monotonic() + nodes.PATIENCE
            while self.list(variables) != f"{left}: left over\n":
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            os.utime(f"{left}/cluster.json", (0, 0))  # long ago: what is made just now is let alone
            done = subprocess.run([nodes.CLUSTER, "up", "1", "--name", "next"], capture_output=True, text=True, check=False,
                                  env=variables, stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(os.listdir(base), ["lzy-cluster-next"])
            done = subprocess.run([nodes.CLUSTER, "down", "next"], capture_output=True, text=True, check=False, env=variables)
            self.assertEqual((done.returncode, done.stderr, os.listdir(base)), (0, "", []))

    def list(self, variables):
        return subprocess.run([nodes.CLUSTER, "list"], check=True, capture_output=True, text=True, env=variables).stdout


if __name__ == "__main__":
    unittest.main()
