"""What MPI libraries get wrong by themselves, without lzy: the one list of what tests leave out, and why.

A test first runs its program without the layer. Where that fails and the list knows it, the case is left out, and its
reason is in the results of scripts/test-mpi; where that fails and the list does not know it, the test fails; where it
passes, everything is tested, whatever the list says.
"""

import functools
import os
import re
import subprocess
import typing

BUILD = os.environ.get("HOOKS_TEST_BUILD", "build")


class Known(typing.NamedTuple):
    mpi: str  # a regular expression for what tests/mpi_version says of it
    case: str
    reason: str


KNOWN = [
    Known(r"ABI of MPI-5", "MPI_File_close(MPI_FILE_NULL)",
          "MPICH 5.0 and Intel MPI 2021.18 end in a segmentation fault there instead of refusing it, in libmpi_abi.so only"),
    *(Known(r"Open MPI .*ROMIO", f"MPI_File_{call}{view}",
            "ROMIO in Open MPI 4.1 and 5.0 ends in a segmentation fault there (compare open-mpi/ompi pull 4520)")
      for call in ["iwrite_all", "iwrite_at_all"] for view in ["", " through a view"]),
    *(Known(r"Open MPI .*ROMIO", case, "ROMIO in Open MPI 4.1 and 5.0 ends in a segmentation fault in MPI_File_iwrite_all")
      for case in ["Mpi4py iwrite_all", "Mpi4pyPublished iwrite_all", "Mpi4pyOwnTests", "Mpi4pyPublishedOwnTests"]),
    *(Known(r"MPICH Version: 4\.0", f"Mpi4pyPublished {mode}",
            "ROMIO of MPICH 4.0 cannot read types made with large counts: it asks for their envelope by the call with "
            "small ones, and goes on with what that has not set")
      for mode in ["view", "split", "iwrite_all"]),
    *(Known(r"Open MPI", f"MPI_File_{call} that fails", "Open MPI ends in a segmentation fault in MPI_Wait then")
      for call in ["iwrite_at", "iwrite_at_all"]),
]
# Not in the list, since tests can do without: Open MPI 4.1 cannot open a file whose whole name is one letter, "f" but not
# "./f" (open-mpi/ompi issue 12619).


@functools.cache
def mpi():
    """What MPI the tests run with, in one line."""
    return subprocess.run([f"{BUILD}/tests/mpi_version"], check=True, capture_output=True, text=True).stdout.strip()


def leave_out_if_known(test, case, bare):
    """`bare` is the finished program without the layer. Returns when it did what it should."""
    if bare.returncode == 0:
        return
    name = mpi()
    for known in KNOWN:
        if known.case == case and re.search(known.mpi, name):
            test.skipTest(f"{case}: {known.reason}")
    test.fail(f"{case} fails without the layer, which is not known of {name}: {bare.stderr}")
