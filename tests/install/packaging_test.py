"""What packages are made of: the source tarball, and the recipes in contrib/. scripts/package makes and tries packages."""

import ast
import glob
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from prefix import CMAKE, MPICC, ROOT, VERSION, plain_environment

# Words of Spack's package language that a recipe may use as directives.
DIRECTIVES = {"conflicts", "depends_on", "license", "maintainers", "patch", "provides", "requires", "variant", "version"}


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Tarball(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lzy-dist-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        # A copy of the tree: whether it is a git checkout must not matter, and build directories do not count.
        self.name = f"lzy-{VERSION}"

    def make(self, source):
        done = subprocess.run([CMAKE, f"-DSOURCE={source}", f"-DNAME={self.name}", f"-DDIRECTORY={self.dir}", "-P",
                               f"{ROOT}/cmake/dist.cmake"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(f"{self.dir}/{self.name}.tar.gz") as tar:
            tar.extractall(self.dir)
            return {member.name.removeprefix(self.name + "/") for member in tar.getmembers() if not member.isdir()}

    def small_tree(self):
        tree = f"{self.dir}/tree"
        for name in ("a/b", "c", "build/x", "build-other/y", "a/build/z", "a/__pycache__/m"):
            os.makedirs(os.path.dirname(f"{tree}/{name}"), exist_ok=True)
            with open(f"{tree}/{name}", "w", encoding="utf-8") as file:
                file.write(name)
        return tree

    def test_without_git_it_has_all_but_build_directories(self):
        self.assertEqual(self.make(self.small_tree()), {"a/b", "c", "a/build/z"})

    def test_with_git_it_is_the_last_commit(self):
        tree = self.small_tree()
        git = ["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "a/b", "c"], ["commit", "-qm", "one"]):
            subprocess.run(git + words, check=True)
        with open(f"{tree}/c", "w", encoding="utf-8") as file:
            file.write("changed")
        self.assertEqual(self.make(tree), {"a/b", "c"})
        with open(f"{self.dir}/{self.name}/c", encoding="utf-8") as file:
            self.assertEqual(file.read(), "c")

    def test_it_configures_elsewhere_without_packages_for_tests(self):
        copied = f"{self.dir}/{self.name}"
        shutil.copytree(ROOT, copied, ignore=lambda folder, names: {".git"} | {n for n in names if folder == ROOT and n.startswith("build")})
        absent = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in ("GTest", "benchmark", "Python3")]
        done = subprocess.run([CMAKE, "-S", copied, "-B", f"{self.dir}/build", "-DLZY_BUILD_TESTS=OFF", "-DLOWDOWN_EXECUTABLE=LOWDOWN-NOTFOUND",
                               f"-DMPI_C_COMPILER={MPICC}", *absent], capture_output=True, text=True, check=False, env=plain_environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No completions and no man pages: Python 3 is not installed", done.stdout)
        targets = subprocess.run([CMAKE, "--build", f"{self.dir}/build", "--target", "help"], capture_output=True, text=True, check=True).stdout
        self.assertIn("lzy-verify", targets)
        self.assertIn("dist", targets)
        self.assertNotIn("_test", targets)


class Recipes(unittest.TestCase):
    """Checks without the tools that the recipes are for."""

    def test_version_is_in_one_place(self):
        self.assertIn(f"project(lzy VERSION {VERSION} ", text_of("CMakeLists.txt"))
        for path in glob.glob(f"{ROOT}/**/CMakeLists.txt", recursive=True) + glob.glob(f"{ROOT}/cmake/*"):
            relative = os.path.relpath(path, ROOT)
            if not relative.startswith("build") and relative != "CMakeLists.txt":
                self.assertNotRegex(text_of(relative), rf"\b{re.escape(VERSION)}\b", relative)

    def spack(self):
        return ast.parse(text_of("contrib/spack/packages/lzy/package.py"))

    def test_spack_recipe_keeps_the_rules_of_spack(self):
        text = text_of("contrib/spack/packages/lzy/package.py")
        # `spack style`: flake8 with lines of at most 99 characters, and the line of the license.
        self.assertEqual([line for line in text.splitlines() if len(line) > 99], [])
        self.assertIn("SPDX-License-Identifier: ", text)
        tree = self.spack()
        [recipe] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        # The class has the name of the directory, in camel case.
        self.assertEqual((recipe.name, [base.id for base in recipe.bases]), ("Lzy", ["CMakePackage"]))
        self.assertTrue(ast.get_docstring(recipe))
        calls = [node.value for node in recipe.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        self.assertEqual({call.func.id for call in calls} - DIRECTIVES, set())
        attributes = {target.id for node in recipe.body if isinstance(node, ast.Assign) for target in node.targets}
        self.assertLessEqual({"homepage", "url"}, attributes)
        # In the order of Spack's guide: versions, variants, conflicts, dependencies.
        kinds = [call.func.id for call in calls]
        self.assertEqual(kinds, sorted(kinds, key=["license", "version", "variant", "conflicts", "depends_on"].index))

    def test_spack_recipe_has_the_version_variants_and_dependencies(self):
        calls = [node for node in ast.walk(self.spack()) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        first = {kind: [call.args[0].value for call in calls if call.func.id == kind] for kind in ("version", "variant", "depends_on")}
        self.assertIn(VERSION, first["version"])
        self.assertLessEqual({"mpi", "hdf5"}, set(first["variant"]))
        # What LzyDependencies.cmake wants, by the names of Spack.
        wanted = {"ISAL": "isa-l", "XXHASH": "xxhash", "SODIUM": "libsodium", "SQLITE": "sqlite", "fmt": "fmt", "nlohmann_json": "nlohmann-json",
                  "CLI11": "cli11", "MPI": "mpi", "PkgConfig": "pkgconfig"}
        named = {re.match(r"[a-z0-9-]+", spec)[0] for spec in first["depends_on"]}
        required = re.findall(r"^(?:find_package|pkg_check_modules)\((\w+) REQUIRED", text_of("cmake/LzyDependencies.cmake"), re.M)
        self.assertEqual({wanted[name] for name in required if name != "Threads"} - named, set())

    def test_recipes_name_only_what_there_is(self):
        paths = ["contrib/containers/Dockerfile", "contrib/containers/lzy.def", "contrib/ci/github.yml", "contrib/ci/gitlab.yml"]
        for path in paths:
            named = set(re.findall(r"\b(?:scripts|contrib)/[\w./-]*\w", text_of(path)))
            self.assertTrue(named, path)
            self.assertEqual({name for name in named if not os.path.exists(f"{ROOT}/{name}")}, set(), path)

    def test_scripts_are_valid_shell(self):
        for path in ("scripts/package", "contrib/packaging/try-package", "scripts/deps"):
            subprocess.run(["sh", "-n", f"{ROOT}/{path}"], check=True)
            self.assertTrue(os.access(f"{ROOT}/{path}", os.X_OK), path)


if __name__ == "__main__":
    unittest.main()
