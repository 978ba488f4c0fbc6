"""Archives that the real sinks wrote: their objects, their configuration, and the records that were in Kafka.

One zip an archive (`archives/README.md` says what is in it); records are shared by the archives of a topic.
"""

import base64
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path(__file__).parent / "archives"
_OBJECTS: Final = "objects/"

NAMES: Final = tuple(sorted(path.stem for path in _FOLDER.glob("*.zip")))


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was in Kafka."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """One bucket, written by one connector. `tags` are by key; `objects` are all that was in the bucket."""

    name: str
    config: dict[str, Any]
    objects: dict[str, bytes]
    tags: dict[str, dict[str, str]]
    records: tuple[Record, ...]

    @property
    def vendor(self) -> str:
        """The sink that wrote it: aiven, confluent, lenses or quix."""
        return self.name.partition("-")[0]

    def __str__(self) -> str:
        return self.name


@cache
def archive(name: str) -> Archive:
    """The archive of that name."""
    with zipfile.ZipFile(_FOLDER / f"{name}.zip") as packed:
        names = packed.namelist()
        objects = {
            entry.removeprefix(_OBJECTS): packed.read(entry) for entry in names if entry.startswith(_OBJECTS)
        }
        tags = json.loads(packed.read("tags.json")) if "tags.json" in names else {}
        config = json.loads(packed.read("config.json"))
        records = _records(packed.read("records.txt").decode())
    return Archive(name, config, objects, tags, records)


@cache
def _records(file: str) -> tuple[Record, ...]:
    lines = (_FOLDER / "records" / file).read_bytes().split(b"\n")
    return tuple(_record(json.loads(line)) for line in lines if line)


def _record(line: dict[str, Any]) -> Record:
    return Record(
        line["topic"],
        line["partition"],
        line["offset"],
        line["timestamp"],
        _bytes(line["key_b64"]),
        _bytes(line["value_b64"]),
        tuple((name, _bytes(value)) for name, value in line["headers"]),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def archives() -> Iterator[Archive]:
    """All of them."""
    return map(archive, NAMES)
