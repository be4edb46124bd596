"""Faults of MPI libraries themselves, without lzy: the one list of what tests leave out, and why.

A test first runs its program without the layer. If that passes, the test tests everything, whatever the list says. If it fails and
the list has the case, the test leaves the case out, and scripts/test-mpi shows the reason. If it fails and the list does not have
the case, the test fails.
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
          "libmpi_abi.so of MPICH 5.0 and of Intel MPI 2021.18 crashes instead of refusing this (segmentation fault)"),
    *(Known(r"Open MPI .*ROMIO", f"MPI_File_{call}{view}",
            "this call crashes in the ROMIO of Open MPI 4.1 and 5.0 (segmentation fault; see open-mpi/ompi pull 4520)")
      for call in ["iwrite_all", "iwrite_at_all"] for view in ["", " through a view"]),
    *(Known(r"Open MPI .*ROMIO", case, "MPI_File_iwrite_all crashes in the ROMIO of Open MPI 4.1 and 5.0 (segmentation fault)")
      for case in ["Mpi4py iwrite_all", "Mpi4pyPublished iwrite_all", "Mpi4pyOwnTests", "Mpi4pyPublishedOwnTests"]),
    *(Known(r"MPICH Version: 4\.0", f"Mpi4pyPublished {mode}",
            "the ROMIO of MPICH 4.0 cannot read types made with large counts: it asks for their envelope with the small-count "
            "call, and then uses what that call did not set")
      for mode in ["view", "split", "iwrite_all"]),
    *(Known(r"Open MPI", f"MPI_File_{call} that fails", "Open MPI then crashes in MPI_Wait (segmentation fault)")
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
