"""File sets: protecting all of them, and restoring one member."""

# bench/run has them measured as groups `sets` and `restore`. What lzy does is compared with plain MPI-IO that reads and
# writes as many bytes: nothing that protects or restores can be faster than that on the same machine, so the difference
# is what hashing, arithmetic and messages cost.

import functools
import glob
import itertools
import json
import os

from harness import Result, Sample, Side, clear, remove, run

# Four members, their copies by `rewrite` and their sidecars must fit into memory together.
SIZE = 256  # MiB a member
# A mirror, XOR of three members and a parity, and the least Reed-Solomon code: the three ways in which lzy encodes.
KINDS = ((2, 1), (4, 1), (4, 2))  # ranks, m


def make(bench, ranks, path):
    run(bench.mpiexec(ranks, bench.program("bench_writer"), "set", path, bench.size(SIZE)))
    return f"{path}.%r"


def label(ranks, m):
    return f"{ranks} ranks, {'XOR' if m == 1 else 'RS'}, m = {m}"


def alone(ranks, m):
    return f"{label(ranks, m)}: the call alone"


def least(ranks, m):
    return f"{label(ranks, m)}: reading, and writing as much"


def measure(command, *patterns, own_clock=False):
    """Runs it after removing what it writes: what matches. own_clock: it prints the seconds of its own work."""
    # What is there would be written again in its old pages, and lzy-protect would find its own sidecars.
    remove(*itertools.chain.from_iterable(map(glob.glob, patterns)))
    found = run(command)
    found.inside = json.loads(found.output)["seconds"] if own_clock else None
    return found


def protect(bench):
    """Of each kind: lzy-protect as a whole process, the call alone, which starts no MPI, and reading the data once and
    writing as many bytes as there is parity, which nothing that protects can do without."""
    clear(bench.tmpfs)
    size = bench.size(SIZE)
    whole, calls = {}, {}
    for ranks, m in KINDS:
        path = f"{bench.tmpfs}/{ranks}-{m}"
        command = bench.mpiexec(ranks, bench.tool("lzy-protect"), "--quiet", "--parity", m, make(bench, ranks, path))
        plain = bench.mpiexec(ranks, bench.program("bench_writer"), "rewrite", path, size, "--also", size * m // (ranks - m))
        whole[label(ranks, m)] = (command, size * ranks, functools.partial(
            measure, command, f"{bench.tmpfs}/.LZY.{ranks}-{m}.*"))
        whole[least(ranks, m)] = (plain, size * ranks, lambda plain=plain, path=path: Sample(
            measure(plain, f"{path}.also.*", own_clock=True).inside))
    result = bench.alternate(Result("set-protect", "File sets protected"), whole)
    # All that was protected last is intact; then the space is needed.
    run([bench.tool("lzy-verify"), "--quiet", *(f"{bench.tmpfs}/{ranks}-{m}.%r" for ranks, m in KINDS)])
    clear(bench.tmpfs)
    # The call alone cannot take turns with the others, since the program has its own rounds. Its first one is not
    # counted either.
    for ranks, m in KINDS:
        command = bench.mpiexec(ranks, bench.program("bench_checkpoint"), "--set", "--size", size, "--parity", m,
                                "--repeat", bench.repeat, "--json", "--directory", bench.tmpfs)
        times = json.loads(run(command).output)["seconds"]["protect"]["all"]
        calls[alone(ranks, m)] = Side(bench.shown(command), size * ranks, [Sample(t) for t in times])
    result.sides.update(calls)
    return [result]


def restore(bench):
    """The last of four members and its sidecar are lost. Measured against plain MPI-IO: reading the others, writing it."""
    clear(bench.tmpfs)
    pattern = make(bench, 4, f"{bench.tmpfs}/state")
    size = bench.size(SIZE)
    run(bench.mpiexec(4, bench.tool("lzy-protect"), "--quiet", pattern))
    # Links, so that both sides read the same pages, and the side without lzy writes a file of its own.
    for rank in range(3):
        os.symlink(f"state.{rank}", f"{bench.tmpfs}/plain.{rank}")
    command = bench.mpiexec(4, bench.tool("lzy-restore"), "--json", pattern)
    plain = bench.mpiexec(4, bench.program("bench_writer"), "survivors", f"{bench.tmpfs}/plain", size)
    result = bench.alternate(Result("set-restore", "One of four members restored", "seconds"), {
        "reading and writing": (plain, size, lambda: measure(plain, f"{bench.tmpfs}/plain.3", own_clock=True)),
        "lzy-restore": (command, size, lambda: measure(command, f"{bench.tmpfs}/state.3", f"{bench.tmpfs}/.LZY.state.3",
                                                       own_clock=True))})
    run([bench.tool("lzy-verify"), "--quiet", pattern])
    clear(bench.tmpfs)
    return [result]
