"""What is simulated, and where each figure is from."""

# The page has a row for each of these, with its source. What no source has is called assumed there. Those of 2004 are
# for comparison with the papers' measurements; the others are to show what grows with the number of ranks, for which
# their exact values do not matter.

from typing import NamedTuple


class Network(NamedTuple):
    bandwidth: float  # bytes a second, each way of each host's link
    latency: float    # seconds from host to host
    overhead: float   # seconds that a message keeps its sender, and its receiver
    source: str


class Disk(NamedTuple):
    read: float  # bytes a second
    write: float
    source: str


class Cpu(NamedTuple):
    hash: float  # bytes a second
    encode: float
    add: float
    source: str


NETWORKS = {
    "fast-ethernet": Network(11.87e6, 35e-6, 15e-6, "100 Mb/s, of which TCP/IP leaves 1460 bytes in 1538; latency and "
                             "overhead assumed (half a ping-pong of 65 µs)"),
    "myrinet": Network(230e6, 5e-6, 0.9e-6, "links of 2 Gb/s = 250 MB/s, of which MPI got about 230; half a ping-pong "
                       "of 6.8 µs: as was usual for MPICH-GM, assumed"),
    "200G": Network(24e9, 1e-6, 0.25e-6,
                    "200 Gb/s = 25 GB/s less 4 % for framing; half a ping-pong of 1.5 µs: assumed"),
}
DISKS = {
    "2004": Disk(40e6, 40e6,
                 "the paper's own rows: 65,024 KB are created in 1.632 s, 512 KB of parity written in 0.013 s"),
    "slow": Disk(25e6, 25e6, "the lower end of the plan's 25 to 300 MB/s"),
    "fast": Disk(300e6, 300e6, "its upper end"),
    "nvme": Disk(3.5e9, 2e9, "a PCIe 3 drive, as data sheets have it: assumed"),
}
CPUS = {
    "2004": Cpu(1e9, 5e8, 5e8, "assumed: memory of the time, two streams in and one out"),
    "today": Cpu(20e9, 20e9, 8e9, "about half of what `bench_kernels` measured in the cache for XXH3 and XOR (36 and "
                 "40 GB/s); adding what arrives is bound by memory: assumed"),
}
