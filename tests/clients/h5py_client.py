"""h5py_client: h5py with the mpio driver. The command line is that of client.h."""

import client
from mpi4py import MPI
import h5py

ROWS, COLUMNS, ROWS_AGAIN, UPDATED_ROWS = 480, 300, 120, 40
FIELD, UPDATE = 1, 2
LAYOUT = {
    "contiguous": {},
    "chunked": {"chunks": (48, 60)},
    "deflate": {"chunks": (48, 60), "compression": "gzip", "compression_opts": 1},
    "resize": {"chunks": (48, 60), "maxshape": (None, COLUMNS)},
}


def rows(asked, comm, field, seed, start, end):
    """Writes, or reads and compares, this rank's share of the rows [start, end)."""
    first = start + (end - start) * comm.rank // comm.size
    last = start + (end - start) * (comm.rank + 1) // comm.size
    data = client.values(seed, first * COLUMNS, (last - first) * COLUMNS).reshape(last - first, COLUMNS)
    with field.collective:
        if asked.check:
            client.expect("field", field[first:last], data)
        else:
            field[first:last] = data


def first_run(asked, comm, file):
    options = LAYOUT[asked.mode]
    start = ROWS // 2 if asked.mode == "resize" else ROWS
    field = file.create_dataset("field", (start, COLUMNS), dtype="<i4", track_times=False, **options)
    rows(asked, comm, field, FIELD, 0, ROWS // 2)
    file.flush()
    client.pause_here(comm)
    if asked.mode == "resize":
        field.resize(ROWS, axis=0)
    rows(asked, comm, field, FIELD, ROWS // 2, ROWS)


def second_run(asked, comm, file):
    field = file["field"]
    rows(asked, comm, field, UPDATE, 0, UPDATED_ROWS)
    if asked.mode == "resize":
        field.resize(ROWS + ROWS_AGAIN, axis=0)
        rows(asked, comm, field, FIELD, ROWS, ROWS + ROWS_AGAIN)
    file.attrs["again"] = 1
    file.flush()
    client.pause_here(comm)


def check(asked, comm, file):
    field = file["field"]
    if asked.again:
        rows(asked, comm, field, UPDATE, 0, UPDATED_ROWS)
    rows(asked, comm, field, FIELD, UPDATED_ROWS if asked.again else 0, ROWS)
    if asked.again and asked.mode == "resize":
        rows(asked, comm, field, FIELD, ROWS, ROWS + ROWS_AGAIN)


def main():
    comm = MPI.COMM_WORLD
    asked = client.start(comm, list(LAYOUT))
    mode = "r" if asked.check else "r+" if asked.again else "w"
    with h5py.File(asked.file, mode, driver="mpio", comm=comm) as file:
        if asked.check:
            check(asked, comm, file)
        elif asked.again:
            second_run(asked, comm, file)
        else:
            first_run(asked, comm, file)


if __name__ == "__main__":
    client.run(main)
