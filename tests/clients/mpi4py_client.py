"""mpi4py_client: mpi4py's File. The command line is that of client.h."""

import client
from mpi4py import MPI

COUNT = 5000  # numbers in a block
BLOCKS = 30
UPDATED = 7
FIELD, UPDATE = 1, 2
MODES = ["write_at_all", "write_at", "iwrite_at", "view", "split", "iwrite_all", "ordered", "shared"]


def numbers(comm, seed, block):
    return client.values(seed + 10 * comm.rank, block * COUNT, COUNT)


def open_file(asked, comm):
    mode = MPI.MODE_RDONLY if asked.check else MPI.MODE_RDWR | MPI.MODE_CREATE
    return MPI.File.Open(comm, asked.file, mode)


def set_view(file, comm):
    """Ranks take turns, block by block. Returns the types, to be freed."""
    vector = MPI.INT32_T.Create_vector(BLOCKS, COUNT, COUNT * comm.size)
    resized = vector.Create_resized(0, 4 * COUNT * comm.size * BLOCKS).Commit()
    file.Set_view(4 * COUNT * comm.rank, MPI.INT32_T, resized)
    return [vector, resized]


def byte_offset(comm, block):
    return 4 * COUNT * (block * comm.size + comm.rank)


def in_turns(comm, action):
    for rank in range(comm.size):
        if rank == comm.rank:
            action()
        comm.Barrier()


def write(mode, file, comm):
    data = [numbers(comm, FIELD, block) for block in range(BLOCKS)]
    half = BLOCKS // 2
    everything = client.joined(data)
    if mode == "view":
        types = set_view(file, comm)
        file.Write_all([everything, MPI.INT32_T])
        return types
    if mode == "split":
        types = set_view(file, comm)
        file.Write_all_begin([everything, MPI.INT32_T])
        file.Write_all_end([everything, MPI.INT32_T])
        return types
    if mode == "iwrite_all":
        types = set_view(file, comm)
        file.Iwrite_all([everything, MPI.INT32_T]).Wait()
        return types
    requests = []
    for block in range(BLOCKS):
        if mode == "write_at_all":
            file.Write_at_all(byte_offset(comm, block), [data[block], MPI.INT32_T])
        elif mode == "write_at":
            file.Write_at(byte_offset(comm, block), [data[block], MPI.INT32_T])
        elif mode == "iwrite_at":
            requests.append(file.Iwrite_at(byte_offset(comm, block), [data[block], MPI.INT32_T]))
        elif mode == "ordered":
            file.Write_ordered([data[block], MPI.INT32_T])
        elif mode == "shared":
            in_turns(comm, lambda b=block: file.Write_shared([data[b], MPI.INT32_T]))
        if block == half:
            MPI.Request.Waitall(requests)
            file.Sync()
            client.pause_here(comm)
    MPI.Request.Waitall(requests)
    return []


def check(asked, file, comm):
    for block in range(BLOCKS):
        found = client.zeros(COUNT)
        file.Read_at_all(byte_offset(comm, block), [found, MPI.INT32_T])
        seed = UPDATE if asked.again and block == UPDATED else FIELD
        client.expect(f"block {block}", found, numbers(comm, seed, block))


def main():
    comm = MPI.COMM_WORLD
    asked = client.start(comm, MODES)
    file = open_file(asked, comm)
    types = []
    if asked.check:
        check(asked, file, comm)
    elif asked.again:
        file.Write_at_all(byte_offset(comm, UPDATED), [numbers(comm, UPDATE, UPDATED), MPI.INT32_T])
        file.Sync()
        client.pause_here(comm)
    else:
        types = write(asked.mode, file, comm)
    file.Close()
    for datatype in types:
        datatype.Free()


if __name__ == "__main__":
    client.run(main)
