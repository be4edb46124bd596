"""An installed lzy that was moved, for the tests of this folder. tests/install/CMakeLists.txt sets the variables."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ["INSTALL_TEST_BUILD"]
CMAKE = os.environ["INSTALL_TEST_CMAKE"]
MPIEXEC = os.environ["INSTALL_TEST_MPIEXEC"]
MPICC = os.environ["INSTALL_TEST_MPICC"]
CXX = os.environ["INSTALL_TEST_CXX"]
NM = os.environ["INSTALL_TEST_NM"]
OBJDUMP = os.environ["INSTALL_TEST_OBJDUMP"]
VERSION = os.environ["INSTALL_TEST_VERSION"]
SONAME = os.environ["INSTALL_TEST_SONAME"]
TOOLS = ["lzy-" + tool for tool in os.environ["INSTALL_TEST_TOOLS"].split()]


def plain_environment(**more):
    """Without anything that would help an installed lzy to find its parts, and without the user's own options."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("LZY_", "INSTALL_TEST_")) and name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    return {**environment, **more}


class Prefix(unittest.TestCase):
    """Installs once for all tests of a class. `prefix` is the directory to which the tree was moved."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="lzy-install-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.first = os.path.join(cls.scratch, "first")
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.first], check=True, stdout=subprocess.DEVNULL)
        cls.prefix = os.path.join(cls.scratch, "moved", "to", "another place")
        os.makedirs(os.path.dirname(cls.prefix))
        os.rename(cls.first, cls.prefix)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lzy-install-test-", dir=self.scratch)

    @classmethod
    def installed(cls, suffix):
        """The one installed file whose path ends so."""
        found = [path for path in cls.files() if path.endswith(suffix)]
        if len(found) != 1:
            raise AssertionError(f"{suffix}: {found}")
        return found[0]

    @classmethod
    def files(cls):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(cls.prefix) for name in names)

    def run_it(self, code, *words, cwd=None, **more):
        """Runs a program, which must end with `code`. Returns what it printed on stdout."""
        done = subprocess.run(words, cwd=cwd or self.dir, env=plain_environment(**more), capture_output=True, text=True,
                              timeout=200, check=False)
        self.assertEqual(done.returncode, code, f"{words}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        return done.stdout

    def tool(self, code, name, *words, ranks=None, **more):
        launcher = [MPIEXEC, "-n", str(ranks)] if ranks else []
        return self.run_it(code, *launcher, os.path.join(self.prefix, "bin", name), *words, **more)
