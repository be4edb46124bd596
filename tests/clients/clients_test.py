"""The libraries that people reach MPI-IO through, with and without the interposition layer.

Each class runs one program of this folder in all its modes, through the whole life of a file: written bare and under
the layer, the same bit for bit; found intact, also while the program stands right after a flush; damaged, found
damaged, repaired, the same bit for bit again; then opened by a second run that changes it, and all of that once more.

  clients_test.py [--json FILE] [CLASS...]

Exits with 77 if all tests were skipped, because a library is not there or not for this MPI. --json writes {"mpi":
version, "clients": [{"client", "package", "version", "missing"}], "results": [{"client", "mode", "result", "why"}]}.
The environment is that of layered.py; what is built is read from clients/clients.json in the build directory.
"""

import argparse
import collections
import functools
import json
import os
import select
import subprocess
import sys
import threading
import time
import unittest

import mpi_known
from layered import BUILD, PATIENCE, Layer

HERE = os.path.dirname(os.path.abspath(__file__))
# Small units, so that files of a megabyte have several rows.
OPTIONS = {"block_size": "4K", "stripe": "16K", "parity": 2}


@functools.cache
def built():
    """What CMake found out (libraries.cmake)."""
    with open(f"{BUILD}/clients/clients.json", encoding="utf-8") as file:
        return json.load(file)


def with_libraries(command, **more):
    """The command, with the MPI that packaged libraries shall get and with `more` in its environment."""
    return ["env", f"LD_LIBRARY_PATH={built()['library_path']}", *(f"{k}={v}" for k, v in more.items()), *command]


VERSION = """
import ctypes
text, length = ctypes.create_string_buffer(65536), ctypes.c_int()
ctypes.CDLL({library!r}).MPI_Get_library_version(text, ctypes.byref(length))
print(text.value.decode().splitlines()[0].replace("\\t", " "))
"""


@functools.cache
def mpi_version():
    """The build's MPI as it calls itself."""
    command = with_libraries([built()["python"], "-c", VERSION.format(library=built()["mpi_library"])])
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Python:
    """A Python with packages for this build's MPI, or why there is none."""

    def __init__(self, where, variables):
        self.where = where
        self.variables = variables

    def command(self, *arguments):
        return with_libraries([built()["python"], "-B", *arguments], **self.variables)

    @functools.cache
    def examine(self, package):
        """(version of the package, None) if it is for this build's MPI, else (None, why it cannot be used)"""
        done = subprocess.run(self.command("-c", PYTHON_VERSIONS[package]), capture_output=True, text=True,
                              timeout=PATIENCE)
        version, _, mpi = done.stdout.strip().partition("\n")
        if done.returncode != 0 or not mpi:
            return None, f"{self.where}: {done.stderr.strip().rpartition(chr(10))[2]}"
        if mpi.strip() != mpi_version():
            return None, f"{self.where}: for {mpi.strip()}"
        return version, None


# Prints the version of the package and of the MPI that it has got.
PYTHON_VERSIONS = {
    "mpi4py": "import mpi4py, mpi4py.MPI as M; print(mpi4py.__version__); "
              "print(M.Get_library_version().splitlines()[0].rstrip('\\0').replace('\\t', ' '))",
    "h5py": "import mpi4py.MPI as M, h5py; assert h5py.get_config().mpi, 'h5py is built without MPI'; "
            "print(f'{h5py.__version__} (HDF5 {h5py.version.hdf5_version})'); "
            "print(M.Get_library_version().splitlines()[0].rstrip('\\0').replace('\\t', ' '))",
}


@functools.cache
def pythons(kind):
    """Where packages of Python may be: as Debian makes them or would for another MPI, or as they are published."""
    wheels = built()["wheels"]
    if kind == "published":
        return [Python("scripts/client-wheels", {"PYTHONPATH": f"{wheels}/published", "MPI4PY_MPIABI": built()["mpi"],
                                                 "MPI4PY_LIBMPI": built()["mpi_library"]})]
    return [Python("Debian", {"H5PY_ALWAYS_USE_MPI": 1}),
            Python("scripts/client-wheels --build", {"PYTHONPATH": f"{wheels}/built-{built()['mpi']}"})]


@functools.cache
def python_with(package, kind):
    """(Python, version of the package), or (None, why there is none)."""
    reasons = []
    for python in pythons(kind):
        version, reason = python.examine(package)
        if version:
            return python, version
        reasons.append(reason)
    return None, "; ".join(reasons)


