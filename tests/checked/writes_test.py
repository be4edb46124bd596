"""Option verify-writes: what is on the device is what programs have written, whatever the MPI library made of it.

Environment: as for layered.py.
"""

import json
import os

import mpi_known
from layered import BUILD, CLIENT, LAYER, WRITE_CALLS, Layer

FAULTY = f"{BUILD}/tests/libfaulty_io.so"
PIECES = f"{BUILD}/clients/pieces_client"
KINDS = ["drop", "flip", "misplace", "duplicate", "short"]
# Nothing is captured of writes by shared pointers, nor of collective nonblocking ones (MPI libraries never say that one of
# those failed). ROMIO leaves other nonblocking ones to glibc, where faulty_io does not come between.
CALLS = ["write", "write_at", "write_all", "write_at_all", "write_all_begin", "write_at_all_begin"]
REPAIRED = r"lzy: .*/f: \d+ blocks on the device were not what was written; they were (written again|rebuilt from parity)"


class Writes(Layer):
    def write(self, kind, *words, faults=None, **options):
        """write_calls with an MPI library that is faulty so."""
        faults = {"FAULT_FILE": "f", "FAULT_KIND": kind, "FAULT_AT": 2, **(faults or {})}
        settings = [f"{name}={value}" for name, value in faults.items()]
        preload = f"LD_PRELOAD={LAYER}:{FAULTY}"
        return self.run_program(["env", *settings, preload, WRITE_CALLS, *words, "f"], layer=False, **options)

    def only_uncompared(self, done, why):
        """The layer has said nothing but that something was not compared. Open MPI has a line of its own about refused writes."""
        self.assertEqual(done.returncode, 0, done.stderr)
        said = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("mca_"))
        self.assertRegex(said, rf"\A(lzy: .*: verify-writes: .* could not be compared .*: .*{why}.*\n)+\Z")

    def check(self, *words):
        """Whether the file has what was written."""
        return self.run_program([WRITE_CALLS, *words, "--check", "f"], layer=False).returncode == 0

    def fresh(self):
        for name in self.files():
            os.remove(self.path(name))

    def repaired(self, *words, **options):
        for kind in KINDS:
            with self.subTest(kind=kind, words=words, **options):
                self.fresh()
                self.write(kind, *words, **options)
                right = self.check(*words)
                if right and "OMPIO" in mpi_known.mpi():
                    self.skipTest("faulty_io cannot make this fault: OMPIO writes by aio_write, or into a gap")
                self.assertFalse(right, "the fault is one")
                self.fresh()
                done = self.write(kind, *words, verify_writes="on", **options)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, REPAIRED)
                self.assertTrue(self.check(*words), "what was written is there")
                self.assertEqual(self.verify(), 0)


    def pieces(self, kind, fault=None, at=1, rank=0, **options):
        self.fresh()
        settings = [f"FAULT_FILE={'f' if fault else ''}", f"FAULT_KIND={fault}", f"FAULT_AT={at}", f"FAULT_RANK={rank}",
                    f"LD_PRELOAD={LAYER}:{FAULTY}"]
        return self.run_program(["env", *settings, PIECES, kind, "f"], layer=False, **options)


