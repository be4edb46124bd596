#!/usr/bin/python3 -ESs
"""A compiler launcher: reuse_objects.py LIST COMPILER ARGUMENT...

If the build that LIST is of has compiled the same source with the same options, its object file is taken; otherwise the
compiler runs. So a test goes through a whole build, with each rule, link and generated file, in the time that linking takes.
"""

import json
import os
import shlex
import shutil
import sys


def option(arguments, name):
    return arguments[arguments.index(name) + 1] if name in arguments else None


def key(arguments, source, build):
    """What decides about the object: options without names of the output, with the directories of this tree left open."""
    kept, skip = [], False
    for argument in arguments:
        if skip or argument in ("-o", "-MT", "-MF"):
            skip = not skip
        elif argument not in ("-MD", "-Werror"):
            kept.append(argument.replace(build + "/", "@B/").replace(source + "/", "@S/"))
    return "\0".join(sorted(kept))


def write_list(path, source, build):
    """Makes LIST, of the objects of a build."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    objects = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        if os.path.basename(words[0]) == "ccache":
            words = words[1:]
        objects[key(words[1:], source, build)] = os.path.join(entry["directory"], option(words, "-o"))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(objects, file)


def main():
    listed, command = sys.argv[1], sys.argv[2:]
    source, build = os.environ["REUSE_SOURCE"], os.environ["REUSE_BUILD"]
    with open(listed, encoding="utf-8") as file:
        there = json.load(file).get(key(command[1:], source, build))
    if not there or not os.path.exists(there):
        with open(listed + ".compiled", "a", encoding="utf-8") as log:
            log.write(" ".join(command[-1:]) + "\n")
        os.execvp(command[0], command)
    shutil.copyfile(there, option(command, "-o"))
    if dependencies := option(command, "-MF"):
        with open(dependencies, "w", encoding="utf-8") as file:
            file.write(f"{option(command, '-MT')}: {command[-1]}\n")


if __name__ == "__main__":
    main()
