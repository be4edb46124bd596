"""What tools tell about themselves (--describe, tools/common/arguments.h), for the scripts of this folder."""

import dataclasses
import os


@dataclasses.dataclass
class Option:
    names: list  # ["-q", "--quiet"]
    value: str   # placeholder; empty for a switch
    variable: str
    choices: list
    accepts: str
    help: str

    @property
    def long(self):
        return self.names[-1]


@dataclasses.dataclass
class Tool:
    name: str = ""
    summary: str = ""
    changes: str = ""
    usage: str = ""
    options: list = dataclasses.field(default_factory=list)

    @property
    def takes_command(self):
        return self.usage.startswith("-- ")

    @property
    def short(self):
        """The first sentence of the summary, without its full stop."""
        return self.summary.split(". ")[0].rstrip(".")


def parse(text):
    tool = Tool()
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "option":
            names, value, variable, choices, accepts, help_text = fields
            tool.options.append(Option(names.split(","), value, variable, choices.split(), accepts, help_text))
        else:
            # An unknown kind is a mistake of whoever adds it, and ends here.
            setattr(tool, {"tool": "name", "summary": "summary", "changes": "changes", "usage": "usage"}[kind], fields[0])
    return tool


def read(path):
    with open(path, encoding="utf-8") as file:
        return parse(file.read())


def read_all(paths):
    tools = [read(path) for path in paths]
    for tool, path in zip(tools, paths):
        if tool.name != os.path.basename(path).removesuffix(".txt"):
            raise SystemExit(f"{path}: it describes '{tool.name}'")
    return tools


# What the value of an option is, by its placeholder. All other values are not completed, unless they have choices.
KINDS = {"FILE": "file", "PATH": "file", "PATTERNS": "file", "REPLICA": "file",
         "DIR": "directory", "DIRS": "directory", "DIRECTORY": "directory"}


def kind_of(option):
    """Of an option with a value: "choices", "file", "directory" or "none"."""
    return "choices" if option.choices else KINDS.get(option.value, "none")
