"""lzy-copy between machines. The other machine is this one, with another home directory (other_machine.py in place of ssh)."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import time
import unittest

from cli_copy import MIB, SMALL, CopyCase
from harness import BIN, pattern_bytes

OTHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "other_machine.py")


class MachinesCase(CopyCase):
    """The home directory of the other machine is far/."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("far"))

    def rsh(self, *options):
        return shlex.join([sys.executable, "-B", OTHER, "--home", self.path("far"), "--bin", BIN, *options])

    def words(self, *words, rsh=()):
        return ["lzy-copy", "--rsh", self.rsh(*rsh), *words]

    def copy(self, exit_code, *words, rsh=()):
        return self.check(exit_code, *self.words(*words, rsh=rsh))

    def copy_report(self, exit_code, *words, rsh=()):
        return self.report(exit_code, *self.words(*words, rsh=rsh))

    def nothing_is_left(self, directory):
        left = [name for _, _, names in os.walk(self.path(directory)) for name in names if name.startswith(".LZY-")]
        self.assertEqual(left, [])


class BothWays(MachinesCase):
    def test_one_file(self):
        content = pattern_bytes(3 * MIB + 5)
        self.protect("far/f", content)
        os.chmod(self.path("far/f"), 0o751)
        said = self.copy(0, "h:f", "g").stdout
        self.assertRegex(said, r"^copied 1 file, 3 MiB, in .*; read back from the device\n  1 file compared with committed hashes\n"
                               r"  1 file protected, 1 with the root of the source\n$")
        self.copy(0, "g", "me@h:back")
        for name in ("g", "far/back"):
            self.assertEqual(self.read(name), content)
            before, after = os.stat(self.path("far/f")), os.stat(self.path(name))
            self.assertEqual((after.st_mtime_ns, stat.S_IMODE(after.st_mode)), (before.st_mtime_ns, stat.S_IMODE(before.st_mode)))
            self.check(0, "lzy-verify", name)
        self.nothing_is_left(".")

    def test_the_report(self):
        self.protect("far/f", pattern_bytes(100000))
        document = self.copy_report(0, "h:f", "g")
        self.assertEqual(document["copies"][0]["from"], "h:./f")
        self.assertEqual(document["copies"][0]["to"], "g")
        self.assertTrue(document["copies"][0]["same_root"])
        link = document["link"]
        self.assertEqual((link["host"], link["end"], link["streams"], link["damaged_on_the_way"]), ("h", "source", 1, 0))
        self.assertEqual(self.copy_report(0, "g", "h:/" + self.path("far/x"))["link"]["end"], "destination")

    def test_names(self):
        """Names that a shell would change, and a program there that is not in PATH."""
        for name in ("a b", "$(touch x)", "it's", "star*", "new\nline", "-n", "c:d", "~home"):
            content = name.encode() * 100
            self.write("far/d/" + name, content)
            self.copy(0, "h:d/" + name, "got")
            self.assertEqual(self.read("got"), content)
            self.copy(0, "got", "h:e " + name)
            self.assertEqual(self.read("far/e " + name), content)
        self.assertFalse(os.path.exists(self.path("far/x")))
        os.makedirs(self.path("far/other place"))
        os.symlink(os.path.join(BIN, "lzy-copy"), self.path("far/other place/it"))
        for program in (self.path("far/other place/it"), "~/other place/it"):
            self.check(0, "lzy-copy", "--rsh", f"{sys.executable} -B {OTHER} --home {self.path('far')} --bin /none", "--remote-command", program,
                       "h:d/-n", "got")
            self.assertEqual(self.read("got"), b"-n" * 100)

    def test_home(self):
        self.write("f", b"content")
        self.copy(0, "f", "h:")
        self.copy(0, "f", "h:~/g")
        self.copy(0, "f", "h:~")
        self.assertEqual((self.read("far/f"), self.read("far/g")), (b"content", b"content"))
        self.assertIn("home directories of other users are not known here", self.copy(3, "f", "h:~root/g").stderr)

    def test_trees(self):
        for name, size in (("one", 5), ("sub/two", 3 * MIB), ("sub/deep/three", 70000), ("empty", 0)):
            self.write("far/t/" + name, pattern_bytes(size))
        os.symlink("one", self.path("far/t/link"))
        os.link(self.path("far/t/one"), self.path("far/t/sub/again"))
        os.chmod(self.path("far/t/sub"), 0o700)
        os.utime(self.path("far/t/sub"), (10**9, 10**9))
        self.copy(0, "h:t", "u")
        self.copy(0, "u", "h:v")
        for copy in ("u", "far/v"):
            for name in ("one", "sub/two", "sub/deep/three", "empty"):
                self.assertEqual(self.read(f"{copy}/{name}"), self.read("far/t/" + name))
            self.assertEqual(os.readlink(self.path(copy + "/link")), "one")
            self.assertTrue(os.path.samefile(self.path(copy + "/one"), self.path(copy + "/sub/again")))
            self.assertEqual(os.stat(self.path(copy + "/sub")).st_mtime, 10**9)
            self.check(0, "lzy-verify", copy)
        self.assertIn("to go on with an earlier copy, add --resume", self.copy(3, "h:t", "u").stderr)
        self.assertIn("4 files there already", self.copy(0, "--resume", "h:t", "u").stdout)
        os.makedirs(self.path("w"))
        self.copy(0, "h:t", "h:v/one", "w/")
        self.assertEqual(sorted(os.listdir(self.path("w"))), sorted([".LZY.one", "one", "t"]))
        self.assertIn("h:./t/one -> x/one", self.copy(0, "--dry-run", "h:t", "x").stdout)
        self.assertFalse(os.path.exists(self.path("x")))

    def test_sets(self):
        for rank in range(3):
            self.write(f"far/ck.{rank}", pattern_bytes(200000 + rank, rank))
            self.age(f"far/ck.{rank}")
        self.check(0, "lzy-protect", *SMALL, self.path("far/ck.%r"))
        document = self.copy_report(0, "h:ck.%r", "near.%r")
        self.assertEqual((document["set"]["members"], document["set"]["same_root"]), (3, True))
        document = self.copy_report(0, "near.%r", "h:new/%r/ck")
        self.assertEqual((document["set"]["members"], document["set"]["same_root"]), (3, True))
        for rank in range(3):
            self.assertEqual(self.read(f"far/new/{rank}/ck"), self.read(f"far/ck.{rank}"))
        self.check(0, "lzy-verify", "near.%r")
        self.check(0, "lzy-verify", "far/new/%r/ck")

    def test_a_set_with_the_same_path_there(self):
        """The members here are not those of the other machine."""
        for rank in range(2):
            self.write(f"far/ck.{rank}", pattern_bytes(100000, rank))
            self.write(f"ck.{rank}", b"other")
        self.copy(0, "h:ck.%r", "ck.%r")
        for rank in range(2):
            self.assertEqual(self.read(f"ck.{rank}"), pattern_bytes(100000, rank))

    def test_local_names_with_a_colon(self):
        """A file that is here, a path with a slash before the colon: not another machine."""
        log = self.path("log")
        self.write("a:b", b"here")
        self.write("set:0", b"0")
        self.write("set:1", b"1")
        os.makedirs(self.path("d"))
        self.copy(0, "a:b", "d/a:c", rsh=("--log", log))
        self.copy(0, "set:%r", "./copy:%r", rsh=("--log", log))
        self.copy(0, "./a:b", "./e:f", rsh=("--log", log))
        self.assertEqual((self.read("d/a:c"), self.read("e:f"), self.read("copy:0")), (b"here", b"here", b"0"))
        self.assertFalse(os.path.exists(log))
        self.copy(0, "a:b", "a:c", rsh=("--log", log))
        self.assertEqual(self.read("far/c"), b"here")
        with open(log) as lines:
            self.assertEqual(lines.read(), "a lzy-copy --serve\n")


