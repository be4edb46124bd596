"""What tests of golden sidecars share: where these are, and where each has to be."""
import contextlib
import fcntl
import os
import shutil

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
SECRET = FOLDER + ".secret"  # of the sealed ones
MTIME = 1767323045 * 10**9   # of the data files at their commits; version control does not keep it

# A sidecar with device directories has their absolute paths, so it can be read at one place only.
PARTS = "/tmp/lzy-golden-parts"


@contextlib.contextmanager
def place_of_parts():
    """PARTS, empty, for one test at a time."""
    with open(PARTS + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PARTS, ignore_errors=True)
        os.mkdir(PARTS)
        try:
            yield PARTS
        finally:
            shutil.rmtree(PARTS)
