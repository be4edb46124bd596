"""Names of what damage lies in: HDF5 and classic netCDF.

make_hdf5 writes numbers that are nowhere else in its file, so these tests know where each element is without asking
HDF5."""

import json
import os
import random
import shutil
import struct
import subprocess
import time
import unittest

from harness import BIN, CliTest

MAKE_HDF5 = os.environ.get("TEST_LZY_MAKE_HDF5", "")
FEW = os.environ.get("TEST_LZY_FEW", "")  # with sanitizers: some of many variants
HELPER = os.path.join(BIN, "lzy-objects-helper")
BLOCK = 4096


def number_of(indices, shape):
    number = 0
    for index, length in zip(indices, shape):
        number = number * length + index
    return number


def indices_of(number, shape):
    out = []
    for length in reversed(shape):
        out.insert(0, number % length)
        number //= length
    return tuple(out)


class Made:
    """A file of make_hdf5, and what is where in it."""

    def __init__(self, path, kind):
        self.path = path
        told = json.loads(subprocess.run([MAKE_HDF5, path, kind], check=True, capture_output=True, timeout=100).stdout)
        with open(path, "rb") as file:
            content = file.read()
        self.size = len(content)
        by_number = {one["number"]: name for name, one in told["datasets"].items()}
        self.shapes = {name: one["shape"] for name, one in told["datasets"].items()}
        self.chunks = {name: one.get("chunk") for name, one in told["datasets"].items()}
        # Offset: (dataset, indices). Of the vast one, a single chunk was written, and numbered by itself.
        self.elements = {}
        at = content.find(b"\xa5\xc3")
        while at >= 0:
            number, element = struct.unpack(">HI", content[at + 2:at + 8])
            name = by_number.get(number)
            if name:
                one = told["datasets"][name]
                if "only" in one:
                    local = indices_of(element, one["chunk"])
                    where = tuple(o * c + i for o, c, i in zip(one["only"], one["chunk"], local))
                else:
                    where = indices_of(element, one["shape"])
                self.elements[at] = (name, where)
                at += 7
            at = content.find(b"\xa5\xc3", at + 1)
        # (begin, end, dataset, chunk). Some versions of HDF5 leave out the user block where they say where a chunk is; zlib's header
        # tells.
        chunks = [(begin, size, name, chunk) for name, one in told["datasets"].items() for begin, size, *chunk in one.get("filtered", [])]
        base = next(base for base in (0, 8192) if all(content.startswith(b"\x78\x01", base + begin) for begin, *_ in chunks))
        self.filtered = [(base + begin, base + begin + size, name, chunk) for begin, size, name, chunk in chunks]
        # The value of an attribute, or a string: where it is, and of what. What HDF5 has moved is in free space, too.
        self.metadata = {}
        for value, name in told["attributes"].items():
            self.metadata[value] = (find_all(content, value.encode()), name)


def find_all(content, what):
    out, at = [], content.find(what)
    while at >= 0:
        out.append(at)
        at = content.find(what, at + 1)
    return out


def ask(path, wanted=(), wrong=(), timeout=60):
    """Asks the helper itself. Returns its exit code, whether its answer is complete, and what is where."""
    request = struct.pack("<I", 1)
    for ranges in (wanted, wrong):
        request += struct.pack("<I", len(ranges)) + b"".join(struct.pack("<QQ", *one) for one in ranges)
    command = ["/bin/sh", "-c", 'exec 3<"$1"; exec "$2"', "sh", path, HELPER]
    done = subprocess.run(command, input=request, capture_output=True, timeout=timeout)
    names, extents, complete, at = {}, [], None, 0
    while at + 5 <= len(done.stdout):
        tag, length = struct.unpack_from("<BI", done.stdout, at)
        body = done.stdout[at + 5:at + 5 + length]
        at += 5 + length
        if tag == 2:
            names[struct.unpack_from("<I", body)[0]] = body[8:].decode()
        elif tag == 4:
            for i in range(struct.unpack_from("<I", body)[0]):
                begin, size, number, raw, first, stride, count = struct.unpack_from("<QQIBQQQ", body, 4 + 45 * i)
                extents.append((begin, size, names[number], raw, first, stride, count))
        elif tag == 5:
            complete = bool(body[0])
    return done.returncode, complete, extents


