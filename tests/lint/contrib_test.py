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


class SlurmJob(unittest.TestCase):
    """contrib/slurm/lzy-job, with programs that stand for Slurm and lzy. tests/cluster/slurm_test.py has the real ones."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.stand_in("lzy-run", 'echo "run $*"; exit ${RUN_CODE:-0}')
        self.stand_in("scontrol", 'case $1 in show) printf "%s\\n" $HOSTS;; *) echo "scontrol $*"; exit 1;; esac')
        self.stand_in("srun", """case $1 in
          --label) printf "%s\\n" "1: n2" "0: n1" "3: n4" "2: n3";;
          lzy-verify) exit $VERIFY_CODE;;
          true) exit ${ALIVE_CODE:-0};;
        esac""")

    def stand_in(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(os.path.join(self.folder, name), 0o755)

    def job(self, starts=0, ranks=None, hosts="", **more):
        """Exit code, lines, and what it left in the file of ranks."""
        place = os.path.join(self.folder, "lzy-ranks.7")
        if ranks:
            with open(place, "w", encoding="utf-8") as file:
                file.write("".join(f"{rank}\n" for rank in ranks.split()))
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "nodes",
               "SLURM_RESTART_COUNT": str(starts), "HOSTS": hosts, **more}
        done = subprocess.run(["sh", os.path.join(ROOT, "contrib/slurm/lzy-job"), "st.%r", "--restart", "app", "-x"], env=env,
                              cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.stderr, "")
        left = ""
        if os.path.exists(place):
            with open(place, encoding="utf-8") as file:
                left = " ".join(file.read().split())
        return done.returncode, done.stdout.splitlines()[1:], left

    def test_the_first_start(self):
        self.assertEqual(self.job(), (0, ["run --heal --set st.%r -- srun app -x"], ""))

    def test_a_program_that_fails_by_itself(self):
        code, lines, left = self.job(RUN_CODE="9")
        self.assertEqual((code, len(lines), left), (9, 1, ""))

    def test_a_program_that_fails_with_its_node(self):
        code, lines, _ = self.job(RUN_CODE="9", ALIVE_CODE="1")
        self.assertEqual((code, lines[1:]), (9, ["lzy-job: a node does not answer: the job is put back", "scontrol requeue 7"]))

    def test_ranks_stay_and_spare_nodes_take_over(self):
        # Two ranks a node; n2 and n4 are gone, n5 and n6 are new. The file is kept if the job is ended, so it ends here.
        for hosts, expected in [("n1 n3 n5 n6", "n1 n1 n5 n5 n3 n3 n6 n6"), ("n1 n2 n3 n4", "n1 n1 n2 n2 n3 n3 n4 n4")]:
            self.assertEqual(self.job(1, "n1 n1 n2 n2 n3 n3 n4 n4", hosts, VERIFY_CODE="9")[2], expected)

    def test_what_the_checkpoint_is(self):
        for verified in ("0", "1"):
            self.assertEqual(self.job(1, "n1", "n1", VERIFY_CODE=verified)[:2],
                             (0, ["run --heal --set st.%r -- srun app -x --restart"]))
        self.assertEqual(self.job(1, "n1", "n1", VERIFY_CODE="3")[1],
                         ["lzy-job: there is no checkpoint yet: the program starts from the beginning",
                          "run --heal --set st.%r -- srun app -x"])
        for verified in ("2", "4", "9"):
            self.assertEqual(self.job(1, "n1", "n1", VERIFY_CODE=verified)[:2],
                             (int(verified), [f"lzy-job: the checkpoint cannot be used as it is (exit code {verified} of lzy-verify)"]))


if __name__ == "__main__":
    unittest.main()
