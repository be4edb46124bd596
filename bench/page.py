"""The results page: what was to be reached and whether it was, all numbers, and plots."""

import statistics

from bars import bars
from harness import MIB

MEMORY = 256  # MiB: the default of option memory
BESIDES = 64  # MiB that the layer may need besides


class Target:
    """What is to be reached. `value`: from the results by their names, None when they are not there; `need`: the bound, of
    which the value is at most (or, with `least`, at least); `form`: how a value is written."""

    def __init__(self, title, need, value, least=False, form="{:.2f}", note=None):
        self.title, self.need, self.value, self.least, self.form, self.note = title, need, value, least, form, note

    def row(self, results):
        """(what, bound, measured, reached): reached is True, False or None."""
        bound = ("≥ " if self.least else "≤ ") + self.form.format(self.need)
        try:
            value = self.value(results)
        except (KeyError, statistics.StatisticsError):
            value = None
        if value is None:
            return self.title, bound, "not measured", None
        measured = self.form.format(value) + (f" ({self.note(results)})" if self.note else "")
        return self.title, bound, measured, value >= self.need if self.least else value <= self.need


def layer_ratio(name, of=statistics.median):
    return lambda results: results[name].ratio("protected", "bare", "inside", of)


def speed(name, label):
    return lambda results: results[name].sides[label].gigabytes_per_second()


def faster(name, peer):
    """How many times as fast as `peer` lzy is, by bytes a second: in a repair the two may have lost different amounts."""
    def value(results):
        sides = results[name].sides
        return sides["lzy"].gigabytes_per_second() / sides[peer].gigabytes_per_second()
    return value


def touched(kind):
    return lambda results: results["touch"].ratio(kind, "full")


def more_memory(results, memory):
    """MiB that the layer adds to a rank, in the worst case of those measured with this option memory."""
    found = [max(r.sides["protected"].values("resident")) - r.sides["bare"].median("resident")
             for r in results.values() if "protected" in r.sides and (r.name == "memory") == (memory != MEMORY)]
    return max(found) / 1024 if found else None


TARGETS = [
    Target("2 ranks × 512 MiB, shared, 7+1, disk with sync: protected ÷ bare", 1.20, layer_ratio("disk"),
           note=lambda r: f"best against best {layer_ratio('disk', min)(r):.2f}"),
    Target("the same on tmpfs", 1.4, layer_ratio("tmpfs")),
    Target("bytes re-read for that checkpoint", 0, lambda r: max(r["tmpfs"].sides["protected"].values("reread")),
           form="{:.0f}"),
    Target("lzy-protect of 2 GiB, tmpfs, 2 threads: GB/s of data", 6, speed("protect", "lzy"), True),
    Target("– times as fast as SnapRAID sync", 2.3, faster("protect", "SnapRAID"), True),
    Target("– times as fast as par2 create", 15, faster("protect", "par2"), True),
    Target("lzy-verify of it: times as fast as cat", 1.2, faster("verify", "cat"), True),
    Target("– times as fast as SnapRAID check -a", 2, faster("verify", "SnapRAID"), True),
    Target("– times as fast as par2 verify", 10, faster("verify", "par2"), True),
    Target("repair of a lost eighth of it: times as fast as SnapRAID fix -d", 1.5, faster("repair", "SnapRAID"), True),
    Target("set, 256 MiB a rank, tmpfs, 2 ranks, XOR (the call alone): GB/s of data", 4,
           speed("set-protect 2 m=1", "the call alone"), True),
    Target("– 4 ranks, XOR", 2, speed("set-protect 4 m=1", "the call alone"), True),
    Target("– 4 ranks, Reed-Solomon, m = 2", 1.5, speed("set-protect 4 m=2", "the call alone"), True),
    Target("one of 4 × 256 MiB restored by 4 ranks ÷ reading the others and writing it", 1.5,
           lambda r: r["set-restore"].ratio("lzy-restore", "reading and writing", "inside")),
    Target("– whole process, s", 0.6, lambda r: r["set-restore"].sides["lzy-restore"].median()),
    Target("1 % of 1 GiB touched, sync and close ÷ full lzy-protect: contiguous", 0.03, touched("contiguous"),
           form="{:.3f}"),
    Target("– scattered in 164 blocks", 0.10, touched("scattered"), form="{:.3f}"),
    Target(f"memory beyond the program's own, MiB a rank, --memory {MEMORY}M", MEMORY + BESIDES,
           lambda r: more_memory(r, MEMORY), form="{:.0f}"),
    Target("– with --memory 64M", 64 + BESIDES, lambda r: more_memory(r, 64), form="{:.0f}"),
]


