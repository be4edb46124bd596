"""docs/reference/messages.md explains the messages of the source (messages.py finds them), and only those."""

import os
import re
import unittest

import messages

PAGE = "docs/reference/messages.md"
# Explained by one rule at the top of the page, for all messages of their kind.
BY_RULE = {"kInvalidArgument", "kInternal"}
LEAST_LETTERS = 9  # what has fewer is a part of another message


def letters(text):
    return len(re.findall(r"[A-Za-z]", text))


def entries():
    """The messages that the page explains, each from a first column of a table."""
    with open(os.path.join(messages.ROOT, PAGE), encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("| `")]
    return [entry for row in rows for entry in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def pattern(entry):
    return re.compile(".*".join(re.escape(part) for part in entry.split(messages.GAP)))


def unexplained(found, explained):
    patterns = [pattern(entry) for entry in explained]
    return [f"{place}: {text}" for code, text, place in found
            if code not in BY_RULE and letters(text) >= LEAST_LETTERS and not any(p.fullmatch(text) for p in patterns)]


class Messages(unittest.TestCase):
    def test_all_are_explained(self):
        found = list(messages.messages())
        self.assertGreater(len(found), 300)
        self.assertEqual(unexplained(found, entries()), [], f"add them to {PAGE}")

    def test_all_that_is_explained_exists(self):
        # Some of those that the rule at the top explains have an entry all the same.
        texts = [text for _, text, _ in messages.messages()]
        self.assertEqual([e for e in entries() if not any(pattern(e).fullmatch(text) for text in texts)], [])

    def test_no_entry_is_for_everything(self):
        self.assertEqual([entry for entry in entries() if letters(entry) < 5], [])
        self.assertEqual(sorted(e for e in entries() if entries().count(e) > 1), [])


class TheSearchItself(unittest.TestCase):
    def texts(self, source, place="lib"):
        return [(code, text) for code, text, _ in messages.messages_of(source, messages.TELLING[place])]

    def test_failures(self):
        self.assertEqual(self.texts('return {Code::kIo, fmt::format("{}: no "\n  "room for {:.1f}", path, F("x"))};'),
                         [("kIo", "…: no room for …")])
        self.assertEqual(self.texts('return Status(Code::kBusy, path + ": is locked");'), [("kBusy", "…: is locked")])
        self.assertEqual(self.texts('s = {Code::kIo, a ? "one way" : b + " or another"};'), [("kIo", "one way"), ("kIo", "… or another")])
        self.assertEqual(self.texts('return {s.code(), "no luck: " + s.message()};'), [("", "no luck: …")])
        self.assertEqual(self.texts('// {Code::kIo, "a comment"}\nf("Code::kIo, no");'), [])
        self.assertEqual(self.texts('x = {Code::kIo, SystemError(path)};'), [("kIo", "")])

    def test_warnings(self):
        self.assertEqual(self.texts('report.warnings.push_back(fmt::format("{}: {}", p, a ? "it is not what it was" : ""));'),
                         [("", "…: …"), ("", "it is not what it was")])
        self.assertEqual(self.texts('Say("a place", why.c_str());', "romio_hooks"), [("", "a place: …")])
        self.assertEqual(self.texts('Put(stderr, fmt::format("{}: no {}\\n", tool, x));', "tools"), [("", "…: no …\n")])

    def test_an_unexplained_one_is_found(self):
        found = [("kIo", "…: the moon is full", "x.cc:1"), ("kInvalidArgument", "…: any number of moons", "x.cc:2")]
        self.assertEqual(unexplained(found, ["…: the moon is new"]), ["x.cc:1: …: the moon is full"])
        self.assertEqual(unexplained(found, ["…: the … is full"]), [])


if __name__ == "__main__":
    unittest.main()
