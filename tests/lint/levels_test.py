"""The rule of levels of CONTRIBUTING.md, and a few others that a compiler cannot hold people to. Standard library only.

CMake enforces most of the rule at build time; this finds what it lets through: what a room reaches by way of another
without declaring it, headers that happen to lie on the compiler's own path, and paths of one machine.
"""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = (".c", ".cc", ".h", ".def")
OUTSIDE_ROOMS = ("romio_hooks", "tools", "tests", "bench")

# Folders whose own folders are modules (lzy_module in cmake/LzyModule.cmake), and how the names of those begin.
MODULES = {"lib": "", "romio_hooks": "hooks/"}

# Who may include mpi.h: folders end with a slash. The public header is lib/capi's face, and docs/ has its example. The
# preloaded half of the hooks knows no MPI, nor does what both halves include.
MPI_PLACES = ("lib/datatypes/", "lib/transport/", "lib/validated/", "lib/mpi/", "lib/capi/", "lib/include/lzy/",
              "romio_hooks/reports/", "romio_hooks/ranges/", "romio_hooks/files/", "romio_hooks/transfers/", "romio_hooks/epochs/", "romio_hooks/sets/",
              "romio_hooks/calls/", "tools/common/mpi_session.cc", "tests/", "bench/", "docs/", "examples/")


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


def declared_modules(text):
    """{module: modules it names in DEPENDS} from the lzy_module() calls of a CMakeLists.txt."""
    text = re.sub(r"#.*", "", text)
    modules = {}
    for name, arguments in re.findall(r"lzy_module\(\s*([\w/]+)([^)]*)\)", text):
        depends = re.search(r"\bDEPENDS\b(.*?)(?=\bLIBRARIES\b|\bSOURCES\b|$)", arguments, re.S)
        modules[name] = set(depends.group(1).split()) if depends else set()
    return modules


def module_at(path):
    """The module whose folder `path` is in; None outside modules."""
    top, *below = path.split("/")
    return MODULES[top] + below[0] if top in MODULES and len(below) > 1 else None


def module_of_header(name, modules):
    """The module that an include says; None if it says none."""
    folder = name.rpartition("/")[0]
    return folder if folder in modules else None


def module_faults(path, text, modules):
    """What is wrong with the includes of one source file of a module."""
    own = module_at(path)
    faults = []
    for number, name, quoted in includes_in(text):
        module = module_of_header(name, modules)
        test = path.endswith("_test.cc")
        if module is None:
            # Another library's, the C++ library's, or (for a test) one of tests/; never a sibling without its module.
            if quoted and "/" not in name and not test:
                faults.append(f'{path}:{number}: "{name}" is not included as "{own}/{name}"')
        elif module != own and module not in modules[own] and not test:  # tests stand on top of all rooms
            faults.append(f"{path}:{number}: {own} does not declare {module} in DEPENDS, and includes {name}")
    return faults


def unused_depends(own, texts, modules):
    """What `own` names in DEPENDS and none of its sources includes."""
    included = {module_of_header(name, modules) for text in texts for _, name, _ in includes_in(text)}
    return sorted(modules[own] - included)


def cycle_among(modules):
    """Modules that depend on each other in a circle, or on those."""
    left = {module: set(depends) for module, depends in modules.items()}
    while left:
        ready = [module for module, depends in left.items() if not depends & set(left)]
        if not ready:
            return sorted(left)
        for module in ready:
            del left[module]
    return []


def mpi_faults(path, text):
    if path.startswith(MPI_PLACES):
        return []
    return [f"{path}:{number}: includes {name}, which belongs to {', '.join(MPI_PLACES)} only"
            for number, name, _ in includes_in(text) if name.split("/")[-1] in ("mpi.h", "mpio.h", "mpi_communicator.h")
            and not (name == "mpi/mpi_communicator.h" and path.startswith("tools/"))]


def parent_faults(path, text):
    return [f"{path}:{number}: includes {name}; say it from the root" for number, name, _ in includes_in(text)
            if ".." in name.split("/")]


def neighbour_faults(path, text):
    """Tools, hooks, tests and benchmarks stand side by side: none uses another (tests may use all)."""
    own = path.split("/")[0]
    if own == "tests":
        return []
    places = {place: place for place in OUTSIDE_ROOMS} | {"hooks": "romio_hooks"}
    return [f"{path}:{number}: includes {name}: {own} must not use it" for number, name, _ in includes_in(text)
            if places.get(name.split("/")[0], own) != own]


