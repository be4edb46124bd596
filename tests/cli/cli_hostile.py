"""Tools that root runs in a directory whose owner plants what he likes: nothing outside of it changes, whatever he does."""

import ctypes
import os
import shutil
import signal
import socket
import stat
import subprocess
import unittest

from harness import CliTest, pattern_bytes

FORGE = os.environ["TEST_LZY_FORGE"]
SMALL = ("--block-size", "4K", "--stripe", "16K")
STRANGER = 65534  # who owns the directory: nobody
VICTIM = 12345    # somebody else
RANKS = 4

# What does something, and what only looks.
CHANGING = (("lzy-protect",), ("lzy-protect", "--force"), ("lzy-verify", "--repair"), ("lzy-verify", "--repair", "--force"),
            ("lzy-restore",), ("lzy-restore", "--salvage", "--force"), ("lzy-scrub", "--repair"))
LOOKING = (("lzy-verify",), ("lzy-verify", "--from-disk"), ("lzy-info",), ("lzy-info", "--map"), ("lzy-restore", "--dry-run"), ("lzy-scrub",))

needs_root = unittest.skipUnless(os.geteuid() == 0, "only root has something to lose here, and may make files of others")


class Hostile(CliTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.scratch, 0o755)
        self.write("outside/secret", pattern_bytes(30000, seed=99))
        self.write("outside/f", pattern_bytes(30000, seed=98))
        self.check(0, "lzy-protect", *SMALL, "outside/f")
        self.flip("outside/f", 5000)  # as if it called for repair
        for name in ("secret", "f", ".LZY.f"):
            os.chmod(self.path(f"outside/{name}"), 0o600)
            os.utime(self.path(f"outside/{name}"), ns=(10**18, 10**18))
        os.makedirs(self.path("u"))
        self.own("u")

    def own(self, *names):
        if os.geteuid() == 0:
            for name in names:
                os.chown(self.path(name), STRANGER, STRANGER, follow_symlinks=False)

    def tell(self, directory="outside"):
        """All there is to know about the files outside (but when they were read last)."""
        told = {}
        for folder, folders, names in os.walk(self.path(directory)):
            for name in [".", *folders, *names]:
                path = os.path.join(folder, name)
                about = os.lstat(path)
                told[path] = (about.st_mode, about.st_uid, about.st_gid, about.st_size, about.st_mtime_ns, about.st_nlink)
                if stat.S_ISREG(about.st_mode):
                    with open(path, "rb") as file:
                        told[path] += (file.read(),)
        return told

    def fresh(self):
        """A directory of the stranger's with a protected file and a protected set."""
        shutil.rmtree(self.path("u"))
        os.makedirs(self.path("u"))
        for rank in range(RANKS):
            self.write(f"u/s.{rank}", pattern_bytes(20000, seed=rank))
        self.write("u/f", pattern_bytes(30000))
        self.own("u", "u/f", *(f"u/s.{rank}" for rank in range(RANKS)))
        self.check(0, "lzy-protect", *SMALL, "u/f", "u/s.%r")

    def forge(self, sidecar, **fields):
        words = [f"{field}={value.hex() if isinstance(value, bytes) else value}" for field, value in fields.items()]
        subprocess.run([FORGE, self.path(sidecar), *words], check=True, timeout=60)

    def tool(self, *words):
        done = self.run_tool(*words, env={"LZY_TIMEOUT": "1"})
        said = done.stdout + done.stderr
        self.assertIn(done.returncode, (0, 1, 2, 3, 4, 5, 6, 9), f"{words}: {said}")
        self.assertTrue(said, words)
        self.assertNotRegex(said, r"[\x00-\x08\x0b-\x1f\x7f]", words)
        return done

    def plant(self, kind, name):
        path = self.path(name)
        if os.path.lexists(path):
            os.remove(path)
        if kind == "link":
            os.symlink(self.path("outside/secret"), path)
        elif kind == "dangling":
            os.symlink(self.path("outside/new"), path)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            os.mkdir(path)
        elif kind == "socket":
            here = os.getcwd()
            os.chdir(os.path.dirname(path))  # addresses are short
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(os.path.basename(path))
            os.chdir(here)
        elif kind == "device":
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        self.own(name)


KINDS = ("link", "dangling", "fifo", "directory", "socket", "device")


