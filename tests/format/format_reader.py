#!/usr/bin/python3
"""Independent reader of lzy sidecars, written from docs/format.md alone (section numbers below are its).

    format_reader.py [--json] [--quick] [--ignore-stamps] [--key FILE] FILE_OR_SIDECAR...

Checks everything the document lets one check, sharing no code with lib/. Give all members of a file set.
  --quick          metadata and stamps only; data and parity are not read
  --key FILE       the secret that sealed datasets were sealed with
  --ignore-stamps  do not compare size, mtime and inode with the data file (copied datasets, golden files)
Exit: 0 all right; 1 discrepancies, one a line; 2 usage, or something is unreadable or refused.
"""
import argparse
import json
import os
import sys
from types import SimpleNamespace

from reader_dataset import Dataset
from reader_fields import SHARED, Refused
from reader_hashes import Key
from reader_sidecar import Sidecar

MAX_LINES = 1000


def sidecar_of(path):
    """(sidecar, data file) of either (§1); links are followed first."""
    real = os.path.realpath(path)
    folder, name = os.path.split(real)
    if name.startswith(".LZY."):
        return real, os.path.join(folder, name[5:])
    return os.path.join(folder, ".LZY." + name), real


def check(paths, quick=False, ignore_stamps=False, secret=None):
    """Result with .reports (one a dataset), .lines (discrepancies), .errors (unreadable), .exit_code."""
    result = SimpleNamespace(reports=[], lines=[], errors=[], exit_code=0)
    datasets = {}
    for path, data_path in dict(map(sidecar_of, paths)).items():
        try:
            s = Sidecar(path, data_path, Key(secret) if secret is not None else None)
            sb = next(iter(s.copies.values()))
            # Copied files have the same uuid; shared files are datasets of their own all the same.
            datasets.setdefault((sb.uuid, path if sb.kind == SHARED else ""), []).append(s)
        except (OSError, Refused) as error:
            result.errors.append(str(error))
    for sidecars in datasets.values():
        try:
            dataset = Dataset(sidecars, quick, ignore_stamps)
            result.reports.append(dataset.report())
            result.lines += dataset.all_lines()
        except (OSError, Refused) as error:
            result.errors.append(str(error))
    result.exit_code = 2 if result.errors else 1 if result.lines else 0
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, discrepancies in it")
    parser.add_argument("--quick", action="store_true", help="metadata and stamps only")
    parser.add_argument("--ignore-stamps", action="store_true", help="do not compare size, mtime, inode")
    parser.add_argument("--key", type=argparse.FileType("rb"), help="the secret of sealed datasets")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_SIDECAR")
    options = parser.parse_args(arguments)
    result = check(options.paths, options.quick, options.ignore_stamps, options.key.read() if options.key else None)
    for error in result.errors:
        print(error, file=sys.stderr)
    if options.json:
        print(json.dumps({"datasets": result.reports}))
        return result.exit_code
    for line in result.lines[:MAX_LINES]:
        print(line)
    if len(result.lines) > MAX_LINES:
        print(f"… and {len(result.lines) - MAX_LINES} more")
    for r in result.reports:
        for note in r["notes"]:
            print("note:", note, file=sys.stderr)
        print(f"{r['kind']} {r['name']}: root {r['root']}, generation {r['generation']}, "
              f"{'intent set, ' if r['intent_set'] else ''}{len(r['discrepancies'])} discrepancies", file=sys.stderr)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
