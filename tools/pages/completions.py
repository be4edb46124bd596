"""usage: completions.py DIRECTORY DESCRIPTION...

Makes the completions of all tools, and of `lzy`, for bash, zsh and fish: DIRECTORY/bash/*, DIRECTORY/zsh/_lzy,
DIRECTORY/fish/*.fish. A DESCRIPTION is a file with what a tool prints for --describe.
"""

import os
import sys

import describe

MADE = "# Made by tools/pages/completions.py from the options of the tools.\n"
FRONT_OPTIONS = {"--help": "print this and exit", "--version": "print the version and exit"}


def without_prefix(tool):
    return tool.name.removeprefix("lzy-")


# ---------------------------------------------------------------------------------------------------------------- bash

BASH = """\
# Completions of lzy for bash.
{made}
# TOOL: prints its options.
_lzy_options() {{
  case $1 in
{options}
  esac
}}

# TOOL OPTION: prints what a value of the option is: file, directory, none, or the words. Nothing for a switch.
_lzy_value() {{
  case "$1 $2" in
{values}
  esac
}}

_lzy() {{
  local tool=${{1##*/}} cur=${{COMP_WORDS[COMP_CWORD]}} first=1 at value
  COMPREPLY=()
  if [[ $tool == lzy ]]; then
    if ((COMP_CWORD == 1)) || [[ ${{COMP_WORDS[1]}} == help ]]; then
      local also=
      ((COMP_CWORD == 1)) && also='help --help --version'
      mapfile -t COMPREPLY < <(compgen -W "{tools} $also" -- "$cur")
      return
    fi
    tool=lzy-${{COMP_WORDS[1]}} first=2
  fi
  # What is behind "--" is a command with arguments of its own.
  if [[ $tool == lzy-run ]]; then
    for ((at = first; at < COMP_CWORD; ++at)); do
      [[ ${{COMP_WORDS[at]}} == -- ]] || continue
      if declare -F _command_offset >/dev/null; then
        _command_offset $((at + 1))
      elif ((at + 1 == COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      else
        compopt -o default
      fi
      return
    done
  fi
  # Bash makes words of "=" and ":". The option of a list a:b:c is before all of it.
  at=$((COMP_CWORD - 1))
  [[ $cur == [=:] ]] && at=$COMP_CWORD cur=
  while [[ ${{COMP_WORDS[at]}} == : ]]; do at=$((at - 2)); done
  [[ ${{COMP_WORDS[at]}} == = ]] && at=$((at - 1))
  value=$(_lzy_value "$tool" "${{COMP_WORDS[at]}}")
  case $value in
    file) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    directory) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    none) ;;
    ?*) mapfile -t COMPREPLY < <(compgen -W "$value" -- "$cur") ;;
    *)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_lzy_options "$tool")" -- "$cur")
      else
        compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
  esac
}}

complete -F _lzy lzy {names}
"""


def bash(tools):
    options, values = [], {}
    for tool in tools:
        words = " ".join(name for option in tool.options for name in option.names)
        options.append(f"    {tool.name}) echo '{words}' ;;")
        for option in tool.options:
            if option.value:
                kind = describe.kind_of(option)
                value = " ".join(option.choices) if kind == "choices" else kind
                values.setdefault(value, []).extend(f'"{tool.name} {name}"' for name in option.names)
    rows = ["    " + " | ".join(keys) + f") echo '{value}' ;;" for value, keys in values.items()]
    return BASH.format(made=MADE, options="\n".join(options), values="\n".join(rows),
                       tools=" ".join(map(without_prefix, tools)), names=" ".join(tool.name for tool in tools))


# ----------------------------------------------------------------------------------------------------------------- zsh

ZSH = """\
#compdef lzy {names}
# Completions of lzy for zsh.
{made}
_lzy_arguments() {{
  case $1 in
{cases}
  esac
}}

_lzy() {{
  if [[ $service != lzy ]]; then
    _lzy_arguments $service
    return
  fi
  local -a tools
  tools=(
{tools}
  )
  local curcontext=$curcontext state line
  _arguments -C {front} '1: :->tool' '*:: :->rest'
  case $state in
    tool) _describe -t tools tool tools -- "( help:'print the options of a tool' )" ;;
    rest)
      if [[ $words[1] == help ]]; then
        _describe -t tools tool tools
      else
        service=lzy-$words[1] _lzy_arguments lzy-$words[1]
      fi
      ;;
  esac
}}

_lzy "$@"
"""


