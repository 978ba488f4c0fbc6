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
    """When it was created, which tells it from one of its name before; None: a file, or not known now."""
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
    """All connectors by name, sorted; a damaged record is its problem. InvalidLedger for a newer version."""
    return by_name(_connector(key, raw) for key, raw in controls.items() if key.name.startswith(_CONNECTOR))


def _connector(key: ControlKey, raw: bytes) -> ConnectorRecord:
    name = key.name.removeprefix(_CONNECTOR)
    try:
        found = _decode(key, raw, ConnectorRecord)
    except _Damaged:
        found = None
    if found is not None and found.name == name:
        return found
    problem = (
        f"The record of connector {name!r} in the configuration topic is not Headrace's: what was there is "
        "lost. PUT its whole configuration again, or DELETE it"
    )
    return ConnectorRecord(name=name, config={"name": name}, at_ms=0, problem=problem)


def by_name(records: Iterable[ConnectorRecord]) -> dict[str, ConnectorRecord]:
    """The records by their names, sorted."""
    return dict(sorted((record.name, record) for record in records))


def workers_record(controls: Mapping[ControlKey, bytes]) -> WorkersRecord | None:
    """The workers, once one has led; None too where that is damaged: the one that leads writes it again."""
    raw = controls.get(WORKERS)
    try:
        return None if raw is None else _decode(WORKERS, raw, WorkersRecord)
    except _Damaged:
        return None


def encode(record: ConnectorRecord | WorkersRecord) -> bytes:
    """The value of a record."""
    return msgspec.json.encode(record)


class _Versioned(msgspec.Struct):
    v: int


R = TypeVar("R", ConnectorRecord, WorkersRecord)


class _Damaged(InvalidLedger):
    """No version of Headrace has written it."""


def require_known_version(key: ControlKey, raw: bytes) -> None:
    """InvalidLedger for a record that a newer version wrote; a damaged one concerns only what it is about."""
    try:
        version = msgspec.json.decode(raw, type=_Versioned).v
    except ValueError:
        return
    if version != VERSION:
        raise InvalidLedger(
            f"The configuration topic holds {key.name!r} in format {version!r}, which this version does not "
            "know. Run the newer version of Headrace that wrote it."
        )


def _decode(key: ControlKey, raw: bytes, kind: type[R]) -> R:
    require_known_version(key, raw)
    try:
        return msgspec.json.decode(raw, type=kind)
    except ValueError as error:
        raise _Damaged(f"The configuration topic's record {key.name!r} is not Headrace's.") from error
