"""The results page: what was to be reached and whether it was, all numbers, and plots."""

# bench/run has measured, this only writes. Nothing here depends on time or machine, so the same results make the same
# page (tests/bench). The page begins with the targets: whoever changes lzy must see first what that made slower.

import math
import statistics

from archives import PEERS
from bars import bars
from harness import MIB, table
from sets import KINDS, alone, least

MEMORY = 256  # MiB: the default of option memory
BESIDES = 64  # MiB that the layer may need besides


class Target:
    """What is to be reached. `value`: from the results by their names, None when they are not there; `need`: the bound, of
    which the value is at most (or, with `least`, at least); `form`: how a value is written."""

    def __init__(self, title, need, value, least=False, form="{:.3f}", note=None):
        self.title, self.need, self.value, self.least, self.form, self.note = title, need, value, least, form, note

    def row(self, results):
        """(what, bound, measured, reached): reached is True, False or None."""
        bound = f"{'≥' if self.least else '≤'} {self.need:g}"
        # With --only, or without a peer, some results are missing. That is neither reached nor missed.
        try:
            value = self.value(results)
        except (KeyError, statistics.StatisticsError):
            value = None
        if value is None:
            return self.title, bound, "not measured", None
        note = self.note(results) if self.note else ""
        measured = self.form.format(value) + (f" ({note})" if note else "")
        return self.title, bound, measured, value >= self.need if self.least else value <= self.need


# Ratios of a program's own clock: the start of MPI, the same on both sides, would make every ratio look better.
def layer_ratio(name):
    return lambda results: results[name].ratio("protected", "bare", "inside", fair(results[name]))


def fair(result):
    """Which runs of a side are compared: the best if the machine is noisy, so that bare runs differ by more than a fifth."""
    values = result.sides["bare"].values("inside")
    return min if max(values) > 1.2 * min(values) else statistics.median


def least_ratio(name):
    """The note of such a target: the other way to compare, and what it would be if only the bytes had to be moved and added."""
    def note(results):
        result = results[name]
        of = fair(result)
        other, words = (statistics.median, "best against best; medians") if of is min else (min, "medians; best against best")
        least = result.ratio("least", "bare", "inside", of)
        return f"{words} {result.ratio('protected', 'bare', 'inside', other):.2f}" + (f"; the least {least:.2f}" if least else "")
    return note


def speed(name, label):
    return lambda results: results[name].sides[label].gigabytes_per_second()


def faster(name, peer):
    """How many times as fast as `peer` lzy is, by bytes a second: in a repair the two may have lost different amounts."""
    return lambda results: speed(name, "lzy")(results) / speed(name, peer)(results)


def bound(ranks, m):
    """What the machine gives for the bytes alone."""
    return lambda results: f"reading and writing alone {speed('set-protect', least(ranks, m))(results):.2f}"


def touched(kind):
    return lambda results: results["touch"].ratio(kind, "full")


def one_block(results):
    return f"one block alone {touched('block')(results):.3f}"


def by_time(results):
    """The two may have lost different amounts."""
    return f"by time alone {results['repair'].ratio('SnapRAID', 'lzy'):.3f}"


def more_memory(results, memory):
    """MiB that the layer adds to a rank, in the worst case of those measured with this option memory."""
    # The most that a protected run needed, less what is usual without: not a difference of two medians, since memory
    # that is needed once must be there.
    found = [max(r.sides["protected"].values("resident")) - r.sides["bare"].median("resident")
             for r in results.values() if "protected" in r.sides and (r.name == "memory") == (memory != MEMORY)]
    return max(found) / 1024 if found else None


def worst_idiom(results):
    found = [max(r.sides["protected"].values("reread")) / r.sides["protected"].bytes for r in results.values()
             if r.name.startswith("idiom ") and "protected" in r.sides]
    return max(found) if found else None


