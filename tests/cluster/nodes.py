"""What the tests on a cluster share: a cluster a test (scripts/cluster), jobs on it, the loss of nodes, what lies on disks.

Needs CLUSTER_TEST_BUILD (build directory) and CLUSTER_TEST_MPIEXEC in the environment; tests/cluster/CMakeLists.txt sets them.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ.get("CLUSTER_TEST_BUILD", "build")
MPIEXEC = os.environ.get("CLUSTER_TEST_MPIEXEC", "mpiexec")
CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/cluster")
LAYER = f"{BUILD}/lib/liblzy_mpiio.so"
HEAT3D = f"{BUILD}/examples/heat3d"
# Bounds what a test can hang for; nothing waits for it to pass.
PATIENCE = 60
EXIT_NOT_PERMITTED = 4
SIZE = 48  # of heat3d: checkpoints of nearly a megabyte


def environment(**options):
    """Without options of the caller's, with `options` as LZY_*."""
    out = {k: v for k, v in os.environ.items() if not k.startswith(("LZY_", "LD_PRELOAD"))}
    out.update({f"LZY_{name.upper()}": str(value) for name, value in options.items()})
    return out


def why_no_launcher():
    """Empty where mpiexec starts ranks through a launcher as Hydra does."""
    done = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=False)
    if re.search("HYDRA|Intel", done.stdout):
        return ""
    return f"{MPIEXEC} is not MPICH's: it enters nodes in other ways"


