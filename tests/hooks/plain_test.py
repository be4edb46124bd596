"""Files that are written without MPI-IO (option posix): members of sets, single files, and the calls that are seen."""

import contextlib
import os
import threading
import time
import unittest

from layered import BUILD, LAYER, Layer

CLIENT = f"{BUILD}/clients/plain_client"
HOLD = f"{BUILD}/tests/libhold_commits.so"


def content(*writes):
    """The bytes after writes of plain_client: (offset, count, seed) each, or (count, seed) at the end."""
    data = bytearray()
    for write in writes:
        offset, count, seed = write if len(write) == 3 else (len(data), *write)
        if len(data) < offset + count:
            data.extend(bytes(offset + count - len(data)))
        data[offset:offset + count] = bytes((seed * 31 + i * 7 + i // 251) % 256 for i in range(count))
    return bytes(data)


class Plain(Layer):
    """Programs for plain_client."""

    @contextlib.contextmanager
    def held(self, commands, **options):
        """The program has come to its first hold, and goes on at the end."""
        self.done = None

        def run():
            self.done = self.plain(commands, **options)

        running = threading.Thread(target=run)
        running.start()
        try:
            self.wait_until(lambda: self.has("STEP.1") or not running.is_alive())
            yield
        finally:
            self.go(1)
            self.go(2)
            running.join()
            for name in self.files():
                if name.startswith(("STEP.", "GO.")):
                    os.remove(self.path(name))

    def go(self, number):
        with open(self.path(f"GO.{number}"), "w", encoding="utf-8"):
            pass

    def wait_until(self, holds):
        end = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def plain(self, commands, ranks=2, code=0, finalize=True, init=True, **options):
        script = ";".join((["init"] if init else []) + list(commands) + (["finalize"] if finalize else []))
        done = self.run_program([CLIENT, script], ranks=ranks, **options)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done

    def assert_protected(self, name):
        done = self.run_tool("lzy-verify", name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_unprotected(self, name):
        self.assertFalse(self.has(f".LZY.{name}"))

    def assert_rebuilt(self, pattern, lost):
        before = self.content(lost)
        os.remove(self.path(lost))
        done = self.run_tool("lzy-restore", "--quiet", pattern)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.content(lost), before)


class PlainSets(Plain):
    """One file for each rank, written by POSIX or C calls."""
    WRITE = ("open 0 s.%d wct", "write 0 100000 1", "close 0")

    def test_a_set_is_committed_without_a_word(self):
        self.quiet(self.plain(self.WRITE, ranks=3, set="s.%r"))
        self.assert_protected("s.%r")
        self.assert_rebuilt("s.%r", "s.1")

    def test_by_streams(self):
        self.quiet(self.plain(("fopen 0 s.%d w", "fwrite 0 100000 1", "fclose 0"), ranks=3, set="s.%r"))
        self.assert_protected("s.%r")
        self.assertEqual(self.content("s.2"), content((100000, 1)))

    def test_a_set_of_one_rank(self):
        self.quiet(self.plain(self.WRITE, ranks=1, parity=0, set="s.%r"))
        self.assert_protected("s.%r")

    def test_it_is_committed_while_the_program_runs(self):
        with self.held((*self.WRITE, "@0 hold 1"), ranks=3, set="s.%r"):
            self.wait_until(lambda: self.verify("s.%r") == 0)
        self.quiet(self.done)
        self.assert_protected("s.%r")

    def test_a_rank_may_write_after_a_message_from_one_that_closed(self):
        self.quiet(self.plain(("@1 hear 0", *self.WRITE, "@0 tell 1"), set="s.%r"))
        self.assert_protected("s.%r")

    def test_with_commit_wait_the_close_commits(self):
        with self.held((*self.WRITE, "@0 hold 1"), set="s.%r", commit="wait"):
            self.assert_protected("s.%r")
        self.quiet(self.done)

    def test_steps_are_sets_of_their_own_and_old_ones_go(self):
        steps = []
        for step in range(3):
            steps += [f"open 0 s.{step}.%d wct", f"write 0 50000 {step}", "close 0", "barrier"]
            if step > 0:
                steps.append(f"unlink s.{step - 1}.%d")
        self.quiet(self.plain(steps, set="s.*.%r"))
        self.assert_protected("s.2.%r")
        self.assertEqual([name for name in self.files() if "s.0" in name or "s.1" in name and not name.endswith("s.2.1")], [])

    def test_a_member_is_written_in_several_goes(self):
        again = ("@1 open 0 s.%d wa", "@1 write 0 5000 2", "@1 close 0")
        self.quiet(self.plain((*self.WRITE, *again, "barrier", *again), set="s.%r"))
        self.assert_protected("s.%r")

    def test_it_waits_for_a_member_that_is_written_again(self):
        with self.held((*self.WRITE, "@1 open 1 s.%d w+", "@1 pwrite 1 5 10 7", "@1 hold 1", "@1 close 1", "@1 hold 2"), set="s.%r"):
            self.assertNotEqual(self.verify("s.%r"), 0)
            self.go(1)
            self.wait_until(lambda: self.verify("s.%r") == 0)
            self.go(2)
        self.quiet(self.done)
        self.assert_protected("s.%r")

    def test_one_rank_rewrites_its_member(self):
        alone = ("@0 open 0 s.%d w+", "@0 pwrite 0 100 50 9", "@0 close 0")
        self.quiet(self.plain((*self.WRITE, "barrier", "sleep 500", *alone), set="s.%r", report="report"))
        self.assert_protected("s.%r")
        self.assertEqual([line["generation"] for line in self.reports()], [1, 2])

    def test_one_rank_rewrites_its_member_of_an_older_set(self):
        self.quiet(self.plain(self.WRITE, set="s.%r"))
        alone = ("@0 open 0 s.%d w+", "@0 pwrite 0 100 50 9", "@0 close 0", "@0 hold 1")
        with self.held(alone, set="s.%r", timeout=1):
            time.sleep(0.5)
            self.assertNotEqual(self.verify("s.%r"), 0)
        self.quiet(self.done)
        self.assert_protected("s.%r")

    def test_a_rank_without_a_member_is_named(self):
        done = self.plain(tuple(f"@0 {one}" for one in self.WRITE), set="s.%r")
        self.assertIn("s.%r: not committed: rank 1 wrote no member of it", done.stderr)
        self.assertNotEqual(self.verify("s.%r"), 0)

    def test_a_member_that_stays_open_is_named(self):
        done = self.plain(("open 0 s.%d wct", "write 0 1000 1", "@0 close 0"), set="s.%r")
        self.assertIn("s.1: not closed before MPI_Finalize", done.stderr)

    def test_the_member_of_another_rank(self):
        done = self.plain(("@0 open 0 s.1 wct", "@0 write 0 1000 1", "@0 close 0"), set="s.%r")
        self.assertIn("s.1: not protected: it is the member of rank 1 of set s.%r, but rank 0 opened it", done.stderr)

    def test_members_get_their_names_by_rename(self):
        for _ in range(2):
            self.quiet(self.plain(("open 0 s.%d.tmp wct", "write 0 100000 1", "close 0", "rename s.%d.tmp s.%d"), ranks=3, set="s.%r"))
            self.assert_protected("s.%r")
        self.assert_rebuilt("s.%r", "s.2")

    def test_an_unwritten_member_is_left_alone(self):
        self.quiet(self.plain(self.WRITE, set="s.%r"))
        for name in ("s.0", "s.1"):
            os.utime(self.path(name), ns=(10**18, 10**18))
        self.assertEqual(self.run_tool("lzy-protect", "--quiet", "s.%r").returncode, 0)
        before = [self.content(f".LZY.s.{i}") for i in range(2)]
        self.quiet(self.plain(("open 0 s.%d w+", "close 0"), set="s.%r", report="report"))
        self.assertFalse(self.has("report"))
        self.assertEqual(len(before), 2)
        self.assert_protected("s.%r")

    def test_a_member_that_is_renamed_too_early(self):
        done = self.plain((*self.WRITE[:2], "@0 close 0", "@0 rename s.%d old.%d", "barrier", "@1 close 0"), set="s.%r")
        self.assertIn("s.0: renamed to ", done.stderr)
        self.assertIn("before its set", done.stderr)

    def test_a_member_that_is_closed_too_late(self):
        done = self.plain(("open 0 s.%d wct", "write 0 9 1", "@1 close 0", "finalize", "@0 close 0"), finalize=False, set="s.%r")
        self.assertIn("s.0: not closed before MPI_Finalize", done.stderr)

    def test_directories_of_their_own(self):
        self.quiet(self.plain(("mkdir p%d", "open 0 p%d/U wct", "write 0 70000 3", "close 0"), ranks=3, set="p%r/U"))
        self.assert_protected("p%r/U")

    def test_several_files_of_each_rank_and_step(self):
        """As OpenFOAM writes them."""
        commands = ["mkdir processor%d"]
        for step in ("0.1", "0.2"):
            commands += [f"mkdir processor%d/{step}", f"mkdir processor%d/{step}/uniform"]
            for field in ("U", "p", "uniform/time"):
                commands += [f"fopen 0 processor%d/{step}/{field} w", f"fwrite 0 30000 {len(field)}", "fclose 0"]
        self.quiet(self.plain(commands, ranks=3, set="processor%r/*/*:processor%r/*/*/*"))
        for step in ("0.1", "0.2"):
            for field in ("U", "p", "uniform/time"):
                self.assert_protected(f"processor%r/{step}/{field}")

    def test_members_that_are_removed_before_they_are_closed(self):
        start = time.monotonic()
        self.quiet(self.plain(("open 0 s.%d wct", "write 0 9 1", "unlink s.%d", "close 0"), set="s.%r", timeout=100))
        self.assertLess(time.monotonic() - start, 100)
        self.assertEqual(self.files(), [])

    def test_a_member_that_somebody_moved_away_for_a_while(self):
        commands = (*self.WRITE, "hold 1", "@0 open 1 s.%d wa", "@0 write 1 9 1", "@0 close 1", "@0 hold 2")
        with self.held(commands, set="s.%r", timeout=2):
            self.wait_until(lambda: self.verify("s.%r") == 0)
            os.rename(self.path("s.1"), self.path("elsewhere"))
            self.go(1)
            time.sleep(4)
            os.rename(self.path("elsewhere"), self.path("s.1"))
        self.quiet(self.done)
        self.assert_protected("s.%r")

    def test_children_that_write_members(self):
        """They are not protected, and do not touch what MPI shares with the parent."""
        self.quiet(self.plain(("forkopen s.%d", "barrier"), set="s.%r"))
        self.assert_unprotected("s.0")
        self.quiet(self.plain(("forkopen s.%d", *self.WRITE, "barrier", "forkopen t.%d"), set="s.%r:t.%r"))
        self.assert_protected("s.%r")
        self.assert_unprotected("t.0")

    def test_several_sets(self):
        self.quiet(self.plain((*self.WRITE, "open 1 t.%d wct", "write 1 90000 4", "close 1"), set="s.%r:t.%r"))
        self.assert_protected("s.%r")
        self.assert_protected("t.%r")

    def test_in_another_order_on_each_rank(self):
        t = ("open 1 t.%d wct", "write 1 90000 4", "close 1")
        first = [f"@0 {one}" for one in (*self.WRITE, *t)]
        second = [f"@1 {one}" for one in (*t, *self.WRITE)]
        self.quiet(self.plain((*first, *second), set="s.%r:t.%r"))
        self.assert_protected("s.%r")
        self.assert_protected("t.%r")

    def test_off(self):
        self.quiet(self.plain(self.WRITE, set="s.%r", posix="off"))
        self.assert_unprotected("s.0")

    def test_disabled(self):
        self.quiet(self.plain(self.WRITE, set="s.%r", disable="1"))
        self.assert_unprotected("s.0")

    def test_drained(self):
        self.quiet(self.plain(self.WRITE, set="s.%r", drain="s.%r=far/s.%r"))
        for member in ("s.0", "s.1"):
            self.assertEqual(self.content(f"far/{member}"), self.content(member))

    def test_sealed(self):
        with open(os.open(self.path("key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))
        self.quiet(self.plain(self.WRITE, set="s.%r", key="key"))
        self.assertEqual(self.run_tool("lzy-verify", "--quiet", "--key", "key", "s.%r").returncode, 0)
        self.assertEqual(self.verify("s.%r"), 3)

    def test_healed_before_the_next_run_opens_it(self):
        self.quiet(self.plain(self.WRITE, ranks=3, set="s.%r"))
        before = self.content("s.1")
        os.remove(self.path("s.1"))
        done = self.plain(("open 0 s.%d r", "close 0"), ranks=3, set="s.%r", heal="on")
        self.assertIn("rebuilt before the program opens it", done.stderr)
        self.assertEqual(self.content("s.1"), before)

    def test_reports_and_summary(self):
        with self.held((*self.WRITE, "@0 hold 1"), set="s.%r", report="report", summary="on"):
            self.wait_until(lambda: self.has("report"))
        [line] = self.reports()
        self.assertEqual((line["kind"], line["bytes"], line["bytes_reread"]), ("set", 200000, 200000))
        self.assertGreater(line["seconds_background"], 0)
        self.assertRegex(self.done.stderr, r"s\.%r: .*195\.3 KiB")

    def test_waiting_for_commits(self):
        """lzy_commit_wait."""
        self.quiet(self.plain((*self.WRITE, "await s.%d -1 0", "open 1 t.%d wct", "@0 close 1", "@0 await t.0 0.2 2", "@0 await - 0.2 2",
                               "@0 await s.0 0.2 0", "barrier", "@1 close 1", "await - 60 0"), set="s.%r:t.%r"))
        self.assert_protected("s.%r")
        self.assert_protected("t.%r")

    def test_checked(self):
        self.quiet(self.plain(self.WRITE, set="s.%r", verify_writes="on"))
        self.assert_protected("s.%r")


class PlainFiles(Plain):
    """Files that one process writes alone."""
    ON = {"posix": "on", "include": "f*"}

    def alone(self, *commands, **options):
        return self.plain(commands, **{"ranks": 1, **self.ON, **options})

    def assert_one(self, *commands, expected=None, name="f", **options):
        """Runs them; `name` is protected then, with the `expected` content."""
        self.quiet(self.alone(*commands, **options))
        self.assert_protected(name)
        if expected is not None:
            self.assertEqual(self.content(name), expected)
        self.damage(name, 10)
        self.assertEqual(self.run_tool("lzy-verify", "--quiet", "--repair", name).returncode, 0)
        if expected is not None:
            self.assertEqual(self.content(name), expected)

    def test_ways_to_open(self):
        for number, way in enumerate(("open 0 f%n wct", "open 0 f%n w+c", "creat 0 f%n", "openat 0 . f%n wct", "open 0 f%n wcx")):
            name = f"f{number}"
            self.assert_one(way.replace("f%n", name), "write 0 100000 1", "close 0", expected=content((100000, 1)), name=name)

    def test_streams(self):
        self.assert_one("fopen 0 f w", "fwrite 0 100000 1", "fclose 0", expected=content((100000, 1)))
        self.assert_one("fopen 0 f a", "fwrite 0 100 2", "fclose 0", expected=content((100000, 1), (100, 2)))
        self.assert_one("fopen 0 f r+", "fwrite 0 100 3", "fclose 0", expected=content((100000, 1), (100, 2), (0, 100, 3)))

    def test_freopen(self):
        self.assert_one("fopen 0 f w", "fwrite 0 100 1", "freopen 0 other w", "fwrite 0 5 1", "barrier",
                        expected=content((100, 1)))
        self.assert_one("fopen 0 other w", "freopen 0 f w", "fwrite 0 200 2", "fclose 0", expected=content((200, 2)))

    def test_the_last_duplicate_completes_the_file(self):
        for seed, copy in enumerate(("dup 0 1", "fcntl 0 1", "@0 open 1 other wct;dup2 0 1")):
            with self.held(("open 0 f wct", f"write 0 1000 {seed}", copy, "close 0", "write 1 1000 9", "hold 1", "close 1"), ranks=1, **self.ON):
                self.assertNotEqual(self.verify("f"), 0, copy)
            self.quiet(self.done)
            self.assert_protected("f")
            self.assertEqual(self.content("f"), content((1000, seed), (1000, 9)))

    def test_a_program_that_writes_to_standard_output_after_closing_it(self):
        for number in (0, 1):
            self.alone("open 0 f wct", "write 0 3000000 1", "shut 0", "shut 1", "close 0", f"chatter {number} 3000")
            self.assertEqual(self.content("f"), content((3000000, 1)))
            self.assert_protected("f")
            self.assertNotIn(b"progress", self.content(".LZY.f"))

    def test_pointers_that_lead_nowhere(self):
        self.quiet(self.alone("badpath"))

    def test_a_failed_duplicate_closes_nothing(self):
        with self.held(("open 0 f wct", "write 0 1000 1", "baddup2 0", "write 0 1000 2", "hold 1", "close 0"), ranks=1, **self.ON):
            self.assertNotEqual(self.verify("f"), 0)
        self.quiet(self.done)
        self.assert_protected("f")

    def test_another_open_completes_the_file(self):
        self.assert_one("open 0 f wct", "open 1 f w", "write 0 1000 1", "close 0", "pwrite 1 500 1000 2", "close 1",
                        expected=content((1000, 1), (500, 1000, 2)))

    def test_a_child_that_writes(self):
        self.assert_one("open 0 f wct", "write 0 1000 1", "fork 0", "close 0", expected=content((1000, 1)) + b"x")

    def test_a_child_that_closes(self):
        with self.held(("open 0 f wct", "write 0 1000 1", "vfork 0", "hold 1", "write 0 5 1", "close 0"), ranks=1, **self.ON):
            self.assertNotEqual(self.verify("f"), 0)
        self.quiet(self.done)
        self.assert_protected("f")

    def test_mapped_pages(self):
        self.assert_one("open 0 f w+ct", "ftruncate 0 9000", "map 0 1000 5000 3", "close 0")

    def test_truncated_by_name(self):
        self.assert_one("open 0 f wct", "write 0 1000 1", "close 0", "truncate f 500", expected=content((1000, 1))[:500])

    def test_renamed_to_its_name(self):
        self.assert_one("open 0 tmp wct", "write 0 1000 1", "close 0", "rename tmp f", expected=content((1000, 1)))
        self.assert_one("open 0 tmp wct", "write 0 1000 2", "close 0", "rename tmp f", expected=content((1000, 2)))

    def test_linked_to_its_name(self):
        self.assert_one("open 0 tmp wct", "write 0 1000 1", "close 0", "link tmp f", "unlink tmp", expected=content((1000, 1)))

    def test_the_old_one_is_kept_under_another_name(self):
        """As GROMACS does it."""
        step = ("open 0 tmp wct", "write 0 1000 {0}", "close 0", "rename tmp f")
        one, two, three = ([word.format(seed) for word in step] for seed in (1, 2, 3))
        self.quiet(self.alone(*one, "rename f f_prev", *two, "rename f f_prev", *three))
        for name, seed in (("f", 3), ("f_prev", 2)):
            self.assert_protected(name)
            self.assertEqual(self.content(name), content((1000, seed)))

    def test_removed(self):
        for verb in ("unlink", "remove"):
            self.quiet(self.alone("open 0 f wct", "write 0 1000 1", "close 0", "barrier", f"{verb} f"))
            self.assertEqual(self.files(), [])

    def removed_in_its_commit(self, remove):
        """The file is removed by another process while its commit goes on: nothing is left to protect, so nothing is said."""
        script = "init;open 0 f wct;write 0 100000 1;close 0;finalize"
        result = []
        running = threading.Thread(target=lambda: result.append(self.run_program(
            ["env", f"LD_PRELOAD={HOLD}:{LAYER}", f"HOLD_COMMITS={self.dir}", CLIENT, script], ranks=1, **self.ON)))
        running.start()
        try:
            self.wait_until(lambda: any(name.startswith("HELD.") for name in self.files()) or not running.is_alive())
            self.assertTrue(running.is_alive())
            remove()
        finally:
            self.go("COMMIT")
            running.join()
        self.assertEqual((result[0].returncode, result[0].stderr), (0, ""))
        return [name for name in self.files() if not name.startswith(("GO.", "HELD."))]

    def test_removed_by_another_process_in_its_commit(self):
        self.assertEqual(self.removed_in_its_commit(lambda: os.remove(self.path("f"))), [])

    def test_removed_with_its_sidecar_in_its_commit(self):
        """As a process of the same job does, which has the layer."""
        def remove():
            os.remove(self.path("f"))
            os.remove(self.path(".LZY.f"))
        self.assertEqual(self.removed_in_its_commit(remove), [])

    def test_opened_before_mpi_init(self):
        self.quiet(self.alone("open 0 f wct", "write 0 1000 1", "init", "write 0 1000 2", "close 0", init=False))
        self.assert_protected("f")

    def test_closed_after_mpi_finalize(self):
        self.quiet(self.alone("open 0 f wct", "write 0 1000 1", "finalize", "write 0 1000 2", "close 0", finalize=False))
        self.assert_protected("f")

    def test_written_after_mpi_finalize(self):
        self.quiet(self.alone("finalize", "open 0 f wct", "write 0 1000 2", "close 0", finalize=False))
        self.assert_protected("f")

    def test_a_file_that_is_never_closed_is_at_risk(self):
        self.quiet(self.alone("open 0 f wct", "write 0 1000 1"))
        self.assertNotEqual(self.verify("f"), 0)

    def test_an_open_that_fails(self):
        self.assert_one("open 0 f wct", "write 0 1000 1", "close 0", "tryopen 0 f wcx", "tryopen 0 no/f wc", expected=content((1000, 1)))

    def test_relative_to_another_directory(self):
        self.assert_one("open 0 f wct", "mkdir d", "chdir d", "write 0 1000 1", "close 0", "open 1 f2 wct", "write 1 100 1", "close 1")
        self.assert_protected("d/f2")

    def test_an_edit_is_committed(self):
        self.assert_one("open 0 f wct", "write 0 300000 1", "close 0")
        self.assert_one("open 0 f w", "pwrite 0 70000 10 5", "close 0", expected=content((300000, 1), (70000, 10, 5)))

    def test_a_program_killed_in_the_middle(self):
        self.assert_one("open 0 f wct", "write 0 1000 1", "close 0")
        # What a launcher makes of an end without MPI_Finalize differs.
        self.alone("open 0 f wt", "write 0 500 2", "exit 0", finalize=False, code=None)
        self.assertNotEqual(self.verify("f"), 0)

    def test_auto_leaves_them_alone(self):
        self.quiet(self.plain(("open 0 f wct", "write 0 1000 1", "close 0"), ranks=1, include="f*"))
        self.assert_unprotected("f")

    def test_on_without_include_leaves_them_alone(self):
        self.quiet(self.plain(("open 0 f wct", "write 0 1000 1", "close 0"), ranks=1, posix="on"))
        self.assert_unprotected("f")

    def test_excluded(self):
        self.quiet(self.alone("open 0 f.log wct", "write 0 1000 1", "close 0", exclude="*.log"))
        self.assert_unprotected("f.log")

    def test_ranks_write_files_of_their_own(self):
        self.quiet(self.alone("open 0 f%d wct", "write 0 1000 1", "close 0", ranks=3))
        for rank in range(3):
            self.assert_protected(f"f{rank}")

    def test_with_mpi_io_beside(self):
        self.quiet(self.alone("open 0 f wct", "write 0 1000 1", "mpi_write f2 5000 2", "close 0"))
        self.assert_protected("f")
        self.assert_protected("f2")

    def test_memory_that_ranks_share(self):
        """For it, MPI makes files of its own, in calls that are not wrapped."""
        before = os.listdir("/dev/shm")
        self.quiet(self.alone("window 10000", "@0 open 0 f wct", "@0 write 0 1000 1", "@0 close 0", ranks=2, include="*", report="report"))
        self.assertEqual({line["path"] for line in self.reports()} - {self.path("f")}, set())
        self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith(".LZY") and name not in before], [])

    def test_a_program_without_mpi(self):
        self.quiet(self.alone("open 0 f wct", "write 0 1000 1", "close 0", init=False, finalize=False))
        self.assert_unprotected("f")

    def test_links_and_special_files(self):
        os.symlink("f", self.path("f_link"))
        os.mkfifo(self.path("f_fifo"))
        self.quiet(self.alone("open 0 f_link wc", "write 0 1000 1", "close 0", "open 1 f_fifo +", "write 1 10 1", "close 1"))
        self.assert_protected("f")
        self.assert_unprotected("f_fifo")


if __name__ == "__main__":
    unittest.main()