def machine_faults(path, text):
    """Absolute paths that mean something on one machine only."""
    here = ROOT + "/" if ROOT.count("/") > 1 else None
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        general = re.search(r"(?<![\w./$}*%-])/(?:home|root|Users|work|workspace)/[\w.-]", line)
        if general or (here and re.search(r"(?<![\w./])" + re.escape(here), line)):
            faults.append(f"{path}:{number}: a path of one machine: {line.strip()}")
    return faults


class Levels(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.sources = {p: text_of(p) for p in tree_files() if p.endswith(SOURCES)}
        self.modules = {}
        for path in tree_files():
            if os.path.basename(path) == "CMakeLists.txt" and path.split("/")[0] in MODULES:
                self.modules.update(declared_modules(text_of(path)))

    def test_every_module_includes_only_modules_it_declares(self):
        self.assertIn("engine", self.modules)
        self.assertIn("hooks/files", self.modules)
        checked = [p for p in self.sources if module_at(p) in self.modules]
        self.assertGreater(len(checked), 20)
        self.assertEqual([], [f for p in checked for f in module_faults(p, self.sources[p], self.modules)])

    def test_every_room_of_the_hooks_includes_all_modules_that_it_declares(self):
        unused = {}
        for room in (module for module in self.modules if module.startswith("hooks/")):
            texts = [text for path, text in self.sources.items() if module_at(path) == room]
            unused[room] = unused_depends(room, texts, self.modules)
        self.assertEqual({room: [] for room in unused}, unused)

    def test_every_folder_is_a_declared_module(self):
        folders = {module_at(p) for p in self.sources} - {None}
        self.assertEqual(set(), folders - set(self.modules) - {"include", "capi"})
        self.assertEqual([], [p for p in self.sources if p.startswith("romio_hooks/") and module_at(p) is None])

    def test_modules_have_no_cycles(self):
        self.assertEqual([], cycle_among(self.modules))

    def test_mpi_is_included_only_where_it_belongs(self):
        self.assertEqual([], [f for p, text in self.sources.items() for f in mpi_faults(p, text)])

    def test_no_include_names_a_parent_folder(self):
        self.assertEqual([], [f for p, text in self.sources.items() for f in parent_faults(p, text)])

    def test_tools_hooks_and_benchmarks_do_not_use_each_other(self):
        self.assertEqual([], [f for p, text in self.sources.items() for f in neighbour_faults(p, text)])

    def test_no_paths_of_one_machine(self):
        files = [p for p in tree_files() if p != "tests/lint/levels_test.py"]
        self.assertEqual([], [f for p in files for f in machine_faults(p, text_of(p))])


def sections_of(text):
    """The names by which links can refer to the sections of a document, as code hosts make them."""
    titles = re.findall(r"^#{1,6} (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    names = [re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", title).lower()).strip().replace(" ", "-") for title in titles]
    return {name if not names[:at].count(name) else f"{name}-{names[:at].count(name)}" for at, name in enumerate(names)}


def dead_links(path, text):
    """Relative links of a document to nothing, or to a section that a document does not have."""
    folder = os.path.dirname(os.path.join(ROOT, path))
    faults = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, section = link.partition("#")
        target = os.path.normpath(os.path.join(folder, name)) if name else os.path.join(ROOT, path)
        if "://" in link:
            continue
        if name and not os.path.exists(target):
            faults.append(f"{path}: there is no {link}")
        elif section and target.endswith(".md"):
            with open(target, encoding="utf-8") as file:
                if section not in sections_of(text if not name else file.read()):
                    faults.append(f"{path}: there is no section {link}")
    return faults


def numbered_sections(text):
    """(number, title) of each section of a document, and of each paragraph that begins with a title in bold or italics. The number
    is that of the part that it belongs to, or None."""
    found, number = [], None
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for marks, title, paragraph in re.findall(r"^(?:(##+) (.*)|(?:- )?\*{1,2}([A-Z][^*]*)\*.*)$", text, re.M):
        part = re.match(r"(\d+)\. (.*)", title)
        if marks == "##":
            number = part[1] if part else None
        found.append((number, part[2] if part else title or paragraph.rstrip(".:")))
    return found


