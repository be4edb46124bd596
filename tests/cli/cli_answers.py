"""What the tools answer to what people do wrong, and whether the next step that they name leads anywhere."""

import os
import pty
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BIN, CliTest, pattern_bytes


class Verdicts(CliTest):
    """The exit code of several datasets, and of what cannot be judged."""

    def setUp(self):
        super().setUp()
        self.write("secret", b"0123456789abcdef" * 2)
        os.chmod(self.path("secret"), 0o600)
        for name in ("d/sealed", "d/one", "d/two", "d/three"):
            self.write(name, pattern_bytes(300000, seed=len(name)))
            self.age(name)
        self.check(0, "lzy-protect", "--key", "secret", "d/sealed")
        self.check(0, "lzy-protect", "d/one", "d/two", "d/three")

    def ruin(self, name, blocks):
        for block in range(blocks):
            self.flip(name, block * 65536 + 5)

    def test_a_dataset_without_its_key_does_not_hide_loss(self):
        self.ruin("d/one", 3)
        self.ruin("d/two", 3)
        done = self.check(2, "lzy-verify", "d")
        self.assertIn("1 dataset could not be judged: d/sealed", done.stderr)
        document = self.report(2, "lzy-verify", "d")
        self.assertEqual(document["unjudged"], ["d/sealed"])

    def test_the_gravest_verdict_counts(self):
        self.ruin("d/one", 1)
        self.check(1, "lzy-verify", "d")
        os.utime(self.path("d/two"))
        self.check(1, "lzy-verify", "d")
        self.check(0, "lzy-verify", "-q", "--repair", "d/one")
        self.check(4, "lzy-verify", "d/sealed", "d/one")
        self.check(3, "lzy-verify", "d/sealed")
        self.write("d/two", pattern_bytes(300000, seed=99))
        self.check(9, "lzy-verify", "d")

    def test_a_wrong_path_stays_a_wrong_path(self):
        self.ruin("d/one", 1)
        self.check(3, "lzy-verify", "d/one", "nowhere/at/all*")
        self.ruin("d/one", 3)
        self.ruin("d/three", 3)
        self.check(2, "lzy-verify", "d/three", "nowhere/at/all*")


class LostHashes(CliTest):
    """A sidecar that has lost its hashes says nothing about its data."""

    def test_intact_data_are_not_called_lost(self):
        self.write("c", pattern_bytes(300 * 65536 + 17))  # two pages of hashes
        self.age("c")
        self.check(0, "lzy-protect", "-q", "c")
        os.truncate(self.path(".LZY.c"), 5000)
        before = self.read("c")
        for words in (("lzy-verify",), ("lzy-verify", "--repair"), ("lzy-restore",), ("lzy-restore", "--salvage")):
            done = self.check(4, *words, "c")
            self.assertIn("cannot be checked", done.stdout)
            self.assertIn("lzy-protect c", done.stdout)
            self.assertNotIn("lost: ", done.stdout)
            self.assertNotIn("contradict", done.stdout + done.stderr)
        entry = self.report(4, "lzy-verify", "c")["datasets"][0]
        self.assertEqual([d for d in entry["damage"] if d["part"] == "data"], [])
        self.assertEqual(entry["state"], "unprotected")
        self.assertEqual(sum(range_["length"] for range_ in entry["unchecked"]), len(before))
        self.assertEqual(self.read("c"), before)
        self.check(0, "lzy-protect", "c")
        self.check(0, "lzy-verify", "c")


