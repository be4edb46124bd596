"""The structures and functions of lzy.h, by ctypes."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

OPERATIONS = ["protect", "verify", "repair", "restore", "info"]  # in the order of lzy_c.c

Progress = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_uint64)


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("parity", c_int32), ("group", c_uint32), ("block_size", c_uint32), ("stripe", c_uint64),
                ("memory", c_uint64), ("threads", c_uint32), ("timeout", c_uint32), ("use_environment", c_int32),
                ("from_disk", c_int32), ("force", c_int32), ("dry_run", c_int32), ("salvage", c_int32),
                ("devices", POINTER(c_uint32)), ("device_count", c_size_t), ("progress", Progress),
                ("progress_data", c_void_p), ("replica", c_char_p), ("no_objects", c_int32), ("lost_here", c_int32),
                ("lost_nodes", c_char_p), ("exchange", c_char_p)]


class Dataset(ctypes.Structure):
    _fields_ = [("path", c_char_p), ("kind", c_int), ("state", c_int), ("code", c_int), ("message", c_char_p),
                ("root", c_char_p), ("devices", c_uint32), ("parity", c_uint32), ("groups", c_uint32),
                ("group_size", c_uint32), ("block_size", c_uint32), ("unit", c_uint64), ("bytes", c_uint64),
                ("sidecar_bytes", c_uint64), ("generation", c_uint64), ("commit_time_ns", c_int64), ("committed", c_int32),
                ("bytes_read", c_uint64), ("bytes_encoded", c_uint64), ("damage_count", c_size_t),
                ("warning_count", c_size_t)] + [(f"seconds_{phase}", c_double) for phase in
                                                ("read", "hash", "encode", "exchange", "write", "sync", "total")] + [
                                                    ("not_visible_count", c_size_t)]


class NotVisible(ctypes.Structure):
    _fields_ = [("device", c_uint32), ("path", c_char_p), ("node", c_char_p)]


class Damage(ctypes.Structure):
    _fields_ = [("path", c_char_p), ("device", c_uint32), ("part", c_int), ("offset", c_uint64), ("length", c_uint64),
                ("cause", c_int), ("transient", c_int32), ("repaired", c_int32), ("beyond_repair", c_int32),
                ("objects", POINTER(c_char_p)), ("object_count", c_size_t), ("object_texts", POINTER(c_char_p)),
                ("objects_left_off", c_uint64)]


CopyProgress = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class CopyOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("verify", c_int), ("no_protect", c_int32), ("resume", c_int32), ("salvage", c_int32),
                ("limit", c_uint64), ("progress", CopyProgress), ("progress_data", c_void_p)]


class Copied(ctypes.Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in ("files", "already", "failed", "bytes", "healed_bytes",
                                                                     "sent_again_bytes", "lost_bytes")]


class Range(ctypes.Structure):
    _fields_ = [("offset", c_uint64), ("length", c_uint64)]


class Difference(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("a", c_char_p), ("b", c_char_p), ("verdict", c_int), ("code", c_int), ("bytes_a", c_uint64),
                ("bytes_b", c_uint64), ("block_size", c_uint64), ("ranges_known", c_int32), ("ranges", POINTER(Range)),
                ("range_count", c_size_t), ("message", c_char_p)]


STRUCTURES = [Options, Dataset, Damage, CopyOptions, Copied, Range, Difference, NotVisible]

library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_lzy_c.so"))


def _declare(name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


run = _declare("lzy_python_run", c_int, c_int, c_void_p, c_char_p, POINTER(Options), POINTER(c_void_p))
copy = _declare("lzy_python_copy", c_int, c_void_p, c_char_p, c_char_p, POINTER(Options), POINTER(CopyOptions),
                POINTER(Copied), POINTER(c_void_p))
diff = _declare("lzy_python_diff", c_int, c_void_p, c_char_p, c_char_p, c_int, POINTER(Options), POINTER(c_void_p))
size = _declare("lzy_python_size", c_size_t, c_int)
mpi = _declare("lzy_python_mpi", c_int, c_char_p)
mpi_size = _declare("lzy_python_mpi_size", c_size_t)
# Functions of liblzy, which the extension is linked with.
options_init = _declare("lzy_options_init", c_int, POINTER(Options), c_size_t)
copied_init = _declare("lzy_copied_init", c_int, POINTER(Copied), c_size_t)
copy_options_init = _declare("lzy_copy_options_init", c_int, POINTER(CopyOptions), c_size_t)
version = _declare("lzy_version", c_char_p)
commit_wait = _declare("lzy_commit_wait", c_int, c_char_p, ctypes.c_double)
strerror = _declare("lzy_strerror", c_char_p, c_int)
state_name = _declare("lzy_state_name", c_char_p, c_int)
part_name = _declare("lzy_part_name", c_char_p, c_int)
cause_name = _declare("lzy_cause_name", c_char_p, c_int)
report_code = _declare("lzy_report_code", c_int, c_void_p)
report_message = _declare("lzy_report_message", c_char_p, c_void_p)
report_count = _declare("lzy_report_count", c_size_t, c_void_p)
report_dataset = _declare("lzy_report_dataset", POINTER(Dataset), c_void_p, c_size_t)
report_damage = _declare("lzy_report_damage", POINTER(Damage), c_void_p, c_size_t, c_size_t)
report_warning = _declare("lzy_report_warning", c_char_p, c_void_p, c_size_t, c_size_t)
report_not_visible = _declare("lzy_report_not_visible", POINTER(NotVisible), c_void_p, c_size_t, c_size_t)
report_same = _declare("lzy_report_same", c_uint64, c_void_p)
report_difference_count = _declare("lzy_report_difference_count", c_size_t, c_void_p)
report_difference = _declare("lzy_report_difference", POINTER(Difference), c_void_p, c_size_t)
report_free = _declare("lzy_report_free", None, c_void_p)

# A version of lzy.h with other structures would be misread.
if [size(i) for i in range(len(STRUCTURES))] != [ctypes.sizeof(kind) for kind in STRUCTURES]:
    raise ImportError(f"this Python package does not fit liblzy {version().decode()}: build it again with that library")
COMM_SIZE = size(len(STRUCTURES))
