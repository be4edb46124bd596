"""A launcher that is nobody's mpiexec: srun_like.py RANKS COMMAND... starts COMMAND in every rank, passes its own
environment on as a scheduler's launcher does, and answers the PMI-1 questions that programs of MPICH's family ask
(https://www.mcs.anl.gov/papers/P1760.pdf, the wire protocol of hydra and of slurm's srun)."""

import os
import selectors
import socket
import subprocess
import sys


class Server:
    def __init__(self, ranks):
        self.ranks = ranks
        self.values = {"PMI_process_mapping": f"(vector,(0,1,{ranks}))"}
        self.waiting = []

    def answer(self, connection, line):
        words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command = words["cmd"]
        if command == "barrier_in":
            self.waiting.append(connection)
            if len(self.waiting) == self.ranks:
                for one in self.waiting:
                    one.sendall(b"cmd=barrier_out rc=0\n")
                self.waiting = []
            return
        if command == "put":
            self.values[words["key"]] = words["value"]
        found = self.values.get(words.get("key"))
        answers = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0",
            "get_appnum": "cmd=appnum appnum=0 rc=0",
            "get_my_kvsname": "cmd=my_kvsname kvsname=kvs rc=0",
            "get_universe_size": f"cmd=universe_size size={self.ranks} rc=0",
            "put": "cmd=put_result rc=0 msg=success",
            "get": f"cmd=get_result rc=0 msg=success value={found}" if found else "cmd=get_result rc=-1 msg=not_found",
            "finalize": "cmd=finalize_ack rc=0",
        }
        connection.sendall((answers.get(command, f"cmd={command} rc=-1") + "\n").encode())


def main():
    ranks = int(sys.argv[1])
    server = Server(ranks)
    selector = selectors.DefaultSelector()
    running = []
    for rank in range(ranks):
        mine, theirs = socket.socketpair()
        environment = {**os.environ, "PMI_FD": str(theirs.fileno()), "PMI_RANK": str(rank), "PMI_SIZE": str(ranks)}
        running.append(subprocess.Popen(sys.argv[2:], env=environment, pass_fds=[theirs.fileno()]))
        theirs.close()
        selector.register(mine, selectors.EVENT_READ, bytearray())
    while selector.get_map():
        for key, _ in selector.select():
            received = key.fileobj.recv(65536)
            if not received:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                continue
            key.data.extend(received)
            while b"\n" in key.data:
                line, _, rest = bytes(key.data).partition(b"\n")
                key.data[:] = rest
                server.answer(key.fileobj, line.decode())
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
