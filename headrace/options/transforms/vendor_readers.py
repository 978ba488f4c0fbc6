"""Classes of Lenses' and Debezium's transforms: what their options mean."""

from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.options.transforms.alias_options import AliasOptions
from headrace.options.transforms.chain import (
    ByLogicalTableRouter,
    DeleteMode,
    EventField,
    ExtractNewRecordState,
    FieldTime,
    KeyOrValue,
    NameAdjustment,
    TimeHeaders,
    TimeTarget,
    Transform,
    WallClock,
)
from headrace.options.transforms.java_regex import JavaRegexError, java_replacement

_LENSES: Final = "io.lenses.connect.smt.header."
_DEBEZIUM: Final = "io.debezium.transforms."
PRECISIONS: Final = {"seconds": -1000, "milliseconds": 1, "microseconds": 1000, "nanoseconds": 1_000_000}
"""How many of the unit a millisecond has, or, below 0, how many milliseconds the unit has."""

_WINDOWS: Final = {"none": (0, 0), "hours": (3_600_000, 24), "minutes": (60_000, 60), "seconds": (1000, 60)}
_ISO_LOCAL: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_WITH_TOMBSTONE: Final = "rewrite-with-tombstone"
_OLDER: Final = ("drop.tombstones", "delete.handling.mode")
_TRANSACTION_FIELDS: Final = frozenset({"id", "data_collection_order", "total_order"})
_EVENT_FIELDS: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})


def _field_time(options: AliasOptions) -> Transform | None:
    header = options.required("header.name", "the name of the header")
    target = options.choice("target.type", tuple(TimeTarget), None)
    pattern = options.filled("format.to.pattern")
    if target == TimeTarget.STRING and pattern is None:
        options.refuse("format.to.pattern", "is missing; target.type=string needs a date pattern")
    zone = options.timezone("target.timezone")
    writes = None if pattern is None else options.dates("format.to.pattern", pattern, zone=zone)
    reads = [
        options.dates("format.from.pattern", each, is_read=True)
        for each in options.names("format.from.pattern")
    ]
    window_ms = _window(options, "none", None)
    precision = PRECISIONS[
        options.choice("unix.precision", tuple(PRECISIONS), "milliseconds") or "milliseconds"
    ]
    field = options.filled("field") or "_value"
    head, _, rest = field.partition(".")
    which = {"_key": KeyOrValue.KEY, "_timestamp": None}.get(head.lower(), KeyOrValue.VALUE)
    path = (
        tuple(rest.split("."))
        if head.lower() in {"_key", "_value", "_timestamp"}
        else tuple(field.split("."))
    )
    if which is None and rest:
        options.refuse("field", "has a path after _timestamp, which has no fields")
    if header is None or target is None:
        return None
    return FieldTime(
        header=header,
        which=which,
        path=path if path != ("",) else (),
        target=TimeTarget(target),
        reads=tuple(each for each in reads if each is not None),
        writes=writes,
        precision=precision,
        window_ms=window_ms,
        timezone=zone,
    )


def _window(options: AliasOptions, otherwise: str, size_otherwise: int | None) -> int:
    """How long the windows are in ms, to whose beginning times are cut; 0: there are none."""
    known = tuple(name for name in _WINDOWS if name != "none" or otherwise == "none")
    unit, most = _WINDOWS[options.choice("rolling.window.type", known, otherwise) or otherwise]
    size = options.number("rolling.window.size") or size_otherwise
    if unit and (size is None or size > most):
        options.refuse("rolling.window.size", f"expected a whole number from 1 to {most}")
    return unit * (size or 0)


# The headers that a record gets of its time, in their order, and their patterns.
_TIME_HEADERS: Final = {
    "year": "yyyy",
    "month": "MM",
    "day": "dd",
    "hour": "HH",
    "minute": "mm",
    "second": "ss",
    "date": "yyyy-MM-dd",
}


