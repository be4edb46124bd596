#!/usr/bin/env python3
"""Random sequences of what people do with protected files, with rot between, and the tools without --force.

The oracle knows which contents are rot, and which commit knew the content before. It has two rules:
  blessed  No tool calls a rotten file intact while a sidecar of the commit that knew better is left.
  lost     No tool takes the last sidecar of that commit away while no file has the content before rot.
Left out is what lzy cannot know (docs/reference/limits.md): copies with new times, times that were cut to whole seconds, copies of a
damaged file that is still in its place, and what people destroy themselves.

By CTest: classes of unittest. By hand: habits.py --bin DIR [--seed N] [--count N] [--keep-going]
"""

import json
import os
import random
import shlex
import sys
import unittest

import advice_campaign
from advice_oracle import Broken
from advice_world import World

COUNT = int(os.environ.get("LZY_TEST_ROUNDS", "60"))
SIZES = (3000, 20_000, 100_000)
TIMES = (1_790_000_000_500_000_000, 1_790_000_000_000_000_000)
DIRECTORIES = ("a", "a/b", "c")


class Rot:
    """A content that nobody wrote: the file's content before, and the key of the sidecar that knows it."""

    def __init__(self, good, key):
        self.good, self.key = good, key


class Life:
    """A home with some files and sets in it, and what happens there."""

    def __init__(self, bin_directory, seed):
        self.random = random.Random(f"habits {seed}")
        self.world = World(bin_directory, seed)
        self.rotten = {}  # hash of the rotten content: Rot
        self.events = []
        self.patterns = []
        self.size, self.time = self.random.choice(SIZES), self.random.choice(TIMES)

    # What is there.

    def files(self):
        return self.world.files()

    def some_file(self):
        return self.random.choice(sorted(self.files()) or ["a"])

    def directory(self):
        found = [one for one in DIRECTORIES + ("bak",) if os.path.isdir(self.world.path(one))]
        return self.random.choice(found or ["."])

    def new_name(self):
        name = self.random.choice(("x", "y", "old", "copy", "s.1", "s.2"))
        return os.path.join(self.directory(), name)

    def commits(self):
        """Takes note of new commits; what they committed is what the files hold now."""
        world = self.world
        for path, content in self.files().items():
            block = world.superblocks().get(world.sidecar(path))
            if block and block[:3] not in world.commits:
                world.note_commit({path: content})

    def keys(self):
        return {block[:3] for path, block in self.world.superblocks().items() if block[:3] not in self.world.ruined}

    # Events. Each is one line of shell, or rot.

    def setup(self):
        world = self.world
        for path in ("a/x", "a/y", "a/b/x", "c/z"):
            if self.random.random() < 0.7:
                world.write_random(path, self.size, self.time)
        if self.random.random() < 0.5 or not self.files():
            for rank in range(4):
                world.write_random(f"a/s.{rank}", self.size, self.time)
            self.patterns.append("a/s.%r")
        for one in DIRECTORIES:
            os.makedirs(world.path(one), exist_ok=True)
        world.must("lzy-protect -q ." if self.random.random() < 0.8 else "lzy-protect -q a")
        self.commits()
        if self.random.random() < 0.5:
            world.must("lzy-scrub . >/dev/null")

    def rot(self):
        world = self.world
        known = world.known_sidecars()
        whole = [path for path, content in self.files().items()
                 if world.sidecar(path) in known and known[world.sidecar(path)][1].content == content and os.stat(world.path(path)).st_size]
        if not whole:
            return
        path = self.random.choice(sorted(whole))
        key, good = known[world.sidecar(path)][0], self.files()[path]
        others = [one for one, content in self.files().items() if content == good and one != path]
        world.flip(path, self.random.randrange(os.stat(world.path(path)).st_size - 10), 3)
        if not others:
            self.rotten[self.files()[path]] = Rot(good, key)

    def people(self):
        """A line of shell."""
        quoted, rng = shlex.quote, self.random
        one, other, new, directory = self.some_file(), self.some_file(), self.new_name(), self.directory()
        sidecar, new_sidecar = self.world.sidecar(one), self.world.sidecar(new)
        lines = [f"cp -p {quoted(one)} {quoted(new)}"] * 3 + [f"mv {quoted(one)} {quoted(new)}"] * 3
        lines += [f"cp -p {quoted(one)} {quoted(other)}", f"mv {quoted(one)} {quoted(other)}", f"ln {quoted(one)} {quoted(new)}",
                  f"ln -s {quoted(os.path.relpath(one, os.path.dirname(new)))} {quoted(new)}", f"chmod 600 {quoted(one)}",
                  f"mv {quoted(one)} {quoted(new)} && mv {quoted(sidecar)} {quoted(new_sidecar)}",
                  f"mv {quoted(one)} {quoted(new)} && ln -s {quoted(os.path.relpath(new, os.path.dirname(one)))} {quoted(one)}",
                  f"cp -a {directory} keep && rm -r {directory} && mv keep {directory}",
                  f"rm -rf bak && cp -a {directory} keep && mv keep bak", f"rm -rf bak && cp -al {directory} keep && mv keep bak"]
        if self.time % 10**9 == 0:
            lines += [f"tar -cf t.tar {directory} && rm -r {directory} && tar -xf t.tar && rm t.tar"] * 2
        lines += [f"tar --format=posix -cf t.tar {directory} && rm -r {directory} && tar -xf t.tar && rm t.tar"]
        if rng.random() < 0.2:
            lines = [f"rm {quoted(sidecar)}", f"rm {quoted(one)}"]
        return rng.choice(lines)

    def program(self):
        path, rng = self.some_file(), self.random
        if os.path.islink(self.world.path(path)) or not os.path.isfile(self.world.path(path)):
            return
        if rng.random() < 0.5:
            os.remove(self.world.path(path))
        self.world.write_random(path, self.size, self.time + rng.choice((0, 7 * 10**9)) if rng.random() < 0.7 else None)

    def tool(self):
        rng, directory = self.random, self.directory()
        path = rng.choice([".", directory, directory, shlex.quote(self.some_file()), *map(shlex.quote, self.patterns)])
        if rng.random() < 0.1:
            path += " " + self.directory()
        return rng.choice(["lzy-protect {}"] * 5 + ["lzy-verify {}", "lzy-verify --repair {}", "lzy-restore {}", "lzy-scrub {}",
                                                    "lzy-scrub --repair {}", "lzy-copy {} bak"]).format(path)

    # Rules.

    def forget_what_people_destroyed(self):
        """Rot that no file has any more, or that no sidecar knows any more."""
        here, keys = set(self.files().values()), self.keys()
        self.rotten = {bad: rot for bad, rot in self.rotten.items() if bad in here and rot.key in keys and rot.good not in here}

    def judged_intact(self, path):
        log, self.world.log = self.world.log, []
        done = self.world.run(f"lzy-verify --json {shlex.quote(path)} 2>/dev/null", env={"LZY_CATALOG": "off"})
        self.world.log = log
        try:
            return all(one["state"] == "intact" for one in json.loads(done.text)["datasets"]) and done.code == 0
        except ValueError:
            return False

    def is_in_its_place(self, bad, key):
        """Whether the damaged file is still beside its sidecar, so that the tools name it. Then others are copies."""
        return any(content == bad and self.world.superblocks().get(self.world.sidecar(path), (None,))[:3] == key
                   for path, content in self.files().items())

    def check(self, done):
        files, keys = self.files(), self.keys()
        for bad, rot in sorted(self.rotten.items()):
            if rot.key not in keys and rot.good not in files.values():
                raise Broken("lost", f"the sidecar that knew what {bad} was is gone after: {done}")
        for path, content in sorted(files.items()):
            if content not in self.rotten or self.is_in_its_place(content, self.rotten[content].key):
                continue
            if os.path.exists(self.world.path(self.world.sidecar(path))) and self.judged_intact(path):
                raise Broken("blessed", f"{path} has rot, and is intact after: {done}")

    def step(self):
        kind = self.random.random()
        if kind < 0.15:
            self.rot()
        elif kind < 0.25:
            self.program()
        elif kind < 0.6:
            self.world.run(self.people())
        else:
            self.forget_what_people_destroyed()
            done = self.world.run(self.tool())
            self.check(done)
            self.commits()
        self.forget_what_people_destroyed()


def try_life(seed, bin_directory=None, steps=12):
    """Returns (the rule that was broken, what happened), or None."""
    life = Life(bin_directory or advice_campaign.BIN, seed)
    try:
        life.setup()
        for _ in range(steps):
            life.step()
    except Broken as broken:
        return broken, life
    finally:
        life.world.remove()
    return None


class Habits(unittest.TestCase):
    def test_lives(self):
        advice_campaign.use_memory()
        self.addCleanup(advice_campaign.leave_memory)
        only = os.environ.get("LZY_TEST_SEED")
        for seed in [int(only)] if only else range(COUNT):
            found = try_life(seed)
            self.assertIsNone(found, found and advice_campaign.report(seed, *found))


if __name__ == "__main__":
    sys.exit(advice_campaign.by_hand(__doc__, try_life))
