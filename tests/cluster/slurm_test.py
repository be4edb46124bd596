"""Slurm on the nodes of a cluster: a node is lost under a job, Slurm starts the job again, and it ends with the same bits.

Uses what contrib/slurm has. Needs Debian's slurmctld, slurmd, slurm-client and munge; skipped without. Slurm runs as root and
without cgroups, which a node of scripts/cluster has not got: it follows processes by /proc.
"""

import os
import re
import shutil
import subprocess
import time
import unittest

import nodes

CONTRIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../contrib/slurm")
PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "setpriv"]
# Slurm looks at its nodes every few seconds, and takes one for lost after SlurmdTimeout.
SLURM_PATIENCE = 300
STEPS = 3000

CONFIGURATION = """
ClusterName=lzy
SlurmctldHost={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
StateSaveLocation={dir}/slurm.state
SlurmdSpoolDir={dir}/slurm.%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
Prolog={dir}/prolog
TaskProlog={dir}/task-prolog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmi2
SelectType=select/linear
SchedulerParameters=bf_interval=1
SlurmdTimeout=5
KillWait=2
ReturnToService=2
NodeName=n[1-{workers}] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm(nodes.Nodes):
    """The last node is the controller; jobs run on the others."""
    NODES = 5

    def setUp(self):
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            self.skipTest(f"not installed: {' '.join(missing)} (packages slurmctld, slurmd, slurm-client, munge)")
        super().setUp()
        self.controller = self.all[-1]
        self.workers = self.all[:-1]
        os.makedirs(f"{self.dir}/slurm.state")
        self.write("slurm.conf", CONFIGURATION.format(dir=self.dir, controller=self.controller, workers=len(self.workers)))
        # The plugin is loaded in any case, but does nothing unless something asks for limits.
        self.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self.write("prolog", self.contrib("prolog").replace("/opt/lzy/bin", f"{nodes.BUILD}/bin").replace("=/local", f"={self.local}"))
        # n1 and n2 are a rack, n3 and n4 another.
        self.write("task-prolog", self.contrib("task-prolog").replace("/etc/rack", f"{self.dir}/rack.$SLURMD_NODENAME"))
        for i, node in enumerate(self.workers):
            self.write(f"rack.{node}", f"rack{i // 2}\n")
        with open(f"{self.dir}/munge.key", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(128))
        # All these end with their nodes.
        self.on(self.controller, "munged", "--force", f"--socket={self.dir}/munge.socket", f"--key-file={self.dir}/munge.key",
                f"--pid-file={self.dir}/munged.pid", f"--seed-file={self.dir}/munge.seed", f"--log-file={self.dir}/munged.log")
        self.on(self.controller, "slurmctld", "-f", f"{self.dir}/slurm.conf")
        self.start_daemons(*self.workers)

    def contrib(self, name):
        return self.content(os.path.join(CONTRIB, name)).decode()

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.dir}/{name}", 0o755)

    def on(self, node, *words, **options):
        env = nodes.environment(**options)
        env.update(SLURM_CONF=f"{self.dir}/slurm.conf", PATH=f"{nodes.BUILD}/bin:{env['PATH']}",
                   UCX_TLS="tcp,self", UCX_NET_DEVICES="eth0")
        done = subprocess.run([nodes.CLUSTER, "exec", self.dir, node, *words], stdin=subprocess.DEVNULL, env=env, cwd=self.shared,
                              capture_output=True, text=True, check=False, timeout=SLURM_PATIENCE)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}{self.logs()}")
        return done.stdout

    def slurm(self, *words, **options):
        return self.on(self.controller, *words, **options)

    def logs(self):
        out = []
        for name in ["slurmctld.log", *[f"slurmd.{node}.log" for node in self.workers], "shared/out"]:
            if os.path.exists(f"{self.dir}/{name}"):
                out.append(f"--- {name}\n" + "".join(self.content(f"{self.dir}/{name}").decode().splitlines(True)[-30:]))
        return "\n".join(out)

    def start_daemons(self, *names):
        for node in names:
            os.makedirs(f"{self.dir}/slurm.{node}", exist_ok=True)
            self.on(node, "slurmd", "-f", f"{self.dir}/slurm.conf", "-N", node)
        self.wait(lambda: all(self.state(node) == "idle" for node in names), f"{names} to be idle")

    def state(self, node):
        return self.slurm("sinfo", "-h", "-N", "-n", node, "-o", "%T").strip()

    def wait(self, condition, what):
        end = time.monotonic() + SLURM_PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited for {what}\n{self.logs()}")
            time.sleep(0.1)

    def output(self):
        return self.content(f"{self.shared}/out").decode() if os.path.exists(f"{self.shared}/out") else ""

    def job(self, number):
        words = self.slurm("scontrol", "-o", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def reference_under_slurm(self, count):
        self.slurm("srun", "-N", str(count), "env", f"LD_PRELOAD={nodes.PROGRESS}", nodes.HEAT3D, "--size", str(nodes.SIZE), "--steps",
                   str(STEPS), "--every", "0", "--final", f"{self.shared}/reference")
        return self.content(f"{self.shared}/reference")

    def submit(self, count):
        """The job of contrib/slurm, when it has two checkpoints."""
        # Into all programs of the job, tools too: their MPI_Finalize may wait for ever as well.
        number = self.slurm("env", f"LD_PRELOAD={nodes.PROGRESS}", "sbatch", "--parsable", "-N", str(count), "--ntasks-per-node=1", f"--output={self.shared}/out",
                            f"{CONTRIB}/lzy-job", self.set, "--restart",
                            *self.solver(STEPS, "--final", f"{self.shared}/final", every=500), parity=1).strip()
        self.wait(lambda: "checkpoint step 1000 " in self.output(), "the second checkpoint")
        return number

    def requeue(self, number, node):
        """The job is put back: by Slurm, which finds that the node is gone, or by itself, if its MPI finds that first."""
        self.wait(lambda: self.job(number)["JobState"] == "PENDING", "the job to be put back")
        self.wait(lambda: "down" in self.state(node), f"{node} to be down")

    def finish(self, number):
        # Slurm waits for two minutes before it starts the job again. Hurried on (scontrol update StartTime=now), the new start
        # could be hit by what was sent to end the old one.
        self.wait(lambda: self.job(number)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), "the job to end")
        job = self.job(number)
        self.assertEqual((job["JobState"], job["Restarts"], job["ExitCode"]), ("COMPLETED", "1", "0:0"), self.output())
        again = self.output().partition("lzy-job: start 2 on ")[2]
        self.assertRegex(again, r"rebuilt before the program opens it, in .*: \.LZY\.state\.2, state\.2\n")
        self.assertNotIn("checkpoint step 500 ", again)  # it did not begin again
        self.assertIn("final step", again)
        return self.content(f"{self.shared}/final")


class ReplacedNode(Slurm):
    def test_the_node_comes_back_empty(self):
        expected = self.reference_under_slurm(4)
        number = self.submit(4)
        self.lose("n3")
        self.requeue(number, "n3")
        self.boot("n3")
        self.assertEqual(self.files("n3"), [])
        self.start_daemons("n3")
        self.assertEqual(self.finish(number), expected)
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3)])
        # The racks came to all ranks.
        map_ = self.slurm("srun", "-N", "4", "env", f"LD_PRELOAD={nodes.PROGRESS}", f"{nodes.BUILD}/bin/lzy-info", "--map", self.set)
        self.assertEqual(sorted(set(re.findall(r"rack\d", map_))), ["rack0", "rack1"], map_)


class SpareNode(Slurm):
    NODES = 6

    def test_another_node_takes_over(self):
        expected = self.reference_under_slurm(4)
        number = self.submit(4)
        self.lose("n3")
        self.requeue(number, "n3")
        # The nodes of the job are n1, n2, n4 and n5 now. By the order of their names rank 2 would go to n4, whose file is that of
        # rank 3.
        self.assertEqual(self.finish(number), expected)
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n4", 3), ("n5", 2)])
        self.assertEqual(self.output().count("rebuilt before"), 1)


if __name__ == "__main__":
    unittest.main()
