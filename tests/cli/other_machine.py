"""In place of ssh, for --rsh: runs the command on this machine, in another home directory. Its options put trouble in the way.

other_machine.py [options] HOST COMMAND
"""

import argparse
import os
import resource
import subprocess
import sys
import threading


def pump(source, sink, flips, cut):
    """Passes bytes on. Flips one bit of the bytes at the offsets `flips`; ends after `cut` bytes."""
    done = 0
    while data := os.read(source, 1 << 16):
        data = bytearray(data)
        for at in flips:
            if done <= at < done + len(data):
                data[at - done] ^= 0x10
        if cut and done + len(data) >= cut:
            os._exit(255)
        done += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(sink, view):]
    os.close(sink)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", required=True)
    parser.add_argument("--bin", default=os.environ.get("TEST_LZY_BIN", ""))
    parser.add_argument("--flip", type=int, action="append", default=[], help="offset of a byte from the other machine")
    parser.add_argument("--flip-to", type=int, action="append", default=[], help="offset of a byte to the other machine")
    parser.add_argument("--cut", type=int, default=0, help="the connection ends after so many bytes from the other machine")
    parser.add_argument("--cut-to", type=int, default=0, help="the same for bytes to the other machine")
    parser.add_argument("--most", type=int, default=0, help="the largest file that can be written there")
    parser.add_argument("--log", default="", help="one line for each connection")
    parser.add_argument("host")
    parser.add_argument("command")
    options = parser.parse_args()
    if options.log:
        with open(options.log, "a") as log:
            log.write(f"{options.host} {options.command}\n")
    environment = {**os.environ, "HOME": options.home, "PATH": f"{options.bin}:{os.environ['PATH']}"}

    def prepare():
        os.chdir(options.home)
        if options.most:
            resource.setrlimit(resource.RLIMIT_FSIZE, (options.most, options.most))

    if not (options.flip or options.flip_to or options.cut or options.cut_to):
        prepare()
        os.execve("/bin/sh", ["sh", "-c", options.command], environment)
    child = subprocess.Popen(["/bin/sh", "-c", options.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
                             preexec_fn=prepare)
    to = threading.Thread(target=pump, args=(0, child.stdin.fileno(), options.flip_to, options.cut_to), daemon=True)
    to.start()
    pump(child.stdout.fileno(), 1, options.flip, options.cut)
    sys.exit(child.wait())


if __name__ == "__main__":
    main()
