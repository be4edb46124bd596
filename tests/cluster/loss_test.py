"""Nodes that are lost with their disks, after a checkpoint: what the tools say, and what a restart makes of it."""

import unittest

import nodes


class AfterCheckpoint(nodes.Nodes):
    def test_a_node_and_its_disk(self):
        expected = self.reference()
        self.solve(10)
        before = self.contents()
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3)])
        self.is_whole(before)
        self.assertEqual(self.restart(), expected)  # without any loss

        self.solve(10)
        before = self.contents()
        self.lose("n2")
        self.boot("n2")  # an empty one in its place
        self.assertEqual(self.files("n2"), [])
        done = self.tool(1, "lzy-verify", self.set)
        self.assertIn(f"  {self.local}/state.1: data, offset 0, length {len(before[1])}, device 1: missing; repairable", done.stdout)
        self.assertIn(f"  restore with: lzy-restore {self.set}", done.stdout)
        done = self.tool(0, "lzy-restore", self.set)
        self.assertIn(f"{self.set}: restored (set of 4 files", done.stdout)
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3)])
        self.is_whole(before)
        self.no_debris()
        self.assertEqual(self.restart(), expected)


if __name__ == "__main__":
    unittest.main()
