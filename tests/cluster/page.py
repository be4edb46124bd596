"""Writes docs/node-died.md from what is printed on a cluster of four nodes, of which some are lost.

usage: CLUSTER_TEST_BUILD=build CLUSTER_TEST_MPIEXEC=mpiexec.mpich python3 tests/cluster/page.py >docs/node-died.md
"""

import re
import sys
import unittest

import nodes

HEAD = """# A node died

**Start every tool with `mpiexec`, with one rank on every node that is left.** A rank sees only the disk of its own node. A file on a
node without a rank is `not visible from here`: the tools neither check nor rebuild it. The commands on this page are for
MPICH. For Open MPI and Slurm, see [When to use mpiexec](guide/operations.md#when-to-use-mpiexec).

This page shows which commands you need when a node and its disk are lost. It also shows what the tools print, and what
can go wrong. [Words](reference/words.md) explains special words.

In the example, a job has four ranks on the nodes n1 to n4. It writes a checkpoint with one file per rank (a *set*).
Each rank writes its file, a *member* of the set, to the disk of its own node: `/local/state.0` to `/local/state.3`. The
pattern of these names is `/local/state.%r`. With `--parity 1`, lzy can rebuild the files of any one lost node. With `--parity 2`, it can
rebuild those of any two.

The output below is from a test cluster (`scripts/cluster`). `tests/cluster/page.py` makes this page. Some options of
`mpiexec` are left out, and the directories are shortened.
"""
READING = """
How to read these lines:

- `device 1` is the member of rank 1, here `/local/state.1`.
- `/local/.LZY.state.1` is its *sidecar*. It contains parity and metadata. The sidecar is missing as a whole, so its
  metadata has no range: the line says `offset 0, length 0`.
- `repairable` means: `lzy-restore` can rebuild this range.
- `restore with: mpiexec -n 4 …` is the next command. Replace `-n 4` by the options of your launcher that start a rank on each of the
  named nodes. Here, these are `-hosts n1,n2,n3,n4`.

Now rebuild the lost files, and check the result:
"""
AFTER_SPREAD = """
Now n3 and n4 have two members each. If one of them is lost, two members are lost: this is all that `--parity 2` can
rebuild. This remains so until a later checkpoint is written on more nodes.

Before you start the job again, read [Start each rank on the node with its
file](#start-each-rank-on-the-node-with-its-file).
"""
AFTER_LOSS = """
What you can do:

- If there is an older checkpoint, start the job from it. When the job writes this set again, the set is protected
  again.
- If you have another copy of the same checkpoint, take the missing blocks from it:
  `lzy-restore --from '/backup/%r/state.%r' '/local/state.%r'`. For each file of the copy, one rank of the command must see it.
  lzy takes only blocks that have the committed hashes.
- If you have a backup of the same checkpoint, you can also copy the missing files back. Then run `lzy-verify`.
- `lzy-restore --salvage '/local/state.%r'` writes what can be rebuilt. The exit code is still 2.

What `--salvage` leaves:

- If a part of a lost file can be rebuilt, the file is made in its full length. The lost bytes are zeros. They still
  count as damage, and `lzy-verify` lists them (`lost: …`).
- If nothing of a lost file can be rebuilt, the file is not made. This is the case in the example above.
- In a file that exists, blocks that cannot be rebuilt stay as they are.

If you get the lost bytes from elsewhere, write them into the files. Then run `lzy-verify`. If the bytes are those of
the last commit, the files are intact. If the bytes are different, commit them with
`lzy-protect --force '/local/state.%r'`.
"""
TAIL = """
## Start each rank on the node with its file

A program opens files on its own node. So each rank must run on the node that has its member. First list the files of
all nodes:

    mpiexec -hosts n3,n4 sh -c 'echo $(hostname): /local/state.*'

After the restore to two nodes above, this prints:

    n3: /local/state.0 /local/state.2
    n4: /local/state.1 /local/state.3

Write a file `ranks` with one line per rank. The first line is the node of rank 0:

    n3
    n4
    n3
    n4

Start the job with this file:

    mpiexec -f ranks -n 4 ./app --restart                            # MPICH
    mpiexec --map-by seq --hostfile ranks -n 4 ./app --restart       # Open MPI
    SLURM_HOSTFILE=ranks srun -m arbitrary -n 4 ./app --restart      # Slurm

Only the MPICH line was tested for this page. As always, put `lzy-run` in front, so that new checkpoints are protected.

## Stale or at risk

`lzy-verify` prints "stale" or "at risk", and the exit code is 9. In both cases, data do not match the last commit:

| word | what happened | typical reason |
|---|---|---|
| stale | Somebody wrote the files without lzy. Their mtime (time of last modification) is not the one at the last commit | The job was started without `lzy-run` |
| at risk | A program wrote the files with lzy, and no commit followed | The program was killed while it wrote the checkpoint, or it is still running |

If the program is still running, wait until it has ended. Then decide:

| decision | command |
|---|---|
| Keep the newer data | `lzy-protect '/local/state.%r'`. All members must be there |
| Discard the newer data, and go back to the last commit | `lzy-restore --force '/local/state.%r'` |

- Stale files may be a complete, newer checkpoint. `--force` discards it. If you are not sure, first copy the files.
- If nobody wrote a stale file, it may be damaged. lzy calls damage "stale" if the mtime of the file had changed for another reason,
  for example by `cp -r` ([Edits](guide/archives.md#edits)). Compare the file with a copy before you keep it.
- A checkpoint that is at risk is often only partly written. Keep it only if you know that it is complete.
- With `--force`, lzy rebuilds the last commit from parity. With `--parity m`, this is possible if at most m members of each group
  have changed. If a job has written all members again, the tool prints `it cannot be undone`. Then use another checkpoint.

## What else can go wrong

- *The node dies while a checkpoint is written.* This checkpoint is at risk, or was never committed. Start from the
  previous checkpoint: restore it first. To have a previous checkpoint, the program must write its checkpoints under two names in
  turn (`first.%r`, `second.%r`). Give both patterns: `--set 'first.%r:second.%r'`.
- *Another node dies while `lzy-restore` runs.* If the scheduler does not end the job, end the job yourself. Then run
  `lzy-restore` again on the remaining nodes. `lzy-restore` gives a file its name only when it has checked the whole file. So the
  second run rebuilds the files that the first run did not finish.
- *The job reads old files after the restart.* If a member was restored on another node, its old node may come
  back later with an old file. The tools of lzy use the file of the newest commit. But a program on the old node opens
  the old file. So remove the old files from that node before the node joins the job again.
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
        out += "\n## A new node has replaced the lost one\n\nThe new node has the same name and mount point. Its disk is empty.\n"
        out += self.said(1, "lzy-verify", self.set)
        out += READING
        out += self.said(0, "lzy-restore", self.set)
        out += self.said(0, "lzy-verify", self.set)
        out += ("\nThe order of the nodes in the command does not matter. Members that share parity form a group. `lzy-restore`\n"
                "writes a lost member to a node that has no other member of its group. Now start the job again.\n")

        self.begin(1)
        out += "\n## A node was forgotten\n\nAll four nodes work, but the command runs on only two of them:\n"
        out += self.said(4, "lzy-verify", self.set, on=["n1", "n2"])
        out += ("\nThe sidecars record on which nodes the set was written. So the report can name the missing nodes. Type its first\n"
                "command, with all nodes. If you type `lzy-restore` on two nodes instead, it writes nothing.\n")

        self.begin(2)
        self.lose("n1", "n2")
        self.up = ["n3", "n4"]
        out += ("\n## There is no new node\n\n"
                "Two nodes are lost, and the job used `--parity 2`. `--lost` says that these nodes are gone for good. `--spread`\n"
                "distributes their members to the remaining nodes. First look at what would be done, with `--dry-run`. Then\n"
                "restore:\n")
        out += self.said(1, "lzy-restore", "--spread", "--lost", "n1,n2", "--dry-run", self.set)
        out += self.said(0, "lzy-restore", "--spread", "--lost", "n1,n2", self.set)
        out += AFTER_SPREAD

        self.begin(1)
        self.lose("n2", "n3")
        self.boot("n2", "n3")
        self.up = self.all
        out += ("\n## More nodes are gone than parity covers\n\n"
                "Two nodes are lost, and the job used `--parity 1`. `lzy-restore` writes nothing. It lists the lost bytes.\n")
        out += self.said(2, "lzy-restore", self.set)
        out += AFTER_LOSS

        self.begin(1)
        kept = self.save("n3")
        self.solve(20, parity=1)
        self.kill("n3")
        self.put_back("n3", kept)
        self.boot("n3")
        out += ("\n## A node comes back with an old disk\n\n"
                "The disk has a file of an older checkpoint, with its sidecar. Every commit has a number, its *generation*. The\n"
                "generation in this sidecar is smaller than that of the other members, so lzy does not use the sidecar. `lzy-restore`\n"
                "writes the file of the newest commit. It keeps the older file under another name, because somebody may\n"
                "have put it back on purpose. With `--force`, it does not keep it.\n")
        out += self.said(1, "lzy-verify", self.set)
        out += self.said(0, "lzy-restore", self.set)
        sys.stdout.write(out + TAIL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
