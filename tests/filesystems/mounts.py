"""File systems of each kind, made for one test: a disk of its own, a copy-up over another one, a server with two clients.

Each maker returns the directories ("views") through which nodes see one directory: one, or two mounts that have caches of their own.
Everything is made in namespaces of this process (enter_namespaces): mounts and servers end with it. A kind that cannot be had here
raises Missing, with the reason.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid

MARK = "LZY_TEST_NAMESPACES"
# Servers need an address that is not of the loopback network; it is in this network namespace only.
ADDRESS = "10.213.77.1"
PATIENCE = 60


class Missing(Exception):
    """Why a file system cannot be had here."""


def enter_namespaces():
    """Starts this program again in namespaces for mounts, processes and the network. Returns why not, or never."""
    if os.environ.get(MARK):
        return ""
    if os.geteuid() != 0:
        return "file systems are mounted by root only"
    enter = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"namespaces are not permitted here: {done.stderr.strip()}"
    os.environ[MARK] = "1"
    os.execvp(enter[0], [*enter, sys.executable, *sys.orig_argv[1:]])


def run(*words, **how):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE, **how)
    if done.returncode != 0:
        raise Missing(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")


def network():
    """An address of this namespace, and the loopback device."""
    run("ip", "link", "set", "lo", "up")
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], capture_output=True, check=False)


class Kind:
    """`two`: clients with caches of their own, which may show what another one has changed only later, so that not even what MPI asks
    for holds there without lzy. `whole_seconds`: times are in seconds."""
    two = whole_seconds = False


class Disk(Kind):
    """A file system on a file in memory."""

    def __init__(self, make, *options, whole_seconds=False):
        self.make, self.options, self.whole_seconds = make, options, whole_seconds
        self.kind = make[0].rpartition(".")[2]

    def mount(self, scratch):
        need(self.make[0])
        image, where = os.path.join(scratch, "image"), os.path.join(scratch, "disk")
        os.mkdir(where)
        with open(image, "wb") as file:
            file.truncate(400 << 20)
        run(*self.make, image)
        run("mount", "-t", self.kind, "-o", ",".join(("loop", *self.options)), image, where)
        return [where]


class Memory(Kind):
    def mount(self, scratch):
        where = os.path.join(scratch, "memory")
        os.mkdir(where)
        run("mount", "-t", "tmpfs", "-o", "size=200m", "lzy-test", where)
        return [where]


class Overlay(Kind):
    """Files of the lower directory are copied up at their first write: another inode, of another file system."""

    def mount(self, scratch):
        below = Memory().mount(scratch)[0]
        lower, upper, work, where = (os.path.join(below, name) for name in ("lower", "upper", "work", "merged"))
        for directory in (lower, upper, work, where):
            os.mkdir(directory)
        run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "lzy-test", where)
        return [where]


class Sshfs(Kind):
    """Two clients of one directory, each with an sftp server of its own at the other end of a socket: no network, no sshd."""
    two = whole_seconds = True
    SERVER = "/usr/lib/openssh/sftp-server"

    def mount(self, scratch):
        need("sshfs")
        if not os.path.exists(self.SERVER):
            raise Missing(f"{self.SERVER} is not installed")
        served = os.path.join(scratch, "served")
        os.mkdir(served)
        views = []
        for name in ("one", "other"):
            where = os.path.join(scratch, name)
            os.mkdir(where)
            here, there = socket.socketpair()
            subprocess.Popen([self.SERVER], stdin=there, stdout=there)
            there.close()
            subprocess.Popen(["sshfs", "-f", "-o", "passive,allow_other", f":{served}", where], stdin=here, stdout=here,
                             stderr=subprocess.DEVNULL)
            here.close()
            wait_for(lambda where=where: os.path.ismount(where), f"sshfs does not mount {where}")
            views.append(where)
        return views


class Gluster(Kind):
    """Two clients of a volume on bricks of this machine."""
    two = True

    def __init__(self, *layout, bricks):
        self.layout, self.bricks = layout, bricks

    def mount(self, scratch):
        need("glusterd", "gluster", "mount.glusterfs", "ip")
        network()
        # Its directories of state and logs, and its socket, have fixed names; here they are this test's.
        for directory in ("/var/lib/glusterd", "/var/log/glusterfs", os.path.realpath("/var/run")):
            os.makedirs(directory, exist_ok=True)
            run("mount", "-t", "tmpfs", "lzy-test", directory)
        os.mkdir("/var/run/gluster")
        subprocess.Popen(["glusterd", "--no-daemon"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: subprocess.run(["gluster", "pool", "list"], capture_output=True, check=False).returncode == 0, "glusterd does not answer")
        bricks = [os.path.join(scratch, f"brick{i}", "b") for i in range(self.bricks)]
        for brick in bricks:
            os.makedirs(brick)
        run("gluster", "--mode=script", "volume", "create", "v", *self.layout, *(f"{ADDRESS}:{brick}" for brick in bricks), "force")
        run("gluster", "--mode=script", "volume", "start", "v")
        views = []
        for name in ("one", "other"):
            where = os.path.join(scratch, name)
            os.mkdir(where)
            run("mount", "-t", "glusterfs", f"{ADDRESS}:/v", where)
            views.append(where)
        return views


class Moose(Kind):
    """Two clients of one master and one chunk server."""
    two = whole_seconds = True

    def mount(self, scratch):
        need("mfsmaster", "mfschunkserver", "mfsmount", "ip")
        network()
        state, chunks = os.path.join(scratch, "state"), os.path.join(scratch, "chunks")
        for directory in (state, chunks):
            os.mkdir(directory)
        run("mount", "-t", "tmpfs", "-o", "size=1g,mode=777", "lzy-test", chunks)
        with open(os.path.join(state, "metadata.mfs"), "wb") as file:
            file.write(b"MFSM NEW")
        exports, disks = os.path.join(scratch, "exports"), os.path.join(scratch, "disks")
        write(exports, "* / rw,alldirs,admin,maproot=0:0\n* . rw\n")
        write(disks, chunks + "\n")
        common = f"DATA_PATH = {state}\nWORKING_USER = root\nWORKING_GROUP = root\nSYSLOG_MIN_LEVEL = CRITICAL\n"
        master, chunk = os.path.join(scratch, "master.cfg"), os.path.join(scratch, "chunk.cfg")
        write(master, common + f"EXPORTS_FILENAME = {exports}\n" + "".join(f"{what}_LISTEN_HOST = {ADDRESS}\n" for what in ("MATOML", "MATOCS", "MATOCL")))
        write(chunk, common + f"HDD_CONF_FILENAME = {disks}\nMASTER_HOST = {ADDRESS}\nHDD_LEAVE_SPACE_DEFAULT = 0\nCSSERV_LISTEN_HOST = {ADDRESS}\n")
        for words in (["mfsmaster", "-f", "-c", master], ["mfschunkserver", "-f", "-c", chunk]):
            subprocess.Popen([*words, "start"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        views = []
        for name in ("one", "other"):
            where = os.path.join(scratch, name)
            os.mkdir(where)
            wait_for(lambda where=where: subprocess.run(["mfsmount", where, "-H", ADDRESS], capture_output=True, check=False).returncode == 0,
                     "mfsmaster does not answer")
            views.append(where)
        first = os.path.join(views[0], "probe")

        def writes():
            try:
                write(first, "x")
                os.remove(first)
                return True
            except OSError:
                return False
        wait_for(writes, "mfschunkserver takes no data")
        return views


class Ceph(Kind):
    """Two clients of one monitor, one metadata server and one object server, which keeps its objects in memory."""
    two = True
    CONFIGURATION = """[global]
