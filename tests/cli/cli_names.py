"""Files under other names than at their commit, what runs left behind, names hard to print, and what to do next."""

import contextlib
import fcntl
import json
import os
import struct
import subprocess
import unittest

from harness import BIN, CliTest, pattern_bytes

SMALL = ("--block-size", "4K", "--stripe", "16K")


def lock(file):
    """Takes an OFD write lock, as a commit or a restore does."""
    fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK


class NamesTest(CliTest):
    def rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def protect(self, name, content, *options):
        self.write(name, content)
        self.age(name)
        self.check(0, "lzy-protect", *SMALL, *options, "--", name)

    def make_set(self, pattern, ranks, seed=0, parity=1):
        for rank in range(ranks):
            self.write(pattern.replace("%r", str(rank)), pattern_bytes(50000, seed=seed + rank))
        self.check(0, "lzy-protect", *SMALL, "--parity", str(parity), pattern)

    def paths(self, exit_code, *words):
        return [dataset["path"] for dataset in self.report(exit_code, *words)["datasets"]]


class Renamed(NamesTest):
    def test_directory_with_a_renamed_set_that_lost_a_member_has_no_phantom(self):
        for rank in range(4):
            self.write(f"q/old.{rank}", pattern_bytes(50000, seed=rank))
        self.check(0, "lzy-protect", "q/old.%r")
        for rank in range(4):
            os.rename(self.path(f"q/old.{rank}"), self.path(f"q/new.{rank}"))
        os.remove(self.path("q/new.2"))
        document = self.report(1, "lzy-verify", "q")
        self.assertEqual([dataset["path"] for dataset in document["datasets"]], ["q/new.%r"])
        self.check(0, "lzy-restore", "q")
        self.assertEqual(self.read("q/new.2"), pattern_bytes(50000, seed=2))
        self.assertEqual(len(self.report(0, "lzy-verify", "q")["datasets"]), 1)

    def test_rotated_checkpoint_is_verified_under_both_names(self):
        for name in ("d/ck", "d/ck.new"):
            self.protect(name, pattern_bytes(50000, seed=len(name)))
        self.rename("d/ck", "d/ck.old")
        self.rename("d/ck.new", "d/ck")
        self.assertEqual(self.paths(0, "lzy-verify", "d/ck.old"), ["d/ck.old"])
        self.assertEqual(self.paths(0, "lzy-verify", "d"), ["d/ck", "d/ck.old"])
        self.flip("d/ck.old", 5000)
        self.assertEqual(self.paths(1, "lzy-verify", "d"), ["d/ck", "d/ck.old"])
        self.check(0, "lzy-verify", "--repair", "d")
        self.assertEqual(self.read("d/ck.old"), pattern_bytes(50000, seed=len("d/ck")))
        self.check(0, "lzy-verify", "d")
        self.assertEqual(self.paths(0, "lzy-protect", "d"), ["d/ck", "d/ck.old"])
        self.assertEqual(sorted(os.listdir(self.path("d"))), [".LZY.ck", ".LZY.ck.old", "ck", "ck.old"])

    def test_rotated_sets(self):
        self.make_set("d/ck.%r", 3)
        self.make_set("d/new.%r", 4, seed=10)
        for rank in range(3):
            self.rename(f"d/ck.{rank}", f"d/old.{rank}")
        for rank in range(4):
            self.rename(f"d/new.{rank}", f"d/ck.{rank}")
        self.assertEqual(self.paths(0, "lzy-verify", "d"), ["d/ck.%r", "d/old.%r"])
        os.remove(self.path("d/old.1"))
        self.assertEqual(self.paths(1, "lzy-verify", "d/old.%r"), ["d/old.%r"])
        self.check(0, "lzy-restore", "d/old.%r")
        self.assertEqual(self.read("d/old.1"), pattern_bytes(50000, seed=1))
        self.assertEqual(self.paths(0, "lzy-verify", "d"), ["d/ck.%r", "d/old.%r"])

    def test_changed_and_then_renamed(self):
        for name in ("a", "b"):
            self.protect(name, pattern_bytes(50000, seed=ord(name)))
        with open(self.path("a"), "r+b") as file:  # as a crash may leave it
            file.write(b"torn" * 500)
        self.rename("a", "t")
        self.rename("b", "a")
        self.rename("t", "b")
        states = {"a": "intact", "b": "stale"}
        self.assertEqual({d["path"]: d["state"] for d in self.report(9, "lzy-verify", ".")["datasets"]}, states)
        self.check(0, "lzy-verify", "a")
        told = self.check(9, "lzy-verify", "b").stdout
        self.assertIn("to commit the change: lzy-protect b; to undo it: lzy-verify --repair --force b", told)
        self.assertIn("no orphaned sidecars", self.check(0, "lzy-info", "--prune", ".").stdout)
        self.check(0, "lzy-verify", "--repair", "--force", "b")
        self.assertEqual(self.read("b"), pattern_bytes(50000, seed=ord("a")))
        os.remove(self.path("b.replaced"))  # the edit that was undone
        # Its old name by now free: what was there is told to be here, whatever is asked.
        with open(self.path("b"), "ab") as file:
            file.write(b"more")
        self.rename("b", "c")
        done = self.check(9, "lzy-verify", "b")
        self.assertIn("'b' is gone: it was renamed to 'c'", done.stderr)
        self.assertIn("no orphaned sidecars", self.check(0, "lzy-info", "--prune", ".").stdout)
        # A file that gets the name: what is committed for it takes nothing of the other's away.
        self.write("b", b"new")
        self.check(4, "lzy-verify", "b")
        self.check(0, "lzy-protect", *SMALL, "b")
        self.assertEqual(self.paths(9, "lzy-verify", "."), ["a", "b", "c"])
        self.check(0, "lzy-protect", ".")
        self.check(0, "lzy-verify", ".")
        self.assertEqual(sorted(os.listdir(self.scratch)), [".LZY.a", ".LZY.b", ".LZY.c", "a", "b", "c"])

    def test_members_in_directories_of_their_own(self):
        for rank in range(3):
            self.write(f"node{rank}/state", pattern_bytes(50000, seed=rank))
        self.check(0, "lzy-protect", *SMALL, "node%r/state")
        for rank in range(3):
            self.rename(f"node{rank}/state", f"node{rank}/old")
        self.assertEqual(self.paths(0, "lzy-verify", "."), ["node%r/old"])
        with open(self.path("node1/old"), "r+b") as file:
            file.write(b"torn")
        self.assertEqual(self.paths(9, "lzy-verify", "."), ["node%r/old"])
        os.remove(self.path("node1/old"))
        self.check(0, "lzy-restore", "node%r/old")
        self.assertEqual(self.read("node1/old"), pattern_bytes(50000, seed=1))

    def test_renamed_onto_the_name_of_a_deleted_file(self):
        self.protect("e", pattern_bytes(50000))
        self.protect("dead", pattern_bytes(50000, seed=1))
        self.rename("e", "f")
        # As a crash of the first run that wrote f leaves it, when f is deleted then.
        self.write("first", b"x" * 5000)
        self.check(0, "lzy-protect", *SMALL, "first")
        os.remove(self.path("first"))
        self.rename(".LZY.first", ".LZY.f")
        self.write("e", pattern_bytes(50000, seed=2))
        self.check(0, "lzy-protect", *SMALL, "e")
        self.assertEqual(self.paths(0, "lzy-verify", "f"), ["f"])

    def test_a_copy_onto_the_old_name_of_a_file(self):
        for name in ("a", "b"):
            self.protect(name, pattern_bytes(50000, seed=ord(name)))
        self.rename("a", "t")
        self.rename("b", "a")
        self.rename("t", "b")
        self.write("a", self.read("b"))
        times = os.stat(self.path("b"))
        os.utime(self.path("a"), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual(self.paths(9, "lzy-verify", "."), ["a", "b"])
        self.assertIn("no orphaned sidecars", self.check(0, "lzy-info", "--prune", ".").stdout)

    def test_an_old_name_means_the_renamed_file(self):
        self.protect("g", pattern_bytes(50000))
        self.rename("g", "g2")
        done = self.check(0, "lzy-verify", "g")
        self.assertIn("'g' is gone: it was renamed to 'g2'", done.stderr)
        self.assertIn("g2: intact", done.stdout)
        dataset = self.report(0, "lzy-verify", "g")["datasets"][0]
        self.assertEqual((dataset["path"], dataset["warnings"]), ("g2", ["'g' is gone: it was renamed to 'g2'"]))
        self.make_set("s.%r", 3)
        for rank in range(3):
            self.rename(f"s.{rank}", f"t.{rank}")
        for path in ("s.%r", "s.1"):
            self.assertEqual(self.paths(0, "lzy-verify", path), ["t.%r"])

    def test_swapped_members_are_told_and_never_destroyed(self):
        for parity, same_times, options in ((1, False, ()), (1, False, ("--force",)), (1, True, ()), (2, True, ()), (2, True, ("--force",))):
            name = f"w{parity}{same_times}{len(options)}"
            put_back = parity == 2 and options
            for rank in range(4):
                self.write(f"{name}.{rank}", pattern_bytes(50000, seed=rank))
                moment = 10**18 if same_times else 10**18 + rank * 10**10
                os.utime(self.path(f"{name}.{rank}"), ns=(moment, moment))
            self.check(0, "lzy-protect", *SMALL, "--parity", str(parity), f"{name}.%r")
            self.rename(f"{name}.0", "t")
            self.rename(f"{name}.1", f"{name}.0")
            self.rename("t", f"{name}.1")
            # An edit also where the times do not tell so: each content is what another member committed.
            done = self.check(9, "lzy-verify", f"{name}.%r")
            self.assertIn(f"'{name}.0' is the file that was '{name}.1' at the last commit", done.stderr)
            self.assertNotIn("another set", done.stderr)
            self.run_tool("lzy-restore", *options, f"{name}.%r")
            contents = {self.read(f"{name}.{rank}") for rank in range(4)}
            self.assertEqual(contents, {pattern_bytes(50000, seed=rank) for rank in range(4)})
            if put_back:
                done = self.check(0, "lzy-verify", f"{name}.%r")
                self.assertEqual(done.stderr, "")
            else:
                self.assertEqual(self.read(f"{name}.0"), pattern_bytes(50000, seed=1))  # nothing was written
                self.rename(f"{name}.0", "t")
                self.rename(f"{name}.1", f"{name}.0")
                self.rename("t", f"{name}.1")
                self.check(0, "lzy-verify", f"{name}.%r")


class Leftovers(NamesTest):
    def setUp(self):
        super().setUp()
        self.make_set("d/s.%r", 4)
        self.rename("d/s.3", "kept")
        self.rename("d/.LZY.s.3", "kept.sidecar")
        for rank in range(3):
            os.remove(self.path(f"d/.LZY.s.{rank}"))
        self.make_set("d/s.%r", 3, seed=20)
        self.rename("kept", "d/s.3")
        self.rename("kept.sidecar", "d/.LZY.s.3")

    def test_a_set_and_its_directory_warn_of_a_leftover(self):
        for path in ("d/s.%r", "d/s.0"):
            for tool in ("lzy-verify", "lzy-info", "lzy-protect"):
                done = self.check(0, tool, path)
                self.assertEqual(done.stderr.count("'d/s.3' is left over"), 1, done.stderr)
                self.assertIn("older set of 4 files", done.stderr)
        for tool in ("lzy-verify", "lzy-info", "lzy-protect"):
            done = self.check(4, tool, "d")
            self.assertEqual(done.stderr.count("left over from a"), 1, done.stderr)
            self.assertIn("nothing protects it", done.stderr)

    def test_a_leftover_named_alone_is_unprotected(self):
        for tool in ("lzy-verify", "lzy-restore", "lzy-info", "lzy-protect"):
            done = self.check(4, tool, "d/s.3")
            self.assertIn("'d/s.3' is left over", done.stderr)
            self.assertEqual(done.stdout, "")
        document = self.report(4, "lzy-verify", "d/s.3")
        self.assertEqual((document["datasets"], document["errors"][0]["code"]), ([], "unprotected"))
        # A way out that it names.
        os.mkdir(self.path("away"))
        for name in ("s.3", ".LZY.s.3"):
            self.rename(f"d/{name}", f"away/{name}")
        self.check(0, "lzy-verify", "d")

    def test_a_deleted_leftover(self):
        """Only its sidecar knows what it was. Its directory says of it what its name says, until the sidecar is removed."""
        os.remove(self.path("d/s.3"))
        for path in ("d/s.3", "d"):
            self.assertIn("'d/s.3' no longer exists", self.check(4, "lzy-verify", path).stderr)
        self.assertEqual(self.check(0, "lzy-verify", "d/s.%r").stderr, "")
        self.assertIn("d/.LZY.s.3: orphan", self.check(0, "lzy-info", "--prune", "d").stdout)
        self.check(3, "lzy-verify", "d/s.3")
        self.assertEqual(self.check(0, "lzy-verify", "d").stderr, "")

    def test_file_that_never_was_a_member_is_told_too(self):
        self.write("d/s.4", b"new")
        self.assertIn("d/s.4: matches the set's pattern but is not protected", self.check(0, "lzy-verify", "d/s.%r").stderr)
        self.check(4, "lzy-verify", "d/s.4")


class Debris(NamesTest):
    def setUp(self):
        super().setUp()
        self.protect("d/a", pattern_bytes(50000))
        for name in ("d/.LZY-data.a", "d/.LZY-copy.a", "d/.LZY-journal.a", "d/.LZY-new.a", "d/.LZY-tmp.123.a"):
            self.write(name, b"half")
        os.utime(self.path("d/.LZY-tmp.123.a"), (0, 0))

    def test_listed_and_pruned(self):
        listed = self.check(0, "lzy-info", "d").stdout
        for name in (".LZY-data.a", ".LZY-copy.a", ".LZY-journal.a", ".LZY-new.a", ".LZY-tmp.123.a"):
            self.assertIn(f"d/{name}: orphan: left by a ", listed)
        self.assertIn("lzy-info --prune d", listed)
        self.assertEqual(len(os.listdir(self.path("d"))), 7)
        entries = self.report(0, "lzy-info", "--prune", "d")["orphans"]
        self.assertEqual([entry["removed"] for entry in entries], [True] * 5)
        self.assertEqual(sorted(os.listdir(self.path("d"))), [".LZY.a", "a"])
        self.check(0, "lzy-verify", "d")

    def test_what_is_in_use_is_kept(self):
        self.write("d/.LZY-tmp.123.a", b"just now")
        in_use = ("d/.LZY-data.a", "d/.LZY-copy.a", "d/.LZY.a")
        with contextlib.ExitStack() as stack:
            for name in in_use:
                lock(stack.enter_context(open(self.path(name), "r+b")))
            listed = self.check(0, "lzy-info", "d").stdout
            self.assertEqual(listed.count("it may be in use, and is kept until the process that has its lock ends"), 4, listed)
            self.assertRegex(listed, r"\.LZY-tmp\.123\.a: .*; it may be in use, and is kept for (59|60) more minutes")
            self.assertNotIn("--prune", listed)
            entries = self.report(0, "lzy-info", "--prune", "d")["orphans"]
            self.assertEqual([entry["removed"] for entry in entries], [False] * 5)
        self.assertEqual(len(os.listdir(self.path("d"))), 7)

    def test_sidecar_left_by_a_renamed_set(self):
        self.make_set("e/s.%r", 3)
        for rank in range(3):
            self.rename(f"e/s.{rank}", f"e/t.{rank}")
        self.write("e/new", self.read("e/t.1") + b"changed, and another file: nothing tells any more what it was")
        self.rename("e/new", "e/t.1")
        self.check(0, "lzy-protect", *SMALL, "e/t.%r")
        self.assertTrue(os.path.exists(self.path("e/.LZY.s.1")))
        self.report(0, "lzy-info", "--prune", "e")
        self.assertEqual(sorted(os.listdir(self.path("e"))), [".LZY.t.0", ".LZY.t.1", ".LZY.t.2", "t.0", "t.1", "t.2"])
        self.check(0, "lzy-verify", "e")

    def test_what_may_still_be_needed_is_never_pruned(self):
        self.make_set("e/s.%r", 4, parity=2)
        for rank in (1, 2):
            os.remove(self.path(f"e/s.{rank}"))
        self.run_tool("lzy-info", "--prune", "e")
        self.check(0, "lzy-restore", "e")
        for rank in range(4):
            self.assertEqual(self.read(f"e/s.{rank}"), pattern_bytes(50000, seed=rank))


class OddNames(NamesTest):
    NAME = "a\nb\x1b[2Jc\x07"

    def test_control_characters_are_escaped_wherever_names_are_printed(self):
        self.protect(self.NAME, pattern_bytes(50000))
        self.flip(self.NAME, 1)
        for words in (("lzy-verify", self.NAME), ("lzy-verify", "--quiet", self.NAME), ("lzy-info", self.NAME),
                      ("lzy-verify", "--log", "info", self.NAME), ("lzy-protect", self.NAME), ("lzy-verify", "."),
                      ("lzy-verify", self.NAME + "absent"), ("lzy-run", "--", self.NAME + "absent")):
            done = self.run_tool(*words)
            text = done.stdout + done.stderr
            self.assertIn(r"a\nb\x1b[2Jc\x07", text)
            self.assertTrue(all(c >= " " or c == "\n" for c in text), ascii(text))
            self.assertNotIn("a\nb", text)
        os.remove(self.path(self.NAME))
        self.assertIn(r".LZY.a\nb\x1b[2Jc\x07: orphan", self.run_tool("lzy-info", ".").stdout)

    def test_command_to_type_next_works_in_a_shell(self):
        name = self.NAME + "\\ it's"
        self.protect(name, pattern_bytes(50000))
        self.flip(name, 1)
        text = self.check(1, "lzy-verify", name).stdout
        command = next(line for line in text.splitlines() if "repair with: " in line).split("repair with: ")[1]
        subprocess.run(["bash", "-c", command], cwd=self.scratch, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "PATH": BIN + ":" + os.environ["PATH"]})
        self.assertEqual(self.read(name), pattern_bytes(50000))

    def test_json_is_valid_for_names_that_are_not_utf8(self):
        for name in (b"odd\xff\xfe\x80", b"c1\xc2\x9b2J"):
            path = os.path.join(os.fsencode(self.scratch), name)
            with open(path, "wb") as file:
                file.write(b"content")
            for words in (("lzy-protect", "--report", "log"), ("lzy-verify",), ("lzy-info",)):
                done = subprocess.run([os.path.join(BIN, words[0]), "--json", *words[1:], path], capture_output=True,
                                      cwd=self.scratch)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.check_schema(json.loads(done.stdout.decode("utf-8")))
            done = subprocess.run([os.path.join(BIN, "lzy-verify"), path], capture_output=True)
            self.assertNotIn(b"\xc2\x9b", done.stdout)
            for line in self.read("log").splitlines():
                json.loads(line.decode("utf-8"))
            os.remove(self.path("log"))


