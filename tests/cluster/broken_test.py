"""Nodes that die in the midst of something: a checkpoint, a restore."""

import os
import random
import subprocess
import time
import unittest

import nodes

SEED = int(os.environ.get("CLUSTER_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("CLUSTER_TEST_ROUNDS", "3"))


class InTheMidst(nodes.Nodes):
    def kill_during(self, words, chance, node, **options):
        """Runs `words`, and loses `node` at a random moment of it; True if it was still running then."""
        layer = options.pop("layer", False)
        with subprocess.Popen(self.words_of_job(words, layer=layer), stdin=subprocess.DEVNULL, cwd=self.dir,
                              env=nodes.environment(**options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            try:
                job.wait(chance)
                running = False
            except subprocess.TimeoutExpired:
                running = True
            self.lose(node)
            try:
                job.wait(5)  # or else as a scheduler does, when one of a job's nodes is gone
            except subprocess.TimeoutExpired:
                job.kill()
        for other in self.all:  # a job that was ended: its ranks on the other nodes too
            if other != node:
                self.end_programs(other)
        self.boot(node)
        return running

    def end_programs(self, node):
        """What a scheduler does before it gives a node to another job; asked for by name, within the node only."""
        for program in ["heat3d", "lzy-restore"]:
            self.cluster("exec", self.dir, node, "pkill", "-KILL", "-x", program)

    def old(self, name):
        return f"{self.local}/{name}.%r"


class MidSync(InTheMidst):
    def test_the_older_checkpoint_survives(self):
        """Each checkpoint has a name of its own; the one that was being made when a node went is lost, the one before is not."""
        expected = self.reference(30)
        dice = random.Random(SEED)
        both = f"{self.old('first')}:{self.old('second')}"
        self.solve(10, checkpoint=self.old("first"), set=both)
        first = self.contents("first.{}")
        begin = time.monotonic()
        self.solve(20, every=20, checkpoint=self.old("second"), set=both)
        whole = time.monotonic() - begin
        kept = {node: self.save(node) for node in self.all}
        hit = 0
        for turn in range(ROUNDS):
            node = dice.choice(self.all)
            chance = dice.uniform(0.2, 1.0) * whole
            with self.subTest(turn=turn, node=node, seconds=chance, seed=SEED):
                hit += self.kill_during(self.solver(20, every=1, checkpoint=self.old("second")), chance, node, layer=True,
                                        set=both, parity=1)
                self.tool(0, "lzy-restore", self.old("first"))
                self.assertEqual(self.contents("first.{}"), first)
                self.tool(0, "lzy-verify", self.old("first"))
                # Of the other one nothing is blessed: it is whole, or something is said.
                done = self.run_job([f"{nodes.BUILD}/bin/lzy-verify", self.old("second")])
                self.assertIn(done.returncode, {0, 1, 2, 3, 4, 9}, done.stderr)
                if done.returncode == 1:
                    self.tool(0, "lzy-restore", self.old("second"))
                    self.tool(0, "lzy-verify", self.old("second"))
                # From the first one, what the second was to be is made again.
                self.assertEqual(self.restart(30, every=0, checkpoint=self.old("first"), set=both), expected)
                for other in self.all:
                    self.kill(other)
                    self.put_back(other, kept[other])
                self.boot(*self.all)
        self.assertGreater(hit, 0, "no job was still running when its node was lost")


    def test_the_older_checkpoint_was_renamed(self):
        """As many programs do: the last checkpoint gets another name, a new one gets its own. Nobody tells lzy of it."""
        expected = self.reference(30)
        dice = random.Random(SEED)
        both = f"{self.set}:{self.old('previous')}"
        hit = 0
        for turn in range(ROUNDS):
            begin = time.monotonic()
            self.solve(10, set=both)
            node = dice.choice(self.all)
            chance = dice.uniform(0.2, 1.0) * (time.monotonic() - begin)
            first = self.contents()
            with self.subTest(turn=turn, node=node, seconds=chance, seed=SEED):
                for rank, other in enumerate(self.all):
                    os.rename(self.disk(other, f"state.{rank}"), self.disk(other, f"previous.{rank}"))
                hit += self.kill_during(self.solver(20, every=1), chance, node, layer=True, set=both, parity=1)
                self.tool(0, "lzy-restore", self.old("previous"))
                self.assertEqual(self.contents("previous.{}"), first)
                self.tool(0, "lzy-verify", self.old("previous"))
                done = self.run_job([f"{nodes.BUILD}/bin/lzy-verify", self.set])
                self.assertIn(done.returncode, {0, 1, 2, 3, 4, 9}, done.stderr)
                self.assertEqual(self.restart(30, every=0, checkpoint=self.old("previous"), set=both), expected)
            self.lose(*self.all)
            self.boot(*self.all)
        self.assertGreater(hit, 0, "no job was still running when its node was lost")


class MidRestore(InTheMidst):
    def test_a_restore_that_broke_off_completes_when_run_again(self):
        expected = self.reference()
        dice = random.Random(SEED)
        self.solve(10, parity=2)
        before = self.contents()
        begin = time.monotonic()
        self.tool(0, "lzy-verify", self.set)
        whole = time.monotonic() - begin
        hit = 0
        for turn in range(ROUNDS):
            lost, second = dice.sample(self.all, 2)
            chance = dice.uniform(0.1, 1.0) * whole
            with self.subTest(turn=turn, nodes=(lost, second), seconds=chance, seed=SEED):
                self.lose(lost)
                self.boot(lost)
                hit += self.kill_during([f"{nodes.BUILD}/bin/lzy-restore", self.set], chance, second)
                self.tool(0, "lzy-restore", self.set)
                self.is_whole(before)
        self.assertGreater(hit, 0, "no restore was still running when its node was lost")
        self.assertEqual(self.restart(parity=2), expected)
        self.no_debris()


if __name__ == "__main__":
    unittest.main()
