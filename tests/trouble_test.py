"""Real trouble: full file systems, limits, and things in place of a sidecar, while programs run. The program gets the same
results and codes as without the layer (or, with on-error=fail, the documented one on all ranks), and once the trouble is over
its file can be protected.

Environment: as for hooks_test.py. What needs a file system of its own is skipped where none may be mounted.
"""

import os
import subprocess
import unittest

from hooks_test import BUILD, PATIENCE, Held, Layer

RANKS = 3
BYTES = RANKS * 100000  # that hooks_client writes


class Trouble(Layer):
    def expect_unharmed(self, done, codes="ok"):
        """The program came to its end; every sync and close returned this."""
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(line.split()[2] for line in done.stdout.splitlines()), [codes] * 2 * RANKS, done.stdout)
        self.client("plain", name="g", ranks=RANKS, layer=False)
        self.assertTrue(self.content("f") == self.content("g"), "the file is not what the program wrote")
        os.remove(self.path("g"))

    def expect_told(self, done, what):
        """In lines of the layer's own, of which none is said twice."""
        lines = done.stderr.splitlines()
        self.assertGreater(len(lines), 0)
        self.assertEqual(len(lines), len(set(lines)), done.stderr)
        for line in lines:
            self.assertRegex(line, rf"^lzy: {self.path('f')}: (not protected|no redundancy was made): .*{what}")

    def expect_no_debris(self):
        self.assertEqual([name for name in self.files() if name.startswith((".LZY-new", ".LZY-tmp", ".LZY-data"))], [])

    def expect_protectable(self):
        done = subprocess.run([f"{BUILD}/bin/lzy-protect", "f"], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.verify("f"), 0)
        self.damage("f", 70000)
        self.assertEqual(self.verify("f"), 1)

    def both_ways(self, what, action="codes", argument=""):
        """Warned of, and as an error."""
        for on_error, codes in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
            with self.subTest(on_error=on_error):
                self.prepare()
                done = self.client(action, argument=argument, ranks=RANKS, on_error=on_error)
                self.expect_told(done, what)
                self.after_run()
                self.expect_unharmed(done, codes)
                self.expect_no_debris()
                self.expect_protectable()

    def prepare(self):
        for name in self.files():
            os.remove(self.path(name))

    def after_run(self):
        """The trouble is over."""


class FullFileSystem(Trouble):
    """With so many pages to `spare` when the data are written (`is_there`: they were before)."""

    def setUp(self):
        super().setUp()
        self.top = self.dir
        self.dir = os.path.join(self.top, "disk")
        os.mkdir(self.dir)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "lzy-test", self.dir], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no file system of its own: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.dir], check=True)  # a rank that failed may be there still

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", "lzy-test", self.dir], check=True)

    def prepare(self):
        super().prepare()
        if self.is_there:
            self.client("plain", ranks=RANKS, layer=False)
        self.resize((-(-BYTES // 4096) + self.spare) * 4096)

    def after_run(self):
        self.resize("4m")

    def test_no_room_for_an_intent(self):
        self.is_there, self.spare = True, 0
        self.both_ways("No space left on device")

    def test_no_room_for_parity(self):
        self.is_there, self.spare = False, 12
        self.both_ways("No space left on device")

    def test_no_room_for_a_new_sidecar_beside_the_old_one(self):
        """Of a file that grew: the commit of before stands, as at risk."""
        self.resize("4m")
        self.client("plain", ranks=1)
        self.assertEqual(self.verify("f"), 0)
        taken = sum(-(-os.stat(self.path(name)).st_blocks // 8) for name in self.files())
        self.resize((taken + -(-(BYTES - 100000) // 4096) + 3) * 4096)
        done = self.client("codes", ranks=RANKS)
        self.expect_told(done, "No space left on device")
        self.resize("4m")
        self.expect_unharmed(done)
        self.assertEqual(self.verify("f"), 9)
        self.expect_no_debris()
        self.expect_protectable()

    def test_an_update_in_place_needs_no_room(self):
        self.resize("4m")
        self.client("plain", ranks=RANKS)
        taken = sum(-(-os.stat(self.path(name)).st_blocks // 8) for name in self.files())
        self.resize(taken * 4096)
        done = self.client("codes", ranks=RANKS)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.verify("f"), 0)
        self.resize("4m")
        self.expect_unharmed(done)


class Limits(Trouble):
    def test_largest_file_allowed(self):
        """RLIMIT_FSIZE lets the data through but not the sidecar; its signal is left as it is by default."""
        for on_error, codes in (("warn", "ok"), ("fail", "MPI_ERR_IO")):
            with self.subTest(on_error=on_error):
                self.prepare()
                done = self.client("codes", argument=str(BYTES + 1000), ranks=RANKS, on_error=on_error, group=3, parity=2,
                                   block_size="4K")
                self.expect_told(done, "File too large")
                self.expect_unharmed(done, codes)
                self.expect_no_debris()
                self.expect_protectable()


class InPlaceOfASidecar(Held, Trouble):
    """Something else takes the place of a sidecar while its file is open for writing."""

    def take_place(self, put):
        """What a program that had the file open says of it."""
        self.start("held_up", ranks=RANKS)
        with self.between(1):
            os.remove(self.path(".LZY.f"))
            put(self.path(".LZY.f"))
        done = self.finish()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("close"), 2 * RANKS)
        self.assertEqual(done.stdout.count(" ok"), RANKS)
        self.expect_no_debris()
        return done

    def test_a_fifo(self):
        self.expect_told(self.take_place(os.mkfifo), "")

    def test_a_directory(self):
        self.expect_told(self.take_place(os.mkdir), "")

    def test_a_link(self):
        with open(self.path("elsewhere"), "wb") as file:
            file.write(b"precious")
        self.expect_told(self.take_place(lambda path: os.symlink(self.path("elsewhere"), path)), "")
        self.assertEqual(self.content("elsewhere"), b"precious")

    def test_nothing_or_rubbish(self):
        def rubbish(path):
            with open(path, "wb") as file:
                file.write(os.urandom(5000))

        for put in (rubbish, lambda path: None):
            with self.subTest(put):
                self.assertEqual(self.take_place(put).stderr, "")
                self.assertEqual(self.verify("f"), 0)
                for name in self.files():
                    os.remove(self.path(name))


del Held, Layer, Trouble  # have no tests of their own

if __name__ == "__main__":
    unittest.main()
