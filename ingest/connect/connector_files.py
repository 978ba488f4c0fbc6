"""Connectors from a folder: a file each, taken up as files are added, changed and removed."""

from pathlib import Path
from typing import Final

import structlog

from headrace.model.connector_records import ConnectorRecord, by_name
from headrace.options.document_text import FileKind, read_text
from headrace.options.given import Problems, SettingsError

_log = structlog.get_logger(__name__)

_KINDS: Final[dict[str, FileKind]] = {".json": "json", ".properties": "properties"}

# Name, size, time of change and identity: what tells that a file is another.
_Mark = tuple[str, int, int, int]


class ConnectorFiles:
    """The connectors of a folder. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._marks: tuple[_Mark, ...] | None = None
        self._records: dict[str, ConnectorRecord] = {}
        self._of_file: dict[str, ConnectorRecord] = {}
        self._warned = ""

    def records(self) -> dict[str, ConnectorRecord]:
        """All connectors by name; one whose file cannot be read has the reason as its problem.

        A folder or a file that cannot be read for a moment changes nothing: it is read when it can be.
        """
        try:
            found = sorted(path for path in self.folder.iterdir() if path.suffix in _KINDS)
            marks = tuple(_mark(path) for path in found)
        except OSError as error:
            self._warn(str(error))
            return self._records
        if marks != self._marks:
            read = {path.name: self._record(path) for path in found}
            unreadable = [name for name, record in read.items() if record is None]
            # Rights may come back without a trace in what tells one version of a file from another.
            self._marks = None if unreadable else marks
            self._of_file = {name: record or self._kept(name) for name, record in read.items()}
            records = by_name(self._unique(list(self._of_file.values())))
            if records != self._records:
                _log.info("connectors_read", folder=str(self.folder), connectors=len(records))
            self._records = records
            if not unreadable:
                self._warned = ""
        return self._records

    def _record(self, path: Path) -> ConnectorRecord | None:
        """What the file has; None when it cannot be read."""
        try:
            return _read(path)
        except OSError as error:
            self._warn(str(error))
            return None

    def _kept(self, name: str) -> ConnectorRecord:
        """What a file that cannot be read had before, or that it cannot be read."""
        return self._of_file.get(name) or _unread(self.folder / name, self._warned)

    def _warn(self, error: str) -> None:
        if error != self._warned:
            self._warned = error
            _log.warning("connectors_not_read", folder=str(self.folder), error=error)

    def _unique(self, records: list[ConnectorRecord]) -> list[ConnectorRecord]:
        """Two files of one name are a problem of that connector: neither may win by its place."""
        names = [record.name for record in records]
        twice = {name for name in names if names.count(name) > 1}
        kept = [record for record in records if record.name not in twice]
        return kept + [
            ConnectorRecord(
                name=name,
                config={"name": name},
                at_ms=0,
                problem=f"several files in {self.folder} are of a connector {name!r}; keep one of them",
            )
            for name in sorted(twice)
        ]


def _mark(path: Path) -> _Mark:
    about = path.stat()
    return path.name, about.st_size, about.st_mtime_ns, about.st_ino


def _read(path: Path) -> ConnectorRecord:
    """What a file has, or that it is no configuration. OSError."""
    try:
        problems = Problems()
        config = read_text(path.read_text(encoding="utf-8"), _KINDS[path.suffix], problems)
        problems.raise_if_any()
    except (UnicodeDecodeError, SettingsError) as error:
        return _unread(path, str(error))
    name = config.get("name", "").strip() or path.stem
    return ConnectorRecord(name=name, config={**config, "name": name}, at_ms=0)


def _unread(path: Path, why: str) -> ConnectorRecord:
    name = path.stem
    return ConnectorRecord(name=name, config={"name": name}, at_ms=0, problem=f"{path} cannot be read: {why}")
