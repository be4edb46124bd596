"""Finds the commands that messages tell to type next."""

import re
import shlex

# The word of a command: plain characters, or quoted as a shell reads it.
WORD = r"""(?:[^\s;'"()`$,]|'[^']*'|\$'(?:[^'\\]|\\.)*'|\\.)(?:[^\s;'"()`$]|'[^']*'|\$'(?:[^'\\]|\\.)*'|\\.)*"""
TOOL = r"lzy-(?:protect|verify|restore|info|scrub|status|copy|diff)"
# Commands of the shell that give files other names or make copies, and overwrite nothing.
MOVE = rf"(?:mv -n|cp -np|mkdir)(?: (?!&&){WORD})+"
# What follows a colon is to be typed; tools are also named in sentences.
FIRST = re.compile(rf"; first move it away: (mv -n {WORD} {WORD})")
STEP = re.compile(rf": ((?:{MOVE} && )*(?:(?:rm (?:{WORD})(?: {WORD})*; )?{TOOL}(?: {WORD})*|rm {WORD}(?: {WORD})*|{MOVE}))")
# Words that the user has to replace.
BLANKS = {"PATH", "REPLICA", "FILE", "COPY", "RANKS", "DIR", "SRC", "DST"}
TERMINAL = re.compile(r"\b(lzy-protect)\b(?=[^;]*--remove)")


def next_steps(text):
    """The commands of a text that can be typed as they are, in their order, each once."""
    steps, first = [], ""
    for line in text.splitlines():
        # What has to be done before all else for one dataset: its lines begin with spaces.
        if not line.startswith(" "):
            first = ""
        if "copy the rest from a backup, then" in line:
            continue  # there is none
        away = FIRST.search(line)
        if away:
            first += away.group(1) + " && "
            line = line.replace(away.group(0), "")  # it is part of the next command
        for match in STEP.finditer(line):
            step = match.group(1)
            if BLANKS & set(re.split(r"[\s;:]+", step)) or first + step in steps:
                continue
            steps.append(first + step)
    return steps


def moves_of(step):
    """The commands of a step that move files, each as its words."""
    parts = [part.strip() for part in re.split(r"&&", step)]
    return [[unquoted(word) for word in re.findall(WORD, part)] for part in parts if re.match(r"(?:mv|cp -np|mkdir) ", part)]


def moved_by(step):
    """The paths that a step moves away."""
    return [path for words in moves_of(step) if words[0] == "mv" for path in words[1:-1] if path != "-n"]


def typed(step):
    """The same command where there is no terminal: lzy-protect --remove would ask."""
    return TERMINAL.sub(r"\1 --yes", step)


def words_of(step):
    """The words of the last command of a step, without quotes."""
    words = re.findall(WORD, step)
    last = max((i for i, word in enumerate(words) if re.fullmatch(TOOL, word)), default=0)
    return [unquoted(word) for word in words[last:]]


def unquoted(word):
    if word.startswith("$'"):
        return word[2:-1].encode().decode("unicode_escape").encode("latin-1", "surrogateescape").decode(errors="surrogateescape")
    return shlex.split(word)[0]


def tool_of(step):
    words = words_of(step)
    return words[0] if words else ""


def options_of(step):
    return {word.split("=")[0] for word in words_of(step)[1:] if word.startswith("-")}


def paths_of(step):
    return [word for word in words_of(step)[1:] if not word.startswith("-")]


def says_destroy(step):
    """Whether a command says that it takes something away: then it may."""
    return bool({"--force", "--remove", "--forget"} & options_of(step)) or step.startswith("rm ")
