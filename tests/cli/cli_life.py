"""Eight nodes and a year of their life in minutes. Jobs write checkpoints, nodes die, blocks rot, scrubs run, and an operator
types what lzy-status says. An oracle knows what was committed and what is left of it.

It demands: within the promise (at most m lost blocks in each row), everything is bit-equal after the operator has typed;
beyond it, the loss is told (exit code 2), and no tool ever reports success for wrong bytes. How often losses beyond the
promise happen must agree with lzy-plan.

Everything is real but the clock and the nodes: the tools, the data, the sidecars, the catalogue. A node is a directory that is
emptied when it dies, and that keeps nothing until its replacement is there. Time passes in the catalogue and in the mtimes.
"""

import heapq
import json
import math
import os
import random
import re
import shlex
import shutil
import struct
import tempfile
import time
import unittest

from catalogued import Catalogued

NODES = 8
BLOCK = 4096
ROWS = 16
SMALL = ("--block-size", "4K", "--stripe", "4K", "--group", str(NODES))
HOUR = 3600 * 10**9
FINE = ("intact", "restored")
# The shim of tests/trouble; none in builds with sanitizers, which cannot be preloaded into.
KILL_SHIM = os.environ.get("TEST_LZY_KILL_AT", "")


def parity_base(sidecar):
    """Where the parity of a sidecar begins: its extent of type 5 (docs/format.md §4)."""
    with open(sidecar, "rb") as file:
        superblock = file.read(4096)
    for i in range(struct.unpack_from("<I", superblock, 256)[0]):
        kind, _, _, _, offset, _, _ = struct.unpack_from("<HHIQQQQ", superblock, 264 + 40 * i)
        if kind == 5:
            return offset
    raise AssertionError(f"{sidecar} has no parity")


class Dataset:
    """What the oracle knows of one dataset. Its devices are numbered 0 to 7; each row has one block of every device."""

    def __init__(self, path, m):
        self.path, self.m = path, m
        self.data_blocks = ROWS * (NODES - m) // NODES  # of each device
        # absent: never committed; writing: a job overwrites it; torn: the job died; whole: committed, and within the
        # promise; lost: beyond it. What is written and not committed yet is given up, so nothing is promised of it.
        self.state = "absent"
        self.truth = {}       # the committed bytes, by file
        self.missing = set()  # devices
        self.bad = set()      # (device, row): rotten, or overwritten by a job that died
        self.told = True      # whether a tool has told the loss
        self.typed = set()    # commands, since the loss
        self.pending = {}     # bytes that were written, and are not committed
        self.was_whole = False  # before the last write
        self.since = None     # since when it counts for the rate of losses; None: it does not
        self.hours, self.losses = 0.0, 0

    def beyond(self):
        """The rows that have lost more than parity can rebuild."""
        lost = {row: set(self.missing) for row in range(ROWS)}
        for device, row in self.bad:
            lost[row].add(device)
        return {row for row, devices in lost.items() if len(devices) > self.m}

    def parity_position(self, device, row):
        """Which parity block of its row the device holds; m or more: it holds data (docs/format.md §6)."""
        return (device - row) % NODES

    def rows_of_data(self, device):
        return [row for row in range(ROWS) if self.parity_position(device, row) >= self.m]

    def begin(self, now):
        self.since = now

    def end(self, now):
        if self.since is not None:
            self.hours += now - self.since
        self.since = None

    def commit(self, content, now):
        self.end(now)
        self.state, self.truth = "whole", content
        self.missing, self.bad, self.typed = set(), set(), set()
        self.begin(now)


class Checkpoint(Dataset):
    """A set with one file on each node."""
    def files(self):
        return [self.path.replace("%r", str(rank)) for rank in range(NODES)]

    def sizes(self):
        return [self.data_blocks * BLOCK] * NODES

    def place(self, device, row, base):
        """The file that has this block, and where. `base`: where the parity of a sidecar begins."""
        folder, name = os.path.split(self.files()[device])
        earlier = len([r for r in range(row) if (self.parity_position(device, r) < self.m) == (self.parity_position(device, row) < self.m)])
        if self.parity_position(device, row) >= self.m:
            return f"{folder}/{name}", earlier * BLOCK
        sidecar = f"{folder}/.LZY.{name}"
        return sidecar, base(sidecar) + earlier * BLOCK


