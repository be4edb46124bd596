"""Ranks of one job with layers, or tools, of several versions. The other ones are in build/tests/mixed: one whose messages
are the same ("patch"), and one whose messages are others ("messages").

Environment: as for layered.py.
"""

import os
import subprocess

from layered import BUILD, CLIENT, LAYER, MPIEXEC, PATIENCE, Layer

MIXED = f"{BUILD}/tests/mixed"


class Versions(Layer):
    def start(self, *commands):
        """Programs that are ranks of one job: for each, its LD_PRELOAD and its words."""
        words = []
        for preload, command, options in commands:
            settings = [f"LZY_{name.upper()}={value}" for name, value in options.items()]
            words += [":"] * bool(words) + ["-n", "1", "env", *([f"LD_PRELOAD={preload}"] if preload else []), *settings, *command]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LZY_")}
        return subprocess.run([MPIEXEC, *words], cwd=self.dir, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def layers(self, kind, action, name, other_first=False, **options):
        layers = [LAYER, f"{MIXED}/{kind}/liblzy_mpiio.so", LAYER]
        if other_first:
            layers[:2] = layers[1::-1]
        done = self.start(*[(layer, [CLIENT, action, name, ""], options) for layer in layers])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def tools(self, kind, *words):
        return self.start(("", [f"{BUILD}/bin/lzy-verify", *words], {"CATALOG": "off"}), ("", [f"{MIXED}/{kind}/lzy-verify", *words], {"CATALOG": "off"}))

    def told_once(self, done, *parts):
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_other_messages_leave_out_protection(self):
        for other_first in (False, True):
            for action, name, options in (("plain", "f", {}), ("set", "s", {"set": "s.%r"}), ("plain", "f", {"verify_reads": "on"}),
                                          ("set", "s", {"set": "s.%r", "heal": "on"})):
                with self.subTest(action=action, options=options, other_first=other_first):
                    done = self.layers("messages", action, name, other_first, **options)
                    other = 0 if other_first else 1
                    self.told_once(done, "lzy: the ranks run versions of lzy that do not understand each other: ", f"on rank {other} (",
                                   "0.1.77 (messages of form", "; nothing is protected. Install one version on all nodes")
                    self.assertEqual([file for file in self.files() if ".LZY" in file], [])
                    self.clear()

    def test_the_program_writes_what_it_writes_without_the_layer(self):
        self.layers("messages", "plain", "f")
        self.start(*[("", [CLIENT, "plain", "g", ""], {})] * 3)
        self.assertEqual(self.content("f"), self.content("g"))

    def test_with_on_error_fail_sync_and_close_fail(self):
        done = self.layers("messages", "codes", "f", on_error="fail")
        self.assertEqual(done.stdout.count("MPI_ERR_IO"), 6, done.stdout)
        self.told_once(done, "do not understand each other")
        done = self.layers("messages", "codes", "f", on_error="fail", exclude="f*")
        self.assertEqual(done.stdout.count("ok"), 6, "it is not meant")

    def test_the_same_messages_protect(self):
        for action, name, pattern, options in (("plain", "f", "f", {}), ("set", "s", "s.%r", {"set": "s.%r"})):
            with self.subTest(action=action):
                done = self.layers("patch", action, name, **options)
                self.told_once(done, "lzy: the ranks run different versions of lzy: ", " on ranks 0, 2 (", "0.1.77 on rank 1 (",
                               "; files are protected nevertheless. Install one version on all nodes")
                self.assertEqual(self.verify(pattern), 0)
                self.clear()

    def test_log_error_is_quiet(self):
        self.quiet(self.layers("patch", "plain", "f", log="error"))

    def test_tools_with_other_messages_do_nothing(self):
        self.client("plain")
        done = self.tools("messages", "f")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        told = [line for line in done.stderr.splitlines() if line.startswith("lzy-verify: ")]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertIn("the ranks run versions of lzy that do not understand each other: ", told[0])
        self.assertIn("0.1.77 (messages of form", told[0])

    def test_tools_with_other_messages_exit_with_6(self):
        # Launchers combine the codes of ranks.
        note = ["sh", "-c", '"$@" 2> /dev/null; echo $? > code.$$', "sh"]
        self.client("plain")
        self.start(("", [*note, f"{BUILD}/bin/lzy-verify", "f"], {"CATALOG": "off"}), ("", [*note, f"{MIXED}/messages/lzy-verify", "f"], {"CATALOG": "off"}))
        self.assertEqual([self.content(name) for name in self.files() if name.startswith("code.")], [b"6\n"] * 2)

    def test_tools_with_the_same_messages_warn(self):
        self.client("plain")
        done = self.tools("patch", "f")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.told_once(done, "lzy-verify: warning: the ranks run different versions of lzy: ", "0.1.77 on rank 1 (", "Install one version on all nodes")
        self.assertIn("f: intact", done.stdout)
        self.quiet(self.tools("patch", "--quiet", "f"))
