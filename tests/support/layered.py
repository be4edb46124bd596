"""Programs that run under the interposition layer, in a directory of their own.

Needs HOOKS_TEST_BUILD (build directory), HOOKS_TEST_MPIEXEC and HOOKS_TEST_MPI (the MPI library) in the environment, and
the folder of this file in PYTHONPATH; tests/CMakeLists.txt sets them.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

BUILD = os.environ.get("HOOKS_TEST_BUILD", "build")
MPIEXEC = os.environ.get("HOOKS_TEST_MPIEXEC", "mpiexec")
# In a sanitized build the sanitizer has to come first.
LAYER = ":".join([*os.environ.get("HOOKS_TEST_SANITIZER", "").split(), f"{BUILD}/lib/liblzy_mpiio.so"])
WRITE_CALLS = f"{BUILD}/clients/write_calls"
CLIENT = f"{BUILD}/clients/hooks_client"
# In a shell that an MPI launcher started: the rank of its process.
RANK = "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}"
# Bounds what a test can hang for; nothing waits for it to pass. Machines may be so busy that seconds mean nothing.
PATIENCE = 600


class Layer(unittest.TestCase):
    """A directory of its own for each test."""

    def setUp(self):
        self._directory = tempfile.TemporaryDirectory(prefix="lzy-hooks-")
        self.addCleanup(self._directory.cleanup)
        self.dir = os.path.realpath(self._directory.name)

    def run_program(self, command, ranks=2, layer=True, patience=PATIENCE, **options):
        """Runs it there, with options as LZY_*; returns what subprocess.run does."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        if layer:
            environment["LD_PRELOAD"] = LAYER
        environment.update({f"LZY_{name.upper()}": str(value) for name, value in options.items()})
        # env, so that the launcher itself runs without the layer
        settings = [f"{k}={v}" for k, v in environment.items() if k.startswith(("LZY_", "LD_PRELOAD"))]
        environment.pop("LD_PRELOAD", None)
        # Open MPI cannot open a file whose whole name is one letter (mpi_known.py).
        command = [f"./{word}" if len(word) == 1 and word.isalpha() else word for word in command]
        return subprocess.run([MPIEXEC, "-n", str(ranks), "env", *settings, *command], cwd=self.dir, env=environment,
                              capture_output=True, text=True, timeout=patience)

    def client(self, action, name="f", argument="", **options):
        ranks = options.pop("ranks", 2)
        done = self.run_program([CLIENT, action, name, argument], ranks=ranks, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def crash(self, action, name="f", ranks=3, **options):
        """An action that ends in a sudden end of all ranks: what mpiexec makes of that is its own affair."""
        done = self.run_program([CLIENT, action, name], ranks=ranks, **options)
        for rank in range(ranks):
            note = self.path(f"CRASHED.{rank}")
            self.assertTrue(os.path.exists(note), f"rank {rank} did not come to the end: {done.stderr}")
            os.remove(note)

    def quiet(self, done):
        self.assertEqual(done.stderr, "")

    def path(self, name):
        return os.path.join(self.dir, name)

    def has(self, name):
        return os.path.exists(self.path(name))

    def files(self):
        return sorted(os.listdir(self.dir))

    def clear(self):
        """Removes all files of the directory."""
        for name in self.files():
            os.remove(self.path(name))

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_tool(self, name, *arguments):
        """Runs a tool there, without MPI and without the layer."""
        return subprocess.run([f"{BUILD}/bin/{name}", *arguments], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def verify(self, name="f"):
        """lzy-verify's exit code."""
        return self.run_tool("lzy-verify", "--quiet", name).returncode

    def info(self, name="f", *options, code=0):
        """What lzy-info says of a dataset. `code`: its exit code, None for any."""
        done = self.run_tool("lzy-info", "--json", *options, name)
        self.assertIn(code, (None, done.returncode), done.stderr)
        return json.loads(done.stdout)["datasets"][0]

    def damage(self, name, offset):
        """Flips a byte as bad storage does: the times stay."""
        path = self.path(name)
        times = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 0xFF]))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def reports(self, name="report"):
        with open(self.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class Held(Layer):
    """A program that stops in its midst, so that something can happen to its file."""
    SMALL = {"block_size": "4K", "stripe": "4K"}

    def start(self, action, **options):
        """A client that holds in the middle: between(1) is when it does."""
        options = {"ranks": 2, **self.SMALL, **options}
        self._result = []
        self._running = threading.Thread(
            target=lambda: self._result.append(self.run_program([CLIENT, action, "f"], **options)))
        self._running.start()
        self.addCleanup(self._running.join)

    @contextlib.contextmanager
    def between(self, number):
        while not self.has(f"STEP.{number}"):
            self.assertTrue(self._running.is_alive() or self.has(f"STEP.{number}"), self._result)
            time.sleep(0.01)
        try:
            yield
        finally:
            with open(self.path(f"GO.{number}"), "w", encoding="utf-8"):
                pass

    def finish(self):
        self._running.join()
        return self._result[0]
