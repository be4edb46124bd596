"""One sidecar: finds its superblocks, chooses the copy that counts, and checks every copy against docs/format.md (§4,
§5, §8, §9, §12, §13). Part of the independent reader (format_reader.py).
"""
import os
import struct

import numpy as np

from reader_fields import (COMMITTED, DATA_LEVEL, DATA_TREE, DECIDED, INFO, INTENT, IN_DIRECTORIES, MAGIC, MEMBER_TREE,
                           NEVER, NODES, PAGE, PARITY, PARITY_LEVEL, PARITY_TREE, PARTED, PER_DEVICE, POOLED, PREPARED, SEALED,
                           SET, SHARED, STRIPED, ZERO_HASH, Refused, decode_info, decode_nodes, is_power, parity_here,
                           parse_superblock, refuse_unknown, superblock_size, view_of)
from reader_hashes import H, dataset_root, differing_hashes, parents, root_of


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
                elif e.kind in (INFO, DATA_LEVEL, PARITY_LEVEL, NODES):
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
                if INFO <= e.kind <= NODES and e.capacity:
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
            if e.zero and e.kind <= NODES:
                self.bad(at + 4, f"copy {c}: extent {i}: expected zero padding")
            if e.length > e.capacity:
                self.bad(at + 32, f"copy {c}: extent {i}: expected capacity >= length {e.length}, found {e.capacity}")
            if e.offset + e.length > len(self.bytes) and not (sb.compact and e.kind == INTENT):
                self.bad(at + 16, f"copy {c}: extent {i}: {e.offset}+{e.length} is beyond the end {len(self.bytes)}")
            if e.logical and e.kind <= NODES:
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
        for name in ("size", "mtime", "region"):
            if getattr(sb, name) != 0:
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
                self._check_nodes(c, sb, info)

    def _check_nodes(self, c, sb, info):
        for e in self._extents(sb, NODES):
            data = self.read(e.offset, e.length)
            self.expect(e.offset, f"copy {c}: a record of nodes in sets only", SET, sb.kind)
            if not self.expect(e.offset, f"copy {c}: hash of the record of nodes", H(0x15, 0, data[:-16]), data[-16:]):
                continue
            try:
                count, nodes = decode_nodes(data[:-16])
            except (ValueError, struct.error) as error:
                self.bad(e.offset, f"copy {c}: record of nodes: {error}")
                continue
            info.nodes = nodes or [member.domain for member in info.members]
            self.expect(e.offset, f"copy {c}: nodes of members", len(info.members), len(info.nodes))
            if not 1 <= count <= sb.devices:
                self.bad(e.offset, f"copy {c}: expected as many nodes as members at most, found {count}")

    def _check_groups(self, c, sb, at, info):
        shared = sb.kind == SHARED
        if (not info.name or info.name.startswith("/") or ".." in info.name.split("/") or "\0" in info.name
                or len(info.name.encode(errors="surrogateescape")) > 4096 or shared and "/" in info.name):
            self.bad(at, f"copy {c}: info name: expected a relative path without '..', found {info.name!r}")
        if sb.state == NEVER:
            self.expect(at, f"copy {c}: state 3: groups, member entries", ([], []), (info.groups, info.members))
            return
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
        for name in ("size", "data_root", "region", "parity_root"):  # a new stamp may have another mtime
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
