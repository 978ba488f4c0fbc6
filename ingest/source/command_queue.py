"""Commands (`replay`, `mark`) that the leader finds in the ledger, applied exactly once.

Changes requested over REST (pause, stop, other offsets) are steps among them: `request_step`.

A command's record lists objects. What is applied to an object and the object's leaving of that list are one
transaction: the next leader finds on the list just those that are still to come. An object that a live
plan holds stays on it until it rests.

How the service wires it (its thread owns the `CommandQueue` as it owns the catalogue):

    at start, after take_over    commands.on_control_record(key, raw) for each of cache.controls()
    Applied with a ControlKey    commands.on_control_record(applied.key, applied.entry)
    every turn                   step = commands.step(now()); if there is one, carry out step.effects as
                                 always, but commit step.record in the same transaction as its writes
    that transaction is written  catalogue.on_written(step.effects.writes, ..), then commands.written()

The commands `replay` and `mark` as control records of the ledger: `{"control":"command:<id>"}`.

A record carries all that the leader needs: objects that `mark` names may be unknown to the ledger.
"""

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import msgspec
import structlog

from headrace.kafka.control_records import CommandRecord, command_key, encode_control, is_command
from headrace.model.clock import Instant
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import VERSION, ControlKey, State
from headrace.model.objects import ObjectId, S3Object
from ingest.source.catalogue import Catalogue, Effects, Mark, Replay, Selection
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
                bucket=chunk[0].id.bucket,
                objects=tuple(_command_object(s3_object) for s3_object in chunk),
                states=chosen,
                from_start=from_start,
                at_ms=at_ms,
            ),
        )
        for number, chunk in enumerate(_cut(objects))
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


def _command_object(s3_object: S3Object) -> CommandObject:
    return CommandObject(
        s3_object.id.key, s3_object.id.etag, s3_object.size, s3_object.last_modified_ms, s3_object.version_id
    )


def _cut(objects: Iterable[S3Object]) -> Iterator[list[S3Object]]:
    chunk: list[S3Object] = []
    size = 0
    for s3_object in objects:
        length = len(msgspec.json.encode(_command_object(s3_object))) + 1
        is_other = bool(chunk) and chunk[-1].id.bucket != s3_object.id.bucket
        if is_other or (chunk and (len(chunk) >= MAX_OBJECTS or size + length > MAX_BYTES)):
            yield chunk
            chunk, size = [], 0
        chunk.append(s3_object)
        size += length
    if chunk:
        yield chunk


_log = structlog.get_logger(__name__)