def _time_headers(options: AliasOptions, *, rolls: bool = False) -> Transform | None:
    prefix, zone = options.text("header.prefix.name") or "", options.timezone("timezone")
    language = (options.filled("locale") or "en").strip().lower()
    found = []
    for name, pattern in _TIME_HEADERS.items():
        option = f"{name}.format"
        written = options.text(option)
        # An empty one is a pattern, too: of an empty text.
        dates = options.dates(option, pattern if written is None else written, zone=zone)
        if dates is not None and language != "en" and any(field.is_word for field in dates.fields):
            options.refuse("locale", f"is of words that are not known here, and {option} shows some; set en")
        elif dates is not None:
            found.append((prefix + name, dates))
    window_ms = _window(options, "minutes", 15) if rolls else 0
    return TimeHeaders(headers=tuple(found), window_ms=window_ms, timezone=zone)


def _wall_clock(options: AliasOptions) -> Transform | None:
    header = options.required("header.name", "the name of the header")
    kind = options.choice("value.type", ("format", "epoch"), "format")
    pattern = options.filled("format")
    zone = options.timezone("timezone")
    if kind == "epoch":
        if zone != "UTC":
            options.refuse("timezone", "means nothing with value.type=epoch; remove it")
        return None if header is None else WallClock(header=header, dates=None, timezone="UTC")
    dates = options.dates("format", pattern or _ISO_LOCAL, zone=zone)
    return None if header is None or dates is None else WallClock(header=header, dates=dates, timezone=zone)


def _extract_new_record_state(options: AliasOptions) -> Transform | None:
    deletes, drops_tombstones = _delete_mode(options)
    fields_prefix, headers_prefix = options.text("add.fields.prefix"), options.text("add.headers.prefix")
    header = options.filled("drop.fields.header.name")
    return ExtractNewRecordState(
        deletes=deletes,
        drops_tombstones=drops_tombstones,
        fields=_event_fields(options, "add.fields", "__" if fields_prefix is None else fields_prefix),
        headers=_event_fields(options, "add.headers", "__" if headers_prefix is None else headers_prefix),
        topic_field=options.filled("route.by.field"),
        dropped_header=None if header is None or not header.strip() else header,
        drops_from_key=options.boolean("drop.fields.from.key", otherwise=False),
        drops_optional_only=options.boolean("drop.fields.keep.schema.compatible", otherwise=True),
        fills_defaults=options.boolean("replace.null.with.default", otherwise=True),
    )


def _delete_mode(options: AliasOptions) -> tuple[DeleteMode, bool]:
    """What becomes of deletes, and whether tombstones are dropped: by the newer option, or the older two."""
    older = [name for name in _OLDER if options.text(name) is not None]
    newer = options.filled("delete.tombstone.handling.mode")
    if newer is not None and older:
        options.refuse(older[0], "means nothing next to delete.tombstone.handling.mode; remove it")
    if older and newer is None:
        drops = options.boolean(_OLDER[0], otherwise=True)
        mode = options.choice(_OLDER[1], ("drop", "rewrite", "none"), "drop")
        return DeleteMode.TOMBSTONE if mode == "none" else DeleteMode(mode or "drop"), drops
    mode = options.choice(
        "delete.tombstone.handling.mode", (*DeleteMode, _WITH_TOMBSTONE), DeleteMode.TOMBSTONE
    )
    if mode == _WITH_TOMBSTONE:
        return DeleteMode.REWRITE, False
    return DeleteMode(mode or DeleteMode.TOMBSTONE), True


def _event_fields(options: AliasOptions, name: str, prefix: str) -> tuple[EventField, ...]:
    """Fields such as `op`, `source.ts_ms`, or `table:name` with a name of its own."""
    found = []
    for text in options.names(name):
        path, *own = text.split(":")
        names = path.split(".")
        if len(own) > 1 or len(names) > 2 or not all((*names, *own)):  # noqa: PLR2004  # struct and field
            options.refuse(name, "expected fields such as op,source.ts_ms,table:name")
            return ()
        inside, field = (names[0], names[1]) if len(names) > 1 else (_struct_of(path), path)
        spelled = own[0] if own else "_".join(names)
        found.append(EventField(inside=inside, field=field, target=prefix + spelled))
    return tuple(found)


