"""lzy: redundancy and verification for files that parallel programs write.

    import lzy
    lzy.protect("run42/state.h5")
    report = lzy.verify("run42")
    if not report.ok:
        lzy.repair("run42")
    with lzy.open_verified("run42/state.h5") as file:
        ...

A path is what the tools take: a file, a pattern of a file set ("state.%r"), or a directory. Each operation takes `comm`, a
communicator of mpi4py; then all its processes call the operation with the same arguments. Without it, this process works
alone.

`verify` and `info` return what they found, whatever it is. `protect`, `repair` and `restore` raise an exception if the
datasets are not intact in the end. All raise one if the work itself failed. `error.report` is the report.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Union

from . import _c

__version__ = _c.version().decode()
__all__ = ["Code", "Copied", "Damage", "Damaged", "Dataset", "Difference", "Differences", "Failed", "InternalError", "LzyError", "NotVisible", "OutOfMemory",
           "RepairFailed", "Report", "Stale", "Unprotected", "Unrepairable", "UsageError", "commit_wait", "copy", "diff", "info", "open_verified", "protect", "repair",
           "restore", "verify"]

Path = Union[str, "os.PathLike[str]"]
ProgressFunction = Callable[[str, int, int], None]


class Code(enum.IntEnum):
    """The results of operations: the exit codes of the tools."""

    OK = 0
    DAMAGED = 1
    UNREPAIRABLE = 2
    USAGE = 3
    UNPROTECTED = 4
    REPAIR_FAILED = 5
    IO = 6
    INTERNAL = 7
    NO_MEMORY = 8
    STALE = 9

    @property
    def text(self) -> str:
        return _c.strerror(self).decode()


@dataclass(frozen=True)
class Damage:
    """A range of damaged bytes, perhaps repaired since."""

    path: str
    device: int
    part: str  # "data", "parity" or "metadata"
    offset: int
    length: int
    cause: str  # "hash", "unreadable", "missing", "stale", "at-risk", "not-visible" or "encoding"
    transient: bool
    repaired: bool
    beyond_repair: bool
    objects: tuple[str, ...] = ()  # datasets of HDF5, variables of netCDF; "" for unused space
    object_texts: tuple[str, ...] = ()  # for each, the damaged part: "/fields/T (raw data, chunk [3, 0], …)"
    objects_left_off: int = 0  # number of objects that are not listed


@dataclass(frozen=True)
class NotVisible:
    """A member of a set that no process sees, and that may be on the disk of another node."""

    device: int
    path: str
    node: str  # the node on which it was written; "" if not known


@dataclass(frozen=True)
class Dataset:
    """One file that all processes share, or one set of files."""

    path: str
    kind: str  # "shared" or "set"
    state: str  # "intact", "damaged", "unrepairable", "stale", "at-risk", "unprotected" or "restored"
    code: Code
    message: str
    root: str
    devices: int
    parity: int
    groups: int
    group_size: int
    block_size: int
    unit: int
    bytes: int
    sidecar_bytes: int
    generation: int
    commit_time_ns: int
    committed: bool
    bytes_read: int
    bytes_encoded: int
    seconds: dict[str, float]
    damage: tuple[Damage, ...] = ()
    warnings: tuple[str, ...] = ()
    not_visible: tuple[NotVisible, ...] = ()


@dataclass(frozen=True)
class Report:
    """The findings and results of an operation."""

    operation: str
    code: Code
    message: str
    datasets: tuple[Dataset, ...] = ()

    @property
    def ok(self) -> bool:
        return self.code == Code.OK

    def check(self) -> Report:
        """Raises the exception of the code, unless all is intact."""
        if self.ok:
            return self
        texts = [self.message, *(f"{d.path}: {d.message or d.state}" for d in self.datasets if d.code != Code.OK)]
        raise _EXCEPTIONS.get(self.code, LzyError)("; ".join(text for text in texts if text) or self.code.text, self)


class LzyError(Exception):
    """Any code but Code.OK. Each code has a class of its own."""

    def __init__(self, message: str, report: Report):
        super().__init__(message)
        self.report = report

    @property
    def code(self) -> Code:
        return self.report.code


class Damaged(LzyError):
    """Damage was found; all of it can be repaired."""


class Unrepairable(LzyError):
    """More is lost than parity can repair."""


class UsageError(LzyError, ValueError):
    """A path or an option is not accepted."""


class Unprotected(LzyError):
    """There is no usable sidecar."""


class RepairFailed(LzyError):
    """The result of a repair, restore or copy could not be written, or was not right afterwards."""


class Failed(LzyError, OSError):
    """The operating system refused or failed."""


class InternalError(LzyError, RuntimeError):
    """MPI failed, or there is a bug in lzy."""


class OutOfMemory(LzyError, MemoryError):
    """There is not enough memory."""


class Stale(LzyError):
    """The file changed after its last commit."""


_EXCEPTIONS = {Code.DAMAGED: Damaged, Code.UNREPAIRABLE: Unrepairable, Code.USAGE: UsageError, Code.UNPROTECTED: Unprotected,
               Code.REPAIR_FAILED: RepairFailed, Code.IO: Failed, Code.INTERNAL: InternalError, Code.NO_MEMORY: OutOfMemory,
               Code.STALE: Stale}
_FINDINGS = {Code.OK, Code.DAMAGED, Code.UNREPAIRABLE, Code.UNPROTECTED, Code.STALE}
_KINDS = {1: "shared", 2: "set"}


def _text(value: bytes | None) -> str:
    return os.fsdecode(value or b"")


def _damage(report: ctypes.c_void_p, index: int, entry: int) -> Damage:
    c = _c.report_damage(report, index, entry).contents
    return Damage(_text(c.path), c.device, _text(_c.part_name(c.part)), c.offset, c.length, _text(_c.cause_name(c.cause)),
                  bool(c.transient), bool(c.repaired), bool(c.beyond_repair),
                  tuple(_text(c.objects[i]) for i in range(c.object_count)),
                  tuple(_text(c.object_texts[i]) for i in range(c.object_count)), c.objects_left_off)


def _not_visible(report: ctypes.c_void_p, index: int, entry: int) -> NotVisible:
    c = _c.report_not_visible(report, index, entry).contents
    return NotVisible(c.device, _text(c.path), _text(c.node))


def _dataset(report: ctypes.c_void_p, index: int) -> Dataset:
    c = _c.report_dataset(report, index).contents
    seconds = {name.removeprefix("seconds_"): getattr(c, name) for name, _ in c._fields_ if name.startswith("seconds_")}
    return Dataset(
        path=_text(c.path), kind=_KINDS.get(c.kind, "unknown"), state=_text(_c.state_name(c.state)), code=Code(c.code),
        message=_text(c.message), root=_text(c.root), devices=c.devices, parity=c.parity, groups=c.groups,
        group_size=c.group_size, block_size=c.block_size, unit=c.unit, bytes=c.bytes, sidecar_bytes=c.sidecar_bytes,
        generation=c.generation, commit_time_ns=c.commit_time_ns, committed=bool(c.committed), bytes_read=c.bytes_read,
        bytes_encoded=c.bytes_encoded, seconds=seconds,
        damage=tuple(_damage(report, index, entry) for entry in range(c.damage_count)),
        warnings=tuple(_text(_c.report_warning(report, index, entry)) for entry in range(c.warning_count)),
        not_visible=tuple(_not_visible(report, index, entry) for entry in range(c.not_visible_count)))


def _address_of(comm: Any) -> int | None:
    """The address of the communicator of mpi4py, if its MPI is that of lzy."""
    if comm is None:
        return None
    from mpi4py import MPI
    own = ctypes.create_string_buffer(_c.mpi_size())
    _c.mpi(own)
    if MPI._sizeof(MPI.Comm) != _c.COMM_SIZE or MPI.Get_library_version().rstrip("\0\n") != own.value.decode().rstrip("\n"):
        raise RuntimeError(f"lzy is built for {own.value.decode().splitlines()[0]}, and mpi4py uses "
                           f"{MPI.Get_library_version().splitlines()[0]}: build both with the same MPI")
    return MPI._addressof(comm)


_STRIPE_SERVERS = 2**64 - 1  # LZY_STRIPE_SERVERS


def _options(fields: dict[str, Any]) -> _c.Options:
    options = _c.Options()
    _c.options_init(ctypes.byref(options), ctypes.sizeof(options))
    for name, value in fields.items():
        if value is not None:
            setattr(options, name, _STRIPE_SERVERS if (name, value) == ("stripe", "servers") else value)
    return options


def _take(operation: str, code: int, report: ctypes.c_void_p) -> Report:
    """The report as a dataclass. Frees the report of C."""
    try:
        return Report(operation, Code(code), _text(_c.report_message(report)),
                      tuple(_dataset(report, index) for index in range(_c.report_count(report))))
    finally:
        _c.report_free(report)


def _run(operation: str, path: Path, comm: Any, progress: ProgressFunction | None, devices: Sequence[int] = (),
         **fields: Any) -> Report:
    options = _options(fields)
    listed = (ctypes.c_uint32 * len(devices))(*devices)
    options.devices, options.device_count = listed, len(devices)
    raised: list[BaseException] = []

    def call(_: Any, phase: bytes, done: int, total: int) -> None:
        # No exception may leave a function that C calls.
        try:
            if progress is not None and not raised:
                progress(phase.decode(), done, total)
        except BaseException as error:
            raised.append(error)

    callback = _c.Progress(call) if progress is not None else _c.Progress()
    options.progress = callback
    report = ctypes.c_void_p()
    code = _c.run(_c.OPERATIONS.index(operation), _address_of(comm), os.fsencode(path), ctypes.byref(options),
                  ctypes.byref(report))
    found = _take(operation, code, report)
    if raised:
        raise raised[0]
    return found if found.code in _FINDINGS else found.check()


def protect(path: Path, *, parity: int | None = None, group: int | None = None, block_size: int | None = None,
            stripe: int | str | None = None, force: bool = False, comm: Any = None, progress: ProgressFunction | None = None,
            memory: int | None = None, threads: int | None = None, timeout: int | None = None, exchange: str | None = None,
            use_environment: bool = False, name_objects: bool = True) -> Report:
    """Makes or updates parity and hashes. Without `force`, damaged blocks are not committed, nor files whose sidecar is destroyed.
    `exchange` says how parity is added up among processes: "auto", "mpi", "pairwise", "ring" or "shared"."""
    return _run("protect", path, comm, progress, parity=parity, group=group, block_size=block_size, stripe=stripe, force=force,
                exchange=None if exchange is None else exchange.encode(),
                memory=memory, threads=threads, timeout=timeout, use_environment=use_environment,
                no_objects=not name_objects).check()


def verify(path: Path, *, from_disk: bool = False, comm: Any = None, progress: ProgressFunction | None = None,
           memory: int | None = None, threads: int | None = None, timeout: int | None = None,
           use_environment: bool = False, name_objects: bool = True) -> Report:
    """Checks data, parity and metadata. Changes nothing. With `name_objects`, as in the other functions, a process
    parses damaged HDF5 and netCDF files, and the report names the damaged objects."""
    return _run("verify", path, comm, progress, from_disk=from_disk, memory=memory, threads=threads, timeout=timeout,
                use_environment=use_environment, no_objects=not name_objects)


def repair(path: Path, *, from_disk: bool = False, force: bool = False, comm: Any = None,
           progress: ProgressFunction | None = None, memory: int | None = None, threads: int | None = None,
           timeout: int | None = None, use_environment: bool = False, name_objects: bool = True) -> Report:
    """Verifies, and repairs damaged blocks in place. Does not make missing files: see restore."""
    return _run("repair", path, comm, progress, from_disk=from_disk, force=force, memory=memory, threads=threads,
                timeout=timeout, use_environment=use_environment, no_objects=not name_objects).check()


def restore(path: Path, *, devices: Sequence[int] = (), dry_run: bool = False, salvage: bool = False, force: bool = False,
            replica: Path | None = None, lost_nodes: Sequence[str] = (), lost_here: bool = False, comm: Any = None,
            progress: ProgressFunction | None = None, memory: int | None = None, threads: int | None = None,
            timeout: int | None = None, use_environment: bool = False, name_objects: bool = True) -> Report:
    """Rebuilds lost files, and repairs damaged blocks. With `dry_run`, returns what would be done. `replica` is another
    copy: a file, the pattern of a set, or a directory with the same names. Blocks that parity cannot rebuild come from
    there if they have the committed hash. Members of sets that no process sees are not lost if they may be on other nodes, unless
    `lost_nodes` names these nodes, or with `lost_here`."""
    found = _run("restore", path, comm, progress, devices, dry_run=dry_run, salvage=salvage, force=force, memory=memory,
                 threads=threads, timeout=timeout, use_environment=use_environment, no_objects=not name_objects,
                 replica=None if replica is None else os.fsencode(replica), lost_here=lost_here,
                 lost_nodes=os.fsencode(",".join(lost_nodes)) if lost_nodes else None)
    return found if dry_run else found.check()


def info(path: Path, *, comm: Any = None, use_environment: bool = False) -> Report:
    """Reads the metadata only: geometry, state, root and sizes."""
    return _run("info", path, comm, None, use_environment=use_environment)


def commit_wait(path: Path | None = None, seconds: float | None = None) -> Code:
    """Waits for commits in the background (lzy-run --background): those of the file `path`, or all of this process, at most
    for `seconds`. OK: none of them failed. STALE: one is still under way. IO: one failed, so its file is at risk. Call it, for
    example, before you rename or delete the checkpoint before."""
    return Code(_c.commit_wait(None if path is None else os.fsencode(path), -1 if seconds is None else seconds))


@dataclass(frozen=True)
class Copied:
    """The result of `copy`. Fields whose names contain "bytes" count bytes of data, all others count files."""

    files: int
    already: int
    failed: int
    bytes: int
    healed_bytes: int
    sent_again_bytes: int
    lost_bytes: int


def copy(source: Path, destination: Path, *, verify: str = "device", protect: bool = True, resume: bool = False,
         salvage: bool = False, limit: int | None = None, parity: int | None = None, group: int | None = None,
         block_size: int | None = None, stripe: int | str | None = None, comm: Any = None,
         progress: Callable[[int, int], None] | None = None, memory: int | None = None, threads: int | None = None,
         timeout: int | None = None, use_environment: bool = False) -> Copied:
    """Copies a file, a directory or a set, as lzy-copy does, and proves the copies. `verify` is "device", "cache" or
    "none". An exception of `progress` ends the copy. Raises an exception if not all files were copied and proven, also
    if damage was salvaged: then the copies are there."""
    choices = ["device", "cache", "none"]
    if verify not in choices:
        raise ValueError(f"verify: '{verify}' is not accepted: {', '.join(choices)}")
    options = _options({"parity": parity, "group": group, "block_size": block_size, "stripe": stripe, "memory": memory,
                        "threads": threads, "timeout": timeout, "use_environment": use_environment})
    copying = _c.CopyOptions()
    _c.copy_options_init(ctypes.byref(copying), ctypes.sizeof(copying))
    copying.verify, copying.no_protect, copying.resume = choices.index(verify), not protect, resume
    copying.salvage, copying.limit = salvage, limit or 0
    raised: list[BaseException] = []

    def call(_: Any, done: int, total: int) -> int:
        try:
            if progress is not None and not raised:
                progress(done, total)
        except BaseException as error:
            raised.append(error)
        return len(raised)

    callback = _c.CopyProgress(call) if progress is not None else _c.CopyProgress()
    copying.progress = callback
    copied = _c.Copied()
    _c.copied_init(ctypes.byref(copied), ctypes.sizeof(copied))
    report = ctypes.c_void_p()
    code = _c.copy(_address_of(comm), os.fsencode(source), os.fsencode(destination), ctypes.byref(options),
                   ctypes.byref(copying), ctypes.byref(copied), ctypes.byref(report))
    found = _take("copy", code, report)
    if raised:
        raise raised[0]
    found.check()
    return Copied(**{name: getattr(copied, name) for name, _ in copied._fields_ if name != "size"})


@dataclass(frozen=True)
class Difference:
    """Two files that differ, or whose comparison failed."""

    name: str  # path below the directories; rank of a set's member; "" if two files were compared
    a: str
    b: str
    verdict: str  # "different", "only-a", "only-b" or "unknown"
    code: Code
    bytes_a: int
    bytes_b: int
    block_size: int  # the ranges consist of whole blocks; 0 if data were compared
    ranges: tuple[tuple[int, int], ...] | None  # offset and length; None: not known
    message: str


@dataclass(frozen=True)
class Differences:
    """The result of `diff`. True if there is any difference."""

    code: Code
    same: int  # number of equal files
    entries: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return bool(self.entries)


_VERDICTS = ["same", "different", "only-a", "only-b", "unknown"]


def _difference(report: ctypes.c_void_p, index: int) -> Difference:
    c = _c.report_difference(report, index).contents
    ranges = tuple((c.ranges[i].offset, c.ranges[i].length) for i in range(c.range_count))
    return Difference(name=_text(c.name), a=_text(c.a), b=_text(c.b), verdict=_VERDICTS[c.verdict], code=Code(c.code),
                      bytes_a=c.bytes_a, bytes_b=c.bytes_b, block_size=c.block_size,
                      ranges=ranges if c.verdict == 1 and c.ranges_known else None, message=_text(c.message))


def diff(a: Path, b: Path, *, deep: bool = False, comm: Any = None, memory: int | None = None, threads: int | None = None,
         use_environment: bool = False) -> Differences:
    """Compares two files, directories or sets, as lzy-diff does: by the hashes in their sidecars or, with `deep`, by the
    data. Raises an exception if nothing could be compared."""
    options = _options({"memory": memory, "threads": threads, "use_environment": use_environment})
    report = ctypes.c_void_p()
    code = _c.diff(_address_of(comm), os.fsencode(a), os.fsencode(b), deep, ctypes.byref(options), ctypes.byref(report))
    same = _c.report_same(report)
    entries = tuple(_difference(report, index) for index in range(_c.report_difference_count(report)))
    found = _take("diff", code, report)
    if not entries:
        found.check()
    return Differences(Code(code), same, entries)


@contextlib.contextmanager
def open_verified(path: Path, *, repair: bool = False, from_disk: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file for reading if its data are intact, and raises the exception of the code otherwise. With `repair`,
    damage is repaired first. Whatever reads file objects can read it: h5py.File(file), numpy.load(file)."""
    found = verify(path, from_disk=from_disk)
    if repair and found.code == Code.DAMAGED:
        found = globals()["repair"](path, from_disk=from_disk)
    found.check()
    with open(path, "rb") as file:
        yield file