@needs_root
class PlantedLinks(Hostile):
    def each(self, target, *names):
        """Plants each kind of thing under each name, then has each tool go there: outside nothing changes, nothing hangs."""
        before = self.tell()
        for name in names:
            for kind in KINDS:
                with self.subTest(name=name, kind=kind):
                    self.fresh()
                    if target == "u/f" and "data" in name:
                        os.remove(self.path("u/f"))  # so that it is restored
                    for words in (*LOOKING, *CHANGING):
                        self.plant(kind, name) if not os.path.isdir(self.path(name)) else None
                        self.tool(*words, target)
                        self.assertEqual(self.tell(), before, words)
                    self.tool("lzy-info", "u")
                    self.tool("lzy-info", "--prune", "u")
                    self.tool("lzy-verify", "u") if kind != "directory" else None
                    self.assertEqual(self.tell(), before)

    def test_copies_into_the_directory(self):
        """Whatever is planted under the names that a copy uses, it goes nowhere else."""
        content = pattern_bytes(20 << 20)
        self.write("mine/f", content)
        before = self.tell()
        for name in ("u/f", "u/.LZY.f", "u/.LZY-copy.f", "u/.LZY-journal.f", "u/.LZY-tmp.0.f"):
            for kind in KINDS:
                for words in (("mine/f", "u/f"), ("mine/f", "u"), ("--resume", "mine", "u")):
                    with self.subTest(name=name, kind=kind, words=words):
                        shutil.rmtree(self.path("u"))
                        os.makedirs(self.path("u"))
                        self.own("u")
                        self.plant(kind, name)
                        done = self.tool("lzy-copy", *words)
                        self.assertEqual(self.tell(), before)
                        if done.returncode == 0 and os.path.isfile(self.path("u/f")):
                            self.assertEqual(self.read("u/f"), content)

    def test_copies_out_of_the_directory(self):
        before = self.tell()
        for kind in KINDS:
            self.fresh()
            self.plant(kind, "u/f")
            self.plant(kind, "u/.LZY.s.1")
            shutil.rmtree(self.path("copy"), ignore_errors=True)
            self.tool("lzy-copy", "u", "copy")
            self.assertEqual(self.tell(), before)
            for folder, _, names in os.walk(self.path("copy")):
                for name in names:
                    path = os.path.join(folder, name)
                    if not os.path.islink(path):
                        with open(path, "rb") as file:
                            self.assertNotIn(pattern_bytes(30000, seed=99)[:512], file.read())
            if kind == "link":
                self.assertIn(f"of user {STRANGER} to a file of user 0", self.check(6, "lzy-copy", "u/f", "x").stderr)

    def test_a_data_file(self):
        self.each("u/f", "u/f")

    def test_a_sidecar(self):
        self.each("u/f", "u/.LZY.f")

    def test_files_that_are_built_aside(self):
        self.each("u/f", "u/.LZY-new.f", "u/.LZY-data.f", "u/.LZY-tmp.lock")

    def test_a_member(self):
        self.each("u/s.%r", "u/s.2")

    def test_a_member_that_is_named(self):
        self.each("u/s.2", "u/s.2")

    def test_sidecars_of_a_member(self):
        self.each("u/s.%r", "u/.LZY.s.2", "u/.LZY-new.s.2")

    def test_a_directory_of_a_set(self):
        before = self.tell()
        os.makedirs(self.path("outside/deep"))
        for target in ("outside", "outside/deep"):
            for words in (*LOOKING, *CHANGING):
                shutil.rmtree(self.path("u"))
                for rank in range(RANKS):
                    self.write(f"u/n{rank}/f", pattern_bytes(20000, seed=rank))
                    self.own(f"u/n{rank}", f"u/n{rank}/f")
                self.own("u")
                self.check(0, "lzy-protect", *SMALL, "u/n%r/f")
                shutil.rmtree(self.path("u/n2"))
                os.symlink(self.path(target), self.path("u/n2"))
                self.own("u/n2")
                before = self.tell()
                done = self.tool(*words, "u/n%r/f")
                self.assertEqual(done.returncode, 6, words)
                self.assertIn("is a symbolic link", done.stderr)
                self.assertEqual(self.tell(), before, words)

    def test_links_are_refused_with_reason(self):
        self.fresh()
        self.plant("link", "u/s.2")
        for words in (*LOOKING, *CHANGING):
            # What has the name of a lost member is not touched; the report says what it is.
            done = self.tool(*words, "u/s.%r")
            self.assertIn(done.returncode, (1, 6), done.stdout + done.stderr)
            self.assertIn("symbolic link", done.stdout + done.stderr)
            self.assertTrue(os.path.islink(self.path("u/s.2")))
        self.plant("link", "u/f")
        for words in (*LOOKING, *CHANGING):
            self.assertIn(f"of user {STRANGER} to a file of user 0", self.check(6, *words, "u/f").stderr)
        for kind in ("fifo", "socket", "device"):
            self.fresh()
            self.plant(kind, "u/f")
            self.plant(kind, "u/s.2")
            # The report says what has the name of the lost file; nothing is written to it.
            for words in CHANGING:
                for path, name in (("u/f", "u/f"), ("u/s.%r", "u/s.2")):
                    before = os.lstat(self.path(name))
                    done = self.tool(*words, path)
                    self.assertIn(done.returncode, (1, 2, 3, 6), done.stdout + done.stderr)
                    self.assertIn("regular file", done.stdout + done.stderr)
                    self.assertEqual(os.lstat(self.path(name)).st_ino, before.st_ino)

    def test_links_that_are_followed(self):
        self.fresh()
        # A stranger's link to what is his own, and a link of root's, which lead where he could go himself.
        os.symlink("f", self.path("u/link"))
        self.own("u/link")
        self.check(0, "lzy-verify", "u/link")
        os.symlink("../outside/secret", self.path("u/mine"))
        self.check(0, "lzy-protect", "u/mine")
        self.assertIn(".LZY.secret", os.listdir(self.path("outside")))
        # Of directories, too.
        os.symlink("u", self.path("to_u"))
        self.check(0, "lzy-verify", "to_u/f", "to_u/s.%r", "to_u")
        os.makedirs(self.path("u/d"))
        os.symlink("..", self.path("u/d/up"))
        self.own("u/d", "u/d/up")
        self.check(0, "lzy-verify", "u/d/up/f")
        os.symlink(self.path("outside"), self.path("u/out"))
        self.own("u/out")
        self.assertIn("root does not follow it", self.check(6, "lzy-verify", "u/out/f").stderr)

    def test_another_name_of_somebodys_file(self):
        self.fresh()
        os.chown(self.path("outside/secret"), VICTIM, VICTIM)
        for name in ("u/f", "u/s.2", "u/.LZY.f"):
            self.fresh()
            os.remove(self.path(name))
            os.link(self.path("outside/secret"), self.path(name))
            before = self.tell()
            target = "u/s.%r" if name == "u/s.2" else "u/f"
            for words in CHANGING:
                done = self.tool(*words, target)
                if words[0] != "lzy-scrub":  # which reads first, and then finds nothing that it could repair
                    self.assertIn("root does not write to it", done.stderr)
                    self.assertIn(done.returncode, (3, 4))
                self.assertEqual(self.tell(), before)
        # Where only its owner and root may give names, they are nobody's trick.
        os.chown(self.path("outside"), VICTIM, VICTIM)
        os.link(self.path("outside/secret"), self.path("outside/again"))
        self.check(0, "lzy-protect", "outside/again")

    def test_a_cache_in_somebodys_home(self):
        os.makedirs(self.path("u/home/.cache"))
        os.symlink(self.path("outside"), self.path("u/home/.cache/lzy"))
        self.own("u/home", "u/home/.cache", "u/home/.cache/lzy")
        before = self.tell()
        done = self.run_tool("lzy-info", "--tuning", env={"XDG_CACHE_HOME": "", "HOME": self.path("u/home")})
        self.assertIn("is a symbolic link", done.stderr)
        self.assertEqual(self.tell(), before)
        os.remove(self.path("u/home/.cache/lzy"))
        self.check(0, "lzy-info", "--tuning", env={"XDG_CACHE_HOME": "", "HOME": self.path("u/home")})
        self.assertEqual(len(os.listdir(self.path("u/home/.cache/lzy"))), 1)