def zsh_text(text):
    """In a specification of _arguments, in single quotes."""
    for special in "\\[]:":
        text = text.replace(special, "\\" + special)
    return text.replace("'", "'\\''")


def zsh_option(option):
    value = ""
    if option.value:
        action = {"choices": f"({' '.join(option.choices)})", "file": "_files", "directory": "_files -/", "none": ""}
        value = f":{zsh_text(option.value)}:{action[describe.kind_of(option)]}"
    # Options may be repeated: lists add up, and of all others the last one counts.
    specs = [f"'*{name}{'=' if option.value and name.startswith('--') else ''}[{zsh_text(option.help)}]{value}'"
             for name in option.names]
    return " ".join(specs)


def zsh(tools):
    cases = []
    for tool in tools:
        specs = [zsh_option(option) for option in tool.options]
        specs.append("'(-)1:command: _command_names -e' '*::arguments: _normal'" if tool.takes_command else "'*:path:_files'")
        cases.append(f"    {tool.name})\n      _arguments -S " + " \\\n        ".join(specs) + "\n      ;;")
    described = [f"    '{without_prefix(tool)}:{zsh_text(tool.short)}'" for tool in tools]
    front = " ".join(f"'(- *){name}[{text}]'" for name, text in FRONT_OPTIONS.items())
    return ZSH.format(made=MADE, names=" ".join(tool.name for tool in tools), cases="\n".join(cases),
                      tools="\n".join(described), front=front)


# ---------------------------------------------------------------------------------------------------------------- fish

def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_options(tool, command, condition=""):
    lines = []
    for option in tool.options:
        words = [f"complete -c {command}{condition}"]
        words += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
        if option.value:
            kind = describe.kind_of(option)
            words.append({"choices": f"-x -a {fish_text(' '.join(option.choices))}", "file": "-r -F",
                          "directory": "-x -a '(__fish_complete_directories)'", "none": "-x"}[kind])
        lines.append(" ".join(words + ["-d", fish_text(option.help)]))
    if tool.takes_command:
        # The words to skip, then options with a value. The single "-" ends the options of the function itself.
        with_value = " ".join(name for option in tool.options if option.value for name in option.names)
        skip = 2 if condition else 1
        lines.append(f"complete -c {command}{condition} -x -a '(__fish_complete_subcommand --fcs-skip={skip} - {with_value})'")
    return "\n".join(lines) + "\n"


def fish(tool):
    return f"# Completions of {tool.name} for fish.\n{MADE}\n" + fish_options(tool, tool.name)


def fish_front(tools):
    out = f"# Completions of lzy for fish.\n{MADE}\n"
    for tool in tools:
        out += (f"complete -c lzy -n __fish_use_subcommand -f -a {without_prefix(tool)} -d {fish_text(tool.short)}\n")
    out += "complete -c lzy -n __fish_use_subcommand -f -a help -d 'print the options of a tool'\n"
    for name, text in FRONT_OPTIONS.items():
        out += f"complete -c lzy -n __fish_use_subcommand -l {name[2:]} -d {fish_text(text)}\n"
    names = " ".join(map(without_prefix, tools))
    out += f"complete -c lzy -n '__fish_seen_subcommand_from help' -f -a {fish_text(names)}\n"
    for tool in tools:
        condition = f"\"__fish_seen_subcommand_from {without_prefix(tool)}\""
        out += "\n" + fish_options(tool, "lzy", f" -n {condition}")
    return out


def main():
    directory, *paths = sys.argv[1:]
    tools = describe.read_all(paths)

    def write(name, text):
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    # bash and fish look for a file with the name of the command. All of bash's are one.
    write("bash/lzy", bash(tools))
    write("zsh/_lzy", zsh(tools))
    write("fish/lzy.fish", fish_front(tools))
    for tool in tools:
        link = os.path.join(directory, "bash", tool.name)
        if not os.path.islink(link):
            os.symlink("lzy", link)
        write(f"fish/{tool.name}.fish", fish(tool))


main()
