"""Nodes that are others than before: in another order, fewer, with several ranks to one, with old disks."""

import os
import sys
import unittest

import nodes


class OtherRankOrder(nodes.Nodes):
    def test_survivors_have_other_rank_numbers(self):
        expected = self.reference()
        self.solve(10)
        before = self.contents()
        self.lose("n2")
        self.boot("n2")
        order = ["n3", "n1", "n4", "n2"]
        done = self.tool(1, "lzy-verify", self.set, on=order)
        self.assertIn("damaged, repairable", done.stdout)
        done = self.tool(0, "lzy-restore", self.set, on=order)
        self.assertIn(f"  {self.local}/state.1: is on n2\n", done.stdout)  # the empty one, whatever its rank's number
        self.is_whole(before, on=["n4", "n3", "n2", "n1"])
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3)])
        self.assertEqual(self.restart(), expected)

    def test_several_ranks_to_a_node(self):
        expected = self.reference()
        two = ["n1:2", "n2:2"]
        self.solve(10, on=two, parity=2)
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n1", 1), ("n2", 2), ("n2", 3)])
        before = self.contents()
        self.lose("n2")
        self.boot("n2")
        self.tool(0, "lzy-restore", self.set, on=["n2", "n1"])
        self.assertEqual(sorted(self.members()), [("n1", 0), ("n1", 1), ("n2", 2), ("n2", 3)])
        self.is_whole(before, on=two)
        self.assertEqual(self.restart(on=two, parity=2), expected)

    def test_a_spare_node_in_its_place(self):
        self.solve(10, on=["n1", "n2", "n3"])
        before = self.contents()
        self.lose("n1")
        done = self.tool(0, "lzy-restore", self.set, on=["n3", "n2", "n4"])
        self.assertIn(f"  {self.local}/state.0: is on n4\n", done.stdout)
        self.is_whole(before)
        self.restart(on=["n4", "n2", "n3"])


