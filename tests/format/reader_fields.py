"""The fields of sidecars as docs/format.md lists them: superblocks (§4), the info record (§5), numbers that stand for
kinds and states. Part of the independent reader (format_reader.py).
"""
import os
import struct
from types import SimpleNamespace

import numpy as np

SEALED, PARTED, COMPACT = 1, 2, 4  # incompatible features
MAGIC = bytes.fromhex("894C5A590D0A1A0A")
ZERO_HASH = bytes(16)
SUPERBLOCK = struct.Struct("<8sIHHQQQ16sQIIQIIIIQIIIIqqQqQQQQQ16s16s16s16sII")
FIELDS = ("magic bom major minor compatible readonly incompatible uuid generation copy copies spacing state kind "
          "placement b u m devices n rank clock wall size mtime inode device region s t0 data_root parity_root "
          "dataset_root info_hash extents zero").split()
EXTENT = struct.Struct("<HHIQQQQ")
INFO, INTENT, DATA_LEVEL, PARITY_LEVEL, PARITY, NODES = 1, 2, 3, 4, 5, 6
COMMITTED, PREPARED, NEVER = 1, 2, 3
DECIDED = 4  # flag of an intent page
SHARED, SET = 1, 2
POOLED, PER_DEVICE, STRIPED, IN_DIRECTORIES = 1, 2, 3, 4
DATA_TREE, PARITY_TREE, MEMBER_TREE = 0x40, 0x50, 0x60
PAGE = 4096


class Refused(Exception):
    """This sidecar cannot be read: not one of ours, newer, foreign, or all superblocks gone."""


def view_of(path):
    """The file's bytes, read-only."""
    size = os.stat(path).st_size
    return np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)


def is_power(x):
    return x > 0 and x & (x - 1) == 0


def superblock_size(page):
    """§14: that of the compact form, if the page says that it has it."""
    return 1024 if struct.unpack_from("<Q", page, 32)[0] & COMPACT else PAGE


def parse_superblock(page):
    sb = SimpleNamespace(**dict(zip(FIELDS, SUPERBLOCK.unpack_from(page))))
    sb.bytes = superblock_size(page)
    sb.compact, sb.most_extents = sb.bytes != PAGE, 13 if sb.bytes != PAGE else 90
    tail = page[sb.bytes - 232:sb.bytes - 16]
    sb.padding = page[264 + 40 * min(sb.extents, sb.most_extents):sb.bytes - 232] + tail[56:]
    sb.birth = int.from_bytes(tail[48:56], "little", signed=True)
    sb.key_id, sb.seal = tail[:16], tail[16:48]
    # Copy, spacing, state, extents and seal, minor version and compatible features are not sealed, nor is the form.
    major = 1 if sb.compact else sb.major
    sb.sealed_part = (page[:12] + struct.pack("<HHQQQ", major, 0, 0, sb.readonly, sb.incompatible & ~COMPACT) +
                      page[40:64] + struct.pack("<IIQI", 0, sb.copies, 0, COMMITTED) + page[84:256] +
                      bytes(3864 - 256) + sb.key_id + bytes(32) + tail[48:])
    sb.extent_list = []
    for i in range(min(sb.extents, sb.most_extents)):
        kind, level, zero, logical, offset, length, capacity = EXTENT.unpack_from(page, 264 + 40 * i)
        sb.extent_list.append(SimpleNamespace(kind=kind, level=level, zero=zero, logical=logical, offset=offset,
                                              length=length, capacity=capacity))
    return sb


def refuse_unknown(sb, where):
    if sb.bom == 0x04030201:
        raise Refused(f"{where}: foreign byte order")
    if sb.major not in (1, 2):
        raise Refused(f"{where}: newer version {sb.major}.{sb.minor}")
    if sb.incompatible & ~(SEALED | PARTED | COMPACT):
        raise Refused(f"{where}: newer version: unknown incompatible features {sb.incompatible:#x}")


def parity_here(sb):
    """Bytes of parity in the file of this superblock (§4, §13)."""
    if sb.placement != IN_DIRECTORIES:
        return sb.region
    units = range(sb.rank - 1, -(-sb.region // sb.u), sb.devices) if sb.rank else ()
    return sum(min(sb.u, sb.region - x * sb.u) for x in units)


def decode_nodes(data):
    """(number of nodes of the set, nodes of the members or nothing) (§5)."""
    count, strings = struct.unpack_from("<II", data, 0)
    at, nodes = 8, []
    if strings > len(data):
        raise ValueError(f"{strings} strings in {len(data)} bytes")
    for _ in range(strings):
        (length,) = struct.unpack_from("<I", data, at)
        nodes.append(data[at + 4:at + 4 + length].decode(errors="surrogateescape"))
        at += 4 + length
    if at != len(data):
        raise ValueError(f"it ends at {at} of {len(data)} bytes")
    return count, nodes


def decode_info(data, placement):
    at = 0

    def take(format_):
        nonlocal at
        values = struct.unpack_from("<" + format_, data, at)
        at += struct.calcsize("<" + format_)
        return values if len(values) > 1 else values[0]

    def counted(limit):
        count = take("I")
        if count > limit or count > len(data):
            raise ValueError(f"count {count} at {at - 4} is too large")
        return count

    def string():
        nonlocal at
        length = counted(len(data) - at - 4)
        at += length
        return data[at - length:at].decode(errors="surrogateescape")

    def member():
        e = SimpleNamespace()
        e.rank, e.mode, e.uid, e.gid, e.mtime, e.size, e.data_root, e.region, e.parity_root = take("IIIIqQ16sQ16s")
        e.domain = string()
        return e

    def numbers():
        return [take("I") for _ in range(counted(255))]

    info = SimpleNamespace()
    info.name, info.stripe, info.group = string(), take("Q"), take("I")
    info.groups = [numbers() for _ in range(counted(1 << 32))]
    info.members = [member() for _ in range(counted(255))]
    info.leaf, info.leaves, info.covered = take("QQQ")
    info.pages = [[take("16s") for _ in range(counted(2))] for _ in range(counted(64))]
    info.directories = []
    if placement == IN_DIRECTORIES:
        info.encoding, info.part_name, info.home = take("Q"), string(), string()
        info.directories = [string() for _ in range(counted(4096))]
        if not info.part_name.startswith(f".LZY-part.{info.encoding:016x}.") or not all(d[:1] == "/" for d in info.directories):
            raise ValueError(f"parts are called {info.part_name!r}, in {info.directories}")
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes after its end")
    return info
