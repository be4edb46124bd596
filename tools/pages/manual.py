"""usage: manual.py DIRECTORY VERSION SOURCE DESCRIPTION...

Makes the manual pages in Markdown, DIRECTORY/NAME.SECTION.md. SOURCE is the source tree of lzy. A DESCRIPTION is a file with
what a tool prints for --describe. The build turns the pages into man pages with lowdown.

A page of a tool is made of its description, of SOURCE/docs/man/TOOL.md if there is one, and of the exit codes in
docs/reference/tools.md. The page of the format is docs/format.md, that of the options docs/reference/options.md.
"""

import os
import re
import sys

import describe

HEAD = "title: {name}\nsection: {section}\nsource: lzy {version}\nvolume: lzy\n\n"


def markdown(text):
    """Plain text as Markdown: what would be markup is not."""
    return re.sub(r"([\\`*_\[\]<>|~^=$#])", r"\\\1", text)


def without_links(text):
    """Links to other documents would be names of files on a page."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def read(source, name):
    with open(os.path.join(source, name), encoding="utf-8") as file:
        return file.read()


def section_of(text, title):
    """The text of "## title" in a document, up to the next heading of its level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if not found:
        raise SystemExit(f"manual.py: there is no section '{title}'")
    return found.group(1).strip() + "\n"


def exit_codes(source):
    """The table of exit codes as a list of definitions, which needs less room, and the text behind it."""
    *rows, text = re.split(r"\n(?!\|)", section_of(read(source, "docs/reference/tools.md"), "Exit codes"), maxsplit=1)
    out = []
    for row in "\n".join(rows).splitlines()[2:]:
        code, meaning, then = (cell.strip() for cell in row.strip("|").split("|"))
        out.append(f"**{code}**\n: {meaning[0].upper() + meaning[1:]}." + ("" if then == "nothing" else f" {then}.") + "\n")
    return without_links("\n".join(out) + text)


def option_text(option):
    names = ", ".join(f"**{markdown(name)}**" for name in option.names)
    value = f" *{markdown(option.value)}*" if option.value else ""
    text = markdown(option.help[0].upper() + option.help[1:]) + "."
    if option.accepts and option.value:
        text += f" Accepts {markdown(option.accepts)}."
    if option.variable:
        text += f" Variable: **{markdown(option.variable)}**."
    return f"{names}{value}\n: {text}\n"


def tool_page(tool, source, version):
    own = f"docs/man/{tool.name}.md"
    own = read(source, own) if os.path.exists(os.path.join(source, own)) else ""
    # What comes before the first heading of the page belongs to the description.
    description, *sections = re.split(r"^(?=# )", own, flags=re.M)
    usage = re.sub(r"[A-Z]{2,}", lambda match: f"*{match[0]}*", tool.usage)
    short = tool.short[0].lower() + tool.short[1:]
    parts = [HEAD.format(name=tool.name, section=1, version=version),
             f"# NAME\n\n{tool.name} - {markdown(short)}\n",
             f"# SYNOPSIS\n\n**{tool.name}** \\[*options*\\] {usage}\n",
             f"# DESCRIPTION\n\n{markdown(tool.summary)} It changes {markdown(tool.changes)}.\n",
             description,
             "# OPTIONS\n", *map(option_text, tool.options)]
    parts += [] if tool.takes_command else ["# EXIT STATUS\n", exit_codes(source)]
    parts += [*sections, "# SEE ALSO\n", "**lzy**(7), **lzy-options**(7), **lzy-format**(5)\n"]
    return "\n".join(part for part in parts if part)


def front_page(tools, version):
    rows = "\n".join(f"**lzy {tool.name.removeprefix('lzy-')}** {markdown(tool.usage or '[options]')}\n: {markdown(tool.short)}. See **{tool.name}**(1).\n"
                     for tool in tools)
    return (HEAD.format(name="lzy", section=1, version=version)
            + "# NAME\n\nlzy - protects files of MPI programs, verifies and repairs them\n\n"
            "# SYNOPSIS\n\n**lzy** *TOOL* \\[*arguments*\\]\n\n**lzy help** *TOOL*\n\n"
            "# DESCRIPTION\n\n**lzy** *TOOL* is the program **lzy-***TOOL*, with the same arguments and exit codes. "
            "You may also start it with **mpiexec**.\n\n# TOOLS\n\n" + rows
            + "\n# OPTIONS\n\n**--help**\n: Print the list of tools and exit.\n\n**--version**\n: Print the version and exit.\n"
            "\n# EXIT STATUS\n\nThat of the tool; 3 if there is no such tool.\n\n# SEE ALSO\n\n**lzy**(7)\n")


def document_page(name, section, purpose, text, version):
    """A document of docs/ as a page: its title goes, and its headings are one level higher."""
    text = re.sub(r"\A# .*\n", "", text)
    text = re.sub(r"^#(#+ )", r"\1", text, flags=re.M)
    return HEAD.format(name=name, section=section, version=version) + f"# NAME\n\n{name} - {purpose}\n\n# DESCRIPTION\n" + without_links(text)


def main():
    directory, version, source, *paths = sys.argv[1:]
    tools = describe.read_all(paths)
    pages = {f"{tool.name}.1": tool_page(tool, source, version) for tool in tools}
    pages["lzy.1"] = front_page(tools, version)
    listed = "\n".join(f"**{tool.name}**(1)\n: {markdown(tool.short)}.\n" for tool in tools)
    overview = read(source, "docs/man/lzy.7.md").replace("@TOOLS@\n", listed)
    pages["lzy.7"] = HEAD.format(name="lzy", section=7, version=version) + without_links(overview)
    pages["lzy-options.7"] = document_page("lzy-options", 7, "options of lzy, environment variables and MPI hints",
                                           read(source, "docs/reference/options.md"), version)
    pages["lzy-format.5"] = document_page("lzy-format", 5, "the files in which lzy keeps parity and hashes",
                                          read(source, "docs/format.md"), version)
    os.makedirs(directory, exist_ok=True)
    for name, text in pages.items():
        with open(os.path.join(directory, name + ".md"), "w", encoding="utf-8") as file:
            file.write(text)


main()
