"""Kafka Connect's classes of transforms and predicates: what their options mean."""

from collections.abc import Callable
from typing import Final

from headrace.names.date_letters import DateDialect
from headrace.options.transforms import chain as smt
from headrace.options.transforms.alias_options import AliasOptions, FieldPathError, nested_path
from headrace.options.transforms.java_regex import JavaRegexError, java_replacement
from headrace.options.transforms.vendor_readers import PRECISIONS, VENDOR_NAMES, VENDOR_TRANSFORMS

Reader = Callable[[AliasOptions], smt.Transform | None]
KeyOrValueReader = Callable[[AliasOptions, smt.KeyOrValue], smt.Transform | None]

_LOGICAL_TYPES: Final = frozenset(
    f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp", "Decimal")
)
_KAFKA: Final = "org.apache.kafka.connect.transforms."


def _fills_defaults(options: AliasOptions) -> bool:
    return options.boolean("replace.null.with.default", otherwise=True)


def _regex_router(options: AliasOptions) -> smt.Transform | None:
    pattern = options.regex("regex", "a regular expression for the topic")
    replacement = options.required("replacement", "the new topic, such as $1")
    if pattern is None or replacement is None:
        return None
    try:
        return smt.RegexRouter(pattern=pattern, replacement=java_replacement(replacement, pattern))
    except JavaRegexError as error:
        options.refuse("replacement", str(error))
        return None


def _timestamp_router(options: AliasOptions) -> smt.Transform | None:
    topic = options.filled("topic.format") or "${topic}-${timestamp}"
    pattern = options.filled("timestamp.format") or "yyyyMMdd"
    dates = options.dates("timestamp.format", pattern, dialect=DateDialect.SIMPLE)
    return None if dates is None else smt.TimestampRouter(format=topic, dates=dates)


def _new_field(options: AliasOptions, name: str) -> smt.NewField | None:
    text = options.filled(name)
    if text is None:
        return None
    if text in {"!", "?"}:
        options.refuse(name, "is no name of a field")
    return smt.NewField(name=text[:-1] if text.endswith(("!", "?")) else text, is_required=text.endswith("!"))


