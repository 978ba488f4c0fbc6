"""The files of a discovery log, read beside the queries, put back from a backup."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from spark.frames.discovery_log import LogAbout
from spark.frames.log_entries import decode_entry, entry_name, log_files, snapshot_tables
from tests.simulation.s3 import Bucket, StoredObject


class Logged(NamedTuple):
    """An object in the log."""

    batch: int
    key: str
    etag: str
    version_id: str | None


class LogFiles:
    """The files of one log: a folder, or a prefix of a bucket."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket = bucket
        self._folder = None if path.startswith("s3://") else Path(path)
        name, _, prefix = path.removeprefix("s3://").partition("/")
        self._name, self._prefix = name, f"{prefix}/"
        self._read: set[str] = set()
        self._found: dict[tuple[str, str], list[Logged]] = {}

    def files(self) -> dict[str, bytes]:
        """All of them, by name."""
        return {name: self._content(name) for name in self._names()}

    def replace(self, files: dict[str, bytes]) -> None:
        """Have these files and no others: a backup is restored."""
        self._read, self._found = set(), {}
        if self._folder is None:
            there = self._bucket.objects[self._name]
            for name in self._names():
                del there[self._prefix + name]
            for name, content in files.items():
                stored = StoredObject(content, f'"{hash(content)}"', {}, self._bucket.now_ms())
                there[self._prefix + name] = stored
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        for name, content in files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def find(self, key: str, etag: str) -> list[Logged]:
        """Where the log has, or had, an object of this content."""
        self._refresh()
        return self._found.get((key, etag), [])

    def in_force(self) -> Iterator[Logged]:
        """Every object of every batch, each from the file that counts."""
        files = log_files(self._names(), "the log")
        for name in (*(span.name for span in files.spans), *map(entry_name, files.entries)):
            yield from _logged(name, self._content(name))

    def last(self) -> int:
        """The last batch, 0 before the first."""
        self._refresh()
        return max((one.batch for found in self._found.values() for one in found), default=0)

    def about(self) -> LogAbout | None:
        """What it was made for."""
        content = self.files().get("log.json")
        return None if content is None else msgspec.json.decode(content, type=LogAbout)

    def bad_rows(self) -> list[tuple[str, str]]:
        """Key and ETag of each row that is noted as a bad one."""
        rows = [
            json.loads(line)
            for name, content in self.files().items()
            if name.startswith("bad/")
            for line in content.splitlines()
        ]
        return [(row["key"], row["etag"]) for row in rows]

    def _names(self) -> list[str]:
        if self._folder is None:
            there = self._bucket.objects[self._name]
            return [key.removeprefix(self._prefix) for key in there if key.startswith(self._prefix)]
        found = (path for path in self._folder.rglob("*") if path.is_file() and path.name[0] != ".")
        return sorted(str(path.relative_to(self._folder)) for path in found)

    def _content(self, name: str) -> bytes:
        if self._folder is None:
            return self._bucket.objects[self._name][self._prefix + name].body
        return (self._folder / name).read_bytes()

    def _refresh(self) -> None:
        for name in self._names():
            if name not in self._read and name.startswith(("entries/", "known/")):
                self._read.add(name)
                for one in _logged(name, self._content(name)):
                    known = self._found.setdefault((one.key, one.etag), [])
                    if one not in known:
                        known.append(one)


def _logged(name: str, content: bytes) -> Iterator[Logged]:
    if name.startswith("entries/"):
        entry = decode_entry(content, name)
        for one in entry.objects:
            yield Logged(entry.batch, one.key, one.etag, one.version_id)
        return
    for table in snapshot_tables(content):
        for row in table.select(["batch", "key", "etag", "version_id"]).to_pylist():
            yield Logged(row["batch"], row["key"], row["etag"], row["version_id"])
