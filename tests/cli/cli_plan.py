"""lzy-plan: a table before anything is protected."""

import json
import os
import re
import stat
import subprocess
import unittest
import xml.etree.ElementTree

from harness import BIN, CliTest

MACHINE = ("--devices", "64", "--per-node", "4", "--size", "16G", "--node-loss", "50y")


class Table(CliTest):
    def plan(self, *words):
        document = json.loads(self.check(0, "lzy-plan", "--json", *words).stdout)
        self.assertEqual((document["schema"], document["tool"], document["exit_code"]), ("lzy-plan/1", "lzy-plan", 0))
        return document

    def rows(self, *words):
        return {(row["group"], row["parity"]): row for row in self.plan(*words)["rows"]}

    def test_nothing_is_recommended_if_the_methods_differ(self):
        words = (*MACHINE, "--rot", "1e9/T/y", "--groups", "4", "--parities", "1,2")
        text = self.check(0, "lzy-plan", *words).stdout
        self.assertIn("chain and simulation differ by more than chance", text)
        self.assertIn("recommended: none: chain and simulation differ, so", text)
        self.assertIsNone(self.plan(*words)["recommended"])

    def test_a_table_that_ends_with_what_to_use(self):
        text = self.check(0, "lzy-plan", *MACHINE).stdout
        self.assertIn("64 devices with 16 GiB of data each on 16 nodes\n", text)
        for m in (1, 2, 3):
            for n in (4, 8, 16, 32):
                self.assertRegex(text, rf"(?m)^{n}( \(\d+\))? +{m}  ")
        self.assertIn("chain and simulation agree within three standard deviations (", text)
        last = re.fullmatch(r"recommended: --group (\d+) --parity (\d) *: probability of loss \S+ a year, \S+% more space, restore in .*",
                            text.splitlines()[-1])
        document = self.plan(*MACHINE)
        self.assertEqual((int(last[1]), int(last[2])), (document["recommended"]["group"], document["recommended"]["parity"]))
        # It can be used as it is.
        self.write("f", b"f" * 100000)
        self.check(0, "lzy-protect", "--group", last[1], "--parity", last[2], "f")
        self.assertEqual(self.check(0, "lzy-plan", "--quiet", *MACHINE).stdout, "")

    def test_both_methods_are_in_the_document(self):
        for row in self.plan(*MACHINE)["rows"]:
            simulation = row["simulation"]
            self.assertTrue(simulation["agrees"], row)
            self.assertGreaterEqual(simulation["factor"], 1)
            self.assertLess(abs(simulation["sigmas"]), 4)
            self.assertAlmostEqual(simulation["window_losses"] / simulation["window_expected"], 1, delta=0.2)
        self.assertNotIn("simulation", self.plan("--no-simulation", *MACHINE)["rows"][0])
        self.assertNotEqual(self.plan(*MACHINE)["rows"][0]["simulation"], self.plan("--seed", "2", *MACHINE)["rows"][0]["simulation"])

    def test_raid_5_and_6_as_published(self):
        """Patterson, Gibson, Katz 1988: 820,000 hours for 100 data disks in groups of 10, with 30,000 and 1 hours."""
        # Reading, writing and the network take no time.
        fast = [word for rate in ("read", "write", "parity", "network") for word in (f"--{rate}-rate", "1000000T/s")]
        row = self.rows("--devices", "110", "--size", "1M", "--device-loss", "30000h", "--replace", "1h", "--rot", "0", "--read-errors", "0",
                        "--groups", "11", "--parities", "1,2", *fast)
        self.assertAlmostEqual(row[11, 1]["mean_years_to_loss"] * 8766, 820000, delta=3000)
        self.assertAlmostEqual(row[11, 2]["mean_years_to_loss"] * 8766 / (2 * 30000**3 / (110 * 10 * 9)), 1, delta=0.01)

    def test_what_each_number_does(self):
        base = self.rows("--no-simulation", *MACHINE)[8, 1]
        for words, more in ((("--device-loss", "10%/y"), True), (("--node-loss", "1y"), True), (("--scrub", "1d"), False),
                            (("--rot", "10/T/y"), True), (("--read-errors", "1e-13/bit"), True), (("--replace", "5d"), True),
                            (("--size", "1T"), True), (("--read-rate", "1M/s"), True), (("--devices", "128"), True),
                            (("--in-place",), True), (("--domain-nodes", "4", "--domain-loss", "1y"), True)):
            changed = self.rows("--no-simulation", *MACHINE, *words)[8, 1]
            self.assertEqual(changed["loss_per_year"] > base["loss_per_year"], more, words)
            self.assertNotEqual(changed["loss_per_year"], base["loss_per_year"], words)
        self.assertEqual(self.rows("--no-simulation", *MACHINE, "--interval", "1h")[8, 1]["checkpoint_seconds"] + base["commit_seconds"], 3600)
        # More crashes: checkpoints more often.
        self.assertLess(self.rows("--no-simulation", *MACHINE, "--crash", "30d")[8, 1]["checkpoint_seconds"], base["checkpoint_seconds"])

    def test_without_lzy(self):
        document = self.plan("--no-simulation", *MACHINE, "--shared-rate", "1G/s")
        self.assertAlmostEqual(document["without_shared"]["commit_seconds"], 64 * 16, delta=1)
        self.assertGreater(document["without_shared"]["run_overhead"], document["rows"][0]["run_overhead"])
        self.assertAlmostEqual(document["without"]["losses_per_year"], 64 * 0.02 + 16 / 50, delta=0.001)
        self.assertIn("without lzy, shared file system: ", self.check(0, "lzy-plan", *MACHINE, "--shared-rate", "1G/s").stdout)

    def test_placement_is_the_real_one(self):
        # Two nodes of eight: groups of two keep them apart with parity 1. With parity 2 that is not possible.
        words = ("--devices", "16", "--per-node", "8", "--size", "1G", "--node-loss", "10y", "--groups", "8", "--parities", "1,2")
        row = self.rows("--no-simulation", *words)
        self.assertEqual((row[8, 1]["largest_group"], row[8, 1]["worst_domain_share"]), (2, 1))
        self.assertEqual((row[8, 2]["largest_group"], row[8, 2]["worst_domain_share"]), (8, 4))
        text = self.check(0, "lzy-plan", "--no-simulation", *words).stdout
        self.assertRegex(text, r"\n8 \(2\) +1 ")
        self.assertRegex(text, r"\n8 +2 .* !\n")
        self.assertIn("!: a group has more than m devices of one node or domain; losing that loses data\n", text)
        # Groups as lzy-info shows them.
        for rank in range(10):
            self.write(f"s.{rank}", b"s" * 1000)
        self.check(0, "lzy-protect", "--group", "4", "s.%r")
        dataset = self.report(0, "lzy-info", "s.%r")["datasets"][0]
        self.assertEqual(dataset["groups"], self.rows("--no-simulation", "--devices", "10", "--size", "1K", "--groups", "4")[4, 1]["groups"])

    def test_nothing_fails(self):
        document = self.plan("--devices", "8", "--size", "1G", "--device-loss", "never", "--crash", "never", "--rot", "0")
        self.assertEqual(document["rows"][0]["loss_per_year"], 0)
        self.assertIsNone(document["rows"][0]["mean_years_to_loss"])
        self.assertIn("never", self.check(0, "lzy-plan", "--devices", "8", "--size", "1G", "--device-loss", "never").stdout)

    def test_a_hundred_thousand_devices(self):
        self.assertEqual(len(self.plan("--devices", "100000", "--per-node", "8", "--size", "100G")["rows"]), 12)

    def test_a_target_out_of_reach_is_said(self):
        document = self.plan("--no-simulation", *MACHINE, "--target", "1e-90")
        self.assertFalse(document["recommended"]["reaches_target"])
        self.assertIn("no row reaches it", document["recommended"]["text"])


