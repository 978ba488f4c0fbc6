"""A chain of transforms as values: frozen, small, picklable. `headrace.formats.transforms` applies them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.names.date_pattern import DatePattern


class DeleteMode(StrEnum):
    """What `ExtractNewRecordState` makes of a delete."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"


class NameAdjustment(StrEnum):
    """How names of schemas are made fit for Avro."""

    NONE = "none"
    AVRO = "avro"
    AVRO_UNICODE = "avro_unicode"


class KeyOrValue(StrEnum):
    """What a transform works on."""

    KEY = "key"
    VALUE = "value"


class CastType(StrEnum):
    """What `Cast` makes of a field."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"


class TimeTarget(StrEnum):
    """What the two classes named `TimestampConverter`, Kafka's and Lenses', write."""

    STRING = "string"
    UNIX = "unix"
    DATE = "Date"
    TIME = "Time"
    TIMESTAMP = "Timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNameMatches:
    """The whole name of the topic matches `pattern` (Python's)."""

    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HasHeaderKey:
    """The record has a header of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """The value is null."""


Predicate = TopicNameMatches | HasHeaderKey | RecordIsTombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Which records a step applies to: those of the predicate, or with `negate` all others."""

    predicate: Predicate
    negate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexRouter:
    """Where the whole topic matches `pattern` (Python's), it becomes `replacement` (as `re.Match.expand`)."""

    pattern: str
    replacement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampRouter:
    """The topic becomes `format`, with `${topic}` and `${timestamp}` in it."""

    format: str
    dates: DatePattern


@dataclass(frozen=True, slots=True, kw_only=True)
class NewField:
    """A field that is inserted; one that is required cannot be null where there is a schema."""

    name: str
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertField:
    """Fields with what is known of the record; `static` has its value next to it."""

    which: KeyOrValue
    topic: NewField | None
    partition: NewField | None
    offset: NewField | None
    timestamp: NewField | None
    static: tuple[NewField, str] | None
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceField:
    """Fields are left out, kept alone (where `include` has any), and renamed."""

    which: KeyOrValue
    exclude: frozenset[str]
    include: frozenset[str]
    renames: tuple[tuple[str, str], ...]
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractField:
    """The key or value becomes the field at `path`."""

    which: KeyOrValue
    path: tuple[str, ...]
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HoistField:
    """The key or value becomes the one field of an object."""

    which: KeyOrValue
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueToKey:
    """The key becomes an object of these fields of the value."""

    fields: tuple[str, ...]
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertHeader:
    """A header with the same value for each record; `is_text`: it was in quotes, and so is no number."""

    name: str
    value: bytes | None
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropHeaders:
    """All headers of these names go."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFrom:
    """Fields become headers (pairs of field and header), and with `moves` are fields no longer."""

    which: KeyOrValue
    pairs: tuple[tuple[str, str], ...]
    moves: bool
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskField:
    """Fields become the empty value of their type, or `replacement`."""

    which: KeyOrValue
    fields: frozenset[str]
    replacement: str | None
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Fields become values of other types; `whole` is that of the key or value itself."""

    which: KeyOrValue
    fields: tuple[tuple[str, CastType], ...]
    whole: CastType | None
    fills_defaults: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """The record is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTime:
    """A time of the record as a header: Lenses' `TimestampConverter`.

    `which` None: the record's own time. `precision` is how many of its units a millisecond has, or, below 0,
    how many milliseconds a unit has. `window_ms` 0: none.
    """

    header: str
    which: KeyOrValue | None
    path: tuple[str, ...]
    target: TimeTarget
    reads: tuple[DatePattern, ...]
    writes: DatePattern | None
    precision: int
    window_ms: int
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """The wall clock as a header: Lenses' `InsertWallclock`; without `dates` in ms since 1970."""

    header: str
    dates: DatePattern | None
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeHeaders:
    """The record's own time as headers: Lenses' `InsertRecordTimestampHeaders`. `window_ms` 0: none."""

    headers: tuple[tuple[str, DatePattern], ...]
    window_ms: int
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatten:
    """Fields of fields become fields, their names with the delimiter between."""

    which: KeyOrValue
    delimiter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertTime:
    """A time of another type: Kafka's `TimestampConverter`. `field` None: of the key or value itself.

    `precision` is as in `FieldTime`.
    """

    which: KeyOrValue
    field: str | None
    target: TimeTarget
    dates: DatePattern | None
    precision: int
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchemaMetadata:
    """Another name or version of the schema; None leaves it."""

    which: KeyOrValue
    name: str | None
    version: int | None
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventField:
    """A field of a change event that is copied: of the struct `inside`, or the event's own.

    Where the struct has no such field the event's own one counts.
    """

    inside: str | None
    field: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractNewRecordState:
    """A change event of Debezium becomes the row as it is after the change."""

    deletes: DeleteMode
    drops_tombstones: bool
    fields: tuple[EventField, ...]
    headers: tuple[EventField, ...]
    topic_field: str | None
    dropped_header: str | None
    drops_from_key: bool
    drops_optional_only: bool
    fills_defaults: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLogicalTableRouter:
    """Change events of several tables go to one topic; `key_field` None leaves the fields of their keys.

    Else it is a field more, with the topic that was, changed by `key_pattern` where that is given.
    """

    pattern: str
    replacement: str
    key_field: str | None
    key_pattern: str | None
    key_replacement: str
    adjustment: NameAdjustment


Transform = (
    RegexRouter
    | TimestampRouter
    | InsertField
    | ReplaceField
    | ExtractField
    | HoistField
    | ValueToKey
    | InsertHeader
    | DropHeaders
    | HeaderFrom
    | MaskField
    | Cast
    | Filter
    | FieldTime
    | WallClock
    | TimeHeaders
    | Flatten
    | ConvertTime
    | SetSchemaMetadata
    | ExtractNewRecordState
    | ByLogicalTableRouter
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformStep:
    """One transform under its alias; without a condition it applies to every record."""

    alias: str
    transform: Transform
    condition: Condition | None = None

    @property
    def looks_into(self) -> frozenset[KeyOrValue]:
        """Which of key and value it has to look into, or makes."""
        match self.transform:
            case ValueToKey() | ByLogicalTableRouter():
                return frozenset(KeyOrValue)
            case ExtractNewRecordState(drops_from_key=drops_from_key):
                return frozenset(KeyOrValue) if drops_from_key else frozenset({KeyOrValue.VALUE})
            case FieldTime(which=which):
                return frozenset() if which is None else frozenset({which})
            case RegexRouter() | TimestampRouter() | InsertHeader() | DropHeaders() | Filter():
                return frozenset()
            case WallClock() | TimeHeaders():
                return frozenset()
            case _:
                return frozenset({self.transform.which})

    @property
    def fills_defaults(self) -> bool:
        """Whether a null that it meets in a key or value may count as the default of its field."""
        match self.transform:
            case (
                InsertField(fills_defaults=False)
                | ReplaceField(fills_defaults=False)
                | ExtractField(fills_defaults=False)
                | ValueToKey(fills_defaults=False)
                | HeaderFrom(fills_defaults=False)
                | MaskField(fills_defaults=False)
                | Cast(fills_defaults=False)
                | ConvertTime(fills_defaults=False)
                | SetSchemaMetadata(fills_defaults=False)
                | HoistField()
            ):
                return False
            case _:
                return bool(self.looks_into)

    @property
    def routes(self) -> bool:
        """Whether a record may go to another topic."""
        match self.transform:
            case RegexRouter() | TimestampRouter() | ByLogicalTableRouter():
                return True
            case _:
                return self.routes_by_field

    @property
    def routes_by_field(self) -> bool:
        """Whether a field of the record is its topic."""
        return isinstance(self.transform, ExtractNewRecordState) and self.transform.topic_field is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformChain:
    """Transforms in the order in which they apply.

    `text` is the same for chains of the same options, whatever their aliases are: with a default written out
    it is another one, as ledgers have had it since 1.0.0. It holds no secret.
    """

    steps: tuple[TransformStep, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def looks_into(self) -> frozenset[KeyOrValue]:
        """Which of key and value a step looks into, or makes."""
        return frozenset(which for step in self.steps for which in step.looks_into)

    @property
    def fills_defaults(self) -> bool:
        """Whether a step may take a null for the default of its field."""
        return any(step.fills_defaults for step in self.steps)

    @property
    def is_deterministic(self) -> bool:
        """Whether a record that is read again becomes the same: no step looks at the clock."""
        return not any(isinstance(step.transform, WallClock) for step in self.steps)

    @property
    def routes(self) -> bool:
        """Whether a record may go to another topic."""
        return any(step.routes for step in self.steps)

    @property
    def routes_by_field(self) -> bool:
        """Whether a field of the record may be its topic, so that no list of topics is complete."""
        return any(step.routes_by_field for step in self.steps)


NO_TRANSFORMS: Final = TransformChain()