# A target that is missed stays here, and the page says so.
TARGETS = [
    Target("2 ranks × 512 MiB, shared, 7+1, disk with sync: protected ÷ bare", 1.20, layer_ratio("disk"),
           note=least_ratio("disk")),
    Target("the same on tmpfs", 1.25, layer_ratio("tmpfs"), note=least_ratio("tmpfs")),
    Target("– m = 2", 1.5, layer_ratio("shared m=2"), note=least_ratio("shared m=2")),
    Target("– strided, collective", 1.4, layer_ratio("pattern strided-collective"), note=least_ratio("pattern strided-collective")),
    Target("– strided, independent", 1.4, layer_ratio("pattern strided-independent"), note=least_ratio("pattern strided-independent")),
    Target("– odd pieces", 1.5, layer_ratio("pattern strided-odd"), note=least_ratio("pattern strided-odd")),
    Target("– HDF5", 1.4, layer_ratio("pattern hdf5"), note=least_ratio("pattern hdf5")),
    Target("set of 4 × 256 MiB on tmpfs, m = 1: protected ÷ bare", 1.6, layer_ratio("set 4 m=1"), note=least_ratio("set 4 m=1")),
    Target("– m = 2", 2.6, layer_ratio("set 4 m=2"), note=least_ratio("set 4 m=2")),
    Target("– 2 ranks, m = 1", 2.3, layer_ratio("set 2 m=1"), note=least_ratio("set 2 m=1")),
    Target("share of the file that the worst opening idiom has read back", 0.01, worst_idiom),
    Target("bytes re-read for that checkpoint", 0, lambda r: max(r["tmpfs"].sides["protected"].values("reread")),
           form="{:.0f}"),
    Target("lzy-protect of 2 GiB, tmpfs, 2 threads: GB/s of data", 6, speed("protect", "lzy"), True),
    Target("– times as fast as SnapRAID sync", 2.5, faster("protect", "SnapRAID"), True),
    Target("– times as fast as par2 create", 15, faster("protect", "par2"), True),
    Target("lzy-verify of it: times as fast as cat", 1.2, faster("verify", "cat"), True),
    Target("– times as fast as SnapRAID check -a", 2, faster("verify", "SnapRAID"), True),
    Target("– times as fast as par2 verify", 10, faster("verify", "par2"), True),
    Target("repair of a lost eighth of it: times as fast as SnapRAID fix -d", 2, faster("repair", "SnapRAID"), True,
           note=by_time),
    Target("set, 256 MiB a rank, tmpfs, 2 ranks, XOR (the call alone): GB/s of data", 4,
           speed("set-protect", alone(2, 1)), True, note=bound(2, 1)),
    Target("– 4 ranks, XOR", 2, speed("set-protect", alone(4, 1)), True, note=bound(4, 1)),
    Target("– 4 ranks, Reed-Solomon, m = 2", 1.5, speed("set-protect", alone(4, 2)), True, note=bound(4, 2)),
    Target("one of 4 × 256 MiB restored by 4 ranks ÷ reading the others and writing it", 1.5,
           lambda r: r["set-restore"].ratio("lzy-restore", "reading and writing", "inside")),
    Target("– whole process, s", 0.6, lambda r: r["set-restore"].sides["lzy-restore"].median()),
    Target("1 % of 1 GiB touched, sync and close ÷ full lzy-protect: contiguous", 0.03, touched("contiguous"), note=one_block),
    Target("– scattered in 164 blocks", 0.06, touched("scattered"), note=one_block),
    Target(f"memory beyond the program's own, MiB a rank, --memory {MEMORY}M", MEMORY + BESIDES,
           lambda r: more_memory(r, MEMORY), form="{:.0f}"),
    Target("– with --memory 64M", 64 + BESIDES, lambda r: more_memory(r, 64), form="{:.0f}"),
]


# Bars of these have the second colour. All others are lzy.
PEER_LABELS = {kind.label for kind in PEERS} | {"reading and writing"} | {least(*kind) for kind in KINDS}


def reach(results):
    words = {True: "yes", False: "**no**", None: "–"}
    rows = [target.row(results) for target in TARGETS]
    count = {word: sum(row[3] is reached for row in rows) for reached, word in words.items()}
    text = table(["what", "target", "measured", "reached"], [(*row[:3], words[row[3]]) for row in rows])
    text += f"\n\n{count['yes']} of {len(rows)} reached, {count['**no**']} not"
    return text + (f", {count['–']} not measured." if count["–"] else ".")


def number(value):
    """Three digits, and never an exponent."""
    # More digits would be those of the noise.
    return f"{value:.0f}" if value >= 100 else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


# What a bar and its line show.
def summary(values):
    return statistics.median(values), min(values), max(values)


def spread(side, field="seconds"):
    median, least, most = map(number, summary(side.values(field)))
    return f"{median} ({least}–{most})"


