"""Option `exchange`: every way of adding up parity gives the same bytes, and what goes wrong beneath it is found."""

import functools
import os
import re
import unittest

import format_reader
from layered import BUILD, CLIENT, LAYER, Layer

REDUCTIONS = f"{BUILD}/tests/libreductions.so"
# With it, parity of sets is added up among ranks of one node, too. Otherwise they read each other's files.
NO_PAGES = f"{BUILD}/tests/libno_pages.so"
WAYS = ["auto", "mpi", "pairwise", "ring", "shared"]
RANKS = 4
GEOMETRY = {"parity": 2, "group": 4, "block_size": "4K", "stripe": "16K"}
AGAIN = "arrived damaged and were computed again"


class Exchange(Layer):
    def facts(self, *names):
        """Root and parity, as the independent reader computes them."""
        result = format_reader.check([self.path(name) for name in names])
        self.assertEqual((result.errors, result.lines), ([], []))
        [report] = result.reports
        return report["root"], report["parity_sha256"], [(m["data_root"], m["parity_root"]) for m in report["members"]]

    def counted(self):
        """What libreductions.so counted on all ranks since the last call."""
        sums = {"reductions": 0, "messages": 0, "damaged": 0}
        for name in self.files():
            if name.startswith("REDUCTIONS."):
                for what, count in re.findall(r"(\w+) (\d+)", self.content(name).decode()):
                    sums[what] += int(count)
                os.remove(self.path(name))
        return sums

    def run_counted(self, command, damage=0, **options):
        *sanitizers, layer = LAYER.split(":")
        preload = ":".join([*sanitizers, REDUCTIONS, NO_PAGES, layer])
        settings = [f"LD_PRELOAD={preload}", f"REDUCTIONS={self.dir}", *([f"REDUCTIONS_DAMAGE={damage}"] if damage else [])]
        done = self.run_program(["env", *settings, *command], ranks=RANKS, layer=False, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def remove_sidecars(self):
        for file in self.files():
            if file.startswith(".LZY."):
                os.remove(self.path(file))

    def write(self, name, **options):
        self.remove_sidecars()
        return self.run_counted([f"{BUILD}/examples/heat3d", "--size", "48", "--steps", "2", "--every", "2", "--checkpoint", name],
                                **GEOMETRY, **options)

    def write_set(self, **options):
        return self.write("s.%r", set="s.%r", **options)

    MEMBERS = [f"s.{rank}" for rank in range(RANKS)]

    def same_by_all_ways(self, write, name, *names):
        found = {}
        for way in WAYS:
            self.assertEqual(write(exchange=way).stderr, "")
            found[way] = self.facts(*names)
            counted = self.counted()
            self.assertEqual(counted["reductions"] > 0, way == "mpi", (way, counted))
            if name != "f":  # MPI itself sends messages for collective writes
                self.assertEqual(counted["messages"] > 0, way in ("pairwise", "ring"), (way, counted))
        self.assertEqual(len(set(map(str, found.values()))), 1, found)

    def test_all_ways_give_the_same_bytes(self):
        self.same_by_all_ways(self.write_set, "s.%r", *self.MEMBERS)

    def test_all_ways_give_the_same_bytes_of_a_shared_file(self):
        self.same_by_all_ways(functools.partial(self.write, "f"), "f", "f")

    def test_the_hint_of_a_file_counts(self):
        """Of a shared file. Sets go by the environment."""
        for way in ["mpi", "pairwise"]:
            environment = "ring" if way == "mpi" else "mpi"
            done = self.run_counted([CLIENT, "with_hint", "f", f"lzy_exchange={way}"], exchange=environment, **GEOMETRY)
            self.assertEqual(done.stderr, "")
            self.assertEqual(self.counted()["reductions"] > 0, way == "mpi", way)

    def test_damage_beneath_each_way_is_found(self):
        """One bit of one contribution is wrong. The sums are made again, and the parity is right."""
        self.write_set()
        right = self.facts(*self.MEMBERS)
        self.counted()
        for way in ["mpi", "pairwise", "ring"]:
            for which in [1, 2]:  # blocks; for mpi, also their check words
                with self.subTest(way=way, which=which):
                    done = self.write_set(exchange=way, damage=which)
                    self.assertEqual(self.counted()["damaged"], 1)
                    self.assertIn(AGAIN, done.stderr)
                    self.assertEqual(self.facts(*self.MEMBERS), right)


if __name__ == "__main__":
    unittest.main()
