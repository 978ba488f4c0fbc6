"""Records that are no objects, `{"control": name}` in the ledger, and those of the configuration topic."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import VERSION, ControlKey

SLOTS: Final = ControlKey("slots")
OWNER: Final = ControlKey("owner")
FIRST_START: Final = ControlKey("first_start")
"""Of a ledger that an older version began; now each bucket has one of its own."""
PAUSE: Final = ControlKey("pause")
CREATION: Final = ControlKey("creation")
TOPICS: Final = ControlKey("topics")
_COMMAND: Final = "command:"
_FIRST_START_OF: Final = "first_start:"


class SlotCount(msgspec.Struct, frozen=True, kw_only=True):
    """The largest number of slots ever used: so many transactional ids are fenced on taking the lead."""

    v: int = VERSION
    slots: int


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The ingester whose ledger this is."""

    v: int = VERSION
    name: str


class AbsentRange(msgspec.Struct, frozen=True, array_like=True):
    """Entries of a bucket, from a key and ETag to another (exclusive), that no full listing showed since."""

    begin_key: str
    begin_etag: str
    end_key: str
    end_etag: str
    since_ms: int


class FirstStart(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as existing before the first start: older than `at_ms` (S3's clock), up to `start_key`.

    `uploads` are the multipart uploads that were under way then, with the times they began at: S3 gives these
    to the completed objects as LastModified; `there` are the ETags of younger objects under their keys that
    were there as well. `moved_to` are the prefixes of this bucket that `post.action`
    has moved objects to since: what lies there was read before. It is of keys below `prefix`; those below the
    prefixes of `earlier` starts, the last of these first, had theirs. `inventory` are the addresses of
    `initial.inventory`, and `is_inventory_over` is true once the full listing after it was complete. `absent`
    is what full listings do not show, `listed_ms` when some of these began; a record of its own would be one
    that 1.0.0 refuses.
    """

    v: int = VERSION
    at_ms: int
    start_key: str | None = None
    uploads: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    there: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    moved_to: tuple[str, ...] = ()
    prefix: str | msgspec.UnsetType = msgspec.UNSET
    earlier: tuple["FirstStart", ...] | msgspec.UnsetType = msgspec.UNSET
    inventory: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    is_inventory_over: bool | msgspec.UnsetType = msgspec.UNSET
    absent: tuple[AbsentRange, ...] | msgspec.UnsetType = msgspec.UNSET
    listed_ms: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def below(self) -> str:
        """The beginning of the keys that it is of; an older version wrote none."""
        return "" if self.prefix is msgspec.UNSET else self.prefix

    @property
    def all(self) -> tuple["FirstStart", ...]:
        """This one and those before it."""
        return (self, *(() if self.earlier is msgspec.UNSET else self.earlier))

    @property
    def inventories(self) -> tuple[str, ...]:
        """The addresses of the inventories that this first start read, or reads."""
        return () if self.inventory is msgspec.UNSET else self.inventory

    @property
    def owes_inventory(self) -> bool:
        """Whether inventories are still to be read, again where a process ended in the middle of them."""
        return bool(self.inventories) and self.is_inventory_over is not True

    def covers(self, prefix: str) -> bool:
        """Whether all keys below a prefix were below one that has had its first start."""
        return any(prefix.startswith(one.below) for one in self.all)


class TargetState(StrEnum):
    """What operators want the ingester to do (`PUT .../pause`, `/stop`, `/resume`)."""

    RUNNING = "running"
    PAUSED = "paused"  # nothing is dealt or received; slots, once idle, stay ready for a while
    STOPPED = "stopped"  # in addition, slots and held messages are given back, and offsets may be changed


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """What was last asked of the ingester through the REST interface, and when; no record: to run."""

    v: int = VERSION
    state: TargetState
    at_ms: int


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """As which creation in a worker the connector has begun, and what it was created to do.

    Deleted and created again it has another `id`, and begins as it was created, not as it was left.
    """

    v: int = VERSION
    id: int
    state: TargetState


class TopicsReset(msgspec.Struct, frozen=True, kw_only=True):
    """When the list of a connector's topics was last emptied (`PUT .../topics/reset`).

    `offsets` says of a sink's partitions, as (topic, partition, offset), where each continued then: its topic
    is listed again once one of them has moved.
    """

    v: int = VERSION
    at_ms: int
    offsets: tuple[tuple[str, int, int], ...] = ()


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What every command says; `ingest.source.command_queue.ObjectsCommand` adds the objects it is for.

    The leader applies it and removes the record in one transaction; a long list is cut into several.
    """

    v: int = VERSION
    action: str
    from_start: bool = False
    at_ms: int


Control = SlotCount | Owner | FirstStart | Pause | Creation | TopicsReset | CommandRecord

_KINDS: Final[dict[str, type[Control]]] = {
    SLOTS.name: SlotCount,
    OWNER.name: Owner,
    FIRST_START.name: FirstStart,
    PAUSE.name: Pause,
    CREATION.name: Creation,
    TOPICS.name: TopicsReset,
}


class _Versioned(msgspec.Struct):
    v: Any


def command_key(command_id: str) -> ControlKey:
    """A key of its own for each command, so that compaction loses none before it is applied."""
    return ControlKey(f"{_COMMAND}{command_id}")


def first_start_key(bucket: str) -> ControlKey:
    """What is remembered of the first start belongs to a bucket: with another one it begins again."""
    return ControlKey(f"{_FIRST_START_OF}{bucket}")


def first_start_bucket(key: ControlKey) -> str | None:
    """The bucket of which this control record keeps the first start; None for other records."""
    return key.name.removeprefix(_FIRST_START_OF) if key.name.startswith(_FIRST_START_OF) else None


def is_command(key: ControlKey) -> bool:
    """Whether this control record is a command."""
    return key.name.startswith(_COMMAND)


def encode_control(control: Control) -> bytes:
    """The value of a control record."""
    return msgspec.json.encode(control)


def decode_control(key: ControlKey, raw: bytes) -> Control:
    """The control that `encode_control` gave; InvalidLedger for a newer version or an unknown name."""
    kind: type[Control] | None = CommandRecord if is_command(key) else _KINDS.get(key.name)
    if first_start_bucket(key) is not None:
        kind = FirstStart
    try:
        version = msgspec.json.decode(raw, type=_Versioned).v
        if version != VERSION or kind is None:
            raise InvalidLedger(
                f"The ledger holds the control record {key.name!r} in format {version!r}, which this version "
                "does not know. Run the newer version of Headrace that wrote it."
            )
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidLedger(
            f"The ledger's control record {key.name!r} is not Headrace's: {raw[:200]!r}."
        ) from error


def target_of(controls: Mapping[ControlKey, bytes]) -> TargetState:
    """What is wanted of the ingester, of a ledger's control records: the next leader begins with it."""
    pause = pause_of(controls)
    return TargetState.RUNNING if pause is None else pause.state


def pause_of(controls: Mapping[ControlKey, bytes]) -> Pause | None:
    """What was last asked of the ingester, of a ledger's control records; None where nothing was.

    InvalidLedger for a record that this version does not know.
    """
    found = decode_control(PAUSE, controls[PAUSE]) if PAUSE in controls else None
    return found if isinstance(found, Pause) else None


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


class _OfConnectors(msgspec.Struct):
    v: int


R = TypeVar("R", ConnectorRecord, WorkersRecord)


class _Damaged(InvalidLedger):
    """No version of Headrace has written it."""


def require_known_version(key: ControlKey, raw: bytes) -> None:
    """InvalidLedger for a record that a newer version wrote; a damaged one concerns only what it is about."""
    try:
        version = msgspec.json.decode(raw, type=_OfConnectors).v
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
