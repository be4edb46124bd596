"""Programs started at once on the same file."""

import itertools
import json
import os
import subprocess
import threading

from harness import BIN, CliTest, pattern_bytes


class TwoAtOnce(CliTest):
    def test_both_protect_a_file_for_the_first_time(self):
        self.write("big", pattern_bytes(20 << 20))
        variables = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        for round_ in range(50):
            with self.subTest(round=round_):
                both = [subprocess.Popen([os.path.join(BIN, "lzy-protect"), "big"], cwd=self.scratch, env=variables,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                        for _ in range(2)]
                for one in both:
                    _, said = one.communicate(timeout=60)
                    self.assertEqual(one.returncode, 0, said)
                self.check(0, "lzy-verify", "big")
                self.assertEqual(sorted(os.listdir(self.scratch)), [".LZY.big", "big"])
                os.remove(self.path(".LZY.big"))


class Churn(CliTest):
    """Somebody makes, renames and removes files all the time."""

    STANDING = 100

    def churn(self, stop):
        live = []
        for i in itertools.count():
            if stop.is_set():
                break
            if i % 5 < 2 or not live:
                live.append(self.path(f"d/made{i}"))
                with open(live[-1], "wb") as file:
                    file.write(b"x" * (i % 5000))
            elif i % 5 < 4:
                old = live.pop(0)
                live.append(self.path(f"d/renamed{i}"))
                os.rename(old, live[-1])
            else:
                os.remove(live.pop(i % len(live)))
            stop.wait(0.001)

    def test_what_stands_still_is_handled_and_what_went_is_no_error(self):
        os.mkdir(self.path("d"))
        for i in range(self.STANDING):
            self.write(f"d/standing{i}", pattern_bytes(3000 + i))
        stop = threading.Event()
        other = threading.Thread(target=self.churn, args=(stop,))
        other.start()
        try:
            for round_ in range(3):
                with self.subTest(round=round_):
                    done = self.run_tool("lzy-protect", "d")
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    done = self.run_tool("lzy-verify", "--json", "d")
                    report = json.loads(done.stdout)
                    self.assertNotIn("errors", report)
                    standing = [d for d in report["datasets"] if "/standing" in d["path"]]
                    self.assertEqual([d["state"] for d in standing], ["intact"] * self.STANDING)
                    # A file that was removed has left its sidecar. That is all that is wrong with any of them.
                    causes = {damage["cause"] for d in report["datasets"] for damage in d["damage"]}
                    self.assertLessEqual(causes, {"missing"})
        finally:
            stop.set()
            other.join()
