"""An installed tree, moved as a whole: what is in it, programs that are built with it, and the main job."""

import os
import re
import shutil
import subprocess
import unittest

from prefix import BUILD, CMAKE, CXX, MPICC, MPIEXEC, NM, OBJDUMP, ROOT, SONAME, TOOLS, VERSION, Prefix

SAID = r"verified: intact[^$]*verified again: damage found[^$]*bytes 983040 to 1048576 \(hash\)[^$]*\(hash\), repaired"


class Installed(Prefix):
    def setUp(self):
        super().setUp()
        self.lib = os.path.dirname(self.installed("liblzy.so"))
        # lzy-run cannot preload from a path with a space (it says so), so programs run under a link without one.
        self.plain = os.path.join(self.dir, "plain")
        shutil.copytree(self.prefix, self.plain, symlinks=True)

    def symbols(self, library):
        lines = self.run_it(0, NM, "-D", "--defined-only", library).splitlines()
        # The name of a version script's version is no function.
        return {line.split()[2] for line in lines if line.split()[1] != "A"}

    def test_every_tool_is_there_and_says_the_version(self):
        self.assertEqual(set(os.listdir(f"{self.prefix}/bin")), {"lzy", *TOOLS})
        for tool in TOOLS:
            self.assertEqual(self.tool(0, tool, "--version"), f"{tool} {VERSION}\n")

    def test_nothing_names_the_place_where_it_was_built_or_installed(self):
        for path in self.files():
            with open(path, "rb") as file:
                content = file.read()
            for place in (self.first, BUILD, ROOT):
                self.assertNotIn(place.encode(), content, path)

    def test_libraries_show_only_their_interface(self):
        shown = {os.path.basename(path): self.symbols(path) for path in self.files()
                 if ".so" in os.path.basename(path) and not os.path.islink(path)}
        self.assertEqual(set(shown), {f"liblzy.so.{VERSION}", "liblzy_mpiio.so", f"liblzy_mpiio-{SONAME}.so"})
        interface = shown[f"liblzy.so.{VERSION}"]
        self.assertIn("lzy_protect", interface)
        self.assertEqual({name for name in interface if not re.match(r"lzy_[a-z0-9_]+$", name)}, set())
        calls = shown["liblzy_mpiio.so"]
        self.assertLess({"MPI_File_open", "PMPI_File_open"}, calls)
        # lzy_commit_wait of liblzy calls the first; the others are calls of POSIX and C (option posix; hooks.Symbols lists them).
        others = {name for name in calls if not re.match(r"P?MPI_[A-Z]\w+$", name)}
        self.assertLess({"lzy_mpiio_await_commits", "open", "fclose", "rename"}, others)
        self.assertEqual({name for name in others if name.startswith("lzy")}, {"lzy_mpiio_await_commits"})
        self.assertEqual({name for name in calls if name.startswith("MPI_")},
                         {name[1:] for name in calls if name.startswith("PMPI_")})
        self.assertEqual(shown[f"liblzy_mpiio-{SONAME}.so"], {"lzy_mpiio_layer"})

    def test_the_interface_is_what_the_headers_declare(self):
        declared = set()
        for header in ("lzy.h", "exchange.h"):
            with open(f"{self.prefix}/include/lzy/{header}", encoding="utf-8") as file:
                declared |= set(re.findall(r"^LZY_API [^(]*?(lzy_\w+)\(", file.read(), re.MULTILINE))
        self.assertGreater(len(declared), 30)
        self.assertEqual(declared, self.symbols(f"{self.lib}/liblzy.so"))

    def test_soname_has_the_major_version(self):
        headers = self.run_it(0, OBJDUMP, "-p", f"{self.lib}/liblzy.so")
        major = VERSION.split(".")[0]
        self.assertRegex(headers, rf"SONAME +liblzy\.so\.{major}\n")
        self.assertEqual(os.readlink(f"{self.lib}/liblzy.so.{major}"), f"liblzy.so.{VERSION}")

    def test_each_header_compiles_alone(self):
        for header in sorted(os.listdir(f"{self.prefix}/include/lzy")):
            for language, suffix in (("c11", "c"), ("c++17", "cc")):
                source = os.path.join(self.dir, f"{header}.{suffix}")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(f"#include <lzy/{header}>\n#include <lzy/{header}>\nint main(void) {{ return 0; }}\n")
                # The wrapper of C compiles both: what it adds are the directories of mpi.h.
                words = [MPICC, "-x", "c" if suffix == "c" else "c++", f"-std={language}", "-Wall", "-Wextra",
                         "-pedantic", "-Werror", "-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX", "-fsyntax-only",
                         f"-I{self.prefix}/include", source]
                self.run_it(0, *words)

    def test_example_by_cmake(self):
        shutil.copytree(os.path.dirname(self.installed("/example/example.c")), f"{self.dir}/source")
        self.run_it(0, CMAKE, "-S", "source", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.run_it(0, CMAKE, "--build", "build")
        self.assertRegex(self.run_it(0, MPIEXEC, "-n", "2", "build/example", "checkpoint"), SAID)

    def test_find_package_knows_versions_and_targets(self):
        with open(f"{self.dir}/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES C)\nfind_package(lzy ${WANTED} REQUIRED)\n"
                       "get_target_property(layer lzy::mpiio LOCATION)\n"
                       'message(STATUS "${lzy_VERSION} ${lzy_MPI_SONAME} ${layer}")\n')
        configure = [CMAKE, "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"]
        major, minor, _ = VERSION.split(".")
        said = self.run_it(0, *configure, f"-DWANTED={major}.{minor}")
        layer = re.search(rf"{VERSION} {re.escape(SONAME)} (.*)", said).group(1)
        self.assertEqual(layer, self.installed("/liblzy_mpiio.so"))
        self.run_it(1, *configure, f"-DWANTED={int(major) + 1}")

    def pkg_config(self, *words, directory=None):
        directory = directory or f"{self.plain}/{os.path.relpath(self.lib, self.prefix)}"
        return self.run_it(0, "pkg-config", *words, PKG_CONFIG_PATH=f"{directory}/pkgconfig").split()

    def test_example_by_pkg_config(self):
        self.assertEqual(self.pkg_config("--modversion", "lzy"), [VERSION])
        self.assertEqual(self.pkg_config("--variable=mpi_soname", "lzy"), [SONAME])
        source = self.installed("/example/example.c")
        self.run_it(0, MPICC, "-D_POSIX_C_SOURCE=200809L", source, "-o", "example",
                    *self.pkg_config("--cflags", "--libs", "lzy"))
        self.assertRegex(self.run_it(0, MPIEXEC, "-n", "2", "./example", "checkpoint", LD_LIBRARY_PATH=self.lib), SAID)

    def heat(self, code=0, run=(), steps=6, ranks=4, more=()):
        return self.run_it(code, f"{self.plain}/bin/lzy-run", *run, "--", MPIEXEC, "-n", str(ranks),
                           f"{BUILD}/examples/heat3d", "--size", "48", "--steps", str(steps), "--every", "3", *more)

    def test_main_job_of_the_moved_tree(self):
        for rank in range(4):
            os.makedirs(f"{self.dir}/node{rank}")
        state = ("--checkpoint", "node%r/state")
        self.heat(steps=12, run=(), more=(*state, "--final", "undisturbed"))
        for rank in range(4):
            shutil.rmtree(f"{self.dir}/node{rank}")
            os.makedirs(f"{self.dir}/node{rank}")
        self.heat(run=("--parity", "2", "--set", "node%r/state"), more=state)
        self.tool(0, "lzy-verify", "node%r/state", ranks=4)
        saved = {}
        for rank in range(4):
            with open(f"{self.dir}/node{rank}/state", "rb") as file:
                saved[rank] = file.read()
        # Two nodes are gone, and a disk rots.
        for rank in (1, 2):
            shutil.rmtree(f"{self.dir}/node{rank}")
        self.tool(1, "lzy-verify", "node%r/state")
        self.tool(0, "lzy-restore", "node%r/state", ranks=2)
        self.run_it(0, f"{ROOT}/scripts/rot", "node0/state", "50000")
        self.tool(1, "lzy-verify", "node%r/state")
        self.tool(0, "lzy-verify", "--repair", "node%r/state")
        for rank in range(4):
            with open(f"{self.dir}/node{rank}/state", "rb") as file:
                self.assertEqual(file.read(), saved[rank], rank)
        self.heat(steps=12, run=("--set", "node%r/state"), more=(*state, "--restart", "--final", "restarted"))
        self.run_it(0, "cmp", "undisturbed", "restarted")

    def test_program_that_links_the_layer(self):
        source = f"{self.dir}/writer.c"
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include <mpi.h>\nint main(int argc, char** argv) {\n  MPI_File file;\n  MPI_Init(&argc, &argv);\n'
                       '  MPI_File_open(MPI_COMM_WORLD, "f", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);\n'
                       '  MPI_File_write_at_all(file, 0, "data", 4, MPI_CHAR, MPI_STATUS_IGNORE);\n'
                       '  MPI_File_close(&file);\n  MPI_Finalize();\n}\n')
        self.run_it(0, MPICC, source, "-o", "writer", *self.pkg_config("--libs", "lzy-mpiio"))
        # No path is compiled in, so the program is told where the layer is.
        self.run_it(0, MPIEXEC, "-n", "2", "./writer", LD_LIBRARY_PATH=os.path.dirname(self.installed("/liblzy_mpiio.so")))
        self.tool(0, "lzy-verify", "f")

    def test_run_names_the_places_where_its_library_is_not(self):
        os.remove(f"{self.plain}/{os.path.relpath(self.installed('/liblzy_mpiio.so'), self.prefix)}")
        done = self.run_it(7, "sh", "-c", f"'{self.plain}/bin/lzy-run' -- true 2>&1")
        self.assertIn(f"{self.plain}/{os.path.relpath(self.lib, self.prefix)}/lzy", done)

    def test_layer_for_another_mpi_is_told_to_be_missing(self):
        layers = os.path.dirname(self.installed("/liblzy_mpiio.so")).replace(self.prefix, self.plain)
        os.rename(f"{layers}/liblzy_mpiio-{SONAME}.so", f"{layers}/liblzy_mpiio-libmpi_other.so.1.so")
        done = self.run_it(0, "sh", "-c", f"'{self.plain}/bin/lzy-run' -- '{MPIEXEC}' -n 1 '{BUILD}/examples/heat3d' --size 16 "
                           "--steps 1 --every 0 2>&1")
        self.assertIn(f"there is no layer for it: {layers}/liblzy_mpiio-{SONAME}.so", done)

    def test_files_that_the_pages_refer_to_are_there(self):
        links = set()
        for path in self.files():
            if path.endswith(".md") and "/doc/lzy/" in path:
                with open(path, encoding="utf-8") as file:
                    links |= {os.path.normpath(os.path.join(os.path.dirname(path), link.split("#")[0]))
                              for link in re.findall(r"\]\(([^)\s]+)\)", file.read()) if "://" not in link and link[0] != "#"}
        self.assertGreater(len(links), 50)
        self.assertEqual([os.path.relpath(link, self.prefix) for link in sorted(links) if not os.path.exists(link)], [])

    def test_over_an_older_version(self):
        """What is there from before is replaced, not written into: programs that have it loaded go on with it."""
        over = f"{self.dir}/over"
        shutil.copytree(self.prefix, over, symlinks=True)
        lib = f"{over}/{os.path.relpath(self.lib, self.prefix)}"
        old = f"{lib}/liblzy.so.0.0.9"
        os.rename(f"{lib}/liblzy.so.{VERSION}", old)
        for name in os.listdir(lib):
            if os.path.islink(f"{lib}/{name}"):
                os.remove(f"{lib}/{name}")
                os.symlink(os.path.basename(old), f"{lib}/{name}")
        layer = f"{lib}/lzy/liblzy_mpiio.so"
        for path in (layer, f"{over}/bin/lzy-verify", f"{over}/include/lzy/lzy.h"):
            with open(path, "wb") as file:
                file.write(b"old")
            os.utime(path, (10**9, 10**9))
        with open(layer, "rb") as loaded:
            self.run_it(0, CMAKE, "--install", BUILD, "--prefix", over)
            self.assertEqual(loaded.read(), b"old")
        os.remove(old)
        self.assertEqual(subprocess.run(["diff", "-r", "--no-dereference", self.prefix, over], check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
