"""Eight nodes, in groups: losses drawn by lot."""

import os
import random
import unittest

import nodes

SEED = int(os.environ.get("CLUSTER_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("CLUSTER_TEST_ROUNDS", "3"))


class EightNodes(nodes.Nodes):
    NODES = 8

    def test_random_losses(self):
        expected = self.reference()
        dice = random.Random(SEED)
        for turn in range(ROUNDS):
            for parity in (1, 2, 3):
                gone = dice.sample(self.all, parity)
                order = dice.sample(self.all, len(self.all))
                with self.subTest(turn=turn, parity=parity, gone=gone, order=order, seed=SEED):
                    self.lose(*self.all)
                    self.boot(*self.all)
                    self.solve(10, parity=parity, group=4 + 4 * (turn % 2))
                    before = self.contents()
                    self.lose(*gone)
                    self.boot(*gone)
                    done = self.tool(0, "lzy-restore", self.set, on=order)
                    for node in gone:
                        self.assertRegex(done.stdout, rf"state\.{self.all.index(node)}: is on n\d\n")
                    self.is_whole(before)
                    self.assertEqual(set(node for node, _ in self.members()), set(self.all))
                    self.put_in_order()
                    self.assertEqual(self.restart(parity=parity), expected)

    def put_in_order(self):
        """Of two empty nodes each may have the other's member: as it stands, a job of ranks in order would not find it."""
        where = {rank: node for node, rank in self.members()}
        for rank, node in enumerate(self.all):
            for name in (f"state.{rank}", f".LZY.state.{rank}"):
                os.rename(self.disk(where[rank], name), self.disk(node, name))

    def test_fewer_nodes(self):
        self.solve(10, parity=2)
        before = self.contents()
        self.lose("n3", "n6")
        here = [node for node in self.all if node not in ("n3", "n6")]
        self.tool(0, "lzy-restore", "--spread", "--lost", "n3,n6", self.set, on=here)
        self.is_whole(before)
        where = {rank: node for node, rank in self.members()}
        self.assertNotEqual(where[2], where[5])
        self.assertEqual(self.restart(on=[where[rank] for rank in range(8)], parity=2), self.reference())


if __name__ == "__main__":
    unittest.main()