class Faults(Writes):
    def test_nothing_is_reported_without_faults(self):
        for call in CALLS:
            with self.subTest(call=call):
                self.fresh()
                done = self.run_program([WRITE_CALLS, "--call", call, "f"], verify_writes="on")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(self.check("--call", call))
                self.assertEqual(self.verify(), 0)

    def test_of_every_call(self):
        for call in CALLS:
            self.repaired("--call", call)

    def test_through_a_view(self):
        self.repaired("--call", "write_at_all", "--view", "--unsized")

    def test_of_rows_whose_parity_was_captured(self):
        self.repaired("--call", "write_at_all", stripe="64K")

    def test_in_a_file_that_was_protected_before(self):
        words = ["--call", "update"]
        self.write("none", "--call", "write_at_all", faults={"FAULT_COUNT": 0})
        for kind in KINDS:
            with self.subTest(kind=kind):
                done = self.write(kind, *words, "--existing", verify_writes="on")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(self.check(*words))
                self.assertEqual(self.verify(), 0)

    def test_lost_data_that_cannot_be_written_again_are_an_error(self):
        """On all ranks alike. There is no room to keep all that is written, and too much is lost for parity."""
        for on_error, codes in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
            with self.subTest(on_error=on_error):
                self.fresh()
                faults = {"FAULT_FILE": "f", "FAULT_KIND": "drop", "FAULT_RANK": 1}
                settings = [f"{name}={value}" for name, value in faults.items()]
                done = self.run_program(["env", *settings, f"LD_PRELOAD={LAYER}:{FAULTY}", CLIENT, "codes", "f", ""], ranks=3,
                                        layer=False, verify_writes="on", on_error=on_error, block_size="4K", stripe="4K",
                                        memory="128K")
                self.assertEqual(done.returncode, 0, done.stderr)
                synced = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("sync")]
                self.assertEqual(synced, [codes] * 3, done.stdout)
                self.assertRegex(done.stderr, r"(?m)^lzy: .*/f: \d+ blocks on the device are not what was written, and \d+ could not "
                                              "be repaired; write the file again")
                self.assertNotEqual(self.verify(), 0, "it is not taken for intact")


class Pieces(Writes):
    """What ranks write in many pieces, or twice, is compared to the last byte."""

    def test_wrong_pieces_are_written_again(self):
        for kind, fault, at in (("grid", "flip", 1), ("strided", "drop", 1), ("header", "flip", 3), ("twice", "flip", 2),
                                ("memory", "flip", 1)):
            with self.subTest(kind):
                self.quiet(self.pieces(kind, verify_writes="on"))
                right = self.content("f")
                self.pieces(kind, fault, at=at)
                self.assertTrue(self.content("f") != right, "the fault is one")
                done = self.pieces(kind, fault, at=at, verify_writes="on")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, REPAIRED)
                self.assertTrue(self.content("f") == right)
                self.assertEqual(self.verify(), 0)

    def test_without_room_for_copies_wrong_pieces_are_an_error(self):
        done = self.pieces("grid", "flip", verify_writes="on", memory="128K")
        self.assertRegex(done.stderr, r"lzy: .*/f: \d+ blocks on the device are not what was written")

    def test_bytes_of_several_ranks_are_no_fault(self):
        done = self.pieces("overlap", verify_writes="on", report="report")
        self.assertNotIn("blocks on the device", done.stderr)
        self.assertRegex(done.stderr, r"f: verify-writes: 175.8 KiB could not be compared .*: several ranks, ")
        self.assertEqual(self.reports()[-1]["bytes_not_compared"], 180_000)
        self.assertEqual(self.verify(), 0)

    def test_of_a_write_that_failed_its_own_bytes_alone_are_not_compared(self):
        done = self.pieces("refused", verify_writes="on", report="report")
        self.only_uncompared(done, "a write failed")
        self.assertEqual(self.reports()[0]["bytes_not_compared"], 90_000)
        self.assertEqual(self.verify(), 0)
        right = self.content("f")
        done = self.pieces("refused", "flip", rank=1, verify_writes="on")
        self.assertRegex(done.stderr, REPAIRED)
        self.assertTrue(self.content("f") == right, "what another rank wrote is written again")
        self.assertEqual(self.verify(), 0)

    def test_a_write_that_failed_is_not_written_again(self):
        """Also if a thread captured it meanwhile."""
        for threads in (1, 2):
            with self.subTest(threads=threads):
                self.fresh()
                done = self.client("too_large", argument="write_at", ranks=1, threads=threads, verify_writes="on", report="report")
                self.only_uncompared(done, "a write failed")
                self.assertEqual(self.reports()[1]["bytes_not_compared"], self.reports()[1]["bytes"])
                self.assertEqual(self.content("f")[-1:], b"n")
                self.assertEqual(self.verify(), 0)

    def test_what_is_not_compared_is_counted(self):
        done = self.pieces("shared", verify_writes="on", report="report", summary="on")
        self.assertRegex(done.stderr, r"f: verify-writes: 351.6 KiB could not be compared .* such as a shared file pointer or memory of a device")
        self.assertRegex(done.stderr, r"added.*; 351.6 KiB not compared by verify-writes")
        self.assertEqual(self.reports()[-1]["bytes_not_compared"], 360_000)
        os.remove(self.path("report"))
        self.quiet(self.pieces("grid", verify_writes="on", report="report"))
        self.assertEqual(self.reports()[-1]["bytes_not_compared"], 0)

    def test_a_view_that_the_mpi_library_misplaces_is_put_right(self):
        """With an MPI library that does not, nothing is said."""
        self.pieces("by_hand")
        right = self.content("f")
        self.pieces("hindexed")
        mine = [(row * 480 + piece * 240, 240) for row in range(60) for piece in range(2 if row % 3 == 1 else 1)]
        def has_pieces():
            there = self.content("f")
            return all(there[at:at + length] == right[at:at + length] for at, length in mine)
        misplaced = not has_pieces()
        done = self.pieces("hindexed", verify_writes="on", report="report")
        self.assertEqual(done.returncode, 0, done.stderr)
        if misplaced:
            self.assertRegex(done.stderr, r"\d+ blocks on the device were not what was written; they were written again")
        else:
            self.quiet(done)
        self.assertEqual(self.reports()[0]["bytes_not_compared"], 0)
        self.assertTrue(has_pieces())
        self.assertEqual(self.verify(), 0)


