"""The wheel of the Python package: built by pip against an installed lzy, and tested by pytest. Needs the network, for the
build tools."""

import glob
import os
import subprocess
import sys
import unittest

from prefix import ROOT, VERSION, Prefix, plain_environment


class Wheel(Prefix):
    def pip(self, *words):
        subprocess.run([sys.executable, "-m", "pip", *words, "-q", "--disable-pip-version-check"],
                       cwd=self.dir, env=plain_environment(CMAKE_PREFIX_PATH=self.prefix), check=True)

    def test_wheel_is_built_installed_and_works(self):
        self.pip("wheel", f"{ROOT}/python", "-w", "wheels", "--no-deps")
        [wheel] = glob.glob(f"{self.dir}/wheels/*.whl")
        self.assertRegex(os.path.basename(wheel), rf"^lzy-{VERSION}-py3-none-linux_\w+\.whl$")
        self.pip("install", "--target", "site", wheel, "pytest")
        done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{ROOT}/python/tests"],
                              cwd=self.dir, env=plain_environment(PYTHONPATH=f"{self.dir}/site"), capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"\b[12][0-9] passed")
        # Types, as others see them.
        self.assertTrue(os.path.exists(f"{self.dir}/site/lzy/py.typed"))


if __name__ == "__main__":
    unittest.main()