def is_title(said, title):
    """A reference may leave out what a title has in brackets."""
    return title == said or title.startswith(f"{said} (")


# A path or a link, then numbers of sections, then perhaps a title: `docs/x.md §2, "A title"`, `[x](x.md) §3, §4`.
REFERENCE = re.compile(r'(?:(docs/[\w/-]+\.md)|\[([^]\n]*)\]\(([\w/.-]+\.md)\))((?:(?:,|:| and)? §\d+)*)(?:,? "([A-Z][^"]+)")?')


def reference_faults(path, text):
    """References of a file to sections that documents do not have."""
    # A reference may go on in the next line, in comments after their marks.
    marks = r"[ |]*" if path.endswith(".md") else r"[ ]*(?://+|#|\*)?[ ]*"
    faults = []
    for match in REFERENCE.finditer(re.sub(rf"[ ]*\n{marks}", " ", text)):
        whole, words, link, numbers, title = match.groups()
        numbers = re.findall(r"§(\d+)", f"{words or ''} {numbers}")
        target = os.path.join(ROOT, whole) if whole else os.path.normpath(os.path.join(ROOT, os.path.dirname(path), link))
        if not numbers and not title or not os.path.exists(target):
            continue
        with open(target, encoding="utf-8") as file:
            sections = numbered_sections(file.read())
        faults += [f"{path}: {match[0]}: there is no §{number}" for number in numbers if number not in {n for n, _ in sections}]
        if title and not any(is_title(title, found) and (not numbers or number in numbers) for number, found in sections):
            faults.append(f"{path}: {match[0]}: there is no such section")
    return faults


def rooms_of_the_design(text):
    """{room: what the tables of rooms say that it may use}; rooms of the hooks with their prefix."""
    rooms = {}
    for name, cells in re.findall(r"^\| `(\w+)` \|(.*)\|$", text, re.M):
        uses = [{word.strip() for word in cell.split(",")} - {"–"} for cell in cells.split("|")[1:]]
        if len(uses) == 1:
            rooms[name] = uses[0]
        elif len(uses) == 2:
            rooms[f"hooks/{name}"] = {f"hooks/{room}" for room in uses[0]} | uses[1]
    return rooms


class Documents(unittest.TestCase):
    maxDiff = None

    def test_the_design_says_what_each_room_may_use(self):
        declared = {}
        for path in tree_files():
            if os.path.basename(path) == "CMakeLists.txt" and path.split("/")[0] in MODULES:
                declared.update(declared_modules(text_of(path)))
        self.assertIn("hooks/files", declared)
        self.assertEqual(declared, rooms_of_the_design(text_of("docs/design/overview.md")))

    def test_names_of_code_in_the_design_exist(self):
        pages = "".join(text_of(path) for path in tree_files() if re.match(r"docs/design/\w+\.md$", path))
        # `Name`, `kName`, `Class::Name`; words of one capital, such as `Epilog`, are rarely names of anything else.
        named = {name.rpartition("::")[2] for name in re.findall(r"`((?:k?[A-Z][a-z]\w*::)*k?[A-Z][a-z]\w*)`", pages)}
        self.assertGreater(len(named), 100)
        there = set()
        for path in tree_files():
            if path.endswith((*SOURCES, ".py", "CMakeLists.txt")):
                there |= named & set(re.findall(r"\w+", text_of(path)))
        self.assertEqual([], sorted(named - there))

    def test_contributing_lists_every_room(self):
        rooms = {name for path in tree_files() if path.endswith("CMakeLists.txt") for name in declared_modules(text_of(path))}
        self.assertIn("geometry", rooms)
        # Rooms of the hooks are listed by their own names.
        self.assertEqual(set(), {room.removeprefix("hooks/") for room in rooms}
                         - set(re.findall(r"^\| `(\w+)` \|", text_of("CONTRIBUTING.md"), re.M)))

    def test_every_link_has_a_target(self):
        documents = [p for p in tree_files() if p.endswith(".md")]
        self.assertIn("README.md", documents)
        self.assertEqual([], [f for p in documents for f in dead_links(p, text_of(p))])

    def test_every_section_that_is_referred_to_exists(self):
        texts = {path: text_of(path) for path in tree_files()}
        # This file has wrong ones on purpose.
        self.assertEqual([], [fault for path, text in texts.items() if path != "tests/lint/levels_test.py"
                              for fault in reference_faults(path, text)])
        # Numbers alone are of the same document, or of the design, whose files share theirs.
        design = {path: text for path, text in texts.items() if re.match(r"docs/design(/\w+)?\.md$", path)}
        for path, text in {**design, "docs/format.md": texts["docs/format.md"]}.items():
            there = {number for text in (design.values() if path in design else [text]) for number, _ in numbered_sections(text)}
            # Papers have sections, too.
            alone = re.sub(r"\]\([^)]*\)(?:,? §\d+)*|Miller,? §\d+", "", text)
            self.assertEqual(set(), set(re.findall(r"§(\d+)", alone)) - there, path)

    def test_the_reference_has_every_option(self):
        options = re.findall(r'\{\{"([a-z-]+)",', text_of("lib/request/options.cc"))
        self.assertIn("block-size", options)
        rows = [line.split("|")[1] for line in text_of("docs/reference/options.md").splitlines()
                if line.startswith("|")]
        named = {name.strip(" `") for row in rows for name in row.split(",")}
        self.assertEqual(set(), set(options) - named)

    def test_files_that_are_named_in_documents_exist(self):
        text = "".join(text_of(p) for p in tree_files() if p.endswith(".md"))
        named = set(re.findall(r"`((?:lib|tests|tools|romio_hooks)/[\w./]+)`", text))
        self.assertGreater(len(named), 20)
        there = {n for n in named for end in ("", ".h", ".cc") if os.path.exists(os.path.join(ROOT, n) + end)}
        self.assertEqual(set(), named - there)

    def test_tests_that_are_named_in_comments_exist(self):
        named = {(path, name) for path in tree_files() for name in re.findall(
            r"(?<![\w./}-])tests/[\w/]+\.(?:c|cc|h|py|cmake|txt)\b", text_of(path))}
        self.assertGreater(len(named), 20)
        self.assertEqual(set(), {(p, n) for p, n in named if not os.path.exists(os.path.join(ROOT, n))})


