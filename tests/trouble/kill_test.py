"""Programs and tools that end suddenly: killed just before each thing they do to storage (or half-way through a write),
and at random moments. Whatever is left must be judged right, and be of use.

Environment: as for layered.py; LZY_TEST_ALL_POINTS=1 takes every point of every run instead of every few (minutes),
LZY_TEST_SEED chooses which ones, and the data.
"""

import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

from layered import BUILD, LAYER, MPIEXEC, PATIENCE, Layer

SHIM = f"{BUILD}/tests/libkill_at.so"
PROGRAM = f"{BUILD}/clients/kill_client"
EVERY_POINT = os.environ.get("LZY_TEST_ALL_POINTS", "") == "1"
SEED = int(os.environ.get("LZY_TEST_SEED", "42"))
BLOCK = 4096
# A turn of the layout is 12 blocks of data: what the program writes shares no row with what lies behind the first one.
OPTIONS = {"LZY_BLOCK_SIZE": "4K", "LZY_STRIPE": "4K", "LZY_GROUP": "4", "LZY_PARITY": "1", "LZY_TIMEOUT": "10",
           "LZY_CATALOG": "off"}  # its system calls are not those of the tools
SIZE = 40 * BLOCK + 123
TURN = 12 * BLOCK
PARTS = [(3000, 5000), (20000, 9000), (33000, 100), (40000, 4096)]


def brought(old, new, parts):
    """What the program makes of a file."""
    content = bytearray(old)
    for offset, length in parts:
        content[offset:offset + length] = new[offset:offset + length]
    return bytes(content)


