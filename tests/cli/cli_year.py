"""Months of scrubs: datasets rot, are edited, renamed and deleted, and an oracle knows what has to be found, and when."""

import json
import os
import random
import unittest

from catalogued import Catalogued

BLOCK = 4096
SIZE = 40000


class Model(Catalogued):
    """Scrubs of a share of all bytes each day, so that every dataset is read within PROMISE days."""

    PROMISE = 10
    SHARE = "12%"

    def live(self, datasets, days, seed):
        rng = random.Random(seed)
        # What the oracle knows: names, and for each the rotten blocks with the day of the rot.
        self.rotten = {f"d/{i:03}": {} for i in range(datasets)}
        for i, name in enumerate(self.rotten):
            self.make(name, SIZE, seed=i)
        self.check(0, "lzy-protect", "--block-size", "4K", "--stripe", "4K", "d")
        self.check(0, "lzy-scrub", "d")
        self.found = set()
        self.missed = set()  # deleted, and not acknowledged
        self.told = 0
        for day in range(days):
            self.days_pass(1)
            self.misfortunes(rng, day)
            self.scrub(day, repair=day % 7 == 6)
        # Whatever is rotten at the end is found within the promise.
        for day in range(days, days + self.PROMISE + 1):
            self.days_pass(1)
            self.scrub(day, repair=False)
        self.assertEqual([n for n, blocks in self.rotten.items() if blocks and n not in self.found], [])
        return len(self.events("damage"))

    def misfortunes(self, rng, day):
        for _ in range(rng.choice((0, 0, 1, 2))):
            name = rng.choice(sorted(self.rotten))
            block = rng.randrange(SIZE // BLOCK)
            if self.rotten[name] or name in self.found:
                continue  # one rotten block each, so that all can be repaired
            self.flip(name, block * BLOCK + 7)
            self.rotten[name][block] = day
        if rng.random() < 0.2:
            self.edit(rng)
        if rng.random() < 0.1:
            self.rename(rng, day)
        if rng.random() < 0.05:
            self.delete(rng)

    def clean(self):
        return sorted(name for name, blocks in self.rotten.items() if not blocks)

    def edit(self, rng):
        """A new content, committed: not verified yet, so it is read within the promise again."""
        name = rng.choice(self.clean())
        self.make(name, SIZE, seed=rng.random())
        self.check(0, "lzy-protect", "--block-size", "4K", "--stripe", "4K", name)

    def rename(self, rng, day):
        name = rng.choice(self.clean())
        new = f"d/r{day:03}"
        os.rename(self.path(name), self.path(new))
        os.rename(self.path(self.sidecar(name)), self.path(self.sidecar(new)))
        self.rotten[new] = self.rotten.pop(name)

    def delete(self, rng):
        if len(self.rotten) < 5:
            return
        name = rng.choice(self.clean())
        for path in (name, self.sidecar(name)):
            os.remove(self.path(path))
        del self.rotten[name]
        self.missed.add(name)

    @staticmethod
    def sidecar(name):
        folder, base = os.path.split(name)
        return f"{folder}/.LZY.{base}"

    def scrub(self, day, repair):
        before = self.news()
        words = ["--share", self.SHARE] + (["--repair"] if repair else [])
        done = self.run_tool("lzy-scrub", "--json", "--on-damage", f"echo told >> {self.path('log')}", *words, "d")
        document = json.loads(done.stdout)
        now = set()
        for dataset in document["datasets"]:
            name, blocks = dataset["path"], self.rotten[dataset["path"]]
            rotten = {d["offset"] // BLOCK for d in dataset["damage"] if d["part"] == "data"}
            self.assertEqual(rotten, set(blocks), (day, name))
            now |= {name} if rotten and name not in self.found else set()
            if repair and rotten:
                self.assertEqual(dataset["state"], "restored")
                self.rotten[name] = {}
                self.found.discard(name)
                now.discard(name)
        self.found |= now
        self.check_promise(day)
        self.check_told(before)
        self.check_status(done.returncode)
        if self.missed and day % 3 == 0:
            self.check(0, "lzy-status", "--forget", *self.missed)
            self.missed.clear()

    def news(self):
        return len(self.events("damage")) + len(self.events("vanished"))

    def check_promise(self, day):
        """Rot of more than PROMISE days ago has been found."""
        late = [n for n, blocks in self.rotten.items() for since in blocks.values() if day - since > self.PROMISE and n not in self.found]
        self.assertEqual(late, [])

    def check_told(self, before):
        """The command runs if and only if there are new events: none is told twice."""
        told = self.read("log").count(b"told") if os.path.exists(self.path("log")) else 0
        self.assertEqual(told - self.told, 1 if self.news() > before else 0)
        self.told = told
        lasting = [(event[1], event[3]) for event in self.events("damage") if not event[5]]
        self.assertEqual(len(lasting), len(set(lasting)))

    def check_status(self, scrub_code):
        done = self.run_tool("lzy-status", "--json")
        status = json.loads(done.stdout)
        self.assertEqual(status["states"]["damaged"], len(self.found))
        self.assertEqual({d["path"] for d in status["not_intact"]}, {os.path.realpath(self.path(n)) for n in self.found | self.missed})
        self.assertEqual(status["states"]["vanished"], len(self.missed))
        self.assertEqual(done.returncode, 1 if self.found else 4 if self.missed else 0)
        self.assertIn(scrub_code, (1, 4) if self.missed else (0, 1))
        self.assertEqual(status["datasets"], len(self.rotten))


class Month(Model):
    def test_a_month_of_twenty_datasets(self):
        self.assertGreater(self.live(20, 30, seed=22), 5)


class Year(Model):
    def test_a_year_of_two_hundred_datasets(self):
        seed = int(os.environ.get("LZY_TEST_SEED", "1"))
        print(f"seed {seed}")
        self.assertGreater(self.live(200, 365, seed), 50)


if __name__ == "__main__":
    unittest.main()
