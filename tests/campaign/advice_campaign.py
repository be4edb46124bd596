#!/usr/bin/env python3
"""Random states of protected directories; every next step that a tool prints is run literally, and an oracle judges it.

By CTest: classes of unittest. By hand: advice_campaign.py --bin DIR [--seed N] [--count N] [--keep-going]
"""

import argparse
import atexit
import collections
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

from advice_oracle import Broken, Oracle
from advice_states import State, q
from advice_world import mount_ext4

BIN = os.environ.get("TEST_LZY_BIN", "")
COUNT = int(os.environ.get("LZY_TEST_ROUNDS", "250"))
ROUNDS = int(os.environ.get("LZY_TEST_STEPS", "4"))  # that follow each other
# Rules about words, not about contents and sidecars. None of the 1,000 states of the tests breaks one, of the 20,000 slow ones a few may.
# All other rules hold without exception.
ADVICE_RULES = {"again", "circle", "usage", "worse", "silent"}
MOST_BAD_ADVICE = 0.001  # less than one in the 250 states of a part


MOUNTED = []  # by this process; tempfile.tempdir says /tmp if there is none


def use_memory():
    """States lie on an ext4 in memory, if this process may mount one. It is as private as the process and ends with it."""
    tempfile.tempdir = mount_ext4(256 << 20)
    if tempfile.tempdir:
        MOUNTED.append(tempfile.tempdir)


def leave_memory():
    tempfile.tempdir = None
    for mounted in MOUNTED:
        subprocess.run(["umount", mounted], check=True)
        os.rmdir(mounted)
    MOUNTED.clear()


def wrong_patterns(state):
    """What somebody may type for a set: another number taken for the rank, zeros left out or typed."""
    found = []
    for pattern in state.sets:
        found.append(pattern.replace("%02r", "%r") if "%02r" in pattern else pattern.replace("%r", "%02r"))
        found.append(pattern.replace("%02r", "0%r"))
        if "ck." in pattern:
            found.append(pattern.rsplit("ck.", 1)[0] + "ck.%r." + state.random.choice("01"))
    return [pattern for pattern in found if pattern not in state.sets]


def first_command(state, rng):
    """What the user types first."""
    paths = ["."] * 4 + [path for path in state.layout[:3]] + state.data()[:6] + list(state.sets) * 3 + wrong_patterns(state)
    path = q(rng.choice(paths))
    if path.startswith("-"):
        path = "./" + path
    return rng.choice(["lzy-verify {}"] * 5 + ["lzy-info {}"] + ["lzy-verify --repair {}"] * 2 + ["lzy-restore {}"] * 2 +
                      ["lzy-restore --dry-run {}", "lzy-scrub {}", "lzy-scrub --repair {}", "lzy-protect --dry-run {}", "STATUS"]).format(path)


def walk(state, rng):
    """What an operator does: types something, and then what is printed."""
    world = state.world
    command = first_command(state, rng)
    if command == "STATUS":
        world.run("lzy-scrub .")
        command = "lzy-status"
    world.log.append("# from here on the oracle looks")
    oracle = Oracle(world)
    oracle.follow(command, rounds=ROUNDS, choose=rng.choice)


def try_state(seed, skip_files=(), skip_events=(), bin_directory=None):
    """Returns (the rule that was broken, what happened), or None."""
    state = State(bin_directory or BIN, seed, skip_files, skip_events)
    try:
        walk(state, random.Random(f"walk {seed}"))
    except Broken as broken:
        return broken, state
    finally:
        state.world.remove()
    return None


def shrink(seed, broken, state, bin_directory=None):
    """Leaves out events and files that the fault does not need."""
    skip_files, skip_events = set(), set()
    for index in range(3):
        smaller = try_state(seed, skip_files, skip_events | {index}, bin_directory)
        if smaller and smaller[0].rule == broken.rule:
            skip_events.add(index)
            broken, state = smaller
    for name in state.skippable:
        smaller = try_state(seed, skip_files | {name}, skip_events, bin_directory)
        if smaller and smaller[0].rule == broken.rule:
            skip_files.add(name)
            broken, state = smaller
    return broken, state


def report(seed, broken, state):
    return f"seed {seed}: {broken}\nevents: {', '.join(state.events)}\n{state.world.story()}\n(repeat it with LZY_TEST_SEED={seed})"


class Advice(unittest.TestCase):
    """The classes below have parts of the seeds, so that they run beside each other."""

    PART = None

    def test_states(self):
        if self.PART is None:
            self.skipTest("the parts have the states")
        use_memory()
        self.addCleanup(leave_memory)
        only = os.environ.get("LZY_TEST_SEED")
        seeds = [int(only)] if only else range(self.PART * COUNT, (self.PART + 1) * COUNT)
        worse = []
        for seed in seeds:
            found = try_state(seed)
            if found and (found[0].rule not in ADVICE_RULES or only):
                self.fail(report(seed, *shrink(seed, *found)))
            if found:
                worse.append((seed, *found))
                print(f"seed {seed}: {found[0].rule}", flush=True)
        self.assertLessEqual(len(worse), len(seeds) * MOST_BAD_ADVICE, worse and report(*worse[0]))


class Part0(Advice):
    PART = 0


class Part1(Advice):
    PART = 1


class Part2(Advice):
    PART = 2


class Part3(Advice):
    PART = 3


def by_hand(description, try_one, smaller=None):
    """Tries states by the options of the command line. `smaller`: makes a small state of one with a fault."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--bin", required=True, help="the directory of the tools")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--keep-going", action="store_true", help="do not stop at the first fault")
    if smaller:
        options.add_argument("--shrink", action="store_true", help="with --keep-going: make each a small one")
    given = options.parse_args()
    rules, start = collections.Counter(), time.time()
    use_memory()
    atexit.register(leave_memory)
    for seed in range(given.seed, given.seed + given.count):
        found = try_one(seed, bin_directory=given.bin)
        if not found:
            continue
        if smaller and (given.shrink or not given.keep_going):
            found = smaller(seed, *found, given.bin)
        rules[found[0].rule] += 1
        print(report(seed, *found) + "\n" + "=" * 100, flush=True)
        if not given.keep_going:
            return 1
    print(f"{given.count} states in {time.time() - start:.0f} s: {dict(rules)}")
    return 1 if rules else 0


if __name__ == "__main__":
    sys.exit(by_hand(__doc__, try_state, shrink))