class Compared(Writes):
    """Without any option: what a rank knows of a block that the commit reads anyway is compared with it."""

    DIFFERS = (r"\Alzy: .*/f: {} blocks \({} bytes\) differ from what this program wrote; they have no parity and stay at risk\. "
               r"Write them again, or look at them and accept them: lzy-protect .*/f\n\Z")

    def at_risk(self, offset, length):
        """Only these bytes are at risk; all else is as committed."""
        done = self.run_tool("lzy-verify", "--json", "f")
        [found] = json.loads(done.stdout)["datasets"]
        data = [(one["offset"], one["length"], one["cause"]) for one in found["damage"] if one["part"] == "data"]
        self.assertEqual((done.returncode, found["state"], data), (9, "at-risk", [(offset, length, "at-risk")]))
        self.assertEqual(self.info(code=9)["state"], "at-risk")
        self.assertEqual(self.run_tool("lzy-verify", "--repair", "f").returncode, 9, "it is not for a repair to decide")

    def test_a_wrong_piece_of_a_block_stays_at_risk(self):
        for fault in ("flip", "drop", "short"):
            with self.subTest(fault):
                done = self.pieces("gaps", fault, at=2, report="report")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, self.DIFFERS.format(1, 65536))
                self.assertEqual(self.reports()[-1]["bytes_differing"], 65536)
                self.at_risk(65536, 65536)
                self.assertEqual(self.run_tool("lzy-protect", "f").returncode, 0)
                self.assertEqual(self.verify(), 0)

    def test_it_is_in_the_summary_and_the_program_may_end_normally(self):
        done = self.pieces("gaps", "flip", at=2, summary="on", on_error="fail")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"added.*; 64 KiB differ from what was written\n")

    def test_a_small_file_is_compared(self):
        done = self.pieces("small", "flip", at=2, rank=1)
        self.assertRegex(done.stderr, self.DIFFERS.format(1, 4096))
        self.at_risk(12288, 4096)

    def test_a_later_commit_keeps_it_at_risk(self):
        done = self.pieces("synced", "flip", at=2, report="report")
        self.assertRegex(done.stderr, self.DIFFERS.format(1, 65536))
        self.assertEqual([one["bytes_differing"] for one in self.reports()[-2:]], [65536, 65536])
        self.at_risk(65536, 65536)

    def test_it_ends_when_the_block_is_written_again(self):
        self.pieces("mended", "flip", at=2, report="report")
        self.assertEqual([one["bytes_differing"] for one in self.reports()[-2:]], [65536, 0])
        self.assertEqual(self.verify(), 0)
        self.pieces("gaps", "flip", at=2)
        self.assertEqual(self.verify(), 9)
        done = self.run_program([PIECES, "gaps", "f"])
        self.quiet(done)
        self.assertEqual(self.verify(), 0, "the program was run again")

    def test_nothing_is_said_of_right_pieces(self):
        for kind in ("gaps", "small", "grid", "strided", "header", "twice", "memory", "synced", "mended"):
            with self.subTest(kind):
                self.quiet(self.pieces(kind, report="report"))
                self.assertEqual(self.reports()[-1]["bytes_differing"], 0)
                self.assertEqual(self.verify(), 0)

    def test_bytes_that_others_may_have_written_are_not_compared(self):
        """Another rank, or another program after the last write."""
        for kind in ("common", "overlap", "patched"):
            with self.subTest(kind):
                self.quiet(self.pieces(kind))
                self.assertEqual(self.verify(), 0)
        self.assertEqual(self.content("f")[67536:67541], b"PATCH")

    def test_a_part_of_a_block_of_two_ranks_is_compared(self):
        done = self.pieces("small", "flip", at=1, rank=1)
        self.assertRegex(done.stderr, self.DIFFERS.format(1, 4096))
        self.at_risk(8192, 4096)


