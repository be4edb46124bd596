#!/usr/bin/python3
"""Independent reader of lzy sidecars, written from docs/format.md alone (section numbers below are its).

    format_reader.py [--json] [--quick] [--ignore-stamps] [--key FILE] FILE_OR_SIDECAR...

Checks everything the document lets one check, sharing no code with lib/. Give all members of a file set.
  --quick          metadata and stamps only; data and parity are not read
  --key FILE       the secret that sealed datasets were sealed with
  --ignore-stamps  do not compare size, mtime and inode with the data file (copied datasets, golden files)
Exit: 0 all right; 1 discrepancies, one a line; 2 usage, or something is unreadable or refused.
"""
import argparse
import glob
import hashlib
import itertools
import json
import os
import re
import struct
import sys
from types import SimpleNamespace

import numpy as np
import xxhash

SEALED, PARTED, COMPACT = 1, 2, 4  # incompatible features
MAGIC = bytes.fromhex("894C5A590D0A1A0A")
ZERO_HASH = bytes(16)
SUPERBLOCK = struct.Struct("<8sIHHQQQ16sQIIQIIIIQIIIIqqQqQQQQQ16s16s16s16sII")
FIELDS = ("magic bom major minor compatible readonly incompatible uuid generation copy copies spacing state kind "
          "placement b u m devices n rank clock wall size mtime inode device region s t0 data_root parity_root "
          "dataset_root info_hash extents zero").split()
EXTENT = struct.Struct("<HHIQQQQ")
INFO, INTENT, DATA_LEVEL, PARITY_LEVEL, PARITY = 1, 2, 3, 4, 5
COMMITTED, PREPARED, NEVER = 1, 2, 3
DECIDED = 4  # flag of an intent page
SHARED, SET = 1, 2
POOLED, PER_DEVICE, STRIPED, IN_DIRECTORIES = 1, 2, 3, 4
DATA_TREE, PARITY_TREE, MEMBER_TREE = 0x40, 0x50, 0x60
ROOT_TAG = {DATA_TREE: 0x05, PARITY_TREE: 0x06, MEMBER_TREE: 0x07}
PAGE = 4096
CHUNK = 16 << 20  # bytes of parity computed at a time
MAX_LINES = 1000


class Refused(Exception):
    """This sidecar cannot be read: not one of ours, newer, foreign, or all superblocks gone."""


# ---- §2 hashes, §3 trees ------------------------------------------------------------------------

def H(tag, index, data):
    return xxhash.xxh3_128_digest(data, seed=tag << 56 | index)[::-1]  # digest() is big-endian


class Key:
    """§12: what a secret makes."""

    def __init__(self, secret):
        self.key = hashlib.blake2b(secret, digest_size=32, person=b"lzy key").digest()
        self.id = self._digest(b"", 16, b"lzy key id")

    def _digest(self, data, size, person, salt=b""):
        return hashlib.blake2b(data, digest_size=size, key=self.key, salt=salt, person=person).digest()

    def leaf(self, tag, index, data):
        return self._digest(data, 16, b"lzy leaf", struct.pack("<Q", tag << 56 | index))

    def seal(self, data):
        return self._digest(data, 32, b"lzy seal")


def leaf_of(key, tag, index, data):
    return key.leaf(tag, index, data) if key else H(tag, index, data)


def parents(tree, level, hashes):
    """Concatenated hashes of `level`, from those of the level below."""
    step = 32 if tree == MEMBER_TREE else PAGE
    return b"".join(H(tree + level, i, hashes[o:o + step]) for i, o in enumerate(range(0, len(hashes), step)))


def levels_of(tree, leaves):
    levels = [leaves] if leaves else []
    while levels and len(levels[-1]) > 16:
        levels.append(parents(tree, len(levels), levels[-1]))
    return levels


def root_of(tree, leaf_count, covered, top):
    return H(ROOT_TAG[tree], 0, struct.pack("<QQ", leaf_count, covered) + top)


def dataset_root(sb, members_root):
    p = sb.devices if sb.kind == SET else 1
    return H(0x08, 0, struct.pack("<IIQIIQ", sb.kind, sb.b, sb.u, sb.n, sb.m, p) + members_root)


# ---- §7 codes -----------------------------------------------------------------------------------

def _gf_tables():
    exp, log, x = [0] * 510, [0] * 256, 1
    for i in range(255):
        exp[i] = exp[i + 255] = x
        log[x] = i
        x = x << 1 ^ (0x11D if x & 0x80 else 0)
    e, l = np.array(exp, np.uint8), np.array(log)
    mul = e[l[:, None] + l[None, :]]
    mul[0, :] = mul[:, 0] = 0
    inverse = [0] + [exp[255 - log[a]] for a in range(1, 256)]
    return mul, inverse


MUL, INVERSE = _gf_tables()


def coefficient(n, m, q, j):
    return 1 if m == 1 else INVERSE[(n - m + q) ^ j]


_pairs = {}


def multiply(c, a):
    """c times each byte of `a`; two bytes at a time through a table (units are even)."""
    if c == 1:
        return a
    if c not in _pairs:
        _pairs[c] = np.ascontiguousarray(MUL[c][np.arange(65536, dtype="<u2").view(np.uint8)]).view("<u2")
    return _pairs[c][a.view("<u2")].view(np.uint8)


# ---- §6 geometry: the closed formulas -----------------------------------------------------------

class Rotation:
    """Where the units of a group of n devices, m of them parity in each row, lie."""

    def __init__(self, n, m):
        self.n, self.m = n, m
        r = np.arange(n)
        self.is_data = (r[:, None] - r[None, :]) % n >= m  # [device j, row r of the turn]
        self.data_in_turn = np.cumsum(self.is_data, axis=1) - self.is_data
        self.parity_in_turn = np.cumsum(~self.is_data, axis=1) - ~self.is_data

    def data_before(self, j, t):
        return t // self.n * (self.n - self.m) + self.data_in_turn[j, t % self.n]

    def parity_before(self, j, t):
        return t // self.n * self.m + self.parity_in_turn[j, t % self.n]

    def row_of(self, j, unit):
        """The row in which device j contributes its data unit number `unit`."""
        turn, rest = divmod(unit, self.n - self.m)
        return turn * self.n + int(np.flatnonzero(self.is_data[j])[rest])


