"""What the configuration topic holds: a control record for each connector, and one of the workers."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import VERSION, ControlKey

WORKERS: Final = ControlKey("workers")
_CONNECTOR: Final = "connector:"


class ConnectorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A connector as it was configured, secrets as they were given. `at_ms` is since 1970."""

    v: int = VERSION
    name: str
    config: dict[str, str]
    at_ms: int
    created_ms: int | None = None
    """When it was created, which tells it from one of the same name before; None: it is a file."""
    initial_state: str = "RUNNING"
    """What it was created to do, in Connect's words."""
    problem: str | None = None
    """Why it cannot run, where its file cannot be read; never in the topic."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: where it answers (None: nowhere), and the connectors that it runs."""

    url: str | None
    connectors: tuple[str, ...] = ()


class WorkersRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All workers by id, and which of them leads: it alone writes the topic."""

    v: int = VERSION
    leader: str
    workers: dict[str, WorkerRecord]

    def worker_of(self, connector: str) -> str | None:
        """The id of the worker that runs a connector."""
        for name, worker in self.workers.items():
            if connector in worker.connectors:
                return name
        return None


def is_worker_key(key: ControlKey) -> bool:
    """True for the keys of this module."""
    return key == WORKERS or key.name.startswith(_CONNECTOR)


def decode_worker_record(key: ControlKey, raw: bytes) -> ConnectorRecord | WorkersRecord:
    """The record that `encode` gave; InvalidLedger for a newer version's, and for anything else."""
    return _decode(key, raw, WorkersRecord) if key == WORKERS else _decode(key, raw, ConnectorRecord)


def connector_key(name: str) -> ControlKey:
    """The key of a connector's record."""
    return ControlKey(f"{_CONNECTOR}{name}")


def connector_records(controls: Mapping[ControlKey, bytes]) -> dict[str, ConnectorRecord]:
    """All connectors by name, sorted. InvalidLedger for a record of a newer version."""
    found = (
        _decode(key, raw, ConnectorRecord) for key, raw in controls.items() if key.name.startswith(_CONNECTOR)
    )
    return by_name(found)


def by_name(records: Iterable[ConnectorRecord]) -> dict[str, ConnectorRecord]:
    """The records by their names, sorted."""
    return dict(sorted((record.name, record) for record in records))


def workers_record(controls: Mapping[ControlKey, bytes]) -> WorkersRecord | None:
    """The workers, once one has led."""
    raw = controls.get(WORKERS)
    return None if raw is None else _decode(WORKERS, raw, WorkersRecord)


def encode(record: ConnectorRecord | WorkersRecord) -> bytes:
    """The value of a record."""
    return msgspec.json.encode(record)


class _Versioned(msgspec.Struct):
    v: int


R = TypeVar("R", ConnectorRecord, WorkersRecord)


def _decode(key: ControlKey, raw: bytes, kind: type[R]) -> R:
    try:
        version = msgspec.json.decode(raw, type=_Versioned).v
        if version == VERSION:
            return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidLedger(f"The configuration topic's record {key.name!r} is not Headrace's.") from error
    raise InvalidLedger(
        f"The configuration topic holds {key.name!r} in format {version!r}, which this version does not "
        "know. Run the newer version of Headrace that wrote it."
    )
