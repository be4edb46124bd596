"""File sets: protecting all of them, and restoring one member."""

import json
import os

from harness import Result, Sample, clear, run

SIZE = 256  # MiB a member


def make(bench, ranks):
    clear(bench.tmpfs)
    run(bench.mpiexec(ranks, bench.program("bench_writer"), "set", f"{bench.tmpfs}/state", bench.size(SIZE)))
    return f"{bench.tmpfs}/state.%r"


def drop(bench, *names):
    for name in names:
        if os.path.exists(f"{bench.tmpfs}/{name}"):
            os.unlink(f"{bench.tmpfs}/{name}")


def protect(bench):
    """Of each kind: lzy-protect as a whole process, and the call alone, which starts no MPI."""
    results = []
    for ranks, m, code in ((2, 1, "XOR"), (4, 1, "XOR"), (4, 2, "RS")):
        pattern = make(bench, ranks)
        size = bench.size(SIZE) * ranks
        whole = bench.mpiexec(ranks, bench.tool("lzy-protect"), "--quiet", "--parity", m, pattern)
        call = bench.mpiexec(ranks, bench.program("bench_checkpoint"), "--set", "--size", bench.size(SIZE), "--parity", m,
                             "--repeat", bench.repeat, "--json", "--directory", bench.tmpfs)

        def measure(whole=whole, ranks=ranks):
            drop(bench, *(f".LZY.state.{rank}" for rank in range(ranks)))
            done = run(whole)
            return Sample(done.seconds, resident=done.resident)

        result = bench.alternate(Result(f"set-protect {ranks} m={m}", f"file set of {ranks}, {code}, m = {m}"),
                                 {"lzy-protect": (whole, size, measure)})
        run([bench.tool("lzy-verify"), "--quiet", pattern])
        clear(bench.tmpfs)
        result.sides["the call alone"] = side = type(result.sides["lzy-protect"])(bench.shown(call), size)
        side.samples = [Sample(seconds) for seconds in json.loads(run(call).output)["seconds"]["protect"]["all"]]
        results.append(result)
    return results


def restore(bench):
    """The last of four members and its sidecar are lost. Measured against plain MPI-IO: reading the others, writing it."""
    pattern = make(bench, 4)
    size = bench.size(SIZE)
    run(bench.mpiexec(4, bench.tool("lzy-protect"), "--quiet", pattern))
    command = bench.mpiexec(4, bench.tool("lzy-restore"), "--json", pattern)
    plain = bench.mpiexec(4, bench.program("bench_writer"), "survivors", f"{bench.tmpfs}/plain", size)

    def lzy():
        drop(bench, "state.3", ".LZY.state.3")
        done = run(command)
        return Sample(done.seconds, json.loads(done.output)["seconds"], done.resident)

    def floor():
        drop(bench, "plain.3")
        done = run(plain)
        return Sample(done.seconds, json.loads(done.output)["seconds"], done.resident)

    for rank in range(3):
        os.symlink(f"state.{rank}", f"{bench.tmpfs}/plain.{rank}")
    result = bench.alternate(Result("set-restore", "one of four members restored"),
                             {"lzy-restore": (command, size, lzy), "reading and writing": (plain, size, floor)})
    run([bench.tool("lzy-verify"), "--quiet", pattern])
    clear(bench.tmpfs)
    return [result]
