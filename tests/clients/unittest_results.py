"""Runs tests of mpi4py's own suite, and writes what came of each as JSON to OUT.RANK.

  unittest_results.py SUITE_DIRECTORY OUT MODULE...
"""

import json
import sys
import unittest


class Results(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.results = {}

    def addSuccess(self, test):
        self.results[test.id()] = "passed"

    def addFailure(self, test, err):
        self.results[test.id()] = "failed: " + err[0].__name__

    def addError(self, test, err):
        self.results[test.id()] = "failed: " + err[0].__name__

    def addSkip(self, test, reason):
        self.results[test.id()] = "skipped"

    def addExpectedFailure(self, test, err):
        self.results[test.id()] = "failed as expected"

    def addUnexpectedSuccess(self, test):
        self.results[test.id()] = "passed unexpectedly"

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.results[subtest.id()] = "failed: " + err[0].__name__


def main():
    suite_directory, out, *modules = sys.argv[1:]
    sys.path.insert(0, suite_directory)
    from mpi4py import MPI
    suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    results = Results()
    suite.run(results)
    with open(f"{out}.{MPI.COMM_WORLD.rank}", "w", encoding="utf-8") as file:
        json.dump(results.results, file, indent=1, sort_keys=True)


main()
