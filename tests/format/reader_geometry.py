"""Codes and geometry: §6 and §7 of docs/format.md, by its closed formulas. Part of the independent reader
(format_reader.py).
"""
import numpy as np

from reader_fields import SHARED

# ---- §7 codes -----------------------------------------------------------------------------------

def _gf_tables():
    exp, log, x = [0] * 510, [0] * 256, 1
    for i in range(255):
        exp[i] = exp[i + 255] = x
        log[x] = i
        x = x << 1 ^ (0x11D if x & 0x80 else 0)
    e, l = np.array(exp, np.uint8), np.array(log)
    mul = e[l[:, None] + l[None, :]]
    mul[0, :] = mul[:, 0] = 0
    inverse = [0] + [exp[255 - log[a]] for a in range(1, 256)]
    return mul, inverse


MUL, INVERSE = _gf_tables()


def coefficient(n, m, q, j):
    return 1 if m == 1 else INVERSE[(n - m + q) ^ j]


_pairs = {}


def multiply(c, a):
    """c times each byte of `a`; two bytes at a time through a table (units are even)."""
    if c == 1:
        return a
    if c not in _pairs:
        _pairs[c] = np.ascontiguousarray(MUL[c][np.arange(65536, dtype="<u2").view(np.uint8)]).view("<u2")
    return _pairs[c][a.view("<u2")].view(np.uint8)


# ---- §6 geometry: the closed formulas -----------------------------------------------------------

class Rotation:
    """Where the units of a group of n devices, m of them parity in each row, lie."""

    def __init__(self, n, m):
        self.n, self.m = n, m
        r = np.arange(n)
        self.is_data = (r[:, None] - r[None, :]) % n >= m  # [device j, row r of the turn]
        self.data_in_turn = np.cumsum(self.is_data, axis=1) - self.is_data
        self.parity_in_turn = np.cumsum(~self.is_data, axis=1) - ~self.is_data

    def data_before(self, j, t):
        return t // self.n * (self.n - self.m) + self.data_in_turn[j, t % self.n]

    def parity_before(self, j, t):
        return t // self.n * self.m + self.parity_in_turn[j, t % self.n]

    def row_of(self, j, unit):
        """The row in which device j contributes its data unit number `unit`."""
        turn, rest = divmod(unit, self.n - self.m)
        return turn * self.n + int(np.flatnonzero(self.is_data[j])[rest])


class Group:
    """Devices coded together. `sizes`: of the file each device's data lie in; `offset(j, k)`: byte there of unit k."""

    def __init__(self, number, devices, m, u, sizes, stride, base):
        self.number, self.devices, self.u = number, devices, u
        self.rotation = Rotation(len(devices), m)
        self.sizes, self.stride, self.base = np.array(sizes, np.int64), stride, np.array(base, np.int64)
        self.units = [max(0, -(-(size - start) // stride)) for size, start in zip(sizes, base)]
        rows = [(self.rotation.row_of(j, 0), self.rotation.row_of(j, k - 1)) for j, k in enumerate(self.units) if k]
        self.first_row = min((first for first, _ in rows), default=None)
        self.rows = 1 + max((last for _, last in rows), default=-1)

    def offset(self, j, unit):
        return self.base[j] + unit * self.stride

    def row_lengths(self, t):
        """Length of the parity units of rows `t`: that of the longest data unit (blocks follow by clipping)."""
        longest = np.zeros(len(t), np.int64)
        for j in range(self.rotation.n):
            length = np.clip(self.sizes[j] - self.offset(j, self.rotation.data_before(j, t)), 0, self.u)
            np.maximum(longest, np.where(self.rotation.is_data[j, t % self.rotation.n], length, 0), out=longest)
        return longest

    def parity(self, first, count, files):
        """Parity units [q][row] of rows first … first+count−1, from `files`, one a device."""
        n, m = self.rotation.n, self.rotation.m
        out = np.zeros((m, count, self.u), np.uint8)
        for index in range(n - m):
            data = np.zeros((count, self.u), np.uint8)
            for j in range(n):
                start = (j - m - index - first) % n  # rows in which device j has position m + index
                t = np.arange(first + start, first + count, n)
                if len(t):
                    data[start::n] = gather(files[j], self.offset(j, self.rotation.data_before(j, t)), self.u)
            for q in range(m):
                out[q] ^= multiply(coefficient(n, m, q, index), data)
        return out


def gather(data, offsets, u):
    """Units of u bytes at `offsets` (multiples of u) of a file, zeros past its end."""
    out = np.zeros((len(offsets), u), np.uint8)
    unit, whole = offsets // u, len(data) // u
    full = unit < whole
    out[full] = data[:whole * u].reshape(whole, u)[unit[full]]
    tail = data[whole * u:]
    out[unit == whole, :len(tail)] = tail
    return out


def unit_by_rule(sb, stripe, size):
    """docs/format.md "Geometry". `size`: of the shared file, or of the largest member."""
    least = 4 * (sb.n if sb.kind == SHARED else 1)
    u = sb.b
    while 2 * u <= min(stripe, 1 << 30) and least * 2 * u <= size:
        u *= 2
    return u
