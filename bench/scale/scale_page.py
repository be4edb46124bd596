"""The page of simulated scale: tables beside the papers' figures, plots, and the text around them, which is at the end
of this file. No number that was simulated is in the text."""

import statistics

from bars import bars
from harness import table
from scale_parameters import CPUS, DISKS, NETWORKS

PAPER_BLOCK = 512 * 1024
# Seconds, from table 1 of the Lazy Redundancy paper: create file, write parity, restore.
PAPER = {
    "fast-ethernet": {4: (0.040, 0.013, 0.307), 16: (0.193, 0.013, 1.310), 64: (0.810, 0.013, 5.490),
                      128: (1.632, 0.013, 15.06)},
    "myrinet": {4: (0.041, 0.013, 0.092), 16: (0.155, 0.013, 0.425), 32: (0.319, 0.013, 1.212),
                64: (0.645, 0.013, 1.696)},
}
# Microseconds, of the topology paper: 24 processors with the best group count; 4 bytes, mean over processor counts.
TOPOLOGY_PAPER = {"pipelined": (806, 1776), "daisy": (338, 1429), "hierarchical": (1625, 4610),
                  "hypercube": (1168, 1888)}
# All topologies by their names in option `topology`; bcast is MPI's own.
WAYS = ("pipelined", "daisy", "hierarchical", "hypercube", "bcast")
# Bytes of each rank: little enough to simulate 4,096 ranks in minutes.
WEAK_DATA = 8 << 20
WEAK_RANKS = (16, 32, 64, 256, 1024, 4096)
# what, group, network, disk, processor: those on a network of 2004 to 256 ranks, since they only repeat the others at
# other rates
WEAK = [(what, group, "200G", "nvme", "today") for what in ("protect", "restore") for group in (8, 16, 32)]
WEAK += [("protect", 8, "myrinet", disk, "2004") for disk in ("slow", "fast")]
MOST_OF_2004 = 256
# Ways of option exchange between nodes, in the order of lzy-info --tuning. An exchange of p ranks takes p² messages, of which a
# simulator makes some 10,000 a second.
EXCHANGE_WAYS = ("mpi", "pairwise", "ring")
EXCHANGE_RANKS = (16, 64, 128)
EXCHANGE_SIZES = [4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 8 << 20, 32 << 20]
BESIDE = {4: (), 16: (8,), 32: (8, 16), 64: (8, 16, 32), 128: (8, 16, 32, 64)}  # groups beside one of all ranks


def seconds(value):
    return "–" if value is None else f"{value:.3f}"


def table_one_row(ranks, group, protect, restore, paper=(None, None, None)):
    # The file is created before protection, at the speed of the disk; nothing of lzy is in that column.
    create = (ranks - 1) * PAPER_BLOCK / DISKS["2004"].write
    cells = (create, paper[0], protect["read"], protect["exchange"] + protect["compute"], protect["write"], paper[1],
             protect["seconds"], restore["seconds"], paper[2])
    return [ranks, group, *map(seconds, cells)]


def table_one(simulator, network):
    head = ["devices", "group", "create", "(paper)", "read", "exchange and compute", "write parity", "(paper)",
            "protect in all", "restore", "(paper)"]
    rows = []
    for ranks, paper in PAPER[network].items():
        for group in (ranks, *BESIDE[ranks]):
            data = (ranks - 1) * PAPER_BLOCK
            at = (network, "2004", "2004", ranks)
            protect = simulator.rows(*at, "protect", group, data)
            restore = simulator.rows(*at, "restore", group, data)
            rows.append(table_one_row(ranks, group, protect, restore, paper if group == ranks else (None, None, None)))
    return table(head, rows)


