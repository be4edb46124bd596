#!/usr/bin/python3
"""Tests of format_reader.py: it accepts what docs/format.md describes and notices any single change to it."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import format_reader  # noqa: E402
import reader_dataset  # noqa: E402
import reader_geometry  # noqa: E402
import reader_hashes  # noqa: E402
from format_writer_for_tests import H, Lies, write  # noqa: E402
from reader_case import Case, flip, set_field  # noqa: E402


class Accepts(Case):
    def random_groups(self, count, m):
        """Random groups of at least m+1 of `count` devices."""
        devices = list(range(count))
        self.random.shuffle(devices)
        most = count // (m + 1)
        number = self.random.randint(1, min(3, most))
        groups = [[] for _ in range(number)]
        for i, device in enumerate(devices):  # m+1 each, the others anywhere
            groups[i % number if i < number * (m + 1) else self.random.randrange(number)].append(device)
        return tuple(tuple(sorted(g)) for g in groups)

    def setUp(self):
        super().setUp()
        chunk = mock.patch.object(reader_dataset, "CHUNK", 20000)  # several to a file
        chunk.start()
        self.addCleanup(chunk.stop)

    def some_size(self):
        return self.random.choice((0, 1, 511, 512, 513, 4096, self.random.randrange(3000),
                                   self.random.randrange(40000), self.random.randrange(20) * 1024))

    def options(self):
        r = self.random
        return dict(b=r.choice((512, 1024)), stripe=r.choice((512, 1024, 3000, 4096, 8192)), spread=r.random() < .5,
                    slack=r.choice((0, 16, 100)), uuid=r.randbytes(16), generation=r.randrange(1, 2**63))

    def test_random_shared_files(self):
        for i in range(24):
            with self.subTest(i):
                m = i % 4
                groups = self.random_groups(self.random.randint(m + 1, 9), m)
                paths, _, _ = self.shared(self.some_size(), groups=groups, m=m, **self.options(),
                                          placement=self.random.choice(("pooled", "striped")))
                self.accept(paths)

    def test_random_sets(self):
        for i in range(24):
            with self.subTest(i):
                m = i % 4
                groups = self.random_groups(self.random.randint(m + 1, 9), m)
                sizes = [self.some_size() for g in groups for _ in g]
                paths, sidecars = self.set(sizes, groups, m, **self.options())
                report = self.accept(paths)
                self.assertEqual(report["bytes"], sum(sizes))

    def test_trees_of_several_levels(self):
        report = self.accept(self.shared(300 * 512 + 7, m=3)[0])
        self.assertEqual(report["copies"], 4)
        self.accept(self.set((200000, 150000, 90000), ((0, 1, 2),), 2)[0])

    def test_one_small_unit_has_a_short_stride(self):
        paths, sidecar, _ = self.shared(300)
        report = self.accept(paths)
        self.assertEqual((report["stride"], report["parity_bytes"], report["first_row"]), (300, 600, 1))

    def test_two_shared_files_of_one_uuid_are_two_datasets(self):
        paths = self.files(5000, 6000)
        for path in paths:
            write([path])
        self.assertEqual(len(format_reader.check(paths).reports), 2)

    def test_symbolic_link_and_sidecar_name_the_same_dataset(self):
        paths, sidecar, _ = self.shared()
        link = os.path.join(self.folder, "link")
        os.symlink(paths[0], link)
        self.accept([link, sidecar, paths[0]])

    def test_intent_is_reported(self):
        paths, _, _ = self.shared(intent=[(0, 512), (4096, 1)])
        report = self.accept(paths)
        self.assertTrue(report["intent_set"])
        self.assertEqual(report["members"][0]["intents"][0]["ranges"], [(0, 512), (4096, 1)])

    def test_prepared_copy_counts_only_if_a_member_has_committed_it(self):
        paths, sidecars = self.set()
        for sidecar, layout in sidecars[:-1]:
            set_field(sidecar, [layout["super0"], layout["super1"]], 56, (2).to_bytes(8, "little"))
        sidecar, layout = sidecars[-1]
        prepared = bytes.fromhex("0200000000000000")
        with open(sidecar, "r+b") as f:  # copy 1: generation 2, prepared
            f.seek(layout["super1"])
            page = bytearray(f.read(4096))
            page[56:64], page[80:84] = prepared, prepared[:4]
            page[4080:] = H(0x10, 1, bytes(page[:4080]))
            f.seek(layout["super1"])
            f.write(page)
        result = self.reject(paths, "generation, as in copy 1", "state: expected that of rank 0")
        self.assertEqual(result.reports[0]["generation"], 2)
        alone = self.reject(paths[-1:], "not given")
        self.assertEqual(alone.reports[0]["generation"], 1)

    def test_a_copy_0_is_never_prepared(self):
        paths, sidecars = self.set()
        sidecar, layout = sidecars[2]
        set_field(sidecar, [layout["super0"]], 80, b"\2")
        self.reject(paths, "copy 0: superblock field: expected state")

    def test_compatible_features_are_ignored(self):
        paths, _, _ = self.shared(lies=Lies(fields={"compatible": 4, "readonly": 8}))
        self.accept(paths)

    def test_renamed_file(self):
        paths, sidecar, _ = self.shared()
        os.rename(paths[0], paths[0] + ".new")
        os.rename(sidecar, sidecar + ".new")
        self.assertIn("renamed since", self.accept([paths[0] + ".new"])["notes"][0])


class RejectsFlippedBytes(Case):
    def test_superblock_any_byte(self):
        paths, sidecar, layout = self.shared()
        for c in range(3):
            for offset in [0, 4079, 4080, 4095] + self.random.sample(range(4096), 12):
                flip(sidecar, layout[f"super{c}"] + offset)
                self.reject(paths, f"offset {layout[f'super{c}']}: copy {c}:", quick=True)
                flip(sidecar, layout[f"super{c}"] + offset)
        self.accept(paths)

    def test_all_superblocks(self):
        paths, sidecar, layout = self.shared()
        for c in range(3):
            flip(sidecar, layout[f"super{c}"] + 100)
        self.reject(paths, "no valid superblock", code=2)

    def test_metadata_of_each_copy(self):
        paths, sidecar, layout = self.shared(300 * 512 + 7)
        del layout["spans"]
        for part, at in layout.items():
            if part[:4] in ("info", "data") or "." in part:
                with self.subTest(part):
                    flip(sidecar, at + 5)
                    self.reject(paths, f"offset {at + 5}: copy", "differs from copy")
                    flip(sidecar, at + 5)
        self.accept(paths)

    def test_metadata_of_both_copies_of_a_leaf(self):
        paths, sidecars = self.set()
        for level, words in (("0", ("data block 7", "node 0 of level 1")), ("1", ("root of the data tree",))):
            for copy in "01":
                flip(sidecars[3][0], sidecars[3][1][f"data{copy}.{level}"] + (16 * 7 if level == "0" else 0))
            self.reject(paths, *words)

    def flip_any(self, paths, sidecars):
        for _ in range(100):
            sidecar, layout = self.random.choice(sidecars)
            at, length = self.random.choice([s for s in layout["spans"] if s[1]])
            offset, bit = at + self.random.randrange(length), 1 << self.random.randrange(8)
            with self.subTest(sidecar=sidecar, offset=offset):
                flip(sidecar, offset, bit)
                result = format_reader.check(paths)
                hole = at >= layout["parity"] and "1 bytes in holes" in str(result.reports[0]["notes"])
                self.assertTrue(result.lines or hole)
                flip(sidecar, offset, bit)
        self.accept(paths)

    def test_any_byte_of_a_shared_files_sidecar(self):
        paths, sidecar, layout = self.shared()
        self.flip_any(paths, [(sidecar, layout)])

    def test_any_byte_of_a_sets_sidecars(self):
        self.flip_any(*self.set(m=2))

    def test_parity(self):
        paths, sidecar, layout = self.shared()
        flip(sidecar, layout["parity"] + 5000)
        at = f"offset {layout['parity'] + 5000}: parity of block row"
        result = self.reject(paths, at, "parity block 9")
        self.assertEqual(len(result.lines), 2)
        paths, sidecars = self.set()
        flip(sidecars[4][0], sidecars[4][1]["parity"])
        self.reject(paths, "parity block 0", "does not fit the data")

    def test_data(self):
        paths, _, _ = self.shared()
        flip(paths[0], 50000)
        self.assertEqual(len(self.reject(paths, "data block 97", "parity of block row").lines), 3)
        self.accept(paths, quick=True)

    def test_data_of_a_set(self):
        paths, _ = self.set()
        flip(paths[2], 6000)
        self.reject(paths, "data block 11", "parity of block row")

    def test_swapped_blocks(self):
        paths, _, _ = self.shared()
        stat = os.stat(paths[0])
        with open(paths[0], "r+b") as f:
            a, b = f.read(512), f.read(512)
            f.seek(0)
            f.write(b + a)
        os.utime(paths[0], ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.reject(paths, "data block 0", "data block 1")

    def test_stamps(self):
        paths, _, _ = self.shared()
        os.utime(paths[0], ns=(1, 1))
        self.assertEqual(len(self.reject(paths, "stamp: mtime").lines), 1)
        self.accept(paths, ignore_stamps=True)
        shutil.copy2(paths[0], paths[0] + "2")
        os.rename(paths[0] + "2", paths[0])
        self.reject(paths, "stamp: inode")
        os.truncate(paths[0], 50000)
        self.reject(paths, "stamp: size", "data block 97")

    def test_missing(self):
        paths, sidecars = self.set()
        self.reject(paths[1:], "ranks [0] not given")
        os.unlink(paths[3])
        self.reject(paths, "data file: No such file", "not all data there")
        os.unlink(sidecars[3][0])
        self.reject(paths, code=2)


class RejectsLies(Case):
    """All hashes are right; what they are of is not what the document says."""

    def lie(self, *words, set_too=True, code=1, **lies):
        paths, _, _ = self.shared(lies=Lies(**lies))
        self.reject(paths, *words, code=code)
        if set_too:
            paths, _ = self.set(m=2, lies=Lies(**lies))
            self.reject(paths, *words, code=code)

    def test_rotation(self):
        self.lie("does not fit the data", rotate=-1)

    def test_matrix(self):
        self.lie("does not fit the data", matrix="vandermonde")

    def test_leaf_of_a_hole(self):
        groups = ((0, 1, 2, 3, 4), (5, 6, 7))  # the first needs fewer rows
        self.accept(self.shared(40000, groups=groups, m=1)[0])
        paths, _, _ = self.shared(40000, groups=groups, m=1, lies=Lies(hole_leaf=True))
        self.reject(paths, "is in a hole: expected zero")
        options = {"sizes": (0, 9000, 0, 0), "groups": ((0, 1, 2, 3),), "m": 2}  # row 0 has no data
        paths, sidecars = self.set(**options)
        whole = self.accept(paths)
        flip(sidecars[0][0], sidecars[0][1]["parity"])
        debris = self.accept(paths)
        self.assertIn("1 bytes in holes", debris["notes"][0])
        self.assertEqual(debris["parity_sha256"], whole["parity_sha256"])

    def test_seeds(self):
        self.lie("data block 1:", seed_blocks=False)
        paths, _, _ = self.shared(300 * 512, lies=Lies(node_seed=1))
        self.reject(paths, "data tree: node 0 of level 1", "data tree: node 1 of level 1")

    def test_fields(self):
        for name, value, words in (("t0", 3, "first row t0"), ("s", 4096, "parity stride s"), ("n", 4, "info group"),
                                   ("u", 512, "u by the rule"), ("dataset_root", bytes(16), "dataset root"),
                                   ("data_root", bytes(16), "root of the data tree"),
                                   ("parity_root", bytes(16), "root of the parity tree"),
                                   ("region", 1, "parity extents"), ("size", 49000, "leaves"),
                                   ("inode", 3, "stamp: inode"), ("mtime", 3, "stamp: mtime"),
                                   ("copies", 4, "number of copies"), ("b", 500, "block size"),
                                   ("placement", 2, "placement"), ("generation", 0, "generation 0"),
                                   ("info_hash", bytes(16), "info hash"), ("rank", 1, "rank below")):
            with self.subTest(name):
                paths, _, _ = self.shared(lies=Lies(fields={name: value}))
                fatal = name in ("n", "b", "placement", "generation", "info_hash", "rank")
                self.reject(paths, words, code=2 if fatal else 1)

    def test_copies_that_disagree(self):
        for name, value in (("generation", 2), ("wall", 5), ("device", 5), ("dataset_root", bytes(16))):
            with self.subTest(name):
                paths, _, _ = self.shared(lies=Lies(copy_fields={name: value}))
                self.reject(paths, f"{name}, as in copy")

    def test_refusals(self):
        for fields, words in (({"incompatible": 8}, "newer version: unknown incompatible"),
                              ({"major": 3}, "newer version 3.0"), ({"bom": 0x04030201}, "foreign byte order")):
            self.lie(words, code=2, fields=fields)

    def test_members(self):
        paths, _ = self.set(lies=Lies(entry_size=1))
        self.reject(paths, "member entry of rank 2 differs")
        self.lie("bytes after its end", code=2, info_tail=b"x")

    def test_members_of_another_generation(self):
        paths, sidecars = self.set()
        sidecar, layout = sidecars[2]
        set_field(sidecar, [layout["super0"], layout["super1"]], 56, (2).to_bytes(8, "little"))
        self.reject(paths, "generation: expected that of rank 0, 1, found 2")

    def test_overlap(self):
        paths, sidecar, layout = self.shared()
        capacity = 264 + 32  # of the info record
        set_field(sidecar, [layout[f"super{c}"] for c in range(3)], capacity, (1 << 20).to_bytes(8, "little"))
        self.reject(paths, "overlaps extent kind 1")


class Mathematics(unittest.TestCase):
    def test_rotation_by_hand(self):
        # n = 3, m = 1, the published layout: P0 skips device 0, P1 device 1, P2 device 2.
        r = reader_geometry.Rotation(3, 1)
        self.assertEqual([[bool(r.is_data[j, t]) for j in range(3)] for t in range(3)],
                         [[False, True, True], [True, False, True], [True, True, False]])
        self.assertEqual([r.row_of(0, k) for k in range(4)], [1, 2, 4, 5])
        self.assertEqual([r.row_of(1, k) for k in range(4)], [0, 2, 3, 5])
        self.assertEqual([int(r.data_before(1, t)) for t in range(6)], [0, 1, 1, 2, 3, 3])
        self.assertEqual([int(r.parity_before(1, t)) for t in range(6)], [0, 0, 1, 1, 1, 2])

    def test_field(self):
        self.assertEqual((reader_geometry.MUL[2, 128], reader_geometry.INVERSE[2]), (0x1D, 0x8E))
        self.assertTrue(all(reader_geometry.MUL[a, reader_geometry.INVERSE[a]] == 1 for a in range(1, 256)))

    def test_matrix_is_that_of_isal(self):
        isal = ctypes.CDLL("libisal.so.2")
        for n, m in ((5, 2), (8, 3), (255, 4)):
            matrix = (ctypes.c_ubyte * (n * (n - m)))()
            isal.gf_gen_cauchy1_matrix(matrix, n, n - m)
            for q in range(m):
                want = list(matrix[(n - m + q) * (n - m):(n - m + q + 1) * (n - m)])
                self.assertEqual([reader_geometry.coefficient(n, m, q, j) for j in range(n - m)], want)

    def test_hash_is_low_word_first(self):
        # XXH3_128bits of no bytes, seed 0, published: low64 6001c324468d497f, high64 99aa06d3014798d8.
        self.assertEqual(reader_hashes.H(0, 0, b"").hex(), "7f498d4624c30160d8984701d306aa99")


class Program(Case):
    def run_it(self, *arguments):
        reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "format_reader.py")
        return subprocess.run([sys.executable, reader, *arguments], capture_output=True, text=True)

    def test_exit_codes_and_json(self):
        paths, sidecars = self.set()
        run = self.run_it("--json", *paths)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        report, = json.loads(run.stdout)["datasets"]
        self.assertEqual((report["kind"], report["generation"], report["m"]), ("set", 1, 1))
        self.assertEqual(report["uuid"], bytes(range(16)).hex())
        flip(sidecars[0][0], sidecars[0][1]["parity"])
        run = self.run_it(*paths)
        self.assertEqual((run.returncode, len(run.stdout.splitlines())), (1, 2))
        self.assertEqual(self.run_it().returncode, 2)
        self.assertEqual(self.run_it(self.folder + "/none").returncode, 2)


if __name__ == "__main__":
    unittest.main()
