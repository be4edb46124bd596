"""Programs, tools and damage on real file systems, on two mounts of one where it is made for that (mounts.py).

Each class is a file system, each test one subject on it. Random programs write, and a model says what the file holds then; a byte is
changed through one mount and repaired through the other; tools look while a program commits; a rank is killed. No byte of a right
file may ever change, and nothing that is right be called damaged.

Environment: FILESYSTEMS_TEST_BUILD (build directory), FILESYSTEMS_TEST_MPIEXEC, LZY_TEST_ROUNDS (random programs for each file
system), LZY_TEST_SEED. Where nothing may be mounted, all tests are skipped; class Any fails if root could use none of the kinds.
"""

import errno
import math
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import mounts

BUILD = os.path.abspath(os.environ.get("FILESYSTEMS_TEST_BUILD", "build/release"))
MPIEXEC = os.environ.get("FILESYSTEMS_TEST_MPIEXEC", "mpiexec")
ROUNDS = int(os.environ.get("LZY_TEST_ROUNDS", "3"))
SEED = int(os.environ.get("LZY_TEST_SEED", "1"))
LAYER = f"{BUILD}/lib/liblzy_mpiio.so"
CLIENT = f"{BUILD}/tests/filesystems_client"
PATIENCE = 120
CACHED = 25  # seconds for which a client may show what was; sshfs has the longest, 20
WHY_NOT = mounts.enter_namespaces()


def environment(**options):
    out = {name: value for name, value in os.environ.items() if not name.startswith(("LZY_", "LD_PRELOAD"))}
    out.update(LZY_CATALOG="off", HYDRA_LAUNCHER="fork")
    out.update({f"LZY_{name.upper()}": str(value) for name, value in options.items()})
    return out


class OnFileSystem:
    """What tests need. A subclass names the kind."""
    KIND = ""

    @classmethod
    def setUpClass(cls):
        if WHY_NOT:
            raise unittest.SkipTest(WHY_NOT)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        cls.scratch = tempfile.mkdtemp(prefix="lzy-filesystems-")
        cls.addClassCleanup(cls.clean)
        cls.mounted = []
        cls.kind = mounts.KINDS[cls.KIND]
        try:
            cls.views = cls.kind.mount(cls.scratch)
        except mounts.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        os.mkdir(os.path.join(cls.scratch, "node"))

    @classmethod
    def clean(cls):
        for line in reversed(open("/proc/mounts", encoding="utf-8").readlines()):
            where = line.split()[1]
            if where.startswith(cls.scratch):
                subprocess.run(["umount", "--lazy", where], capture_output=True, check=False)
        shutil.rmtree(cls.scratch, ignore_errors=True)

    def setUp(self):
        for name in os.listdir(self.views[0]):
            if name not in ("lost+found", ".trash"):
                path = os.path.join(self.views[0], name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        self.random = random.Random(SEED)
        self.story = []

    # -- Nodes.

    def path(self, name, node=0):
        return os.path.join(self.views[node % len(self.views)], name)

    def on_node(self, node, words):
        """A command that sees the directory through one of the mounts, under a name that is the same everywhere."""
        where = os.path.join(self.scratch, "node")
        return ["unshare", "--mount", "sh", "-c", f"mount --bind '{self.views[node % len(self.views)]}' '{where}' && cd '{where}' && exec \"$@\"", "sh", *words]

    def words_of_job(self, words, layer=True):
        preload = ["env", f"LD_PRELOAD={LAYER}"] if layer else []
        out = [MPIEXEC]
        for node in range(2):
            out += [*([":"] if node else []), "-n", "1", *self.on_node(node, [*preload, *words])]
        return out

    def job(self, *words, layer=True, **options):
        self.story.append(f"job {' '.join(words)} {options if layer else 'bare'}")
        done = subprocess.run(self.words_of_job(words, layer), env=environment(**options), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=PATIENCE)
        self.story.append(f"[{done.returncode}] {done.stdout}{done.stderr}")
        return done

    def tool(self, *words, node=0, codes=None):
        done = subprocess.run(self.on_node(node, [f"{BUILD}/bin/{words[0]}", *words[1:]]), env=environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.story.append(f"node {node}: {' '.join(words)} [{done.returncode}]\n{done.stdout}{done.stderr}")
        if codes is not None:
            self.assertIn(done.returncode, codes, self.told())
        return done

    def told(self):
        return "\n".join(self.story[-12:])

    # -- Files.

    def content(self, name, node=0):
        """Past the pages that this mount may have."""
        fd = os.open(self.path(name, node), os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)

    def write_file(self, name, content, node=0):
        with open(self.path(name, node), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def rot(self, name, at, node):
        """A byte changes, its times do not. Through a mount: the others may have the old page still, as nodes do."""
        path = self.path(name, node)
        about = os.stat(path)
        with open(path, "r+b", buffering=0) as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 0x41]))
            os.fsync(file.fileno())
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        self.story.append(f"node {node}: byte {at} of {name} changes")

    def seen_alike(self, name, expected):
        """By all nodes, once their caches have noticed that the file changed."""
        for node in range(len(self.views)):
            end = time.monotonic() + (CACHED if self.kind.two else 0)
            while self.content_or_nothing(name, node) != expected:
                self.assertLess(time.monotonic(), end, f"node {node} sees other bytes in {name}\n{self.told()}")
                time.sleep(0.2)

    def content_or_nothing(self, name, node):
        """None: this node does not see the name yet, or one that means another file by now."""
        try:
            return self.content(name, node)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESTALE):
                return None
            raise

    def settle(self):
        """What is done from here on is told from the last commit by its time."""
        if self.kind.whole_seconds:
            time.sleep(2.2)  # longer than any tick that lzy reckons with


