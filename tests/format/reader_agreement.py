#!/usr/bin/python3
"""The engine's sidecars, read by the independent reader: no discrepancy, and the same root.

    reader_agreement.py PROGRAM [COUNT [SEED]]

PROGRAM is build/tests/reader_agreement, which makes the datasets.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import format_reader  # noqa: E402

BATCH = 40
SECRET = b"a secret of the tests"  # engine_fixture.h, TestKey


def main(program, count=240, seed=1):
    seed = int(os.environ.get("LZY_TEST_SEED", seed))
    print(f"seed {seed} (LZY_TEST_SEED sets another)")
    failures = checked = 0
    kinds = {}
    sealed = in_directories = compact = 0
    while checked < count:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            made = subprocess.run([program, folder, str(seed + checked), str(min(BATCH, count - checked))],
                                  check=True, stdout=subprocess.PIPE, text=True)
            for line in made.stdout.splitlines():
                root, *files = line.split("\t")
                result = format_reader.check(files, secret=SECRET)
                checked += 1
                sealed += any(r["sealed"] for r in result.reports)
                compact += any(r["compact"] for r in result.reports)
                in_directories += any(r["placement"] == "in directories" for r in result.reports)
                wrong = result.lines + result.errors
                roots = [r["root"] for r in result.reports]
                if roots != [root]:
                    wrong.append(f"root: the engine says {root}, the reader {roots}")
                if result.reports:
                    kinds[result.reports[0]["kind"]] = kinds.get(result.reports[0]["kind"], 0) + 1
                if wrong or result.exit_code != 0:
                    failures += 1
                    print(f"dataset {seed + checked - 1}: {files[0]} and {len(files) - 1} more:")
                    print("\n".join("  " + w for w in wrong[:10]))
    print(f"{checked} datasets {kinds}, {sealed} sealed, {compact} compact, {in_directories} in directories, "
          f"{failures} with discrepancies")
    if checked < count or len(kinds) < 2 or 0 in (sealed, compact, in_directories) or compact == count:
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
