"""What the command-line tests share: a scratch directory each, running a tool, damaging files without leaving a trace."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

BIN = os.environ["TEST_LZY_BIN"]
LIB = os.environ["TEST_LZY_LIB"]
MPIEXEC = os.environ["TEST_LZY_MPIEXEC"]
VERSION = os.environ["TEST_LZY_VERSION"]
TOOLS = ["lzy-" + tool for tool in os.environ["TEST_LZY_TOOLS"].split()]

STATES = {"intact", "damaged", "unrepairable", "stale", "at-risk", "unprotected", "restored"}
PARTS = {"data", "parity", "metadata"}
CAUSES = {"hash", "unreadable", "missing", "stale", "at-risk", "not-visible", "encoding"}
DATASET_FIELDS = {"path": str, "kind": str, "state": str, "devices": int, "parity": int, "groups": int, "block_size": int,
                  "bytes": int, "sidecar_bytes": int, "root": str, "damage": list}
DAMAGE_FIELDS = {"path": str, "device": int, "part": str, "offset": int, "length": int, "cause": str, "transient": bool,
                 "repaired": bool, "objects": list}


def pattern_bytes(size, seed=1):
    """Bytes that differ from block to block and from seed to seed."""
    import random
    return random.Random(seed).randbytes(size)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="lzy-cli-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        os.environ["XDG_CACHE_HOME"] = self.path(".cache")  # tools with much to read keep there what they measured
        # The catalogue is elsewhere, since tests look at all that is in the scratch directory.
        os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="lzy-state-")
        self.addCleanup(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_tool(self, *words, env=None, ranks=None, cwd=None, preload=True):
        """Runs a tool (words[0]) in the scratch directory; without LZY_* variables but those of `env`."""
        command = [os.path.join(BIN, words[0]), *words[1:]]
        if ranks:
            command = [MPIEXEC, "-n", str(ranks), *command]
        variables = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        variables.update(env or {})
        return subprocess.run(command, cwd=cwd or self.scratch, env=variables, capture_output=True, text=True, timeout=100)

    def check(self, exit_code, *words, **more):
        """Runs a tool, which must end with `exit_code`."""
        done = self.run_tool(*words, **more)
        self.assertEqual(done.returncode, exit_code, f"{words}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        return done

    def report(self, exit_code, *words, **more):
        """The same with --json: checks stdout against the schema of docs/reference/tools.md and returns the document."""
        done = self.check(exit_code, words[0], "--json", *words[1:], **more)
        document = json.loads(done.stdout)  # fails when there is anything else on stdout
        self.check_schema(document)
        self.assertEqual(document["tool"], words[0])
        self.assertEqual(document["exit_code"], exit_code)
        return document

    def check_schema(self, document):
        self.assertEqual(document["schema"], "lzy-report/1")
        self.assertIsInstance(document["seconds"], float)
        self.assertIsInstance(document["datasets"], list)
        for dataset in document["datasets"]:
            for field, kind in DATASET_FIELDS.items():
                self.assertIs(type(dataset[field]), kind, field)
            self.assertIn(dataset["kind"], {"shared", "set"})
            self.assertIn(dataset["state"], STATES)
            self.assertRegex(dataset["root"], r"^[0-9a-f]{32}$")
            for damage in dataset["damage"]:
                for field, kind in DAMAGE_FIELDS.items():
                    self.assertIs(type(damage[field]), kind, field)
                self.assertIn(damage["part"], PARTS)
                self.assertIn(damage["cause"], CAUSES)

    def flip(self, name, offset):
        """Changes the byte at `offset` and puts the file's times back, as rot does."""
        before = os.stat(self.path(name))
        with open(self.path(name), "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 0x40]))
        os.utime(self.path(name), ns=(before.st_atime_ns, before.st_mtime_ns))

    def age(self, name):
        """Sets the file's mtime well before now, so that no commit stamp of it is racy."""
        long_ago = os.stat(self.path(name)).st_mtime_ns - 3600 * 10**9
        os.utime(self.path(name), ns=(long_ago, long_ago))