# One transaction of the driver; a batch of them would hold its other writes up.
_AT_ONCE: Final = 1000
_RETRY_MS: Final = 100
KEPT_NAMES: Final = 10_000
"""Of so many commands that are over the names are kept: a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStep:
    """What follows from a command: the effects, and its record, which goes into the same transaction.

    The record is what is left of the command, or None, a tombstone, when nothing is.
    """

    effects: Effects
    record: tuple[ControlKey, bytes | None]


MakeStep = Callable[[Instant], CommandStep | None]
"""Makes a step at this time; None: not yet, because a record that it would name is under way."""


@dataclass(slots=True, kw_only=True)
class _Waiting:
    key: ControlKey
    command: ObjectsCommand
    left: dict[S3Object, None]
    """Those still to come, in order; a dict, so that one is taken out without a walk."""


class CommandQueue:
    """Owned by the service's thread. One step at a time: the next sees what the last one wrote."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._waiting: dict[ControlKey, _Waiting] = {}
        self._known: set[ControlKey] = set()
        self._over: dict[ControlKey, None] = {}
        self._is_writing = False
        self._retry_at_ms = 0
        self._steps: deque[tuple[MakeStep, Callable[[CommandStep], None]]] = deque()
        self._on_written: Callable[[], None] | None = None

    @property
    def is_idle(self) -> bool:
        """True when no command waits and no step is being written."""
        return not self._waiting and not self._steps and not self._is_writing

    def request_step(self, make: MakeStep, written: Callable[[CommandStep], None]) -> None:
        """Have a step made and committed before what waits here; `written` is called once that is done."""
        self._steps.append((make, written))

    def on_control_record(self, key: ControlKey, raw: bytes | None) -> None:
        """A control record was read. What is no command, or known already, is ignored."""
        if raw is None and key not in self._waiting:
            self._forget(key)
        if raw is None or not is_command(key) or key in self._known:
            # Known: found at start and read again, or written by us and read back.
            return
        self._known.add(key)
        command = decode_command(key, raw)
        if not self._catalogue.reads(command.bucket):
            # It stays in the ledger, for when the bucket is named again.
            _log.warning("command_left_out", command=command.action, bucket=command.bucket)
            return
        left = dict.fromkeys(command.object(wanted) for wanted in command.objects)
        self._waiting[key] = _Waiting(key=key, command=command, left=left)
        self._retry_at_ms = 0
        # Found at start they come in no order; those of one call are numbered.
        by_age = sorted(self._waiting.values(), key=lambda one: (one.command.at_ms, one.key))
        self._waiting = {one.key: one for one in by_age}

    def _forget(self, key: ControlKey) -> None:
        """The tombstone of a command was read. Its name is never given again, but it may be read again.

        A leader whose cache is damaged reads the whole ledger once more, and there the command comes before
        its tombstone: so many that are over are still known.
        """
        self._over[key] = None
        while len(self._over) > KEPT_NAMES:
            self._known.discard(oldest := next(iter(self._over)))
            del self._over[oldest]

    def step(self, now: Instant) -> CommandStep | None:
        """The next transaction that commands ask for; None while there is none or the last is not written."""
        if self._is_writing:
            return None
        if self._steps:
            return self._requested_step(now)
        if not self._waiting or now.steady_ms < self._retry_at_ms:
            return None
        # The oldest that can go on. An object of two commands is free for both or for neither, so for each
        # object they are applied in the order in which they were given.
        for waiting in self._waiting.values():
            free = self._free(waiting)
            if free or not waiting.left:
                return self._applied(waiting, free, now)
        self._retry_at_ms = now.steady_ms + _RETRY_MS
        return None

    def written(self) -> None:
        """The last step's transaction was acknowledged."""
        self._is_writing = False
        acknowledged, self._on_written = self._on_written, None
        if acknowledged is not None:
            acknowledged()

    def _requested_step(self, now: Instant) -> CommandStep | None:
        make, written = self._steps[0]
        step = make(now)
        if step is not None:
            self._steps.popleft()
            self._is_writing = True
            self._on_written = partial(written, step)
        return step

    def _free(self, waiting: _Waiting) -> list[S3Object]:
        """Objects that no plan holds, and no record of which is under way."""
        states = self._catalogue.states
        free = []
        for candidate in waiting.left:
            if not states.is_held(candidate.id):
                free.append(candidate)
                if len(free) == _AT_ONCE:
                    break
        return free

    def _applied(self, waiting: _Waiting, free: list[S3Object], now: Instant) -> CommandStep:
        command = waiting.command
        effects = self._catalogue.apply_command(command.change, free, now)
        for applied in free:
            del waiting.left[applied]
        raw: bytes | None = None
        if waiting.left:
            names = {(s3_object.id.key, s3_object.id.etag) for s3_object in waiting.left}
            rest = tuple(one for one in command.objects if (one.key, one.etag) in names)
            raw = encode_control(msgspec.structs.replace(command, objects=rest))
        else:
            del self._waiting[waiting.key]
        self._is_writing = True
        _log.info(
            "command_applied",
            action=command.action,
            command=waiting.key.name,
            objects=len(free),
            changed=len(effects.writes),
            left=len(waiting.left),
        )
        return CommandStep(effects=effects, record=(waiting.key, raw))
