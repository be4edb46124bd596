"""What the system does to who reads and writes (tests/trouble/io_trouble.c): calls that are interrupted or come short, writes that fail
half-way, syncs that fail, disks that are full or slow, for all ranks or for one.

Environment: as for layered.py; LZY_TEST_ALL_POINTS=1 has each single write and sync fail, not one in some (minutes);
LZY_TEST_SEED chooses which ones.
"""

import json
import os
import random
import re
import subprocess
import unittest

from layered import BUILD, CLIENT, LAYER, PATIENCE, Layer

SHIM = f"{BUILD}/tests/libio_trouble.so"
EVERY_POINT = os.environ.get("LZY_TEST_ALL_POINTS", "") == "1"
SEED = int(os.environ.get("LZY_TEST_SEED", "42"))
for name in [name for name in os.environ if name.startswith("LZY_")]:
    del os.environ[name]  # tools know no LZY_TEST_SEED
os.environ["LZY_CATALOG"] = "off"  # trouble is for the files of datasets
SMALL = {"block_size": "4K", "stripe": "4K", "group": 4}
SETS = {"set": "f.%r", "set_sync": "on"}


class Troubled(Layer):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        print(f"seed {SEED} (LZY_TEST_SEED sets another)")

    def settings(self, trouble):
        return {f"TROUBLE_{name.upper()}" if name != "kind" else "TROUBLE": str(value) for name, value in trouble.items()
                } | {"TROUBLE_NOTE": self.path("NOTE")}

    def program(self, action, trouble, ranks, **options):
        """hooks_client under the layer, which meets trouble."""
        words = [f"{name}={value}" for name, value in self.settings(trouble).items()]
        return self.run_program(["env", *words, f"LD_PRELOAD={LAYER}:{SHIM}", CLIENT, action, "f", ""], ranks=ranks,
                                layer=False, **options)

    def command(self, trouble, *words, **environment):
        return subprocess.run(words, cwd=self.dir, capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "LD_PRELOAD": SHIM, **self.settings(trouble), **environment})

    def met(self):
        """How often there was any trouble since the last look."""
        if not self.has("NOTE"):
            return 0
        with open(self.path("NOTE"), encoding="utf-8") as note:
            count = sum(map(int, note))
        os.remove(self.path("NOTE"))
        return count

    def fresh(self):
        for name in self.files():
            os.remove(self.path(name))

    def state(self, path):
        done = subprocess.run([f"{BUILD}/bin/lzy-verify", "--json", path], cwd=self.dir, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        return json.loads(done.stdout)["datasets"][0]


class Restless(Troubled):
    """Calls that are interrupted or come short are gone on with, and nobody notices."""

    def trouble(self, n=0):
        return {"kind": "restless", "seed": SEED + n}

    def test_the_file_tests_pass_with_short_and_interrupted_calls(self):
        for n in range(4):
            with self.subTest(seed=SEED + n):
                done = self.command(self.trouble(n), f"{BUILD}/tests/base_test", "--gtest_brief=1")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertGreater(self.met(), 300)

    def test_programs(self):
        for action, path, options in [("rounds", "f", {}), ("set_codes", "f.%r", SETS)]:
            for verify in ["off", "on"]:
                with self.subTest(action=action, verify=verify):
                    roots = []
                    for trouble in [{"kind": "none"}, self.trouble()]:
                        self.fresh()
                        done = self.program(action, trouble, ranks=3, report="report", verify_writes=verify, verify_reads=verify,
                                            **SMALL, **options)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        self.assertEqual(self.met() > 100, trouble["kind"] != "none")
                        self.assertEqual(self.verify(path), 0)
                        roots.append([line["root"] for line in self.reports()])
                    self.assertEqual(roots[0], roots[1])

    def test_tools(self):
        def tool(name, *words, expect=0):
            self.tools += 1
            done = self.command(self.trouble(self.tools), f"{BUILD}/bin/{name}", *words)
            self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
            self.assertEqual(done.stderr, "")
            self.assertGreater(self.met(), 10)

        self.tools = 0
        names = [f"s.{rank}" for rank in range(4)]
        for name in ["f", *names]:
            with open(self.path(name), "wb") as file:
                file.write(self.rng.randbytes(300000))
        was = {name: self.content(name) for name in ["f", *names]}
        for path in ["f", "s.%r"]:
            tool("lzy-protect", "--block-size=4K", "--stripe=16K", path)
            tool("lzy-verify", path)
            tool("lzy-verify", "--from-disk", path)
            self.damage("f" if path == "f" else "s.1", 123456)
            tool("lzy-verify", path, expect=1)
            tool("lzy-verify", "--repair", path)
        for name in ["s.2", ".LZY.s.2"]:
            os.remove(self.path(name))
        tool("lzy-restore", "s.%r")
        for name, content in was.items():
            self.assertTrue(self.content(name) == content, name)
        self.assertEqual((self.verify("f"), self.verify("s.%r")), (0, 0))


class Failing(Troubled):
    """Trouble that one rank meets, or all. Without on-error=fail every call succeeds and the data are as written; with it, a sync or
    close that made no redundancy is an error of class MPI_ERR_IO on all ranks alike. Nobody waits for ever."""

    def run_with(self, kind, at, **more):
        """Whether there was trouble."""
        ranks = self.rng.choice([2, 3])
        rank = self.rng.choice([None, 0, ranks - 1])
        action, path, options = self.rng.choice([("codes", "f", {}), ("set_codes", "f.%r", SETS)])
        on_error = self.rng.choice(["warn", "fail"])
        trouble = {"kind": kind, "at": at, "seed": SEED, **more} | ({} if rank is None else {"rank": rank})
        names = ["f"] if path == "f" else [f"f.{r}" for r in range(ranks)]
        with self.subTest(trouble=trouble, ranks=ranks, action=action, on_error=on_error):
            self.fresh()
            done = self.program(action, trouble, ranks=ranks, on_error=on_error, **SMALL, **options)
            self.assertEqual(done.returncode, 0, done.stderr)
            met = self.met()
            codes = {call: set(re.findall(rf"^{call} \d+ (\S+)$", done.stdout, re.MULTILINE))
                     for call in ["sync", "close"]}
            self.assertEqual(len(done.stdout.splitlines()), 2 * ranks, done.stdout)
            for call, seen in codes.items():
                self.assertEqual(len(seen), 1, f"ranks differ at {call}: {done.stdout}")
                self.assertLessEqual(seen, {"ok"} if on_error == "warn" else {"ok", "MPI_ERR_IO"}, done.stdout)
            self.expect_told(done, codes, on_error)
            self.expect_written(names)
            # Whatever came out, nothing is called damaged, and what is called intact is.
            found = self.state(path)
            for damage in found["damage"]:
                self.assertTrue(damage["part"] == "metadata" or damage["cause"] in ("at-risk", "stale"), found)
            if {"MPI_ERR_IO"} == codes["close"] and path == "f":  # sets are committed at the end, where that can be
                self.assertNotEqual(found["state"], "intact")
            protect = subprocess.run([f"{BUILD}/bin/lzy-protect", path], cwd=self.dir, capture_output=True, text=True,
                                     timeout=PATIENCE, check=False)
            self.assertEqual(protect.returncode, 0, protect.stdout + protect.stderr)
            self.assertEqual(self.verify(path), 0)
            return met > 0
        return True

    def expect_told(self, done, codes, on_error):
        """Once a kind, by rank 0 or whoever it happened to, with what to do."""
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), len(set(lines)), done.stderr)
        for line in lines:
            self.assertRegex(line, r"^lzy: .*(not protected|no redundancy was made|stay at risk|could not)")
        if on_error == "fail" and {"MPI_ERR_IO"} in codes.values():
            self.assertGreater(len(lines), 0)

    def expect_written(self, names):
        ranks = len(names) if len(names) > 1 else os.path.getsize(self.path("f")) // 100000
        plain = self.client("plain", name="g", ranks=ranks, layer=False)
        self.assertEqual(plain.returncode, 0)
        content = self.content("g")
        os.remove(self.path("g"))
        self.assertTrue(b"".join(self.content(name) for name in names) == content, "the data are not what was written")

    def at_points(self, kind, most, scale=1, **more):
        """At some points, or at each there is."""
        if EVERY_POINT:
            at = quiet = 0
            while quiet < 12:  # other ranks or datasets may do more
                at += 1
                quiet = 0 if self.run_with(kind, at * scale, **more) else quiet + 1
            print(f"{at} points")
            return
        points = self.rng.sample(range(1, most), 4)
        self.assertTrue(any([self.run_with(kind, at * scale, **more) for at in points]), "there was no trouble")

    def test_writes_that_are_torn(self):
        self.at_points("torn", 20)

    def test_syncs_that_fail(self):
        self.at_points("unsynced", 16)

    def test_a_disk_that_is_full_for_sidecars(self):
        self.at_points("full", 30, scale=5000, names=".LZY")

    def test_a_quota(self):
        self.at_points("quota", 30, scale=5000, names=".LZY")


