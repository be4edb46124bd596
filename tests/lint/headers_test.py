"""Each header compiles alone, with any version of the C++ library.

A header that comes first in a source is compiled alone by the build. Those without a source of their own get one
(CMakeLists.txt here), so what is left is that sources begin with their own header. But whether <functional> brings
std::any_of along depends on the version of the C++ library, so names are looked up, too.
"""

import functools
import os
import re
import unittest

from levels_test import ROOT, includes_in, text_of, tree_files

# Which header each name of the C++ library is in: those that other headers bring along in some versions and not in others.
NAMES = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if equal
        equal_range fill fill_n find find_first_of find_if find_if_not for_each for_each_n generate generate_n includes
        is_permutation is_sorted lexicographical_compare lower_bound max max_element merge min min_element minmax mismatch
        move_backward next_permutation none_of nth_element partial_sort partition partition_point remove_copy_if remove_if
        replace reverse rotate search set_difference set_intersection set_union shuffle sort stable_partition stable_sort
        swap_ranges transform unique upper_bound""",
    "array": "array to_array",
    "atomic": "atomic atomic_flag atomic_bool memory_order_relaxed memory_order_acquire memory_order_release",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount rotl",
    "cassert": "",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "abs ceil exp floor fabs isfinite isnan lgamma log log2 pow round sqrt",
    "condition_variable": "condition_variable condition_variable_any",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t",
    "cstring": "memchr memcmp memcpy memmove memset strchr strcmp strerror strlen strncmp strrchr strstr",
    "deque": "deque",
    "exception": "exception exception_ptr current_exception rethrow_exception terminate",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "bind function hash invoke mem_fn not_fn",
    "future": "async future promise packaged_task",
    "iterator": "back_inserter inserter istreambuf_iterator make_move_iterator",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "enable_shared_from_this make_shared make_unique shared_ptr static_pointer_cast unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock",
    "new": "bad_alloc nothrow",
    "numeric": "accumulate gcd inclusive_scan iota lcm partial_sum reduce",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": "mt19937 mt19937_64 random_device uniform_int_distribution uniform_real_distribution",
    "regex": "regex regex_match regex_search",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument logic_error out_of_range runtime_error",
    "string": "getline stoi stol stoll stoul stoull string to_string",
    "string_view": "string_view",
    "thread": "jthread thread",
    "tuple": "apply make_tuple tie tuple tuple_size",
    "type_traits": "decay_t enable_if_t is_arithmetic_v is_base_of_v is_convertible_v is_enum_v is_same_v is_void_v "
                   "make_unsigned_t remove_cvref_t underlying_type_t",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
# What the standard itself says of other headers.
ALSO = {"string": {"string_view"}, "sstream": {"string"}}


def plain(text):
    """Without comments and string literals."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/', " ", text, flags=re.S)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def needed(text):
    """{header: a name for which it is needed}"""
    found = {}
    for space, name in re.findall(r"\bstd::(ranges::)?(\w+)", plain(text)):
        header = HEADER_OF.get(name)
        if header and (not space or header in ("algorithm", "numeric")):
            found.setdefault(header, "std::" + space + name)
    return found


class Tree:
    """Which headers of the C++ library a file of `sources` ({path: text}) has, by itself or by headers of this project."""

    def __init__(self, sources):
        self.sources = sources
        self.by_name = {}
        for path in sources:
            parts = path.split("/")
            for at in range(len(parts)):
                self.by_name.setdefault("/".join(parts[at:]), []).append(path)

    def path_of(self, name, includer):
        """The file of this project that an include names, or None."""
        beside = os.path.join(os.path.dirname(includer), name)
        candidates = self.by_name.get(re.sub("^hooks/", "romio_hooks/", name), [])
        return beside if beside in self.sources else candidates[0] if candidates else None

    @functools.cache
    def standard(self, path):
        # Headers do not include each other in circles.
        headers = set()
        for _, name, _ in includes_in(self.sources[path]):
            other = self.path_of(name, path)
            headers |= self.standard(other) if other else {name} | ALSO.get(name, set())
        return headers

    def faults(self, path):
        return [f"{path}: has {name}, and does not include <{header}>"
                for header, name in sorted(needed(self.sources[path]).items()) if header not in self.standard(path)]


def own_header(path, sources):
    """The header of a source, or None."""
    header = re.sub(r"\.(cc|c)$", ".h", path)
    return header if header != path and header in sources else None


def begins_with_its_own(path, sources):
    header = own_header(path, sources)
    first = next(includes_in(sources[path]), (0, "", True))[1]
    return header is None or (bool(first) and ("/" + header).replace("/romio_hooks/", "/hooks/").endswith("/" + first))


class Headers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.sources = {path: text_of(path) for path in tree_files() if path.endswith((".h", ".cc", ".c"))}

    def test_every_source_begins_with_its_own_header(self):
        own = [path for path in self.sources if own_header(path, self.sources)]
        self.assertGreater(len(own), 100)
        self.assertEqual([], [path for path in own if not begins_with_its_own(path, self.sources)])

    def test_every_header_without_a_source_is_compiled_alone(self):
        # tests/lint/CMakeLists.txt writes the list.
        with open(os.environ["LINT_TEST_HEADERS"], encoding="utf-8") as file:
            compiled = file.read().split()
        with_source = {own_header(path, self.sources) for path in self.sources}
        self.assertEqual(sorted(path for path in self.sources if path.endswith(".h") and path not in with_source), sorted(compiled))

    def test_what_is_used_of_the_standard_library_is_included(self):
        cpp = {path: text for path, text in self.sources.items() if not path.endswith(".c")}
        tree = Tree(cpp)
        self.assertEqual([], [fault for path in cpp for fault in tree.faults(path)])


class TheChecks(unittest.TestCase):
    def test_a_missing_include_is_found(self):
        tree = Tree({"lib/a/x.h": "#include <functional>\nstd::any_of(a, b); // std::vector\n",
                     "lib/a/y.h": '#include <algorithm>\n#include "a/x.h"\nstd::ranges::sort(v); f("std::set");\n',
                     "lib/a/z.cc": '#include "a/y.h"\nstd::sort(a, b); std::string_view(c);\n#include <string>\n'})
        self.assertEqual(["lib/a/x.h: has std::any_of, and does not include <algorithm>"], tree.faults("lib/a/x.h"))
        self.assertEqual([], tree.faults("lib/a/y.h") + tree.faults("lib/a/z.cc"))

    def test_a_source_that_begins_with_another_header_is_found(self):
        sources = {"lib/a/x.h": "", "lib/a/x.cc": '// x\n#include "a/x.h"\n#include <vector>\n', "lib/a/y.h": "",
                   "lib/a/y.cc": '#include <vector>\n#include "a/y.h"\n', "romio_hooks/b/z.h": "",
                   "romio_hooks/b/z.cc": '#include "hooks/b/z.h"\n', "lib/a/alone.cc": "#include <vector>\n"}
        self.assertEqual(["lib/a/y.cc"], [path for path in sources if not begins_with_its_own(path, sources)])


if __name__ == "__main__":
    unittest.main()