class ForgedSidecars(Hostile):
    """Sidecars that say, with all hashes right, what they should not."""

    def everything(self, *targets):
        before = self.tell()
        for target in targets:
            for words in (*LOOKING, *CHANGING):
                self.tool(*words, target)
                self.tool(words[0], "--json", *words[1:], target)
                self.assertEqual(self.tell(), before, words)

    def test_names_that_lead_elsewhere(self):
        for name in (b"../outside/f", b"../outside/%r", b"/etc/x%r", b"s.%r/../../outside/f", b"s.%r\0x", b"..", b""):
            for rank in (0, 2):
                with self.subTest(name=name, rank=rank):
                    self.fresh()
                    self.forge(f"u/.LZY.s.{rank}", name=name)
                    self.forge("u/.LZY.f", name=name)
                    os.remove(self.path("u/s.1"))
                    done = self.check(4, "lzy-verify", "u/f")
                    self.assertIn("may lead outside its directory", done.stderr)
                    self.everything("u/f", "u/s.%r", f"u/s.{rank}", "u")

    def test_names_hard_to_print(self):
        odd = b"x\x1b[2J\n\r\x07%r"
        for name in (odd, b"y" * 4000 + b"%r", b"%r" * 1000, b"\xff\xfe%r", b"%", b"%q"):
            with self.subTest(name=name):
                self.fresh()
                for rank in range(RANKS):
                    self.forge(f"u/.LZY.s.{rank}", name=name, domain=odd)
                self.forge("u/.LZY.f", name=name)
                self.everything("u/s.%r", "u/s.0", "u/f", "u")

    def test_odd_ranks_and_counts(self):
        for fields in ({"rank": 7}, {"rank": 2**32 - 1}, {"members": 2**24}, {"members": 1}, {"size": 2**61}, {"size": 0}):
            with self.subTest(fields):
                self.fresh()
                self.forge("u/.LZY.s.2", **fields)
                self.everything("u/s.%r", "u/s.2")

    @needs_root
    def test_a_set_that_reaches_into_somebodys_directory(self):
        # The stranger's directory is called as members' directories may be, and so are others', beside it.
        for rank in range(RANKS):
            self.write(f"home/u{rank}/f", pattern_bytes(20000, seed=rank))
        self.check(0, "lzy-protect", *SMALL, "home/u%r/f")
        os.chown(self.path("home/u3"), STRANGER, STRANGER)
        for name in ("f", ".LZY.f"):
            os.chown(self.path(f"home/u3/{name}"), STRANGER, STRANGER)
            os.chown(self.path(f"home/u1/{name}"), VICTIM, VICTIM)
        os.chown(self.path("home/u1"), VICTIM, VICTIM)
        shutil.copytree(self.path("home"), self.path("kept"))
        for lost in (None, "home/u1/f", "home/u1"):
            if lost:
                (shutil.rmtree if os.path.isdir(self.path(lost)) else os.remove)(self.path(lost))
            before = self.tell("home/u1"), self.tell("home/u0"), sorted(os.listdir(self.path("home")))
            for words in CHANGING:
                for target in ("home/u3/f", "home/u3"):
                    done = self.tool(*words, target)
                    self.assertEqual((self.tell("home/u1"), self.tell("home/u0"), sorted(os.listdir(self.path("home")))), before)
                    self.assertIn("not below the given PATH", done.stderr)
        # Who names them all means them all.
        self.check(0, "lzy-restore", "home/u%r/f")
        self.assertEqual(self.read("home/u1/f"), pattern_bytes(20000, seed=1))

    @needs_root
    def test_owners_and_set_id_bits(self):
        for uid, gid in ((0, 0), (VICTIM, VICTIM), (STRANGER, 0), (STRANGER, STRANGER)):
            with self.subTest(uid=uid, gid=gid):
                self.fresh()
                for rank in range(RANKS):
                    self.forge(f"u/.LZY.s.{rank}", uid=uid, gid=gid, mode=0o6775)
                os.remove(self.path("u/s.2"))
                os.remove(self.path("u/.LZY.s.2"))
                done = self.check(0, "lzy-restore", "u/s.%r")
                about = os.stat(self.path("u/s.2"))
                self.assertEqual(about.st_uid, STRANGER)
                self.assertEqual(stat.S_IMODE(about.st_mode), 0o775 if gid == STRANGER else 0o705)
                self.assertEqual("it was not given to that user" in done.stderr, uid != STRANGER)
                self.assertEqual(os.stat(self.path("u/.LZY.s.2")).st_uid, STRANGER)
        # A shared file, of which there is but the one sidecar.
        self.fresh()
        os.chmod(self.path("u/f"), 0o4755)
        self.check(0, "lzy-verify", "u/f")
        # Several users' sidecars: nobody's word.
        self.fresh()
        os.chown(self.path("u/.LZY.s.1"), VICTIM, VICTIM)
        os.remove(self.path("u/s.2"))
        self.assertIn("belong to several users", self.check(6, "lzy-restore", "u/s.%r").stderr)
        self.assertNotIn("s.2", os.listdir(self.path("u")))

    @needs_root
    def test_owners_that_root_recorded(self):
        self.fresh()
        for name in os.listdir(self.path("u")):
            os.chown(self.path(f"u/{name}"), VICTIM if name[0] != "." else 0, VICTIM if name[0] != "." else 0)
        for rank in range(RANKS):
            self.forge(f"u/.LZY.s.{rank}", uid=VICTIM, gid=VICTIM, mode=0o6750)
        os.remove(self.path("u/s.2"))
        self.check(0, "lzy-restore", "u/s.%r")
        about = os.stat(self.path("u/s.2"))
        self.assertEqual((about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)), (VICTIM, VICTIM, 0o6750))