class Interrupts(CliTest):
    """SIGINT and SIGTERM end a tool with the code that shells give them, and nothing is left behind."""

    def start(self, *words):
        return subprocess.Popen([os.path.join(BIN, words[0]), *words[1:]], cwd=self.scratch, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env={k: v for k, v in os.environ.items() if not k.startswith("LZY_")})

    def wait_until_it_catches(self, tool):
        while tool.poll() is None:
            with open(f"/proc/{tool.pid}/status", encoding="ascii") as status:
                caught = next((line for line in status if line.startswith("SigCgt:")), "SigCgt: 0").split()[1]
            if int(caught, 16) & (1 << (signal.SIGTERM - 1)):
                return

    def test_the_exit_code_and_the_message_of_a_signal(self):
        with open(self.path("large"), "wb") as file:
            file.truncate(1 << 40)  # a hole: nothing to store, hours to read
        self.write("small", pattern_bytes(100000))
        for number, code, name in ((signal.SIGINT, 130, "SIGINT"), (signal.SIGTERM, 143, "SIGTERM")):
            tool = self.start("lzy-protect", "small", "large")
            self.wait_until_it_catches(tool)
            time.sleep(0.2)
            tool.send_signal(number)
            _, errors = tool.communicate(timeout=60)
            self.assertEqual(tool.returncode, code, errors)
            self.assertEqual(errors.count("\n"), 1, errors)
            self.assertIn(f"interrupted by {name}: ", errors)
            self.assertRegex(errors, "1 dataset finished, the last is small; large is not finished")
            self.assertIn("run the same command again", errors)
        self.assertEqual([n for n in os.listdir(self.scratch) if "new" in n or "tmp" in n], [])

    def test_at_random_moments_nothing_is_left(self):
        rng = random.Random(1)
        self.write("f", pattern_bytes(1 << 20))
        for i in range(int(os.environ.get("LZY_TEST_ROUNDS", "60"))):
            os.utime(self.path("f"))
            words = ("lzy-protect", "--force", "--parity", str(1 + i % 3), "f")
            tool = self.start(*words)
            time.sleep(rng.random() * 0.03)
            tool.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM)))
            tool.communicate(timeout=60)
            self.assertIn(tool.returncode, (0, 130, 143, -signal.SIGINT, -signal.SIGTERM))
            if tool.returncode >= 0:  # it had begun to catch them
                self.assertLessEqual(set(os.listdir(self.scratch)), {"f", ".LZY.f", ".cache", ".state"})


class DryRuns(CliTest):
    def setUp(self):
        super().setUp()
        for name in ("d/a", "d/b"):
            self.write(name, pattern_bytes(300000, seed=len(name) + ord(name[-1])))
            self.age(name)

    def image(self):
        """Every file with its bytes and times."""
        out = {}
        for folder, _, names in os.walk(self.path("d")):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    out[path] = (file.read(), os.stat(path).st_mtime_ns)
        return out

    def test_protect(self):
        before = self.image()
        done = self.check(0, "lzy-protect", "--dry-run", "d")
        self.assertEqual(done.stdout.count("would be protected"), 2)
        self.assertEqual(self.image(), before)
        self.check(0, "lzy-protect", "d")
        self.assertIn("protected already", self.check(0, "lzy-protect", "--dry-run", "d/a").stdout)
        self.write("d/a", pattern_bytes(1000))
        self.assertIn("would be committed again", self.check(0, "lzy-protect", "--dry-run", "d/a").stdout)

    def test_repair(self):
        self.check(0, "lzy-protect", "d")
        self.flip("d/a", 70000)
        before = self.image()
        done = self.check(1, "lzy-verify", "--repair", "--dry-run", "d")
        self.assertIn("would be repaired", done.stdout)
        self.assertEqual(self.image(), before)
        self.check(3, "lzy-verify", "--dry-run", "d")

    def test_prune(self):
        self.check(0, "lzy-protect", "d")
        os.remove(self.path("d/a"))
        before = self.image()
        done = self.check(0, "lzy-info", "--prune", "--dry-run", "d")
        self.assertIn("would be removed", done.stdout)
        self.assertEqual(self.image(), before)
        self.check(3, "lzy-info", "--dry-run", "d")
        self.check(0, "lzy-info", "--prune", "d")
        self.assertNotIn(".LZY.a", os.listdir(self.path("d")))


