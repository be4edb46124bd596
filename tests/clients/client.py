"""What the Python programs here have in common; client.h says how they are called."""

import argparse
import os
import sys
import traceback

import numpy

_asked = None


def start(comm, modes):
    """Reads the command line: .mode .file .again .check .pause. Collective."""
    global _asked
    if sys.argv[1:] == ["--list"]:
        if comm.rank == 0:
            print("\n".join(modes))
        sys.exit(0)
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=modes)
    parser.add_argument("file")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pause", metavar="PREFIX")
    _asked = parser.parse_args()
    return _asked


def pause_here(comm):
    """Collective: the place where --pause stops. Does nothing without it."""
    if not _asked.pause:
        return
    comm.Barrier()
    if comm.rank == 0:
        with open(_asked.pause + ".at", "wb") as at:
            at.write(b".")
        with open(_asked.pause + ".go", "rb") as go:
            assert go.read(1), "nobody let us go on"
    comm.Barrier()


def values(seed, first, count):
    """`count` numbers of `seed`, from place `first` on; no two places should be alike by chance."""
    x = numpy.arange(first, first + count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    x += numpy.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    x ^= x >> numpy.uint64(29)
    x *= numpy.uint64(0xBF58476D1CE4E5B9)
    return (x >> numpy.uint64(32)).astype(numpy.uint32).view(numpy.int32)


def joined(arrays):
    return numpy.concatenate(arrays)


def zeros(count):
    return numpy.zeros(count, dtype=numpy.int32)


def expect(what, found, expected):
    if not numpy.array_equal(found, expected):
        wrong = int(numpy.argmax(numpy.ravel(found != expected)))
        raise AssertionError(f"{what}: [{wrong}] is {numpy.ravel(found)[wrong]}, not {numpy.ravel(expected)[wrong]}")


def run(main):
    """An exception on one rank ends all of them, or the others would wait for ever."""
    try:
        main()
    except Exception:  # whatever it is, it is printed and ends the program
        traceback.print_exc()
        sys.stderr.flush()
        from mpi4py import MPI
        MPI.COMM_WORLD.Abort(1)
        os._exit(1)