def ways(simulator):
    rows = []
    for ranks, group in ((16, 16), (16, 8)):
        at = ("fast-ethernet", "2004", "2004", ranks)
        found = [simulator.rows(*at, "restore", group, (ranks - 1) * PAPER_BLOCK, way=way) for way in ("pairwise", "auto")]
        rows.append([ranks, group, *(seconds(f["seconds"]) for f in found),
                     f"{found[0]['seconds'] / found[1]['seconds']:.1f}"])
    return table(["devices", "group", "restore in pairs", "restore as lzy chooses", "times"], rows)


def exchanges(simulator, most):
    """(table of the ways of one exchange, how much slower than the best way the chosen one is at most)"""
    rows, worst = [], 0
    for network in ("fast-ethernet", "200G"):
        for ranks in (ranks for ranks in EXCHANGE_RANKS if ranks <= most):
            for found in simulator.run(network, ranks, "exchange", sizes=EXCHANGE_SIZES)["exchanges"]:
                ratio = found[found["auto"]] / min(found[way] for way in EXCHANGE_WAYS)
                worst = max(worst, ratio)
                rows.append([network, ranks, found["shape"], f"{found['bytes'] >> 10} KiB",
                             *(f"{found[way] * 1e6:.4g}" for way in EXCHANGE_WAYS), found["auto"], f"{ratio:.2f}"])
    return table(["network", "ranks", "shape", "bytes of a rank", *EXCHANGE_WAYS, "auto", "÷ best"], rows), worst


def ways_of_groups(simulator, most):
    """(table of all rows of a set by each way, at as many ranks as are simulated; how much slower than the best way auto is)"""
    rows, worst = [], 0
    for network in ("fast-ethernet", "200G"):
        for what in ("protect", "restore"):
            for group in (8, 16, 32):
                found = {way: simulator.rows(network, "nvme", "today", most, what, group, WEAK_DATA, way=way)["seconds"]
                         for way in (*EXCHANGE_WAYS, "auto")}
                ratio = found["auto"] / min(found[way] for way in EXCHANGE_WAYS)
                worst = max(worst, ratio)
                rows.append([network, what, group, *(f"{found[way] * 1e3:.4g}" for way in (*EXCHANGE_WAYS, "auto")), f"{ratio:.3f}"])
    return table(["network", "", "group", *(f"{way}, ms" for way in (*EXCHANGE_WAYS, "auto")), "÷ best"], rows), worst


def weak(simulator, most):
    """(table, bars of time per byte relative to the fewest ranks, the worst such ratio at 1,024 ranks)"""
    rows, shown, worst = [], [], 0
    for what, group, network, disk, cpu in WEAK:
        base = None
        for ranks in WEAK_RANKS:
            # Fewer ranks than a group are one smaller group: another dataset, to which nothing can be compared.
            if ranks < max(16, group) or ranks > (most if network == "200G" else MOST_OF_2004):
                continue
            found = simulator.rows(network, disk, cpu, ranks, what, group, WEAK_DATA)
            # The first has the fewest ranks.
            base = base or found["seconds"]
            ratio = found["seconds"] / base
            rows.append([what, group, f"{network}, {disk}", ranks, f"{found['seconds'] * 1e3:.4g}",
                         f"{found['seconds'] / WEAK_DATA * 1e9:.4g}", f"{ratio:.4f}", f"{found['split'] * 1e3:.3g}",
                         f"{found['buffers'] / 2**20:.0f}", f"{found['resident'] / ranks / 2**20:.2f}"])
            if network == "200G" and group == 8:
                shown.append((f"{what}, {ranks} ranks", ratio, 1, ratio, what == "protect"))
            worst = max(worst, ratio if ranks == 1024 else 0)
    head = ["", "group", "network, disk", "ranks", "ms", "ns a byte of a rank's data", "÷ fewest ranks",
            "making groups, ms", "buffers a rank, MiB", "simulator's memory a rank, MiB"]
    return table(head, rows), bars("Weak scaling, groups of 8", "time ÷ that of 16 ranks", shown, mark=1), worst


