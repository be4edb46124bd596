"""Programs started at once on the same file."""

import os
import subprocess

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
