"""What contrib/ has for other programs: that it is well formed, and names only options and metrics that exist."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def options_in(text, tool):
    """The options that `tool` gets in a text."""
    return {word for line in re.findall(rf"{tool} ([^\n']*)", text) for word in re.findall(r"(?<!\S)--[a-z-]+", line)}


class Contrib(unittest.TestCase):
    def test_systemd_takes_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(os.path.join(ROOT, "contrib/systemd")):
                # The programs are not installed here.
                text = text_of(f"contrib/systemd/{name}").replace("/usr/bin/lzy-scrub", "/bin/true")
                with open(os.path.join(folder, name.replace("@", "@archive")), "w", encoding="utf-8") as file:
                    file.write(text)
            units = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
            self.assertEqual(len(units), 2)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
            ours = [line for line in done.stderr.splitlines() if "lzy" in line]
            self.assertEqual(ours, [])

    def test_options_exist(self):
        known = set(re.findall(r'"(--[a-z-]+)"', text_of("tools/lzy_scrub.cc"))) | {"--quiet", "--on-damage", "--catalog"}
        for path in ("contrib/systemd/lzy-scrub@.service", "contrib/cron/lzy-scrub", "contrib/mail/lzy-mail"):
            used = options_in(text_of(path), "lzy-scrub")
            self.assertNotEqual(used, set(), path)
            self.assertEqual(used - known, set(), path)

    def test_metrics_exist(self):
        known = set(re.findall(r'"(lzy_[a-z_]+)["{]', text_of("lib/catalog/summary.cc"))) | set(
            re.findall(r'"(lzy_[a-z_]+)\{\{', text_of("lib/catalog/summary.cc")))
        self.assertIn("lzy_datasets", known)
        board = json.loads(text_of("contrib/grafana/lzy.json"))
        expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        expressions += re.findall(r"expr: (.*)", text_of("contrib/prometheus/lzy.rules.yml"))
        self.assertGreater(len(expressions), 10)
        for expression in expressions:
            used = set(re.findall(r"\blzy_[a-z_]+", expression))
            self.assertTrue(used and used <= known, expression)

    def test_mail_has_its_headers_and_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            sendmail = os.path.join(folder, "sendmail")
            with open(sendmail, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\ncat > {folder}/mail\n")
            os.chmod(sendmail, 0o755)
            subprocess.run([os.path.join(ROOT, "contrib/mail/lzy-mail")], input='{"a": 1}', text=True, check=True, timeout=60,
                           env={"PATH": os.environ["PATH"], "SENDMAIL": sendmail, "LZY_EVENT_HOST": "h",
                                "LZY_EVENT_SUMMARY": "1 dataset has new damage: /d/a"})
            with open(os.path.join(folder, "mail"), encoding="utf-8") as file:
                head, body = file.read().split("\n\n", 1)
        self.assertIn("Subject: [lzy] h: 1 dataset has new damage: /d/a", head.splitlines())
        self.assertEqual(body, '{"a": 1}')

    def prolog(self, folder, lzy_run):
        """What contrib/slurm/prolog says on a node with this lzy-run; tests/cluster/slurm_test.py runs it under Slurm."""
        with open(os.path.join(folder, "lzy-run"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{lzy_run}\n")
        os.chmod(os.path.join(folder, "lzy-run"), 0o755)
        text = text_of("contrib/slurm/prolog").replace("/opt/lzy/bin", folder).replace("local=/local", f"local={folder}/local")
        # Nothing for the log of this machine.
        text = text.replace("logger ", "true ")
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr.strip()

    def test_the_prolog_of_slurm_refuses_bad_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/local")
            self.assertEqual(self.prolog(folder, "exit 0"), (0, ""))
            # As the dynamic linker does: it complains, and goes on.
            self.assertEqual(self.prolog(folder, "echo ERROR: ld.so >&2"), (1, "lzy-prolog: lzy cannot be loaded: ERROR: ld.so"))
            self.assertEqual(self.prolog(folder, "exit 126"), (1, "lzy-prolog: lzy-run cannot be started:"))
            os.rmdir(f"{folder}/local")
            self.assertEqual(self.prolog(folder, "exit 0"),
                             (1, f"lzy-prolog: {folder}/local is no directory that can be written to"))


if __name__ == "__main__":
    unittest.main()
