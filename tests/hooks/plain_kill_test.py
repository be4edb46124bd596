"""A program that writes checkpoints without MPI-IO is killed at random moments. What lzy calls intact afterwards is a whole
checkpoint, byte for byte, and can be rebuilt; a repair never makes a file that the program did not write.

LZY_TEST_ROUNDS: how many kills (a few by default, 1,000 with the label slow).
"""

import os
import random
import signal
import subprocess
import time
import unittest

from layered import BUILD, LAYER, MPIEXEC, Layer

CLIENT = f"{BUILD}/clients/plain_client"
ROUNDS = int(os.environ.pop("LZY_TEST_ROUNDS", "8"))
RANKS = 2
STEPS = 6
SIZE = 150000


def content(seed):
    return bytes((seed * 31 + i * 7 + i // 251) % 256 for i in range(SIZE))


WHOLE = {seed: content(seed) for seed in range(STEPS)}


class PlainKills(Layer):
    """In place, by rename, and as generations."""

    def script(self, way):
        commands = ["init"]
        for step in range(STEPS):
            if way == "in place":
                commands += ["open 0 s.%d wct", f"write 0 {SIZE // 2} 77", f"pwrite 0 0 {SIZE} {step}", "close 0"]
            elif way == "rename":
                commands += ["open 0 s.%d.tmp wct", f"write 0 {SIZE} {step}", "close 0", "rename s.%d.tmp s.%d"]
            else:
                commands += [f"open 0 s.{step}.%d wct", f"write 0 {SIZE} {step}", "close 0"]
            commands += ["barrier", "sleep 15"]
        return ";".join([*commands, "finalize"])

    def run_and_kill(self, script, pattern, after):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        job = subprocess.Popen([MPIEXEC, "-n", str(RANKS), "env", f"LD_PRELOAD={LAYER}", f"LZY_SET={pattern}", CLIENT, script], cwd=self.dir,
                               env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while not self.files() and job.poll() is None:
            time.sleep(0.01)
        if after is None:
            job.wait()
        else:
            time.sleep(after)
        own = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_ours(int(pid))]
        for pid in own:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        job.wait()

    def is_ours(self, pid):
        """A rank of the job: it runs in the directory of this test."""
        try:
            return os.readlink(f"/proc/{pid}/cwd") == self.dir and os.readlink(f"/proc/{pid}/exe").endswith("plain_client")
        except OSError:
            return False

    def members(self, dataset):
        return [dataset.replace("%r", str(rank)) for rank in range(RANKS)]

    def check(self, dataset):
        """What is intact is whole, and can be rebuilt."""
        if self.verify(dataset) != 0:
            return False
        found = {name: self.content(name) for name in self.members(dataset)}
        self.assertEqual([name for name, bytes_ in found.items() if bytes_ not in WHOLE.values()], [], "intact, but not whole")
        lost = self.members(dataset)[0]
        os.remove(self.path(lost))
        self.assertEqual(self.run_tool("lzy-restore", "--quiet", dataset).returncode, 0)
        self.assertEqual(self.content(lost), found[lost])
        return True

    def test_kills(self):
        intact = 0
        for number in range(ROUNDS):
            chance = random.Random(number)
            way = chance.choice(["in place", "rename", "generations"])
            pattern = "s.*.%r" if way == "generations" else "s.%r"
            with self.subTest(round=number, way=way):
                self.clear()
                # The last one comes to its end.
                self.run_and_kill(self.script(way), pattern, None if number == ROUNDS - 1 else chance.uniform(0, 0.5))
                before = {name: self.content(name) for name in self.files() if not name.startswith(".LZY")}
                datasets = [f"s.{step}.%r" for step in range(STEPS)] if way == "generations" else ["s.%r"]
                there = [one for one in datasets if all(self.has(name) for name in self.members(one))]
                for dataset in there:
                    intact += self.check(dataset)
                # A repair writes nothing that the program has not written.
                for dataset in there:
                    self.run_tool("lzy-verify", "--quiet", "--repair", dataset)
                for name, bytes_ in before.items():
                    if self.content(name) != bytes_:
                        self.assertIn(self.content(name), WHOLE.values(), name)
        self.assertGreater(intact, 0, "no kill came after a commit")


if __name__ == "__main__":
    unittest.main()
