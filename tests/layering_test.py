"""The layering rule of CONTRIBUTING.md, and a few others that a compiler cannot hold people to. Standard library only.

CMake enforces most of the rule at build time; this finds what it lets through: what a layer reaches by way of another
without declaring it, headers that happen to lie on the compiler's own path, and paths of one machine.
"""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = (".c", ".cc", ".h", ".def")
OUTSIDE_LAYERS = ("romio_hooks", "tools", "tests", "bench")

# Who may include mpi.h: folders end with a slash. The public header is lib/capi's face, and docs/ has its example.
MPI_PLACES = ("lib/transport/", "lib/validated/", "lib/mpi/", "lib/capi/", "lib/include/lzy/", "romio_hooks/",
              "tools/common/mpi_session.cc", "tests/", "bench/", "docs/")


def tree_files():
    """All files of the tree, relative to it, without what is built or belongs to git."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders
                            if f not in (".git", "__pycache__") and not (folder == ROOT and f.startswith("build")))
        for name in sorted(names):
            if not name.endswith((".swp", ".pyc")):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def text_of(path):
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read().decode("utf-8", errors="replace")


def includes_in(text):
    """(line number, name, quoted) of every #include."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if found:
            yield number, found.group(2), found.group(1) == '"'


def declared_layers(text):
    """{layer: layers it names in DEPENDS} from the lzy_module() calls of CMake files."""
    text = re.sub(r"#.*", "", text)
    layers = {}
    for name, arguments in re.findall(r"lzy_module\(\s*(\w+)([^)]*)\)", text):
        depends = re.search(r"\bDEPENDS\b(.*?)(?=\bLIBRARIES\b|\bSOURCES\b|$)", arguments, re.S)
        layers[name] = set(depends.group(1).split()) if depends else set()
    return layers


def layer_faults(path, text, layers):
    """What is wrong with the includes of one source file of a layer."""
    own = path.split("/")[1]
    faults = []
    for number, name, quoted in includes_in(text):
        layer = name.split("/")[0]
        test = path.endswith("_test.cc")
        if "/" not in name or layer not in layers:
            # Another library's, the C++ library's, or (for a test) one of tests/; never a sibling without its layer.
            if quoted and "/" not in name and not test:
                faults.append(f'{path}:{number}: "{name}" is not included as "{own}/{name}"')
        elif layer != own and layer not in layers[own] and not test:  # tests stand on top of all rooms
            faults.append(f"{path}:{number}: layer {own} does not declare {layer} in DEPENDS, and includes {name}")
    return faults


def mpi_faults(path, text):
    if path.startswith(MPI_PLACES):
        return []
    return [f"{path}:{number}: includes {name}, which belongs to {', '.join(MPI_PLACES)} only"
            for number, name, _ in includes_in(text) if name.split("/")[-1] in ("mpi.h", "mpio.h", "mpi_communicator.h")
            and not (name == "mpi/mpi_communicator.h" and path.startswith("tools/"))]


def parent_faults(path, text):
    return [f"{path}:{number}: includes {name}; say it from the layer's root" for number, name, _ in includes_in(text)
            if ".." in name.split("/")]


def neighbour_faults(path, text):
    """Tools, hooks, tests and benchmarks stand side by side: none uses another (tests may use all)."""
    own = path.split("/")[0]
    if own == "tests":
        return []
    return [f"{path}:{number}: includes {name}: {own} must not use it" for number, name, _ in includes_in(text)
            if name.split("/")[0] in OUTSIDE_LAYERS and name.split("/")[0] != own]


def machine_faults(path, text):
    """Absolute paths that mean something on one machine only."""
    here = ROOT + "/" if ROOT.count("/") > 1 else None
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        general = re.search(r"(?<![\w./$}*%-])/(?:home|root|Users|work|workspace)/[\w.-]", line)
        if general or (here and re.search(r"(?<![\w./])" + re.escape(here), line)):
            faults.append(f"{path}:{number}: a path of one machine: {line.strip()}")
    return faults