class Subjects(OnFileSystem):
    def test_random_programs(self):
        for number in range(ROUNDS):
            seed = self.random.randrange(1 << 30)
            options = {"parity": self.random.choice((1, 2)), **self.random.choice(({}, {"verify_writes": "on"}, {"capture": "off"}))}
            shape, where = self.random.randrange(1, 8), self.random.random()
            sides = [self.random.randrange(2) for _ in range(2)]
            name, model = f"f{number}", os.path.join(self.scratch, "model")
            with self.subTest(seed=seed, **options):
                self.story = []
                done = self.job(CLIENT, name, model, str(seed), str(shape), *self.unread(), **options)
                self.assertEqual((done.returncode, done.stderr), (0, ""), self.told())
                with open(model, "rb") as file:
                    expected = file.read()
                self.seen_alike(name, expected)
                for node in range(len(self.views)):
                    self.tool("lzy-verify", name, node=node, codes=[0])
                self.tool("lzy-verify", "--encode", name, codes=[0])
                self.settle()
                self.tool("lzy-verify", "--repair", name, node=sides[0], codes=[0])  # takes a stamp that says more, where times are coarse
                # The node that reads has the new byte; what the others show is for their clients to know.
                self.rot(name, int(where * len(expected)), sides[0])
                self.tool("lzy-verify", name, node=sides[0], codes=[1])
                self.tool("lzy-verify", "--repair", name, node=sides[0], codes=[0])
                self.seen_alike(name, expected)
                self.tool("lzy-verify", name, node=sides[1], codes=[0])

    def unread(self):
        return ["unread"] if self.kind.two else []

    def test_times_are_as_coarse_as_it_is_said(self):
        """Times of writes, of each node. Whether they are whole seconds decides what can be told from an edit."""
        for node in range(len(self.views)):
            path, seen, end = self.path("t", node), set(), time.monotonic() + 5
            while len(seen) < 5 and time.monotonic() < end:
                self.write_file("t", b"x", node)
                seen.add(os.stat(path).st_mtime_ns)
                time.sleep(0.05)
            coarse = math.gcd(*seen)
            self.assertEqual(coarse % 1000000000 == 0, self.kind.whole_seconds, f"times are multiples of {coarse} ns")

    def test_bare_programs(self):
        """What the model says holds without lzy, too: else the file system does not do what MPI asks for, and nothing above counts."""
        model = os.path.join(self.scratch, "model")
        for number in range(2):
            seed = self.random.randrange(1 << 30)
            done = self.job(CLIENT, f"b{number}", model, str(seed), "5", *self.unread(), layer=False)
            self.assertEqual(done.returncode, 0, self.told())
            with open(model, "rb") as file:
                self.seen_alike(f"b{number}", file.read())

    def test_lost_members_are_restored_from_the_other_side(self):
        """Several times, because a server may keep a released lock for a while."""
        for attempt in range(min(8, ROUNDS)):
            contents = [self.random.randbytes(self.random.choice((0, 1, 3000, 200000))) for _ in range(4)]
            pattern = f"s{attempt}.%r"
            for rank, content in enumerate(contents):
                self.write_file(f"s{attempt}.{rank}", content, rank)
            self.tool("lzy-protect", "--parity", "2", pattern, codes=[0])
            for node in range(2):
                self.tool("lzy-verify", pattern, node=node, codes=[0])
            for rank in (1, 2):
                os.remove(self.path(f"s{attempt}.{rank}", rank))
            started = time.monotonic()
            self.tool("lzy-restore", pattern, node=1, codes=[0])
            self.assertLess(time.monotonic() - started, 20, self.told())
            for rank, content in enumerate(contents):
                self.seen_alike(f"s{attempt}.{rank}", content)
            self.tool("lzy-verify", pattern, codes=[0])

    def test_an_edit_is_not_undone(self):
        """Also within the second of the commit, where times are in seconds, and through the other mount."""
        for number in range(4):
            name = f"e{number}"
            self.write_file(name, self.random.randbytes(100000))
            self.tool("lzy-protect", name, codes=[0])
            edited = self.random.randbytes(100000)
            side = number % 2
            self.write_file(name, edited, side)
            self.tool("lzy-verify", name, node=side, codes=[9])
            self.tool("lzy-verify", "--repair", name, node=side)
            self.tool("lzy-restore", name, node=1 - side)
            self.seen_alike(name, edited)
            self.tool("lzy-protect", name, codes=[0])
            self.tool("lzy-verify", name, node=1, codes=[0])

    def test_a_file_that_was_put_back_is_intact(self):
        contents = {f"p{number}": self.random.randbytes(3000) for number in range(6)}
        for name, content in contents.items():
            self.write_file(name, content)
            os.utime(self.path(name), (1600000000, 1600000000))
        self.tool("lzy-protect", ".", codes=[0])
        backup = os.path.join(self.scratch, "backup")
        shutil.copytree(self.views[0], backup, copy_function=shutil.copy2, ignore=shutil.ignore_patterns("lost+found", ".trash"))
        self.addCleanup(shutil.rmtree, backup)
        for name in os.listdir(self.views[0]):
            if name.startswith((".LZY", "p")):
                os.remove(self.path(name))
        for name in sorted(os.listdir(backup), reverse=True):
            shutil.copy2(os.path.join(backup, name), self.path(name))
        self.tool("lzy-verify", ".", node=1, codes=[0])
        self.tool("lzy-verify", "--repair", ".", node=0, codes=[0])
        for name, content in contents.items():
            self.seen_alike(name, content)

    def test_a_look_while_a_program_commits(self):
        """Verdicts meanwhile are intact, stale or at risk; and afterwards intact."""
        model = os.path.join(self.scratch, "model")
        job = self.start("f", model, SEED, 12)
        verdicts = []
        while job.poll() is None:
            if os.path.exists(self.path(".LZY.f")):
                verdicts.append(self.tool("lzy-verify", "f", node=len(verdicts) % 2).returncode)
            time.sleep(0.02)
        trouble = job.communicate()[1]
        self.assertEqual((job.returncode, trouble), (0, ""), self.told())
        self.assertLessEqual(set(verdicts), {0, 9}, self.told())
        self.tool("lzy-verify", "f", codes=[0])

    def test_a_killed_program_leaves_no_damage(self):
        model = os.path.join(self.scratch, "model")
        for attempt in range(max(2, ROUNDS)):
            job = subprocess.Popen(self.words_of_job([CLIENT, "f", model, str(SEED + attempt), "40", *self.unread()]), env=environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(0.3 + self.random.random())
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            self.wait_for_ranks()
            before = self.content("f") if os.path.exists(self.path("f")) else None
            if before is None:
                continue
            self.tool("lzy-verify", "f", node=1, codes=[0, 4, 9])
            self.tool("lzy-verify", "--repair", "f", node=0)
            self.seen_alike("f", before)
            self.tool("lzy-protect", "f", node=1, codes=[0])
            self.tool("lzy-verify", "f", node=0, codes=[0])

    def start(self, name, model, seed, rounds):
        return subprocess.Popen(self.words_of_job([CLIENT, name, model, str(seed), str(rounds), *self.unread()]), env=environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def test_two_jobs(self):
        """With files of their own, and then with one file, of which nobody knows what it holds when both have ended. What it holds is
        never changed by a tool, and never called damaged."""
        names, models = ["one", "other"], [os.path.join(self.scratch, f"model{job}") for job in range(2)]
        jobs = [self.start(name, model, SEED + number, 6) for number, (name, model) in enumerate(zip(names, models))]
        for job in jobs:
            self.assertEqual((job.communicate()[1], job.returncode), ("", 0), self.told())
        for name, model in zip(names, models):
            with open(model, "rb") as file:
                self.seen_alike(name, file.read())
            self.tool("lzy-verify", name, node=1, codes=[0])
            self.tool("lzy-verify", "--encode", name, codes=[0])
        jobs = [self.start("both", model, SEED + number, 6) for number, model in enumerate(models)]
        for job in jobs:
            job.communicate()
            self.assertIn(job.returncode, (0, 1), self.told())  # 1: it read what the other one wrote
        before = self.content("both")
        self.tool("lzy-verify", "both", node=1, codes=[0, 9])
        self.tool("lzy-verify", "--repair", "both", codes=[0, 9])
        self.seen_alike("both", before)
        self.tool("lzy-protect", "both", node=1, codes=[0])
        self.tool("lzy-verify", "--encode", "both", codes=[0])
        self.seen_alike("both", before)

    def test_a_repair_while_the_other_side_reads(self):
        """It reads what was there or what is right, block by block, and nothing else."""
        right = self.random.randbytes(400000)
        for attempt in range(3):
            name = f"r{attempt}"
            self.write_file(name, right)
            self.tool("lzy-protect", "--parity", "3", "--block-size", "4096", name, codes=[0])
            self.settle()
            self.tool("lzy-verify", "--repair", name, codes=[0])
            for at in (5, 100000, 399999):
                self.rot(name, at, 0)
            rotten = self.content(name)
            repair = subprocess.Popen(self.on_node(0, [f"{BUILD}/bin/lzy-verify", "--repair", name]), env=environment(),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            while repair.poll() is None:
                seen = self.content(name, 1)
                parts = [slice(at, at + 4096) for at in range(0, len(right), 4096)]
                self.assertEqual(len(seen), len(right), self.told())
                self.assertEqual([part.start for part in parts if seen[part] not in (right[part], rotten[part])], [], self.told())
            text = repair.communicate()[0]
            self.assertEqual(repair.returncode, 0, text)
            self.seen_alike(name, right)

    def test_a_repair_while_the_other_side_writes(self):
        """What a program has written is never taken back."""
        model = os.path.join(self.scratch, "model")
        job = self.start("w", model, SEED, 12)
        while job.poll() is None:
            if os.path.exists(self.path(".LZY.w")):
                self.tool("lzy-verify", "--repair", "w", node=1)
                self.tool("lzy-restore", "w", node=0)
            time.sleep(0.02)
        self.assertEqual((job.communicate()[1], job.returncode), ("", 0), self.told())
        with open(model, "rb") as file:
            self.seen_alike("w", file.read())
        self.tool("lzy-verify", "w", node=1, codes=[0])

    def wait_for_ranks(self):
        """Ranks die when their launcher is gone; this namespace has no other programs of that name."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            ranks = [pid for pid in os.listdir("/proc") if pid.isdigit() and self.is_client(pid)]
            if not ranks:
                return
            for pid in ranks:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        self.fail("ranks do not end")

    @staticmethod
    def is_client(pid):
        try:
            return os.readlink(f"/proc/{pid}/exe") == CLIENT
        except OSError:
            return False


def make_classes():
    for name in mounts.KINDS:
        globals()[name] = type(name, (Subjects, unittest.TestCase), {"KIND": name, "__doc__": f"On {name}."})


make_classes()


class Any(unittest.TestCase):
    def test_root_has_one_at_least(self):
        """So that the others are not skipped all at once unseen."""
        if os.geteuid() != 0:
            self.skipTest("file systems are mounted by root only")
        self.assertEqual(WHY_NOT, "")
        with tempfile.TemporaryDirectory(prefix="lzy-filesystems-") as scratch:
            self.assertTrue(mounts.KINDS["Tmpfs"].mount(scratch))
            subprocess.run(["umount", os.path.join(scratch, "memory")], check=True)


if __name__ == "__main__":
    unittest.main()
