"""scripts/test-mpi and scripts/matrix as far as they install nothing, and what makes results of the former."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts")

PASSED = '<testcase name="{name}" status="run"><system-out>{output}</system-out></testcase>'
FAILED = '<testcase name="{name}" status="fail"><failure message=""/><system-out>{output}</system-out></testcase>'
NOT_RUN = '<testcase name="{name}" status="notrun"><skipped message="Unable to find executable"/></testcase>'
LEFT_OUT = ('<testcase name="{name}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
            '<system-out>{output}</system-out></testcase>')
OUTPUT = """test_calls (calls_test.Calls.test_calls) (call='a') ... skipped "it doesn't work"
test_calls (calls_test.Calls.test_calls) ... ok
test_each (calls_test.Calls.test_each)
What it does. ...
  test_each (calls_test.Calls.test_each) (call='b')
What it does. ... skipped 'nor that'
test_more (calls_test.Calls.test_more) ... skipped 'neither does this'
"""


class TestMpi(unittest.TestCase):
    def run_it(self, *arguments):
        return subprocess.run([os.path.join(SCRIPTS, "test-mpi"), *arguments], cwd="/", capture_output=True, text=True,
                              check=False, timeout=60)

    def test_list(self):
        done = self.run_it("--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [line.split()[0] for line in done.stdout.splitlines()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual({"mpich", "mpich5", "mpich5-abi", "intel", "openmpi4", "openmpi5", "openmpi5-romio"}, set(names))

    def test_unknown_names_are_refused(self):
        for arguments in [["mpich6"], ["mpich5*"], [""], [], ["mpich", "intel"]]:
            with self.subTest(arguments=arguments):
                done = self.run_it(*arguments)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn("openmpi4-romio", done.stderr)
                for name in arguments[:1]:
                    self.assertIn(f"'{name}'" if len(arguments) == 1 else "not 2", done.stderr)


class Matrix(unittest.TestCase):
    def run_it(self, *arguments, **more):
        return subprocess.run([os.path.join(SCRIPTS, "matrix"), *arguments], cwd="/", capture_output=True, text=True, check=False,
                              timeout=60, **more)

    def test_list(self):
        done = self.run_it("--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["debian12", "debian13"])

    def test_unknown_names_are_refused(self):
        for arguments in [["debian11"], ["debian12", "x"], [""], [], ["--command"], ["--no-such"]]:
            with self.subTest(arguments=arguments):
                done = self.run_it(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
                self.assertTrue(done.stderr)

    def test_what_it_needs_is_said_before_any_work(self):
        with tempfile.TemporaryDirectory(prefix="lzy-scripts-") as path:
            for program in ("bash", "cat", "dirname", "env", "git", "id"):
                if shutil.which(program):
                    os.symlink(shutil.which(program), os.path.join(path, program))
            done = self.run_it("debian13", env={"PATH": path})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("mmdebstrap is not installed" if os.geteuid() == 0 else "run this as root", done.stderr)


class Results(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lzy-scripts-")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def run_it(self, *arguments):
        return subprocess.run([sys.executable, "-B", os.path.join(SCRIPTS, "mpi_results.py"), *arguments], cwd=self.dir,
                              capture_output=True, text=True, check=False, timeout=60)

    def record(self, *cases):
        with open(os.path.join(self.dir, "junit"), "w", encoding="utf-8") as file:
            file.write(f"<testsuite>{''.join(cases)}</testsuite>")
        return self.run_it("record", "some", "Some MPI", "Some MPI 7.1", "junit", "result.json")

    def result(self):
        with open(os.path.join(self.dir, "result.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_all_passed(self):
        done = self.record(PASSED.format(name="a", output=OUTPUT), PASSED.format(name="b", output=""))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[-1], "test-mpi: some: Some MPI 7.1: 2 tests passed, 0 failed, 3 cases left out")
        self.assertEqual(self.result()["skipped"], [{"case": "a.test_calls (call='a')", "reason": "it doesn't work"},
                                                    {"case": "a.test_each (call='b')", "reason": "nor that"},
                                                    {"case": "a.test_more", "reason": "neither does this"}])
        table = self.run_it("table", "result.json").stdout.splitlines()
        self.assertEqual(table[2:], ["| `some` | Some MPI 7.1 | 2 | 0 | 3 |"])

    def test_what_failed_or_did_not_run_is_a_failure(self):
        for case in [FAILED, NOT_RUN]:
            with self.subTest(case=case):
                done = self.record(PASSED.format(name="a", output=""), case.format(name="b", output=OUTPUT))
                self.assertEqual(done.returncode, 1)
                self.assertEqual((self.result()["passed"], self.result()["failed"], self.result()["failures"]), (1, 1, ["b"]))

    def test_what_was_left_out_as_a_whole_must_say_why(self):
        for output, code, failures in [(OUTPUT, 0, []), ("", 1, ["b"])]:
            with self.subTest(output=output):
                done = self.record(PASSED.format(name="a", output=""), LEFT_OUT.format(name="b", output=output))
                self.assertEqual((done.returncode, self.result()["passed"], self.result()["failures"]), (code, 1, failures))
        self.assertEqual(self.record(LEFT_OUT.format(name="b", output=OUTPUT)).returncode, 1)

    def test_no_tests_are_a_failure(self):
        self.assertEqual(self.record().returncode, 1)


if __name__ == "__main__":
    unittest.main()
