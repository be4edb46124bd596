"""File sets: protecting all of them, and restoring one member."""

import json
import os

from harness import Result, Sample, Side, clear, remove, run

SIZE = 256  # MiB a member
KINDS = ((2, 1), (4, 1), (4, 2))  # ranks, m


def make(bench, ranks, name="state"):
    run(bench.mpiexec(ranks, bench.program("bench_writer"), "set", f"{bench.tmpfs}/{name}", bench.size(SIZE)))
    return f"{bench.tmpfs}/{name}.%r"


def label(ranks, m):
    return f"{ranks} ranks, {'XOR' if m == 1 else 'RS'}, m = {m}"


def alone(ranks, m):
    return f"{label(ranks, m)}: the call alone"


def least(ranks, m):
    return f"{label(ranks, m)}: reading, and writing as much"


def protect(bench):
    """Of each kind: lzy-protect as a whole process, the call alone, which starts no MPI, and reading the data once and
    writing as many bytes as there is parity, which nothing that protects can do without."""
    clear(bench.tmpfs)
    whole, calls = {}, {}
    for ranks, m in KINDS:
        name = f"{ranks}-{m}"
        command = bench.mpiexec(ranks, bench.tool("lzy-protect"), "--quiet", "--parity", m, make(bench, ranks, name))

        def measure(command=command, ranks=ranks, name=name):
            remove(*(f"{bench.tmpfs}/.LZY.{name}.{rank}" for rank in range(ranks)))
            return run(command)

        plain = bench.mpiexec(ranks, bench.program("bench_writer"), "rewrite", f"{bench.tmpfs}/{name}", bench.size(SIZE),
                              "--also", bench.size(SIZE) * m // (ranks - m))

        def measure_plain(plain=plain, ranks=ranks, name=name):
            seconds = json.loads(run(plain).output)["seconds"]
            remove(*(f"{bench.tmpfs}/{name}.also.{rank}" for rank in range(ranks)))
            return Sample(seconds)

        whole[label(ranks, m)] = (command, bench.size(SIZE) * ranks, measure)
        whole[least(ranks, m)] = (plain, bench.size(SIZE) * ranks, measure_plain)
    result = bench.alternate(Result("set-protect", "File sets protected"), whole)
    run([bench.tool("lzy-verify"), "--quiet", *(f"{bench.tmpfs}/{ranks}-{m}.%r" for ranks, m in KINDS)])
    clear(bench.tmpfs)
    for ranks, m in KINDS:  # this program has its own rounds, of which the first is not counted either
        command = bench.mpiexec(ranks, bench.program("bench_checkpoint"), "--set", "--size", bench.size(SIZE), "--parity", m,
                                "--repeat", bench.repeat, "--json", "--directory", bench.tmpfs)
        times = json.loads(run(command).output)["seconds"]["protect"]["all"]
        calls[alone(ranks, m)] = Side(bench.shown(command), bench.size(SIZE) * ranks, [Sample(t) for t in times])
    result.sides.update(calls)
    return [result]


def restore(bench):
    """The last of four members and its sidecar are lost. Measured against plain MPI-IO: reading the others, writing it."""
    clear(bench.tmpfs)
    pattern = make(bench, 4)
    size = bench.size(SIZE)
    run(bench.mpiexec(4, bench.tool("lzy-protect"), "--quiet", pattern))
    for rank in range(3):
        os.symlink(f"state.{rank}", f"{bench.tmpfs}/plain.{rank}")

    def measure(command, *lost):
        remove(*(f"{bench.tmpfs}/{name}" for name in lost))
        found = run(command)
        found.inside = json.loads(found.output)["seconds"]
        return found

    command = bench.mpiexec(4, bench.tool("lzy-restore"), "--json", pattern)
    plain = bench.mpiexec(4, bench.program("bench_writer"), "survivors", f"{bench.tmpfs}/plain", size)
    result = bench.alternate(Result("set-restore", "One of four members restored", "seconds"), {
        "reading and writing": (plain, size, lambda: measure(plain, "plain.3")),
        "lzy-restore": (command, size, lambda: measure(command, "state.3", ".LZY.state.3"))})
    run([bench.tool("lzy-verify"), "--quiet", pattern])
    clear(bench.tmpfs)
    return [result]
