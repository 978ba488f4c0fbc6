"""The commands `replay` and `mark` as control records of the ledger: `{"control":"command:<id>"}`.

A record carries all that the leader needs: objects that `mark` names may be unknown to the ledger.
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from headrace.kafka.control_records import CommandRecord, command_key
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import VERSION, ControlKey, State
from headrace.model.objects import ObjectId, S3Object
from ingest.source.catalogue import Mark, Replay, Selection
from ingest.source.catalogue import ObjectCommand as Change

Action = Literal["replay", "mark"]

# Well below the smallest max.message.bytes in use (1 MiB), and one transaction of the leader each.
MAX_BYTES: Final = 400_000
MAX_OBJECTS: Final = 1000


class CommandObject(msgspec.Struct, frozen=True, array_like=True):
    """One object as it was chosen."""

    key: str
    etag: str
    size: int
    last_modified_ms: int
    version_id: str | None = None


class ObjectsCommand(CommandRecord, frozen=True, kw_only=True):
    """A command with its objects and what was known of them.

    `states` are those in which an object is still meant when the leader comes to it (none: any): what came
    to another end meanwhile is not what a person was shown.
    """

    bucket: str
    objects: tuple[CommandObject, ...]
    states: tuple[str, ...] = ()

    @property
    def change(self) -> Change:
        """The change that is asked for, as the catalogue applies it to one object at a time."""
        selection = Selection(states=frozenset(State(state) for state in self.states))
        if self.action == "replay":
            return Replay(selection=selection, is_from_start=self.from_start)
        return Mark(selection=selection)

    def object(self, wanted: CommandObject) -> S3Object:
        """The object that an item of `objects` names."""
        return S3Object(
            id=ObjectId(self.bucket, wanted.key, wanted.etag),
            size=wanted.size,
            last_modified_ms=wanted.last_modified_ms,
            version_id=wanted.version_id,
        )


def new_commands(
    action: Action,
    objects: Iterable[S3Object],
    *,
    states: Iterable[State] = (),
    from_start: bool = False,
    at_ms: int,
) -> list[tuple[ControlKey, ObjectsCommand]]:
    """Orders for these objects, in their order: each of one bucket, and small enough for one record."""
    chosen = tuple(sorted(str(state) for state in states))
    batch = uuid.uuid4().hex
    return [
        (
            # Numbered, so that a leader who finds several takes them in the order in which they were given.
            command_key(f"{batch}-{number:06d}"),
            ObjectsCommand(
                action=action,
                bucket=part[0].id.bucket,
                objects=tuple(_command_object(seen) for seen in part),
                states=chosen,
                from_start=from_start,
                at_ms=at_ms,
            ),
        )
        for number, part in enumerate(_cut(objects))
    ]


def decode_command(key: ControlKey, raw: bytes) -> ObjectsCommand:
    """The command in a control record; InvalidLedger for one of a newer version, or not ours."""
    try:
        command = msgspec.json.decode(raw, type=ObjectsCommand)
    except msgspec.DecodeError as error:
        raise InvalidLedger(
            f"The ledger's control record {key.name!r} is not Headrace's: {raw[:200]!r}."
        ) from error
    if command.v != VERSION or command.action not in {"replay", "mark"}:
        raise InvalidLedger(
            f"The ledger holds a command {command.action!r} in format {command.v!r}, which this version does "
            "not know. Run the newer version of Headrace that wrote it."
        )
    return command


def _command_object(seen: S3Object) -> CommandObject:
    return CommandObject(seen.id.key, seen.id.etag, seen.size, seen.last_modified_ms, seen.version_id)


def _cut(objects: Iterable[S3Object]) -> Iterator[list[S3Object]]:
    part: list[S3Object] = []
    size = 0
    for seen in objects:
        length = len(msgspec.json.encode(_command_object(seen))) + 1
        is_other = bool(part) and part[-1].id.bucket != seen.id.bucket
        if is_other or (part and (len(part) >= MAX_OBJECTS or size + length > MAX_BYTES)):
            yield part
            part, size = [], 0
        part.append(seen)
        size += length
    if part:
        yield part