def layer_table(results):
    # The columns after the medians: of the best runs, which a disturbance meets least, and of whole processes, which is
    # what a user waits for.
    rows = []
    for result in results:
        if result.absent:
            rows.append((result.title, *result.absent.values()) + ("–",) * 9)
            continue
        bare, lzy = result.sides["bare"], result.sides["protected"]
        rows.append((result.title, spread(bare, "inside"), spread(lzy, "inside"),
                     *(f"{result.ratio('protected', 'bare', field, of):.2f}"
                       for field, of in (("inside", statistics.median), ("inside", min), ("seconds", statistics.median))),
                     f"{result.ratio('least', 'bare', 'inside'):.2f}" if "least" in result.sides else "–",
                     *(f"{lzy.median(field) / MIB:.1f}" for field in ("reread", "captured")),
                     f"{(max(lzy.values('resident')) - bare.median('resident')) / 1024:.0f}", len(lzy.samples)))
    return table(["", "bare, s", "protected, s", "÷", "÷ of the best", "÷ of whole processes", "the least ÷", "re-read, MiB",
                  "captured, MiB", "memory added, MiB a rank", "runs"], rows)


def sides_table(result):
    """One row a side; a column of ratios to the first."""
    first = next(iter(result.sides))
    # Columns that would be empty in all rows are left out.
    own_clock = any(side.values("inside") for side in result.sides.values())
    rows = []
    for label, side in result.sides.items():
        inside = [spread(side, "inside"), number(result.ratio(label, first, "inside"))] if own_clock else []
        memory = max(side.values("resident")) / 1024
        rows.append((label, spread(side), number(result.ratio(label, first)), *inside, number(side.gigabytes_per_second()),
                     f"{memory:.0f}" if memory else "–", len(side.samples)))
    rows += [(label, reason) + ("–",) * (4 + 2 * own_clock) for label, reason in result.absent.items()]
    inside = ["by its own clock, s", f"÷ {first}"] if own_clock else []
    return table(["", "s", f"÷ {first}", *inside, "GB/s of data", "memory, MiB", "runs"], rows)


# So that a reader can repeat one of them without this script.
def commands(results):
    lines = [f"# {result.title}: {label}\n{side.command}" for result in results for label, side in result.sides.items()]
    return "\n".join(["```", *lines, "```"])


def ratios_plot(title, results):
    rows = []
    for result in results:
        if not result.absent:
            # Each protected run divided by the median of the bare ones. The black line is the spread of protected runs.
            bare = result.sides["bare"].median("inside")
            ratios = [seconds / bare for seconds in result.sides["protected"].values("inside")]
            rows.append((result.title, *summary(ratios), True))
    return bars(title, "time protected ÷ bare", rows, mark=1)


def sides_plot(result):
    rows = []
    for label, side in result.sides.items():
        values = [side.bytes / 1e9 / seconds if result.plot == "speed" else seconds for seconds in side.values()]
        rows.append((label, *summary(values), label not in PEER_LABELS))
    return bars(result.title, "GB/s of data" if result.plot == "speed" else "s", rows)


def page(found, described, slug):
    """found: (group: its name, title and explanation; results) in order; described: lines about machine and run. Returns
    the page and its plots, by file name."""
    every = [result for _, results in found for result in results]
    plots = {}

    def plot(name, svg):
        file = f"run-{slug}.{name}.svg"
        plots[file] = svg
        return f"![{name}]({file})"

    parts = [f"# Results: {slug}", "\n".join(f"- {line}" for line in described),
             "Made by `bench/run` ([how](README.md)). GB are 10⁹ bytes. Values are medians; the least and the most are in brackets.",
             "## Targets", reach({result.name: result for result in every})]
    for group, results in found:
        parts += [f"## {group.title}", group.explanation]
        # A group of the layer is one table with a row for each comparison. All other comparisons have a table each.
        if "protected" in (*results[0].sides, *results[0].absent):
            parts += [layer_table(results), plot(group.name, ratios_plot(group.title, results))]
            continue
        for result in results:
            parts += [f"### {result.title}", sides_table(result), plot(result.name, sides_plot(result))]
    parts += ["## Commands", "`$TMPFS` and `$DISK` are scratch directories of the run.", commands(every)]
    return "\n\n".join(parts) + "\n", plots
