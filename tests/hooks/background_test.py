"""Option commit=background: sync and close return at once, and the commit goes on beside the program."""

import glob
import os
import random
import signal
import subprocess
import threading
import time
import unittest

import format_reader
from layered import BUILD, CLIENT, LAYER, Held, Layer

SMALL = {"block_size": "4K", "stripe": "4K", "parity": 1}
HOLD = f"{BUILD}/tests/libhold_commits.so"


class Background(Held):
    def background(self, action, name="f", argument="", hold=False, **options):
        options = {"commit": "background", "ranks": 2, **SMALL, **options}
        ranks = options.pop("ranks")
        command = [CLIENT, action, name, str(argument)]
        if options.pop("finalize_early", None):
            command = ["env", "FINALIZE_EARLY=on", *command]
        if hold:
            command = ["env", f"LD_PRELOAD={HOLD}:{LAYER}", f"HOLD_COMMITS={self.dir}", *command]
        return self.run_program(command, ranks=ranks, **options)

    def begin(self, action, name="f", argument="", **options):
        """Starts a program whose commits are held."""
        self._result = []
        self._running = threading.Thread(
            target=lambda: self._result.append(self.background(action, name, argument, hold=True, **options)))
        self._running.start()
        self.addCleanup(self._running.join)
        self.addCleanup(self.release)

    def release(self, name="GO.COMMIT"):
        with open(self.path(name), "w", encoding="utf-8"):
            pass

    def wait_for(self, *names):
        end = time.monotonic() + 120
        while not all(glob.glob(self.path(name)) for name in names):
            self.assertTrue(self._running.is_alive() or all(glob.glob(self.path(name)) for name in names), self._result)
            self.assertLess(time.monotonic(), end, names)
            time.sleep(0.01)

    def ended_well(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def facts(self, *names):
        result = format_reader.check([self.path(name) for name in names])
        self.assertEqual((result.errors, result.lines), ([], []))
        return [(report["root"], report["parity_sha256"]) for report in result.reports]

    # ---------------------------------------------------------------------------------------------------- same results

    def test_bytes_roots_and_parity_are_as_with_wait(self):
        found = {}
        for commit in ["wait", "background"]:
            for ranks in [1, 3]:
                self.clear()
                self.ended_well(self.background("background_steps", argument=4, ranks=ranks, commit=commit))
                names = [f"f.{step}" for step in range(4)]
                self.assertEqual(self.verify("."), 0)
                found.setdefault(ranks, []).append(([self.content(name) for name in names], [self.facts(name) for name in names]))
        for ranks, (wait, background) in found.items():
            self.assertEqual(wait, background, ranks)

    def test_the_same_name_again_and_syncs(self):
        for action in ["background_again", "background_sync"]:
            found = []
            for commit in ["wait", "background"]:
                self.clear()
                self.ended_well(self.background(action, commit=commit, ranks=2, report=self.path("report")))
                self.assertEqual(self.verify(), 0, action)
                found.append((self.content("f"), self.facts("f")))
                self.assertEqual([line["state"] for line in self.reports()], ["intact"] * len(self.reports()))
            self.assertEqual(found[0], found[1], action)

    def test_a_set(self):
        found = []
        for commit in ["wait", "background"]:
            self.clear()
            self.ended_well(self.background("set_again", name="s", set="s.%r", commit=commit, ranks=3))
            self.assertEqual(self.verify("s.%r"), 0)
            found.append(([self.content(f"s.{rank}") for rank in range(3)], self.facts(*[f"s.{rank}" for rank in range(3)])))
        self.assertEqual(found[0], found[1])

    def test_captures_are_used_and_the_times_are_reported(self):
        done = self.background("background_steps", argument=2, report=self.path("report"), summary="on")
        lines = self.reports()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertGreater(line["seconds_background"], 0)
            self.assertGreaterEqual(line["seconds_blocked"], 0)
            self.assertGreater(line["bytes_captured"], 0, "an edit was seen where there was none")
        self.assertEqual(done.stderr.count("s in the background"), 2, done.stderr)
        self.clear()
        self.background("background_steps", argument=1, report=self.path("report"), commit="wait")
        [line] = self.reports()
        self.assertEqual(line["seconds_background"], 0)
        self.assertGreater(line["seconds_blocked"], 0)

    # ------------------------------------------------------------------------------------------------ while it goes on

    def test_close_returns_and_the_tools_say_what_goes_on(self):
        self.begin("background_hold", argument=1)
        with self.between(1):
            self.wait_for("HELD.*")
            info = self.run_tool("lzy-info", "f.0")
            self.assertEqual(info.returncode, 9, info.stdout + info.stderr)
            self.assertRegex(info.stdout, r"at risk: commit under way by [^ ]+:\d+\n")
            self.assertRegex(self.info("f.0", code=9)["commit_under_way"], r".+:\d+")
            verify = self.run_tool("lzy-verify", "f.0")
            self.assertRegex(verify.stdout, "at risk: commit under way by .*\n  nothing is to be done: it is protected when this commit has ended")
            self.assertEqual(verify.returncode, 9)
        self.release()
        self.ended_well(self.finish())
        self.assertEqual(self.verify("f.0"), 0)

    def test_at_most_two_commits_queue(self):
        self.begin("background_hold", argument=3)
        self.wait_for("HELD.*", "f.2")
        time.sleep(0.5)  # the third close would come in this time
        self.assertFalse(self.has("STEP.1"))
        self.release()
        with self.between(1):
            pass
        self.ended_well(self.finish())
        self.assertEqual(self.verify("."), 0)

    def test_finalize_waits_and_says_so(self):
        self.begin("background_steps", argument=2)
        self.wait_for("HELD.*")
        time.sleep(6.5)  # MPI_Finalize is silent for five seconds
        self.assertTrue(self._running.is_alive())
        self.release()
        done = self.finish()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^lzy: MPI_Finalize waits for commits in the background: 0 of 2 done, now .*/f\.0\n$")
        self.assertEqual(self.verify("."), 0)

    def test_the_older_checkpoint_is_deleted_after_the_commit_of_the_newer(self):
        self.release()
        self.begin("background_delete")
        with self.between(1):
            os.remove(self.path("GO.COMMIT"))
        self.wait_for("HELD.*", "f.1")
        time.sleep(0.5)
        self.assertTrue(self.has("f.0"))
        self.assertEqual(self.verify("f.0"), 0)
        self.release()
        with self.between(2):
            self.assertFalse(self.has("f.0"))
            self.assertEqual(self.verify("f.1"), 0)
        self.ended_well(self.finish())

    # --------------------------------------------------------------------------------- the file changes before its commit

    def test_an_edit_after_the_close_is_committed_and_never_taken_for_damage(self):
        self.begin("background_edit")
        with self.between(1):
            self.release()
        self.ended_well(self.finish())
        self.assertEqual(self.content("f")[100010:100016], b"edited")
        self.assertEqual(self.verify(), 0)

    def test_edits_in_the_middle_of_a_commit(self):
        self.begin("background_hold", argument=1)
        with self.between(1):
            self.wait_for("HELD.*")
            with open(self.path("f.0"), "r+b") as file:
                file.seek(150000)
                file.write(b"edited")
            self.release()
        self.ended_well(self.finish())
        self.assertEqual(self.verify("f.0"), 0)

    def test_a_renamed_file_is_committed_under_its_new_name(self):
        os.mkdir(self.path("other"))
        for new in ["g", "other/g"]:
            self.begin("background_rename", argument=self.path(new))
            with self.between(1):
                self.release()
            self.ended_well(self.finish())
            for name in [new, "f"]:
                self.assertEqual(self.verify(name), 0, f"{name} after a rename to {new}")
            for name in ["GO.1", "STEP.1", "GO.COMMIT", "f", ".LZY.f", *glob.glob(self.path("HELD.*"))]:
                os.remove(self.path(name))

    def test_a_removed_file_leaves_nothing(self):
        self.begin("background_remove")
        with self.between(1):
            self.release()
        self.ended_well(self.finish())
        self.assertEqual([name for name in self.files() if name.startswith((".LZY", "f"))], [])

    # ------------------------------------------------------------------------------------------------------- failures

    def test_a_failed_commit_is_an_error_of_the_next_call(self):
        self.begin("background_codes", on_error="fail")
        self.release("FAIL")
        with self.between(1):
            self.wait_for("HELD.*")
            time.sleep(0.5)  # until the commit has failed
            self.assertIn("at risk: was being written", self.run_tool("lzy-info", "f.0").stdout)
            os.remove(self.path("FAIL"))
            self.release()
        with self.between(2):
            pass
        with self.between(3):
            pass
        done = self.finish()
        codes = sorted(done.stdout.splitlines())
        self.assertEqual(codes.count("close 0 MPI_ERR_IO"), 1, done.stdout)
        self.assertEqual(codes.count("close 1 MPI_ERR_IO"), 1, done.stdout)
        self.assertIn("f.0: no redundancy was made", done.stderr)
        self.assertEqual(self.verify("f.0"), 9)
        self.assertEqual(self.verify("f.1"), 0)

    def test_a_failed_commit_is_an_error_of_finalize(self):
        self.release("FAIL")
        for fail in ["fail", "warn"]:
            done = self.background("background_steps", argument=1, hold=True, on_error=fail)
            self.assertIn("f.0: no redundancy was made", done.stderr)
            self.assertEqual(done.returncode, 3 if fail == "fail" else 0, done.stderr)
            self.assertEqual(self.verify("f.0"), 9)

    # -------------------------------------------------------------------------------------------------------- the end

    def test_exit_without_finalize(self):
        for ranks in [1, 2]:
            done = self.background("background_exit", argument=2, ranks=ranks)
            self.assertNotIn("Segmentation", done.stderr)
            self.assertNotIn("SIGNAL", done.stdout)
            for step in range(2):
                self.assertIn(self.verify(f"f.{step}"), (0, 9))
            self.clear()

    def test_finalize_in_an_exit_handler(self):
        for ranks in [1, 2]:
            self.ended_well(self.background("background_atexit", argument=2, ranks=ranks))
            self.assertEqual(self.verify("."), 0)
            self.clear()

    def test_finalize_in_an_exit_handler_of_before_mpi_init(self):
        # Its commit is held, so it never ends; nobody may wait for it.
        self.begin("background_atexit", argument=1, ranks=1, finalize_early="on")
        self._running.join(60)
        self.assertFalse(self._running.is_alive(), "it hangs")
        self.assertEqual(self.finish().returncode, 0, self._result)
        self.assertEqual(self.verify("f.0"), 9)

    def test_a_child_process_ends_as_ever(self):
        self.begin("background_fork", argument=1, ranks=1)
        with self.between(1):
            self.release()
        self.ended_well(self.finish())
        self.assertEqual(self.verify("f.0"), 0)

    def test_killed_at_any_moment(self):
        rng = random.Random(int(os.environ.get("LZY_TEST_SEED", "1")))
        self.ended_well(self.background("background_steps", argument=1, name="old"))
        for _ in range(int(os.environ.get("LZY_TEST_ROUNDS", "12"))):
            environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
            settings = [f"LZY_{k.upper()}={v}" for k, v in {"commit": "background", **SMALL}.items()]
            with subprocess.Popen([CLIENT, "background_steps", "f", "40"], cwd=self.dir, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL,
                                  env={**environment, "LD_PRELOAD": LAYER, **dict(s.split("=", 1) for s in settings)}) as running:
                time.sleep(rng.uniform(0.05, 0.6))
                running.send_signal(signal.SIGKILL)
                running.wait()
            for name in [name for name in self.files() if name.startswith("f.")]:
                done = self.run_tool("lzy-verify", "--quiet", name)
                # 4: the file was made, and nothing was written yet.
                self.assertIn(done.returncode, (0, 9) if os.path.getsize(self.path(name)) else (0, 4, 9), name + done.stderr)
                self.assertNotIn("under way", self.run_tool("lzy-info", name).stdout)
            self.assertEqual(self.verify("old.0"), 0)
            for name in self.files():
                if name.startswith(("f.", ".LZY.f.", ".LZY-")):
                    os.remove(self.path(name))

    # ----------------------------------------------------------------------------------------------------- other ranks

    def test_a_late_member_of_a_set_keeps_nobody(self):
        done = self.background("background_late", name="s", set="s.%r", ranks=3)
        self.ended_well(done)
        self.assertEqual(self.verify("s.%r"), 0)

    def test_ranks_close_members_of_two_sets_in_different_orders(self):
        self.start("background_order", ranks=3, commit="background", set="a.%r:b.%r")
        with self.between(1):
            pass
        self.ended_well(self.finish())  # with wait, the time-out is the end of it
        for name in ["a.%r", "b.%r"]:
            self.assertEqual(self.verify(name), 0)

    def test_ranks_die_at_any_moment(self):
        rng = random.Random(int(os.environ.get("LZY_TEST_SEED", "1")))
        for _ in range(int(os.environ.get("LZY_TEST_ROUNDS", "6"))):
            done = self.background("background_killed", argument=rng.randrange(20_000, 400_000), ranks=2)
            self.assertNotEqual(done.returncode, 0)
            for name in [name for name in self.files() if name.startswith("f.")]:
                verified = self.run_tool("lzy-verify", "--quiet", name)
                self.assertIn(verified.returncode, (0, 9) if os.path.getsize(self.path(name)) else (0, 4, 9), name + verified.stderr)

    def test_the_program_can_wait(self):
        self.begin("background_wait", argument=f"{BUILD}/lib/liblzy.so")
        with self.between(1):
            self.release()
        done = self.finish()
        self.ended_well(done)
        # 9: still under way; 0: ended, or there was none.
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(["wait 0: 9 9 9 0", "wait 1: 9 9 9 0", "wait 0: 0 0", "wait 1: 0 0"]))

    # ------------------------------------------------------------------------------------------------------ thread level

    def test_the_program_sees_the_level_that_it_asked_for(self):
        for commit in ["wait", "background"]:
            done = self.background("background_level", commit=commit)
            level = done.stdout.split()
            self.assertEqual((level[1], level[2]), (level[4], level[4]), done.stdout)

    def test_without_threads_it_waits_and_says_so(self):
        options = {**SMALL, "ranks": 2}
        done = self.client("background_hint", report=self.path("report"), **options)
        self.assertEqual(done.stderr.count("commit=background needs MPI_THREAD_MULTIPLE"), 1, done.stderr)
        self.assertEqual(self.reports()[0]["seconds_background"], 0)
        self.assertEqual(self.verify(), 0)

    def test_a_hint_is_enough_if_the_level_is_raised(self):
        done = self.background("background_hint", report=self.path("report"))
        self.ended_well(done)
        self.assertGreater(self.reports()[0]["seconds_background"], 0)


if __name__ == "__main__":
    unittest.main()
