"""Writes docs/node-died.md from what is printed on a cluster of four nodes, of which some are lost.

usage: CLUSTER_TEST_BUILD=build CLUSTER_TEST_MPIEXEC=mpiexec.mpich python3 tests/cluster/page.py >docs/node-died.md
"""

import re
import sys
import unittest

import nodes

HEAD = """# A node died

What to type when a node and its disk are gone, what the tools print, and what can go wrong.

A job of four ranks on nodes n1 to n4 writes a checkpoint, one file per rank. Each rank writes to the disk of its own node,
`/local/state.%r`. With `--parity 1`, any one node may be lost; with `--parity 2`, any two.

The output is from a run on the test cluster (`tests/cluster/page.py` makes this page, `scripts/cluster` the nodes). The options
that start `mpiexec` on these nodes are left out, and directories are shortened.
"""
TAIL = """
## What else can go wrong

- *The node dies while a checkpoint is written.* That checkpoint is at risk, or was never committed. Give checkpoints two names in
  turn (`first.%r`, `second.%r`), and both patterns to `--set`, so that the previous one is still there. Restore that one and use it.
- *Another node dies while `lzy-restore` runs.* If your scheduler does not end the job, end it yourself. Run `lzy-restore` again on the
  nodes that are left. A restored file gets its name only after all of it was checked. A file that was not finished is rebuilt.
- *The tool says "stale" or "at risk" (exit code 9).* Somebody wrote the files without the layer, or a checkpoint was interrupted.
  `lzy-restore --force` takes the files back to the last commit.
- *The restarted job reads old files on its own node.* Start each rank where its checkpoint is (`is on NODE`, above). If the member of
  a node was restored elsewhere, remove the old files of that node before it joins again. The tools of lzy use the newest commit; a
  program uses the name.
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
        out += "\n## A new node has replaced the lost one\n\nIt has the name and the mount point of the lost node, and an empty disk.\n"
        out += self.said(1, "lzy-verify", self.set)
        out += self.said(0, "lzy-restore", self.set)
        out += self.said(0, "lzy-verify", self.set)
        out += "\nYou may start the ranks in any order: a lost member goes to a node that has no other member of its group. Now start the job again.\n"

        self.begin(2)
        self.lose("n1", "n2")
        self.up = ["n3", "n4"]
        out += "\n## There is no new node\n\nTwo nodes are gone (`--parity 2`). First a dry run, then the restore:\n"
        out += self.said(1, "lzy-restore", "--spread", "--dry-run", self.set)
        out += self.said(0, "lzy-restore", "--spread", self.set)
        out += ("\nStart the job with each rank where its checkpoint is. Each of these nodes has two members now. Until the next checkpoint "
                "on more\nnodes, the loss of one node is the loss of two members.\n")

        self.begin(1)
        self.lose("n2", "n3")
        self.boot("n2", "n3")
        self.up = self.all
        out += "\n## More nodes are gone than parity covers\n\nTwo nodes are gone, with `--parity 1`. `lzy-restore` writes nothing and lists the loss.\n"
        out += self.said(2, "lzy-restore", self.set)

        self.begin(1)
        kept = self.save("n3")
        self.solve(20, parity=1)
        self.kill("n3")
        self.put_back("n3", kept)
        self.boot("n3")
        out += "\n## A node comes back with an old disk\n\nIts checkpoint and sidecar are older than those of the other nodes. Their generation shows this, and lzy never uses them.\n"
        out += self.said(1, "lzy-verify", self.set)
        out += self.said(0, "lzy-restore", self.set)
        sys.stdout.write(out + TAIL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