class SharedFile(Dataset):
    """A file on storage that all nodes see."""
    def files(self):
        return [self.path]

    def sizes(self):
        return [self.data_blocks * BLOCK * NODES]

    def place(self, device, row, base):
        position = self.parity_position(device, row)
        if position >= self.m:
            return self.path, (self.rows_of_data(device).index(row) * NODES + device) * BLOCK
        folder, name = os.path.split(self.path)
        sidecar = f"{folder}/.LZY.{name}"
        return sidecar, base(sidecar) + (row * self.m + position) * BLOCK


class Job:
    """Overwrites its datasets in turn."""

    def __init__(self, datasets):
        self.datasets = datasets
        self.writing = None
        self.content = {}
        self.write = 0  # which one it is; a job that dies takes the rest of it along

    def next(self):
        for state in ("absent", "lost", "torn"):
            for dataset in self.datasets:
                if dataset.state == state:
                    return dataset
        return self.datasets[0]


class Life(Catalogued):
    def setUp(self):
        # In memory: thousands of runs sync their files.
        if os.access("/dev/shm", os.W_OK):
            self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
            tempfile.tempdir = "/dev/shm"
        super().setUp()

    # Mean hours between deaths of a node, and until its replacement is there.
    MTTF, REPLACE = 50.0, 2.0
    # Hours between scrubs; then checkpoints are written, which takes a while.
    SCRUB, WRITE = 10.0, 0.2
    # New bad blocks an hour, on each device.
    ROT, SHARED_ROT = 2.9e-3, 2e-2
    # How many writes end with the death of the job alone, and how many tools are killed.
    JOB_DIES, TOOL_DIES = 0.05, 0.08

    def live(self, hours, seed):
        print(f"seed {seed} (LZY_TEST_SEED sets another)")
        self.rng = random.Random(seed)
        self.now, self.catalogue_now, self.queue, self.number = 0.0, 0.0, [], 0
        self.began = time.time_ns() - int((hours + 100) * HOUR)
        self.dead = set()
        self.history = []
        self.counts = dict.fromkeys(("deaths", "rot", "scrubs", "commits", "torn", "typed", "undone", "killed", "tools"), 0)
        self.jobs = [Job([Checkpoint(f"n%r/{slot}{m}", m) for slot in "ab"]) for m in (1, 2)]
        self.jobs.append(Job([SharedFile(f"s/f{i}", 1) for i in range(3)]))
        self.sets = [dataset for job in self.jobs[:2] for dataset in job.datasets]
        self.shared = self.jobs[2].datasets
        self.all = self.sets + self.shared
        self.paths = [dataset.path for dataset in self.sets] + ["s"]
        for node in range(NODES):
            os.mkdir(self.path(f"n{node}"))
            self.after(self.rng.expovariate(1 / self.MTTF), self.node_dies, node)
        os.mkdir(self.path("s"))
        for dataset in self.all:
            self.write_whole(dataset, self.new_content(dataset))
            self.protect(dataset, 0)
        for datasets, rate in ((self.sets, self.ROT), (self.shared, self.SHARED_ROT)):
            self.rot_later(datasets, rate * NODES * len(datasets))
        self.after(self.SCRUB, self.scrub)
        while self.queue[0][0] < hours:
            self.now, _, what, words = heapq.heappop(self.queue)
            what(*words)
        self.now = float(hours)
        for dataset in self.all:
            dataset.end(self.now)
        self.check_all()
        print(f"{hours:.0f} hours: {self.counts}")

    def after(self, hours, what, *words):
        self.number += 1
        heapq.heappush(self.queue, (self.now + hours, self.number, what, words))

    def chance(self, probability):
        return self.rng.random() < probability

    # ------------------------------------------------------------------------------------------------ tools, and the clock

    def tool(self, *words, **environment):
        """Runs a tool at this hour."""
        if os.path.exists(self.catalog):
            self.days_pass((self.now - self.catalogue_now) / 24)
        self.catalogue_now = self.now
        self.counts["tools"] += 1
        done = self.run_tool(*words, env=environment)
        self.history.append((words, done.returncode))
        return done

    def killed(self, *words):
        """The same, and kills it at some point of what it does to files. False if it had ended before."""
        if not KILL_SHIM:
            return self.tool(*words)
        done = self.tool(*words, LD_PRELOAD=KILL_SHIM, KILL_AT=str(self.rng.randrange(1, 60)), KILL_HALF=str(self.rng.randrange(2)))
        self.counts["killed"] += done.returncode < 0
        return done

    def told(self, done, codes, why):
        self.assertIn(done.returncode, codes, f"hour {self.now}: {why}: {done.args}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")

    # ----------------------------------------------------------------------------------------------------------- the oracle

    def judge(self):
        """After something was lost: what is beyond the promise now."""
        for dataset in self.all:
            if dataset.state == "whole" and dataset.beyond():
                dataset.losses += dataset.since is not None
                dataset.end(self.now)
                dataset.state, dataset.told, dataset.typed = "lost", False, set()

    def expect_bits(self, dataset):
        """Every byte as committed."""
        for name in dataset.files():
            self.assertTrue(os.path.exists(self.path(name)), f"hour {self.now}: {name}")
            self.assertTrue(self.read(name) == dataset.truth[name], f"hour {self.now}: {name} is not as committed")

    def expect_rows(self, dataset, rows):
        """The same of the data of some rows only."""
        for device, row in ((device, row) for device in range(NODES) for row in rows):
            if dataset.parity_position(device, row) < dataset.m:
                continue
            name, offset = dataset.place(device, row, None)
            with open(self.path(name), "rb") as file:
                file.seek(offset)
                self.assertTrue(file.read(BLOCK) == dataset.truth[name][offset:offset + BLOCK], f"hour {self.now}: {name} at {offset}")

    def check_states(self, done, datasets):
        """What a tool says that has read these datasets."""
        states = {dataset["path"]: dataset["state"] for dataset in json.loads(done.stdout)["datasets"]}
        for dataset in datasets:
            why = f"hour {self.now}: {dataset.path} is {dataset.state}, missing {dataset.missing}\n{done.stdout[-5000:]}{done.stderr}\n{self.history[-30:]}"
            if len(dataset.missing) == NODES:
                continue  # nothing is left of it: nobody can know that it was there
            self.assertIn(dataset.path, states, why)
            state = states[dataset.path]
            if dataset.state == "whole":
                self.assertEqual(state, "damaged" if dataset.missing or dataset.bad else "intact", why)
                if state == "intact":
                    self.expect_bits(dataset)
            elif dataset.state == "lost":
                self.assertEqual(state, "unrepairable", why)
                dataset.told = True
            elif dataset.state == "torn":
                self.assertNotIn(state, FINE, why)
        if "unrepairable" in states.values():
            self.assertEqual(done.returncode, 2)
        if done.returncode == 0:
            self.assertEqual(set(states.values()), {"intact"})

    def look(self, datasets):
        """Somebody has a reason to verify these datasets, and only these: lzy-plan expects the others to wait for the scrub."""
        self.check_states(self.tool("lzy-verify", "--json", *[dataset.path for dataset in datasets]), datasets)

    def check_all(self):
        """Without the catalogue, so that the operator does not learn of it."""
        self.check_states(self.tool("lzy-verify", "--json", *self.paths, LZY_CATALOG="off"), self.all)

    # ------------------------------------------------------------------------------------------------------ what goes wrong

    def node_dies(self, node):
        self.counts["deaths"] += 1
        self.dead.add(node)
        for job in self.jobs:
            if job.writing in self.sets:
                self.job_dies(job)
        shutil.rmtree(self.path(f"n{node}"))
        for dataset in self.sets:
            dataset.missing.add(node)
            dataset.bad = {(device, row) for device, row in dataset.bad if device != node}
            # If the job had only written on this node, everything else is as committed. It no longer counts for the rate,
            # which is that of datasets whose nodes were all there when they began to count.
            if dataset.state == "torn" and dataset.truth and not dataset.bad and dataset.was_whole:
                dataset.state = "whole"
        self.judge()
        self.look(self.sets)  # the monitor of the site has seen it
        self.after(self.rng.expovariate(1 / self.REPLACE), self.node_returns, node)

    def node_returns(self, node):
        self.dead.remove(node)
        os.mkdir(self.path(f"n{node}"))
        self.after(self.rng.expovariate(1 / self.MTTF), self.node_dies, node)
        self.operate()
        self.start_again()

    def rot_later(self, datasets, rate):
        self.after(self.rng.expovariate(rate), self.rot, datasets, rate)

    def rot(self, datasets, rate):
        self.rot_later(datasets, rate)
        dataset, device, row = self.rng.choice(datasets), self.rng.randrange(NODES), self.rng.randrange(ROWS)
        if dataset.state != "whole" or device in dataset.missing or (device, row) in dataset.bad:
            return
        self.counts["rot"] += 1
        name, offset = dataset.place(device, row, lambda sidecar: parity_base(self.path(sidecar)))
        if self.chance(0.7):
            self.flip(name, offset + self.rng.randrange(BLOCK))
        else:
            self.lose_block(name, offset)
        dataset.bad.add((device, row))
        self.judge()

    def lose_block(self, name, offset):
        before = os.stat(self.path(name))
        with open(self.path(name), "r+b") as file:
            file.seek(offset)
            file.write(bytes(BLOCK))
        os.utime(self.path(name), ns=(before.st_atime_ns, before.st_mtime_ns))

    # ----------------------------------------------------------------------------------------------------------------- jobs

    def new_content(self, dataset):
        return {name: self.rng.randbytes(size) for name, size in zip(dataset.files(), dataset.sizes())}

    def write_file(self, name, content):
        self.write(name, content)
        self.number += 1
        stamp = self.began + int(self.now * HOUR) + self.number
        os.utime(self.path(name), ns=(stamp, stamp))

    def write_whole(self, dataset, content):
        for name in dataset.files():
            self.write_file(name, content[name])
        dataset.pending = content

    def begin(self, job):
        dataset = job.next()
        dataset.was_whole = dataset.state == "whole" and not dataset.missing and not dataset.bad
        dataset.end(self.now)
        dataset.state = "writing"
        job.datasets.remove(dataset)
        job.datasets.append(dataset)
        job.writing, job.content = dataset, self.new_content(dataset)
        job.write += 1
        if self.chance(self.JOB_DIES):
            self.after(self.rng.uniform(0, self.WRITE), self.job_dies_alone, job, job.write)
        self.after(self.WRITE, self.commit, job, job.write)

    def job_dies(self, job):
        """In the middle of a write: some of its bytes have arrived."""
        dataset, job.writing = job.writing, None
        dataset.state = "torn"
        self.counts["torn"] += 1
        names = dataset.files()
        whole = self.rng.randrange(len(names))
        for device, name in enumerate(names[:whole + 1]):
            new, old = job.content[name], self.read(name) if os.path.exists(self.path(name)) else b""
            upto = len(new) if device < whole else self.rng.randrange(1, len(new))
            self.write_file(name, new[:upto] + old[upto:])
            self.torn_cells(dataset, device, range(-(-upto // BLOCK)))

    def torn_cells(self, dataset, device, blocks):
        for block in blocks:
            if isinstance(dataset, SharedFile):
                dataset.bad.add((block % NODES, dataset.rows_of_data(block % NODES)[block // NODES]))
            else:
                dataset.bad.add((device, dataset.rows_of_data(device)[block]))

    def job_dies_alone(self, job, write):
        dataset = job.writing
        if job.write == write and dataset is not None:
            self.job_dies(job)
            self.look([dataset])
            self.operate()

    def commit(self, job, write):
        if job.write != write or job.writing is None:
            return
        dataset, job.writing = job.writing, None
        self.write_whole(dataset, job.content)
        self.protect(dataset, self.TOOL_DIES)
        self.start_again()

    def start_again(self):
        """Jobs that have lost a checkpoint write it anew as soon as all nodes are there."""
        for job in self.jobs:
            if self.nodes_are_there(job) and job.next().state != "whole":
                self.begin(job)

    def nodes_are_there(self, job):
        return job.writing is None and (not self.dead or job.datasets is self.shared)

    def protect(self, dataset, dies):
        words = ("lzy-protect", *SMALL, "--parity", str(dataset.m), dataset.path)
        done = self.killed(*words) if self.chance(dies) else self.tool(*words)
        self.told(done, (0, -9), dataset.state)
        if done.returncode == 0:
            self.counts["commits"] += 1
            return dataset.commit(dataset.pending, self.now)
        # All data of the job have arrived, and perhaps the commit has: the operator ends it.
        dataset.state, dataset.typed = "uncommitted", set()
        self.look([dataset])
        self.operate()
        if dataset.state == "uncommitted":  # nothing was left to do, or nothing was protected yet
            self.told(self.tool(*words), (0,), "the job runs again")
            dataset.commit(dataset.pending, self.now)
        self.expect_bits(dataset)

    # ------------------------------------------------------------------------------------------------ scrubs, and the operator

    def scrub(self):
        self.counts["scrubs"] += 1
        self.after(self.SCRUB, self.scrub)
        done = self.tool("lzy-scrub", "--json", *self.paths)
        self.check_states(done, self.all)
        self.operate()
        for job in self.jobs:
            if self.nodes_are_there(job):
                self.begin(job)

    def operate(self):
        """Types what lzy-status says, until it says nothing new."""
        for _ in range(8):
            done = self.tool("lzy-status", "--json")
            known = {os.path.join(os.path.realpath(self.scratch), dataset.path): dataset for dataset in self.all}
            acted = [self.type(known[entry["path"]], entry) for entry in json.loads(done.stdout)["not_intact"]]
            for node in self.dead:
                shutil.rmtree(self.path(f"n{node}"), ignore_errors=True)
            if not any(acted):
                break
        else:
            self.fail(f"hour {self.now}: the operator goes in circles:\n" + "\n".join(f"{words} -> {code}" for words, code in self.history[-20:]))
        self.check_all()

    @staticmethod
    def commands(entry):
        """What lzy-status names, in its order. A line has several if the user must decide. This operator has no replicas."""
        named = [part.rsplit(": ", 1)[1] for line in entry["next"].splitlines() for part in line.split("; ") if ": lzy-" in part]
        return [command for command in named if "REPLICA" not in command]

    def on_dead_nodes_only(self, entry):
        """The replacement is not there yet, and nothing else is wrong."""
        nodes = [re.search(r"/n(\d+)/", damage["path"]) for damage in entry["damage"]]
        return bool(nodes) and all(node and int(node[1]) in self.dead for node in nodes)

    def type(self, dataset, entry):
        """One command. False if there is nothing to type now."""
        commands = self.commands(entry)
        self.assertTrue(commands, entry)
        if dataset.state == "writing" or self.on_dead_nodes_only(entry):
            return False
        if dataset.state == "torn":
            return self.undo(dataset, commands)
        if dataset.state == "lost":
            return self.type_after_loss(dataset, commands[0])
        if dataset.state == "uncommitted":
            return self.type_until_committed(dataset, commands)
        done = self.run_command(commands[0])
        if done.returncode != -9:
            self.told(done, (0,), f"{dataset.path} is {dataset.state}")
            self.repaired(dataset)
        return True

    def type_until_committed(self, dataset, commands):
        """All that the job wrote is there, and no command may undo it. Each one once."""
        fresh = [command for command in commands if command not in dataset.typed and "--force" not in command]
        if not fresh:
            return False
        done = self.run_command(fresh[0])
        if done.returncode == -9:
            return True
        dataset.typed.add(fresh[0])
        self.told(done, (0, 1, 4, 9), f"{dataset.path} is {dataset.state}")
        if done.returncode == 0 and fresh[0].startswith("lzy-protect"):
            dataset.commit(dataset.pending, self.now)
        return True

    def run_command(self, command):
        self.counts["typed"] += 1
        words = shlex.split(command)
        return self.killed(*words) if self.chance(self.TOOL_DIES) else self.tool(*words)

    def repaired(self, dataset):
        """A tool says so, and what it wrote on nodes that are dead goes again."""
        self.expect_bits(dataset)
        dataset.missing, dataset.bad = set(self.dead) if dataset in self.sets else set(), set()

    def type_after_loss(self, dataset, command):
        """Each command once: none of them may succeed. What is within the promise comes back."""
        if command in dataset.typed:
            return False
        beyond = dataset.beyond()
        done = self.run_command(command)
        if done.returncode == -9:
            return True
        self.told(done, (2,), f"{dataset.path} has lost the rows {beyond}")
        dataset.typed.add(command)
        if "--salvage" in command and not self.dead and len(beyond) < ROWS:
            dataset.missing = set()
            self.expect_rows(dataset, set(range(ROWS)) - beyond)
        return True

    def undo(self, dataset, commands):
        """A job died in its write. If parity has the old bytes, the operator takes them back; otherwise the job writes again."""
        if self.dead or not dataset.was_whole or dataset.beyond() or commands[-1].startswith("lzy-protect"):
            return False
        done = self.run_command(commands[-1])
        if done.returncode == 0:
            self.repaired(dataset)
            dataset.state = "whole"
            dataset.begin(self.now)
            self.counts["undone"] += 1
        else:  # lost files first, edits then
            self.told(done, (9, 1, -9), "undoing a write that did not end")
        return True

    # ------------------------------------------------------------------------------------------------------------- lzy-plan

    def planned(self, m, rot, device_loss):
        """Losses an hour, by the chain. A block of 4 KiB stands for one of 64 KiB, so each device has 1 MiB."""
        done = self.check(0, "lzy-plan", "--json", "--no-simulation", "--devices", str(NODES), "--size", "1M", "--groups", str(NODES),
                          "--parities", str(m), "--device-loss", device_loss, "--replace", f"{self.REPLACE}h", "--rot", f"{rot}/M/h",
                          "--scrub", f"{self.SCRUB}h", "--read-errors", "0", "--crash", "never")
        row, = json.loads(done.stdout)["rows"]
        self.assertEqual((row["parity"], row["largest_group"], row["groups"]), (m, NODES, 1))
        return 1 / (row["mean_years_to_loss"] * 8766)


class Days(Life):
    """The promise, in seconds."""

    def test_days_of_eight_nodes(self):
        self.live(int(os.environ.get("LZY_TEST_ROUNDS", "300")), int(os.environ.get("LZY_TEST_SEED", "23")))
        self.assertGreater(self.counts["deaths"], 10)
        self.assertGreater(sum(dataset.losses for dataset in self.all), 0)
        self.assertTrue(all(dataset.told for dataset in self.all))


class Year(Life):
    """The promise, and the rate of losses beyond it."""

    # The number of losses is nearly a Poisson number.
    SIGMAS = 4

    def test_a_year_of_eight_nodes(self):
        began = time.monotonic()
        self.live(int(os.environ.get("LZY_TEST_ROUNDS", "8766")), int(os.environ.get("LZY_TEST_SEED", "23")))
        print(f"{time.monotonic() - began:.0f} seconds")
        device_loss = f"{self.MTTF}h"
        self.agree([(dataset, self.planned(dataset.m, self.ROT, device_loss)) for dataset in self.sets] +
                   [(dataset, self.planned(dataset.m, self.SHARED_ROT, "never")) for dataset in self.shared])

    def agree(self, rates):
        for dataset, rate in rates:
            expected = rate * dataset.hours
            sigmas = (dataset.losses - expected) / math.sqrt(expected)
            print(f"{dataset.path}, m = {dataset.m}: {dataset.hours:.0f} hours, {dataset.losses} losses, lzy-plan expects {expected:.1f}; "
                  f"{sigmas:+.1f} sigma")
        for dataset, rate in rates:
            expected = rate * dataset.hours
            self.assertGreater(expected, 10, dataset.path)
            self.assertLess(abs(dataset.losses - expected), self.SIGMAS * math.sqrt(expected), dataset.path)


if __name__ == "__main__":
    unittest.main()