class Group:
    """Devices coded together. `sizes`: of the file each device's data lie in; `offset(j, k)`: byte there of unit k."""

    def __init__(self, number, devices, m, u, sizes, stride, base):
        self.number, self.devices, self.u = number, devices, u
        self.rotation = Rotation(len(devices), m)
        self.sizes, self.stride, self.base = np.array(sizes, np.int64), stride, np.array(base, np.int64)
        self.units = [max(0, -(-(size - start) // stride)) for size, start in zip(sizes, base)]
        rows = [(self.rotation.row_of(j, 0), self.rotation.row_of(j, k - 1)) for j, k in enumerate(self.units) if k]
        self.first_row = min((first for first, _ in rows), default=None)
        self.rows = 1 + max((last for _, last in rows), default=-1)

    def offset(self, j, unit):
        return self.base[j] + unit * self.stride

    def row_lengths(self, t):
        """Length of the parity units of rows `t`: that of the longest data unit (blocks follow by clipping)."""
        longest = np.zeros(len(t), np.int64)
        for j in range(self.rotation.n):
            length = np.clip(self.sizes[j] - self.offset(j, self.rotation.data_before(j, t)), 0, self.u)
            np.maximum(longest, np.where(self.rotation.is_data[j, t % self.rotation.n], length, 0), out=longest)
        return longest

    def parity(self, first, count, files):
        """Parity units [q][row] of rows first … first+count−1, from `files`, one a device."""
        n, m = self.rotation.n, self.rotation.m
        out = np.zeros((m, count, self.u), np.uint8)
        for index in range(n - m):
            data = np.zeros((count, self.u), np.uint8)
            for j in range(n):
                start = (j - m - index - first) % n  # rows in which device j has position m + index
                t = np.arange(first + start, first + count, n)
                if len(t):
                    data[start::n] = gather(files[j], self.offset(j, self.rotation.data_before(j, t)), self.u)
            for q in range(m):
                out[q] ^= multiply(coefficient(n, m, q, index), data)
        return out


def gather(data, offsets, u):
    """Units of u bytes at `offsets` (multiples of u) of a file, zeros past its end."""
    out = np.zeros((len(offsets), u), np.uint8)
    unit, whole = offsets // u, len(data) // u
    full = unit < whole
    out[full] = data[:whole * u].reshape(whole, u)[unit[full]]
    tail = data[whole * u:]
    out[unit == whole, :len(tail)] = tail
    return out


def unit_by_rule(sb, stripe, size):
    """docs/format.md "Geometry". `size`: of the shared file, or of the largest member."""
    least = 4 * (sb.n if sb.kind == SHARED else 1)
    u = sb.b
    while 2 * u <= min(stripe, 1 << 30) and least * 2 * u <= size:
        u *= 2
    return u


# ---- §4 superblocks, §5 info record, §8 intent --------------------------------------------------

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


class Sidecar:
    def __init__(self, path, data_path, key=None):
        self.path, self.data_path, self.key = path, data_path, key
        self.lines, self.notes = [], []
        self.bytes = view_of(path)
        self.copies = {}  # copy number -> superblock whose hash is right
        self._read_superblocks()
        self.sb = None  # the one that counts; see choose()

    def bad(self, offset, text, path=None):
        self.lines.append(f"{path or self.path}: offset {offset}: {text}")

    def expect(self, offset, what, expected, found):
        if expected != found:
            show = [x.hex() if isinstance(x, bytes) else x for x in (expected, found)]
            self.bad(offset, f"{what}: expected {show[0]}, found {show[1]}")
        return expected == found

    def read(self, offset, length):
        return self.bytes[offset:offset + length].tobytes()

    # -- finding superblocks

    def place(self, c):
        """Offset of copy c."""
        if not self.compact or c < 2:
            return c * self.spacing
        return (self.spacing // PAGE + c - 1) * PAGE

    def _at(self, offset, number=None):
        """(superblock or None, what is wrong). Without a number: the one that the superblock records."""
        page = self.read(offset, PAGE)
        size = superblock_size(page) if len(page) >= 1024 else PAGE
        if len(page) < size:
            return None, "superblock beyond the end of the file"
        if page[:8] != MAGIC:
            return None, f"magic: expected {MAGIC.hex()}, found {page[:8].hex()}"
        number = struct.unpack_from("<I", page, 64)[0] if number is None else number
        want = H(0x10, number, page[:size - 16])
        if page[size - 16:size] != want:
            return None, f"superblock hash: expected {want.hex()}, found {page[size - 16:size].hex()}"
        return parse_superblock(page), ""

    def _scan(self):
        """Copy 0 is lost: the spacing that most superblocks agree on (parity might contain somebody else's)."""
        found = {}
        for k in range(13, 45):
            for c in range(1, 256):
                if c << k >= len(self.bytes):
                    break
                sb, _ = self._at(c << k, c)
                if sb and sb.copy == c and sb.spacing == 1 << k and not sb.compact:
                    found.setdefault((sb.uuid, sb.spacing, sb.copies), []).append(sb)
        for at in range(PAGE, min(len(self.bytes), (1 << 20) + 255 * PAGE), 2048):
            sb, _ = self._at(at) if self.read(at, 8) == MAGIC else (None, "")
            if not sb or not sb.compact or not sb.copy:
                continue
            if at == (sb.spacing if sb.copy == 1 else (sb.spacing // PAGE + sb.copy - 1) * PAGE):
                found.setdefault((sb.uuid, sb.spacing, sb.copies), []).append(sb)
        if not found:
            page = self.read(0, PAGE)
            if page[:8] == MAGIC and len(page) >= 1024:
                refuse_unknown(parse_superblock(page), self.path)
            raise Refused(f"{self.path}: no valid superblock")
        return max(found.values(), key=len)[0]

    def _read_superblocks(self):
        sb, _ = self._at(0, 0)
        sb = sb or self._scan()
        self.spacing, self.count, self.compact = sb.spacing, max(1, min(sb.copies, 255)), sb.compact
        if self.compact:
            if sb.spacing % 2048 or not 4096 <= sb.spacing <= 1 << 20:
                raise Refused(f"{self.path}: copy 1 at {sb.spacing}, which is no multiple of 2048 from 4096 to 2^20")
        elif not is_power(sb.spacing) or sb.spacing < 8192:
            raise Refused(f"{self.path}: spacing {sb.spacing} is not a power of two of at least 8192")
        for c in range(self.count):
            sb, why = self._at(self.place(c), c)
            if sb and sb.compact != self.compact:
                sb, why = None, "it is of the other form"
            if not sb:
                self.bad(self.place(c), f"copy {c}: {why}")
                continue
            refuse_unknown(sb, f"{self.path}: copy {c}")
            self.copies[c] = sb
            self._check_fields(c, sb)
        if not self.copies:
            raise Refused(f"{self.path}: no valid superblock")

    def _check_fields(self, c, sb):
        at, start = (lambda field: start + field), self.place(c)
        self.expect(at(8), "byte order mark", 0x01020304, sb.bom)
        self.expect(at(64), "number of copy", c, sb.copy)
        self.expect(at(68), "number of copies", max(2, sb.m + 1) if sb.kind == SHARED else 2, sb.copies)
        self.expect(at(72), "spacing", self.spacing, sb.spacing)
        checks = ((80, "state 1, 2 or 3; 2 in no copy 0 (§9)",
                   sb.state in (COMMITTED, NEVER) or sb.state == PREPARED and c > 0),
                  (84, "kind 1 or 2", sb.kind in (SHARED, SET)),
                  (88, "placement that fits the kind",
                   sb.placement in ((PER_DEVICE,) if sb.kind == SET else (POOLED, STRIPED, IN_DIRECTORIES))),
                  (32, "the feature of device directories exactly with placement 4",
                   bool(sb.incompatible & PARTED) == (sb.placement == IN_DIRECTORIES)),
                  (92, "block size: power of two, 512 … 16 MiB", is_power(sb.b) and 512 <= sb.b <= 1 << 24),
                  (96, "unit: power-of-two multiple of b up to 1 GiB", is_power(sb.u) and sb.b <= sb.u <= 1 << 30),
                  (104, "m < n <= 255 and n <= devices", sb.m < sb.n <= 255 and sb.n <= sb.devices),
                  (108, "at most 2^24 devices or members", sb.devices <= 1 << 24),
                  (116, "rank below the number of members",
                   sb.rank < (sb.devices if sb.kind == SET else sb.devices + 1 if sb.placement == IN_DIRECTORIES else 1)),
                  (56, "generation 0 exactly in state 3", (sb.generation == 0) == (sb.state == NEVER)),
                  (136, "file size below 2^62", sb.size < 1 << 62),
                  (256, f"at most {sb.most_extents} extents", sb.extents <= sb.most_extents),
                  (12, "major version 2 exactly in the compact form", sb.compact == (sb.major == 2)),
                  (80, "compact form: state 1, placement 1 or 2",
                   not sb.compact or sb.state == COMMITTED and sb.placement in (POOLED, PER_DEVICE)),
                  (260, "zero padding", sb.zero == 0 and not any(sb.padding)))
        for field, what, right in checks:
            if not right:
                self.bad(at(field), f"copy {c}: superblock field: expected {what}")
        if sb.compatible or sb.readonly or sb.minor:
            self.notes.append(f"{self.path}: version {sb.major}.{sb.minor}, compatible features {sb.compatible:#x}, "
                              f"read-only compatible {sb.readonly:#x}")
        sb.usable = all(right for field, _, right in checks if field != 260)

    # -- choosing the copy that counts (§9), and checking the others against it

    def choose(self, committed):
        """`committed`: generations that some member of the dataset has committed."""
        rank = []
        for c, sb in self.copies.items():
            counts = (sb.state != PREPARED or sb.generation in committed or
                      all(x.state == PREPARED and (x.kind == SHARED or self.is_decided(x))
                          for x in self.copies.values()))
            if sb.state == PREPARED:
                self.notes.append(f"{self.path}: copy {c} is prepared for generation {sb.generation}, "
                                  f"{'which counts' if counts else 'ignored'}")
            before = len(self.lines)
            sb.info, sb.levels = None, {}
            if sb.usable:
                self._check_copy(c, sb)
            clean = sb.usable and sb.info is not None and len(self.lines) == before
            rank.append((counts, clean, sb.generation, -c))
        counts, _, _, c = max(rank)
        self.sb = self.copies[-c]
        if not counts:
            raise Refused(f"{self.path}: only prepared, never committed")
        if not self.sb.usable or self.sb.info is None:
            raise Refused("\n".join(self.lines + [f"{self.path}: no usable copy of the metadata"]))
        self._compare_copies(-c)
        self._check_overlaps()

    def _compare_copies(self, chosen):
        own = {"copy", "extent_list", "info", "levels", "padding", "info_bytes", "usable", "sealed_part"}
        for c, sb in self.copies.items():
            for name, value in vars(self.sb).items():
                if name not in own:
                    self.expect(self.place(c), f"copy {c}: {name}, as in copy {chosen}", value, getattr(sb, name))
            if sb.generation != self.sb.generation:
                continue
            for e in sb.extent_list:
                twin = [x for x in self.sb.extent_list if (x.kind, x.level, x.logical) == (e.kind, e.level, e.logical)]
                if not twin:
                    self.bad(self.place(c), f"copy {c}: extent kind {e.kind} level {e.level} not in copy {chosen}")
                elif e.kind in (INTENT, PARITY):
                    self.expect(self.place(c), f"copy {c}: extent kind {e.kind}", vars(twin[0]), vars(e))
                elif e.kind in (INFO, DATA_LEVEL, PARITY_LEVEL):
                    mine, other = (self.read(x.offset, x.length) for x in (e, twin[0]))
                    if mine != other:
                        at = len(os.path.commonprefix((mine, other)))
                        self.bad(e.offset + at, f"copy {c}: extent kind {e.kind} level {e.level} differs from copy "
                                                f"{chosen}, {len(mine)} and {len(other)} bytes")

    def _check_overlaps(self):
        spans = {(self.place(c), self.sb.bytes, f"superblock {c}") for c in range(self.count)}
        for c, sb in self.copies.items():
            if sb.generation != self.sb.generation:
                continue
            for e in sb.extent_list:
                if INFO <= e.kind <= PARITY and e.capacity:
                    shared = e.kind in (INTENT, PARITY)  # listed by every copy, there once
                    spans.add((e.offset, e.capacity, f"extent kind {e.kind} level {e.level} logical {e.logical}"
                               + ("" if shared else f" of copy {c}")))
        spans = sorted(spans)
        for (o, size, what), (o2, _, what2) in zip(spans, spans[1:]):
            if o + size > o2:
                self.bad(o2, f"{what2} overlaps {what} at {o}, {size} bytes")

    # -- one copy's metadata

    def _check_copy(self, c, sb):
        for i, e in enumerate(sb.extent_list):
            at = self.place(c) + 264 + 40 * i
            if e.zero and e.kind <= PARITY:
                self.bad(at + 4, f"copy {c}: extent {i}: expected zero padding")
            if e.length > e.capacity:
                self.bad(at + 32, f"copy {c}: extent {i}: expected capacity >= length {e.length}, found {e.capacity}")
            if e.offset + e.length > len(self.bytes) and not (sb.compact and e.kind == INTENT):
                self.bad(at + 16, f"copy {c}: extent {i}: {e.offset}+{e.length} is beyond the end {len(self.bytes)}")
            if e.logical and e.kind <= PARITY:
                self.bad(at + 8, f"copy {c}: extent {i}: expected logical offset 0, found {e.logical}")
        self._check_info(c, sb)
        self._check_intent_extent(c, sb)
        if sb.state == NEVER:
            self._check_never(c, sb)
            return
        blocks = -(-sb.size // sb.b)
        sb.levels[DATA_TREE] = self._check_tree(c, sb, DATA_LEVEL, DATA_TREE, blocks, sb.size, sb.data_root)
        sb.levels[PARITY_TREE] = self._check_tree(c, sb, PARITY_LEVEL, PARITY_TREE, None, sb.region, sb.parity_root)
        self._check_parity_extents(c, sb)
        self._check_seal(c, sb)

    def _check_seal(self, c, sb):
        at = self.place(c) + sb.bytes - 232
        self.expect(at, f"copy {c}: a key's id exactly in sealed sidecars", bool(sb.incompatible & SEALED), any(sb.key_id))
        if not any(sb.key_id):
            self.expect(at + 16, f"copy {c}: seal of what is not sealed", bytes(32), sb.seal)
            return
        if not self.key or self.key.id != sb.key_id:
            raise Refused(f"{self.path}: sealed with key {sb.key_id.hex()}, which has to be given")
        if sb.info is None or None in sb.levels.values():
            return
        leaves = sb.levels[DATA_TREE] + sb.levels[PARITY_TREE]
        self.expect(at + 16, f"copy {c}: seal", self.key.seal(sb.sealed_part + sb.info_bytes + leaves), sb.seal)

    @property
    def seal_key(self):
        return self.key if self.sb.incompatible & SEALED else None

    def _extents(self, sb, kind):
        return [e for e in sb.extent_list if e.kind == kind]

    def _check_never(self, c, sb):
        for name in "size mtime region data_root parity_root dataset_root".split():
            if getattr(sb, name) not in (0, ZERO_HASH):
                self.bad(self.place(c), f"copy {c}: state 3: expected {name} zero")
        for e in sb.extent_list:
            if e.kind in (DATA_LEVEL, PARITY_LEVEL, PARITY):
                self.bad(self.place(c), f"copy {c}: state 3: expected no extent of kind {e.kind}")

    def _check_info(self, c, sb):
        extents = self._extents(sb, INFO)
        if not self.expect(self.place(c) + 256, f"copy {c}: info extents", 1, len(extents)):
            return
        e = extents[0]
        if e.length > 64 << 20:
            self.bad(e.offset, f"copy {c}: info record of {e.length} bytes, more than 64 MiB")
        data = self.read(e.offset, e.length)
        if not self.expect(e.offset, f"copy {c}: info hash", sb.info_hash, H(0x11, 0, data)):
            return
        try:
            info = decode_info(data, sb.placement)
        except (ValueError, struct.error) as error:
            self.bad(e.offset, f"copy {c}: info record: {error}")
            return
        before = len(self.lines)
        self._check_groups(c, sb, e.offset, info)
        if len(self.lines) == before:
            sb.info_bytes = data
            sb.info = info  # what follows may lie, but will not trip the reader
            if sb.state != NEVER:
                self._check_own_entry(c, sb, e.offset, info)
                self._check_path(c, sb, e.offset, info)

    def _check_groups(self, c, sb, at, info):
        shared = sb.kind == SHARED
        if (not info.name or info.name.startswith("/") or ".." in info.name.split("/") or "\0" in info.name
                or len(info.name.encode(errors="surrogateescape")) > 4096 or shared and "/" in info.name):
            self.bad(at, f"copy {c}: info name: expected a relative path without '..', found {info.name!r}")
        everyone = [d for g in info.groups for d in g]
        for g in info.groups:
            if g != sorted(set(g)) or not sb.m < len(g) <= sb.n:
                self.bad(at, f"copy {c}: info group: expected {sb.m + 1} to {sb.n} ascending numbers, found {g}")
        if shared:
            self.expect(at, f"copy {c}: devices in all groups", sb.devices, len(everyone))
            self.expect(at, f"copy {c}: devices of all groups", list(range(len(everyone))), sorted(everyone))
            self.expect(at, f"copy {c}: n, largest group", max(map(len, info.groups), default=0), sb.n)
        else:
            self.expect(at, f"copy {c}: number of groups", 1, len(info.groups))
            if sb.rank not in everyone or any(r >= sb.devices for r in everyone):
                self.bad(at, f"copy {c}: info group: expected ranks below {sb.devices}, {sb.rank} one of them, "
                             f"found {everyone}")
        self.expect(at, f"copy {c}: device directories", sb.devices if sb.placement == IN_DIRECTORIES else 0, len(info.directories))
        ranks = [e.rank for e in info.members]
        self.expect(at, f"copy {c}: ranks of member entries", [0] if shared else sorted(everyone), sorted(ranks))

    def _check_own_entry(self, c, sb, at, info):
        own = next(e for e in info.members if e.rank == (sb.rank if sb.kind == SET else 0))
        for name in ("mtime", "size", "data_root", "region", "parity_root"):
            self.expect(at, f"copy {c}: own member entry: {name}", getattr(sb, name), getattr(own, name))

    def _check_path(self, c, sb, at, info):
        p = 1 if sb.kind == SHARED else sb.devices
        self.expect(at, f"copy {c}: leaf number in the tree over members", sb.rank if sb.kind == SET else 0, info.leaf)
        self.expect(at, f"copy {c}: leaves of the tree over members", p, info.leaves)
        if sb.kind == SHARED:
            self.expect(at, f"copy {c}: bytes covered", sb.size, info.covered)
        if not self.expect(at, f"copy {c}: pages of the Merkle path", (p - 1).bit_length(), len(info.pages)):
            return
        top, index, width = sb.data_root, info.leaf, p
        for i, page in enumerate(info.pages):
            children = min(2, width - index // 2 * 2)
            if not self.expect(at, f"copy {c}: hashes in page {i} of the path", children, len(page)):
                return
            self.expect(at, f"copy {c}: page {i} of the path, hash {index % 2}", top, page[index % 2])
            top = H(MEMBER_TREE + i + 1, index // 2, b"".join(page))
            index, width = index // 2, -(-width // 2)
        root = dataset_root(sb, root_of(MEMBER_TREE, info.leaves, info.covered, top))
        self.expect(self.place(c) + 224, f"copy {c}: dataset root by the Merkle path", root, sb.dataset_root)

    def _check_tree(self, c, sb, kind, tree, leaf_count, covered, root):
        """The leaves, or None. leaf_count None: as many as are stored."""
        extents = sorted(self._extents(sb, kind), key=lambda e: e.level)
        name = "data" if tree == DATA_TREE else "parity"
        if [e.level for e in extents] != list(range(len(extents))):
            self.bad(self.place(c) + 264, f"copy {c}: {name} tree: expected one extent a level, found levels "
                                             f"{[e.level for e in extents]}")
            return None
        levels = [self.read(e.offset, e.length) for e in extents]
        count = len(levels[0]) // 16 if levels else 0
        if leaf_count is not None and not self.expect(extents[0].offset if extents else 0,
                                                      f"copy {c}: {name} tree: leaves", leaf_count, count):
            return None
        if any(len(l) % 16 or not l for l in levels):
            self.bad(extents[0].offset, f"copy {c}: {name} tree: level empty or not a multiple of 16 bytes")
            return None
        for l in range(1, len(levels)):
            want = parents(tree, l, levels[l - 1])
            if len(want) != len(levels[l]):
                self.bad(extents[l].offset, f"copy {c}: {name} tree: level {l}: expected {len(want)} bytes, "
                                            f"found {len(levels[l])}")
            for i in differing_hashes(want, levels[l]):
                self.bad(extents[l].offset + 16 * i, f"copy {c}: {name} tree: node {i} of level {l}: expected "
                         f"{want[16 * i:16 * i + 16].hex()}, found {levels[l][16 * i:16 * i + 16].hex()}")
        if levels and len(levels[-1]) != 16:
            self.bad(extents[-1].offset, f"copy {c}: {name} tree: expected one hash in the last level")
        top = levels[-1][:16] if levels else ZERO_HASH
        field = self.place(c) + (192 if tree == DATA_TREE else 208)
        self.expect(field, f"copy {c}: root of the {name} tree", root_of(tree, count, covered, top), root)
        return levels[0] if levels else b""

    def _check_parity_extents(self, c, sb):
        extents = self._extents(sb, PARITY)
        here = parity_here(sb)
        self.expect(self.place(c) + 168, f"copy {c}: bytes in parity extents", [here] if here else [],
                    [e.length for e in extents])
        for e in extents:
            if sb.placement == STRIPED and e.offset % (sb.devices * sb.u):
                self.bad(e.offset, f"copy {c}: striped parity: expected to start at a multiple of {sb.devices * sb.u}")

    def _check_intent_extent(self, c, sb):
        extents = self._extents(sb, INTENT)
        if len(extents) > 1 or any(e.length % PAGE for e in extents):
            self.bad(self.place(c) + 264, f"copy {c}: expected one intent extent of 4096-byte pages")
        if not sb.compact or len(extents) != 1:
            return
        e = extents[0]
        others = [x for x in sb.extent_list if x is not e and x.kind <= PARITY]
        if e.offset % PAGE or any(x.offset + x.capacity > e.offset for x in others):
            self.bad(self.place(c) + 264, f"copy {c}: expected the intent pages behind everything else, on a page, "
                                          f"found {e.offset}")
        if len(self.bytes) not in (e.offset, e.offset + e.length):
            self.bad(len(self.bytes), f"copy {c}: expected the file to end at {e.offset}, or {e.length} bytes further "
                                      "with an intent")

    # -- what the copy that counts gives access to

    def region(self):
        """The parity region; tolerates what _check_parity_extents has reported."""
        if self.sb.placement == IN_DIRECTORIES:
            return self._region_of_parts()
        for e in self._extents(self.sb, PARITY):
            return self.bytes[e.offset:e.offset + e.length][:self.sb.region]
        return np.zeros(0, np.uint8)

    def part_paths(self):
        return [os.path.join(folder, self.sb.info.part_name) for folder in self.sb.info.directories]

    def _region_of_parts(self):
        """§13; what is of a part that is not there is zero."""
        sb = self.sb
        region = np.zeros(sb.region, np.uint8)
        for d, path in enumerate(self.part_paths()):
            if not os.path.exists(path):
                self.bad(0, f"part {d} of the parity is not there", path)
                continue
            part = view_of(path)
            for x in range(d, -(-sb.region // sb.u), sb.devices):
                have = part[sb.copies * sb.spacing + 8192 + x // sb.devices * sb.u:][:min(sb.u, sb.region - x * sb.u)]
                region[x * sb.u:x * sb.u + len(have)] = have
        return region

    def region_offset(self, byte):
        if self.sb.placement == IN_DIRECTORIES:
            return byte
        for e in self._extents(self.sb, PARITY):
            return e.offset + byte if byte < e.length else None
        return None

    def leaf_offset(self, kind, leaf):
        return next((e.offset + 16 * leaf for e in self._extents(self.sb, kind) if e.level == 0), None)

    def is_decided(self, sb):
        """Whether the last intent page notes that this prepared commit was to count (§9)."""
        for e in self._extents(sb, INTENT):
            number = e.length // PAGE - 1
            page = self.read(e.offset + number * PAGE, PAGE)
            if page[:8] == b"LZYINTNT" and page[4080:] == H(0x12, number, page[:4080]) and page[32] & DECIDED:
                return (page[8:24], *struct.unpack_from("<Q", page, 24), *struct.unpack_from("<q", page, 40)) == (
                    sb.uuid, sb.generation, sb.wall)
        return False

    def intents(self):
        """The intent pages that are set."""
        found = []
        for e in self._extents(self.sb, INTENT):
            for i in range(min(e.length, len(self.bytes)) // PAGE):
                page = self.read(e.offset + i * PAGE, PAGE)
                if (page[:8] == b"LZYINTNT" and page[8:24] == self.sb.uuid and page[4080:] == H(0x12, i, page[:4080])
                        and int.from_bytes(page[24:32], "little") == self.sb.generation
                        and not page[32] & DECIDED):
                    found.append(self._intent(i, e.offset + i * PAGE, page))
        by_page = {f["page"]: f for f in found}
        if {0, 1} & by_page.keys():
            first, second = ({k: v for k, v in by_page.get(i, {}).items() if k != "page"} for i in (0, 1))
            if first != second:
                self.notes.append(f"{self.path}: intent pages 0 and 1 differ")
        return found

    def _intent(self, number, at, page):
        flags, count, wall, pid, host = struct.unpack_from("<IIqII", page, 32)
        if count > 240 or host > 64 or flags & 1 and count:
            self.bad(at, f"intent page {number}: flags {flags}, {count} ranges, host of {host} bytes")
        ranges = [struct.unpack_from("<QQ", page, 120 + 16 * i) for i in range(min(count, 240))]
        return {"page": number, "flags": flags, "wall": wall, "pid": pid, "ranges": ranges,
                "host": page[56:56 + min(host, 64)].decode(errors="replace")}


def parity_here(sb):
    """Bytes of parity in the file of this superblock (§4, §13)."""
    if sb.placement != IN_DIRECTORIES:
        return sb.region
    units = range(sb.rank - 1, -(-sb.region // sb.u), sb.devices) if sb.rank else ()
    return sum(min(sb.u, sb.region - x * sb.u) for x in units)


def differing_hashes(a, b):
    if a == b:
        return []
    both = min(len(a), len(b)) // 16 * 16
    x, y = (np.frombuffer(h[:both], np.uint8).reshape(-1, 16) for h in (a, b))
    return np.flatnonzero((x != y).any(axis=1)).tolist()


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


# ---- a dataset ----------------------------------------------------------------------------------

class Dataset:
    def __init__(self, sidecars, quick, ignore_stamps):
        self.quick, self.ignore_stamps = quick, ignore_stamps
        self.lines = []
        committed = {sb.generation for s in sidecars for sb in s.copies.values() if sb.state == COMMITTED}
        for s in sidecars:
            s.choose(committed)
        self.sidecars = sorted(sidecars, key=lambda s: s.sb.rank)
        self.sb = self.sidecars[0].sb
        self.by_rank = {s.sb.rank: s for s in self.sidecars}
        self.parity_sha256 = None
        self.parity_bytes = 0
        self.intent_pages = {s.sb.rank: s.intents() for s in self.sidecars}
        self.check()

    def bad(self, text):
        self.lines.append(f"dataset {self.sb.uuid.hex()}: {text}")

    def all_lines(self):
        return [line for s in self.sidecars for line in s.lines] + self.lines

    def check(self):
        self.files = {s.sb.rank: self.data_file(s) for s in self.sidecars}
        for s in self.sidecars:
            self.check_name(s)
        consistent = self.check_members()
        if self.sb.state == NEVER:
            self.sidecars[0].notes.append(f"{self.sidecars[0].path}: never committed, nothing to judge")
            return
        if not consistent:
            self.bad("members disagree; geometry, data and parity not checked")
            return
        self.check_parts()
        self.check_roots()
        if any(s.sb.levels[DATA_TREE] is None or s.sb.levels[PARITY_TREE] is None for s in self.sidecars):
            self.bad("a tree does not fit its file; geometry, data and parity not checked")
            return
        self.make_groups()
        self.check_geometry()
        self.units = self.parity_units()
        self.check_regions()
        if self.quick or self.sb.u > max(self.sb.b, *(e.size for e, _ in self.entries.values())):
            return
        for s in self.sidecars:
            self.check_data(s)
        self.check_parity_leaves()
        self.check_parity_bytes()

    # -- spares in device directories (§13)

    def check_parts(self):
        for d, path in enumerate(self.sidecars[0].part_paths()):
            try:
                part = Sidecar(path, self.sidecars[0].data_path, self.sidecars[0].key)
                part.choose(set())
            except (OSError, Refused) as error:
                self.bad(f"part {d}: {error}")
                continue
            self.lines += part.lines
            part.expect(116, "rank of the part", d + 1, part.sb.rank)
            own = {"rank", "extent_list", "extents", "info", "levels", "padding", "usable", "sealed_part", "seal", "copy", "state"}
            for name, value in vars(self.sb).items():
                if name not in own and getattr(part.sb, name, None) != value:
                    self.bad(f"{path}: {name} is not that of the sidecar")
            if part.sb.levels != self.sb.levels:
                self.bad(f"{path}: its trees are not those of the sidecar")

    # -- data files, stamps, names

    def data_file(self, s):
        try:
            stat, data = os.stat(s.data_path), view_of(s.data_path)
        except OSError as error:
            s.bad(0, f"data file: {error.strerror}", s.data_path)
            return None
        if s.sb.state != NEVER and not self.ignore_stamps:
            for what, want, found in (("size", s.sb.size, stat.st_size), ("mtime", s.sb.mtime, stat.st_mtime_ns),
                                      ("inode", s.sb.inode, stat.st_ino)):
                if want != found:
                    s.bad(0, f"stamp: {what}: expected {want}, found {found}", s.data_path)
        return data

    def check_name(self, s):
        """A renamed file is none the worse for it (§5), nor are leftovers of a crash (§1)."""
        folder, base = os.path.split(s.data_path)
        for prefix in (".LZY-new.", ".LZY-data."):
            for leftover in glob.glob(os.path.join(glob.escape(folder), glob.escape(prefix + base) + "*")):
                if re.fullmatch(r"(\.\d+)?", os.path.basename(leftover)[len(prefix + base):]):
                    s.notes.append(f"{leftover}: left over")

        def expand(match):
            return str(s.sb.rank).zfill(int(match[1] or 0))
        name = s.sb.info.name
        if s.sb.kind == SET:
            name = re.sub(r"%(?:0(\d+))?r", expand, name)
        if not ("/" + s.data_path).endswith("/" + name):
            s.notes.append(f"{s.path}: made as {name!r}, renamed since")

    # -- what the sidecars say of each other

    def check_members(self):
        same = "uuid generation state kind placement b u m devices n s t0 dataset_root".split()
        before = len(self.lines)
        if len(self.by_rank) != len(self.sidecars):
            self.bad(f"ranks given twice: {[s.sb.rank for s in self.sidecars]}")
        for s in self.sidecars:
            for name in same:
                mine, its = getattr(self.sb, name), getattr(s.sb, name)
                if mine != its:
                    self.bad(f"{s.path}: {name}: expected that of rank {self.sb.rank}, {mine}, found {its}")
            for name in ("name", "stripe", "group", "leaves", "covered"):
                mine, its = getattr(self.sb.info, name), getattr(s.sb.info, name)
                if mine != its:
                    self.bad(f"{s.path}: info {name}: expected that of rank {self.sb.rank}, {mine!r}, found {its!r}")
        self.entries = {}
        for s in self.sidecars:
            for e in s.sb.info.members:
                known, by = self.entries.setdefault(e.rank, (e, s))
                if known != e:
                    self.bad(f"{s.path}: member entry of rank {e.rank} differs from that in {by.path}")
                own = self.by_rank.get(e.rank)
                if own and self.sb.state != NEVER and own.sb.data_root != e.data_root:
                    self.bad(f"{s.path}: member entry of rank {e.rank}: data root differs from its own sidecar's")
        self.check_groups()
        return len(self.lines) == before

    def check_groups(self):
        groups = {tuple(g) for s in self.sidecars for g in s.sb.info.groups}
        ranks = sorted(r for g in groups for r in g)
        self.group_lists = sorted(map(list, groups)) if self.sb.kind == SET else self.sb.info.groups
        if len(set(ranks)) != len(ranks):
            self.bad(f"groups overlap: {sorted(groups)}")
        if self.sb.kind == SHARED:
            return
        missing = list(itertools.islice((r for r in range(self.sb.devices) if r not in self.by_rank), 100))
        if missing:
            self.sidecars[0].bad(0, f"set of {self.sb.devices} members: ranks {missing} not given")
        elif max(map(len, groups)) != self.sb.n:
            self.bad(f"n, largest group: expected {max(map(len, groups))}, found {self.sb.n}")

    def complete(self):
        return self.sb.kind == SHARED or len(self.entries) == self.sb.devices

    def check_roots(self):
        """The tree over members from scratch: from the data roots, not from the paths."""
        if not self.complete():
            return
        members = [self.entries[r][0] for r in sorted(self.entries)]
        covered = sum(e.size for e in members)
        levels = levels_of(MEMBER_TREE, b"".join(e.data_root for e in members))
        root = dataset_root(self.sb, root_of(MEMBER_TREE, len(members), covered, levels[-1]))
        if root != self.sb.dataset_root:
            self.bad(f"dataset root: expected {root.hex()}, found {self.sb.dataset_root.hex()}")
        for s in self.sidecars:
            s.expect(0, "info: bytes covered by the tree over members", covered, s.sb.info.covered)
            for l, page in enumerate(s.sb.info.pages):
                o = 32 * (s.sb.rank >> (l + 1))
                s.expect(0, f"info: page {l} of the Merkle path", levels[l][o:o + 32], b"".join(page))

    # -- geometry

    def make_groups(self):
        sb, D, u = self.sb, self.sb.devices, self.sb.u
        self.groups = []
        for g, devices in enumerate(self.group_lists):
            if sb.kind == SHARED:
                sizes, base, stride = [sb.size] * len(devices), [d * u for d in devices], D * u
            else:
                sizes, base, stride = [self.entries[r][0].size for r in devices], [0] * len(devices), u
            self.groups.append(Group(g, devices, sb.m, u, sizes, stride, base))

    def check_geometry(self):
        sb, first = self.sb, self.sidecars[0]
        s = min(sb.u, sb.size) if sb.placement == POOLED else sb.u
        t0 = 0
        if sb.placement == POOLED:
            t0 = min((g.first_row for g in self.groups if g.first_row is not None), default=0)
        first.expect(176, "parity stride s", s, sb.s)
        first.expect(184, "first row t0", t0, sb.t0)
        if self.complete():
            u = unit_by_rule(sb, sb.info.stripe, max(e.size for e, _ in self.entries.values()))
            if sb.placement != STRIPED or sb.u > max(sb.b, sb.info.stripe):
                first.expect(96, "unit u by the rule", u, sb.u)
        self.s, self.t0 = s, t0

    def parity_units(self):
        """rank -> (x, length) of the parity units in that sidecar's region, ascending; zero lengths left out."""
        found = {r: [] for r in self.by_rank}
        for g in self.groups if self.sb.m else []:
            t = np.arange(self.t0, max(g.rows, self.t0))
            length = g.row_lengths(t)
            for q in range(self.sb.m):
                for owner, rows, x in self.placed(g, q, t):
                    if owner in found:
                        found[owner].append(np.stack((x, length[rows]))[:, length[rows] > 0])
        none = np.zeros((2, 0), np.int64)
        units = {r: np.concatenate(parts, axis=1) if parts else none for r, parts in found.items()}
        return {r: a[:, np.argsort(a[0], kind="stable")] for r, a in units.items()}

    def placed(self, g, q, t):
        """§6, where parity lies: (owner of the region, index into t, unit numbers x)."""
        j = (q + t) % g.rotation.n
        everything = np.arange(len(t))
        if self.sb.placement == POOLED:
            yield 0, everything, ((t - self.t0) * len(self.groups) + g.number) * self.sb.m + q
        elif self.sb.placement in (STRIPED, IN_DIRECTORIES):
            yield 0, everything, g.rotation.parity_before(j, t) * self.sb.devices + np.array(g.devices)[j]
        else:
            for i, rank in enumerate(g.devices):
                rows = np.flatnonzero(j == i)
                yield rank, rows, g.rotation.parity_before(i, t[rows])

    def check_regions(self):
        per_unit = self.sb.u // self.sb.b
        for s in self.sidecars:
            x, length = self.units[s.sb.rank]
            if len(np.unique(x)) != len(x):
                s.bad(0, "two parity units have the same number")
            end = int((x * self.s + length).max(initial=0))
            s.expect(168, "size of the parity region", end, s.sb.region)
            leaves = int((x * per_unit - (-length // self.sb.b)).max(initial=0))
            s.expect(s.leaf_offset(PARITY_LEVEL, 0), "leaves of the parity tree", leaves,
                     len(s.sb.levels[PARITY_TREE] or b"") // 16)

    # -- data and parity

    def check_data(self, s):
        data, leaves, b = self.files[s.sb.rank], s.sb.levels[DATA_TREE], self.sb.b
        if data is None or leaves is None:
            return
        view = memoryview(data)[:s.sb.size]
        have = b"".join(leaf_of(s.seal_key, 0x01, i, view[o:o + b]) for i, o in enumerate(range(0, s.sb.size, b)))
        for i in differing_hashes(leaves, have):
            s.bad(i * b, f"data block {i}: expected {leaves[16 * i:16 * i + 16].hex()}, "
                         f"found {have[16 * i:16 * i + 16].hex()}", s.data_path)

    def check_parity_leaves(self):
        b, per_unit = self.sb.b, self.sb.u // self.sb.b
        sha = hashlib.sha256()
        for s in self.sidecars:
            region, leaves = s.region(), s.sb.levels[PARITY_TREE] or b""
            masked, view = np.zeros(len(region), np.uint8), memoryview(np.ascontiguousarray(region))
            hashes = bytearray(len(leaves))
            for x, length in self.units[s.sb.rank].T.tolist():
                start = x * self.s
                masked[start:start + length] = region[start:start + length]
                for i in range(-(-length // b)):
                    leaf = x * per_unit + i
                    block = view[start + i * b:start + min((i + 1) * b, length)]
                    hashes[16 * leaf:16 * leaf + 16] = leaf_of(s.seal_key, 0x02, leaf, block)
            for i in differing_hashes(leaves, bytes(hashes)):
                want, found = leaves[16 * i:16 * i + 16].hex(), hashes[16 * i:16 * i + 16].hex()
                if not any(hashes[16 * i:16 * i + 16]):
                    s.bad(s.leaf_offset(PARITY_LEVEL, i), f"parity leaf {i} is in a hole: expected zero, found {want}")
                else:
                    at = s.region_offset(i // per_unit * self.s + i % per_unit * b)
                    s.bad(at, f"parity block {i}: expected {want}, found {found}")
            debris = int(np.count_nonzero(masked != region))
            if debris:
                s.notes.append(f"{s.path}: {debris} bytes in holes of the parity region are not zero")
            sha.update(masked)
            self.parity_bytes += len(masked)
        self.parity_sha256 = sha.hexdigest()

    def check_parity_bytes(self):
        regions = {s.sb.rank: s.region() for s in self.sidecars}
        for g in self.groups if self.sb.m else []:
            files = [self.files.get(r) for r in (g.devices if self.sb.kind == SET else [0] * len(g.devices))]
            if any(f is None for f in files):
                self.bad(f"group {g.devices}: not all data there; parity not compared with them")
                continue
            files = [f[:size] for f, size in zip(files, g.sizes)]
            step = max(1, CHUNK // (self.sb.m * self.sb.u))
            for first in range(self.t0, g.rows, step):
                count = min(step, g.rows - first)
                t = np.arange(first, first + count)
                parity, lengths = g.parity(first, count, files), g.row_lengths(t).tolist()
                for q in range(self.sb.m):
                    for owner, rows, x in self.placed(g, q, t):
                        if owner in regions:
                            self.compare(owner, regions[owner], parity[q], lengths, rows.tolist(), x.tolist(), first)

    def compare(self, owner, region, parity, lengths, rows, xs, first):
        s, b = self.by_rank[owner], self.sb.b
        for row, x in zip(rows, xs):
            length, start = lengths[row], x * self.s
            want, found = parity[row, :length], region[start:start + length]
            if len(found) == length and np.array_equal(want, found):
                continue
            for i in range(0, length, b):
                if not np.array_equal(want[i:i + b], found[i:i + b]):
                    wrong = int(np.argmax(want[i:i + b] != found[i:i + b])) if len(found) >= min(i + b, length) else 0
                    expected, is_ = (a[i + wrong:i + wrong + 1].tobytes().hex() for a in (want, found))
                    s.bad(s.region_offset(start + i + wrong), f"parity of block row ({first + row}, {i // b}), unit "
                          f"{x}: does not fit the data: expected {expected}, found {is_}")

    # -- report

    def report(self):
        sb = self.sb
        notes = [note for s in self.sidecars for note in s.notes]
        lines = self.all_lines()
        return {
            "root": sb.dataset_root.hex(), "uuid": sb.uuid.hex(), "generation": sb.generation, "state": sb.state,
            "kind": "set" if sb.kind == SET else "shared",
            "placement": {POOLED: "pooled", PER_DEVICE: "per device", STRIPED: "striped", IN_DIRECTORIES: "in directories"}[sb.placement],
            "block_size": sb.b, "unit": sb.u, "devices": sb.devices, "n": sb.n, "m": sb.m,
            "groups": self.group_lists, "stride": sb.s, "first_row": sb.t0, "copies": sb.copies,
            "name": sb.info.name, "stripe": sb.info.stripe, "group": sb.info.group,
            "bytes": sum(s.sb.size for s in self.sidecars),
            "parity_bytes": self.parity_bytes, "parity_sha256": self.parity_sha256,
            "sealed": bool(self.sb.incompatible & SEALED),
            "compact": any(s.compact for s in self.sidecars),
            "intent_set": any(self.intent_pages.values()),
            "members": [self.member_report(s) for s in self.sidecars],
            "notes": notes, "discrepancies": lines}

    def member_report(self, s):
        sb = s.sb
        return {"rank": sb.rank, "path": s.data_path, "sidecar": s.path, "size": sb.size, "mtime": sb.mtime,
                "inode": sb.inode, "racy": sb.mtime >= sb.clock, "data_root": sb.data_root.hex(),
                "parity_root": sb.parity_root.hex(), "parity_size": sb.region, "sidecar_bytes": len(s.bytes),
                "intents": self.intent_pages[sb.rank]}


# ---- program ------------------------------------------------------------------------------------

def sidecar_of(path):
    """(sidecar, data file) of either (§1); links are followed first."""
    real = os.path.realpath(path)
    folder, name = os.path.split(real)
    if name.startswith(".LZY."):
        return real, os.path.join(folder, name[5:])
    return os.path.join(folder, ".LZY." + name), real


def check(paths, quick=False, ignore_stamps=False, secret=None):
    """Result with .reports (one a dataset), .lines (discrepancies), .errors (unreadable), .exit_code."""
    result = SimpleNamespace(reports=[], lines=[], errors=[], exit_code=0)
    datasets = {}
    for path, data_path in dict(map(sidecar_of, paths)).items():
        try:
            s = Sidecar(path, data_path, Key(secret) if secret is not None else None)
            sb = next(iter(s.copies.values()))
            # Copied files have the same uuid; shared files are datasets of their own all the same.
            datasets.setdefault((sb.uuid, path if sb.kind == SHARED else ""), []).append(s)
        except (OSError, Refused) as error:
            result.errors.append(str(error))
    for sidecars in datasets.values():
        try:
            dataset = Dataset(sidecars, quick, ignore_stamps)
            result.reports.append(dataset.report())
            result.lines += dataset.all_lines()
        except (OSError, Refused) as error:
            result.errors.append(str(error))
    result.exit_code = 2 if result.errors else 1 if result.lines else 0
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, discrepancies in it")
    parser.add_argument("--quick", action="store_true", help="metadata and stamps only")
    parser.add_argument("--ignore-stamps", action="store_true", help="do not compare size, mtime, inode")
    parser.add_argument("--key", type=argparse.FileType("rb"), help="the secret of sealed datasets")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_SIDECAR")
    options = parser.parse_args(arguments)
    result = check(options.paths, options.quick, options.ignore_stamps, options.key.read() if options.key else None)
    for error in result.errors:
        print(error, file=sys.stderr)
    if options.json:
        print(json.dumps({"datasets": result.reports}))
        return result.exit_code
    for line in result.lines[:MAX_LINES]:
        print(line)
    if len(result.lines) > MAX_LINES:
        print(f"… and {len(result.lines) - MAX_LINES} more")
    for r in result.reports:
        for note in r["notes"]:
            print("note:", note, file=sys.stderr)
        print(f"{r['kind']} {r['name']}: root {r['root']}, generation {r['generation']}, "
              f"{'intent set, ' if r['intent_set'] else ''}{len(r['discrepancies'])} discrepancies", file=sys.stderr)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
