"""What the scripts of bench/ share: their options, running programs, what came of them, taking turns, tables."""

# How they measure:
# - What is compared takes turns. The machine changes from minute to minute, more than many differences that are looked
#   for; within a round it changes little, and it meets all sides alike.
# - What counts is the median. A mean would be that of the one round in which something else ran.
# - A program that fails, or says something that it should not, ends the script. Its time would be that of something
#   else.

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import json
import math
import mmap
import os
import re
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
PAGE = mmap.PAGESIZE
BALLAST = 128 << 10  # one page of so many bytes stays in use
# From Linux's headers; Python does not have them.
FALLOC_PUNCH_HOLE = 0x02 | 0x01  # and keep the size
MADV_POPULATE_WRITE = 23
MOST_SECONDS = 900  # of one program, so that one that hangs does not take the night


class Failed(Exception):
    """A program did not do what was asked of it: its times mean nothing."""


@dataclasses.dataclass
class Sample:
    """One run. `inside`: seconds that the program measured of its own work; `resident`: KiB of its largest process."""
    seconds: float
    # None: the program does not measure it, which is something else than 0.
    inside: float = None
    resident: int = 0
    reread: int = None
    captured: int = None
    output = errors = ""  # what it printed; no field, so that no results have it
    code = 0  # with which it ended; likewise


@dataclasses.dataclass
class Side:
    """One of the programs compared, with a sample for each round that counts; `bytes` of data that it dealt with."""
    command: str = ""
    bytes: int = 0
    samples: list = dataclasses.field(default_factory=list)

    # Not all programs measure all: what a field has no value for in a run is left out.
    def values(self, field="seconds"):
        return [value for sample in self.samples if (value := getattr(sample, field)) is not None]

    def median(self, field="seconds"):
        return statistics.median(self.values(field))

    def gigabytes_per_second(self, field="seconds"):
        # Of decimal gigabytes, as storage is sold and measured; sizes of files are in binary units.
        return self.bytes / 1e9 / self.median(field)


@dataclasses.dataclass
class Result:
    """One comparison: of sides by their labels; and why those that could not be had are not among them."""
    name: str
    title: str
    plot: str = "speed"  # or "seconds": what its plot shows, where it is not the layer's ratios
    sides: dict = dataclasses.field(default_factory=dict)
    absent: dict = dataclasses.field(default_factory=dict)

    def ratio(self, label, other, field="seconds", of=statistics.median):
        """`label` divided by `other`; None where one of them was not to be had."""
        if label not in self.sides or other not in self.sides:
            return None
        return of(self.sides[label].values(field)) / of(self.sides[other].values(field))


def environment(settings):
    """The user's own LZY_ variables and preloads are not what is measured; root may start Open MPI's programs."""
    # LC_ALL: what programs print is read by scripts, and a language of the user's would change it.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LZY_") and k != "LD_PRELOAD"}
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LC_ALL": "C", **settings}


def end(process):
    """All that it started: a launcher ends its ranks when it is asked to, and is given the time."""
    # A launcher that is killed at once leaves its ranks, which poll and would take the processors for ever.
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def own_memory(resident):
    """What a program needed, in KiB, or 0 if that is not known: Linux counts the memory of this script, which started the program,
    as the program's, and this script has had gigabytes in memory_at_hand()."""
    return resident if resident > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss else 0


