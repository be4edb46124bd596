"""What tests with a catalogue share. Time passes by making what the catalogue says older."""

import contextlib
import os
import sqlite3
import struct

from harness import CliTest, pattern_bytes

DAY = 86400 * 10**9
MIB = 1 << 20


def netcdf_bytes(name, count):
    """A file of classic netCDF (CDF-1) with one variable of floats. Its data begin at byte 4096."""
    def text(raw):
        return struct.pack(">i", len(raw)) + raw + bytes(-len(raw) % 4)

    head = b"CDF\1" + struct.pack(">iii", 0, 10, 1) + text(b"x") + struct.pack(">i", count) + bytes(8)
    head += struct.pack(">ii", 11, 1) + text(name) + struct.pack(">ii", 1, 0) + bytes(8) + struct.pack(">iii", 5, 4 * count, 4096)
    return head + bytes(4096 - len(head)) + pattern_bytes(4 * count)


class Catalogued(CliTest):
    def setUp(self):
        super().setUp()
        self.catalog = os.path.join(os.environ["XDG_STATE_HOME"], "lzy/catalog.sqlite")

    def query(self, sql, *values):
        with contextlib.closing(sqlite3.connect(self.catalog)) as database, database:
            return database.execute(sql, values).fetchall()

    def days_pass(self, days):
        """Everything that the catalogue knows is older now."""
        past = int(days * DAY)
        with contextlib.closing(sqlite3.connect(self.catalog)) as database, database:
            for column in ("first_seen", "last_seen", "last_commit", "last_verified", "pass_began"):
                database.execute(f"UPDATE datasets SET {column} = {column} - ? WHERE {column} != 0", (past,))
            database.execute("UPDATE events SET time = time - ?, ended = CASE ended WHEN 0 THEN 0 ELSE ended - ? END", (past, past))

    def dataset(self, name):
        """The state in the catalogue, and the share of a pass that is done."""
        rows = self.query("SELECT state, last_verified, pass_rows, rows FROM datasets WHERE path = ?", os.path.realpath(self.path(name)))
        self.assertEqual(len(rows), 1, name)
        return rows[0]

    def events(self, what):
        return self.query("SELECT d.path, e.path, e.part, e.offset, e.length, e.ended != 0, e.outcome FROM events e JOIN datasets d "
                          "ON d.id = e.dataset WHERE e.what = ? ORDER BY e.id", what)

    def real(self, name):
        return os.path.realpath(self.path(name))

    def make(self, name, size, seed=1):
        piece = pattern_bytes(min(size, MIB), seed)
        self.write(name, piece * (size // len(piece)) + piece[:size % len(piece)])
        self.age(name)

    def scrubbed(self, exit_code, *words, **more):
        """Names of the datasets that a scrub read, in its order."""
        return [dataset["path"] for dataset in self.report(exit_code, "lzy-scrub", *words, **more)["datasets"]]