class Racks(nodes.Nodes):
    # Nodes 1 and 2 are in one rack, 3 and 4 in another.
    IN_RACKS = ["sh", "-c", 'case $(hostname) in n1|n2) LZY_DOMAIN=a;; *) LZY_DOMAIN=b;; esac; export LZY_DOMAIN; exec "$@"', "sh"]

    def restored(self, *before):
        """Where the member of n1 is made again."""
        done = self.run_job([*before, f"{nodes.BUILD}/bin/lzy-restore", self.set], on=["n4", "n2", "n3"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return [node for node, rank in self.members() if rank == 0]

    def test_a_lost_member_goes_to_a_rack_without_one_of_its_group(self):
        for before, place in [([], "n4"), (self.IN_RACKS, "n2")]:
            with self.subTest(racks=bool(before)):
                self.solve(10, on=["n1", "n3"])
                content = self.contents()
                self.lose("n1")
                self.assertEqual(self.restored(*before), [place])
                self.is_whole(content, on=["n2", "n3", "n4"])
                self.lose("n2", "n3", "n4")
                self.boot(*self.all)


class FewerNodes(nodes.Nodes):
    DISK_SIZE = "3M"

    # These disks are lost with their nodes, and seen from nowhere else.
    def listed(self, node):
        return self.cluster("exec", self.dir, node, "ls", self.local).stdout.split()

    def fill(self, node):
        """All but some 100 KiB, less than a member takes."""
        done = self.cluster("exec", self.dir, node, "dd", "if=/dev/zero", f"of={self.local}/full", "bs=64K", "count=40")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_spread_over_nodes_with_room(self):
        expected = self.reference()
        self.solve(10, parity=2)
        self.lose("n1", "n2")
        here = ["n3", "n4"]
        self.fill("n3")
        done = self.tool(1, "lzy-restore", "--spread", "--lost", "n1,n2", "--dry-run", self.set, on=here)
        self.assertIn(f"  {self.local}/state.0: would be on n4\n", done.stdout)
        self.assertIn("  restore with: mpiexec -n 2 lzy-restore --lost n1,n2 --spread ", done.stdout)
        self.assertIn(", at least one rank on each of n3 n4\n", done.stdout)
        self.assertNotIn("state.0", self.listed("n4"))
        done = self.tool(0, "lzy-restore", "--spread", "--lost", "n1,n2", self.set, on=here)
        self.assertIn(f"  {self.local}/state.0: is on n4\n", done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertIn("state.0", self.listed("n4"))
        where = {name: node for node in here for name in self.listed(node)}
        # Each rank where its checkpoint is.
        order = [where[f"state.{rank}"] for rank in range(4)]
        # More of the group are on one node than parity can repair.
        told = r"^lzy: .*3 members of one node are in one group now.*\n$"
        self.assertEqual(self.restart_each_on(order, told=told), expected)

    def restart_each_on(self, order, **more):
        """MPICH deals ranks to hosts in the order in which they are named, however often."""
        return self.restart(on=order, parity=2, **more)

    def test_no_room_anywhere(self):
        self.solve(10)
        self.lose("n2")
        here = ["n1", "n3", "n4"]
        for node in here:
            self.fill(node)
        lists = [self.listed(node) for node in here]
        done = self.tool(6, "lzy-restore", "--spread", "--lost", "n2", self.set, on=here)
        self.assertRegex(done.stderr, r"no node has room for member 1, which takes \d+ bytes with its sidecar: n1 has \d+, n3 has "
                                      r"\d+, n4 has \d+; nothing was written")
        self.assertEqual([self.listed(node) for node in here], lists)


class PartOfTheNodes(nodes.Nodes):
    def test_healthy_neighbours_are_not_made_again(self):
        self.solve(10)
        before, everything = self.contents(), self.everything()
        for words in [["lzy-verify"], ["lzy-verify", "--repair"], ["lzy-restore"], ["lzy-restore", "--spread"], ["lzy-restore", "--salvage"],
                      ["lzy-protect", "--force"], ["lzy-info"]]:
            for here in [["n1"], ["n1", "n2"]]:
                with self.subTest(words=words, here=here):
                    done = self.tool(4, *words, self.set, on=here)
                    self.assertIn(f"  {self.local}/state.3: device 3: not visible from here (written on n4)\n", done.stdout)
                    self.assertNotIn("missing", done.stdout)
                    self.assertRegex(done.stdout, r": mpiexec -n 4 lzy-.*, at least one rank on each of n1 n2 n3 n4\n")
        report = self.report(4, "lzy-verify", self.set, on=["n1", "n2"])
        self.assertEqual({d["cause"] for d in report["damage"]}, {"not-visible"})
        self.assertEqual([m["node"] for m in report["not_visible"]], ["n3", "n4"])
        self.assertEqual(self.everything(), everything)
        self.is_whole(before)
        # A node that is gone, and nothing in its place: the user says so.
        self.lose("n3")
        here = ["n1", "n2", "n4"]
        done = self.tool(4, "lzy-restore", self.set, on=here)
        self.assertIn(f"  if n3 is gone for good: mpiexec -n 3 lzy-restore --lost n3 {self.set}, at least one rank on each of n1 n2 n4\n", done.stdout)
        self.tool(0, "lzy-restore", "--lost", "n3", self.set, on=here)
        self.is_whole(before, on=here)


IN_PYTHON = """
import sys
import lzy
pattern = sys.argv[1]
[found] = lzy.verify(pattern).datasets
assert found.code == lzy.Code.UNPROTECTED, found
assert [(m.device, m.node) for m in found.not_visible] == [(1, "n2")], found
for options in {}, {"lost_nodes": ["n7"]}:
    try:
        lzy.restore(pattern, **options)
        raise SystemExit("a member that may be on n2 was made again")
    except lzy.Unprotected:
        pass
assert lzy.restore(pattern, lost_nodes=["n2"], dry_run=True).code == lzy.Code.DAMAGED
assert lzy.restore(pattern, lost_here=True, dry_run=True).code == lzy.Code.DAMAGED
assert lzy.restore(pattern, lost_nodes=["n7", "n2"]).datasets[0].state == "restored"
"""


class FromPrograms(nodes.Nodes):
    NODES = 2

    def test_what_is_not_visible_and_what_is_lost(self):
        self.solve(10)
        before = self.contents()
        self.lose("n2")
        done = self.run_job(["env", f"PYTHONPATH={nodes.BUILD}/python", sys.executable, "-c", IN_PYTHON, self.set], on=["n1"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.is_whole(before, on=["n1"])


class ReturnedNodes(nodes.Nodes):
    def test_an_older_checkpoint_is_never_mixed_in(self):
        """A disk that was away while the others went on: with its data and sidecar of then, or only one of them."""
        expected = self.reference()
        for what in ["both", "data", "sidecar"]:
            with self.subTest(old=what):
                self.solve(5, every=5)
                kept = self.save("n3")
                os.rename(kept, f"{kept}.{what}")
                kept = f"{kept}.{what}"
                self.solve(10, every=5)
                before = self.contents()
                self.kill("n3")
                if what == "both":
                    self.put_back("n3", kept)
                else:
                    name = "state.2" if what == "data" else ".LZY.state.2"
                    os.remove(self.disk("n3", name))
                    os.system(f"cp -a {kept}/{name} {self.disk('n3', name)}")
                self.boot("n3")
                self.assertNotEqual(self.everything_of("n3"), before)
                code = self.run_job([f"{nodes.BUILD}/bin/lzy-verify", self.set]).returncode
                self.assertNotIn(code, {0, 2}, "older content passed, or was taken for lost for good")
                force = ["--force"] if code == 9 else []
                self.tool(0, "lzy-restore", *force, self.set)
                self.is_whole(before)
                self.assertEqual(self.restart(), expected)
                self.lose(*self.all)
                self.boot(*self.all)

    def everything_of(self, node):
        return {name: self.content(self.disk(node, name)) for name in self.files(node)}

    def test_a_node_that_was_replaced_comes_back(self):
        """Its member was made on another node meanwhile, and went on there: the newer one counts, wherever it is."""
        expected = self.reference()
        self.solve(5, every=5, on=["n1", "n2", "n3"])
        self.kill("n3")  # its disk stays with it
        self.tool(0, "lzy-restore", self.set, on=["n1", "n2", "n4"])
        self.solve(10, every=5, on=["n1", "n2", "n4"])
        before = {rank: content for (node, rank), content in self.members().items() if node != "n3"}
        self.boot("n3")
        for order in [["n1", "n2", "n3", "n4"], ["n1", "n2", "n4", "n3"]]:
            with self.subTest(order=order):
                self.tool(0, "lzy-verify", self.set, on=order)
        self.assertEqual(self.restart(on=["n1", "n2", "n4"]), expected)
        self.assertEqual({rank: content for (node, rank), content in self.members().items() if node != "n3"}.keys(), before.keys())


class SharedFiles(nodes.Nodes):
    NODES = 3

    def test_a_node_dies_under_a_shared_file(self):
        """The file system under all outlives its nodes; what is damaged there is repaired by those that are left."""
        field = self.reference()
        path = f"{self.shared}/state"
        self.solve(10, checkpoint=path, set="")
        before = self.content(path)
        self.lose("n2")
        self.tool(0, "lzy-verify", path)
        stat = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(70000)
            file.write(bytes(1000))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        done = self.tool(1, "lzy-verify", path)
        self.assertIn(f"{path}: data, offset 65536, length 65536, device 1: differs from its hash; repairable", done.stdout)
        self.tool(0, "lzy-restore", path)
        self.assertEqual(self.content(path), before)
        self.assertEqual(self.restart(on=["n1", "n3"], checkpoint=path, set=""), field)

    def test_servers_with_a_stripe_and_a_device_directory_each(self):
        """As a striped file system is lived in: with a server go its units of the file and its part of the parity."""
        field = self.reference()
        path = f"{self.shared}/state"
        servers = [f"{self.shared}/server{device}" for device in range(4)]
        for server in servers:
            os.mkdir(server)
        options = {"checkpoint": path, "set": "", "device_dirs": ":".join(servers), "stripe": "64K", "block_size": "4K"}
        for parity in (1, 2, 3):
            with self.subTest(parity=parity):
                self.solve(10, parity=parity, **options)
                before = self.content(path)
                unit = self.report(0, "lzy-verify", path)["unit"]
                for lost in (parity, parity + 1):
                    for device in range(min(lost, len(servers))):
                        self.lose_server(servers[device], path, unit, device, len(servers))
                    self.lose("n2")  # and a node that wrote it, as it happens
                    if lost > parity:
                        all_there_is = self.everything()
                        done = self.tool(2, "lzy-restore", path)
                        self.assertIn("beyond repair", done.stdout)
                        self.assertEqual(self.everything(), all_there_is)
                    else:
                        self.assertEqual(self.report(1, "lzy-verify", path)["state"], "damaged")
                        self.tool(0, "lzy-restore", path)
                        self.assertEqual(self.content(path), before)
                        self.assertEqual(self.report(0, "lzy-verify", path)["state"], "intact")
                        self.assertEqual(self.restart(on=["n1", "n3"], parity=parity, **options), field)
                        self.solve(10, parity=parity, **options, on=["n1", "n3"])
                        self.assertEqual(self.content(path), before)
                    self.boot("n2")
                os.remove(path)
                os.remove(f"{self.shared}/.LZY.state")

    def lose_server(self, directory, path, unit, device, devices):
        for name in os.listdir(directory):
            os.remove(os.path.join(directory, name))
        stat = os.stat(path)
        with open(path, "r+b") as file:
            for at in range(device * unit, stat.st_size, devices * unit):
                file.seek(at)
                file.write(bytes(min(unit, stat.st_size - at)))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def test_device_directories_that_not_all_nodes_see(self):
        done = self.run_job(self.solver(10, checkpoint=f"{self.shared}/state"), layer=True, device_dirs=f"{self.local}:{self.shared}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all ranks must see all device directories", done.stderr)
        self.assertEqual(self.tool(9, "lzy-verify", f"{self.shared}/state").stderr, "")
        # Made by one node alone, on its own disk.
        os.mkdir(f"{self.shared}/disk")
        self.solve(10, checkpoint=f"{self.shared}/state", set="", on=["n1"], device_dirs=f"{self.local}:{self.shared}/disk")
        self.tool(0, "lzy-verify", f"{self.shared}/state", on=["n1"])
        done = self.tool(6, "lzy-verify", f"{self.shared}/state")
        self.assertIn("all ranks must see all device directories", done.stderr)


if __name__ == "__main__":
    unittest.main()