class Layering(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.sources = {p: text_of(p) for p in tree_files() if p.endswith(SOURCES)}
        self.layers = declared_layers("".join(
            text_of(p) for p in tree_files() if re.fullmatch(r"lib/\w+/CMakeLists.txt", p)))

    def test_every_layer_includes_only_layers_it_declares(self):
        self.assertIn("engine", self.layers)
        checked = [p for p in self.sources if p.startswith("lib/") and p.split("/")[1] in self.layers]
        self.assertGreater(len(checked), 20)
        self.assertEqual([], [f for p in checked for f in layer_faults(p, self.sources[p], self.layers)])

    def test_every_folder_of_lib_is_a_declared_layer(self):
        folders = {p.split("/")[1] for p in self.sources if p.startswith("lib/")}
        self.assertEqual(set(), folders - set(self.layers) - {"include", "capi"})

    def test_layers_have_no_cycles(self):
        left = {layer: set(depends) for layer, depends in self.layers.items()}
        while left:
            ready = [layer for layer, depends in left.items() if not depends & set(left)]
            self.assertTrue(ready, f"a cycle among {sorted(left)}")
            for layer in ready:
                del left[layer]

    def test_mpi_is_included_only_where_it_belongs(self):
        self.assertEqual([], [f for p, text in self.sources.items() for f in mpi_faults(p, text)])

    def test_no_include_goes_up(self):
        self.assertEqual([], [f for p, text in self.sources.items() for f in parent_faults(p, text)])

    def test_tools_hooks_and_benchmarks_do_not_use_each_other(self):
        self.assertEqual([], [f for p, text in self.sources.items() for f in neighbour_faults(p, text)])

    def test_no_paths_of_one_machine(self):
        files = [p for p in tree_files() if p != "tests/layering_test.py"]
        self.assertEqual([], [f for p in files for f in machine_faults(p, text_of(p))])


def dead_links(path, text):
    """Relative links of a document to nothing."""
    folder = os.path.dirname(os.path.join(ROOT, path))
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    return [f"{path}: there is no {link}" for link in links if link and not os.path.exists(os.path.join(folder, link))]


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        documents = [p for p in tree_files() if p.endswith(".md")]
        self.assertIn("README.md", documents)
        self.assertEqual([], [f for p in documents for f in dead_links(p, text_of(p))])

    def test_the_readme_has_every_option(self):
        options = re.findall(r'\{\{"([a-z-]+)",', text_of("lib/request/options.cc"))
        self.assertIn("block-size", options)
        rows = [line.split("|")[1] for line in text_of("README.md").splitlines() if line.startswith("|")]
        named = {name.strip() for row in rows for name in row.split(",")}
        self.assertEqual(set(), set(options) - named)

    def test_files_that_are_named_in_the_design_exist(self):
        text = text_of("docs/design.md") + text_of("CONTRIBUTING.md")
        named = set(re.findall(r"`((?:lib|tests|tools|romio_hooks)/[\w./]+)`", text))
        self.assertGreater(len(named), 5)
        self.assertEqual(set(), {n for n in named if not os.path.exists(os.path.join(ROOT, n))})


class TheChecksThemselves(unittest.TestCase):
    """A check that finds nothing is worth something only if it can find something."""

    LAYERS = {"base": set(), "merkle": {"base"}, "storage": {"merkle"}}

    def test_an_undeclared_layer_is_found(self):
        fine = '#include "merkle/a.h"\n#include "base/b.h"\n#include <vector>\n'
        self.assertEqual([], layer_faults("lib/merkle/a.cc", fine, self.LAYERS))
        self.assertEqual(1, len(layer_faults("lib/merkle/a.cc", '#include "storage/b.h"\n', self.LAYERS)))
        self.assertEqual(1, len(layer_faults("lib/storage/a.h", '#include <base/b.h>\n', self.LAYERS)))
        self.assertEqual(1, len(layer_faults("lib/storage/a.h", '#include "b.h"\n', self.LAYERS)))

    def test_layers_are_read_from_cmake(self):
        text = ("lzy_module(a SOURCES x.cc DEPENDS b c LIBRARIES fmt)\n"
                "lzy_module(b SOURCES y.cc\n  DEPENDS\n  c)\n# lzy_module(d)\n")
        self.assertEqual({"a": {"b", "c"}, "b": {"c"}}, declared_layers(text))

    def test_mpi_is_found(self):
        self.assertEqual([], mpi_faults("lib/transport/a.cc", "#include <mpi.h>\n"))
        self.assertEqual(1, len(mpi_faults("lib/engine/a.cc", "  # include <mpi.h>\n")))
        self.assertEqual(1, len(mpi_faults("tools/lzy_run.cc", '#include "mpi.h"\n')))
        self.assertEqual(1, len(mpi_faults("lib/engine/a.cc", '#include "mpi/mpi_communicator.h"\n')))

    def test_a_way_up_is_found(self):
        self.assertEqual(1, len(parent_faults("lib/engine/a.cc", '#include "../merkle/tree.h"\n')))
        self.assertEqual([], parent_faults("lib/engine/a.cc", 'f("../merkle/tree.h");\n'))

    def test_a_neighbour_is_found(self):
        self.assertEqual(1, len(neighbour_faults("romio_hooks/a.cc", '#include "tools/common/print.h"\n')))

    def test_a_dead_link_is_found(self):
        self.assertEqual(1, len(dead_links("docs/a.md", "[x](no-such.md) [y](https://example.org/z) [w](#part)")))

    def test_a_path_of_one_machine_is_found(self):
        self.assertEqual(1, len(machine_faults("a.md", "cd /home/ann/lzy\n")))
        if ROOT.count("/") > 1:
            self.assertEqual(1, len(machine_faults("a.md", f"see {ROOT}/lib\n")))
        self.assertEqual([], machine_faults("a.md", "lzy-verify /archive/run42; x/home/y\n"))


if __name__ == "__main__":
    unittest.main()