def start_swapping(pairs):
    """A process of the stranger's that exchanges the two files of each pair until it is killed; its number."""
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    process = os.fork()
    if process:
        return process
    try:
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        while True:
            for one, other in pairs:
                rename(-100, one.encode(), -100, other.encode(), 2)  # AT_FDCWD, RENAME_EXCHANGE
    finally:
        os._exit(1)


@needs_root
class RacedLinks(Hostile):
    """The owner of the directory swaps names for links as fast as he can, while root runs the tools."""

    def race(self, pairs, targets, runs):
        swapper = start_swapping([(self.path(one), self.path(other)) for one, other in pairs])
        try:
            before = self.tell()
            codes = set()
            commands = (*CHANGING, ("lzy-verify",), ("lzy-info",))
            for run in range(runs):
                words = commands[run % len(commands)]
                done = self.tool(*words, *targets)
                codes.add(done.returncode)
                self.assertEqual(self.tell(), before, words)
            self.assertEqual(os.waitpid(swapper, os.WNOHANG), (0, 0))  # it is at it still
            return codes
        finally:
            os.kill(swapper, signal.SIGKILL)
            os.waitpid(swapper, 0)

    def link(self, name, target):
        os.symlink(self.path(target), self.path(name))
        self.own(name)

    def test_files(self):
        self.fresh()
        self.flip("u/f", 100)
        for name in ("f", ".LZY.f", "s.2", ".LZY.s.2"):
            self.link(f"u/x{name}", "outside/f" if "." not in name[:1] else "outside/.LZY.f")
        codes = self.race([("u/f", "u/xf"), ("u/.LZY.f", "u/x.LZY.f"), ("u/s.2", "u/xs.2"), ("u/.LZY.s.2", "u/x.LZY.s.2")],
                          ["u/f", "u/s.%r"], 100)
        self.assertGreater(len(codes), 1)

    def test_files_that_are_built_aside(self):
        self.fresh()
        os.remove(self.path("u/s.2"))
        names = (".LZY-new.f", ".LZY-data.s.2", ".LZY-new.s.2", ".LZY-tmp.lock")
        for name in names:
            self.link(f"u/x{name}", "outside/secret")
            self.link(f"u/{name}", "outside/new")
        self.race([(f"u/x{name}", f"u/{name}") for name in names], ["u/f", "u/s.%r"], 50)

    def test_directories(self):
        for rank in range(RANKS):
            self.write(f"u/n{rank}/f", pattern_bytes(20000, seed=rank))
            self.own(f"u/n{rank}", f"u/n{rank}/f")
        self.check(0, "lzy-protect", *SMALL, "u/n%r/f")
        self.flip("u/n1/f", 7)
        os.remove(self.path("u/n2/f"))
        self.link("u/x1", "outside")
        self.link("u/x2", "outside")
        # Named by their pattern, and named themselves.
        self.race([("u/n1", "u/x1"), ("u/n2", "u/x2")], ["u/n%r/f"], 50)
        self.race([("u/n1", "u/x1"), ("u/n2", "u/x2")], ["u/n1/f", "u/n2/f", "u/n2"], 50)