class Damage(MachinesCase):
    def test_rot_is_healed_on_the_way(self):
        content = pattern_bytes(300000)
        self.protect("far/f", content)
        self.flip("far/f", 100000)
        rotten = self.read("far/f")
        said = self.copy(0, "h:f", "g").stdout
        self.assertIn("g: 4 KiB damaged in h:./f, and rebuilt in the copy\n  repair the source on h with: lzy-verify --repair ./f\n", said)
        self.assertEqual((self.read("g"), self.read("far/f")), (content, rotten))
        self.protect("s/f", content)
        self.flip("s/f", 100000)
        self.assertEqual(self.copy_report(0, "s/f", "h:g")["copied"]["healed"], 4096)
        self.assertEqual(self.read("far/g"), content)

    def test_beyond_repair_and_salvage(self):
        content = pattern_bytes(300000)
        for name, there in (("far/f", "h:f"), ("s/f", "s/f")):
            self.protect(name, content)
            for offset in range(0, 16384 * 3, 16384):
                self.flip(name, offset)
            other = "g" if there == "h:f" else "h:g"
            self.assertIn("are damaged, and cannot be rebuilt", self.copy(2, there, other).stderr)
            document = self.copy_report(2, "--salvage", there, other)
            self.assertGreater(document["copied"]["lost"], 0)
            copy, rotten = self.read("g" if other == "g" else "far/g"), self.read(name)
            for lost in document["copies"][0]["lost"]:
                self.assertEqual(copy[lost["offset"]:lost["offset"] + lost["length"]], rotten[lost["offset"]:lost["offset"] + lost["length"]])

    def test_sources_that_were_edited(self):
        self.protect("far/f", pattern_bytes(300000))
        with open(self.path("far/f"), "r+b") as file:
            file.write(b"edited")
        self.assertIn("h:./f: ", self.copy(9, "h:f", "g").stderr)
        self.assertFalse(os.path.exists(self.path("g")))

    def test_bytes_damaged_on_the_way(self):
        """Found by hashes, and sent again: of a header, of data, in both directions."""
        content = pattern_bytes(9 * MIB)
        self.write("far/f", content)
        flips = [f"--flip={at}" for at in (5000, MIB + 77, 2 * MIB, 4 * MIB + 9, 8 * MIB)]
        document = self.copy_report(0, "--streams", "1", "h:f", "g", rsh=flips)
        self.assertEqual(self.read("g"), content)
        self.assertGreaterEqual(document["link"]["damaged_on_the_way"], 3 * 256 * 1024)
        self.assertLessEqual(document["link"]["damaged_on_the_way"], 6 * 256 * 1024)
        flips = [f"--flip-to={at}" for at in (MIB + 77, 3 * MIB, 6 * MIB + 9)]
        document = self.copy_report(0, "--streams", "1", "g", "h:back", rsh=flips)
        self.assertEqual(self.read("far/back"), content)
        self.assertGreater(document["link"]["damaged_on_the_way"], 0)

    def test_a_connection_that_damages_everything(self):
        self.write("far/f", pattern_bytes(3 * MIB))
        done = self.copy(6, "h:f", "g", rsh=[f"--flip={at}" for at in range(1000, 200000, 50)])
        self.assertIn("lzy-copy: h: the connection damages", done.stderr)
        self.assertFalse(os.path.exists(self.path("g")))

    def test_full_disk_there(self):
        self.write("f", pattern_bytes(3 * MIB))
        done = self.copy(5, "f", "h:g", rsh=("--most", str(2 * MIB)))
        self.assertRegex(done.stderr, r"lzy-copy: h:/\S+g: .*File too large")
        self.assertEqual(os.listdir(self.path("far")), [])

    def test_no_permission_there(self):
        self.write("f", b"content")
        done = self.copy(5, "f", "h:/proc/none")
        self.assertIn("h:/proc/", done.stderr)
        self.assertIn("neither a file nor a directory", self.copy(6, "h:/dev/null", "g").stderr)