class SmallFiles(Writes):
    def test_blocks_are_smaller_than_those_that_were_captured(self):
        """Nobody knows how large a new file will become, so it is captured in blocks of large files."""
        for size in ("5000", "20000", "60000"):
            for kind in ("flip", "short"):
                with self.subTest(size=size, kind=kind):
                    self.fresh()
                    self.client("small", name="bare", argument=size, ranks=1, layer=False)
                    settings = ["FAULT_FILE=f", f"FAULT_KIND={kind}"]
                    done = self.run_program(["env", *settings, f"LD_PRELOAD={LAYER}:{FAULTY}", CLIENT, "small", "f", size], ranks=1,
                                            layer=False, verify_writes="on")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr, REPAIRED)
                    self.assertEqual(self.content("f"), self.content("bare"))
                    self.assertEqual(self.verify(), 0)


class Cuts(Writes):
    def test_what_another_rank_wrote_before_a_cut_is_no_fault(self):
        """Of a block that one rank wrote over and that was cut then, another rank still has older parts."""
        for argument in ("once", "again"):
            with self.subTest(argument):
                self.fresh()
                self.client("cut_in_a_block", name="bare", argument=argument, layer=False)
                done = self.client("cut_in_a_block", argument=argument, verify_writes="on", block_size="4K", stripe="4K")
                self.only_uncompared(done, "several ranks")
                self.assertEqual(self.content("f"), self.content("bare"))
                self.assertEqual(self.verify(), 0)


class LastWrites(Writes):
    def test_the_end_of_a_file_that_was_not_written_is_written_again(self):
        """The file is shorter then. Of a set, too."""
        for ranks, options in ((1, {}), (2, {"set": "f.%r", "parity": 1}), (2, {"set": "f.%r", "parity": 0})):
            self.client("set_slabs", name="bare", ranks=ranks, layer=False)
            last = ranks - 1
            for kind in ("drop", "short"):
                with self.subTest(kind=kind, ranks=ranks, **options):
                    for name in self.files():
                        if "bare" not in name:
                            os.remove(self.path(name))
                    settings = [f"FAULT_FILE=f.{last}", f"FAULT_KIND={kind}", "FAULT_AT=4", f"FAULT_RANK={last}"]
                    program = ["env", *settings, f"LD_PRELOAD={LAYER}:{FAULTY}", CLIENT, "set_slabs", "f", ""]
                    done = self.run_program(program, ranks=ranks, layer=False, verify_writes="on", **options)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr, r"blocks on the device were not what was written; they were written again")
                    self.assertEqual(self.content(f"f.{last}"), self.content(f"bare.{last}"))
                    self.assertEqual(self.verify("f.%r" if "set" in options else "f.0"), 0)

    def test_without_room_for_copies_the_lost_end_is_an_error(self):
        """Hashes need less room. The file gets its size, with zeros in place of what is missing."""
        self.client("set_slabs", name="bare", ranks=1, layer=False)
        settings = ["FAULT_FILE=f.0", "FAULT_KIND=drop", "FAULT_AT=4"]
        done = self.run_program(["env", *settings, f"LD_PRELOAD={LAYER}:{FAULTY}", CLIENT, "set_slabs", "f", ""], ranks=1,
                                layer=False, verify_writes="on", memory="64K")
        self.assertRegex(done.stderr, r"lzy: .*/f\.0: \d+ blocks on the device are not what was written, and \d+ could not be repaired")
        self.assertEqual(len(self.content("f.0")), len(self.content("bare.0")))

    def test_a_file_that_was_cut_stays_so(self):
        """By MPI-IO, also by another handle, and by POSIX calls after the last write."""
        for action in ("cut_at_the_end", "cut_by_another_handle", "cut_within_a_tick"):
            with self.subTest(action):
                self.clear()
                self.client(action, name="bare", layer=False)
                self.only_uncompared(self.client(action, verify_writes="on"), "")
                self.assertEqual(self.content("f"), self.content("bare"))
                self.assertEqual(self.verify(), 0)