def table(header, rows):
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in (header, ["---"] * len(header), *rows)]
    return "\n".join(lines)


def reach(results):
    words = {True: "yes", False: "**no**", None: "–"}
    rows = [target.row(results) for target in TARGETS]
    missed = [row[0].lstrip("– ") for row in rows if row[3] is False]
    unmeasured = sum(row[3] is None for row in rows)
    text = table(["what", "target", "measured", "reached"], [(*row[:3], words[row[3]]) for row in rows])
    text += f"\n\n{len(rows) - len(missed) - unmeasured} of {len(rows)} reached, {len(missed)} not"
    return text + (f", {unmeasured} not measured." if unmeasured else ".")


def spread(side, field="seconds"):
    values = side.values(field)
    return f"{side.median(field):.3f} ({min(values):.3f}–{max(values):.3f})"


def mib(count):
    return f"{count / MIB:.1f}"


def layer_table(results):
    rows = []
    for result in results:
        bare, lzy = result.sides["bare"], result.sides["protected"]
        rows.append((result.title, spread(bare, "inside"), spread(lzy, "inside"),
                     *(f"{result.ratio('protected', 'bare', field, of):.2f}"
                       for field, of in (("inside", statistics.median), ("inside", min), ("seconds", statistics.median))),
                     mib(lzy.median("reread")), mib(lzy.median("captured")),
                     f"{(max(lzy.values('resident')) - bare.median('resident')) / 1024:.0f}", len(lzy.samples)))
    return table(["", "bare, s", "protected, s", "÷", "÷ of the best", "÷ of whole processes", "re-read, MiB",
                  "captured, MiB", "memory added, MiB a rank", "runs"], rows)


def sides_table(result):
    """One row a side; the last column says how many times as long the others took as the first one, byte for byte."""
    first = next(iter(result.sides.values()))
    rows = []
    for label, side in result.sides.items():
        rows.append((label, spread(side), spread(side, "inside") if side.values("inside") else "–", f"{side.gigabytes_per_second():.2f}",
                     f"{first.gigabytes_per_second() / side.gigabytes_per_second():.2f}",
                     f"{max(side.values('resident')) / 1024:.0f}" if any(side.values("resident")) else "–", len(side.samples)))
    rows += [(label, reason, "–", "–", "–", "–", 0) for label, reason in result.absent.items()]
    return table(["", "s", "by its own clock, s", "GB/s of data", f"{next(iter(result.sides))} is faster by",
                  "memory, MiB", "runs"], rows)


def commands(results):
    lines = []
    for result in results:
        for label, side in result.sides.items():
            lines.append(f"# {result.title}: {label}\n{side.command}")
    return "```\n" + "\n".join(lines) + "\n```"


def ratios_chart(title, results, mark=1):
    rows = []
    for result in results:
        bare = result.sides["bare"].median("inside")
        values = result.sides["protected"].values("inside")
        rows.append((result.title, statistics.median(values) / bare, min(values) / bare, max(values) / bare, True))
    return bars(title, "protected ÷ bare", rows, mark)


def speeds_chart(result):
    rows = []
    for label, side in result.sides.items():
        speeds = [side.bytes / 1e9 / seconds for seconds in side.values()]
        rows.append((label, side.gigabytes_per_second(), min(speeds), max(speeds), label.startswith("lzy")))
    return bars(result.title, "GB/s of data", rows)


def page(groups, described, slug):
    """groups: (title, explanation, results) in order; described: lines about machine and run. Returns the page and its
    plots, by file name."""
    by_name = {result.name: result for _, _, results in groups for result in results}
    plots = {}
    parts = [f"# Results: {slug}", "\n".join(f"- {line}" for line in described),
             "Made by `bench/run`; [how](README.md). GB are 10⁹ bytes. Medians; in brackets the least and the most.",
             "## Reach", reach(by_name)]
    for title, explanation, results in groups:
        parts += [f"## {title}", explanation]
        if all("bare" in result.sides for result in results):
            parts.append(layer_table(results))
            charts = [(title, ratios_chart(title, results))]
        else:
            charts = [(result.title, speeds_chart(result)) for result in results]
        for (name, chart), result in zip(charts, results):
            if "bare" not in result.sides:
                parts += [f"### {result.title}", sides_table(result)]
            file = f"run-{slug}-{'-'.join(''.join(c if c.isalnum() else ' ' for c in name.lower()).split())}.svg"
            plots[file] = chart
            parts.append(f"![{name}]({file})")
    parts += ["## Commands", "`$TMPFS` and `$DISK` are scratch directories of the run.",
              commands([result for _, _, results in groups for result in results])]
    return "\n\n".join(parts) + "\n", plots
