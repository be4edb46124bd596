"""Command lines that are about the tools themselves: help, versions, bad options and paths, and lzy-run."""

import json
import os
import re
import shutil
import subprocess
import unittest

from harness import BIN, TOOLS, VERSION, CliTest, pattern_bytes


class Help(CliTest):
    def test_help_is_on_stdout_and_names_the_common_options(self):
        for tool in TOOLS:
            for spelling in ("--help", "-h"):
                done = self.check(0, tool, spelling)
                # lzy-run prints nothing of its own: it takes these two, and does not offer them.
                idle = ("--json", "--no-progress")
                for option in idle + ("--quiet", "--threads", "--memory", "--topology", "--exchange", "--version"):
                    (self.assertNotIn if tool == "lzy-run" and option in idle else self.assertIn)(option, done.stdout, tool)
                self.assertEqual(done.stderr, "")

    def test_version(self):
        for tool in TOOLS:
            self.assertEqual(self.check(0, tool, "--version").stdout, f"{tool} {VERSION}\n")

    def test_each_tool_has_its_own_options(self):
        own = {"lzy-run": ["--parity", "--timeout", "--set-sync", "--on-error"],
               "lzy-protect": ["--force", "--parity", "--group", "--block-size", "--stripe"],
               "lzy-verify": ["--from-disk", "--repair", "--force"],
               "lzy-restore": ["--device", "--dry-run", "--salvage", "--from"],
               "lzy-info": ["--map", "--prune", "--tuning"],
               "lzy-diff": ["--deep", "--key"],
               "lzy-scrub": ["--share", "--older-than", "--limit", "--max-time", "--repair", "--on-damage", "--catalog"],
               "lzy-status": ["--events", "--rescan", "--prometheus", "--catalog"],
               "lzy-plan": ["--devices", "--size", "--device-loss", "--scrub", "--measure", "--html"]}
        for tool, options in own.items():
            text = self.check(0, tool, "--help").stdout
            for option in options:
                self.assertIn(option, text)

    def test_help_has_the_exit_codes_of_the_tool(self):
        for tool, said, not_said in (("lzy-verify", "1 damaged", "different"), ("lzy-diff", "1 different", "damaged, all"),
                                     ("lzy-copy", "5 a copy could not be", "repairable"), ("lzy-plan", "3 bad value", "sidecar")):
            text = self.check(0, tool, "--help").stdout
            codes = text[text.index("Exit codes:"):]
            self.assertIn(said, codes)
            self.assertNotIn(not_said, codes)


