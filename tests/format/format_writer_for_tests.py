"""Writes lzy sidecars for the tests of format_reader.py. Small, slow, and on purpose another road to docs/format.md
than the reader's: rows are dealt one by one, "next data unit not used yet"; GF(256) products are shifted and added;
inverses are searched for; parity is XORed as Python integers. It shares no code with the reader.

`write(paths, ...)` makes the sidecars of one dataset; `Lies` lets a test have it write something false but
otherwise consistent (all hashes right), which only a reader that recomputes everything notices.
"""
import os
import struct
from dataclasses import dataclass, field

import xxhash


@dataclass
class Lies:
    rotate: int = 1               # direction of the rotation
    matrix: str = "cauchy"        # or "vandermonde"
    fields: dict = field(default_factory=dict)       # superblock fields of every copy
    copy_fields: dict = field(default_factory=dict)  # superblock fields of the last copy
    hole_leaf: bool = False       # a hash where a hole's zero belongs
    seed_blocks: bool = True      # leaf number in the seed
    entry_size: int = 0           # added to the size in member entries of others
    info_tail: bytes = b""
    node_seed: int = 0            # added to the index of interior nodes


def H(tag, index, data):
    v = xxhash.xxh3_128_intdigest(data, tag * 2**56 + index)
    return (v % 2**64).to_bytes(8, "little") + (v // 2**64).to_bytes(8, "little")


def string(s):
    return struct.pack("<I", len(s.encode())) + s.encode()


# ---- codes

def gf_times(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 256:
            a ^= 0x11D
        b >>= 1
    return product


def gf_inverse(a):
    return next(x for x in range(256) if gf_times(a, x) == 1)


_tables = {}


def scaled(c, data):
    if c not in _tables:
        _tables[c] = bytes(gf_times(c, x) for x in range(256))
    return data.translate(_tables[c])


def encode(units, m, length, lies):
    """Parity units of one row from the data units in order of position."""
    k = len(units)
    out = []
    for q in range(m):
        total = 0
        for j, a in enumerate(units):
            c = 1
            if m > 1:
                c = gf_inverse((k + q) ^ j) if lies.matrix == "cauchy" else [1, j + 1, gf_times(j + 1, j + 1)][q]
            total ^= int.from_bytes(scaled(c, a.ljust(length, b"\0")), "little")
        out.append(total.to_bytes(length, "little"))
    return out


# ---- geometry, by dealing

def deal_group(devices, m, lies):
    """Rows of one group: [(t, [(position q, index j, parity units j had before, parity bytes)])]."""
    n = len(devices)
    used, held = [0] * n, [0] * n
    rows, t = [], 0
    while any(used[j] < len(devices[j]) for j in range(n)):
        at = {(j - lies.rotate * t) % n: j for j in range(n)}
        units = []
        for position in range(m, n):
            j = at[position]
            units.append(devices[j][used[j]] if used[j] < len(devices[j]) else b"")
            used[j] += 1
        length = max(map(len, units))
        rows.append((t, [(q, at[q], held[at[q]], p) for q, p in enumerate(encode(units, m, length, lies))],
                     length))
        for q in range(m):
            held[at[q]] += 1
        t += 1
    return rows


class Region:
    """Parity units by number, then their bytes and leaves."""

    def __init__(self):
        self.units = {}

    def finish(self, s, u, b, lies):
        self.bytes, self.leaves = bytearray(), []
        for x in sorted(self.units):
            unit = self.units[x]
            if not unit:
                continue
            self.bytes += bytes(x * s + len(unit) - len(self.bytes))
            self.bytes[x * s:x * s + len(unit)] = unit
            for i, o in enumerate(range(0, len(unit), b)):
                leaf = x * (u // b) + i
                self.leaves += [bytes(16)] * (leaf + 1 - len(self.leaves))
                self.leaves[leaf] = H(0x02, leaf, unit[o:o + b])
        if lies.hole_leaf:
            self.leaves[self.leaves.index(bytes(16))] = H(0x02, 0, b"x")


def tree(tag, leaves, fan, lies):
    levels = [list(leaves)] if leaves else []
    while levels and len(levels[-1]) > 1:
        below, l = levels[-1], len(levels)
        levels.append([H(tag + l, i // fan + lies.node_seed, b"".join(below[i:i + fan]))
                       for i in range(0, len(below), fan)])
    return levels


def tree_root(tag, levels, covered):
    leaves = len(levels[0]) if levels else 0
    return H(tag, 0, struct.pack("<QQ", leaves, covered) + (levels[-1][0] if levels else bytes(16)))


# ---- the dataset

def choose_unit(b, stripe, size_per_unit):
    """size_per_unit: what 4·u (set) or 4·n·u (shared) may not exceed, over the factor."""
    best = b
    for power in range(31):
        u = b << power
        if u <= stripe and u <= size_per_unit and u <= 2**30:
            best = u
    return best


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def merkle_path(over, rank):
    """The children of one node of each level, bottom first, on the way from leaf `rank` to the top."""
    pages, at = [], rank
    for below in over[:-1]:
        first = at - at % 2
        pages.append(below[first:first + 2])
        at //= 2
    return pages


def info_record(name, stripe, n, groups, entries, pages, leaf, leaves, covered):
    """Section 5 of the format."""
    info = string(name) + struct.pack("<QI", stripe, n)
    info += struct.pack("<I", len(groups)) + b"".join(struct.pack(f"<I{len(g)}I", len(g), *g) for g in groups)
    info += struct.pack("<I", len(entries)) + b"".join(entries)
    info += struct.pack("<QQQI", leaf, leaves, covered, len(pages))
    return info + b"".join(struct.pack("<I", len(p)) + b"".join(p) for p in pages)


def deal_units(data, shared, u, count):
    """The data units of each device."""
    if not shared:
        return [[d[o:o + u] for o in range(0, len(d), u)] for d in data]
    units = [[] for _ in range(count)]
    for q, o in enumerate(range(0, len(data[0]), u)):
        units[q % count].append(data[0][o:o + u])
    return units


def place_parity(dealt, groups, m, placement, t0, devices, files):
    """The parity units in their regions (section 6)."""
    regions = [Region() for _ in range(files)]
    for g, rows in enumerate(dealt):
        for t, parities, _ in rows:
            for q, j, before, parity in parities:
                device = groups[g][j]
                if placement == "pooled":
                    regions[0].units[((t - t0) * len(groups) + g) * m + q] = parity
                elif placement == "striped":
                    regions[0].units[before * devices + device] = parity
                else:
                    regions[device].units[before] = parity
    return regions


def write(paths, kind="shared", b=512, stripe=4096, groups=((0, 1, 2),), m=1, placement=None, uuid=bytes(range(16)),
          generation=1, state=1, spread=False, slack=0, intent=None, name=None, lies=None, compact=False):
    """Sidecars of the shared file paths[0], or of the set `paths`. Returns [(sidecar, layout)], layout naming
    offsets: {"info0": .., "data0.1": (level 1 of the data tree in copy 0), "parity", "intent", "super0", ...} and
    "spans": [(offset, length)] of everything but the intent pages."""
    lies = lies or Lies()
    data = [contents(p) for p in paths]
    n, count = max(map(len, groups)), sum(map(len, groups))
    shared = kind == "shared"
    placement = placement or ("pooled" if shared else "per device")
    size = len(data[0])
    u = choose_unit(b, stripe, size / (4 * n) if shared else max(map(len, data)) / 4)
    units = deal_units(data, shared, u, count)
    dealt = [deal_group([units[d] for d in g], m, lies) for g in groups]
    with_data = [t for rows in dealt for t, _, length in rows if length]
    s, t0 = (min(u, size), min(with_data, default=0)) if placement == "pooled" else (u, 0)
    regions = place_parity(dealt, groups, m, placement, t0, count, len(paths))
    for r in regions:
        r.finish(s, u, b, lies)

    trees = [tree(0x40, [H(0x01, i if lies.seed_blocks else 0, d[o:o + b]) for i, o in enumerate(range(0, len(d), b))],
                  256, lies) for d in data]
    roots = [tree_root(0x05, t, len(d)) for t, d in zip(trees, data)]
    parity_trees = [tree(0x50, r.leaves, 256, lies) for r in regions]
    parity_roots = [tree_root(0x06, t, len(r.bytes)) for t, r in zip(parity_trees, regions)]
    over = tree(0x60, roots, 2, lies)
    covered = sum(map(len, data))
    shape = struct.pack("<IIQIIQ", 1 if shared else 2, b, u, n, m, len(paths))
    root = H(0x08, 0, shape + tree_root(0x07, over, covered))

    def member(e, rank):
        """The entry of member e in the info record of `rank`."""
        st = os.stat(paths[e])
        entry = struct.pack("<IIIIqQ", e, st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_mtime_ns,
                            len(data[e]) + (lies.entry_size if e != rank else 0))
        return entry + roots[e] + struct.pack("<Q", len(regions[e].bytes)) + parity_roots[e] + string("node%d" % e)

    result = []
    for rank, path in enumerate(paths):
        stat = os.stat(path)
        group = list(groups) if shared else [next(g for g in groups if rank in g)]
        entries = [member(e, rank) for e in ([0] if shared else group[0])]
        info = info_record(name or os.path.basename(path), stripe, n, group, entries, merkle_path(over, rank), rank,
                           len(paths), covered) + lies.info_tail
        fields = dict(
            magic=b"\x89LZY\r\n\x1a\n", bom=0x01020304, major=1, minor=0, compatible=0, readonly=0, incompatible=0,
            uuid=uuid, generation=generation, copy=0, copies=max(2, m + 1) if shared else 2, spacing=0, state=state,
            kind=1 if shared else 2, placement={"pooled": 1, "per device": 2, "striped": 3}[placement], b=b, u=u, m=m,
            devices=count, n=n, rank=rank, clock=stat.st_mtime_ns + 10**9, wall=stat.st_mtime_ns + 10**9,
            size=len(data[rank]), mtime=stat.st_mtime_ns, inode=stat.st_ino, device=stat.st_dev,
            region=len(regions[rank].bytes), s=s, t0=t0, data_root=roots[rank], parity_root=parity_roots[rank],
            dataset_root=root, info_hash=H(0x11, 0, info))
        if compact:
            result.append(put_compact(path, {**fields, "major": 2, "incompatible": 4}, info, trees[rank],
                                      parity_trees[rank], bytes(regions[rank].bytes), intent, lies))
            continue
        align = count * u if placement == "striped" else 1
        result.append(put(path, fields, info, trees[rank], parity_trees[rank], bytes(regions[rank].bytes), spread, slack,
                          align, intent, lies))
    return result


def put_compact(path, fields, info, data_tree, parity_tree, parity, intent, lies):
    """§14, with a gap between superblock and metadata that the reference writer does not leave."""
    parts = [(1, 0, info)]
    parts += [(3, l, b"".join(level)) for l, level in enumerate(data_tree)]
    parts += [(4, l, b"".join(level)) for l, level in enumerate(parity_tree)]
    room = 1040 + sum(len(p) for _, _, p in parts)
    first = 4096 * ((room + len(parity) + 4095) // 4096)  # of copy 1: generous
    places = [0, first] + [first + 4096 * i for i in range(1, fields["copies"] - 1)]
    assert room <= 4096
    intent_at, layout, chunks = places[-1] + 4096, {}, []
    layout.update(intent=intent_at, parity=room)
    if intent is not None:
        chunks.append((intent_at, intent_pages(fields, intent)))
    if parity:
        chunks.append((room, parity))
    for c, place in enumerate(places):
        layout[f"super{c}"], at, listed = place, place + 1040, []
        for kind, level, content in parts:
            listed.append((kind, level, 0, 0, at, len(content), len(content)))
            layout[{1: f"info{c}", 3: f"data{c}.{level}", 4: f"parity{c}.{level}"}[kind]] = at
            chunks.append((at, content))
            at += len(content)
        listed.append((2, 0, 0, 0, intent_at, 8192, 8192))
        if parity:
            listed.append((5, 0, 0, 0, room, len(parity), len(parity)))
        values = {**fields, "copy": c, "spacing": first, **lies.fields,
                  **(lies.copy_fields if c == len(places) - 1 else {})}
        page = struct.pack("<8sIHHQQQ16sQIIQIIIIQIIIIqqQqQQQQQ16s16s16s16sII", *values.values(), len(listed), 0)
        page = (page + b"".join(struct.pack("<HHIQQQQ", *e) for e in listed)).ljust(1008, b"\0")
        chunks.append((place, page + H(0x10, c, page)))
    sidecar = os.path.join(os.path.dirname(path), ".LZY." + os.path.basename(path))
    layout["spans"] = [(at, len(content)) for at, content in chunks if at != intent_at]
    with open(sidecar, "wb") as f:
        f.truncate(intent_at)
        for at, content in chunks:
            f.seek(at)
            f.write(content)
    return sidecar, layout


def put(path, fields, info, data_tree, parity_tree, parity, spread, slack, align, intent, lies):
    """Lays one sidecar out: each copy's parts behind its superblock, or (spread) all behind the last superblock."""
    parts = [(1, 0, info)]
    parts += [(3, l, b"".join(level)) for l, level in enumerate(data_tree)]
    parts += [(4, l, b"".join(level)) for l, level in enumerate(parity_tree)]
    copies, spacing = fields["copies"], 8192
    while not spread and spacing < 4096 + sum(len(p) + slack for _, _, p in parts):
        spacing *= 2
    chunks, layout, extents = [], {}, [[] for _ in range(copies)]
    end = (copies - 1) * spacing + 4096
    for c in range(copies):
        layout[f"super{c}"] = c * spacing
        at = end if spread else c * spacing + 4096
        for kind, level, content in parts:
            extents[c].append((kind, level, 0, 0, at, len(content), len(content) + slack))
            layout[{1: f"info{c}", 3: f"data{c}.{level}", 4: f"parity{c}.{level}"}[kind]] = at
            chunks.append((at, content))
            at += len(content) + slack
        end = max(end, at)
    pages = intent_pages(fields, intent)
    end += -end % 4096
    layout["intent"] = end
    chunks.append((end, pages))
    common = [(2, 0, 0, 0, end, len(pages), len(pages))]
    end += len(pages)
    end += -end % align
    layout["parity"] = end
    if parity:
        chunks.append((end, parity))
        common.append((5, 0, 0, 0, end, len(parity), len(parity)))
    for c in range(copies):
        values = {**fields, "copy": c, "spacing": spacing, **lies.fields,
                  **(lies.copy_fields if c == copies - 1 else {})}
        listed = extents[c] + common
        page = struct.pack("<8sIHHQQQ16sQIIQIIIIQIIIIqqQqQQQQQ16s16s16s16sII", *values.values(), len(listed), 0)
        page += b"".join(struct.pack("<HHIQQQQ", *e) for e in listed)
        page = page.ljust(4080, b"\0")
        chunks.append((c * spacing, page + H(0x10, c, page)))
    sidecar = os.path.join(os.path.dirname(path), ".LZY." + os.path.basename(path))
    layout["spans"] = [(at, len(content)) for at, content in chunks if at != layout["intent"]]
    with open(sidecar, "wb") as f:
        for at, content in chunks:
            f.seek(at)
            f.write(content)
    return sidecar, layout


def intent_pages(fields, intent):
    """intent: None (void pages) or a list of ranges."""
    if intent is None:
        return bytes(2 * 4096)
    pages = b""
    for number in range(2):
        page = b"LZYINTNT" + fields["uuid"] + struct.pack("<QIIqI", fields["generation"], 0, len(intent), 7, 42)
        page = (page + string("host")).ljust(120, b"\0")
        page = (page + b"".join(struct.pack("<QQ", *r) for r in intent)).ljust(4080, b"\0")
        pages += page + H(0x12, number, page)
    return pages
