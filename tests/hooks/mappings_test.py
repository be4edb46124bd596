"""Into which mapped files lzy writes, as a preloaded library (support/mappings.c) sees it.

Tools map files of a tmpfs to which many threads write (docs/design/overview.md §3). In a program lzy is a guest, and maps none.
"""

import os
import subprocess
import tempfile
import unittest

from layered import BUILD, CLIENT, LAYER, MPIEXEC, PATIENCE, Layer

MAPPINGS = f"{BUILD}/tests/libmappings.so"
# In a sanitized build the sanitizer has to come first.
ALONE = ":".join([*os.environ.get("HOOKS_TEST_SANITIZER", "").split(), MAPPINGS])
RANKS = 4
SIZE = 64  # MiB
GEOMETRY = {"LZY_PARITY": "3", "LZY_GROUP": "5"}


@unittest.skipUnless(os.path.isdir("/dev/shm"), "no tmpfs here")
class Mappings(Layer):
    def setUp(self):
        super().setUp()
        memory = tempfile.TemporaryDirectory(prefix="lzy-hooks-", dir="/dev/shm")
        self.addCleanup(memory.cleanup)
        self.memory = memory.name

    def mapped(self, *command, preload=ALONE, **options):
        """Processes of the command, and base names of files into which they write by mappings."""
        notes = self.path("notes")
        open(notes, "w", encoding="utf-8").close()
        settings = {"MAPPINGS": notes, "LD_PRELOAD": preload, "LZY_CATALOG": "off", **GEOMETRY,
                    **{f"LZY_{name.upper()}": str(value) for name, value in options.items()}}
        command = [*command[:-1], "env", *(f"{name}={value}" for name, value in settings.items()), *command[-1]]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LZY_")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(notes, encoding="utf-8") as file:
            return {(line.split()[0], os.path.basename(line.strip())) for line in file}

    def tool(self, name, *words, threads, launcher=()):
        return self.mapped(*launcher, [f"{BUILD}/bin/{name}", "--quiet", *words], threads=threads)

    def verified(self, path):
        return subprocess.run([f"{BUILD}/bin/lzy-verify", "--quiet", "--encode", path], check=False, timeout=PATIENCE).returncode

    def write(self, name, mib):
        with open(os.path.join(self.memory, name), "wb") as file:
            file.write(os.urandom(mib << 20))

    def test_a_tool_with_four_threads_maps_what_it_makes(self):
        self.write("f", SIZE)
        path = os.path.join(self.memory, "f")
        found = self.tool("lzy-protect", path, threads=4)
        self.assertEqual([name for _, name in found], [".LZY-new.f"])
        self.assertEqual(self.verified(path), 0)
        with open(path, "rb") as file:
            content = file.read()
        os.remove(path)
        self.assertIn(".LZY-data.f", [name for _, name in self.tool("lzy-restore", path, threads=4)])
        with open(path, "rb") as file:
            self.assertTrue(file.read() == content)
        self.assertEqual(self.verified(path), 0)

    def test_a_tool_with_two_threads_maps_nothing(self):
        self.write("f", SIZE)
        path = os.path.join(self.memory, "f")
        self.assertEqual(self.tool("lzy-protect", path, threads=2), set())
        os.remove(path)
        self.assertEqual(self.tool("lzy-restore", path, threads=2), set())

    def test_ranks_of_a_tool_map_the_sidecar(self):
        self.write("f", SIZE)
        path = os.path.join(self.memory, "f")
        found = self.tool("lzy-protect", path, threads=1, launcher=(MPIEXEC, "-n", str(RANKS)))
        self.assertEqual(len(found), RANKS, found)
        self.assertEqual(self.verified(path), 0)

    def test_a_program_maps_nothing(self):
        """With the hashes and parity of its writes, and without."""
        for capture in ("on", "off"):
            for action, name, dataset in (("slabs", "f", "f"), ("set_slabs", "s", "s.%r")):
                with self.subTest(capture=capture, name=name):
                    program = [CLIENT, action, os.path.join(self.memory, name), ""]
                    found = self.mapped(MPIEXEC, "-n", str(RANKS), program, preload=f"{LAYER}:{MAPPINGS}", threads=4, capture=capture,
                                        set=os.path.join(self.memory, "s.%r"))
                    self.assertEqual(found, set())
                    self.assertEqual(self.verified(os.path.join(self.memory, dataset)), 0)


if __name__ == "__main__":
    unittest.main()