fsid = {cluster}
mon host = {address}
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
run dir = {scratch}/run
admin socket = {scratch}/run/$name.$pid.asok
pid file =
log file =
log to stderr = false
mon cluster log file =
mon data = {scratch}/mon
osd data = {scratch}/osd
mds data = {scratch}/mds
keyring = {scratch}/keyring
client mount timeout = {patience}
"""

    def mount(self, scratch):
        need("ceph", "ceph-mon", "ceph-osd", "ceph-mds", "ceph-fuse", "monmaptool", "ip")
        network()
        for name in ("mon", "osd", "mds", "run"):
            os.mkdir(os.path.join(scratch, name))
        run("mount", "-t", "tmpfs", "lzy-test", os.path.join(scratch, "mon"))  # it syncs each step
        cluster, device, configuration = str(uuid.uuid4()), str(uuid.uuid4()), os.path.join(scratch, "ceph.conf")
        write(configuration, self.CONFIGURATION.format(cluster=cluster, address=ADDRESS, scratch=scratch, patience=PATIENCE))

        def words(program, *more):
            return [program, "--conf", configuration, *more]

        def serve(program, name):
            subprocess.Popen(words(program, "-f", "-i", name), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def answers(*more):
            return subprocess.run(words("ceph", "--connect-timeout", "5", *more), capture_output=True, text=True, check=False, timeout=PATIENCE)
        monitors = os.path.join(scratch, "monmap")
        run("monmaptool", "--create", "--add", "a", ADDRESS, "--fsid", cluster, monitors)
        run(*words("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors))
        serve("ceph-mon", "a")
        wait_for(lambda: answers("status").returncode == 0, "ceph-mon does not answer")
        run(*words("ceph", "osd", "new", device, "0"))
        run(*words("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", device))
        serve("ceph-osd", "0")
        serve("ceph-mds", "a")
        for pool in ("metadata", "data"):
            run(*words("ceph", "osd", "pool", "create", pool, "8"))
        run(*words("ceph", "fs", "new", "fs", "metadata", "data"))
        wait_for(lambda: "active" in answers("mds", "stat").stdout, "ceph-mds does not become active")
        views = []
        for name in ("one", "other"):
            where = os.path.join(scratch, name)
            os.mkdir(where)
            run(*words("ceph-fuse", where))
            views.append(where)
        return views


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def wait_for(holds, what):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise Missing(what)
        time.sleep(0.1)


KINDS = {
    "Ext4": Disk(["mkfs.ext4", "-q", "-F"]),
    "Ext4WholeSeconds": Disk(["mkfs.ext4", "-q", "-F", "-I", "128"], whole_seconds=True),
    "Xfs": Disk(["mkfs.xfs", "-q"]),
    "Btrfs": Disk(["mkfs.btrfs", "-q"]),
    "BtrfsCompressed": Disk(["mkfs.btrfs", "-q"], "compress-force=zstd"),
    "Tmpfs": Memory(),
    "Overlayfs": Overlay(),
    "Sshfs": Sshfs(),
    "GlusterReplicated": Gluster("replica", "2", bricks=2),
    "GlusterDispersed": Gluster("disperse", "3", "redundancy", "1", bricks=3),
    "MooseFs": Moose(),
    "CephFs": Ceph(),
}