def topologies(simulator):
    runs = [(ranks, groups, size, simulator.run("myrinet", ranks, "multicast", groups=groups, bytes=size))
            for ranks in (24, 48, 72, 96, 120) for groups in (2, 4, 6, 8) if ranks % groups == 0
            for size in (4, 4096, 40960)]
    rows = [[*what, *(f"{found[way] * 1e6:.0f}" for way in WAYS), found["auto"]] for *what, found in runs]
    # What the choice costs where it is wrong.
    worst = max(found[found["auto"]] / min(found[way] for way in WAYS) for *_, found in runs)
    without_costs = max(found["bcast"] / min(found[way] for way in WAYS) for *_, found in runs)
    at_24 = [found for ranks, _, size, found in runs if (ranks, size) == (24, 4)]
    four_groups = [found for _, groups, size, found in runs if (groups, size) == (4, 4)]
    paper = [[way, *TOPOLOGY_PAPER.get(way, ("–", "–")), f"{min(found[way] for found in at_24) * 1e6:.0f}",
              f"{statistics.mean(found[way] for found in four_groups) * 1e6:.0f}"] for way in WAYS]
    plot = bars("Multicast of 4 bytes to 24 ranks, 4 groups, Myrinet", "µs",
                [(way, *[four_groups[0][way] * 1e6] * 3, way != "bcast") for way in WAYS])
    beside = table(["", "paper, 24 ranks, best groups", "paper, 4 bytes, mean over ranks",
                    "here, 24 ranks, best groups, 4 bytes", "here, 4 bytes, 4 groups, mean over ranks"], paper)
    beside += f"\n\nWith these costs, `auto` takes at most {worst:.2f} times as long as the fastest, in all rows below. "
    beside += f"`MPI_Bcast`, which lzy uses without them,\ntakes at most {without_costs:.2f} times as long."
    return beside, table(["ranks", "groups", "bytes", *WAYS, "auto"], rows), plot


def parameters():
    rows = [["network " + name,
             f"{n.bandwidth:.4g} bytes/s, {n.latency * 1e6:g} µs, {n.overhead * 1e6:g} µs a message at each end",
             n.source] for name, n in NETWORKS.items()]
    rows += [["disk " + name, f"{d.read:.3g} and {d.write:.3g} bytes/s", d.source] for name, d in DISKS.items()]
    rows += [["processor " + name, f"{c.hash:.3g}, {c.encode:.3g}, {c.add:.3g} bytes/s (hash, encode, add)", c.source]
             for name, c in CPUS.items()]
    return table(["", "value", "from"], rows)


def page(simulator, most):
    weak_table, weak_plot, worst = weak(simulator, most)
    reached = f"At 1,024 ranks, a byte takes at most {worst:.4f} times as long as at the fewest ranks (target: 1.1)."
    beside, all_topologies, topology_plot = topologies(simulator)
    exchange_table, exchange_worst = exchanges(simulator, most)
    group_table, group_worst = ways_of_groups(simulator, most)
    parts = ["# Scale, by simulation", HEADER, "## Parameters", parameters(),
             "## The Lazy Redundancy paper's table 1", TABLE_ONE,
             "### TCP", table_one(simulator, "fast-ethernet"), "### Myrinet", table_one(simulator, "myrinet"),
             "### Findings", RING, ways(simulator),
             "## Weak scaling", WEAK_TEXT, *([reached] if worst else []), weak_table, "![weak](scale.weak.svg)",
             SPLITS,
             "## Ways of an exchange", EXCHANGES,
             f"The way that lzy chooses takes at most {exchange_worst:.2f} times as long as the best one (target: 1.05).", exchange_table,
             f"All rows of a set on {most:,} ranks, in groups. `auto` takes at most {group_worst:.3f} times as long as the best way.",
             group_table,
             "## Topologies of multicast", TOPOLOGIES, beside, "![topologies](scale.topologies.svg)", all_topologies,
             "## Limits of the simulation", LIMITS]
    return "\n\n".join(parts) + "\n", {"scale.weak.svg": weak_plot, "scale.topologies.svg": topology_plot}


