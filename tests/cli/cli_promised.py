"""What docs/reference/compatibility.md promises: nothing that scripts and programs rely on goes, or gets another number."""

import json
import os
import re
import unittest

from harness import VERSION, CliTest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OPTION = r"^ +(?:-\w, ?)?(--[a-z][a-z-]+)"  # in --help


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Promises(CliTest):
    """promised.json only ever grows within a major version. What is new may be added there at the release."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(HERE, "promised.json"), encoding="utf-8") as file:
            self.promised = json.load(file)
        self.headers = text_of("lib/include/lzy/lzy.h") + text_of("lib/include/lzy/exchange.h")

    def test_tools_and_their_options(self):
        for tool, options in self.promised["tools"].items():
            found = set(re.findall(OPTION, self.check(0, f"lzy-{tool}", "--help").stdout, re.M))
            self.assertEqual([], sorted(set(options) - found), tool)

    def test_options(self):
        found = re.findall(r'\{\{"([a-z-]+)",', text_of("lib/request/options.cc"))
        self.assertEqual([], sorted(set(self.promised["options"]) - set(found)))

    def test_numbers(self):
        found = {name: int(number) for name, number in re.findall(r"\b(LZY_[A-Z_]+) = (\d+)", self.headers)}
        for name, number in self.promised["numbers"].items():
            self.assertEqual(found.get(name), number, name)

    def test_functions(self):
        found = re.findall(r"^LZY_API [^(;]*?\b(lzy_\w+)\(", self.headers, re.M)
        self.assertEqual([], sorted(set(self.promised["functions"]) - set(found)))

    def test_the_exit_codes_are_the_codes_of_the_library(self):
        told = {int(code) for code in re.findall(r"^\| (\d+) \|", text_of("docs/reference/tools.md"), re.M)}
        codes = text_of("lib/include/lzy/lzy.h").split("typedef enum lzy_code")[1].split("}")[0]
        self.assertEqual(told, {int(number) for number in re.findall(r" = (\d+)", codes)})

    def test_the_changelog_has_this_version(self):
        self.assertEqual(re.findall(r"^## (\d+\.\d+\.\d+)", text_of("CHANGELOG.md"), re.M)[0], VERSION)


if __name__ == "__main__":
    unittest.main()
