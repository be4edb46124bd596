"""The commands of README.md and docs/guide that build and install, as a reader types them in a fresh copy of the source.

Objects of the build that this test belongs to are reused (reuse_objects.py). All else is done: each rule of the build in
question, generated files, links, installation. INSTALL_TEST_GENERATOR names the generator of CMake; without it, CMake's default.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import reuse_objects
from prefix import BUILD, MPIEXEC, ROOT, plain_environment

GENERATOR = os.environ.get("INSTALL_TEST_GENERATOR")
# A user's program. It writes by MPI-IO.
PROGRAM = "#!/bin/sh\nexec {}/examples/heat3d --size 16 --steps 2 --every 2 --checkpoint result\n"


def blocks_of(text):
    """The indented blocks of a page, outside fences."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    return [re.sub("^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    \S.*\n)+", text, flags=re.M)]


def build_blocks():
    """[(page, block)] of all that build."""
    found = []
    for path in [f"{ROOT}/README.md", *sorted(glob.glob(f"{ROOT}/docs/guide/*.md"))]:
        with open(path, encoding="utf-8") as file:
            found += [(os.path.relpath(path, ROOT), block) for block in blocks_of(file.read()) if re.search("^cmake ", block, re.M)]
    return found


class Documents(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lzy-documents-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.list = f"{self.dir}/objects.json"
        reuse_objects.write_list(self.list, ROOT, BUILD)

    def fresh_copy(self, number):
        tree = f"{self.dir}/{number}/lzy"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=lambda folder, names: {".git", "__pycache__"} & set(names) | {
            name for name in names if folder == ROOT and name.startswith("build")})
        # What the pages take for granted: a file, a program, and mpiexec.
        with open(f"{tree}/FILE", "wb") as file:
            file.write(os.urandom(100000))
        os.mkdir(f"{self.dir}/{number}/path")
        # A script, not a link: launchers look for their parts beside them.
        for path, text in ((f"{tree}/app", PROGRAM.format(BUILD)),
                           (f"{self.dir}/{number}/path/mpiexec", f'#!/bin/sh\nexec {MPIEXEC} "$@"\n')):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        return tree

    def environment(self, tree, build):
        launcher = f"{sys.executable};-ESs;{ROOT}/tests/install/reuse_objects.py;{self.list}"
        more = {"CMAKE_C_COMPILER_LAUNCHER": launcher, "CMAKE_CXX_COMPILER_LAUNCHER": launcher, "REUSE_SOURCE": tree,
                "REUSE_BUILD": f"{tree}/{build}", "PATH": f"{os.path.dirname(tree)}/path:{os.environ['PATH']}",
                "XDG_STATE_HOME": self.dir, **({"CMAKE_GENERATOR": GENERATOR} if GENERATOR else {})}
        environment = plain_environment(**more)
        if not GENERATOR:
            environment.pop("CMAKE_GENERATOR", None)
        return environment

    def run_block(self, tree, block):
        build = re.search(r"-B (\S+)", block)[1]
        # scripts/test has installed the packages.
        script = re.sub(r"^scripts/deps\b.*$", ":", block, flags=re.M).replace("/opt/lzy", f"{os.path.dirname(tree)}/opt")
        done = subprocess.run(["bash", "-exc", script], cwd=tree, env=self.environment(tree, build), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:])
        return f"{tree}/{build}"

    def test_every_block_that_builds_works_in_a_fresh_copy(self):
        blocks = build_blocks()
        self.assertGreaterEqual(len([page for page, _ in blocks if page == "README.md"]), 2)
        for number, (page, block) in enumerate(blocks):
            with self.subTest(page=page, block=block):
                wrapper = re.search(r"-DMPI_C_COMPILER=(\S+)", block)
                if wrapper and not shutil.which(wrapper[1]):
                    self.skipTest(f"{wrapper[1]} is not installed")
                tree = self.fresh_copy(number)
                build = self.run_block(tree, block)
                self.assertTrue(os.path.exists(f"{build}/{'build.ninja' if GENERATOR == 'Ninja' else 'Makefile'}"))
                if not wrapper:
                    self.assertTrue(os.path.exists(f"{build}/bin/lzy-verify"))
                shutil.rmtree(os.path.dirname(tree))


class TheExtraction(unittest.TestCase):
    def test_blocks_are_found(self):
        page = "a\n\n    cmake -S . -B b\n    cmake --build b\n\nc\n\n    ls\n\n```\n    no\n```\n"
        self.assertEqual(["cmake -S . -B b\ncmake --build b\n", "ls\n"], blocks_of(page))

    def test_an_object_serves_the_same_command_in_another_tree_only(self):
        def key(*words):
            return reuse_objects.key(["-I/a/b/levels/x", "-O3", *words, "-c", "/a/lib/x.cc"], "/a", "/a/b")
        other = ["-O3", "-I/c/d/levels/x", "-MD", "-MT", "x", "-MF", "y", "-o", "x", "-c", "/c/lib/x.cc"]
        self.assertEqual(key("-o", "z"), reuse_objects.key(other, "/c", "/c/d"))
        self.assertNotEqual(key("-o", "z", "-DX"), reuse_objects.key(other, "/c", "/c/d"))


if __name__ == "__main__":
    unittest.main()
