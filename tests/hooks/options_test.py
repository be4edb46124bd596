"""Options: which files are protected, with which options, what is reported, and what happens if a file cannot be
protected.
"""

import os
import re
import unittest

import mpi_known
from layered import CLIENT, Layer


class Selection(Layer):
    """Which files are protected, and with which options."""

    def test_include_and_exclude(self):
        self.client("plain", include="*.h5:f")
        self.assertTrue(self.has(".LZY.f"))
        self.client("plain", name="g", include="*.h5:f")
        self.client("plain", name="h", exclude="?")
        self.assertEqual(self.files(), [".LZY.f", "f", "g", "h"])

    def test_a_hint_overrides_the_environment(self):
        done = self.client("with_hint", argument="lzy_parity=2", parity=1, ranks=3)
        self.quiet(done)
        self.assertEqual(self.info()["parity"], 2)

    def test_an_unusable_hint_is_named_once(self):
        for hint, words in [("lzy_parity=many", ["lzy_parity", "many", "number"]), ("lzy_colour=red", ["lzy_colour"])]:
            with self.subTest(hint=hint):
                done = self.client("with_hint", argument=hint)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertEqual(self.files(), ["f"])

    def test_an_unusable_variable_is_named_once(self):
        done = self.client("rounds", parity="many")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("LZY_PARITY", done.stderr)
        self.assertEqual(self.files(), ["f"])

    def test_with_on_error_fail_an_unusable_option_fails_sync_and_close(self):
        for name, options in (("f", {"parity": "many"}), ("f", {"parity": "3", "group": "3"}), ("f", {"set": "x"}),
                              ("f" * 251, {})):
            for ranks in (1, 2):
                with self.subTest(options=options, ranks=ranks):
                    done = self.client("codes", name=name, ranks=ranks, on_error="fail", **options)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertEqual(done.stdout.count("MPI_ERR_IO"), 2 * ranks, done.stdout)
                    self.assertEqual(self.files(), [name])
                    done = self.client("codes", name=name, ranks=ranks, on_error="fail", exclude="f*", **options)
                    self.assertEqual(done.stdout.count("ok"), 2 * ranks, "it is not meant")
                    os.remove(self.path(name))

    def test_errors_of_mpi_stay_as_without_the_layer(self):
        bare = self.client("refused", layer=False)
        done = self.client("refused")
        self.assertEqual(done.stdout, bare.stdout)
        self.assertNotIn("lzy", done.stderr)  # MPI may say itself what it refuses
        self.assertEqual(self.verify(), 0)

    def test_closing_a_null_file_stays_as_without_the_layer(self):
        bare = self.run_program([CLIENT, "close_nothing", "f"], layer=False)
        mpi_known.leave_out_if_known(self, "MPI_File_close(MPI_FILE_NULL)", bare)
        self.assertEqual(self.client("close_nothing").stdout, bare.stdout)

    def test_reports(self):
        self.client("rounds", report="report")
        lines = self.reports()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertEqual(line["path"], self.path("f"))
            self.assertEqual(line["bytes"], 200000)
            self.assertGreater(line["bytes_reread"] + line["bytes_captured"], 0)
            self.assertLessEqual({"read", "hash", "encode", "exchange", "write", "sync", "total"}, set(line["seconds"]))


class Summary(Layer):
    LINE = (r"lzy: (?P<path>\S+): (?P<what>.*), (?P<seconds>\d+\.\d{3}) s added, (?P<share>\d+\.\d) % of "
            r"(?P<run>\d+\.\d{3}) s$")

    def summary(self, done):
        matches = [re.match(self.LINE, line) for line in done.stderr.splitlines()]
        self.assertNotIn(None, matches, done.stderr)
        for match in matches:
            seconds, share, run = (float(match[key]) for key in ("seconds", "share", "run"))
            self.assertLessEqual(seconds, run)
            self.assertAlmostEqual(share, 100 * seconds / run, delta=100 * 0.001 / run + 0.1)
        return {match["path"]: match["what"] for match in matches}

    def test_off(self):
        self.quiet(self.client("plain"))

    def test_of_a_shared_file(self):
        told = self.summary(self.client("rounds", summary="on"))
        sidecar = os.path.getsize(self.path(".LZY.f"))
        self.assertEqual(list(told), [self.path("f")])
        # 200000 bytes; the first round commits, and two in which one rank writes
        self.assertRegex(told[self.path("f")], r"^195\.3 KiB in 3 commits, parity and hashes \S+ KiB$")
        self.assertIn(f"{sidecar / 1024:.1f} KiB".replace(".0 KiB", " KiB"), told[self.path("f")])

    def test_of_a_set(self):
        told = self.summary(self.client("set", name="s", set="s.%r", summary="on"))
        self.assertEqual(list(told), [self.path("s.%r")])
        self.assertRegex(list(told.values())[0], r" in 1 commit, parity and hashes ")

    def test_of_a_file_that_was_never_committed(self):
        self.client("plain")
        told = self.summary(self.client("nothing", summary="on"))
        self.assertEqual(told, {self.path("f"): "nothing committed"})

    def test_hints_in_effect_are_in_the_info_of_the_file(self):
        done = self.client("hints", argument="lzy_parity=2:lzy_group=5", block_size="4K", stripe="64K")
        told = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("lzy_"))
        self.assertEqual({key: told[key] for key in ["lzy_parity", "lzy_group", "lzy_block_size", "lzy_stripe", "lzy_on_error"]},
                         {"lzy_parity": "2", "lzy_group": "5", "lzy_block_size": "4K", "lzy_stripe": "64K", "lzy_on_error": "warn"})
        bare = self.client("hints", argument="lzy_parity=2:lzy_group=5", layer=False)
        others = [[line for line in out.splitlines() if not line.startswith("lzy_")] for out in (done.stdout, bare.stdout)]
        self.assertEqual(*others)


class Failures(Layer):
    """A sidecar that cannot be written: a directory has its name."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path(".LZY.f"))

    def test_warn(self):
        done = self.client("codes", ranks=3)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(f"lzy: {self.path('f')}: not protected: ", done.stderr)
        self.assertEqual(done.stdout.count("ok"), 6)

    def test_fail(self):
        done = self.client("codes", ranks=3, on_error="fail")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout.count("MPI_ERR_IO"), 6)

    def test_the_data_are_written_without_protection(self):
        self.client("codes", on_error="fail")
        self.client("plain", name="g", layer=False)
        self.assertEqual(self.content("f"), self.content("g"))

    def test_level_error_is_quiet(self):
        self.quiet(self.client("codes", log="error"))


if __name__ == "__main__":
    unittest.main()
