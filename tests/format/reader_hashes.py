"""Hashes, keys and hash trees: §2, §3 and §12 of docs/format.md. Part of the independent reader (format_reader.py)."""
import hashlib
import struct

import numpy as np
import xxhash

from reader_fields import DATA_TREE, MEMBER_TREE, PAGE, PARITY_TREE, SET

ROOT_TAG = {DATA_TREE: 0x05, PARITY_TREE: 0x06, MEMBER_TREE: 0x07}


def H(tag, index, data):
    return xxhash.xxh3_128_digest(data, seed=tag << 56 | index)[::-1]  # digest() is big-endian


class Key:
    """§12: what a secret makes."""

    def __init__(self, secret):
        self.key = hashlib.blake2b(secret, digest_size=32, person=b"lzy key").digest()
        self.id = self._digest(b"", 16, b"lzy key id")

    def _digest(self, data, size, person, salt=b""):
        return hashlib.blake2b(data, digest_size=size, key=self.key, salt=salt, person=person).digest()

    def leaf(self, tag, index, data):
        return self._digest(data, 16, b"lzy leaf", struct.pack("<Q", tag << 56 | index))

    def seal(self, data):
        return self._digest(data, 32, b"lzy seal")


def leaf_of(key, tag, index, data):
    return key.leaf(tag, index, data) if key else H(tag, index, data)


def parents(tree, level, hashes):
    """Concatenated hashes of `level`, from those of the level below."""
    step = 32 if tree == MEMBER_TREE else PAGE
    return b"".join(H(tree + level, i, hashes[o:o + step]) for i, o in enumerate(range(0, len(hashes), step)))


def levels_of(tree, leaves):
    levels = [leaves] if leaves else []
    while levels and len(levels[-1]) > 16:
        levels.append(parents(tree, len(levels), levels[-1]))
    return levels


def root_of(tree, leaf_count, covered, top):
    return H(ROOT_TAG[tree], 0, struct.pack("<QQ", leaf_count, covered) + top)


def dataset_root(sb, members_root):
    p = sb.devices if sb.kind == SET else 1
    return H(0x08, 0, struct.pack("<IIQIIQ", sb.kind, sb.b, sb.u, sb.n, sb.m, p) + members_root)


def differing_hashes(a, b):
    if a == b:
        return []
    both = min(len(a), len(b)) // 16 * 16
    x, y = (np.frombuffer(h[:both], np.uint8).reshape(-1, 16) for h in (a, b))
    return np.flatnonzero((x != y).any(axis=1)).tolist()
