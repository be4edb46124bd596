"""What is known of libraries that bench/peers does not run: from their papers and sources, with the place where it is said."""

from harness import table

TEXT = """Not measured here. SCR, redset, FTI and VeloC are libraries for checkpoints on node-local storage. No package of
Debian 12 or PyPI has them. The numbers are of other machines and other years, and are not comparable with those above. What they
do about damage is read from their sources, and was not tried."""

SCR_PAGE = "[LLNL, \"Multilevel checkpointing research\"](https://computing.llnl.gov/projects/scalable-checkpoint-restart-for-mpi/multilevel-checkpointing-research)"
REDSET = "[redset](https://github.com/ECP-VeloC/redset) at 98f223e"
FTI = "[FTI](https://github.com/leobago/fti) at 04eb47a"

CLAIMS = [
    ("SCR", "speed", "checkpoints to RAM disk: 720 GB/s on 1094 nodes, nearly 100 times the parallel file system",
     "[OSTI, code 1155](https://www.osti.gov/biblio/code-1155)"),
    ("SCR", "speed", "cheap checkpoints 100 to 1000 times as fast as the parallel file system, enough for 85 % of the "
     "failures; up to 35 % more efficient use of the machine", SCR_PAGE),
    ("SCR", "hashes", "CRC32 when files are fetched and flushed (on by default); `SCR_CRC_ON_COPY` is off by default",
     "[SCR](https://github.com/LLNL/scr) at 143a0cf, doc/rst/users/config.rst"),
    ("redset", "space", "XOR: 1/(n−1) of the data for n processes, as the Lazy Redundancy paper has it; also partner copies and "
     "Reed-Solomon", f"{REDSET}, doc/rst/schemes.rst"),
    ("redset", "a survivor with a flipped byte during a rebuild", "**is not noticed**: a rebuild adds up what it reads from the "
     "survivors. No hash is compared; the CRC code is disabled (`#if 0`), with a note that it would be nice to have", f"{REDSET}, "
     "src/redset_xor.c, redset_recover_xor_rebuild"),
    ("FTI", "speed", "8 % more run time with frequent checkpoints, 1152 GPUs of TSUBAME2.0",
     "Bautista-Gomez et al., SC11, [abstract](https://doi.org/10.1145/2063384.2063427)"),
    ("FTI", "a survivor with a flipped byte during a rebuild", "is noticed: MD5 of whole files, if it was recorded. The whole file then counts as "
     "lost, so redundancy must suffice for that", f"{FTI}, src/recover.c, FTI_CheckFile, FTI_CheckErasures"),
    ("VeloC", "speed", "no number in the overview paper", "Nicolae et al., [arXiv:2103.02131](https://arxiv.org/abs/2103.02131)"),
    ("VeloC", "redundancy", "XOR of local checkpoints, on by default, and copies to the parallel file system in the background",
     "[VeloC](https://github.com/ECP-VeloC/VELOC) at 1a99f87, docs/userguide.rst"),
]


def made():
    return table(["library", "of what", "what is said", "where"], CLAIMS)