class Advice(NamesTest):
    def test_other_format(self):
        for name, at, field in (("newer", 12, b"\x09\x00"), ("foreign", 8, b"\x01\x02\x03\x04")):  # docs/format.md, 4
            self.protect(name, pattern_bytes(50000))
            sidecar = self.read(f".LZY.{name}")
            magic = b"\x89LZY\r\n\x1a\n"
            first, *copies = sidecar.split(magic)
            copies = [copy[:at - 8] + field + copy[at - 8 + len(field):] for copy in copies]
            self.write(f".LZY.{name}", magic.join([first, *copies]))
            self.assertEqual(self.report(4, "lzy-verify", name)["datasets"][0]["error"]["code"], "newer-format")
            text = self.check(4, "lzy-verify", name).stderr
            self.assertNotIn("protect it with", text)
            self.assertIn("use the version of lzy that wrote it", text)
            self.check(4, "lzy-protect", name)  # which is why
            way_out = f"rm .LZY.{name}; lzy-protect {name}"
            self.assertIn(way_out, text)
            os.remove(self.path(f".LZY.{name}"))
            self.check(0, "lzy-protect", name)

    def test_destroyed_sidecar_may_be_a_members(self):
        self.make_set("l/%r/s", 3)
        self.write("l/1/.LZY.s", b"rubbish" * 10000)
        done = self.check(4, "lzy-verify", "l/1/s")
        self.assertNotIn("protect it with", done.stderr)
        self.assertIn("If it is a member of a set, give the set's pattern", done.stderr)
        self.check(0, "lzy-restore", "l/%r/s")
        self.check(0, "lzy-verify", "l/1/s")

    def test_sidecars_of_a_whole_set_destroyed(self):
        self.make_set("s it.%r", 3)
        for rank in range(3):
            self.write(f".LZY.s it.{rank}", b"rubbish" * 10000)
        self.assertIn("lzy-protect 's it.%r'", self.check(4, "lzy-verify", "s it.%r").stderr)

    def test_name_too_long(self):
        name = "n" * 250
        self.write(name, b"content")
        for tool in ("lzy-verify", "lzy-info", "lzy-restore"):
            done = self.check(4, tool, name)
            self.assertIn("not protected", done.stderr)
            self.assertIn("the name has 250 bytes", done.stderr)
            self.assertIn("rename it", done.stderr)
            self.assertNotIn("lzy-protect", done.stderr)
        self.check(3, "lzy-protect", name)

    def test_info_lists_what_is_missing(self):
        self.make_set("s.%r", 4)
        os.remove(self.path("s.2"))
        os.remove(self.path(".LZY.s.3"))
        # Rows of the missing member that have their parity in the missing sidecar are lost.
        dataset = self.report(2, "lzy-info", "s.%r")["datasets"][0]
        found = {(entry["path"], entry["device"], entry["part"], entry["length"], entry["cause"])
                 for entry in dataset["damage"]}
        self.assertEqual(found, {("s.2", 2, "data", 50000, "missing"), (".LZY.s.3", 3, "metadata", 0, "missing")})
        text = self.check(2, "lzy-info", "s.%r").stdout
        self.check(2, "lzy-verify", "s.%r")
        self.assertIn("s.2: data, offset 0, length 50000, device 2: missing\n", text)
        self.assertIn("to check the data: lzy-verify s.%r", text)

    def test_after_salvage_nobody_is_told_to_salvage(self):
        self.make_set("s.%r", 4)
        for rank in (1, 2):
            os.remove(self.path(f"s.{rank}"))
        self.assertIn("lzy-restore --salvage", self.check(2, "lzy-restore", "s.%r").stdout)
        text = self.run_tool("lzy-restore", "--salvage", "s.%r").stdout
        self.assertIn("what could be recovered was written", text)
        self.assertNotIn("--salvage", text)

    def test_unknown_option_is_named_before_a_missing_path(self):
        for tool in ("lzy-protect", "lzy-verify", "lzy-restore", "lzy-info"):
            document = self.report(3, tool, "--bogus")
            self.assertIn("--bogus", document["errors"][0]["message"])
            self.assertIn("PATH is required", self.check(3, tool).stderr)

    def test_read_only_file_system(self):
        self.protect("d/a", pattern_bytes(50000))
        self.protect("d/intact", pattern_bytes(50000))
        self.flip("d/a", 1)
        mount = f"mount --bind {self.path('d')} {self.path('d')} && mount -o remount,ro,bind {self.path('d')}"
        if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode != 0:
            self.skipTest("no mount namespaces here")
        for words in ("lzy-verify --repair d/a", "lzy-protect d/a", "lzy-restore d/a"):
            done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mount} && {BIN}/{words}"], cwd=self.scratch,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 6, done)
            self.assertIn("Read-only file system", done.stderr)
            self.assertIn("d/a is on a file system that is mounted read-only. lzy-verify and lzy-info", done.stdout + done.stderr)
        for words in ("lzy-verify --repair d/intact", "lzy-restore d/intact", "lzy-scrub --repair d/intact"):
            done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mount} && {BIN}/{words}"], cwd=self.scratch,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)


if __name__ == "__main__":
    unittest.main()
