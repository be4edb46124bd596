"""A scratch directory of which the test knows everything: which contents it wrote on purpose, and what happened to them.

A *true* content is one that the test wrote as a program would. Everything else is rot, or a mixture that a tool made.
"""

import ctypes
import hashlib
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile

SECOND = 10**9
# Tools take some ten milliseconds; a hang is an error.
PATIENCE = 60


CLONE_NEWNS = 0x20000


def mount_ext4(size, *options):
    """A fresh ext4 on a file in memory, for this process and its children only; its path, or None if that is not possible here.

    The tools sync often, which takes no time there; and ext4 gives the inodes of deleted files to new ones at once."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not os.path.isdir("/dev/shm"):
        return None
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        return None
    where = tempfile.mkdtemp(prefix="lzy-advice-")
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="lzy-advice-") as image:
        image.truncate(size)
        for command in (["mount", "--make-rprivate", "/"], ["mkfs.ext4", "-q", *options, image.name], ["mount", "-o", "loop", image.name, where]):
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                os.rmdir(where)
                return None
    return where


def hash_of(content):
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def is_sidecar(name):
    """Whether a file is lzy's: a sidecar, a part of parity, a temporary file."""
    return os.path.basename(name).startswith(".LZY")


def superblock_of(sidecar):
    """(uuid, rank, generation, size) of a file that looks like a sidecar (docs/format.md §4), or None."""
    with open(sidecar, "rb") as file:
        page = file.read(120)
    if len(page) < 120 or page[:4] != b"\x89LZY":
        return None
    return page[40:56].hex(), struct.unpack_from("<I", page, 116)[0], struct.unpack_from("<Q", page, 56)[0], os.stat(sidecar).st_size


class Commit:
    """What the test knows of a sidecar: the file that it was made for, its content then, its size and mtime, of the sidecar the size."""

    def __init__(self, path, content, stamp, size, of_set):
        self.path, self.content, self.stamp, self.size, self.of_set = path, content, stamp, size, of_set


class Done:
    """What a command came to."""

    def __init__(self, command, code, text):
        self.command, self.code, self.text = command, code, text

    def __str__(self):
        return f"$ {self.command}\n{self.text}[{self.code}]"