@needs_root
class StrangersDirectories(Hostile):
    def test_root_does_not_go_where_a_strangers_sidecar_says(self):
        for name in ("outside/x", "outside/y"):
            os.mkdir(self.path(name))
        self.write("u/f", pattern_bytes(30000))
        self.own("u/f")
        # As if the stranger had forged it: root's own directories, which nobody names any more.
        named = "outside/x:outside/y"
        self.check(0, "lzy-protect", "--device-dirs", named, "u/f")
        self.own("u/.LZY.f")
        for words in (("lzy-verify",), ("lzy-verify", "--repair"), ("lzy-restore", "--force"), ("lzy-protect", "--device-dirs", "")):
            before = self.tell()
            done = self.run_tool(*words, "u/f")
            self.assertNotIn(done.returncode, (1, 2), done.stdout)
            self.assertEqual(self.tell(), before, words)
        part = f"outside/x/{os.listdir(self.path('outside/x'))[0]}"
        os.remove(self.path(part))
        before = self.tell()
        self.assertNotEqual(self.run_tool("lzy-restore", "u/f").returncode, 0)
        self.assertEqual(self.tell(), before)
        self.check(0, "lzy-restore", "--device-dirs", named, "u/f")
        self.check(0, "lzy-verify", "--device-dirs", named, "u/f")


del Hostile  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
