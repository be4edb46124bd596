"""A whole dataset: what its sidecars say of each other, its geometry, its data and its parity: docs/format.md, §3,
§5, §6, §7 and §13. Part of the independent reader (format_reader.py).
"""
import glob
import hashlib
import itertools
import os
import re

import numpy as np

from reader_fields import (COMMITTED, DATA_TREE, IN_DIRECTORIES, MEMBER_TREE, NEVER, PARITY_LEVEL, PARITY_TREE,
                           PER_DEVICE, POOLED, SEALED, SET, SHARED, STRIPED, Refused, view_of)
from reader_geometry import Group, unit_by_rule
from reader_hashes import dataset_root, differing_hashes, leaf_of, levels_of, root_of
from reader_sidecar import Sidecar

CHUNK = 16 << 20  # bytes of parity computed at a time


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
        for prefix in (".LZY-new.", ".LZY-data.", ".LZY-copy.", ".LZY-journal."):
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