class World:
    """Paths are relative to `home`, where all commands run. What happens is written to `log`, as commands of a shell if possible."""

    def __init__(self, bin_directory, seed=0, parent=None):
        self.bin = os.path.abspath(bin_directory)
        self.random = random.Random(seed)
        self.scratch = tempfile.mkdtemp(prefix="lzy-advice-", dir=parent)
        self.home = os.path.join(self.scratch, "home")
        os.mkdir(self.home)
        self.elsewhere = None
        self.log = []
        self.true = {}       # hash of a true content: who wrote it
        self.committed = {}  # path: hash of its content at its last commit
        self.stamps = {}     # path: size and mtime then
        self.ruined = set()  # those of them that rot has hit
        self.commits = {}    # (uuid, rank, generation) of a sidecar as a commit left it: Commit

    def remove(self):
        for directory in (self.scratch, self.elsewhere):
            if directory:
                shutil.rmtree(directory, ignore_errors=True)

    def other_file_system(self):
        """A directory on another file system, or None."""
        if self.elsewhere is None and os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK):
            if os.stat("/dev/shm").st_dev != os.stat(self.home).st_dev:
                self.elsewhere = tempfile.mkdtemp(prefix="lzy-advice-", dir="/dev/shm")
        return self.elsewhere

    def path(self, name):
        return os.path.join(self.home, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    # What programs do.

    def write(self, name, content, mtime_ns=None):
        """A program writes a file, into the inode that has the name."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)
        if mtime_ns is not None:
            os.utime(self.path(name), ns=(mtime_ns, mtime_ns))
        self.true.setdefault(hash_of(content), f"{name} as written")
        self.log.append(f"write {name}  # {len(content)} bytes, {hash_of(content)}" + ("" if mtime_ns is None else f", mtime {mtime_ns}"))

    def write_random(self, name, size, mtime_ns=None):
        self.write(name, self.random.randbytes(size), mtime_ns)

    # What storage does.

    def flip(self, name, offset, count=1):
        """Rot: bytes change, times do not."""
        before = os.stat(self.path(name))
        if is_sidecar(name) and superblock_of(self.path(name)):
            self.ruined.add(superblock_of(self.path(name))[:3])
        with open(self.path(name), "r+b") as file:
            file.seek(offset)
            old = file.read(count)
            file.seek(offset)
            file.write(bytes(byte ^ 0x40 for byte in old))
        os.utime(self.path(name), ns=(before.st_atime_ns, before.st_mtime_ns))
        self.log.append(f"rot: {count} bytes of {name} at {offset} change, its times do not")

    # What people do.

    def run(self, command, env=None):
        """Runs a line of shell, with the tools first in PATH and without lzy options of the user."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        variables.update({"PATH": self.bin + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8",
                          "LZY_CATALOG": os.path.join(self.scratch, "catalog.sqlite"), "XDG_CACHE_HOME": os.path.join(self.scratch, "cache")})
        variables.update(env or {})
        shell = "bash" if "$'" in command else "sh"
        with subprocess.Popen([shell, "-c", command], cwd=self.home, env=variables, stdin=subprocess.DEVNULL, start_new_session=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                out, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, _ = process.communicate()
                out += b"\nkilled: it hangs\n"
        done = Done(command, process.returncode, out.decode(errors="replace"))
        self.log.append(str(done))
        return done

    def must(self, command):
        done = self.run(command)
        if done.code != 0:
            raise AssertionError(f"{command} ended with {done.code}\n{done.text}\n{self.story()}")
        return done

    def protect(self, words, paths=None):
        """lzy-protect, as the user does it before anything happens. `paths` (all, if None) have committed what they hold."""
        self.must(f"lzy-protect -q {words}")
        self.note_commit({path: content for path, content in self.files().items() if paths is None or path in paths})

    def note_commit(self, paths):
        """These files have just been committed as they are, if they have sidecars of their own."""
        for path, content in paths.items():
            beside = self.path(self.sidecar(path))
            block = superblock_of(beside) if os.path.isfile(beside) else None
            if block is None or os.path.islink(self.path(path)):
                continue
            about = os.stat(self.path(path))
            self.committed[path] = content
            self.stamps[path] = (about.st_size, about.st_mtime_ns)
            self.commits[block[:3]] = Commit(path, content, (about.st_size, about.st_mtime_ns), block[3], self.is_of_set(beside))

    @staticmethod
    def is_of_set(sidecar):
        """The kind in the superblock: 1 for a shared file, 2 for a set."""
        with open(sidecar, "rb") as file:
            return struct.unpack_from("<I", file.read(96), 84)[0] == 2

    # What is there.

    @staticmethod
    def sidecar(path):
        return os.path.join(os.path.dirname(path), ".LZY." + os.path.basename(path))

    @staticmethod
    def file_of(sidecar):
        """The inverse of sidecar()."""
        return os.path.join(os.path.dirname(sidecar), os.path.basename(sidecar)[len(".LZY."):])

    def outside(self):
        """What the file outside of `home` holds to which links may lead."""
        full = os.path.join(self.scratch, "outside")
        if not os.path.exists(full):
            return None
        with open(full, "rb") as file:
            return file.read()

    def walk(self):
        for directory, below, names in os.walk(self.home):
            below.sort()
            for name in sorted(names):
                full = os.path.join(directory, name)
                if os.path.isfile(full) and not os.path.islink(full):
                    yield os.path.relpath(full, self.home), full

    def print_of(self):
        """Changes whenever anything is changed below `home`."""
        found = []
        for directory, below, names in os.walk(self.home):
            below.sort()
            for full in (os.path.join(directory, name) for name in sorted(names)):
                about = os.lstat(full)
                found.append((os.path.relpath(full, self.home), about.st_ctime_ns, about.st_ino))
        return found

    def files(self):
        """The hash of each data file."""
        found = {}
        for path, full in self.walk():
            if not is_sidecar(path):
                with open(full, "rb") as file:
                    found[path] = hash_of(file.read())
        return found

    def superblocks(self):
        """All sidecars that look like some."""
        blocks = ((path, superblock_of(full)) for path, full in self.walk() if is_sidecar(path))
        return {path: block for path, block in blocks if block}

    def known_sidecars(self):
        """The sidecars that are as a commit left them: path of the sidecar, ((uuid, rank, generation), Commit)."""
        found = {}
        for path, block in self.superblocks().items():
            commit = self.commits.get(block[:3])
            if commit and commit.size == block[3] and block[:3] not in self.ruined:
                found[path] = (block[:3], commit)
        return found

    def story(self):
        return "\n".join(self.log)