@unittest.skipUnless(MAKE_HDF5, "lzy was built without HDF5")
class Checked(CliTest):
    def hit(self, name, offset):
        """What lzy-verify says of one byte that has rotted. Heals it again."""
        self.flip(name, offset)
        document = self.report(1, "lzy-verify", name)
        self.flip(name, offset)
        damage, = document["datasets"][0]["damage"]
        self.assertEqual((damage["offset"], damage["part"]), (offset // BLOCK * BLOCK, "data"))
        return damage

    def check_raw(self, made, damage, formats="hdf5"):
        """All raw data of the block are named, and none else, with the elements that are there."""
        begin, end = damage["offset"], damage["offset"] + damage["length"]
        expected = {}
        for at in range(begin - 7, end):
            if at not in made.elements:
                continue
            name, where = made.elements[at]
            chunk = made.chunks[name]
            place = tuple(i // c for i, c in zip(where, chunk)) if chunk else None
            first, _ = expected.get((name, place), (where, where))
            expected[name, place] = (first, where)
        got = {}
        for one in damage["objects"]:
            self.assertEqual(one["format"], formats)
            # No elements: what a chunk at the edge has beyond the dataset.
            if one["kind"] == "raw" and not one.get("filtered") and one["name"] in made.shapes and one["elements"] is not None:
                place = tuple(one["chunk"]) if one["chunk"] is not None else None
                got[one["name"], place] = tuple(tuple(i) for i in one["elements"])
        # Compact data are in the header, which is damaged with them, so that where they are may not be known.
        named = {one["name"] for one in damage["objects"] if one["kind"] == "metadata"}
        if "/fields/compact" in named and ("/fields/compact", None) not in got:
            expected.pop(("/fields/compact", None), None)
        self.assertEqual(got, expected)
        filtered = {(name, tuple(chunk)) for b, e, name, chunk in made.filtered if b < end and e > begin}
        self.assertEqual({(one["name"], tuple(one["chunk"])) for one in damage["objects"] if one.get("filtered")}, filtered, damage)


class Hdf5(Checked):
    def check_file(self, kind):
        made = Made(self.path(kind), kind)
        self.check(0, "lzy-protect", "--block-size", "4K", kind)
        chosen = random.Random(kind)
        # One element of each dataset and of each chunk of some.
        by_place = {}
        for at, (name, where) in made.elements.items():
            chunk = made.chunks[name]
            by_place.setdefault((name, tuple(i // c for i, c in zip(where, chunk)) if chunk and "both" in name else None), []).append(at)
        self.assertGreater(len(by_place), 20)
        for key in sorted(by_place, key=str)[::3 if FEW else 1]:
            at = chosen.choice(by_place[key])
            damage = self.hit(kind, at)
            self.check_raw(made, damage, "hdf5")
            self.assertIn(made.elements[at][0], [one["name"] for one in damage["objects"]])
        for begin, end, name, chunk in chosen.sample(made.filtered, 6):
            damage = self.hit(kind, chosen.randrange(begin, end))
            self.check_raw(made, damage, "hdf5")
            self.assertIn((name, chunk), [(one["name"], one["chunk"]) for one in damage["objects"]])
        # Attributes in headers and in heaps; strings in heaps.
        for value, (found, name) in chosen.sample(sorted(made.metadata.items()), 12) + [v for v in made.metadata.items() if "-of-" in v[0]]:
            named = [one["name"] for at in found for one in self.hit(kind, at)["objects"] if one["kind"] == "metadata"]
            self.assertIn(name, named, value)

    def test_every_object_in_the_oldest_format(self):
        self.check_file("earliest")

    def test_every_object_in_the_newest_format(self):
        self.check_file("latest")

    def test_every_object_behind_a_user_block(self):
        self.check_file("userblock")

    def test_every_byte(self):
        """The whole map against where the numbers are, byte by byte."""
        for kind in ("earliest", "latest", "userblock", "paged", "unclosed"):
            made = Made(self.path(kind), kind)
            code, complete, extents = ask(made.path)
            self.assertEqual((code, complete), (0, True), kind)
            raw = sorted(e for e in extents if e[3] and e[2] in made.shapes)
            owner = {}
            for begin, size, name, _, _, _, _ in raw:
                for at in range(begin, begin + size):
                    owner[at] = name
            for at, (name, _) in made.elements.items():
                self.assertEqual({owner.get(i) for i in range(at, at + 8)}, {name}, (kind, at))
            chunks = {(b, e, name) for b, e, name, _ in made.filtered}
            self.assertEqual({(b, b + s, name) for b, s, name, *_ in raw if name.startswith("/zipped")}, chunks)
            # Each value of an attribute belongs to its object, wherever there is a copy that counts.
            metadata = [e for e in extents if not e[3]]
            for value, (found, name) in made.metadata.items():
                owners = {n for at in found for b, s, n, *_ in metadata if b <= at and at + len(value) <= b + s}
                # The mapping of a virtual dataset is in the same heap as the strings.
                self.assertEqual(owners - {"/virtual"} if name == "/strings" else owners, {name}, (kind, value))
            # What was removed belongs to nobody.
            with open(made.path, "rb") as file:
                content = file.read()
            for at in find_all(content, b"EERF" * 64)[::100]:
                self.assertFalse([e for e in extents if e[0] < at + 256 and at < e[0] + e[1]], (kind, at))

    def test_unused_space_and_text(self):
        made = Made(self.path("a"), "earliest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        with open(made.path, "rb") as file:
            at = file.read().find(b"EERF" * (2 * BLOCK // 4)) + BLOCK
        damage = self.hit("a", at)
        self.assertEqual([(one["name"], one["kind"], one["chunk"], one["elements"]) for one in damage["objects"]], [("", "unused", None, None)])
        # An element in the middle of a chunk of 40 × 32, in a dataset of 150 × 70.
        at = next(at for at, (name, where) in made.elements.items() if name == "/chunked" and where == (60, 40))
        self.flip("a", at)
        text = self.check(1, "lzy-verify", "a").stdout
        self.assertRegex(text, r"differs from its hash; repairable\n(    in .*\n)*    in /chunked \(raw data, chunk \[1, 1\], elements \[\d+, \d+\] to \[\d+, \d+\]\)\n")
        # A repaired block is named, too.
        self.assertIn("    in /chunked (raw data, chunk [1, 1], ", self.check(0, "lzy-verify", "--repair", "a").stdout)

    def test_compressed_chunks(self):
        made = Made(self.path("a"), "latest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        self.flip("a", made.filtered[0][0])
        self.assertIn("all of it, because it is compressed or filtered", self.check(1, "lzy-verify", "a").stdout)

    def test_a_lost_start_of_the_file_does_not_change_the_verdict(self):
        Made(self.path("a"), "latest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        before = os.stat(self.path("a"))
        with open(self.path("a"), "r+b") as file:
            file.write(bytes(64))
        os.utime(self.path("a"), ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(self.report(1, "lzy-verify", "a")["datasets"][0]["damage"][0]["objects"], [])
        self.check(0, "lzy-verify", "--repair", "a")
        self.check(0, "lzy-verify", "a")

    def test_an_index_names_what_metadata_do_not(self):
        for kind in ("earliest", "latest"):
            made = Made(self.path(kind), kind)
            self.check(0, "lzy-protect", "--block-size", "4K", "--index-objects", kind)
            index = f".LZY-index.{kind}"
            self.assertTrue(os.path.exists(self.path(index)))
            # One byte in each block: no metadata can be read, and all elements are named.
            blocks = range(0, made.size, BLOCK)
            before = os.stat(made.path)
            with open(made.path, "r+b") as file:
                for block in blocks:
                    content = os.pread(file.fileno(), BLOCK, block)
                    os.pwrite(file.fileno(), bytes(255 - byte for byte in content), block)
            os.utime(made.path, ns=(before.st_atime_ns, before.st_mtime_ns))
            damage = self.report(2, "lzy-verify", kind)["datasets"][0]["damage"]
            self.assertEqual(sum(one["length"] for one in damage), made.size)
            named = {one["name"] for entry in damage for one in entry["objects"]}
            self.assertLessEqual(set(made.shapes) - {"/vast"}, named)
            for entry in damage:
                if entry["length"] <= BLOCK:
                    self.check_raw(made, entry)
            # A damaged index is no index, and of another commit it does not count.
            self.flip(index, 200)
            self.assertEqual(self.report(2, "lzy-verify", kind)["datasets"][0]["damage"][0]["objects"], [])
            self.flip(index, 200)
            self.assertNotEqual(self.report(2, "lzy-verify", kind)["datasets"][0]["damage"][0]["objects"], [])
            made = Made(self.path(kind), "userblock")
            old = self.read(index)
            self.check(0, "lzy-protect", kind)
            self.assertNotEqual(self.read(index), old)  # commits keep it up to date
            new = self.read(index)
            self.write(index, old)
            self.flip(kind, next(iter(made.elements)))
            wrong = self.report(1, "lzy-verify", kind)["datasets"][0]["damage"][0]["objects"]
            self.write(index, new)
            self.assertEqual(self.report(1, "lzy-verify", kind)["datasets"][0]["damage"][0]["objects"], wrong)
            self.check(0, "lzy-verify", "--repair", kind)
            self.assertIn(index, self.check(0, "lzy-protect", "--remove", "--yes", kind).stdout)
            self.assertFalse(os.path.exists(self.path(index)))
        done = self.check(3, "lzy-protect", "--index-objects", "--dry-run", "latest")
        self.assertIn("--index-objects: is accepted neither with --remove nor with --dry-run", done.stderr)

    def test_an_index_goes_where_its_file_goes(self):
        def names(path):
            damage = self.report(2, "lzy-verify", path)["datasets"][0]["damage"]
            return {one["name"] for entry in damage for one in entry["objects"]}

        def replace(path, content):
            before = os.stat(self.path(path))
            with open(self.path(path), "r+b") as file:
                file.write(content)
            os.utime(self.path(path), ns=(before.st_atime_ns, before.st_mtime_ns))

        def indexes():
            return sorted(name for name in os.listdir(self.path("d")) if name.startswith(".LZY-index"))

        os.mkdir(self.path("d"))
        made = Made(self.path("d/a"), "earliest")
        os.symlink("a", self.path("d/link"))
        self.check(0, "lzy-protect", "--block-size", "4K", "--index-objects", "d/link")
        self.assertEqual(indexes(), [".LZY-index.a"])
        content = self.read("d/a")
        replace("d/a", bytes(255 - byte for byte in content))
        known = names("d/a")
        self.assertLessEqual(set(made.shapes) - {"/vast"}, known)
        self.assertEqual(names("d/link"), known)
        # Renamed: the index is still found, and is no orphan. The next commit gives it the new name.
        os.remove(self.path("d/link"))
        os.rename(self.path("d/a"), self.path("d/b"))
        self.assertEqual(names("d/b"), known)
        self.assertIn("no orphaned sidecars", self.check(0, "lzy-info", "--prune", "d").stdout)
        replace("d/b", content)
        self.check(0, "lzy-protect", "d/b")
        self.assertEqual(indexes(), [".LZY-index.b"])
        # A copy has none.
        self.check(0, "lzy-copy", "d/b", "d/c")
        self.assertEqual(indexes(), [".LZY-index.b"])
        # Deleted by hand, with its sidecar.
        os.remove(self.path("d/b"))
        os.remove(self.path("d/.LZY.b"))
        dry = self.check(0, "lzy-info", "--prune", "--dry-run", "d").stdout
        self.assertIn("/.LZY-index.b: orphan: there is no sidecar of the same name; would be removed\n", dry)
        self.assertEqual(indexes(), [".LZY-index.b"])
        self.check(0, "lzy-info", "--prune", "d")
        self.assertEqual(indexes(), [])

    def test_names_with_control_characters(self):
        made = Made(self.path("a"), "earliest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        self.flip("a", next(at for at, (name, _) in made.elements.items() if name == "/odd \x1b[2J\n"))
        text = self.check(1, "lzy-verify", "a").stdout
        self.assertIn("in /odd \\x1b[2J\\n (raw data", text)
        self.assertNotIn("\x1b", text)
        names = [one["name"] for one in self.report(1, "lzy-verify", "a")["datasets"][0]["damage"][0]["objects"]]
        self.assertIn("/odd \x1b[2J\n", names)

    def test_random_flips_cost_names_only(self):
        """Bytes that rot anywhere, metadata above all: the helper may do what it likes, the verdict is the same."""
        chosen = random.Random(7)
        for kind in ("earliest", "latest"):
            original = Made(self.path("original-" + kind), kind)
            _, _, extents = ask(original.path)
            metadata = [e for e in extents if not e[3] and e[1] > 8]
            for turn in range(20 if FEW else 60):
                shutil.copy(original.path, self.path("a"))
                with open(self.path("a"), "r+b") as file:
                    for _ in range(chosen.choice((1, 1, 2, 5, 20))):
                        begin, size, *_ = chosen.choice(metadata)
                        file.seek(begin + chosen.randrange(size))
                        file.write(bytes([chosen.choice((0, 1, 255, chosen.randrange(256)))]))
                code, _, _ = ask(self.path("a"))
                self.assertLessEqual(code, 0, (kind, turn))  # 0, or a signal

    def test_a_file_in_which_everything_is_wrong(self):
        made = Made(self.path("a"), "latest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        before = os.stat(self.path("a"))
        chosen = random.Random(11)
        with open(self.path("a"), "r+b") as file:
            for block in range(0, made.size, BLOCK):
                at = block + chosen.randrange(min(BLOCK, made.size - block))
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1]))
        os.utime(self.path("a"), ns=(before.st_atime_ns, before.st_mtime_ns))
        self.report(2, "lzy-verify", "a")

    def test_without_the_helper(self):
        made = Made(self.path("a"), "earliest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        self.flip("a", next(iter(made.elements)))
        os.mkdir(self.path("bin"))
        shutil.copy(os.path.join(BIN, "lzy-verify"), self.path("bin/lzy-verify"))
        done = subprocess.run([self.path("bin/lzy-verify"), self.path("a")], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not all names of what is damaged in it are known: the program lzy-objects-helper is not installed", done.stderr)

    def test_a_helper_that_dies_hangs_or_lies(self):
        made = Made(self.path("a"), "earliest")
        self.check(0, "lzy-protect", "--block-size", "4K", "a")
        self.flip("a", next(iter(made.elements)))
        os.mkdir(self.path("bin"))
        shutil.copy(os.path.join(BIN, "lzy-verify"), self.path("bin/lzy-verify"))
        helper = self.path("bin/lzy-objects-helper")
        for script, message in (("kill -SEGV $$", "signal 11 ended the process that parses it"),
                                ("exit 3", "ended with exit code 3"),
                                ("exit 0", "ended early"),
                                ("head -c 100000 /dev/zero", "malformed"),
                                ("head -c 100000 /dev/urandom", "malformed"),
                                ("while :; do echo; done", "malformed")):
            with open(helper, "w") as file:
                file.write("#!/bin/sh\nPATH=/usr/bin:/bin\n" + script + "\n")
            os.chmod(helper, 0o755)
            done = subprocess.run([self.path("bin/lzy-verify"), self.path("a")], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(message, done.stderr, script)
            self.assertIn("differs from its hash; repairable\n", done.stdout)


class Ranks(Checked):
    def test_under_mpi(self):
        made = Made(self.path("a"), "latest")
        self.check(0, "lzy-protect", "--block-size", "4K", "--index-objects", "a", ranks=2)
        at = next(at for at, (name, where) in made.elements.items() if name == "/chunked" and where == (60, 40))
        self.flip("a", at)
        with_index = self.report(1, "lzy-verify", "a", ranks=3)["datasets"][0]["damage"]
        self.check_raw(made, with_index[0])
        os.remove(self.path(".LZY-index.a"))
        self.assertEqual(self.report(1, "lzy-verify", "a", ranks=2)["datasets"][0]["damage"], with_index)


class Netcdf(CliTest):
    """Classic netCDF, written here by its specification."""

    def make(self, name, version):
        def size(n):
            return struct.pack(">q" if version == 5 else ">i", n)

        def text(s):
            raw = s.encode()
            return size(len(raw)) + raw + bytes(-len(raw) % 4)

        def attribute(key, value):
            return text(key) + struct.pack(">i", 2) + text(value)

        dimensions = [("time", 0), ("y", 60), ("x", 50), ("odd", 7)]
        # Name, dimensions, type, bytes of an element.
        variables = [("area", (1, 2), 6, 8), ("flags", (3,), 3, 2), ("T", (0, 1, 2), 5, 4), ("step", (0,), 4, 4), ("odd", (0, 3), 3, 2),
                     ("scalar", (), 6, 8)]
        records = 9
        offset = 8 if version > 1 else 4

        def header(begins):
            out = b"CDF" + bytes([version]) + size(records)
            out += struct.pack(">i", 10) + size(len(dimensions)) + b"".join(text(n) + size(l) for n, l in dimensions)
            out += struct.pack(">i", 12) + size(1) + attribute("title", "a title of odd length!!")
            out += struct.pack(">i", 11) + size(len(variables))
            for (key, dims, kind, width), begin in zip(variables, begins):
                out += text(key) + size(len(dims)) + b"".join(size(d) for d in dims)
                out += struct.pack(">i", 12) + size(1) + attribute("units", "of " + key)
                count = 1
                for d in dims:
                    count *= dimensions[d][1] or 1
                out += struct.pack(">i", kind) + size(count * width + -count * width % 4) + begin.to_bytes(offset, "big")
            return out

        at = (len(header([0] * len(variables))) + 511) // 512 * 512
        begins, where, record = [0] * len(variables), {}, 0
        for i, (key, dims, _, width) in enumerate(variables):
            if 0 not in dims:
                count = 1
                for d in dims:
                    count *= dimensions[d][1]
                begins[i] = at
                where[key] = [(at, count * width)]
                at += count * width + -count * width % 4
        first = at
        for i, (key, dims, _, width) in enumerate(variables):
            if 0 in dims:
                count = 1
                for d in dims[1:]:
                    count *= dimensions[d][1]
                begins[i] = first + record
                where[key] = [(first + record, count * width)]
                record += count * width + -count * width % 4
        for key, dims, _, _ in variables:
            if 0 in dims:
                where[key] = [(where[key][0][0] + r * record, where[key][0][1]) for r in range(records)]
        content = bytearray(first + records * record)
        content[:] = random.Random(version).randbytes(len(content))
        head = header(begins)
        content[:len(head)] = head
        content[len(head):where["area"][0][0]] = bytes(where["area"][0][0] - len(head))
        self.write(name, bytes(content))
        shapes = {key: [dimensions[d][1] or records for d in dims] for key, dims, _, _ in variables}
        widths = {key: width for key, _, _, width in variables}
        return len(head), where, shapes, widths

    def expected(self, where, shapes, widths, begin, end):
        out = {}
        for key, pieces in where.items():
            per_piece = pieces[0][1] // widths[key]
            hit = []
            for number, (at, length) in enumerate(pieces):
                a, b = max(at, begin), min(at + length, end)
                if a < b:
                    hit += [number * per_piece + (a - at) // widths[key], number * per_piece + (b - 1 - at) // widths[key]]
            if hit:
                out["/" + key] = [list(indices_of(hit[0], shapes[key])), list(indices_of(hit[-1], shapes[key]))]
        return out

    def test_every_variable(self):
        for version in (1, 2, 5):
            name = f"v{version}.nc"
            head, where, shapes, widths = self.make(name, version)
            self.check(0, "lzy-protect", "--block-size", "4K", name)
            for key, pieces in where.items():
                for at, length in (pieces[0], pieces[len(pieces) // 2], pieces[-1]):
                    offset = at + length - 1
                    self.flip(name, offset)
                    damage, = self.report(1, "lzy-verify", name)["datasets"][0]["damage"]
                    self.flip(name, offset)
                    begin, end = damage["offset"], damage["offset"] + damage["length"]
                    got = {one["name"]: one["elements"] for one in damage["objects"] if one["kind"] == "raw"}
                    self.assertEqual(got, self.expected(where, shapes, widths, begin, end), (version, key))
                    self.assertIn("/" + key, got)
                    self.assertEqual({one["format"] for one in damage["objects"]}, {"cdf"})
                    metadata = {one["name"] for one in damage["objects"] if one["kind"] == "metadata"}
                    self.assertEqual(metadata, {"/"} | {"/" + k for k in where} if begin < head else set())

    def test_the_catalogue_keeps_the_names(self):
        self.make("a.nc", 5)
        self.age("a.nc")
        self.check(0, "lzy-protect", "--block-size", "4K", "--parity", "2", "a.nc")
        _, where, _, _ = self.make("b.nc", 5)
        self.flip("a.nc", where["area"][0][0] + 5000)
        found = {}
        for tool in ("lzy-verify", "lzy-scrub"):
            found[tool], = self.report(1, tool, "a.nc")["datasets"][0]["damage"]
        objects = found["lzy-verify"]["objects"]
        self.assertEqual([one["name"] for one in objects], ["/area"])
        self.assertEqual(found["lzy-scrub"]["objects"], objects)
        status = json.loads(self.check(1, "lzy-status", "--json", "--events").stdout)
        self.assertEqual([one["objects"] for one in status["not_intact"][0]["damage"]], [objects])
        self.assertEqual([one["objects"] for one in status["events"] if one["what"] == "damage"], [objects])
        self.assertIn("differs from its hash, in /area\n", self.check(1, "lzy-status").stdout)
        # What a restore meets and repairs at once is an event with names, too.
        self.flip("a.nc", 9)
        self.check(0, "lzy-restore", "a.nc")
        events = json.loads(self.check(0, "lzy-status", "--json", "--events").stdout)["events"]
        last = [one for one in events if one["what"] == "damage"][-1]
        self.assertEqual((last["tool"], last["outcome"], last["offset"]), ("lzy-restore", "repaired", 0))
        self.assertIn({"format": "cdf", "name": "/", "kind": "metadata", "chunk": None, "elements": None}, last["objects"])
        self.assertRegex(self.check(0, "lzy-status", "--events").stdout,
                         r"lzy-restore +damage: \S+/a\.nc: data, offset 0, length 4096, at \S+: differs from its hash, in / \(metadata\)[^;]*; repaired\n")

    def test_hostile_headers(self):
        self.make("a.nc", 5)
        original = self.read("a.nc")
        chosen = random.Random(3)
        for turn in range(50 if FEW else 150):
            content = bytearray(original)
            for _ in range(chosen.choice((1, 2, 8))):
                content[chosen.randrange(4, 500)] = chosen.choice((0, 1, 127, 128, 255))
            self.write("b.nc", bytes(content[:chosen.choice((10, 300, len(content)))]))
            code, _, _ = ask(self.path("b.nc"), timeout=20)
            self.assertEqual(code, 0, turn)


@unittest.skipUnless(MAKE_HDF5, "lzy was built without HDF5")
class Fuzz(CliTest):
    """Files of which anything is wrong, for LZY_TEST_SECONDS. Meant for a build with sanitizers. The helper may die of
    them; what lzy-verify says of the bytes must stay right, and an index must be made or left out."""

    def spoil(self, content, chosen):
        """Changes some bytes. Returns the blocks that differ now."""
        spoiled = bytearray(content)
        for _ in range(chosen.choice((1, 1, 2, 5, 20, 100))):
            at = chosen.randrange(len(content)) if chosen.random() < 0.3 else chosen.choice(self.dense)
            length = chosen.choice((1, 1, 1, 2, 4, 8, 64))
            how = chosen.randrange(4)
            if how == 0:
                new = chosen.randbytes(length)
            elif how == 1:
                new = bytes([chosen.choice((0, 1, 127, 128, 255))]) * length
            elif how == 2:  # another part of the file: plausible, and wrong
                other = chosen.choice(self.dense)
                new = content[other:other + length]
            else:
                new = bytes([spoiled[at] ^ 1 << chosen.randrange(8)])
            new = new[:len(content) - at]
            spoiled[at:at + len(new)] = new
        return bytes(spoiled), {b for b in range(0, len(content), BLOCK) if spoiled[b:b + BLOCK] != content[b:b + BLOCK]}

    def test_random_bytes(self):
        seconds = int(os.environ.get("LZY_TEST_SECONDS", "5"))
        seed = int(os.environ.get("LZY_TEST_SEED", str(time.time_ns())))
        chosen = random.Random(seed)
        print("LZY_TEST_SEED", seed, flush=True)
        Made(self.path("earliest"), "earliest")
        Made(self.path("latest"), "latest")
        Netcdf.make(self, "cdf", 5)
        kinds = {}
        for kind in ("earliest", "latest", "cdf"):
            self.check(0, "lzy-protect", "--block-size", "4K", kind)
            content = self.read(kind)
            # Where metadata may be: not in long runs of zeros.
            kinds[kind] = content, [at for at in range(0, len(content), 8) if any(content[at:at + 8])]
        end, turns = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            turns += 1
            kind = chosen.choice(sorted(kinds))
            content, self.dense = kinds[kind]
            spoiled, blocks = self.spoil(content, chosen)
            if not blocks:
                continue
            before = os.stat(self.path(kind))
            self.overwrite(kind, spoiled, before)
            done = self.run_tool("lzy-verify", "--json", kind)
            self.assertIn(done.returncode, (1, 2), (turns, done.stderr))
            self.assertNotIn("Sanitizer", done.stderr, turns)
            self.assertNotIn("runtime error", done.stderr, turns)
            damage = json.loads(done.stdout)["datasets"][0]["damage"]
            got = {b for one in damage for b in range(one["offset"], one["offset"] + one["length"], BLOCK) if one["part"] == "data"}
            self.assertEqual(got, blocks, turns)
            self.overwrite(kind, content, before)
            if turns % 8 == 0:
                self.write("new", spoiled)
                done = self.check(0, "lzy-protect", "--index-objects", "new")
                self.assertNotIn("runtime error", done.stderr, turns)
                self.check(0, "lzy-verify", "new")
        print(f"{turns} files", flush=True)

    def overwrite(self, name, content, before):
        with open(self.path(name), "r+b") as file:
            file.write(content)
        os.utime(self.path(name), ns=(before.st_atime_ns, before.st_mtime_ns))