def _insert_field(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    topic, partition, offset, timestamp, static = (
        _new_field(options, f"{name}.field")
        for name in ("topic", "partition", "offset", "timestamp", "static")
    )
    value = options.text("static.value")
    if static is not None and value is None:
        options.refuse("static.value", "is missing next to static.field")
    if static is None and value is not None:
        options.refuse("static.value", "means nothing without static.field")
    if not any((topic, partition, offset, timestamp, static)):
        options.refuse(
            "static.field",
            "is missing: nothing is inserted; set it, topic.field, partition.field, offset.field or "
            "timestamp.field",
        )
    return smt.InsertField(
        which=which,
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=timestamp,
        static=None if static is None else (static, value or ""),
        fills_defaults=_fills_defaults(options),
    )


def _pairs(options: AliasOptions, name: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in options.names(name):
        # Blanks around the colon are of the names, to Kafka too.
        one, _, other = text.partition(":")
        if not other or ":" in other:
            options.refuse(name, "expected pairs such as old:new,other:another")
            return ()
        pairs.append((one, other))
    return tuple(pairs)


def _replace_field(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    return smt.ReplaceField(
        which=which,
        exclude=frozenset(options.names("exclude", also="blacklist")),
        include=frozenset(options.names("include", also="whitelist")),
        renames=_pairs(options, "renames"),
        fills_defaults=_fills_defaults(options),
    )


def _extract_field(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    text = options.required("field", "the name of a field")
    syntax = options.choice("field.syntax.version", ("V1", "V2"), "V1")
    path: tuple[str, ...] | None = None if text is None else (text,)
    if text is not None and syntax == "V2":
        try:
            path = nested_path(text)
        except FieldPathError as error:
            options.refuse("field", str(error))
            return None
    fills = _fills_defaults(options)
    return None if path is None else smt.ExtractField(which=which, path=path, fills_defaults=fills)


def _hoist_field(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    field = options.required("field", "the name of the new field")
    return None if field is None else smt.HoistField(which=which, field=field)


def _value_to_key(options: AliasOptions) -> smt.Transform | None:
    return smt.ValueToKey(fields=options.required_names("fields"), fills_defaults=_fills_defaults(options))


def _insert_header(options: AliasOptions) -> smt.Transform | None:
    name = options.required("header", "the name of the header")
    value = options.required("value.literal", "the header's value")
    if name is None or value is None:
        return None
    # As Connect reads and writes it: null for `null`, a quoted text without its quotes.
    value = value.strip()
    is_text = len(value) > 1 and value[0] == value[-1] == '"'
    written = (value[1:-1].replace('\\"', '"') if is_text else value).encode()
    return smt.InsertHeader(name=name, value=None if value == "null" else written, is_text=is_text)


def _drop_headers(options: AliasOptions) -> smt.Transform | None:
    return smt.DropHeaders(names=frozenset(options.required_names("headers")))


def _header_from(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    fields, headers = options.required_names("fields"), options.required_names("headers")
    operation = options.choice("operation", ("move", "copy"), None)
    if fields and headers and len(fields) != len(headers):
        options.refuse(
            "headers", f"has {len(headers)} names, and fields {len(fields)}; name one for each field"
        )
        return None
    pairs = tuple(zip(fields, headers, strict=False))
    fills = _fills_defaults(options)
    return smt.HeaderFrom(which=which, pairs=pairs, moves=operation == "move", fills_defaults=fills)


def _mask_field(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    replacement = options.text("replacement")
    if replacement == "":
        options.refuse("replacement", "is empty; leave it out for the empty value of each field's type")
    return smt.MaskField(
        which=which,
        fields=frozenset(options.required_names("fields")),
        replacement=replacement,
        fills_defaults=_fills_defaults(options),
    )


def _cast(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    found: dict[str | None, smt.CastType] = {}
    given = options.names("spec")
    for text in given:
        field, colon, kind = (each.strip() for each in text.rpartition(":"))
        if kind.lower() not in tuple(smt.CastType) or (colon and not field) or ":" in field:
            options.refuse(
                "spec",
                f"expected field:type,other:type or one type alone; types are {', '.join(smt.CastType)}",
            )
            return None
        found[field if colon else None] = smt.CastType(kind.lower())
    if not given:
        options.refuse("spec", "is missing; expected field:type,other:type or one type alone")
    whole = found.pop(None, None)
    if whole is not None and found:
        options.refuse("spec", "casts the whole and fields of it; keep the one type, or name fields only")
    fields = tuple((name, kind) for name, kind in found.items() if name is not None)
    return smt.Cast(which=which, fields=fields, whole=whole, fills_defaults=_fills_defaults(options))


def _flatten(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    delimiter = options.text("delimiter")
    return smt.Flatten(which=which, delimiter="." if delimiter is None else delimiter)


def _convert_time(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    target = options.choice("target.type", tuple(smt.TimeTarget), None)
    pattern = options.filled("format")
    precision = options.choice("unix.precision", tuple(PRECISIONS), "milliseconds") or "milliseconds"
    if target == smt.TimeTarget.STRING and pattern is None:
        options.refuse("format", "is missing; target.type=string needs a date pattern such as yyyy-MM-dd")
    dates = None if pattern is None else options.dates("format", pattern, dialect=DateDialect.SIMPLE)
    fills = _fills_defaults(options)
    if target is None:
        options.text("field")
        return None
    return smt.ConvertTime(
        which=which,
        field=options.filled("field"),
        target=smt.TimeTarget(target),
        dates=dates,
        precision=PRECISIONS[precision],
        fills_defaults=fills,
    )


def _set_schema_metadata(options: AliasOptions, which: smt.KeyOrValue) -> smt.Transform | None:
    name, version = options.filled("schema.name"), options.integer("schema.version")
    if name in _LOGICAL_TYPES:
        options.refuse("schema.name", "is that of a type of times or decimals, which objects are not")
    if name is None and version is None:
        options.refuse("schema.name", "is missing: nothing is set; set it, schema.version, or both")
    fills = _fills_defaults(options)
    return smt.SetSchemaMetadata(which=which, name=name, version=version, fills_defaults=fills)


def _filter(options: AliasOptions) -> smt.Transform | None:
    del options
    return smt.Filter()


def _topic_name_matches(options: AliasOptions) -> smt.Predicate | None:
    pattern = options.regex("pattern", "a regular expression for the topic")
    return None if pattern is None else smt.TopicNameMatches(pattern=pattern)


def _has_header_key(options: AliasOptions) -> smt.Predicate | None:
    name = options.required("name", "the name of a header")
    return None if name is None else smt.HasHeaderKey(name=name)


def _record_is_tombstone(options: AliasOptions) -> smt.Predicate | None:
    del options
    return smt.RecordIsTombstone()


def _of_either(read: KeyOrValueReader, which: smt.KeyOrValue) -> Reader:
    return lambda options: read(options, which)


_OF_EITHER: Final[dict[str, KeyOrValueReader]] = {
    "InsertField": _insert_field,
    "ReplaceField": _replace_field,
    "ExtractField": _extract_field,
    "HoistField": _hoist_field,
    "HeaderFrom": _header_from,
    "MaskField": _mask_field,
    "Cast": _cast,
    "Flatten": _flatten,
    "TimestampConverter": _convert_time,
    "SetSchemaMetadata": _set_schema_metadata,
}
_WHOLE: Final[dict[str, Reader]] = {
    "RegexRouter": _regex_router,
    "TimestampRouter": _timestamp_router,
    "ValueToKey": _value_to_key,
    "InsertHeader": _insert_header,
    "DropHeaders": _drop_headers,
    "Filter": _filter,
}
TRANSFORMS: Final[dict[str, Reader]] = {
    **{_KAFKA + name: read for name, read in _WHOLE.items()},
    **{
        f"{_KAFKA}{name}${which.capitalize()}": _of_either(read, which)
        for name, read in _OF_EITHER.items()
        for which in smt.KeyOrValue
    },
    **VENDOR_TRANSFORMS,
}
PREDICATES: Final[dict[str, Callable[[AliasOptions], smt.Predicate | None]]] = {
    _KAFKA + "predicates.TopicNameMatches": _topic_name_matches,
    _KAFKA + "predicates.HasHeaderKey": _has_header_key,
    _KAFKA + "predicates.RecordIsTombstone": _record_is_tombstone,
}
"""By the names of their classes, with which a configuration names them."""

TRANSFORM_NAMES: Final = (
    f"{_KAFKA}{{{', '.join(sorted(_WHOLE))}}}, {_KAFKA}{{{', '.join(sorted(_OF_EITHER))}}} with $Key or "
    f"$Value, {VENDOR_NAMES}"
)
