"""A checkpoint of one file for each rank by Python: the way (open, os, replace, shutil, mmap, pickle) is argument 1, the name without the
rank argument 2, the seed argument 3. Needs mpi4py."""

import array
import mmap
import os
import pickle
import shutil
import subprocess
import sys
import tempfile

from mpi4py import MPI

way, base, seed = sys.argv[1:4]
rank = MPI.COMM_WORLD.rank
name = f"{base}.{rank}"
data = array.array("d", (int(seed) + rank + i / 3 for i in range(20000))).tobytes()

if way == "open":
    with open(name, "wb") as file:
        for start in range(0, len(data), 10000):
            file.write(data[start:start + 10000])
elif way == "os":
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.pwrite(descriptor, data, 0)
    copy = os.dup(descriptor)
    os.close(descriptor)
    # A child that is started in between inherits nothing, and closes nothing of ours.
    subprocess.run(["true"], check=True)
    os.pwrite(copy, b"HEAD", 0)
    os.close(copy)
elif way == "replace":
    with tempfile.NamedTemporaryFile(dir=".", delete=False) as file:
        file.write(data)
    os.replace(file.name, name)
elif way == "shutil":
    with open(f"{name}.source", "wb") as file:
        file.write(data)
    shutil.copyfile(f"{name}.source", name)
    os.remove(f"{name}.source")
elif way == "mmap":
    with open(name, "w+b") as file:
        file.truncate(len(data))
        with mmap.mmap(file.fileno(), len(data)) as pages:
            pages[:] = data
elif way == "pickle":
    with open(name, "wb") as file:
        pickle.dump({"rank": rank, "data": data}, file)
