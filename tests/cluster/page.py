"""Writes docs/node-died.md from what is printed on a cluster of four nodes, of which some are lost.

usage: CLUSTER_TEST_BUILD=build CLUSTER_TEST_MPIEXEC=mpiexec.mpich python3 tests/cluster/page.py >docs/node-died.md
"""

import re
import sys
import unittest

import nodes

HEAD = """# A node died

What to type when a node and its disk are gone, what is printed then, and what can go wrong. All of it is taken from a run on
the test cluster (`tests/cluster/page.py` makes this page; `scripts/cluster` makes the nodes); only `mpiexec`'s words for how
to start ranks on them are left out, and directories are shortened.

A job of four ranks on nodes n1 to n4 writes a checkpoint a rank to its node's own disk, `/local/state.%r`; with `--parity 1` any
one of the nodes may be lost, with `--parity 2` any two.
"""
TAIL = """
## What else can go wrong

- *The node dies while a checkpoint is being written.* That checkpoint is at risk, or was never committed; the one before must have
  another name (`first.%r`, `second.%r`, in turn), and both patterns be given to `--set`. Restore and use that one.
- *Another node dies while `lzy-restore` runs.* End the job if your scheduler does not; run it again on what is left. Nothing has
  got its name before all of it was right, and what was broken off is made anew.
- *The tool says "stale" or "at risk" (exit code 9).* Somebody wrote the files past the layer, or a checkpoint broke off:
  `lzy-restore --force` takes them back to the last commit.
- *A job that starts again reads what lies on its own node.* Start each rank where its checkpoint is (`is on NODE`, above), and remove
  a node's old files before it joins again if its member was restored elsewhere meanwhile: lzy's tools go by the newest
  commit, a program by the name.
"""


class Page(nodes.Nodes):
    def said(self, code, *words, on=None, ranks=None):
        """The command and what it prints, as a block; on all nodes that are up."""
        done = self.tool(code, *words, on=on, ranks=ranks)
        quoted = " ".join(f"'{word}'" if "%" in word else word for word in words)
        where = f"mpiexec -hosts {','.join(on or self.up)} "
        text = f"$ {where}{quoted}\n{done.stdout}{done.stderr}"
        text = text.replace(f"{self.dir}/local", "/local")
        text = re.sub(r", [\d.]+ [KMG]iB/s", "", text)  # speeds of this machine are no news
        lines = "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
        return f"\n{lines}\nExit code {code}.\n"

    up = ()

    def begin(self, parity):
        self.lose(*self.all)
        self.boot(*self.all)
        self.up = self.all
        self.solve(10, parity=parity)

    def test_page(self):
        out = HEAD
        self.begin(1)
        self.lose("n2")
        self.boot("n2")
        out += "\n## Another node is in its place\n\nIt has the name and the mount point of the old one, and an empty disk.\n"
        out += self.said(1, "lzy-verify", self.set)
        out += self.said(0, "lzy-restore", self.set)
        out += self.said(0, "lzy-verify", self.set)
        out += "\nRanks may be started in any order: a lost member goes to the node that has none of its group. Now start the job again.\n"

        self.begin(2)
        self.lose("n1", "n2")
        self.up = ["n3", "n4"]
        out += "\n## There is no other node\n\nTwo nodes are gone (`--parity 2`). First what would be done, then doing it:\n"
        out += self.said(1, "lzy-restore", "--spread", "--dry-run", self.set)
        out += self.said(0, "lzy-restore", "--spread", self.set)
        out += ("\nStart the job with each rank where its checkpoint is. These nodes have two members each now: until the next checkpoint on "
                "more\nnodes, the loss of one is the loss of two.\n")

        self.begin(1)
        self.lose("n2", "n3")
        self.boot("n2", "n3")
        self.up = self.all
        out += "\n## More nodes are gone than parity covers\n\nTwo, with `--parity 1`. Nothing is written, and the loss is listed.\n"
        out += self.said(2, "lzy-restore", self.set)

        self.begin(1)
        kept = self.save("n3")
        self.solve(20, parity=1)
        self.kill("n3")
        self.put_back("n3", kept)
        self.boot("n3")
        out += "\n## A node comes back with an old disk\n\nIts checkpoint and sidecar are older than the others'. They are told by their generation, and never mixed in.\n"
        out += self.said(1, "lzy-verify", self.set)
        out += self.said(0, "lzy-restore", self.set)
        sys.stdout.write(out + TAIL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
