"""One job on two mounts of a GlusterFS volume, as on two nodes: each mount keeps pages and names of its own.

Needs root, GlusterFS (Debian: glusterfs-server) and FUSE; skipped, with the reason, where one of them is missing. The servers run
in a mount and a network name space of their own.
"""

import os
import shutil
import subprocess
import unittest

import layered

ADDRESS = "10.99.0.1"  # of a link that only the name space has
ROUNDS = int(os.environ.pop("LZY_TEST_ROUNDS", "1"))  # lzy refuses variables that it does not know

# $1: a directory for everything. Says "ready" when the volume is mounted twice, and ends with its standard input.
SERVE = r"""
set -e
exec 3>&1 >"$1/output" 2>&1
mount --make-rprivate /
ip link set lo up
ip link add bricks type dummy || ip link add bricks type veth peer name bricks2
ip address add %(address)s/24 dev bricks
ip link set bricks up
mkdir -p "$1/lib" "$1/first" "$1/second" "$1/x" "$1/bricks" /var/lib/glusterd /var/log/glusterfs
mount -t tmpfs run /run
mkdir -p /run/gluster
mount -t tmpfs lib /var/lib/glusterd
mount -t tmpfs log /var/log/glusterfs
truncate -s 1G "$1/image"
mkfs.ext4 -q "$1/image"
mount -o loop "$1/image" "$1/bricks"
mkdir "$1/bricks/1" "$1/bricks/2"
glusterd -N &
server=$!
trap 'umount -l "$1/first" "$1/second"; gluster --mode=script volume stop v force; kill $server; wait $server; umount -l "$1/bricks"' EXIT
tries=0
until gluster volume list >&-; do tries=$((tries + 1)); [ $tries -lt 100 ]; sleep 0.2; done
gluster --mode=script volume create v replica 2 %(address)s:"$1/bricks/1" %(address)s:"$1/bricks/2" force
gluster volume start v
mount -t glusterfs %(address)s:/v "$1/first"
mount -t glusterfs %(address)s:/v "$1/second"
echo $$ ready >&3
read -r end || true
""" % {"address": ADDRESS}


def missing():
    """Why these tests cannot run here, or nothing."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ["glusterd", "gluster", "unshare", "nsenter", "mkfs.ext4", "ip"]:
        if shutil.which(program) is None:
            return f"needs {program}"
    if not os.path.exists("/dev/fuse"):
        return "needs FUSE"
    version = subprocess.run([layered.MPIEXEC, "--version"], capture_output=True, text=True).stdout
    return "" if "HYDRA" in version else "needs the launcher of MPICH"


class TwoMounts(layered.Layer):
    def setUp(self):
        super().setUp()
        if reason := missing():
            self.skipTest(reason)
        self.server = subprocess.Popen(["unshare", "-m", "-n", "sh", "-c", SERVE, "sh", self.dir], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        started = self.server.stdout.readline().split()
        if not started:
            with open(self.path("output"), encoding="utf-8", errors="replace") as output:
                self.skipTest(f"GlusterFS does not start here: {output.read()[-500:]}")
        self.inside = ["nsenter", "-t", started[0], "-m", "-n"]

    def stop(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()

    def call(self, *words):
        return subprocess.run([*self.inside, *words], cwd=self.dir, capture_output=True, text=True, timeout=layered.PATIENCE)

    def job(self, name, record, layer=True, **options):
        """A rank on each mount."""
        settings = [f"LD_PRELOAD={layered.LAYER}"] if layer else []
        settings += [f"LZY_{option.upper()}={value}" for option, value in options.items()]
        ranks = []
        for mount in ["second", "first"]:
            program = f"mount --bind '{self.dir}/{mount}' '{self.dir}/x' && exec \"$@\""
            ranks += [":"] if ranks else []
            ranks += ["-n", "1", "unshare", "-m", "sh", "-c", program, "sh", "env", *settings, layered.CLIENT, "alternate_records",
                      f"{self.dir}/x/{name}", str(record)]
        done = self.call(layered.MPIEXEC, *ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def content(self, name):
        """As a brick has it: no mount is asked."""
        return self.call("sha256sum", f"{self.dir}/bricks/1/{name}").stdout.split()[0]

    def test_what_is_committed_is_what_is_in_the_file(self):
        for record in [100, 1000]:
            self.job(f"bare{record}", record, layer=False)
            for options in [{}, {"block_size": "64K"}, {"verify_writes": "on"}, {"verify_writes": "on", "block_size": "64K"}]:
                for turn in range(ROUNDS):
                    name = f"f{record}.{len(options)}{options.get('verify_writes', '')}{options.get('block_size', '')}.{turn}"
                    with self.subTest(record=record, options=options, turn=turn):
                        done = self.job(name, record, **options)
                        self.assertEqual(self.content(name), self.content(f"bare{record}"))
                        for mount in ["first", "second"]:
                            found = self.call(f"{layered.BUILD}/bin/lzy-verify", f"{self.dir}/{mount}/{name}")
                            self.assertEqual(found.returncode, 0, found.stdout + found.stderr + done.stderr)
                        self.assertNotIn("not what w", done.stderr)  # no write was found wrong


if __name__ == "__main__":
    unittest.main()