class Usage(CliTest):
    def test_options_name_themselves_the_value_and_what_is_accepted(self):
        times = "a time with its unit, such as 90s, 15m, 36h, 30d, 2w or 1y"
        losses = "a mean time of at least 1m, such as 1.2Mh"
        for name, value, accepted in (
                ("devices", "0", "a number from 1 to 1000000"), ("devices", "-5", "a number from 1 to"), ("devices", "1e5", "a number from 1 to"),
                ("per-node", "65", "at most the number of devices, 64"), ("domain-nodes", "0", "a number from 1 to"),
                ("domain-nodes", "17", "at most the number of nodes, 16"),
                ("size", "0", "a size above 0"), ("size", "-1G", "a size above 0"), ("size", "1Q", "a size above 0"),
                ("device-loss", "2%", losses), ("device-loss", "50", losses), ("device-loss", "-50y", losses), ("device-loss", "0y", losses),
                ("node-loss", "nan", losses), ("domain-loss", "often", losses), ("crash", "3", losses),
                ("read-errors", "1e-15", "for each bit or byte"), ("read-errors", "2/bit", "from 0 to 1e-6"), ("rot", "1/T", "new bad blocks"),
                ("scrub", "30", times), ("scrub", "0d", times), ("replace", "-1h", times), ("interval", "5", times), ("run-time", "x", times),
                ("read-rate", "500M", "bytes a second"), ("write-rate", "0/s", "bytes a second"), ("parity-rate", "-1G/s", "bytes a second"),
                ("network-rate", "fast", "bytes a second"), ("shared-rate", "1", "bytes a second"),
                ("groups", "4,x", "numbers from 2 to 255"), ("groups", "1", "numbers from 2 to 255"), ("parities", "255", "numbers from 0 to 254"),
                ("parities", "40", "numbers below the largest of --groups, 32"),
                ("target", "0", "a probability above 0"), ("target", "200%", "a probability above 0"), ("seed", "x", "a number")):
            done = self.check(3, "lzy-plan", *MACHINE, f"--{name}={value}")
            self.assertIn(f"lzy-plan: --{name}: '{value}' is not accepted: ", done.stderr)
            self.assertIn(accepted, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_what_is_missing_or_does_not_go_together(self):
        self.assertIn("--devices: no value is given", self.check(3, "lzy-plan", "--size", "1G").stderr)
        self.assertIn("--size: no value is given", self.check(3, "lzy-plan", "--devices", "8").stderr)
        self.assertIn("give --domain-nodes, too", self.check(3, "lzy-plan", *MACHINE, "--domain-loss", "1y").stderr)
        self.assertIn("these rates make no sense: a device fails every ", self.check(3, "lzy-plan", *MACHINE, "--device-loss", "1h").stderr)
        self.assertIn("there is nothing to compare", self.check(3, "lzy-plan", "--devices", "2", "--size", "1G", "--parities", "3").stderr)
        self.assertIn("'f' is not accepted: lzy-plan takes no PATH", self.check(3, "lzy-plan", *MACHINE, "f").stderr)
        document = json.loads(self.check(3, "lzy-plan", "--json", *MACHINE, "--scrub", "1").stdout)
        self.assertIn("--scrub", document["errors"][0]["message"])

    def test_pairs_that_are_left_out_are_named(self):
        self.assertIn("left out: n = 4, m = 4: a group needs more than m devices\n",
                      self.check(0, "lzy-plan", "--no-simulation", *MACHINE, "--groups", "4,8", "--parities", "2,4").stdout)


class Files(CliTest):
    def test_measures_and_leaves_nothing(self):
        os.makedirs(self.path("d"))
        document = json.loads(self.check(0, "lzy-plan", "--json", "--no-simulation", *MACHINE, "--measure", "d", "--read-rate", "7M/s").stdout)
        self.assertEqual(os.listdir(self.path("d")), [])
        self.assertEqual(document["rates"]["read"], 7 << 20)  # what is given counts more
        for rate in ("write", "parity"):
            self.assertGreater(document["rates"][rate], 1 << 20)
            self.assertNotIn(document["rates"][rate], (500 << 20, 2 << 30))

    def test_the_file_has_no_name_while_it_is_written(self):
        os.makedirs(self.path("d"))
        command = [os.path.join(BIN, "lzy-plan"), "--no-simulation", *MACHINE, "--measure", self.path("d")]
        done = subprocess.run(["strace", "-f", "-e", "trace=openat,unlink,unlinkat,pwrite64", "-o", self.path("calls"), *command],
                              capture_output=True, check=False) if self.has_strace() else None
        if done is None:
            self.skipTest("strace is not installed")
        calls = self.read("calls").decode().splitlines()
        made = next(i for i, line in enumerate(calls) if ".lzy-plan." in line and "O_CREAT" in line)
        removed = next(i for i, line in enumerate(calls) if ".lzy-plan." in line and "unlink" in line)
        written = next(i for i, line in enumerate(calls) if "pwrite64" in line and i > made)
        self.assertLess(removed, written)

    @staticmethod
    def has_strace():
        return any(os.access(os.path.join(folder, "strace"), os.X_OK) for folder in os.environ["PATH"].split(":"))

    def test_directories_that_cannot_be_measured(self):
        self.assertIn("--measure: 'absent' is not accepted: a directory that exists", self.check(3, "lzy-plan", *MACHINE, "--measure", "absent").stderr)
        self.write("f", b"f")
        self.assertIn("--measure: 'f' is not accepted", self.check(3, "lzy-plan", *MACHINE, "--measure", "f").stderr)
        self.assertIn("only 0 bytes are free there", self.check(3, "lzy-plan", *MACHINE, "--measure", "/proc").stderr)

    def test_a_page_in_one_file(self):
        self.check(0, "lzy-plan", *MACHINE, "--html", "p.html")
        page = self.read("p.html").decode()
        self.assertEqual(stat.S_IMODE(os.stat(self.path("p.html")).st_mode), 0o644)
        for word in ("http", "<script", "src=", "@import"):
            self.assertNotIn(word, page)
        plots = re.findall(r"<svg.*?</svg>", page, re.S)
        self.assertEqual(len(plots), 3)
        for plot in plots:
            tree = xml.etree.ElementTree.fromstring(plot)
            self.assertEqual(len(tree.findall("polyline")), 3)  # one for each parity
            self.assertEqual(len(tree.findall("circle")), 12)
            for circle in tree.findall("circle"):
                self.assertTrue(0 < float(circle.get("cx")) < 560 and 0 < float(circle.get("cy")) < 320)
        self.assertIn("lzy-plan --devices 64 --per-node 4", page)
        self.assertEqual(os.listdir(self.scratch), ["p.html"])
        self.check(6, "lzy-plan", *MACHINE, "--html", "absent/p.html")


if __name__ == "__main__":
    unittest.main()