class PosixWrites(Writes):
    def test_a_header_written_by_posix_calls_is_no_fault(self):
        """Behind MPI's back, before the close: nobody may put back what MPI-IO had written there."""
        done = self.client("patched", verify_writes="on")
        self.only_uncompared(done, "something else than the MPI calls")
        self.assertEqual(self.content("f")[:6], b"HEADER")


class Sets(Writes):
    """Members of a set are held to what their programs wrote, as shared files are."""

    def write_set(self, kind, ranks=2, **options):
        """A new set, of which rank 1 writes something else than it should."""
        for name in self.files():
            if "bare" not in name:
                os.remove(self.path(name))
        settings = ["FAULT_FILE=s.1", f"FAULT_KIND={kind}", "FAULT_AT=2", "FAULT_RANK=1", f"LD_PRELOAD={LAYER}:{FAULTY}"]
        return self.run_program(["env", *settings, CLIENT, "set_slabs", "s", ""], ranks=ranks, layer=False, set="s.%r", **options)

    def same(self, ranks=2):
        return all(self.content(f"s.{rank}") == self.content(f"bare.{rank}") for rank in range(ranks))

    def test_nothing_is_reported_without_faults(self):
        for parity in (0, 1):
            with self.subTest(parity=parity):
                self.clear()
                self.quiet(self.client("set_slabs", name="s", verify_writes="on", set="s.%r", parity=parity))
                self.assertEqual(self.verify("s.%r"), 0)

    def test_wrong_writes_are_written_again(self):
        self.client("set_slabs", name="bare", ranks=3, layer=False)
        for kind in KINDS:
            self.write_set(kind)
            self.assertFalse(self.same(), f"{kind} is a fault")
            for ranks, parity in [(2, 0), (2, 1)] + ([(3, 2)] if kind == "misplace" else []):
                with self.subTest(kind=kind, parity=parity):
                    done = self.write_set(kind, ranks=ranks, parity=parity, verify_writes="on")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr, r"lzy: .*/s\.%r: \d+ blocks on the device were not what was written; they were written again")
                    self.assertTrue(self.same(ranks), "what was written is there")
                    self.assertEqual(self.verify("s.%r"), 0)

    def test_what_cannot_be_written_again_is_an_error(self):
        """There is no room to keep it, and no parity, or only that of what was written wrongly."""
        self.client("set_slabs", name="bare", layer=False)
        for parity in (0, 1):
            with self.subTest(parity=parity):
                done = self.write_set("drop", parity=parity, verify_writes="on", block_size="4K", memory="128K")
                self.assertRegex(done.stderr, r"(?m)^lzy: .*/s\.%r: \d+ blocks on the device are not what was written, and \d+ could "
                                              "not be repaired")
                self.assertFalse(self.same())
                self.assertNotEqual(self.verify("s.%r"), 0, "it is not taken for intact")

    def test_a_header_written_by_posix_calls_is_no_fault(self):
        """Not even if it is written while the others wait for a rank."""
        for action, patched in (("set_patched", "s.1"), ("set_patched_late", "s.0")):
            for parity in (0, 1):
                with self.subTest(action, parity=parity):
                    self.clear()
                    done = self.client(action, name="s", verify_writes="on", set="s.%r", parity=parity)
                    self.only_uncompared(done, "something else than the MPI calls")
                    self.assertEqual(self.content(patched)[:6], b"HEADER")
                    self.assertEqual(self.verify("s.%r"), 0)
