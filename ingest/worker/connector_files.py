"""Connectors from a folder: a file each, taken up as files are added, changed and removed."""

from pathlib import Path
from typing import Final

import structlog

from ingest.model.connector_records import ConnectorRecord, by_name
from ingest.settings.document_text import FileKind, read_text
from ingest.settings.problems import Problems, SettingsError

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

    def records(self) -> dict[str, ConnectorRecord]:
        """All connectors by name; one whose file cannot be read has the reason as its problem.

        A folder that is away for a moment changes nothing.
        """
        try:
            found = sorted(path for path in self.folder.iterdir() if path.suffix in _KINDS)
            marks = tuple(_mark(path) for path in found)
        except OSError as error:
            _log.warning("connectors_not_read", folder=str(self.folder), error=str(error))
            return self._records
        if marks != self._marks:
            self._marks = marks
            self._records = by_name(self._unique([_read(path) for path in found]))
            _log.info("connectors_read", folder=str(self.folder), connectors=len(self._records))
        return self._records

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
    try:
        problems = Problems()
        config = read_text(path.read_text(encoding="utf-8"), _KINDS[path.suffix], problems)
        problems.raise_if_any()
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        name = path.stem
        return ConnectorRecord(
            name=name, config={"name": name}, at_ms=0, problem=f"{path} cannot be read: {error}"
        )
    name = config.get("name", "").strip() or path.stem
    return ConnectorRecord(name=name, config={**config, "name": name}, at_ms=0)