class Nodes(unittest.TestCase):
    """A cluster for each test, with a set of checkpoints a node, as a job on it leaves and finds them."""
    NODES = 4
    DISK_SIZE = None

    def setUp(self):
        reason = why_no_launcher()
        if reason:
            self.skipTest(reason)
        # While this end is open the nodes live: they end with this process, however that ends.
        self.tie, keep = os.pipe()
        self.addCleanup(os.close, keep)
        self.addCleanup(os.close, self.tie)
        self.dir = tempfile.mkdtemp(prefix="lzy-cluster-test-")
        self.addCleanup(self.down)
        limits = ["--disk-size", self.DISK_SIZE] if self.DISK_SIZE else []
        done = self.cluster("up", str(self.NODES), "--dir", self.dir, "--tied", *limits, stdin=self.tie)
        if done.returncode == EXIT_NOT_PERMITTED:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.local = f"{self.dir}/local"
        self.shared = f"{self.dir}/shared"
        self.all = [f"n{i + 1}" for i in range(self.NODES)]
        self.set = f"{self.local}/state.%r"
        os.environ["XDG_CACHE_HOME"] = f"{self.shared}/.cache"  # what tools measure
        os.environ["XDG_STATE_HOME"] = f"{self.dir}/state"  # their catalogue: no dataset, so not among them

    def down(self):
        done = self.cluster("down", self.dir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(os.path.exists(self.dir))

    def cluster(self, *words, stdin=subprocess.DEVNULL, env=None):
        return subprocess.run([CLUSTER, *words], stdin=stdin, env=env or environment(), capture_output=True, text=True,
                              check=False, timeout=PATIENCE)

    # -- Nodes that come and go.

    def lose(self, *nodes):
        """Their processes die, their disks are gone."""
        done = self.cluster("kill", self.dir, *nodes, "--wipe")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def kill(self, *nodes):
        """Their processes die; their disks will be there again with them."""
        done = self.cluster("kill", self.dir, *nodes)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def boot(self, *nodes):
        done = self.cluster("boot", self.dir, *nodes, stdin=self.tie)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    # -- Jobs.

    def words_of_job(self, words, on=None, ranks=None, layer=False):
        """mpiexec's command line: a rank on each of the nodes `on` ("n1", "n2:2" for two ranks), all by default."""
        where = ["--on", ",".join(on)] if on else []
        # Into the program only, not into the launcher.
        preload = ["env", f"LD_PRELOAD={LAYER}"] if layer else []
        return [CLUSTER, "mpiexec", "--mpiexec", MPIEXEC, *where, self.dir, *(["-n", str(ranks)] if ranks else []), *preload, *words]

    def run_job(self, words, on=None, ranks=None, layer=False, **options):
        return subprocess.run(self.words_of_job(words, on, ranks, layer), stdin=subprocess.DEVNULL, env=environment(**options),
                              cwd=self.dir, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def solver(self, steps, *words, every=10, checkpoint=None):
        return [HEAT3D, "--size", str(SIZE), "--steps", str(steps), "--every", str(every), "--checkpoint", checkpoint or self.set,
                *words]

    def solve(self, steps, *words, on=None, every=10, checkpoint=None, told="^$", **options):
        """The solver under the layer, its checkpoints protected as a set; what it prints. `told`: what the layer has to say."""
        options.setdefault("parity", 1)
        options.setdefault("set", self.set)
        done = self.run_job(self.solver(steps, *words, every=every, checkpoint=checkpoint), on=on, layer=True, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, told)
        return done.stdout

    def reference(self, steps=20):
        """The field at the end of a run that nothing happens to, and that knows nothing of lzy."""
        # Not over TCP, where MPI_Finalize of MPICH may wait for ever if lzy is not there (docs/mpi-families.md).
        words = ["env", "UCX_TLS=shm,self", HEAT3D, "--size", str(SIZE), "--steps", str(steps), "--every", "0", "--final", f"{self.shared}/reference"]
        done = self.run_job(words, on=[f"{self.all[0]}:{len(self.all)}"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        field = self.content(f"{self.shared}/reference")
        os.remove(f"{self.shared}/reference")
        return field

    def restart(self, steps=20, **more):
        """Goes on from the checkpoint to the end; the field there, which is not the old one only if it was written anew."""
        final = f"{self.shared}/final"
        if os.path.exists(final):
            os.remove(final)
        self.solve(steps, "--restart", "--final", final, **more)
        return self.content(final)

    def tool(self, exit_code, *words, on=None, ranks=None, **options):
        """A tool (words[0]) on all nodes that are up, or `on`: it must end so."""
        done = self.run_job([f"{BUILD}/bin/{words[0]}", *words[1:]], on=on, ranks=ranks, **options)
        self.assertEqual(done.returncode, exit_code, f"{words}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        return done

    def report(self, exit_code, *words, **more):
        """The same with --json: the one dataset's report."""
        document = json.loads(self.tool(exit_code, words[0], "--json", *words[1:], **more).stdout)
        self.assertEqual(document["exit_code"], exit_code)
        [dataset] = document["datasets"]
        return dataset

    # -- What lies on disks.

    def disk(self, node, *names):
        return os.path.join(self.dir, "disks", node, *names)

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()

    def files(self, node):
        return sorted(os.listdir(self.disk(node))) if os.path.isdir(self.disk(node)) else []

    def members(self, name="state.{}"):
        """Members of the set on all disks: (node, rank) to content. Sidecars are checked by lzy-verify."""
        found = {}
        for node in self.all:
            for file in self.files(node):
                match = re.fullmatch(name.replace(".", r"\.").replace("{}", r"(\d+)"), file)
                if match:
                    found[node, int(match.group(1))] = self.content(self.disk(node, file))
        return found

    def contents(self, name="state.{}"):
        """The same by rank; a rank must be in one place only."""
        found = self.members(name)
        ranks = [rank for _, rank in found]
        self.assertEqual(len(ranks), len(set(ranks)), sorted(found))
        return {rank: content for (_, rank), content in found.items()}

    def everything(self):
        """All that can be told of the disks from outside, to see that nothing was written."""
        found = {}
        for where in ["disks", "shared"]:
            for folder, _, names in os.walk(os.path.join(self.dir, where)):
                for name in names:
                    path = os.path.join(folder, name)
                    stat = os.stat(path)
                    found[path] = (hashlib.sha256(self.content(path)).hexdigest(), stat.st_mtime_ns, stat.st_ino, stat.st_mode)
        return found

    def no_debris(self):
        """Nothing of lzy's but sidecars is left lying about."""
        for node in self.all:
            self.assertEqual([name for name in self.files(node) if re.match(r"\.LZY-", name)], [], node)

    def is_whole(self, contents, on=None):
        """The set is what it was, byte for byte, and says so."""
        self.assertEqual(self.contents(), contents)
        done = self.tool(0, "lzy-verify", self.set, on=on)
        self.assertIn("intact", done.stdout)
        self.assertEqual(done.stderr, "")

    def save(self, node):
        """A copy of the node's disk, as of now."""
        kept = f"{self.dir}/kept.{node}"
        subprocess.run(["cp", "-a", self.disk(node), kept], check=True)
        return kept

    def put_back(self, node, kept):
        """The node's disk as it was then: the inodes, too, may be others, as of a backup."""
        if os.path.isdir(self.disk(node)):
            shutil.rmtree(self.disk(node))
        subprocess.run(["cp", "-a", kept, self.disk(node)], check=True)