def _struct_of(field: str) -> str | None:
    """The struct of an event that has a field which is named alone."""
    if field in _EVENT_FIELDS:
        return None
    if field == "updateDescription":
        return field
    return "transaction" if field in _TRANSACTION_FIELDS else "source"


def _by_logical_table_router(options: AliasOptions) -> Transform | None:
    pattern = options.regex("topic.regex", "a regular expression for the topic")
    replacement = options.required("topic.replacement", "the new topic, such as $1")
    is_unique = options.boolean("key.enforce.uniqueness", otherwise=True)
    field = options.filled("key.field.name") or "__dbz__physicalTableIdentifier"
    key_text, key_replacement = options.filled("key.field.regex"), options.filled("key.field.replacement")
    options.number("logical.table.cache.size")
    adjustment = options.choice("schema.name.adjustment.mode", tuple(NameAdjustment), NameAdjustment.NONE)
    key_pattern = None if key_text is None else options.regex("key.field.regex", "a regular expression")
    if key_text is not None and key_replacement is None:
        options.refuse("key.field.replacement", "is missing next to key.field.regex")
    if pattern is None or replacement is None or (key_text is not None and key_pattern is None):
        return None
    return ByLogicalTableRouter(
        pattern=pattern,
        replacement=_replacement(options, "topic.replacement", replacement, pattern),
        key_field=field if is_unique else None,
        key_pattern=key_pattern,
        adjustment=NameAdjustment(adjustment or NameAdjustment.NONE),
        key_replacement=(
            ""
            if key_pattern is None or key_replacement is None
            else _replacement(options, "key.field.replacement", key_replacement, key_pattern)
        ),
    )


def _replacement(options: AliasOptions, name: str, text: str, pattern: str) -> str:
    try:
        return java_replacement(text, pattern)
    except JavaRegexError as error:
        options.refuse(name, str(error))
        return ""


VENDOR_TRANSFORMS: Final[dict[str, Callable[[AliasOptions], Transform | None]]] = {
    _LENSES + "TimestampConverter": _field_time,
    _LENSES + "InsertWallclock": _wall_clock,
    _LENSES + "InsertRecordTimestampHeaders": _time_headers,
    _LENSES + "InsertRollingRecordTimestampHeaders": partial(_time_headers, rolls=True),
    _DEBEZIUM + "ExtractNewRecordState": _extract_new_record_state,
    _DEBEZIUM + "ByLogicalTableRouter": _by_logical_table_router,
}
"""By the names of their classes."""

VENDOR_NAMES: Final = (
    f"{_LENSES}{{InsertRecordTimestampHeaders, InsertRollingRecordTimestampHeaders, InsertWallclock, "
    f"TimestampConverter}}, {_DEBEZIUM}{{ByLogicalTableRouter, ExtractNewRecordState}}"
)

_OF_FIELDS: Final = "TimestampConverter writes one header of a field's time"
_OF_CLOCK: Final = "InsertWallclock writes one header of the clock's time"
INSTEAD: Final = {
    f"{_LENSES}{name}": what
    for name, what in {
        "InsertFieldTimestampHeaders": _OF_FIELDS,
        "InsertRollingFieldTimestampHeaders": _OF_FIELDS,
        "InsertWallclockHeaders": _OF_CLOCK,
        "InsertWallclockDateTimePart": _OF_CLOCK,
        "InsertRollingWallclock": _OF_CLOCK,
        "InsertRollingWallclockHeaders": _OF_CLOCK,
    }.items()
}
"""By names of classes that do not run here, and resemble others that mean something else: what there is."""
