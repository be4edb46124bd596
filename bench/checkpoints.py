"""Programs that write through MPI-IO, bare and under lzy-run."""

# bench/run has these measured as its first groups. The program is bench_writer, which times itself from the open until
# the close has returned: the start of MPI, which takes longer than many a checkpoint, is not in that time. Whole
# processes are timed besides.

import functools
import json
import os

from harness import MIB, Failed, Result, Sample, clear, commits, remove, run


class Case:
    """One kind of checkpoint; `layer`: lzy-run's options."""

    def __init__(self, bench, directory, pattern="contiguous", ranks=2, size=512, sync=False, layer=(), program="bench_writer"):
        self.bench, self.directory, self.ranks, self.bytes = bench, directory, ranks, bench.size(size)
        # bench_idioms is told the size of the file, bench_writer that of a rank's part.
        told = self.bytes * ranks if program == "bench_idioms" else self.bytes
        self.path, self.report = f"{directory}/state", f"{directory}/report"
        self.data = f"{self.path}.%r" if pattern == "set" else self.path
        chosen = ("--set", self.data) if pattern == "set" else ()
        self.bare = bench.mpiexec(ranks, bench.program(program), pattern, self.path, told,
                                  *(["--sync"] if sync else []))
        # --report: what the layer itself counted, one line of JSON for each commit.
        # The least that protecting it can do (writer.c). The number of devices and parity are those of the layer's options.
        parity = int(dict(zip(layer[::2], layer[1::2])).get("--parity", 1))
        devices = ranks if pattern == "set" else 8
        self.least = [*self.bare, "--sums", parity, "--also", self.bytes * parity // (devices - parity)]
        self.protected = [bench.tool("lzy-run"), *chosen, *layer, "--report", self.report, "--", *self.bare]

    def measure(self, command):
        clear(self.directory)
        if self.directory == self.bench.disk:
            os.sync()  # what earlier runs left to be written is not this one's to wait for
        found = run(command)
        inside = json.loads(found.output)
        # Of the program itself. `run` sees only the launcher, or lzy-run.
        found.inside, found.resident = inside["seconds"], max(inside["resident"])
        if command is self.protected:
            # Bytes that a commit had to read back are what the layer is there to avoid.
            found.reread, found.captured = commits(self.report)
        return found


def compare(bench, name, title, more_rounds=0, disk=False, least=False, **settings):
    case = Case(bench, bench.disk if disk else bench.tmpfs, **settings)
    commands = {"bare": case.bare, "least": case.least, "protected": case.protected}
    sides = {label: (command, case.bytes * case.ranks, functools.partial(case.measure, command))
             for label, command in commands.items() if least or label != "least"}
    result = bench.alternate(Result(name, title), sides, bench.repeat + more_rounds)
    # What the last run left must be intact: a layer that protects nothing would be the cheapest.
    run([bench.tool("lzy-verify"), "--quiet", case.data])
    clear(case.directory)
    return result


def cases(*found):
    """A function that measures these: name, title and settings of each."""
    return lambda bench: [compare(bench, name, title, **settings) for name, title, settings in found]


# Smaller files than elsewhere, since only the differences between the sizes of `option` matter.
def sweep(option, *sizes):
    return cases(*((f"{option} {size}", size, {"size": 128, "layer": (f"--{option}", size)}) for size in sizes))


# A disk has more noise than memory, so it gets more rounds.
CHECKPOINT = cases(("tmpfs", "shared file, tmpfs", {"least": True}),
                   ("disk", "shared file, disk, with sync", {"more_rounds": 2, "disk": True, "sync": True, "least": True}),
                   ("memory", "shared file, tmpfs, --memory 64M", {"layer": ("--memory", "64M")}))
# The ways in which programs open, cut, grow and rewrite a file. What counts is that nothing is read back.
IDIOMS = cases(*((f"idiom {idiom}", idiom, {"pattern": idiom, "program": "bench_idioms", "size": 128})
                 for idiom in ("plain", "cut-to-zero", "final-size", "grow", "shrink", "preallocate", "sync", "header-last",
                               "random", "small", "backwards")))
# With one rank, the other core is free for the layer's threads: what it costs a job that does not use all cores.
PATTERNS = cases(*((f"pattern {pattern}", pattern.replace("-", ", "), {"pattern": pattern, "least": True})
                   for pattern in ("strided-collective", "strided-independent", "strided-odd")),
                 ("spare core", "contiguous, one rank, a core to spare", {"ranks": 1}))
PARITIES = cases(*((f"shared m={m}", f"shared file, m = {m}", {"layer": ("--parity", m), "least": True}) for m in (0, 2)),
                 *((f"set {ranks} m={m}", f"file set of {ranks}, m = {m}",
                    {"pattern": "set", "ranks": ranks, "size": 256, "layer": ("--parity", m), "least": True})
                   for ranks, m in ((2, 0), (2, 1), (4, 1), (4, 2))))


def hdf5(bench):
    """Also says why, if it cannot be measured: bench_writer may be built without HDF5."""
    try:
        run(bench.mpiexec(1, bench.program("bench_writer"), "hdf5", f"{bench.tmpfs}/state", MIB))
    except Failed as error:
        return [Result("pattern hdf5", "HDF5", absent={"protected": str(error).splitlines()[-1]})]
    return [compare(bench, "pattern hdf5", "HDF5, one dataset, collective", pattern="hdf5", least=True)]


def touches(bench):
    """1 % of a protected file changed, against protecting all of it. What counts is the sync and close alone.
    The same with one block says what a commit costs whatever it commits."""
    size = bench.size(1024)
    # Only the times of sync and close are used: what the layer does while the program writes is little here.
    cases = {kind: Case(bench, bench.tmpfs, f"touch-{kind}", size=1024, sync=True) for kind in ("block", "contiguous", "scattered")}
    path = cases["contiguous"].path
    protect = [bench.tool("lzy-protect"), "--quiet", "--threads", "2", path]

    # The sidecar is removed before a full protection only, so each touch finds the file protected.
    def full():
        remove(f"{bench.tmpfs}/.LZY.state")
        return run(protect)

    def touch(case):
        remove(case.report)
        done = run(case.protected)
        inside = json.loads(done.output)
        return Sample(inside["commit"], None, max(inside["resident"]), *commits(case.report))

    clear(bench.tmpfs)
    run(bench.mpiexec(1, bench.program("bench_writer"), "contiguous", path, size))
    sides = {"full": (protect, size, full)}
    for kind, case in cases.items():
        sides[kind] = (case.protected, 64 << 10 if kind == "block" else size // 100, lambda case=case: touch(case))
    result = bench.alternate(Result("touch", "1 % of 1 GiB touched, then sync and close", "seconds"), sides)
    run([bench.tool("lzy-verify"), "--quiet", path])
    clear(bench.tmpfs)
    return [result]
