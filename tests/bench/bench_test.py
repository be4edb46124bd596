"""What bench/run makes of its measurements; it measures nothing here."""

import math
import os
import sys
import types
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench"))

import bars
import harness
import page


def side(*seconds, size=10**9, **fields):
    return harness.Side("command", size, [harness.Sample(value, value / 2, **fields) for value in seconds])


class Rounds(unittest.TestCase):
    def bench(self, repeat):
        return harness.Bench("/b", "/t", "/d", "/usr/bin/mpiexec.mpich", repeat)

    def alternate(self, repeat, patience=math.inf, **times):
        self.order = []

        def measure(label):
            self.order.append(label)
            return harness.Sample(times[label].pop(0))

        sides = {label: (["x"], 1, lambda label=label: measure(label)) for label in times}
        result = self.bench(repeat).alternate(harness.Result("n", "t"), sides, patience=patience)
        return {label: found.values() for label, found in result.sides.items()}

    def test_sides_take_turns_and_the_first_round_does_not_count(self):
        self.assertEqual(self.alternate(2, a=[9, 1, 2], b=[8, 3, 4]), {"a": [1, 2], "b": [3, 4]})
        self.assertEqual(self.order, ["a", "b"] * 3)

    def test_a_slow_program_runs_once(self):
        self.assertEqual(self.alternate(2, 15, a=[16], b=[15, 3, 4]), {"a": [16], "b": [3, 4]})

    def test_medians_and_ratios(self):
        result = harness.Result("n", "t", sides={"a": side(4, 1, 2), "b": side(2, 3)})
        self.assertEqual(result.sides["a"].median(), 2)
        self.assertEqual(result.ratio("a", "b"), 2 / 2.5)
        self.assertEqual(result.ratio("a", "b", "inside", min), 1 / 2)
        self.assertIsNone(result.ratio("a", "c"))
        self.assertEqual(result.sides["a"].gigabytes_per_second(), 0.5)

    def test_commands_are_shown_without_paths_of_the_machine(self):
        self.assertEqual(self.bench(1).shown(["/usr/bin/mpiexec.mpich", "-n", 2, "/b/bin/x", "/t", "/tx", "/d/a b"]),
                         "mpiexec -n 2 build/bin/x $TMPFS /tx '$DISK/a b'")

    def test_a_program_that_fails_is_no_result(self):
        with self.assertRaisesRegex(harness.Failed, "exit code 3: so it is"):
            harness.run(["sh", "-c", "echo so it is >&2; exit 3"])


class Page(unittest.TestCase):
    def test_targets(self):
        for value, least, reached in [(2, False, True), (2.01, False, False), (2, True, True), (1.99, True, False)]:
            with self.subTest(value=value, least=least):
                target = page.Target("t", 2, lambda _, value=value: value, least)
                self.assertEqual(target.row({}), ("t", "≥ 2" if least else "≤ 2", f"{value:.3f}", reached))

    def test_a_side_without_a_result_is_neither_reached_nor_missed(self):
        result = harness.Result("protect", "t", sides={"lzy": side(0.25)}, absent={"par2": "not there"})
        text = page.reach({"protect": result})
        self.assertIn("| lzy-protect of 2 GiB, tmpfs, 2 threads: GB/s of data | ≥ 6 | 4.000 | **no** |", text)
        self.assertIn("| – times as fast as par2 create | ≥ 15 | not measured | – |", text)
        self.assertIn(f"0 of {len(page.TARGETS)} reached, 1 not, {len(page.TARGETS) - 1} not measured.", text)
        self.assertIn("| par2 | not there |", page.sides_table(result))

    def test_memory_is_that_of_the_worst_case_with_the_same_option(self):
        def case(name, bare, protected):
            return harness.Result(name, name, sides={"bare": side(1, resident=bare), "protected": side(1, resident=protected)})
        results = {r.name: r for r in (case("tmpfs", 1024, 2048), case("disk", 1024, 4096), case("memory", 0, 9 * 1024))}
        self.assertEqual((page.more_memory(results, 256), page.more_memory(results, 64)), (3, 9))

    def test_numbers(self):
        for value, text in [(0, "0"), (0.01234, "0.0123"), (1.005, "1.00"), (12.34, "12.3"), (123.4, "123"), (99.99, "100.0")]:
            self.assertEqual(page.number(value), text)

    def test_page_and_plots(self):
        layer = harness.Result("tmpfs", "shared <&>", sides={
            "bare": side(1, 2, 3, resident=1024), "protected": side(2, 3, 4, resident=2048, reread=0, captured=1 << 20)})
        no_layer = harness.Result("hdf5", "HDF5", absent={"protected": "not there"})
        peers = harness.Result("verify", "Verify", sides={"lzy": side(1), "cat": side(2)}, absent={"par2": "not there"})
        groups = [(types.SimpleNamespace(name=found[0].name, title=found[0].name, explanation="e"), found)
                  for found in ([layer, no_layer], [peers])]
        text, plots = page.page(groups, ["a machine"], "slug")
        self.assertIn("| shared <&> | 1.00 (0.500–1.50) | 1.50 (1.00–2.00) | 1.50 | 2.00 | 1.50 | – | 0.0 | 1.0 | 1 | 3 |", text)
        self.assertIn("| cat | 2.00 (2.00–2.00) | 2.00 |", text)
        for lines in (part.splitlines() for part in text.split("\n\n") if part.startswith("|")):
            self.assertEqual(len({line.count("|") for line in lines}), 1, lines)
        self.assertEqual(set(plots), {"run-slug.tmpfs.svg", "run-slug.verify.svg"})
        for name, plot in plots.items():
            self.assertIn(f"]({name})", text)
            xml.etree.ElementTree.fromstring(plot)
        self.assertEqual((text, plots), page.page(groups, ["a machine"], "slug"))

    def test_bars_are_as_long_as_their_values(self):
        svg = xml.etree.ElementTree.fromstring(bars.bars("t", "s", [("a", 1, 1, 1, True), ("b", 2, 2, 2, False)]))
        widths = [float(r.get("width")) for r in svg.iter("{http://www.w3.org/2000/svg}rect") if r.get("width") != "100%"]
        self.assertEqual(widths, [bars.WIDTH / 2, bars.WIDTH])


if __name__ == "__main__":
    unittest.main()
