"""What bench/run makes of its measurements; it measures nothing here."""

import math
import os
import resource
import sys
import types
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench"))

import importlib.machinery
import importlib.util

import bars
import behaviour
import harness
import page


def script(name):
    """A script of bench/, which has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(os.path.dirname(page.__file__), name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


peers = script("peers")
cores = script("cores")


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

    def test_memory_of_the_script_is_not_that_of_a_program(self):
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assertEqual(harness.own_memory(own), 0)
        self.assertGreater(harness.own_memory(10 * own), 0)

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


class Peers(unittest.TestCase):
    """What docs/performance/peers.md says first: where lzy loses."""

    def result(self, **sides):
        result = harness.Result("verify", "verify")
        result.sides = {label: side(seconds, resident=1024 * mib) for label, (seconds, mib) in sides.items()}
        return result

    def test_a_kind_of_copy_may_be_measured_with_one_load_only(self):
        text = peers.copies_table({"large": ({"cp": [1], "dd": [3]}, 1 << 20), "small": ({"cp": [2]}, 1 << 20)})
        self.assertIn("| dd | 3.00 (3.00) | – |", text)

    def test_whoever_is_faster_is_named_the_fastest_first(self):
        results = [self.result(lzy=(3, 1), cat=(1, 1), par2=(30, 1), other=(2, 1)), self.result(lzy=(1, 1), cat=(2, 1))]
        line, = peers.slower(results)
        self.assertEqual(line, "Slower: verify. Faster are cat (3.00 times as fast), other (1.50 times as fast).")

    def test_who_needs_less_space_or_memory(self):
        lines = list(peers.larger([self.result(lzy=(1, 100), cat=(1, 10), par2=(1, 200))], {"lzy": .15, "par2": .14, "x": .16}))
        self.assertEqual(lines, ["More space (15.0% of the data): par2 (14.0%) need less.",
                                 "More memory (100 MiB at most): cat (10 MiB) need less."])

    def test_copies(self):
        line, = peers.slower_copies({"large": ({"cp": [1], "rsync": [5], "lzy-copy": [2], "lzy-copy --resume": [1]}, 1)})
        self.assertEqual(line, "Slower: copies, large files (2.00 times the time of cp). Faster are cp (2.00 times as fast).")

    def test_what_only_others_repair(self):
        trials = [("a", {"lzy": "8 bytes wrong or missing (exit 2)", "par2": "all right (exit 0)", "rsync": "–"}),
                  ("b", {"lzy": "all right (exit 0)", "par2": "all right (exit 0)"}),
                  ("c", {"lzy": "1 byte wrong (exit 2)", "par2": "1 byte wrong (exit 1)"})]
        self.assertEqual(list(peers.worse(trials)), ["Fails: a — 8 bytes wrong or missing (exit 2). All right with par2."])

    def test_outcomes(self):
        """Wrong bytes are bold only if the exit code hides them."""
        subject = types.SimpleNamespace(at=lambda name: f"/nowhere/{name}")
        original = [b"ab"] * behaviour.FILES
        for code, text in ((1, "16 bytes wrong or missing (exit 1)"), (0, "**16 bytes wrong or missing** (exit 0)")):
            self.assertEqual(behaviour.outcome(subject, original, types.SimpleNamespace(code=code)), text)


class Cores(unittest.TestCase):
    def test_steps_are_powers_of_two_and_all_cores(self):
        for count, steps in ((1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (16, [1, 2, 4, 8, 16]), (24, [1, 2, 4, 8, 16, 24])):
            with self.subTest(count):
                self.assertEqual(cores.steps(count), steps)

    def test_steps_can_be_given(self):
        self.assertEqual(cores.numbers("16,1,4"), [1, 4, 16])
        self.assertEqual(cores.numbers(""), [])

    def test_the_first_round_does_not_count_and_what_cannot_be_done_is_left_out(self):
        seconds = {1: [9, 1, 3, 2], 2: [9, 5, 6, 7]}
        found = cores.measured(3, lambda count: {"calls": seconds[count].pop(0), "direct": None if count == 2 else 1}, 1, 2)
        self.assertEqual(found, {1: {"calls": 2, "direct": 1}, 2: {"calls": 6}})

    def test_speeds_are_held_to_one_thread_and_to_the_limit(self):
        rows = cores.speed_rows(8, {1: {"protect": 2}, 16: {"protect": .25}}, {1: {"protect": 1}, 16: {"protect": .2}})
        self.assertEqual(rows, [[1, "4.00", "1.0", "8.00", "0.50"], [16, "32.00", "8.0", "40.00", "0.80"]])

    def test_ways_that_do_not_exist_here_have_no_speed(self):
        found = {("calls", "seconds"): 2, ("calls", "processor"): 3}
        self.assertEqual(cores.way_rows(4, {2: found}), [[2, "2.00 (0.75)", "–", "–", "–"]])

    def test_seconds_of_ranks_are_told_without_the_start(self):
        self.assertEqual(cores.rank_rows({16: {"protect": 1.5}}, {16: 1}), [[16, "1.00", "1.50 (0.50)"]])


if __name__ == "__main__":
    unittest.main()
