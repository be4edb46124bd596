#!/usr/bin/env python3
"""Random states of a few sets with more damage than a user sees at once: members renamed, rotted, lost, protected elsewhere, copied. The advice
is followed step by step under the oracle (advice_oracle.py), and must come to an end.

By CTest: the class of unittest. By hand: advice_families.py --bin DIR [--seed N] [--count N] [--keep-going]
"""

import os
import random
import sys
import unittest

import advice_campaign
from advice_oracle import Broken, Oracle
from advice_states import LONG_AGO, member, q
from advice_world import SECOND, World

BIN = os.environ.get("TEST_LZY_BIN", "")
COUNT = int(os.environ.get("LZY_TEST_ROUNDS", "60"))
STEPS = 8  # that follow each other
PATTERNS = ("s.%r", "d/s.%r", "t%r.dat", "node%r/state")


class Family:
    """One state."""

    def __init__(self, bin_directory, seed):
        self.world = World(bin_directory, seed)
        rng = self.random = random.Random(f"family {seed}")
        self.events, self.sets = [], {}
        size = rng.choice((300, 3000, 65537, 200000))
        for pattern in rng.sample(PATTERNS, rng.choice((1, 1, 2))):
            count = rng.randint(2, 4)
            self.sets[pattern] = [member(pattern, rank) for rank in range(count)]
            equal = rng.random() < 0.6
            for rank, path in enumerate(self.sets[pattern]):
                self.world.write_random(path, size, LONG_AGO + (0 if equal else rank * SECOND))
            parity = 2 if count > 2 and rng.random() < 0.4 else 1
            self.world.protect(f"{q(pattern)} --parity {parity}", self.sets[pattern])
        self.single = "f" if rng.random() < 0.6 else None
        if self.single:
            self.world.write_random("f", size, LONG_AGO)
            self.world.protect("f", ["f"])
        for _ in range(rng.choice((1, 2, 2, 3))):
            self.happen(rng)

    def data(self):
        return sorted(path for path in self.world.files() if os.path.isfile(self.world.path(path)))

    def happen(self, rng):
        names = [name for name in dir(self) if name.startswith("event_")]
        name = rng.choice(names)
        files = self.data()
        if not files:
            return
        self.world.log.append(f"# {name[6:].replace('_', ' ')}")
        self.events.append(name[6:])
        getattr(self, name)(rng.choice(files), rng)

    def new_name(self, path, rng):
        where = rng.choice((os.path.dirname(path), "", "e"))
        os.makedirs(self.world.path(where), exist_ok=True)
        new = os.path.join(where, rng.choice(("a", "b", os.path.basename(path) + ".old", os.path.basename(path))))
        return None if os.path.lexists(self.world.path(new)) else new

    def sidecar(self, path):
        sidecar = self.world.sidecar(path)
        return sidecar if os.path.exists(self.world.path(sidecar)) else None

    def event_rename(self, path, rng):
        new = self.new_name(path, rng)
        if new:
            self.world.must(f"mv {q(path, new)}")

    def event_rename_with_sidecar(self, path, rng):
        new, sidecar = self.new_name(path, rng), self.sidecar(path)
        if new and sidecar and not os.path.exists(self.world.path(self.world.sidecar(new))):
            self.world.must(f"mv {q(path, new)} && mv {q(sidecar, self.world.sidecar(new))}")

    def event_rename_by_copy(self, path, rng):
        new = self.new_name(path, rng)
        if new:
            self.world.must(f"cp -a {q(path, new)} && rm {q(path)}")

    def event_protect_elsewhere(self, path, rng):
        new = self.new_name(path, rng)
        content = self.world.files()[path]
        if new and content in self.world.true:
            self.world.must(f"cp -a {q(path, new)} && rm {q(path)}")
            if self.world.run(f"lzy-protect -q {q(new)}").code == 0:
                self.world.note_commit({new: content})

    def event_lose(self, path, _rng):
        self.world.must(f"rm {q(path)}")

    def event_lose_with_sidecar(self, path, _rng):
        self.world.must(f"rm -f {q(path, self.world.sidecar(path))}")

    def event_lose_sidecar(self, path, _rng):
        self.world.must(f"rm -f {q(self.world.sidecar(path))}")

    def event_rot(self, path, rng):
        size = os.stat(self.world.path(path)).st_size
        if size:
            self.world.flip(path, rng.randrange(size), rng.choice((1, 100)))

    event_rot_again = event_rot

    def event_over_another(self, path, rng):
        other = rng.choice(self.data())
        if other != path:
            self.world.must(f"mv {q(path, other)}")

    def event_change_places(self, path, rng):
        other = rng.choice(self.data())
        if other != path:
            self.world.must(f"mv {q(path)} between && mv {q(other, path)} && mv between {q(other)}")

    def event_rename_the_set(self, _path, rng):
        pattern = rng.choice(list(self.sets))
        new = os.path.join(os.path.dirname(pattern), "new." + os.path.basename(pattern)) if "%r/" not in pattern else "new" + pattern
        for rank, path in enumerate(self.sets[pattern]):
            if os.path.isfile(self.world.path(path)):
                os.makedirs(self.world.path(os.path.dirname(member(new, rank))), exist_ok=True)
                self.world.must(f"cp -a {q(path, member(new, rank))} && rm {q(path)}")

    def event_copy_of_the_set(self, _path, rng):
        pattern = rng.choice(list(self.sets))
        if self.world.run(f"lzy-copy -q {q(pattern, 'copy.%r')}").code == 0:
            files = self.world.files()
            self.world.note_commit({path: files[path] for path in files if path.startswith("copy.") and files[path] in self.world.true})

    def first_command(self, rng):
        patterns = list(self.sets)
        path = q(rng.choice(["."] * 3 + patterns * 2))
        return rng.choice(["lzy-verify {}"] * 4 + ["lzy-restore {}"] * 2 + ["lzy-restore --salvage {}", "lzy-verify --repair {}", "lzy-protect {}"]).format(path)


def try_state(seed, bin_directory=None):
    """Returns (the rule that was broken, the state), or None."""
    state = Family(bin_directory or BIN, seed)
    rng = random.Random(f"walk {seed}")
    try:
        command = state.first_command(rng)
        state.world.log.append("# from here on the oracle looks")
        Oracle(state.world).follow(command, rounds=STEPS, choose=rng.choice)
    except Broken as broken:
        return broken, state
    finally:
        state.world.remove()
    return None


class Families(unittest.TestCase):
    """States of the first seeds."""

    def test_states(self):
        advice_campaign.use_memory()
        self.addCleanup(advice_campaign.leave_memory)
        only = os.environ.get("LZY_TEST_SEED")
        for seed in [int(only)] if only else range(COUNT):
            found = try_state(seed)
            if found:
                self.fail(advice_campaign.report(seed, *found))


if __name__ == "__main__":
    sys.exit(advice_campaign.by_hand(__doc__, try_state))
