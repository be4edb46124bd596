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
        self.assertIn(f"  restore with: mpiexec -n 4 lzy-restore {self.set}, at least one rank on each of n1 n2 n3 n4\n", done.stdout)
        done = self.tool(0, "lzy-restore", self.set)
        self.assertIn(f"{self.set}: restored (set of 4 files", done.stdout)
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3)])
        self.is_whole(before)
        self.no_debris()
        self.assertEqual(self.restart(), expected)

    def test_m_nodes_together(self):
        expected = self.reference()
        for parity, gone in [(1, ["n4"]), (2, ["n1", "n3"]), (3, ["n1", "n2", "n4"])]:
            with self.subTest(parity=parity):
                self.solve(10, parity=parity)
                before = self.contents()
                self.lose(*gone)
                self.boot(*gone)
                lost = [f"{self.local}/state.{self.all.index(node)}" for node in gone]
                report = self.report(1, "lzy-verify", self.set)
                self.assertEqual((report["state"], report["parity"]), ("damaged", parity))
                self.assertEqual([d["path"] for d in report["damage"] if d["part"] == "data"], lost)
                self.assertEqual({d["cause"] for d in report["damage"]}, {"missing"})
                report = self.report(0, "lzy-restore", self.set)
                self.assertEqual((report["state"], {d["repaired"] for d in report["damage"]}), ("restored", {True}))
                self.is_whole(before)
                self.assertEqual(self.restart(parity=parity), expected)
                self.lose(*self.all)  # nothing of it for the next one
                self.boot(*self.all)

    def test_one_more_than_parity_covers(self):
        """A list of what is lost, and nothing written; not by a salvage, either, that can have nothing."""
        for parity, gone in [(1, ["n2", "n3"]), (2, ["n1", "n2", "n4"])]:
            with self.subTest(parity=parity):
                self.solve(10, parity=parity)
                before = self.contents()
                self.lose(*gone)
                self.boot(*gone)
                left = self.everything()
                for tool in ["lzy-verify", "lzy-restore"]:
                    done = self.tool(2, tool, self.set)
                    self.assertIn(f"{self.set}: damaged beyond repair (set of 4 files", done.stdout)
                    for node in gone:
                        rank = self.all.index(node)
                        self.assertIn(f"  lost: {self.local}/state.{rank}: bytes 0 to {len(before[rank]) - 1} ", done.stdout)
                    self.assertEqual(self.everything(), left, tool)
                # Without nodes in their place, the members are lost only if the user says so.
                here = [node for node in self.all if node not in gone]
                self.tool(4, "lzy-restore", self.set, on=here)
                self.tool(2, "lzy-restore", "--lost", ",".join(gone), self.set, on=here)
                self.assertEqual(self.everything(), left)
                done = self.run_job(self.solver(20, "--restart"), layer=True, set=self.set, parity=parity)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("MPI_File_open", done.stderr)
                self.lose(*self.all)
                self.boot(*self.all)


if __name__ == "__main__":
    unittest.main()
