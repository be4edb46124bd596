"""How parity is added up between nodes (option `exchange`): by MPI's reductions, or by messages of lzy's own."""

import os
import re
import shutil
import sys

import nodes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../format"))
import format_reader  # noqa: E402

REDUCTIONS = f"{nodes.BUILD}/tests/libreductions.so"


class ExchangeBetweenNodes(nodes.Nodes):
    """Four nodes with UTS and IPC namespaces of their own, so no memory is shared."""

    def run_counted(self, words, layer, **options):
        """Runs it on all nodes; what libreductions.so counted on each rank that called anything."""
        preload = ":".join([REDUCTIONS, *([nodes.LAYER] if layer else [])])
        counts = f"{self.shared}/counts"
        os.mkdir(counts)
        script = f'REDUCTIONS={counts}/$(hostname) && export REDUCTIONS && mkdir -p "$REDUCTIONS" && exec "$@"'
        done = self.run_job(["env", f"LD_PRELOAD={preload}", "sh", "-c", script, "sh", *words], **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        found = []
        for folder, _, names in os.walk(counts):
            for name in names:
                text = self.content(os.path.join(folder, name)).decode()
                found.append({what: int(count) for what, count in re.findall(r"(\w+) (\d+)", text)})
        shutil.rmtree(counts)
        return found

    def write_set(self, **options):
        return self.run_counted(self.solver(10), layer=True, parity=1, set=self.set, **options)

    def facts(self):
        """Root and parity, as the independent reader computes them from copies of the members and their sidecars."""
        copies = f"{self.dir}/copies"
        os.mkdir(copies)
        names = []
        for rank, node in enumerate(self.all):
            for name in [f"state.{rank}", f".LZY.state.{rank}"]:
                shutil.copy2(self.disk(node, name), copies)
            names.append(f"{copies}/state.{rank}")
        result = format_reader.check(names)
        shutil.rmtree(copies)
        self.assertEqual(result.errors, [])
        for line in result.lines:
            self.assertIn(": stamp: inode: ", line)  # they are copies
        [report] = result.reports
        return report["root"], report["parity_sha256"]

    def test_reductions_add_up_parity_if_the_user_says_so(self):
        found = {}
        for way in ["mpi", "pairwise", "ring", "shared", "auto"]:
            for node in self.all:
                for name in self.files(node):
                    os.remove(self.disk(node, name))
            counts = self.write_set(exchange=way)
            self.assertEqual(len(counts), 4, way)
            for count in counts:
                # Without a measurement, MPI adds up parity between nodes.
                by_mpi = way in ("mpi", "shared", "auto")
                self.assertEqual((count["reductions"] > 0, count["messages"] > 0), (by_mpi, not by_mpi), (way, counts))
            found[way] = self.facts()
        self.assertEqual(len(set(found.values())), 1, found)

    def test_a_lost_member_comes_back_by_a_reduction(self):
        self.solve(10)
        contents = self.contents()
        for way in ["mpi", "pairwise", "ring"]:
            self.lose("n3")
            self.boot("n3")
            counts = self.run_counted([f"{nodes.BUILD}/bin/lzy-restore", "--quiet", "--exchange", way, self.set], layer=False)
            self.assertEqual(len(counts), 4 if way == "mpi" else 3, counts)  # by messages, the owner only receives
            for count in counts:
                self.assertEqual(count["reductions"] > 0, way == "mpi", (way, counts))
            self.is_whole(contents)