class TheChecksThemselves(unittest.TestCase):
    """A check that finds nothing is worth something only if it can find something."""

    ROOMS = {"base": set(), "merkle": {"base"}, "storage": {"merkle"},
             "hooks/files": {"base"}, "hooks/calls": {"hooks/files"}}

    def test_an_undeclared_room_of_lib_is_found(self):
        fine = '#include "merkle/a.h"\n#include "base/b.h"\n#include <vector>\n'
        self.assertEqual([], module_faults("lib/merkle/a.cc", fine, self.ROOMS))
        self.assertEqual(1, len(module_faults("lib/merkle/a.cc", '#include "storage/b.h"\n', self.ROOMS)))
        self.assertEqual(1, len(module_faults("lib/storage/a.h", '#include <base/b.h>\n', self.ROOMS)))
        self.assertEqual(1, len(module_faults("lib/storage/a.h", '#include "b.h"\n', self.ROOMS)))

    def test_an_undeclared_room_is_found(self):
        self.assertEqual([], module_faults("romio_hooks/calls/a.cc", '#include "hooks/files/b.h"\n', self.ROOMS))
        self.assertEqual([], module_faults("romio_hooks/files/a.cc", '#include "hooks/files/b.h"\n', self.ROOMS))
        self.assertEqual(1, len(module_faults("romio_hooks/files/a.cc", '#include "hooks/calls/b.h"\n', self.ROOMS)))
        self.assertEqual(1, len(module_faults("romio_hooks/calls/a.cc", '#include "base/b.h"\n', self.ROOMS)))
        self.assertEqual(1, len(module_faults("romio_hooks/files/a.cc", '#include "b.h"\n', self.ROOMS)))

    def test_a_declared_room_that_nobody_includes_is_found(self):
        self.assertEqual(["base"], unused_depends("hooks/files", ['#include <vector>\n'], self.ROOMS))
        self.assertEqual([], unused_depends("hooks/files", ['#include "base/b.h"\n'], self.ROOMS))

    def test_a_cycle_is_found(self):
        self.assertEqual([], cycle_among(self.ROOMS))
        self.assertEqual(["a", "b", "c"], cycle_among({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}))

    def test_modules_are_read_from_cmake(self):
        text = ("lzy_module(a SOURCES x.cc DEPENDS b c LIBRARIES fmt)\n"
                "lzy_module(b SOURCES y.cc\n  DEPENDS\n  c)\n# lzy_module(d)\n"
                "lzy_module(hooks/e SOURCES z.cc DEPENDS hooks/f)\n")
        self.assertEqual({"a": {"b", "c"}, "b": {"c"}, "hooks/e": {"hooks/f"}}, declared_modules(text))

    def test_mpi_is_found(self):
        self.assertEqual([], mpi_faults("lib/transport/a.cc", "#include <mpi.h>\n"))
        self.assertEqual(1, len(mpi_faults("romio_hooks/preload/a.cc", "#include <mpi.h>\n")))
        self.assertEqual(1, len(mpi_faults("lib/engine/a.cc", "  # include <mpi.h>\n")))
        self.assertEqual(1, len(mpi_faults("tools/lzy_run.cc", '#include "mpi.h"\n')))
        self.assertEqual(1, len(mpi_faults("lib/engine/a.cc", '#include "mpi/mpi_communicator.h"\n')))

    def test_an_include_of_a_parent_folder_is_found(self):
        self.assertEqual(1, len(parent_faults("lib/engine/a.cc", '#include "../merkle/tree.h"\n')))
        self.assertEqual([], parent_faults("lib/engine/a.cc", 'f("../merkle/tree.h");\n'))

    def test_a_tool_that_includes_the_hooks_is_found(self):
        self.assertEqual(1, len(neighbour_faults("romio_hooks/a.cc", '#include "tools/common/print.h"\n')))
        self.assertEqual(1, len(neighbour_faults("tools/a.cc", '#include "hooks/files/registry.h"\n')))
        self.assertEqual([], neighbour_faults("romio_hooks/calls/a.cc", '#include "hooks/files/registry.h"\n'))

    def test_the_rooms_of_the_design_are_read(self):
        text = "| `base` | x | – |\n| `comm` | y | base, merkle |\n| `files` | z | disk | base |\n| `word` | a word |\n"
        self.assertEqual({"base": set(), "comm": {"base", "merkle"}, "hooks/files": {"hooks/disk", "base"}}, rooms_of_the_design(text))

    def test_a_dead_link_is_found(self):
        self.assertEqual(1, len(dead_links("docs/faq.md", "# Part\n[x](no-such.md) [y](https://example.org/z) [w](#part)")))

    def test_a_reference_to_a_section_that_is_not_there_is_found(self):
        self.assertEqual([("1", "One (x/y)"), ("1", "Two"), (None, "Three"), (None, "Four"), (None, "Five")],
                         numbered_sections("## 1. One (x/y)\n### Two\n```\n## no\n```\n## Three\n**Four.** x\n- *Five*: y\n"))
        fine = "// docs/format.md §2. Also docs/format.md\n// §3 and §4; [format](../docs/format.md) §1, §11; docs/format.md \"Versions\"\n"
        self.assertEqual([], reference_faults("lib/a.h", fine))
        for wrong in ("docs/format.md §99", "docs/format.md\n/// §99", "docs/format.md §11, §99", "[format](../docs/format.md) §99",
                      "[format §99](../docs/format.md)", 'docs/format.md "No such"', 'docs/format.md §2, "Versions"'):
            self.assertEqual(1, len(reference_faults("lib/a.h", f"/// {wrong}.\n")), wrong)

    def test_a_link_to_a_section_that_is_not_there_is_found(self):
        text = "# A `b_c` (d/e, f)\n## Two\n## Two\n```\n# no title\n```\n"
        self.assertEqual({"a-b_c-de-f", "two", "two-1"}, sections_of(text))
        self.assertEqual([], dead_links("docs/faq.md", text + "[x](#two-1) [y](faq.md#while-you-use-it)"))
        self.assertEqual(2, len(dead_links("docs/faq.md", text + "[x](#no-title) [y](faq.md#no-such)")))

    def test_a_path_of_one_machine_is_found(self):
        self.assertEqual(1, len(machine_faults("a.md", "cd /home/ann/lzy\n")))
        if ROOT.count("/") > 1:
            self.assertEqual(1, len(machine_faults("a.md", f"see {ROOT}/lib\n")))
        self.assertEqual([], machine_faults("a.md", "lzy-verify /archive/run42; x/home/y\n"))


if __name__ == "__main__":
    unittest.main()