class Front(CliTest):
    """lzy NAME is lzy-NAME."""

    def test_help_lists_every_tool_with_its_summary(self):
        text = self.check(0, "lzy", "--help").stdout
        for tool in TOOLS:
            summary = self.check(0, tool, "--describe").stdout.split("summary\t")[1].split("\n")[0]
            self.assertRegex(text, rf"\n  {tool.removeprefix('lzy-')} +{re.escape(summary.split('. ')[0].rstrip('.'))}\.\n")
        self.assertEqual(self.check(0, "lzy", "help").stdout, text)
        self.assertEqual(self.check(0, "lzy", "--version").stdout, f"lzy {VERSION}\n")

    def test_every_tool_gets_its_arguments_and_keeps_its_answers(self):
        for tool in TOOLS:
            name = tool.removeprefix("lzy-")
            for words in (["--version"], ["--help"], ["--bogus", "a b"]):
                own, by_front = self.run_tool(tool, *words), self.run_tool("lzy", name, *words)
                self.assertEqual((by_front.returncode, by_front.stdout, by_front.stderr), (own.returncode, own.stdout, own.stderr))
            self.assertEqual(self.check(0, "lzy", "help", name).stdout, self.check(0, tool, "--help").stdout)

    def test_a_file_is_protected_and_verified(self):
        self.write("a file", b"a" * 100)
        self.check(0, "lzy", "protect", "a file")
        self.flip("a file", 7)
        self.check(1, "lzy", "verify", "a file")

    def test_unknown_tools_are_refused(self):
        self.assertIn("lzy: verfy: there is no such tool; did you mean verify? (see lzy --help)",
                      self.check(3, "lzy", "verfy", "a").stderr)
        self.assertIn("no TOOL given", self.check(3, "lzy").stderr)
        self.assertIn("--bogus: there is no such tool", self.check(3, "lzy", "--bogus").stderr)

    def test_a_tool_that_is_missing(self):
        os.makedirs(self.path("bin"))
        lonely = shutil.copy(os.path.join(BIN, "lzy"), self.path("bin"))
        done = subprocess.run([lonely, "verify", "a"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 7)
        self.assertIn(f"lzy: {self.path('bin')}/lzy-verify: No such file or directory", done.stderr)


class BadOptions(CliTest):
    BAD = [("parity", "x", "a number from 0 to 254"), ("parity", "255", "a number from 0 to 254"),
           ("parity", "-1", "a number from 0 to 254"), ("group", "1000", "a number from 2 to 255"),
           ("block-size", "1000", "a power of two from 512 to 16M"), ("block-size", "32M", "a power of two from 512 to 16M"),
           ("stripe", "3M", "a power-of-two multiple of block-size"), ("memory", "much", "a size"),
           ("threads", "x", "a number"), ("log", "loud", "error, warn, info or debug"),
           ("exchange", "MPI", "auto, mpi, pairwise, ring or shared"),
           ("topology", "ring", "auto, bcast, pipelined, daisy, hierarchical or hypercube"),
           ("topology", "auto:1:1", "auto:LATENCY:GAP:BANDWIDTH with what messages cost (microseconds, microseconds, MB/s)")]

    def setUp(self):
        super().setUp()
        self.write("a", b"a" * 100)

    def test_options_name_themselves_the_value_and_what_is_accepted(self):
        for name, value, accepted in self.BAD:
            done = self.check(3, "lzy-protect", f"--{name}", value, "a")
            self.assertTrue(done.stderr.startswith("lzy-protect: "), done.stderr)
            self.assertIn(f"--{name}: '{value}' is not accepted: ", done.stderr)
            self.assertIn(accepted, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_bad_variable_is_refused_like_its_option(self):
        for name, value, accepted in self.BAD:
            variable = "LZY_" + name.upper().replace("-", "_")
            for tool in ("lzy-protect", "lzy-verify", "lzy-restore", "lzy-info"):
                done = self.check(3, tool, "a", env={variable: value})
                self.assertIn(f"{tool}: {variable}: '{value}' is not accepted: ", done.stderr)
                self.assertIn(accepted, done.stderr)

    def test_an_option_overrides_the_environment(self):
        self.assertIn("--parity: 'x'", self.check(3, "lzy-protect", "--parity", "x", "a", env={"LZY_PARITY": "2"}).stderr)

    def test_unknown_variable(self):
        self.assertIn("LZY_PARTY", self.check(3, "lzy-verify", "a", env={"LZY_PARTY": "1"}).stderr)

    def test_values_that_do_not_go_together(self):
        self.assertIn("parity", self.check(3, "lzy-protect", "--parity", "4", "--group", "4", "a").stderr)
        self.assertIn("stripe", self.check(3, "lzy-protect", "--stripe", "4K", "a").stderr)
        self.assertIn("--force", self.check(3, "lzy-verify", "--force", "a").stderr)

    def test_unknown_option_or_none_at_all(self):
        for tool in TOOLS:
            self.assertIn("--bogus", self.check(3, tool, "--bogus", "a").stderr)
            self.assertNotEqual(self.check(3, tool).stderr, "")

    def test_one_directory_for_all_devices_is_refused(self):
        done = self.check(3, "lzy-run", "--device-dirs", ".", "--", "true")
        self.assertIn("device-dirs: '.' is not accepted with parity 1: at least 2 directories", done.stderr)

    def test_device_must_be_a_number(self):
        self.assertIn("--device: 'x' is not accepted", self.check(3, "lzy-restore", "--device", "x", "a").stderr)

    def test_json_is_a_document_after_a_usage_error(self):
        for words in (["--bogus"], ["--memory", "x", "a"], ["absent"]):
            document = self.report(3, "lzy-verify", *words)
            self.assertEqual(document["datasets"], [])
            self.assertTrue(document["errors"][0]["message"])


class BadPaths(CliTest):
    def test_nothing_matches(self):
        for tool in ("lzy-protect", "lzy-verify", "lzy-restore", "lzy-info"):
            for path in ("absent", "absent/too", "absent.%r", "absent*", "bad.%d.%r", ""):
                done = self.check(3, tool, path)
                self.assertIn(path, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_neither_file_nor_directory(self):
        os.mkfifo(self.path("fifo"))
        self.assertIn("fifo", self.check(3, "lzy-verify", "fifo").stderr)
        self.check(3, "lzy-protect", "/dev/null")

    def test_not_protected(self):
        self.write("d/a", b"a" * 100)
        for tool in ("lzy-verify", "lzy-restore", "lzy-info"):
            done = self.check(4, tool, "d/a")
            self.assertIn("protect it with: lzy-protect d/a", done.stdout if tool == "lzy-info" else done.stderr)
            self.assertEqual(self.check(4, tool, "--quiet", "d/a").stdout, "")
            self.assertIn("lzy-protect d", self.check(4, tool, "d").stderr)

    def test_bad_path_does_not_keep_others_from_being_handled_and_decides_the_code(self):
        self.write("a", b"a" * 100)
        done = self.check(3, "lzy-verify", "absent", "a")
        self.assertIn("absent", done.stderr)
        self.assertIn("lzy-protect a", done.stderr)

    def test_prune_wants_a_directory(self):
        self.write("a", b"a" * 100)
        self.assertIn("--prune: 'a' is not accepted", self.check(3, "lzy-info", "--prune", "a").stderr)


class Tuning(CliTest):
    """lzy-info --tuning: measures, shows and keeps."""

    CHOICES = ["encode", "check"]

    def caches(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.path("cache")) for name in names]

    def tune(self, *words, **variables):
        return self.check(0, "lzy-info", "--tuning", *words, env={"XDG_CACHE_HOME": self.path("cache"), **variables})

    def test_table_has_every_choice_with_one_candidate_picked(self):
        done = self.tune()
        self.assertEqual(done.stderr, "")
        table, exchange = done.stdout.split("exchange: ")
        self.assertEqual(exchange, "how parity is added up among processes\n  one node: shared memory\n"
                                   "  several nodes: mpi, because nothing was measured\n")
        *lines, last = table.splitlines()
        picked = {}
        for line in lines:
            if not line.startswith(" "):
                choice = line.split(":")[0]
                picked[choice] = 0
            else:
                self.assertRegex(line, r"^  [* ] [0-9.]+ [KM]iB +[0-9]+\.[0-9][0-9] GB/s$")
                picked[choice] += line.startswith("  *")
        self.assertEqual(picked, dict.fromkeys(self.CHOICES, 1))
        [cache] = self.caches()
        self.assertEqual(last, f"* picked; kept in {cache}")

    def test_json_is_what_is_kept_and_where(self):
        document = json.loads(self.tune("--json").stdout)
        [cache] = self.caches()
        self.assertEqual(document.pop("cache"), cache)
        self.assertEqual(document.pop("exchange"), [])
        self.assertEqual(os.stat(cache).st_mode & 0o777, 0o600)
        self.assertEqual(json.loads(self.read(cache)), document)
        self.assertEqual(document["schema"], "lzy-tuning/2")
        self.assertEqual([choice["name"] for choice in document["choices"]], self.CHOICES)
        for choice in document["choices"]:
            self.assertEqual([candidate["picked"] for candidate in choice["candidates"]].count(True), 1)
            for candidate in choice["candidates"]:
                self.assertGreater(candidate["gb_per_s"], 0)

    def test_measures_anew_whatever_is_kept(self):
        self.tune()
        [cache] = self.caches()
        self.write(cache, b"not JSON")
        self.tune()
        self.assertEqual(json.loads(self.read(cache))["schema"], "lzy-tuning/2")

    def test_results_are_shown_if_the_cache_cannot_be_written(self):
        self.write("cache", b"")  # in the way
        done = self.tune()
        self.assertIn("* picked; not kept\n", done.stdout)
        self.assertIn("lzy-info: warning: the results could not be saved: ", done.stderr)
        self.assertIn(self.path("cache"), done.stderr)
        self.assertIsNone(json.loads(self.tune("--json").stdout)["cache"])

    def test_tuning_takes_no_path_and_no_other_option(self):
        self.write("a", b"a" * 100)
        self.assertIn("'a' is not accepted: this option takes no PATH", self.check(3, "lzy-info", "--tuning", "a").stderr)
        self.assertIn("--tuning: is not accepted together with", self.check(3, "lzy-info", "--tuning", "--map").stderr)

    def test_tools_measure_by_themselves_only_for_large_work(self):
        environment = {"XDG_CACHE_HOME": self.path("cache")}
        self.write("small", pattern_bytes(1 << 20))
        self.check(0, "lzy-protect", "small", env=environment)
        self.assertEqual(self.caches(), [])
        with open(self.path("large"), "wb") as file:
            file.truncate(256 << 20)
        self.check(0, "lzy-protect", "--parity", "0", "large", env=environment)
        [cache] = self.caches()
        before = self.read(cache)
        self.check(0, "lzy-info", "large", env=environment)
        self.check(0, "lzy-verify", "large", env=environment)
        self.assertEqual((self.caches(), self.read(cache)), ([cache], before))


class Run(CliTest):
    """lzy-run, beside a library that does nothing: any shared object can be preloaded."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("bin"))
        os.makedirs(self.path("lib"))
        self.lzy_run = shutil.copy(os.path.join(BIN, "lzy-run"), self.path("bin"))
        libraries = subprocess.run(["ldd", self.lzy_run], capture_output=True, text=True, check=True).stdout
        some = next(line.split("=>")[1].split()[0] for line in libraries.splitlines() if "libstdc++" in line)
        self.library = shutil.copy(some, self.path("lib/liblzy_mpiio.so"))

    def run_lzy(self, *words, env=None):
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("LZY_", "LD_PRELOAD"))}
        variables.update(env or {})
        return subprocess.run([self.lzy_run, *words], env=variables, capture_output=True, text=True, cwd=self.scratch)

    def variables(self, *words, env=None, command="env", arguments=()):
        """What the command sees, whatever it is called."""
        program = self.path(command)
        if not os.path.exists(program):
            shutil.copy(shutil.which("env"), program)
        done = self.run_lzy(*words, "--", program, "-0", *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)

    def test_does_not_link_mpi(self):
        libraries = subprocess.run(["ldd", self.lzy_run], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("mpi", libraries.replace(self.scratch, ""))

    def test_exit_code_and_output_are_the_commands(self):
        for code in (0, 1, 42, 255):
            done = self.run_lzy("--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "out\n", "err\n"))

    def test_signal_that_ends_the_command(self):
        self.assertEqual(self.run_lzy("--", "sh", "-c", "kill -TERM $$").returncode, -15)

    def test_options_become_variables_and_the_library_is_preloaded(self):
        seen = self.variables("--parity", "2", "--group=6", "--set", "a.%r", "--set", "b.%r", "--block-size", "4K",
                              "--on-error", "fail", "--timeout", "5", command="mpiexec.some")
        expected = {"LZY_PARITY": "2", "LZY_GROUP": "6", "LZY_SET": "a.%r:b.%r", "LZY_BLOCK_SIZE": "4K",
                    "LZY_ON_ERROR": "fail", "LZY_TIMEOUT": "5"}
        self.assertEqual({k: v for k, v in seen.items() if k.startswith("LZY_")}, expected)
        self.assertEqual(os.path.realpath(seen["LD_PRELOAD"]), os.path.realpath(self.library))
        passed_on = seen["OMPI_MCA_mca_base_env_list"].split(";")
        self.assertEqual(set(passed_on), {"LD_PRELOAD", *expected})

    def test_healing_needs_sets(self):
        done = self.run_lzy("--heal", "--", "true")
        self.assertEqual(done.returncode, 3)
        self.assertIn("--set", done.stderr)
        seen = self.variables("--heal", "--set", "a.%r")
        self.assertEqual((seen["LZY_HEAL"], seen["LZY_SET"]), ("on", "a.%r"))

    def test_environment_is_kept_where_no_option_says_otherwise(self):
        seen = self.variables("--parity", "2", env={"LZY_PARITY": "1", "LZY_GROUP": "5", "LD_PRELOAD": self.library,
                                                    "OMPI_MCA_mca_base_env_list": "MINE"}, command="mpirun")
        self.assertEqual((seen["LZY_PARITY"], seen["LZY_GROUP"]), ("2", "5"))
        self.assertEqual(seen["LD_PRELOAD"].split(":")[0], self.library)
        self.assertTrue(seen["OMPI_MCA_mca_base_env_list"].startswith("MINE;"))

    def test_open_mpi_is_told_what_to_pass_on_in_one_way_only(self):
        self.assertNotIn("OMPI_MCA_mca_base_env_list", self.variables("--parity", "2"))  # no launcher
        launcher = self.path("mpiexec")
        with open(launcher, "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\necho ${OMPI_MCA_mca_base_env_list-none}\n")
        os.chmod(launcher, 0o755)
        self.assertEqual(self.run_lzy("--parity=2", "--", launcher, "-n", "1", "a").stdout, "LD_PRELOAD;LZY_PARITY\n")
        self.assertEqual(self.run_lzy("--parity=2", "--", launcher, "-x", "A", "-n", "1", "a").stdout, "none\n")

    def test_quiet_is_log_error(self):
        self.assertEqual(self.variables("--quiet")["LZY_LOG"], "error")

    def test_command_without_separator_and_its_own_options(self):
        done = self.run_lzy("--parity", "2", "sh", "-c", "echo $LZY_PARITY $0 $1", "--", "--help")
        self.assertEqual((done.returncode, done.stdout), (0, "2 -- --help\n"))

    def test_command_that_is_not_there(self):
        done = self.run_lzy("--", "no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertIn("lzy-run: no-such-command", done.stderr)
        self.write("plain", b"")
        self.assertEqual(self.run_lzy("--", "./plain").returncode, 126)

    def test_no_command(self):
        for words in ([], ["--"], ["--parity", "1"], ["--parity", "1", "--"]):
            done = self.run_lzy(*words)
            self.assertEqual(done.returncode, 3)
            self.assertIn("COMMAND", done.stderr)

    def test_bad_options_start_nothing(self):
        for words in (["--parity", "x"], ["--parity", "9"], ["--bogus"], ["--set", "state"]):
            done = self.run_lzy(*words, "--", "touch", "started")
            self.assertEqual(done.returncode, 3, words)
            self.assertFalse(os.path.exists(self.path("started")))

    def test_library_that_is_not_there(self):
        os.remove(self.library)
        done = self.run_lzy("--", "true")
        self.assertEqual(done.returncode, 7)
        self.assertIn("liblzy_mpiio.so", done.stderr)


if __name__ == "__main__":
    unittest.main()