def run(command, discard=False, codes=(0,), cwd=None, **settings):
    """Runs it to its end, and takes time and memory. discard: its output goes to /dev/null itself, as a user's would.
    codes: exit codes that are no failure; None: all. settings: more environment variables."""
    command = [str(word) for word in command]
    # Files, not pipes: nobody has to read while the program runs, so this script takes no time from it.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        # A session of its own, so that a launcher and its ranks can be ended together.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if discard else output,
                                   stderr=errors, env=environment(settings), cwd=cwd, start_new_session=True)
        timer = threading.Timer(MOST_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            # wait4, because it tells the memory of this process and of those that it waited for, and of no others.
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            # Popen does not know that somebody else waited for its process.
            process.returncode = os.waitstatus_to_exitcode(status)
        # Also when this script is interrupted: what it started must not go on and disturb the next measurement.
        except BaseException:
            end(process)
            raise
        finally:
            timer.cancel()
        for file in (output, errors):
            file.seek(0)
        done = Sample(seconds, resident=own_memory(usage.ru_maxrss))
        done.output, done.errors = (file.read().decode(errors="replace") for file in (output, errors))
        # The last lines: launchers say a lot about the end of a rank, and the reason mostly comes last.
        done.code = process.returncode
        if codes is not None and process.returncode not in codes:
            said = (done.errors or done.output).strip().splitlines()[-5:]
            raise Failed(f"{shlex.join(command)}: exit code {process.returncode}: " + "\n".join(said))
        return done


def client(build, program, *words, layer=None):
    """Runs BUILD/bench/`program`: bare, or preloaded with the layer and its options `layer`. Returns what it measured,
    {name: number}: the medians of the lines "NAME NUMBER" that it printed, and "process", its own seconds as a whole."""
    settings = {}
    if layer is not None:
        settings = {f"LZY_{name.upper()}": value for name, value in layer.items()}
        settings["LD_PRELOAD"] = f"{build}/lib/liblzy_mpiio.so"
    done = run([f"{build}/bench/{program}", *words], **settings)
    # A layer that says something did not do what is measured, or more than that.
    if done.errors:
        raise Failed(f"{program}: unexpected: {done.errors}")
    found = collections.defaultdict(list)
    for name, value in map(str.split, done.output.splitlines()):
        found[name].append(float(value))
    return {"process": done.seconds, **{name: statistics.median(values) for name, values in found.items()}}


def turns(rounds, measure, *variants):
    """A list for each variant: what `measure` returned for it in each round. In a round, the variants take turns."""
    return list(zip(*([measure(variant) for variant in variants] for _ in range(rounds))))


def medians(runs):
    """Of {name: number} of each run: the median of each name."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def table(header, rows):
    """In Markdown."""
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def options(doc, positional, **defaults):
    """The command line of a script: words that it must have, {name: what argparse is told about them}, and options by
    their defaults. False is a switch."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in positional.items():
        parser.add_argument(name, **kind)
    for name, default in defaults.items():
        kind = {"action": "store_true"} if default is False else {"type": type(default)}
        parser.add_argument(f"--{name}", default=default, **kind)
    return parser.parse_args()


def script(main):
    """Runs main(), which returns an exit code, so that scratch files are removed however it ends."""
    # By default the process would end at once, and leave gigabytes in /dev/shm.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


@dataclasses.dataclass
class Bench:
    """What every measurement is given: where programs and scratch directories are, and how often to repeat."""
    build: str
    tmpfs: str
    disk: str
    launcher: str
    repeat: int
    shrink: int = 1  # sizes are divided by it

    def tool(self, name):
        return f"{self.build}/bin/{name}"

    def program(self, name):
        return f"{self.build}/bench/{name}"

    def mpiexec(self, ranks, *command):
        return [self.launcher, "-n", ranks, *command]

    def size(self, mib):
        return mib * MIB // self.shrink

    def shown(self, command):
        """A command as the results page has it: without this machine's paths."""
        # A reader on another machine can type what is left, and two pages of different machines can be compared.
        words = [shlex.quote("mpiexec" if word == self.launcher else str(word)) for word in command]
        for directory, name in ((self.tmpfs, "$TMPFS"), (self.disk, "$DISK"), (self.build, "build")):
            words = [re.sub(re.escape(directory) + "(?=/|$)", name, word) for word in words]
        return " ".join(words)

    def alternate(self, result, sides, repeat=None, patience=math.inf):
        """Runs the sides in turn: label -> (command shown, bytes of data, function that makes a Sample). The first round
        is not counted: it warms up memory and caches. A side whose first run takes longer than `patience` seconds is not
        run again; that run counts then."""
        for label, (command, size, _) in sides.items():
            result.sides[label] = Side(self.shown(command), size)
        for turn in range(1 + (repeat or self.repeat)):
            for label, (_, _, measure) in sides.items():
                side = result.sides[label]
                # One that is a hundred times as slow needs no median, and would take hours.
                if turn > 0 and side.samples and side.samples[0].seconds > patience:
                    continue
                # Kept until now, because the first run is all that there is of one that takes too long.
                if turn == 1:
                    side.samples.clear()
                side.samples.append(measure())
        tell(f"  {result.title}: " + ", ".join(f"{label} {side.median():.3f} s" for label, side in result.sides.items()))
        return result


# On stderr: what goes to stdout is the result, which may be written into a page.
def tell(text):
    print(text, file=sys.stderr, flush=True)


def clear(directory):
    """Removes what is in it, so that each run begins without files."""
    # The directory itself stays, since it may be a scratch directory that somebody else removes.
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def free_memory():
    """Bytes; not more than this cgroup may have."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = int(re.search(r"^MemAvailable:\s*(\d+) kB", file.read(), re.MULTILINE).group(1)) << 10
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
        free = min(free, int(file.read()))
    return free


@contextlib.contextmanager
def memory_at_hand(most):
    """The machine keeps so many bytes of memory for the programs that are measured, or half of what is free. A virtual
    machine gives free memory back to its host, and a page that it has to get again costs several times as much as the
    write that needs it."""
    size = min(most, free_memory() // 2) // BALLAST * BALLAST
    libc = ctypes.CDLL(None, use_errno=True)
    # What is given back are free pieces of 2 MiB. So some pages of each of them stay in use. A file without name, not this
    # process's memory: that would count as memory of the programs that it starts.
    with open(os.memfd_create("ballast"), "r+b", buffering=0) as ballast:
        os.posix_fallocate(ballast.fileno(), 0, size)
        for at in range(0, size, BALLAST):
            if libc.fallocate(ballast.fileno(), FALLOC_PUNCH_HOLE, ctypes.c_long(at + PAGE), ctypes.c_long(BALLAST - PAGE)) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")
        # Now what is free is taken once more, because some of it may have gone already.
        with mmap.mmap(-1, size - size // 16) as memory:
            memory.madvise(MADV_POPULATE_WRITE)
        yield


def remove(*paths):
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


@contextlib.contextmanager
def damaged(path):
    """The open file, to be damaged. Its times stay as they are, else it would be an edit, and not damage."""
    # Read before the damage, set after it: writing changes them, and so does closing on some file systems.
    times = os.stat(path)
    with open(path, "r+b", buffering=0) as file:
        yield file
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def write(directory, files):
    """Files by their names, as text."""
    for name, content in files.items():
        with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
            file.write(content)


def commits(report):
    """What the layer's commits cost, from option report: (bytes re-read, bytes captured)."""
    with open(report, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    # An empty report is not a cheap commit: the layer protected nothing.
    if not lines:
        raise Failed(f"{report}: no commit was made")
    return tuple(sum(line.get(name, 0) for line in lines) for name in ("bytes_reread", "bytes_captured"))
