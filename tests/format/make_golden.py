#!/usr/bin/python3 -B
"""Makes golden sidecars: make_golden.py BUILD FOLDER [NAME...]. FOLDER is not tests/format/golden: what is there is never
made again. This script shows how it was made, and makes the folders of a new form or version.

BUILD is a build directory. Each NAME becomes a folder of FOLDER (default: all that this script knows).
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from golden import MTIME, SECRET, place_of_parts

SETTINGS = {"LZY_CATALOG": "off", "LZY_DOMAIN": "golden"}


class Maker:
    def __init__(self, build, folder):
        self.build, self.folder = os.path.abspath(build), os.path.abspath(folder)
        os.makedirs(self.folder)
        # Beside the folder, because version control does not keep that others may not read a secret.
        self.secret = shutil.copy(SECRET, self.folder + ".secret")
        os.chmod(self.secret, 0o600)

    def done(self):
        os.remove(self.secret)

    def write(self, name, size, seed=1):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(random.Random(seed).randbytes(size))
        os.utime(path, ns=(MTIME, MTIME))

    def tool(self, *words):
        # In the folder, so that no path of this machine is recorded. The environment's options are not wanted.
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        command = [os.path.join(self.build, "bin", words[0]), *map(str, words[1:])]
        subprocess.run(command, cwd=self.folder, env={**kept, **SETTINGS}, check=True, stdout=subprocess.DEVNULL)


def ordinary_automatic(make):
    make.write("rows", 70000)
    make.tool("lzy-protect", "--stripe", "64K", "rows")


def ordinary_parity(make):
    """Three lost devices of five, in two groups."""
    make.write("rows", 70000)
    make.tool("lzy-protect", "--parity", 3, "--group", 5, "--block-size", 1024, "--stripe", 2048, "rows")


def compact_parity(make):
    make.write("five", 5)
    make.write("rows", 9000)
    make.tool("lzy-protect", "--parity", 2, "--group", 5, "--block-size", 512, "five", "rows")


def ordinary_groups(make):
    """A set of two groups; its members differ in size, and one is empty."""
    for rank, size in enumerate((66000, 100, 0, 5000, 300, 8192)):
        make.write(f"state.{rank}", size, rank)
    make.tool("lzy-protect", "--parity", 2, "--group", 3, "--block-size", 4096, "state.%r")


def ordinary_updated(make):
    """The second commit was made in place: copies 0 and 1 changed places."""
    make.write("rows", 70000)
    make.tool("lzy-protect", "--block-size", 4096, "--stripe", 4096, "rows")
    path = os.path.join(make.folder, "rows")
    time.sleep(0.1)
    with open(path, "r+b") as file:
        file.seek(30000)
        file.write(b"second commit")
    os.utime(path, ns=(MTIME + 10**9, MTIME + 10**9))
    make.tool("lzy-protect", "rows")


def sealed_shared(make):
    make.write("rows", 70000)
    make.write("five", 5)
    make.tool("lzy-protect", "--key", make.secret, "--stripe", "64K", "rows", "five")


def sealed_set(make):
    for rank, size in enumerate((3000, 100, 700)):
        make.write(f"state.{rank}", size, rank)
    make.tool("lzy-protect", "--key", make.secret, "--block-size", 4096, "state.%r")


def parts(make):
    """Device directories."""
    names = [f"d{d}" for d in range(4)]
    for name in names:
        os.mkdir(os.path.join(make.folder, name))
    make.write("rows", 70000)
    make.tool("lzy-protect", "--device-dirs", ":".join(os.path.join(make.folder, name) for name in names),
              "--block-size", 4096, "--stripe", 4096, "rows")


def copied(make):
    """lzy-copy made these sidecars; one source was damaged, and healed on the way."""
    source = Maker(make.build, make.folder + ".source")
    source.write("rows", 70000)
    source.write("five", 5)
    source.tool("lzy-protect", "--stripe", "64K", "rows", "five")
    path = os.path.join(source.folder, "rows")
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"rot")
    os.utime(path, ns=(MTIME, MTIME))
    source.tool("lzy-copy", "rows", "five", make.folder + "/")
    shutil.rmtree(source.folder)
    source.done()


def interrupted(make):
    """A program wrote a committed file and a new one, and ended before it closed them."""
    make.write("rows", 70000)
    make.tool("lzy-protect", "--block-size", 4096, "--stripe", 4096, "rows")
    with tempfile.TemporaryDirectory() as scratch:
        source, program = os.path.join(scratch, "ends.c"), os.path.join(scratch, "ends")
        with open(source, "w", encoding="ascii") as file:
            file.write(ENDS)
        subprocess.run(["mpicc", "-o", program, source], check=True)
        make.tool("lzy-run", "--", program)


ENDS = r"""
#include <mpi.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* names[] = {"rows", "new"};
  for (int i = 0; i < 2; ++i) {
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, names[i], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 30000, "unfinished", 10, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  _exit(0);
}
"""

KINDS = {"ordinary-automatic": ordinary_automatic, "ordinary-parity": ordinary_parity, "compact-parity": compact_parity,
         "ordinary-groups": ordinary_groups, "ordinary-updated": ordinary_updated, "sealed-shared": sealed_shared,
         "sealed-set": sealed_set, "parts": parts, "copied": copied, "interrupted": interrupted}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, folder, *names = sys.argv[1:]
    for name in names or KINDS:
        made = os.path.join(folder, name)
        with place_of_parts() as at:
            os.rmdir(at)
            make = Maker(build, at if name == "parts" else made)
            KINDS[name](make)
            make.done()
            if name == "parts":
                shutil.copytree(at, made)
            else:
                os.mkdir(at)


if __name__ == "__main__":
    main()
