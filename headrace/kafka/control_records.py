"""Ledger records that are no objects, `{"control": name}`: what they say, to bytes and back."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

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
