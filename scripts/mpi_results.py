"""What scripts/test-mpi found: one result.json for each MPI, and the table of docs/mpi-families.md made from them.

    mpi_results.py record NAME DESCRIPTION VERSION JUNIT RESULT   reads ctest's JUNIT, writes RESULT, says it in one line
    mpi_results.py table RESULT...                                prints the table

A test that says of all of its cases why it leaves them out neither passed nor failed.

record exits with 1 when a test failed or did not run without saying why, or when none passed.
"""

import json
import re
import sys
import xml.etree.ElementTree

# What Python's unittest says of a case that it left out, on two lines where the test has a docstring; the reason is the
# test's own (tests/support/mpi_known.py).
SKIPPED = re.compile(r"^ *(\w+) \([\w.]+\)((?: \(.*\))?)(?:\n.*)? \.\.\. skipped (['\"])(.*)\3$", re.MULTILINE)


def record(name, description, version, junit, result):
    passed, failed, skipped = 0, [], []
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        test = case.get("name")
        ran = case.get("status") == "run" and case.find("failure") is None and case.find("skipped") is None
        # Also of a test that passed: it may have left out some of its cases.
        reasons = SKIPPED.findall(case.findtext("system-out") or "")
        skipped += [{"case": f"{test}.{method}{parameters}", "reason": reason}
                    for method, parameters, _, reason in reasons]
        passed += ran
        # ctest also calls a test "skipped" whose program is missing. Such a test gives no reason.
        if not ran and (case.find("skipped") is None or not reasons):
            failed.append(test)
    # All that the table and its reader need later; build directories of other MPIs may be gone by then.
    document = {"name": name, "description": description, "version": version, "passed": passed, "failed": len(failed),
                "failures": failed, "skipped": skipped}
    with open(result, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    for entry in skipped:
        print(f"test-mpi: {name}: left out: {entry['case']}: {entry['reason']}")
    for test in failed:
        print(f"test-mpi: {name}: failed: {test}")
    print(f"test-mpi: {name}: {version}: {passed} tests passed, {len(failed)} failed, {len(skipped)} cases left out")
    # A suite of which nothing ran has no failures either.
    return 1 if failed or passed == 0 else 0


def table(results):
    print("| name | MPI, as it calls itself | passed | failed | cases left out |")
    print("|---|---|---|---|---|")
    for path in results:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        print(f"| `{found['name']}` | {found['version']} | {found['passed']} | {found['failed']} | {len(found['skipped'])} |")
    return 0


def main(arguments):
    if len(arguments) == 6 and arguments[0] == "record":
        return record(*arguments[1:])
    if len(arguments) > 1 and arguments[0] == "table":
        return table(arguments[1:])
    print(__doc__, file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
