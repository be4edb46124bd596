"""The tests of kill_test.py with small files: their sidecars are compact, and each commit builds them anew."""

import glob
import unittest
import unittest.mock

import kill_test

BLOCK = 1024
SMALLER = {
    "BLOCK": BLOCK, "SIZE": 40 * BLOCK + 123, "TURN": 12 * BLOCK,
    "PARTS": [(offset // 4, length // 4) for offset, length in kill_test.PARTS],
    "OPTIONS": {**kill_test.OPTIONS, "LZY_BLOCK_SIZE": "1K", "LZY_STRIPE": "1K"}}


class SmallFiles:
    def setUp(self):
        patch = unittest.mock.patch.multiple(kill_test, **SMALLER)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()

    def tearDown(self):
        for path in glob.glob(f"{self.dir}/start/.LZY.*"):
            with open(path, "rb") as file:
                self.assertEqual(file.read(14)[12], 2, "not compact")


class SmallInPrograms(SmallFiles, kill_test.InPrograms):
    def kill_everywhere(self, kind, protected, step):
        super().kill_everywhere(kind, protected, 2 * step + 1)  # kill_test.py has the same programs at more points


class SmallInTools(SmallFiles, kill_test.InTools):
    pass


if __name__ == "__main__":
    unittest.main()
