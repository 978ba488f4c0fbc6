"""The cache's tables and statements. `begin` and `end` are -1 in an object's own row."""

from typing import Final

# Another version's file is thrown away.
VERSION: Final = "1"

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS controls (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
-- Rows lie in the order they came, and only their keys are sorted: a million arrive in half the time that
-- sorting them with their values would take.
CREATE TABLE IF NOT EXISTS entries (
    bucket TEXT NOT NULL, key TEXT NOT NULL, etag TEXT NOT NULL,
    begin INTEGER NOT NULL, "end" INTEGER NOT NULL,
    state TEXT NOT NULL, value BLOB NOT NULL,
    UNIQUE (bucket, key, etag, begin, "end")
);
-- Nearly all entries are done; what is not has to be found without reading those.
CREATE INDEX IF NOT EXISTS not_done ON entries (state) WHERE state <> 'done';
-- What becomes pending is read in pages, in order of the keys, however much of it there is.
CREATE INDEX IF NOT EXISTS unfinished ON entries (bucket, key, etag)
WHERE state IN ('partial', 'failed', 'new') AND begin = -1;
"""
UPSERT: Final = """
INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, value = excluded.value
"""
DELETE: Final = 'DELETE FROM entries WHERE bucket = ? AND key = ? AND etag = ? AND begin = ? AND "end" = ?'
# One key's versions, and the pages of a scan, are ranges of the unique index.
SCAN: Final = """
SELECT bucket, key, etag, state, value FROM entries
WHERE bucket = ? AND (key, etag) > (?, ?) AND key <= ? AND begin = -1 ORDER BY key, etag LIMIT ?
"""
SCAN_OPEN: Final = SCAN.replace("AND key <= ?", "")
GET: Final = """
SELECT value FROM entries WHERE bucket = ? AND key = ? AND etag = ? AND begin = -1 AND "end" = -1
"""
OF_KEY: Final = """
SELECT bucket, key, etag, state, value FROM entries WHERE bucket = ? AND key = ? AND begin = -1 ORDER BY etag
"""
SPLITS: Final = """
SELECT begin, "end", value FROM entries
WHERE bucket = ? AND key = ? AND etag = ? AND begin >= 0 ORDER BY begin, "end"
"""
# The first condition is the index's own: without it SQLite would not use it.
BY_STATE: Final = """
SELECT bucket, key, etag, state, value FROM entries
WHERE state <> 'done' AND state = ? AND begin = -1 LIMIT ?
"""
# The conditions are the index's own, word for word: without them SQLite would not use it.
UNFINISHED: Final = """
SELECT bucket, key, etag, state, value FROM entries INDEXED BY unfinished
WHERE state IN ('partial', 'failed', 'new') AND begin = -1 AND (bucket, key, etag) > (?, ?, ?)
ORDER BY bucket, key, etag LIMIT ?
"""
DONE: Final = """
SELECT bucket, key, etag, state, value FROM entries WHERE state = 'done' AND begin = -1 LIMIT ?
"""
BY_STATE_IN: Final = BY_STATE.replace("begin = -1", "begin = -1 AND bucket = ?")
STATE: Final = """
SELECT state FROM entries WHERE bucket = ? AND key = ? AND etag = ? AND begin = ? AND "end" = ?
"""
# Entries that are not done are few; of the rest only the keys' index is read.
COUNTS: Final = """
SELECT state, count(*) FROM entries WHERE state <> 'done' AND begin = -1 GROUP BY state
"""
COUNT_ALL: Final = "SELECT count(*) FROM entries WHERE begin = -1"
COUNTS_IN: Final = COUNTS.replace("begin = -1", "begin = -1 AND bucket = ?")
COUNT_ALL_IN: Final = f"{COUNT_ALL} AND bucket = ?"
