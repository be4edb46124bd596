"""Sealed datasets (option key) from the command line."""

import os

from harness import CliTest, pattern_bytes

GEOMETRY = ("--block-size", "4K", "--stripe", "16K", "--group", "4")


class SealedFiles(CliTest):
    def setUp(self):
        super().setUp()
        self.content = pattern_bytes(200_000)
        self.write("a", self.content)
        self.age("a")
        for name in ("key", "other"):
            self.write(name, (name * 20).encode())
            os.chmod(self.path(name), 0o600)
        self.check(0, "lzy-protect", *GEOMETRY, "--key", "key", "a")

    def test_the_key_may_be_an_option_or_a_variable(self):
        self.assertIn("a: intact", self.check(0, "lzy-verify", "--key", "key", "a").stdout)
        self.assertIn("a: intact", self.check(0, "lzy-verify", "a", env={"LZY_KEY": "key"}).stdout)
        self.assertIn("a: intact", self.check(0, "lzy-verify", "--key", "key", "a", env={"LZY_KEY": "other"}).stdout)

    def test_nothing_is_done_without_the_key(self):
        before = self.read(".LZY.a")
        for tool in (["lzy-verify"], ["lzy-verify", "--repair", "--force"], ["lzy-restore"], ["lzy-restore", "--salvage"],
                     ["lzy-protect"], ["lzy-protect", "--force"], ["lzy-info"]):
            for options, reason in (([], "give the key with --key FILE or LZY_KEY=FILE"),
                                    (["--key", "other"], "the one that was given is")):
                done = self.check(3, *tool, *options, "a")
                self.assertIn(reason, done.stderr)
        self.assertEqual(self.read(".LZY.a"), before)

    def test_the_id_of_the_key_is_shown(self):
        [dataset] = self.report(0, "lzy-info", "--key", "key", "a")["datasets"]
        self.assertRegex(dataset["key"], "^[0-9a-f]{32}$")
        self.assertIn(dataset["key"], self.check(0, "lzy-info", "--key", "key", "a").stdout)
        self.assertIn(dataset["key"], self.check(3, "lzy-info", "a").stderr)
        self.write("b", self.content)
        self.check(0, "lzy-protect", "b")
        [dataset] = self.report(0, "lzy-info", "b")["datasets"]
        self.assertNotIn("key", dataset)

    def test_advice_can_be_typed_as_it_is(self):
        self.flip("a", 5000)
        advice = "lzy-verify --repair --key key a"
        self.assertIn(f"repair with: {advice}\n", self.check(1, "lzy-verify", "--key", "key", "a").stdout)
        self.assertIn("repair with: lzy-verify --repair a\n", self.check(1, "lzy-verify", "a", env={"LZY_KEY": "key"}).stdout)
        self.check(0, *advice.split())
        self.assertEqual(self.read("a"), self.content)

    def test_a_sidecar_without_a_seal_is_refused(self):
        self.write("b", self.content)
        self.check(0, "lzy-protect", *GEOMETRY, "b")
        for tool in (["lzy-verify"], ["lzy-verify", "--repair"], ["lzy-restore"], ["lzy-protect"]):
            done = self.check(4, *tool, "--key", "key", "b")
            self.assertIn("b: it is not sealed with key", done.stderr)
            self.assertIn("if its content is right, seal it with: lzy-protect --force --key key b\n", done.stderr)
        self.check(0, "lzy-protect", "--force", "--key", "key", "b")
        self.check(0, "lzy-verify", "--key", "key", "b")

    def test_files_that_are_no_keys(self):
        self.write("short", b"123")
        os.chmod(self.path("short"), 0o600)
        self.write("open", b"x" * 32)
        os.chmod(self.path("open"), 0o644)
        for name in ("short", "open", "nowhere", ".", ""):
            done = self.check(3, "lzy-verify", "--key", name, "a")
            self.assertIn(f"--key: '{name}' is not accepted: a file of 16 bytes to 64K that you may read", done.stderr)

    def test_sets(self):
        for rank in range(4):
            self.write(f"s.{rank}", pattern_bytes(50_000, rank))
        self.check(0, "lzy-protect", *GEOMETRY, "--key", "key", "s.%r")
        os.remove(self.path("s.2"))
        os.remove(self.path(".LZY.s.2"))
        self.check(3, "lzy-restore", "s.%r")
        self.assertFalse(os.path.exists(self.path("s.2")))
        self.check(0, "lzy-restore", "--key", "key", "s.%r")
        self.assertEqual(self.read("s.2"), pattern_bytes(50_000, 2))
        self.check(0, "lzy-verify", "--key", "key", "s.%r")
