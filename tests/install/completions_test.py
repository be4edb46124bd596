"""The installed completions, typed into real shells on a terminal."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from prefix import TOOLS, Prefix, plain_environment

PATIENCE = 60  # seconds for a shell to answer
PROMPT = "ready> "
TAB, BEGIN, END, CLEAR = "\t", "\x01", "\x05", "\x15"


class Shell:
    """An interactive shell on a terminal of its own, in `directory`."""

    def __init__(self, words, directory, **environment):
        self.said = ""
        self.count = 0
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            # No answers that depend on the user's own settings.
            os.execvpe(words[0], words, plain_environment(TERM="xterm", LC_ALL="C.UTF-8", HOME=directory, **environment))
        # Large, so that no shell asks whether it shall show so many lines.
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 300, 200, 0, 0))

    def close(self):
        os.close(self.terminal)
        # The end of the terminal ends the shell.
        os.waitpid(self.pid, 0)

    def read_until(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.said):
            ready, _, _ = select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"the shell did not say {pattern!r}, but: {self.said!r}")
            self.said += os.read(self.terminal, 65536).decode("utf-8", errors="replace")
        found = re.search(pattern, self.said)
        before, self.said = self.said[:found.end()], self.said[found.end():]
        return before

    def type(self, text):
        os.write(self.terminal, text.encode())

    def run(self, command):
        """Ends when the shell is ready again. The mark is printed in another form than it is typed."""
        self.count += 1
        self.type(f"{command}; printf 'en''d%s\\n' {self.count}\r")
        self.read_until(rf"end{self.count}\r?\n")
        self.wait_for_prompt()

    def wait_for_prompt(self):
        """What is typed earlier would go to the terminal, not to the editor of the shell."""
        self.read_until(PROMPT)

    def completed(self, text):
        """The words into which the shell completes the typed text."""
        self.count += 1
        self.type(f"{text}{TAB}{BEGIN}printf '<%s>' {END} 'en''d{self.count}'\r")
        words = re.findall(r"<([^<>]*)>", self.read_until(rf"<end{self.count}>"))
        self.wait_for_prompt()
        # The last word is ours.
        return words[-len(text.split()) - 1:-1]

    def listed(self, text):
        """What the shell shows when it cannot complete the text further."""
        self.count += 1
        self.type(f"{text}{TAB}{TAB}")
        self.type(f"{CLEAR}printf '<%s>' 'en''d{self.count}'\r")
        listed = self.read_until(rf"<end{self.count}>")
        self.wait_for_prompt()
        return listed


class Completions(Prefix):
    # What is typed, and the words that come of it.
    CASES = [("lzy-verify --rep", ["lzy-verify", "--repair"]),
             ("lzy-protect --blo", ["lzy-protect", "--block-size"]),
             ("lzy-run --on-error f", ["lzy-run", "--on-error", "fail"]),
             ("lzy-run --on-error=w", ["lzy-run", "--on-error=warn"]),
             ("lzy-run --report rep", ["lzy-run", "--report", "report.json"]),
             ("lzy-run --device-dirs arch", ["lzy-run", "--device-dirs", "archive/"]),
             ("lzy-verify --repair arch", ["lzy-verify", "--repair", "archive/"]),
             ("lzy-info --map rep", ["lzy-info", "--map", "report.json"]),
             ("lzy-run --parity 2 -- mkdi", ["lzy-run", "--parity", "2", "--", "mkdir"]),
             ("lzy-copy --verify ca", ["lzy-copy", "--verify", "cache"]),
             ("lzy ver", ["lzy", "verify"]),
             ("lzy help rest", ["lzy", "help", "restore"]),
             ("lzy verify --rep", ["lzy", "verify", "--repair"]),
             ("lzy run --log=de", ["lzy", "run", "--log=debug"])]

    def setUp(self):
        super().setUp()
        os.makedirs(f"{self.dir}/archive")
        for name in ("report.json", "not a directory"):
            with open(f"{self.dir}/{name}", "w", encoding="utf-8"):
                pass

    def start(self, words, **environment):
        shell = Shell(words, self.dir, PATH=f"{self.prefix}/bin:{os.environ['PATH']}", **environment)
        self.addCleanup(shell.close)
        return shell

    def check_cases(self, shell, besides=()):
        for typed, words in [*self.CASES, *besides]:
            done = [word.rstrip("=") if word.startswith("--") else word for word in shell.completed(typed)]
            self.assertEqual(done, words, typed)

    def options(self, tool):
        """As --help has them."""
        lines = re.findall(r"^  (-\S+)", self.tool(0, tool, "--help"), re.M)
        return {name for names in lines for name in names.split(",")}

    def directory(self, suffix):
        return os.path.dirname(self.installed(suffix))


class Bash(Completions):
    def setUp(self):
        super().setUp()
        self.files = self.directory("/completions/lzy")

    def bash(self, script):
        return self.run_it(0, "bash", "--noprofile", "--norc", "-c", script)

    def test_every_command_has_a_file(self):
        # bash-completion looks for a file with the name of the command.
        self.assertEqual(set(os.listdir(self.files)), {"lzy", *TOOLS})
        for name in ["lzy", *TOOLS]:
            self.assertIn(f"-F _lzy {name}\n", self.bash(f"source '{self.files}/{name}'; complete -p {name}"))

    def test_options_are_those_of_help(self):
        for tool in TOOLS:
            for words in ([tool], ["lzy", tool.removeprefix("lzy-")]):
                script = f"source '{self.files}/lzy'; compopt() {{ :; }}; COMP_WORDS=({' '.join(words)} -); COMP_CWORD={len(words)}; _lzy {words[0]}"
                shown = self.bash(script + '; printf "%s\\n" "${COMPREPLY[@]}"')
                self.assertEqual(set(shown.split()), self.options(tool))

    def test_typed(self):
        shell = self.start(["bash", "--noprofile", "--norc", "-i"], INPUTRC="/dev/null", PS1=PROMPT)
        shell.run(f"bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; source '{self.files}/lzy'")
        # The last element of a list.
        self.check_cases(shell, [("lzy-run --device-dirs archive:arch", ["lzy-run", "--device-dirs", "archive:archive/"])])


class Zsh(Completions):
    def zsh(self):
        shell = self.start(["zsh", "-f", "-i"], PS1=PROMPT)
        shell.run(f"unsetopt beep prompt_sp auto_remove_slash; LISTMAX=1000; fpath=('{self.directory('/_lzy')}' $fpath)")
        shell.run("autoload -Uz compinit; compinit -u -D; bindkey -e")
        return shell

    def test_options_are_those_of_help(self):
        shell = self.zsh()
        for tool in TOOLS:
            listed = shell.listed(f"{tool} --")
            self.assertEqual(set(re.findall(r"--[a-z][a-z-]*", listed)), {o for o in self.options(tool) if o[1] == "-"}, tool)

    def test_tools_are_listed(self):
        listed = self.zsh().listed("lzy ")
        for tool in TOOLS:
            self.assertRegex(listed, rf"(?<![a-z]){tool.removeprefix('lzy-')} +-- \w")

    def test_typed(self):
        self.check_cases(self.zsh())


class Fish(Completions):
    def setUp(self):
        super().setUp()
        self.path = f"set -g fish_complete_path '{self.directory('/lzy.fish')}' $fish_complete_path"

    def offered(self, line):
        done = self.run_it(0, "fish", "--no-config", "-c", f"{self.path}; complete -C '{line}'", HOME=self.dir,
                           PATH=f"{self.prefix}/bin:{os.environ['PATH']}")
        return {row.split("\t")[0] for row in done.splitlines()}

    def test_options_are_those_of_help(self):
        for tool in TOOLS:
            expected = {name for name in self.options(tool) if name.startswith("--")}
            self.assertEqual(self.offered(f"{tool} --"), expected)
            self.assertEqual(self.offered(f"lzy {tool.removeprefix('lzy-')} --"), expected)

    def test_tools_are_listed(self):
        self.assertEqual(self.offered("lzy "), {"help", *(tool.removeprefix("lzy-") for tool in TOOLS)})

    def test_typed(self):
        shell = self.start(["fish", "--no-config", "-i"], XDG_CONFIG_HOME=self.dir, XDG_DATA_HOME=self.dir)
        shell.run(f"{self.path}; set -g fish_autosuggestion_enabled 0; function fish_prompt; printf \"ready> \"; end")
        self.check_cases(shell)