HEADER = """Made by `bench/scale/run` with SimGrid 3.32 (SMPI). Time is virtual, so the numbers are the same every time, whatever
else the machine does. The code is lzy's own, compiled for SMPI: layout, plans, row pipeline (`ExecuteRows`, one
thread), the XOR exchanges and the multicast schedules.

- All processes share one memory for their payloads.
- Disks, hashes and arithmetic are delays at the rates below.
- Each host has one link, equally fast in both directions at once. The switch never blocks.
- MPI's collectives are SMPI's versions of MPICH's."""
TABLE_ONE = """Seconds. As in the paper, a rank has (p − 1) · 512 KiB of data in a file on its own disk. One block in p is parity, and
one device is lost. *create* is data ÷ disk speed. Reading, exchange and writing do not overlap. In groups, one device
of every group is lost. "–": the paper has no such row."""
RING = """All shares of a lost device go to one rank. In pairs, they arrive one after another through that rank's link, n − 1 times the
size of the device. In a ring (`RingExchange`), every rank adds its share to what it passes on. lzy chooses by what it has measured
(option `exchange`); here it has measured in the same simulation. Seconds:"""
EXCHANGES = """Microseconds of one exchange between nodes, from a barrier until the last rank has finished it: *even*, if each rank gets the same
part of the result, as in most commits, and *few*, if one rank gets everything, as in a restore. *auto* is the way that lzy chooses after a
measurement of 4 sizes in the same simulation. Arithmetic takes no time. *mpi* is SMPI's version of `MPI_Ireduce_scatter_block` and
`MPI_Ireduce`, in which each rank sends to each owner: it says nothing about what the MPI library of a real network does."""
WEAK_TEXT = f"""Each rank has {WEAK_DATA >> 20} MiB. Time is that of the slowest rank, from a barrier until all ranks have agreed on
the result. Groups are independent, so only two things grow: that agreement, and making the groups (not in the time).

Buffers are those of the row pipeline and of exchanges, as a process of its own would hold them. Opening and committing
a set need more, which grows with the number of members and is not included. The simulator needs far less memory,
because all ranks share one buffer. Its limit is time, minutes per number at 4,096 ranks, not memory."""
SPLITS = """One call makes the communicators of all groups without a common rank (`SplitIntoParts`). Until 2026-11, each group took a
call of its own, in which all ranks take part, so the time grew with the number of groups: 2.2 ms instead of 0.16 ms with
256 ranks in groups of 8 (simulated 2026-11)."""
TOPOLOGIES = """Microseconds until the last rank has the data; root 0, groups of consecutive ranks. `auto` is the shape that
`ChooseTopology` selects by costs that were measured in the same simulation. lzy measures costs only before a broadcast of 4 MiB or
more. Until then it uses `MPI_Bcast`, unless the user gives the costs with option `topology`. So without this option, lzy uses
*bcast* in all rows below; the column *auto* is what it does with costs. The paper measured on a cluster, with its own
implementation. Every time includes an allreduce, which finds the end. Each broadcast is run twice, and the second time counts,
because MPI makes communicators of its own in the first one."""
LIMITS = """- Noise, stragglers, busy switches, and routes that share links are not simulated. Groups across an oversubscribed
  network do not scale as flat as here.
- Processors are not simulated. With as many ranks as cores, a piece in a ring waits until each rank gets a core
  (docs/performance/exchange.md has the cost).
- Disks have no seeks, no caches and one speed. File systems, metadata, opening and committing are not included.
- The proof of the lists that ranks gather is not compiled for the simulator. It consists of 256 bytes from each rank to
  all, and a barrier (docs/exchange.md, "What lzy itself sends").
- The 2004 parameters are assumptions, except the disks. The paper's MPI and its buffers are not simulated."""