class Killed(Layer):
    """A directory `now` with what is worked on, made from `start` before each trial."""

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        print(f"seed {SEED} (LZY_TEST_SEED sets another)")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("LZY_", "KILL_"))}
        self.environment.update(OPTIONS)
        self.points = 0
        os.mkdir(self.path("start"))

    # ---------------------------------------------------------------------------------------------------- what is run

    def tool(self, *words, directory="now", **environment):
        return subprocess.run([f"{BUILD}/bin/{words[0]}", *words[1:]], cwd=self.path(directory), timeout=PATIENCE,
                              env={**self.environment, **environment}, capture_output=True, text=True, check=False)

    def program(self, kind, ranks, target, parts, **environment):
        """The command that brings NEW into the target, and its environment."""
        settings = {**OPTIONS, **environment, "LD_PRELOAD": f"{SHIM}:{LAYER}"}
        if kind == "set":
            settings["LZY_SET"] = f"{target}.%r"
        return [MPIEXEC, "-n", str(ranks), "env", *(f"{k}={v}" for k, v in settings.items()), PROGRAM, kind, target,
                "../NEW", *(f"{offset},{length}" for offset, length in parts)]

    def run_program(self, *arguments, **environment):
        return subprocess.run(self.program(*arguments, **environment), cwd=self.path("now"), env=self.environment,
                              timeout=PATIENCE, capture_output=True, text=True, check=False)

    def begin(self):
        shutil.rmtree(self.path("now"), ignore_errors=True)
        shutil.copytree(self.path("start"), self.path("now"))
        if self.has("NOTE"):
            os.remove(self.path("NOTE"))

    def note(self):
        """What a process was about to do when it was killed; None when none was."""
        if not self.has("NOTE"):
            return None
        with open(self.path("NOTE"), encoding="utf-8") as file:
            return file.read().strip()

    def at_every_point(self, run, check, step=1, least=1):
        """`run` with the environment of each point, until one is not reached. Returns how many were, at least `least`."""
        first = at = 1 if EVERY_POINT else 1 + self.rng.randrange(step)
        reached = 0
        while True:
            self.begin()
            half = str(self.rng.randrange(2))
            done = run(KILL_AT=str(at), KILL_HALF=half, KILL_NOTE=self.path("NOTE"))
            point = self.note()
            with self.subTest(at=at, half=half, point=point):
                if point is None:
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                check()
            # A rank that does less than `step` operations is killed before its first one.
            if point is None and at == first and first > 1:
                first = at = 1
                continue
            if point is None:
                break
            reached += 1
            self.points += 1
            at += 1 if EVERY_POINT else step
        self.assertGreaterEqual(reached, least)
        return reached

    # ------------------------------------------------------------------------------------------------ what is the truth

    def put(self, directory, name, content):
        with open(os.path.join(self.path(directory), name), "wb") as file:
            file.write(content)

    def get(self, name, directory="now"):
        with open(os.path.join(self.path(directory), name), "rb") as file:
            return file.read()

    def report(self, path, directory="now"):
        done = self.tool("lzy-verify", "--json", path, directory=directory)
        self.assertTrue(done.stdout, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["exit_code"], done.returncode)
        return report

    def root_of(self, contents, pattern):
        """The root of such files, protected afresh somewhere else."""
        if not hasattr(self, "roots"):
            self.roots = {}
        key = tuple(sorted(contents.items()))
        if key not in self.roots:
            os.mkdir(self.path("fresh"))
            for name, content in contents.items():
                self.put("fresh", name, content)
            done = self.tool("lzy-protect", pattern, directory="fresh")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.roots[key] = self.report(pattern, "fresh")["datasets"][0]["root"]
            shutil.rmtree(self.path("fresh"))
        return self.roots[key]

    def expect_truth(self, pattern, names, versions, protected=True):
        """`versions`: what was ever there at a commit; `protected`: there was one before the run. Called intact, a dataset is
        what its root says; else what differs from that is named, and nothing is called damaged. Returns what was
        found."""
        found = self.report(pattern)["datasets"][0]
        contents = {name: self.get(name) for name in names}
        text = json.dumps(found)
        if found["state"] == "unprotected" or (found["state"] == "at-risk" and found["root"].strip("0") == ""):
            self.assertFalse(protected, "a committed dataset is protected no more: " + text)
            return found
        if found["state"] == "intact":
            self.assertEqual(found["root"], self.root_of(contents, pattern))
        for damage in found["damage"]:
            if damage["part"] != "metadata":
                self.assertIn(damage["cause"], ("at-risk", "stale"), text)
        committed = {self.root_of(version, pattern): version for version in [*versions, contents]}
        self.assertIn(found["root"], committed, text)
        for name, content in contents.items():
            named = set()
            for damage in found["damage"]:
                if damage["part"] == "data" and damage["path"].endswith(name):
                    named |= set(range(damage["offset"] // BLOCK, -(-(damage["offset"] + damage["length"]) // BLOCK)))
            before = committed[found["root"]][name]
            differing = {at // BLOCK for at in range(0, max(len(before), len(content)), BLOCK)
                         if before[at:at + BLOCK] != content[at:at + BLOCK]}
            self.assertEqual(named, differing, f"{name}: {text}")
        return found

    def expect_untouched_is_repaired(self, pattern, name, before, directory="copy"):
        """Rot in what the program did not touch goes by the parity of before, in a copy unless told otherwise."""
        if directory == "copy":
            shutil.rmtree(self.path("copy"), ignore_errors=True)
            shutil.copytree(self.path("now"), self.path("copy"))
        for offset in (TURN + 5, TURN + 15 * BLOCK + 1):
            self.damage(f"{directory}/{name}", offset)
        done = self.tool("lzy-restore", "--salvage", "--force", pattern, directory=directory)
        self.assertIn(done.returncode, (0, 2, 9), done.stdout + done.stderr)
        self.assertTrue(self.get(name, directory)[TURN:] == before[TURN:], f"{name}: {done.stdout}{done.stderr}")

    def expect_usable(self, pattern, names, rerun, after):
        """A commit of what is there, and then a run that comes to its end."""
        contents = {name: self.get(name) for name in names}
        done = self.tool("lzy-protect", pattern)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({name: self.get(name) for name in names}, contents, "lzy-protect changes no data")
        self.assertEqual(self.report(pattern)["datasets"][0]["state"], "intact")
        done = rerun()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual({name: self.get(name) for name in names}, after)
        found = self.report(pattern)["datasets"][0]
        self.assertEqual((found["state"], found["root"]), ("intact", self.root_of(after, pattern)))
        self.assertEqual(self.debris(), [], "what the crash left stays for ever")

    def debris(self):
        return [name for name in os.listdir(self.path("now")) if re.match(r"\.LZY-(new|data)\.", name)]

    # -------------------------------------------------------------------------------------------------------- scenarios

    def prepare(self, names, protect):
        """Files of `names` with random contents, the source for each, and what they are afterwards."""
        self.before = {name: self.rng.randbytes(SIZE) for name in names}
        self.after = {}
        for name, content in self.before.items():
            new = self.rng.randbytes(SIZE)
            self.put("", "NEW" + name[len("file"):], new)
            self.put("start", name, content)
            self.after[name] = brought(content, new, PARTS)
        self.half_way = {name: brought(content, self.get("NEW" + name[len("file"):], ""), PARTS[:len(PARTS) // 2])
                         for name, content in self.before.items()}
        if protect:
            done = self.tool("lzy-protect", protect, directory="start")
            self.assertEqual(done.returncode, 0, done.stderr)


class InPrograms(Killed):
    def kill_everywhere(self, kind, protected, step):
        ranks = 2
        names = ["file"] if kind == "shared" else [f"file.{rank}" for rank in range(ranks)]
        pattern = "file" if kind == "shared" else "file.%r"
        self.prepare(names, pattern if protected else None)

        def check():
            found = self.expect_truth(pattern, names, [self.before, self.half_way, self.after], protected)
            if protected and found["state"] != "intact":
                for name in names:
                    self.expect_untouched_is_repaired(pattern, name, self.before[name])
            self.expect_usable(pattern, names, lambda: self.run_program(kind, ranks, "file", PARTS), self.after)

        # A rank whose rows others write may do nothing with sidecars.
        self.assertGreater(sum(self.at_every_point(
            lambda rank=rank, **kill: self.run_program(kind, ranks, "file", PARTS, KILL_RANK=str(rank), **kill),
            check, step, least=0) for rank in range(ranks)), 0)

    def test_first_commit(self):
        self.kill_everywhere("shared", False, step=5)

    def test_epoch_of_a_shared_file(self):
        self.kill_everywhere("shared", True, step=5)

    def test_first_commit_of_a_set(self):
        self.kill_everywhere("set", False, step=7)

    def test_epoch_of_a_set(self):
        self.kill_everywhere("set", True, step=7)


class InProgramsAndThenRenamed(Killed):
    """What is left of a program has its name changed before anybody looks: it stays what it is."""

    def begin(self):
        super().begin()
        # Copies are other files than those that were committed, until they are themselves.
        done = self.tool("lzy-protect", *self.committed)
        self.assertEqual(done.returncode, 0, done.stderr)

    def rename(self, old, new):
        os.rename(os.path.join(self.path("now"), old), os.path.join(self.path("now"), new))

    def debris(self):
        """What was being made for the old name stays for an hour."""
        return [name for name in super().debris() if self.has("now/" + name.split(".", 2)[2])]

    def under(self, name, versions):
        return [{name: content for content in version.values()} for version in versions]

    def test_exchanged_with_another_file(self):
        self.prepare(["file"], None)
        other = self.rng.randbytes(SIZE)
        self.put("start", "other", other)
        self.committed = ["file", "other"]

        def check():
            self.rename("file", "t")
            self.rename("other", "file")
            self.rename("t", "other")
            self.assertEqual(self.report("file")["datasets"][0]["state"], "intact")
            self.assertEqual(self.get("file"), other)
            versions = self.under("other", [self.before, self.half_way, self.after])
            found = self.expect_truth("other", ["other"], versions)
            states = {one["path"]: one["state"] for one in self.report(".")["datasets"]}
            self.assertEqual(states, {"file": "intact", "other": found["state"]})
            self.assertEqual(self.tool("lzy-info", "--prune", ".").returncode, 0)
            self.assertEqual(self.report("other")["datasets"][0]["state"], found["state"])
            if found["state"] != "intact" and self.points % 2 == 0:
                # Not in a copy: that is made of other files, which have the sidecars of their names.
                self.expect_untouched_is_repaired("other", "other", self.before["file"], directory="now")
                return
            self.expect_usable("other", ["other"], lambda: self.run_program("shared", 2, "other", PARTS),
                               {"other": brought(self.get("other"), self.get("NEW", ""), PARTS)})
            self.assertEqual(self.report("file")["datasets"][0]["state"], "intact")

        self.at_every_point(lambda **kill: self.run_program("shared", 2, "file", PARTS, KILL_RANK="0", **kill), check, step=5)

    def test_a_file_that_had_replaced_another(self):
        self.prepare(["file"], None)
        self.committed = ["file"]

        def run(**kill):
            shutil.copyfile(os.path.join(self.path("now"), "file"), os.path.join(self.path("now"), "copy"))
            self.rename("copy", "file")
            return self.run_program("shared", 2, "file", PARTS, KILL_RANK="0", **kill)

        def check():
            written = self.get("file")
            self.rename("file", "moved")
            if written == self.before["file"]:
                return
            self.expect_truth("moved", ["moved"], self.under("moved", [self.before, self.half_way, self.after]))
            self.assertEqual(self.tool("lzy-info", "--prune", ".").returncode, 0)
            self.expect_usable("moved", ["moved"], lambda: self.run_program("shared", 2, "moved", PARTS),
                               {"moved": brought(written, self.get("NEW", ""), PARTS)})

        self.at_every_point(run, check, step=5)

    def test_put_in_place_of_a_file(self):
        """As a program does that writes under a temporary name first."""
        self.prepare(["file"], None)
        goal = self.rng.randbytes(SIZE)
        self.put("start", "goal", goal)
        self.committed = ["goal"]

        def check():
            written = self.get("file")
            self.rename("file", "goal")
            versions = [*self.under("goal", [self.before, self.half_way, self.after]), {"goal": goal}]
            found = self.expect_truth("goal", ["goal"], versions, protected=False)
            if written != self.before["file"]:
                self.assertNotEqual(found["state"], "unprotected")
            self.expect_usable("goal", ["goal"], lambda: self.run_program("shared", 2, "goal", PARTS),
                               {"goal": brought(written, self.get("NEW", ""), PARTS)})

        self.at_every_point(lambda **kill: self.run_program("shared", 2, "file", PARTS, KILL_RANK="0", **kill), check, step=5)


class AtRandom(Killed):
    """All processes of a job at once, at no moment in particular."""

    def tagged(self, tag):
        """The processes that have the tag in their environment."""
        found = []
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if name.isdigit() and tag in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
        return found

    def sweep(self, since):
        """Removes what MPI had in shared memory and could not remove itself: what is newer, and nobody has mapped or open."""
        left = {path for pattern in ("mpich_shar_tmp*", "ucx_shm_posix_*") for path in glob.glob(f"/dev/shm/{pattern}")}
        for process in glob.glob("/proc/[0-9]*"):
            try:
                with open(f"{process}/maps", encoding="utf-8", errors="replace") as maps:
                    used = {line.split(maxsplit=5)[-1].strip() for line in maps if "/dev/shm/" in line}
                used |= {os.readlink(fd) for fd in glob.glob(f"{process}/fd/*")}
            except OSError:
                continue
            left -= used
        for path in left:
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ctime >= since:
                    os.remove(path)

    def kill_job(self, job, tag):
        """Until there is none left: one may just be starting another."""
        for _ in range(1000):
            processes = self.tagged(tag)
            for pid in processes:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not processes:
                break
            time.sleep(0.01)
        self.assertEqual(processes, [])
        job.communicate(timeout=PATIENCE)

    def test_jobs(self):
        names, pattern = ["file"], "file"
        self.prepare(names, pattern)
        self.addCleanup(self.sweep, time.time())
        tag = f"KILL_TAG={os.getpid()}-{self.rng.randrange(1 << 60)}"
        self.begin()
        start = time.monotonic()
        self.assertEqual(self.run_program("shared", 2, "file", PARTS).returncode, 0)
        duration = time.monotonic() - start
        for trial in range(60 if EVERY_POINT else 8):
            self.begin()
            command = self.program("shared", 2, "file", PARTS)
            job = subprocess.Popen(command, cwd=self.path("now"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**self.environment, **dict([tag.split("=")])})
            time.sleep(self.rng.random() * duration)
            self.kill_job(job, tag.encode())
            with self.subTest(trial=trial):
                self.expect_truth(pattern, names, [self.before, self.half_way, self.after])
                self.expect_untouched_is_repaired(pattern, "file", self.before["file"])
                self.expect_usable(pattern, names, lambda: self.run_program("shared", 2, "file", PARTS), self.after)


class InTools(Killed):
    """They can be run again, and come to the same end; what they were to repair is never called intact before."""

    def repair(self, pattern, names, words, damaged):
        def check():
            for name in names:
                if name in damaged and os.path.exists(self.path(f"now/{name}")):
                    self.assertTrue(self.get(name) == self.before[name], f"{name} is there, and not whole")
            found = self.report(pattern)["datasets"][0]
            contents = {name: self.get(name) for name in names if os.path.exists(self.path(f"now/{name}"))}
            if found["state"] == "intact":
                self.assertEqual(contents, self.before)
            else:
                self.assertEqual(found["state"], "damaged", found)
            done = self.tool(*words, pattern)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual({name: self.get(name) for name in names}, self.before)
            self.assertEqual(self.report(pattern)["datasets"][0]["state"], "intact")
            self.assertEqual(self.debris(), [])

        self.at_every_point(lambda **kill: self.tool(*words, pattern, LD_PRELOAD=SHIM, KILL_ALL="1", **kill), check, 2)

    def test_repair_of_a_shared_file(self):
        self.prepare(["file"], "file")
        for offset in (5, 15 * BLOCK, 30 * BLOCK + 9):
            self.damage("start/file", offset)
        self.damage("start/.LZY.file", 100)
        self.repair("file", ["file"], ["lzy-verify", "--repair"], [])

    def test_repair_of_a_set(self):
        names = [f"file.{rank}" for rank in range(4)]
        self.prepare(names, "file.%r")
        self.damage("start/file.1", 5)
        self.damage("start/file.2", 30 * BLOCK)
        self.repair("file.%r", names, ["lzy-verify", "--repair"], [])

    def test_restore(self):
        names = [f"file.{rank}" for rank in range(4)]
        self.prepare(names, "file.%r")
        os.remove(self.path("start/file.2"))
        os.remove(self.path("start/.LZY.file.2"))
        self.repair("file.%r", names, ["lzy-restore"], ["file.2"])

    def test_protect(self):
        """Of edited files: they stay edits until it is done."""
        names = [f"file.{rank}" for rank in range(3)]
        self.prepare(names, "file.%r")
        edited = {name: brought(content, self.rng.randbytes(SIZE), PARTS) for name, content in self.before.items()}
        for name, content in edited.items():
            with open(self.path(f"start/{name}"), "r+b") as file:
                file.write(content)

        def check():
            self.expect_truth("file.%r", names, [self.before, edited])
            done = self.tool("lzy-protect", "file.%r")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual({name: self.get(name) for name in names}, edited)
            self.assertEqual(self.report("file.%r")["datasets"][0]["state"], "intact")
            self.assertEqual(self.debris(), [])

        self.at_every_point(lambda **kill: self.tool("lzy-protect", "file.%r", LD_PRELOAD=SHIM, **kill), check, 2)


class Interrupted(Killed):
    """SIGINT and SIGTERM: a tool says so, and leaves everything as consistent as a crash does."""

    def test_tools(self):
        names = [f"file.{rank}" for rank in range(4)]
        self.prepare(names, "file.%r")
        os.remove(self.path("start/file.2"))
        for number in (signal.SIGINT, signal.SIGTERM):
            for at in (1, 4, 9):
                self.begin()
                done = self.tool("lzy-restore", "file.%r", LD_PRELOAD=SHIM, KILL_ALL="1", KILL_AT=str(at),
                                 KILL_SIGNAL=str(int(number)), KILL_NOTE=self.path("NOTE"))
                with self.subTest(signal=number, at=at, point=self.note()):
                    self.assertIsNotNone(self.note())
                    if at == 1:
                        self.assertFalse(os.path.exists(self.path("now/file.2")), "it went on")
                    if not os.path.exists(self.path("now/file.2")):
                        self.assertNotEqual(done.returncode, 0)
                        self.assertIn("interrupted", done.stdout + done.stderr)
                    self.assertEqual(self.debris(), [])
                    self.assertEqual(self.tool("lzy-restore", "file.%r").returncode, 0)
                    self.assertEqual({name: self.get(name) for name in names}, self.before)


del Layer, Killed  # have no tests of their own

if __name__ == "__main__":
    unittest.main()