class Refused(MachinesCase):
    def test_usage(self):
        self.write("f", b"f")
        for words, text in ((("h:f", "h:g"), "both ends are on other machines"), (("h:f", "f", "d/"), "all sources must be on one machine"),
                            (("--streams", "0", "h:f", "g"), "--streams: '0' is not accepted"), (("h:none", "g"), "h:./none: there is no such file"),
                            (("f", "h:none/g"), "h:./none/g: its directory does not exist"), (("h:.", "none/g"), "none/g: its directory does not exist"),
                            (("-n:f", "g"), "there is no such option"), (("--", "-n:f", "g"), "-n: is no name of a host")):
            with self.subTest(words=words):
                self.assertIn(text, self.copy(3, *words).stderr)
        self.assertIn("a quote is not closed", self.check(3, "lzy-copy", "--rsh", "ssh 'x", "h:f", "g").stderr)
        self.assertIn("no-such-program: cannot be started", self.check(3, "lzy-copy", "--rsh", "no-such-program -x", "h:f", "g").stderr)

    def fake(self, script):
        with open(self.path("fake"), "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(self.path("fake"), 0o755)
        return self.check(6, "lzy-copy", "--rsh", self.path("fake"), "h:f", "g").stderr

    def test_no_answer(self):
        """What ssh printed stays visible."""
        said = self.fake("echo 'ssh: Could not resolve hostname h' >&2; exit 255\n")
        self.assertEqual(said, "ssh: Could not resolve hostname h\nlzy-copy: h: there is no connection: fake ended with exit code 255\n")
        self.assertIn("lzy-copy is not installed on h, or not in the PATH", self.fake("exit 127\n"))
        self.assertIn("install one version", self.fake("echo 'no such option' >&2; exit 3\n"))
        self.assertIn("h: lzy-copy did not answer: fake ended with exit code 1", self.fake("exit 1\n"))
        said = self.fake("echo 'Welcome to h'; exec cat\n")
        self.assertIn("the answer does not come from lzy-copy, but is 'Welcome to h'", said)


class Trouble(MachinesCase):
    def test_a_connection_that_ends(self):
        """The message names the machine. What was proven is kept, and resumed."""
        content = pattern_bytes(80 * MIB)
        self.write("far/f", content)
        done = self.copy(6, "--streams", "1", "h:f", "g", rsh=("--cut", str(70 * MIB)))
        self.assertIn("h: the connection ended in the middle of the work", done.stderr)
        self.assertIn("add --resume to the same command", done.stderr)
        document = self.copy_report(0, "--resume", "h:f", "g")
        self.assertGreaterEqual(document["copied"]["resumed"], 16 * MIB)
        self.assertEqual(self.read("g"), content)
        self.nothing_is_left(".")
        done = self.copy(6, "--streams", "1", "g", "h:back", rsh=("--cut-to", str(70 * MIB)))
        self.assertIn("h: the connection ended in the middle of the work", done.stderr)
        self.assertIn("add --resume to the same command", done.stderr)
        document = self.copy_report(0, "--resume", "g", "h:back")
        self.assertGreaterEqual(document["copied"]["resumed"], 16 * MIB)
        self.assertEqual(self.read("far/back"), content)
        self.nothing_is_left(".")

    def processes(self):
        """Of lzy-copy, in this scratch directory."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as words:
                    if b"lzy-copy" in words.read() and os.readlink(f"/proc/{pid}/cwd").startswith(self.scratch):
                        found.append(pid)
            except OSError:
                pass
        return found

    def test_interrupt(self):
        """As at a terminal, the signal goes to all processes. Both ends stop in order."""
        for source, copy, there in (("far/f", "g", ("h:f", "g")), ("f", "far/g", ("f", "h:g"))):
            self.write(source, pattern_bytes(100 * MIB))
            environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
            process = subprocess.Popen([os.path.join(BIN, "lzy-copy"), *self.words("--limit", "20M", *there)[1:]], cwd=self.scratch, env=environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.addCleanup(process.kill)
            directory, name = os.path.split(copy)
            self.wait_for(os.path.join(directory, ".LZY-journal." + name), 44 + 36 * 256)
            os.killpg(process.pid, signal.SIGINT)
            said, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors)
            self.assertIn("interrupted by SIGINT", errors)
            self.assertFalse(os.path.exists(self.path(copy)))
            end = time.monotonic() + 20
            while self.processes() and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(self.processes(), [])
            self.assertGreater(self.copy_report(0, "--resume", *there)["copied"]["resumed"], 0)
            self.assertEqual(self.read(copy), self.read(source))

    def test_a_host_that_hangs(self):
        """Ctrl-C ends lzy-copy, although the other end does nothing any more."""
        self.write("far/f", pattern_bytes(100 * MIB))
        process = self.start(*self.words("--limit", "20M", "h:f", "g")[1:])
        self.wait_for(".LZY-journal.g", 44 + 36 * 256)
        stopped = [int(pid) for pid in self.processes() if os.readlink(f"/proc/{pid}/cwd") == self.path("far")]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=60)
        finally:
            for pid in stopped:
                if os.path.exists(f"/proc/{pid}"):
                    os.kill(pid, signal.SIGCONT)
        errors = process.communicate(timeout=60)[1]
        self.assertIn(process.returncode, (6, 130), errors)
        self.assertIn("h: did not answer for 10 seconds after the work was stopped", errors)

    def test_interrupt_before_the_host_answers(self):
        """The command in place of ssh ignores Ctrl-C, and ends with lzy-copy."""
        with open(self.path("silent"), "w") as file:
            file.write("#!/bin/sh\necho $$ > pid.new; mv pid.new pid; exec sleep 1000\n")
        os.chmod(self.path("silent"), 0o755)
        process = self.start("--rsh", self.path("silent"), "h:f", "g")
        self.wait_for("pid", 1)
        pid = int(self.read("pid"))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        end = time.monotonic() + 20
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_the_user_s_end_is_killed(self):
        """Then the other end goes, too."""
        self.write("f", pattern_bytes(100 * MIB))
        process = self.start(*self.words("--limit", "30M", "f", "h:g")[1:])
        self.wait_for("far/.LZY-journal.g", 44 + 36 * 256)
        process.kill()
        end = time.monotonic() + 20
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [])
        self.assertFalse(os.path.exists(self.path("far/g")))

    def test_a_source_that_is_edited_meanwhile(self):
        for source, there, copy in (("far/f", ("h:f", "g"), ".LZY-copy.g"), ("f", ("f", "h:g"), "far/.LZY-copy.g")):
            self.write(source, pattern_bytes(12 * MIB))
            process = self.start(*self.words("--limit", "6M", *there)[1:])
            self.wait_for(copy, 12 * MIB)
            with open(self.path(source), "r+b") as file:
                file.write(b"edit")
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 9, errors)
            self.assertIn("f: somebody changed it while it was being copied", errors)
        self.assertFalse(os.path.exists(self.path("g")) or os.path.exists(self.path("far/g")))

    def test_streams(self):
        log = self.path("log")
        content = pattern_bytes(64 * MIB)
        self.write("far/f", content)
        for there, copy in ((("h:f", "g"), "g"), (("g", "h:back"), "far/back")):
            document = self.copy_report(0, "--streams", "4", "--limit", "20M", *there, rsh=("--log", log))
            self.assertIn(document["link"]["streams"], (2, 3, 4))  # a busy machine starts some of them too late
            self.assertEqual(self.read(copy), content)
        with open(log) as lines:
            self.assertIn(lines.read().count("lzy-copy --serve"), range(4, 9))


class UnderMpi(MachinesCase):
    def test_refused(self):
        self.write("f", b"f")
        self.assertIn("with mpiexec, paths on other machines are not accepted", self.check(3, *self.words("f", "h:g"), ranks=2).stderr)


if __name__ == "__main__":
    unittest.main()