class Client(Layer):
    """One program. CLIENT is its name in clients.json, or its Python file; PAUSES, whether it knows --pause."""
    CLIENT = ""
    PACKAGE = ""
    PAUSES = False
    NO_FLUSH = []  # modes in which the first run does not stop
    KIND = "packaged"  # of Python packages

    @classmethod
    def resolve(cls):
        """(command, version of what it is a client of or None, why it is not there or None)"""
        if cls.CLIENT.endswith(".py"):
            python, version = python_with(cls.PACKAGE, cls.KIND)
            if not python:
                return None, None, version
            return python.command(f"{HERE}/{cls.CLIENT}"), version, None
        entry = built()["clients"][cls.CLIENT]
        if entry["missing"]:
            return None, None, entry["missing"]
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", cls.PACKAGE.format(mpi=built()["mpi"])],
                              capture_output=True, text=True)
        return with_libraries([entry["program"]]), done.stdout.strip() or "unpackaged", None

    @classmethod
    def setUpClass(cls):
        cls.command, _, missing = cls.resolve()
        if missing:
            raise unittest.SkipTest(missing)

    def run_client(self, mode, name, *options, layer=True):
        done = self.run_program([*self.command, mode, name, *options], layer=layer, **OPTIONS)
        if not layer:
            mpi_known.leave_out_if_known(self, f"{type(self).__name__} {mode}", done)
        self.assertEqual(done.returncode, 0, f"{mode} {' '.join(options)}{'' if layer else ' bare'}: {done.stderr}")
        self.assertNotIn("lzy:", done.stderr)

    def run_paused(self, mode, name, *options):
        """The same under the layer; while it stands after its flush, the file must be committed."""
        prefix = self.path("pause")
        for suffix in [".at", ".go"]:
            os.mkfifo(prefix + suffix)
        failures = []

        def run():
            try:
                self.run_client(mode, name, *options, "--pause", prefix)
            except BaseException as failure:  # to be raised where it is seen
                failures.append(failure)

        # Opened for both directions: opening and writing then wait for nobody, should the program have failed.
        at, go = (os.open(prefix + suffix, os.O_RDWR) for suffix in [".at", ".go"])
        try:
            program = threading.Thread(target=run)
            program.start()
            end = time.monotonic() + PATIENCE
            while program.is_alive() and time.monotonic() < end and not select.select([at], [], [], 0.1)[0]:
                pass
            reached = program.is_alive()
            found = self.verify(name) if reached else None
            os.write(go, b".")
            program.join()
        finally:
            os.close(at)
            os.close(go)
        for suffix in [".at", ".go"]:
            os.remove(prefix + suffix)
        if failures:
            raise failures[0]
        self.assertTrue(reached, "it did not come to its flush")
        self.assertEqual(found, 0, "not intact after the flush")

    def tool(self, tool, *arguments):
        done = subprocess.run([f"{BUILD}/bin/{tool}", "--quiet", *arguments], cwd=self.dir, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def intact(self):
        self.assertEqual(self.content("with"), self.content("bare"))
        self.assertEqual(self.verify("with"), 0)

    def damage_and_repair(self):
        size = len(self.content("with"))
        for offset, tool in [(10, ["lzy-verify", "--repair"]), (size // 3, ["lzy-restore"]),
                             (size - 1, ["lzy-verify", "--repair"])]:
            self.damage("with", offset)
            self.assertNotEqual(self.content("with"), self.content("bare"))
            self.assertEqual(self.verify("with"), 1)
            self.tool(*tool, "with")
            self.intact()

    def life(self, mode):
        for again in [[], ["--again"]]:
            self.run_client(mode, "bare", *again, layer=False)
            if self.PAUSES and (again or mode not in self.NO_FLUSH):
                self.run_paused(mode, "with", *again)
            else:
                self.run_client(mode, "with", *again)
            self.assertEqual(self.files(), [".LZY.with", "bare", "with"])
            self.intact()
            self.damage_and_repair()
            self.run_client(mode, "with", *again, "--check")
            self.intact()


def modes(*names):
    """Gives a class a test for each mode, and one that there are no others."""

    def add(cls):
        for name in names:
            setattr(cls, f"test_{name}", lambda self, name=name: self.life(name))

        def list_them(self):
            done = self.run_program([*self.command, "--list"], ranks=1, layer=False)
            self.assertEqual(done.stdout.split(), list(names), done.stderr)

        cls.test_all_modes_are_known = list_them
        return cls

    return add


@modes("contiguous_collective", "contiguous_independent", "chunked_collective", "chunked_independent", "deflate",
       "extend")
class Hdf5(Client):
    CLIENT, PACKAGE, PAUSES = "hdf5_client", "libhdf5-{mpi}-dev", True


@modes("contiguous", "independent", "chunked", "deflate", "records")
class Netcdf(Client):
    CLIENT, PACKAGE, PAUSES = "netcdf_client", "libnetcdf-mpi-dev", True


@modes("blocking", "independent", "nonblocking", "records", "redefine")
class Pnetcdf(Client):
    CLIENT, PACKAGE, PAUSES = "pnetcdf_client", "libpnetcdf-dev", True


@modes("save", "save_partitioned")
class P4est(Client):
    CLIENT, PACKAGE = "p4est_client", "libp4est-dev"


@modes("collective", "independent", "ordered")
class FortranMpifH(Client):
    CLIENT, PACKAGE = "fortran_mpif_h", "gfortran"


@modes("collective", "independent", "ordered")
class FortranMpi(Client):
    CLIENT, PACKAGE = "fortran_mpi", "gfortran"


@modes("collective", "independent", "ordered")
class FortranMpiF08(Client):
    CLIENT, PACKAGE = "fortran_mpi_f08", "gfortran"


@modes("write_at_all", "write_at", "iwrite_at", "view", "split", "iwrite_all", "ordered", "shared")
class Mpi4py(Client):
    CLIENT, PACKAGE, PAUSES = "mpi4py_client.py", "mpi4py", True
    NO_FLUSH = ["view", "split", "iwrite_all"]


class Mpi4pyPublished(Mpi4py):
    """mpi4py 4, which makes its types by the calls with large counts."""
    KIND = "published"


@modes("contiguous", "chunked", "deflate", "resize")
class H5py(Client):
    CLIENT, PACKAGE, PAUSES = "h5py_client.py", "h5py", True


class Mpi4pyOwnTests(Layer):
    """mpi4py's own tests of files: the same tests pass, fail and are skipped with and without the layer."""
    PACKAGE = "mpi4py"
    KIND = "packaged"

    @classmethod
    def resolve(cls):
        python, version = python_with("mpi4py", cls.KIND)
        if not python:
            return None, None, version
        suite = f"{built()['wheels']}/mpi4py-{version}/test"
        if not os.path.isdir(suite):
            return None, None, f"no mpi4py-{version} sources in {built()['wheels']} (scripts/client-wheels)"
        return python.command(f"{HERE}/unittest_results.py", suite), version, None

    @classmethod
    def setUpClass(cls):
        cls.command, _, missing = cls.resolve()
        if missing:
            raise unittest.SkipTest(missing)

    def results(self, out, ranks, layer):
        """For each rank, {test: passed, failed or skipped}."""
        done = self.run_program([*self.command, out, "test_io"], ranks=ranks, layer=layer)
        if not layer:
            mpi_known.leave_out_if_known(self, type(self).__name__, done)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("lzy:", done.stderr)
        return [json.loads(self.content(f"{out}.{rank}")) for rank in range(ranks)]

    def compare(self, ranks):
        bare = self.results("bare", ranks, layer=False)
        self.assertGreater(collections.Counter(bare[0].values())["passed"], 20)
        self.assertEqual(self.results("with", ranks, layer=True), bare)

    def test_1_rank(self):
        self.compare(1)

    def test_2_ranks(self):
        self.compare(2)


class Mpi4pyPublishedOwnTests(Mpi4pyOwnTests):
    KIND = "published"


CLIENTS = [Hdf5, Netcdf, Pnetcdf, P4est, FortranMpifH, FortranMpi, FortranMpiF08, Mpi4py, Mpi4pyPublished, H5py,
           Mpi4pyOwnTests, Mpi4pyPublishedOwnTests]


class Recorder(unittest.TextTestResult):
    """Notes what came of each test."""

    def startTestRun(self):
        super().startTestRun()
        self.notes = []

    def note(self, test, result, why=""):
        self.notes.append({"client": type(test).__name__, "mode": test.id().rpartition(".test_")[2], "result": result,
                           "why": why})

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", str(err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if hasattr(test, "life") or hasattr(test, "compare"):
            self.note(test, "not available", reason)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("classes", metavar="CLASS", nargs="*", help=f"of {', '.join(c.__name__ for c in CLIENTS)}")
    arguments = parser.parse_args()
    known = {cls.__name__: cls for cls in CLIENTS}
    for name in arguments.classes:
        if name not in known:
            parser.error(f"{name}: there are {', '.join(known)}")
    chosen = [known[name] for name in arguments.classes] or CLIENTS
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(unittest.TestSuite(map(load, chosen)))
    if arguments.json:
        about = [{"client": cls.__name__, "package": cls.PACKAGE.format(mpi=built()["mpi"]), "version": version or "",
                  "missing": missing or ""} for cls in chosen for _, version, missing in [cls.resolve()]]
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"mpi": mpi_version(), "clients": about, "results": result.notes}, file, indent=1)
    if not result.wasSuccessful():
        return 1
    return 77 if result.testsRun == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