class Removal(CliTest):
    """lzy-protect --remove: sidecars go, data never do."""

    def setUp(self):
        super().setUp()
        for rank in range(4):
            self.write(f"s.{rank}", pattern_bytes(100000, seed=rank))
        self.write("a", pattern_bytes(300000))
        self.check(0, "lzy-protect", "a", "s.%r")
        self.before = {name: self.read(name) for name in os.listdir(self.scratch) if name.startswith(("a", "s."))}

    def sidecars(self):
        return sorted(name for name in os.listdir(self.scratch) if name.startswith(".LZY"))

    def test_it_lists_first_and_wants_yes(self):
        done = self.check(3, "lzy-protect", "--remove", "a")
        self.assertIn("would be removed: .LZY.a", done.stdout)
        self.assertIn("--yes", done.stderr)
        self.check(0, "lzy-protect", "--remove", "--dry-run", "a", "s.%r")
        self.assertEqual(len(self.sidecars()), 5)
        done = self.check(0, "lzy-protect", "--remove", "--yes", "a", "s.%r")
        self.assertIn("removed: .LZY.a", done.stdout)
        self.assertEqual(self.sidecars(), [])
        self.assertEqual({name: self.read(name) for name in self.before}, self.before)
        self.check(4, "lzy-verify", "a")

    def test_it_asks_on_a_terminal(self):
        for answer, left in (("n\n", 5), ("y\n", 4)):
            master, slave = pty.openpty()
            tool = subprocess.Popen([os.path.join(BIN, "lzy-protect"), "--remove", "a"], cwd=self.scratch, stdin=slave,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            os.write(master, answer.encode())
            _, errors = tool.communicate(timeout=60)
            self.assertIn("a: remove its protection", errors)
            self.assertEqual(tool.returncode, 0)
            self.assertEqual(len(self.sidecars()), left)
            os.close(master)
            os.close(slave)

    def test_remove_keeps_parity_that_can_rebuild_missing_data(self):
        os.remove(self.path("s.2"))
        done = self.check(1, "lzy-protect", "--remove", "--yes", "s.%r")
        self.assertIn("not removed", done.stdout)
        self.assertEqual(len(self.sidecars()), 5)
        self.check(0, "lzy-restore", "s.%r")
        os.remove(self.path("s.2"))
        self.check(0, "lzy-protect", "--remove", "--yes", "--force", "s.%r")
        self.assertEqual(self.sidecars(), [".LZY.a"])

    def test_parts_in_device_directories_go_too(self):
        self.write("p/f", pattern_bytes(300000))
        for d in range(4):
            os.makedirs(self.path(f"dev{d}"))
        dirs = ":".join(self.path(f"dev{d}") for d in range(4))
        self.check(0, "lzy-protect", "--device-dirs", dirs, "p/f")
        self.assertEqual([len(os.listdir(self.path(f"dev{d}"))) for d in range(4)], [1] * 4)
        self.check(0, "lzy-protect", "--remove", "--yes", "p/f")
        self.assertEqual([len(os.listdir(self.path(f"dev{d}"))) for d in range(4)], [0] * 4)
        self.assertEqual(os.listdir(self.path("p")), ["f"])

    def test_yes_alone_is_refused(self):
        self.check(3, "lzy-protect", "--yes", "a")


class NextSteps(CliTest):
    """Every command that a message advises is run in the state that printed it: the state gets better, or the advice another."""

    # From good to bad.
    GRAVITY = [0, 9, 1, 4, 2, 3, 6]

    def scene(self):
        self.write("f", pattern_bytes(300000))
        for rank in range(4):
            self.write(f"s.{rank}", pattern_bytes(100000, seed=rank))
        for name in ("f", "s.0", "s.1", "s.2", "s.3"):
            self.age(name)
        self.check(0, "lzy-protect", "-q", "f", "s.%r")
        self.replica = tempfile.mkdtemp(prefix="lzy-cli-replica-")
        self.addCleanup(shutil.rmtree, self.replica, ignore_errors=True)
        for name in ("f", "s.0", "s.1", "s.2", "s.3"):
            shutil.copy(self.path(name), self.replica)

    def rot(self):
        self.flip("f", 70000)

    def rot_beyond(self):
        for block in range(4):
            self.flip("f", block * 65536)

    def edit(self):
        with open(self.path("f"), "r+b") as file:
            file.write(b"edited")

    def lose_file(self):
        os.remove(self.path("f"))

    def lose_sidecar(self):
        os.remove(self.path(".LZY.f"))

    def ruin_sidecar(self):
        self.write(".LZY.f", b"x" * 50000)

    def empty_sidecar(self):
        self.write(".LZY.f", b"")

    def cut_sidecar(self):
        os.truncate(self.path(".LZY.f"), 6000)

    def block_sidecar(self):
        os.remove(self.path(".LZY.f"))
        os.mkdir(self.path(".LZY.f"))

    def lose_member(self):
        os.remove(self.path("s.2"))

    def lose_two_members(self):
        os.remove(self.path("s.2"))
        os.remove(self.path("s.1"))

    def lose_members_sidecar(self):
        os.remove(self.path(".LZY.s.2"))

    def lose_all_sidecars(self):
        for rank in range(4):
            os.remove(self.path(f".LZY.s.{rank}"))

    def rot_member(self):
        self.flip("s.1", 20000)

    def grow_set(self):
        self.write("s.4", pattern_bytes(5000))

    def lose_directory(self):
        for d in range(3):
            os.mkdir(self.path(f"dev{d}"))
        dirs = ":".join(self.path(f"dev{d}") for d in range(3))
        self.check(0, "lzy-protect", "-q", "--device-dirs", dirs, "f")
        shutil.rmtree(self.path("dev1"))

    def advised(self, text):
        """The commands that a text names, ready to be split."""
        return [command.strip() for command in re.findall(r"(lzy-(?:protect|verify|restore|info) [^;\n]+)", text)
                if not command.startswith("lzy-verify and")]

    def outcome(self, words):
        done = self.run_tool(*words)
        return done.returncode, done.stdout + done.stderr

    def follow(self, words, depth=4):
        """Runs what is advised, and what that advises; fails where it goes in circles."""
        code, text = self.outcome(words)
        steps = self.advised(text)
        if code == 0:
            return
        self.assertTrue(steps or "rename it" in text or "mount it or make it" in text, f"{words} ends with {code} and no advice:\n{text}")
        kept = tempfile.mkdtemp(prefix="lzy-cli-kept-")
        self.addCleanup(shutil.rmtree, kept, ignore_errors=True)
        state = os.path.join(kept, "state")
        shutil.copytree(self.scratch, state, symlinks=True)  # with the times
        for step in steps:
            next_words = shlex.split(step)
            # For this word, the user has to name something.
            next_words = [os.path.join(self.replica, next_words[-1]) if word == "REPLICA" else word for word in next_words]
            if "--remove" in next_words:
                next_words.insert(1, "--yes")  # a terminal would be asked
            next_code, next_text = self.outcome(next_words)
            after, after_text = self.outcome(words)
            better = self.GRAVITY.index(after) < self.GRAVITY.index(code) or next_code == 0
            self.assertTrue(better or step not in self.advised(next_text),
                            f"{words} advises {step!r}, which ends with {next_code} and advises itself:\n{next_text}")
            if not better and depth > 0:
                self.follow(next_words, depth - 1)
            for name in os.listdir(self.scratch):
                path = self.path(name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            shutil.copytree(state, self.scratch, symlinks=True, dirs_exist_ok=True)

    def test_every_state(self):
        states = [self.rot, self.rot_beyond, self.edit, self.lose_file, self.lose_sidecar, self.ruin_sidecar, self.empty_sidecar,
                  self.cut_sidecar, self.block_sidecar, self.lose_directory]
        of_sets = [self.lose_member, self.lose_two_members, self.lose_members_sidecar, self.lose_all_sidecars, self.rot_member,
                   self.grow_set]
        tools = (("lzy-verify",), ("lzy-info",), ("lzy-verify", "--repair"), ("lzy-restore",), ("lzy-restore", "--dry-run"),
                 ("lzy-restore", "--salvage"), ("lzy-protect",))
        for state in states + of_sets:
            path = "f" if state in states else "s.%r"
            for tool in tools:
                with self.subTest(state=state.__name__, tool=tool):
                    for name in os.listdir(self.scratch):
                        at = self.path(name)
                        shutil.rmtree(at) if os.path.isdir(at) else os.remove(at)
                    self.scene()
                    state()
                    self.follow([*tool, path])

    @unittest.skipIf(os.geteuid() != 0, "needs another user")
    def test_what_may_not_be_read(self):
        os.chmod(self.scratch, 0o755)
        os.makedirs(self.path("top/mid"))
        self.scene()
        os.chmod(self.path("f"), 0o600)
        os.chmod(self.path("top"), 0o700)
        for tool in ("lzy-verify", "lzy-info", "lzy-restore"):
            # Others may have no way into the build directory.
            program = shutil.copy(os.path.join(BIN, tool), self.path(f"for-all-{tool}"))
            os.chmod(program, 0o755)
            done = subprocess.run([program, "f"], cwd=self.scratch, user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 6)
            self.assertIn("you have no permission to read f", done.stdout + done.stderr)
            self.assertNotIn("lzy-verify", done.stdout)
            done = subprocess.run([program, "top/mid"], cwd=self.scratch, user=65534, group=65534,
                                  extra_groups=[], capture_output=True, text=True, timeout=60, check=False)
            self.assertIn("top/mid: ", done.stderr)


class Wording(CliTest):
    def setUp(self):
        super().setUp()
        self.write("a", pattern_bytes(300000))
        self.age("a")

    def test_a_report_that_cannot_be_written_is_refused_at_once(self):
        for words in (("lzy-protect", "--report", "no/such/r", "a"), ("lzy-run", "--report", "no/such/r", "--", "touch", "ran")):
            done = self.check(3, *words)
            self.assertIn("--report: 'no/such/r' is not accepted", done.stderr)
        self.assertEqual({"a", ".cache"} | set(os.listdir(self.scratch)), {"a", ".cache"})
        self.check(0, "lzy-protect", "--report", "r", "a")
        self.assertIn('"path":"a"', self.read("r").decode())

    def test_parity_0_says_that_nothing_can_be_repaired(self):
        self.assertIn("hashes only, nothing can be repaired", self.check(0, "lzy-protect", "--parity", "0", "a").stdout)
        self.assertIn("hashes only, nothing can be repaired", self.check(0, "lzy-info", "a").stdout)

    def test_unknown_options_are_told_alike_with_a_guess(self):
        for words in (("lzy-protect", "--partiy", "2", "a"), ("lzy-run", "--partiy", "2", "--", "true")):
            self.assertIn("--partiy: there is no such option; did you mean --parity?", self.check(3, *words).stderr)
        self.assertIn("did you mean LZY_PARITY?", self.check(3, "lzy-info", "a", env={"LZY_PARTIY": "2"}).stderr)
        self.assertNotIn("did you mean", self.check(3, "lzy-info", "--frobnicate", "a").stderr)
        self.assertIn("--parity: no value is given: a number from 0 to 254", self.check(3, "lzy-protect", "--parity").stderr)

    def test_lzy_run_takes_every_option_of_the_layer(self):
        self.check(0, "lzy-run", "--capture", "off", "--domain", "rack1", "--", "true")

    def test_sizes_are_spelled_one_way(self):
        self.write("b", pattern_bytes((2 << 20) + 3))
        text = self.check(0, "lzy-protect", "b").stdout + self.check(0, "lzy-info", "b").stdout
        self.assertNotRegex(text, r"\d\.0 ")
        self.write("tiny", b"x")
        self.check(0, "lzy-protect", "tiny")
        self.assertNotIn("%", self.check(0, "lzy-info", "tiny").stdout)

    def test_quiet_says_what_the_report_says(self):
        self.check(0, "lzy-protect", "a")
        for block in range(3):
            self.flip("a", block * 65536)
        self.assertIn("damaged beyond repair", self.check(2, "lzy-verify", "-q", "a").stderr)

    def test_log_tells_people_what_took_time(self):
        self.check(0, "lzy-protect", "a")
        self.assertNotIn("{", self.check(0, "lzy-verify", "--log", "debug", "a").stderr)

    def test_info_says_what_verify_says_where_metadata_suffice(self):
        self.check(0, "lzy-protect", "a")
        os.remove(self.path("a"))
        self.check(2, "lzy-verify", "a")
        self.check(2, "lzy-info", "a")


if __name__ == "__main__":
    unittest.main()