class Slow(Troubled):
    def test_a_slow_device_is_waited_for(self):
        """That of one rank: once all are there, a commit takes as long as it takes."""
        done = self.program("codes", {"kind": "slow", "ms": 200, "rank": 1}, ranks=3, timeout=1, **SMALL)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(self.met(), 0)
        self.assertEqual(self.verify("f"), 0)

    @unittest.skipUnless(EVERY_POINT, "takes half a minute; LZY_TEST_ALL_POINTS=1")
    def test_a_device_slower_than_the_time_out(self):
        """It is that of one rank's data, and a set: the rank is named, no close is told of a commit that was not, and the end of the
        job brings it."""
        done = self.program("set", {"kind": "slow", "ms": 9000, "rank": 1, "names": "f.1"}, ranks=3, timeout=4, set="f.%r",
                            on_error="fail", **SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("close waited 4 s for rank 1; its members stay at risk until the next commit", done.stderr)
        self.assertIn("close came late on rank 1", done.stderr)
        self.assertEqual(re.findall(r"^close \d (ok|MPI_ERR_IO)$", done.stdout, re.MULTILINE), ["MPI_ERR_IO"] * 3)
        self.assertEqual(self.verify("f.%r"), 0, "committed at the end")


del Layer, Troubled  # have no tests of their own

if __name__ == "__main__":
    unittest.main()
