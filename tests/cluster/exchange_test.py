"""How parity is added up between nodes (option `exchange`): by MPI's reductions, or by messages of lzy's own."""

import json
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

    def cached(self):
        """The files with times of exchanges. All nodes share the directory."""
        folder = f"{self.shared}/.cache/lzy"
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("exchange-")]

    def way(self):
        """The way that sums of a commit go with exchange=auto: "mpi", or "messages"."""
        for node in self.all:
            for name in self.files(node):
                os.remove(self.disk(node, name))
        counts = self.write_set()
        self.assertEqual(len(counts), 4)
        ways = {"mpi" if count["reductions"] > 0 else "messages" for count in counts}
        self.assertEqual(len(ways), 1, counts)
        return ways.pop()

    def test_what_was_measured_is_kept_and_used(self):
        document = json.loads(self.tool(0, "lzy-info", "--tuning", "--json").stdout)
        [file] = self.cached()
        [measured] = document["exchange"]
        self.assertEqual(json.loads(self.content(file)), measured)
        self.assertEqual([measured[what] for what in ["schema", "ranks", "nodes", "most_on_node"]], ["lzy-exchange/1", 4, 4, 1])
        self.assertGreaterEqual(len(measured["classes"]), 2)
        shown = self.tool(0, "lzy-info", "--tuning", ranks=1, on=["n1"]).stdout
        self.assertIn("  4 processes on 4 nodes, at most 1 on each (", shown)
        # Another measurement could have had any of these results.
        for fastest in ["pairwise", "ring", "mpi"]:
            for one in measured["classes"]:
                one["microseconds"] = {way: 10.0 if way == fastest else 20.0 for way in one["microseconds"]}
                one["picked"] = fastest
            with open(file, "w", encoding="utf-8") as kept:
                json.dump(measured, kept)
            self.assertEqual(self.way(), "mpi" if fastest == "mpi" else "messages")
            self.assertIn(f"{fastest}", self.tool(0, "lzy-info", "--tuning", ranks=1, on=["n1"]).stdout)

    def test_a_damaged_file_is_as_none(self):
        self.tool(0, "lzy-info", "--tuning")
        [file] = self.cached()
        good = json.loads(self.content(file))
        for one in good["classes"]:
            one["microseconds"] = {way: 10.0 if way == "ring" else 20.0 for way in one["microseconds"]}
            one["picked"] = "ring"
        text = json.dumps(good)
        edited = [text.replace('"ring": 10.0', '"ring": -10.0', 1), text.replace('"nodes": 4', '"nodes": 3')]
        for damaged in [*edited, text[:-20], "[" * 65000, ""]:
            with open(file, "w", encoding="utf-8") as kept:
                kept.write(damaged)
            self.assertEqual(self.way(), "mpi")
        with open(file, "w", encoding="utf-8") as kept:
            kept.write(text)
        self.assertEqual(self.way(), "messages")

    def test_nodes_with_different_files_go_the_same_way(self):
        """Each node has a cache of its own. Only that of rank 0 counts."""
        self.tool(0, "lzy-info", "--tuning")
        [file] = self.cached()
        measured = json.loads(self.content(file))
        for node, fastest in zip(self.all, ["ring", "mpi", "pairwise", None]):
            for one in measured["classes"]:
                one["microseconds"] = {way: 10.0 if way == fastest else 20.0 for way in one["microseconds"]}
                one["picked"] = fastest or "mpi"
            folder = f"{self.shared}/{node}/lzy"
            os.makedirs(folder)
            with open(os.path.join(folder, os.path.basename(file)), "w", encoding="utf-8") as kept:
                kept.write(json.dumps(measured) if fastest else "{")
        script = f'XDG_CACHE_HOME={self.shared}/$(hostname) && export XDG_CACHE_HOME && exec "$@"'
        counts = self.run_counted(["sh", "-c", script, "sh", *self.solver(10)], layer=True, parity=1, set=self.set)
        self.assertEqual([count["reductions"] for count in counts], [0, 0, 0, 0])
        self.is_whole(self.contents())
