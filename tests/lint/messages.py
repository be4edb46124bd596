"""Finds the messages in the source that a user can meet: what docs/reference/messages.md must explain.

A message is a text with `…` for each part that differs from case to case. Two kinds count:

- what is told: the text arguments of the functions in TELLING, and warnings of reports;
- failures: the text beside a `Code::k…` or `code()`, in a Status or Result.

No compiler is at work here. A text that is put together far away from its code is seen in part, or not at all.
"""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACES = ["lib", "romio_hooks", "tools"]
# The callee, and which of its arguments can be told.
TELLING = {
    "lib": r"\bwarnings\.(?:push_back|emplace_back|insert)\(",
    "romio_hooks": r"\b(?:Say|SayInFirstProcess|SayOnce|refuse)\(|\btext \+?= fmt::format\(",
    "tools": r"\b(?:Warn|Finding)\(|(?<=Put\(stderr, )fmt::format\(",
}
# A code by its name, or that of another failure.
FAILING = re.compile(r"\b(?:Code::(k\w+)|code\(\))\s*,")
GAP = "…"

TOKEN = re.compile(r"""
    //[^\n]*
  | /\*.*?\*/
  | R"(?P<fence>[^(\s]*)\((?P<raw>.*?)\)(?P=fence)"
  | "(?P<text>(?:\\.|[^"\\\n])*)"
  | '(?:\\.|[^'\\\n])+'
  | \s+
  | [A-Za-z_]\w*
  | \d[\w.']*
  | .
""", re.X | re.S)


def tokens_of(source):
    """Pairs of kind and text; comments and spaces are left out. Kinds: "text" (the content of a literal) and "code"."""
    for match in TOKEN.finditer(source):
        word = match.group()
        if match.group("text") is not None:
            yield "text", match.group("text").replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\"), match.start()
        elif match.group("raw") is not None:
            yield "text", match.group("raw"), match.start()
        elif not word.isspace() and not word.startswith(("//", "/*")):
            yield "code", word, match.start()


def arguments(tokens, start):
    """The arguments from token `start`, which follows an opening bracket: lists of tokens."""
    depth = 0
    found = [[]]
    for kind, word, _ in tokens[start:]:
        if kind == "code":
            if word in "([{":
                depth += 1
            elif word in ")]}":
                if depth == 0:
                    break
                depth -= 1
            elif (word == "," and depth == 0) or word == ";":
                found.append([])
                continue
        # Literals side by side are one.
        if kind == "text" and found[-1] and found[-1][-1][0] == "text":
            word = found[-1].pop()[1] + word
        found[-1].append((kind, word))
    return found


def template(expression):
    """The text of an expression, with GAP for all that is not a literal; "" without any. A choice (?:) has each of its texts."""
    out = ""
    depth = 0
    gap = False
    formats = []  # depths of calls of fmt::format, whose first argument is the text
    skip = None  # depth whose arguments are values of a format
    for i, (kind, word) in enumerate(expression):
        if kind == "text":
            if skip is None:
                text = re.sub(r"\{[^{}]*\}", GAP, word) if formats else word
                text = text.replace("{{", "{").replace("}}", "}")
                out += (GAP if gap else "") + text
                gap = False
            continue
        if word in "([{":
            depth += 1
            if word == "(" and i and expression[i - 1][1] == "format":
                formats.append(depth)
        elif word in ")]}":
            if skip == depth:
                skip = None
            if formats and formats[-1] == depth:
                formats.pop()
            depth -= 1
        elif word == "," and formats and formats[-1] == depth:
            skip = depth
        elif skip is None and re.match(r"\w", word) and word not in ("fmt", "format", "std", "string"):
            gap = True
    if gap:
        out += GAP
    return re.sub(f"{GAP}+", GAP, out) if out.strip(GAP) else ""


def values(expression):
    """Sentences among the values that a format puts into its gaps."""
    shown = template(expression)
    for kind, word in expression:
        text = re.sub(r"\{[^{}]*\}", GAP, word)
        if kind == "text" and len(text.split()) >= 4 and text not in shown:
            yield text


def choices(expression):
    """The expression itself, or what it is in each case of a ?: at its top."""
    depth = 0
    question = colon = None
    for i, (kind, word) in enumerate(expression):
        if kind != "code":
            continue
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif depth == 0 and word == "?" and question is None:
            question = i
        # The two of "::" are not that of a choice.
        elif depth == 0 and word == ":" and question is not None and colon is None and \
                ":" not in (expression[i - 1][1], expression[i + 1][1]):
            colon = i
    if question is None or colon is None:
        return [expression]
    return choices(expression[question + 1:colon]) + choices(expression[colon + 1:])


def messages_of(source, telling):
    """Pairs (code or "", text) with the offset of each."""
    tokens = list(tokens_of(source))
    at = {offset: i for i, (_, _, offset) in enumerate(tokens)}
    found = []
    for match in FAILING.finditer(source):
        comma = match.end() - 1
        if comma in at and match.start() in at:  # not in a comment or literal
            for expression in choices(arguments(tokens, at[comma] + 1)[0]):
                for text in [template(expression), *values(expression)]:
                    found.append((match.group(1) or "", text, match.start()))
    for match in re.finditer(telling, source):
        if match.start() not in at:
            continue
        bracket = next(i for i in range(at[match.start()], len(tokens)) if tokens[i][1] == "(")
        is_format = "print" in match.group() or "format" in match.group()
        told = arguments(tokens, bracket + 1)
        where = ""
        if is_format:
            told = [next(argument for argument in told if argument and argument[0][0] == "text")]
        elif len(told) == 2 and template(told[0]) and GAP not in template(told[0]):
            # Say(where, what) puts them together.
            where = template(told.pop(0)) + ": "
        for argument in told:
            for expression in choices(argument):
                text = (where + (template(expression) or GAP)) if where else template(expression)
                if is_format:
                    text = re.sub(r"\{[^{}]*\}", GAP, text)
                for each in [text, *([] if is_format else values(expression))]:
                    if " " in each:  # not a key or a name
                        found.append(("", each, match.start()))
    return found


def sources():
    for place in PLACES:
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, place))):
            for name in sorted(names):
                if name.endswith((".cc", ".h")) and not name.endswith("_test.cc"):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def messages():
    """All of them: (code or "", text, "file:line")."""
    for path in sources():
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            source = file.read()
        for code, text, offset in messages_of(source, TELLING[path.partition(os.sep)[0]]):
            if text:
                line = source.count("\n", 0, offset) + 1
                yield code, " ".join(text.split()), f"{path}:{line}"


if __name__ == "__main__":
    for code, text, place in messages():
        print(f"{code or 'told'}\t{text}\t{place}")
