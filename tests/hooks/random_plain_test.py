"""Random programs that write files without MPI-IO, with and without the layer: same files, same results; and what they wrote is
protected: a flipped byte in each file is found and repaired.

LZY_TEST_PROGRAMS: how many (a few by default, 1,000 with the label slow). LZY_TEST_SEED: the first seed.
"""

import os
import random
import shutil
import unittest

from layered import BUILD, Layer

CLIENT = f"{BUILD}/clients/plain_client"
RANKS = 2
# Tools refuse variables that they do not know.
PROGRAMS = int(os.environ.pop("LZY_TEST_PROGRAMS", "12"))
FIRST = int(os.environ.pop("LZY_TEST_SEED", "1"))


class Program:
    """A random list of commands for plain_client, and the files that it leaves."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.commands = []
        self.members = [set() for _ in range(RANKS)]  # generations of the set that each rank has
        self.singles = [set() for _ in range(RANKS)]  # files f<rank>.<n>
        for _ in range(self.random.randint(1, 4)):
            self.checkpoint()
            for rank in range(RANKS):
                for _ in range(self.random.randint(0, 3)):
                    self.random.choice([self.single, self.single, self.edit, self.move, self.remove, self.nothing])(rank)
            if self.random.random() < 0.5:
                self.commands.append("barrier")

    def add(self, rank, *commands):
        self.commands += [f"@{rank} {command}" for command in commands]

    def size(self):
        return self.random.choice([0, 1, 100, 4096, 65536, 65537, 200000, self.random.randrange(300000)])

    def seed(self):
        return self.random.randrange(200)

    def writes(self, rank, name):
        """Writes a file whole, in one of many ways."""
        size, seed = self.size(), self.seed()
        way = self.random.randrange(8)
        if way == 0:
            self.add(rank, f"fopen 0 {name} w", f"fwrite 0 {size} {seed}", "fclose 0")
        elif way == 1:
            self.add(rank, f"creat 0 {name}", f"write 0 {size} {seed}", "dup 0 1", "close 0", f"write 1 {self.size()} {seed}", "close 1")
        elif way == 2:
            self.add(rank, f"open 0 {name}.tmp wct", f"write 0 {size} {seed}", "close 0", f"rename {name}.tmp {name}")
        elif way == 3:
            self.add(rank, f"open 0 {name} w+ct", f"ftruncate 0 {size + 1}", f"map 0 0 {size + 1} {seed}", "close 0")
        elif way == 4:
            self.add(rank, f"open 0 {name} wct", f"write 0 {size} {seed}", "fork 0", "close 0")
        elif way == 5:
            self.add(rank, "fopen 0 other w", f"freopen 0 {name} w+", f"fwrite 0 {size} {seed}", "fclose 0")
        elif way == 6:
            self.add(rank, f"openat 0 . {name} wct", f"open 1 {name} w", f"write 0 {size} {seed}", "close 0", f"pwrite 1 7 {self.size()} {seed}",
                     "close 1")
        else:
            self.add(rank, f"open 0 {name} wct", f"write 0 {size} {seed}", "close 0")

    def checkpoint(self):
        generation = self.random.randrange(3)
        order = list(range(RANKS))
        self.random.shuffle(order)
        for rank in order:
            if self.random.random() < 0.05:
                continue
            self.writes(rank, f"s.{generation}.{rank}")
            self.members[rank].add(generation)

    def single(self, rank):
        number = self.random.randrange(3)
        self.writes(rank, f"f{rank}.{number}")
        self.singles[rank].add(number)

    def some(self, rank):
        """The name of a file of this rank."""
        names = [f"s.{one}.{rank}" for one in sorted(self.members[rank])] + [f"f{rank}.{one}" for one in sorted(self.singles[rank])]
        return self.random.choice(names) if names else None

    def edit(self, rank):
        name = self.some(rank)
        if name is None:
            return
        way = self.random.randrange(4)
        if way == 0:
            self.add(rank, f"open 0 {name} w+", f"pwrite 0 {self.random.randrange(300000)} {self.size()} {self.seed()}", "close 0")
        elif way == 1:
            self.add(rank, f"fopen 0 {name} a", f"fwrite 0 {self.size()} {self.seed()}", "fclose 0")
        elif way == 2:
            self.add(rank, f"truncate {name} {self.size()}")
        else:
            self.add(rank, f"open 0 {name} w+", "close 0", f"tryopen 0 {name} wcx")

    def move(self, rank):
        name = self.some(rank)
        if name is None or name.startswith("s."):
            return
        to = self.random.randrange(3)
        old = int(name.rsplit(".", 1)[1])
        if old == to:
            return
        self.add(rank, f"rename {name} f{rank}.{to}")
        self.singles[rank].discard(old)
        self.singles[rank].add(to)

    def remove(self, rank):
        name = self.some(rank)
        if name is None:
            return
        self.add(rank, f"{self.random.choice(['unlink', 'remove'])} {name}")
        kind = self.members if name.startswith("s.") else self.singles
        kind[rank].discard(int(name.split(".")[1]))

    def nothing(self, rank):
        self.add(rank, "sleep 30")

    def script(self):
        return ";".join(["init", *self.commands, "finalize"])

    def sets(self):
        return sorted(set.intersection(*self.members))

    def files(self):
        """The single files at the end."""
        return [f"f{rank}.{number}" for rank in range(RANKS) for number in sorted(self.singles[rank])]


class RandomPlain(Layer):
    """Against a bare run."""

    def contents(self):
        return {name: self.content(name) for name in self.files() if not name.startswith(".LZY.") and name != "report"}

    def try_one(self, seed):
        program = Program(seed)
        runs = []
        for layer in (False, True):
            for name in self.files():
                path = self.path(name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            done = self.run_program([CLIENT, program.script()], ranks=RANKS, layer=layer, set="s.*.%r", posix="on", include="s.*:f*")
            runs.append((done.returncode, done.stdout, self.contents()))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(runs[0][2].keys(), runs[1][2].keys())
        self.assertEqual(runs[0], runs[1])
        missing = set.union(*program.members) != set.intersection(*program.members)
        self.assertTrue(missing or done.stderr == "", done.stderr)
        datasets = [f"s.{one}.%r" for one in program.sets()] + program.files()
        if not datasets:
            return
        found = self.run_tool("lzy-verify", *datasets)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        for name, content in runs[1][2].items():
            dataset = name.rsplit(".", 1)[0] + ".%r" if name.startswith("s.") else name
            if dataset in datasets and content:
                self.damage(name, seed % len(content))
                repaired = self.run_tool("lzy-verify", "--repair", dataset)
                self.assertEqual(repaired.returncode, 0, name + repaired.stdout + repaired.stderr)
        self.assertEqual(self.contents(), runs[1][2])

    def test_random_programs(self):
        for seed in range(FIRST, FIRST + PROGRAMS):
            with self.subTest(seed=seed):
                self.try_one(seed)


if __name__ == "__main__":
    unittest.main()
