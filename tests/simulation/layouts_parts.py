"""Parts of rows and of restored records, held against what was produced, as far as a layout keeps them."""

import base64
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tests.simulation.layouts_records import BYTES_CLASS, converter_of
from tests.simulation.layouts_restore import Restored
from tests.simulation.layouts_rows import UNTOLD
from tests.simulation.scenario import Given
from tests.simulation.sink_generator import STRING
from tests.simulation.sink_laws import difference
from tests.simulation.sink_records import FRAMED, JSON, meaning_of_value

_FOLDED: Final = ("avro", "parquet")
_AIVEN_FIELDS: Final = "key,value,offset,timestamp,headers"
_LENSES_FIELDS: Final = "topic,partition,offset,timestamp,key,value,headers"

Place = tuple[str, int, int]


def kept_parts(options: Mapping[str, str]) -> set[str]:
    """Which parts of a record next to its value a layout's objects keep, as the sink was told."""
    match options["output.layout"]:
        case "quix":
            return {"key", "timestamp"}
        case "confluent":
            sides = options.get("sidecars", "").split(",")
            return {role.removesuffix("s") if role == "keys" else role for role in sides if role}
        case layout:
            if options.get("output.envelope") == "false" or options["output.format"] in ("text", "bytes"):
                return set()
            if layout == "lenses" and options["output.format"] == "csv":
                return set()
            fields = _AIVEN_FIELDS if layout == "aiven" else _LENSES_FIELDS
            return set(options.get("output.fields", fields).split(","))


def difference_in_value(found: Any, place: Place, given: Given, options: Mapping[str, str]) -> str | None:
    """How the value that a row shows is another one; None where it is the record's, or not told."""
    transforms = options.get("transforms", "")
    if found is UNTOLD or _is_without_tombstones(options, given):
        return None
    if found is None or given.value is None:
        return None if found is None and given.value is None else f"{given.value!r} is {found!r}"
    converter = converter_of(options)
    if converter in (JSON, *FRAMED) and options["output.format"] != "csv":
        return _difference_in_document(found, place, given, options)
    if transforms in ("i", "flatten"):
        return None
    return None if _is_same(found, given.value) else f"{given.value!r} is {found!r}"


def _is_without_tombstones(options: Mapping[str, str], given: Given) -> bool:
    """Whether it is one, in columns of the value's own members, which are null then."""
    return given.value is None and has_no_tombstones(options)


def has_no_tombstones(options: Mapping[str, str]) -> bool:
    """Whether a row cannot show that its record had no value."""
    return (options["output.layout"], options["output.format"]) == ("quix", "parquet")


def _difference_in_document(found: Any, place: Place, given: Given, options: Mapping[str, str]) -> str | None:
    assert given.value is not None
    if "value.converter.schemas.enable" not in options and b'"payload":' in given.value:
        # Then each text's own shape decides.
        options = {**options, "value.converter.schemas.enable": "true"}
    try:
        meant = meaning_of_value(given.value, options)
    except (ValueError, KeyError, TypeError):
        return f"{given.value!r} is archived, and has no meaning"
    if options.get("transforms") == "i" and isinstance(found, Mapping):
        found = dict(found)
        offset = found.pop("inserted", None)
        if offset != place[2]:
            return f"{offset} is inserted as its offset"
    return difference(meant, found)


def difference_in_key(found: Any, given: Given, options: Mapping[str, str]) -> str | None:
    """How the key that a row shows is another one."""
    if found is UNTOLD or _is_same(found, given.key):
        return None
    if options["output.format"] == "csv" and not found and not given.key:
        return None
    return f"{given.key!r} is {found!r}"


def _is_same(found: Any, raw: bytes | None) -> bool:
    """Whether bytes, text or base64 are these bytes."""
    if found is None or raw is None:
        return found is None and raw is None
    if isinstance(found, bytes):
        return found == raw
    if not isinstance(found, str):
        return False
    if found.encode() == raw:
        return True
    try:
        return base64.b64decode(found, validate=True) == raw
    except ValueError:
        return False


def is_same_headers(found: Sequence[tuple[str, Any]], given: Sequence[tuple[str, bytes | None]]) -> bool:
    """Whether names and values are the record's, in its order."""
    return len(found) == len(given) and all(
        name == other and _is_same(value, raw)
        for (name, value), (other, raw) in zip(found, given, strict=True)
    )


def difference_in_restored(
    row: Restored,
    record: tuple[Place, Given],
    options: Mapping[str, str],
    *,
    has_sides: frozenset[str] = frozenset(),
    has_times: bool = True,
) -> str | None:
    """Which part of a restored record is another one than the record's, as far as the layout keeps it.

    `has_sides` are the objects next to values that were joined, `has_times` whether times are those of then.
    """
    place, given = record
    kept = kept_parts(options)
    is_beside = options["output.layout"] == "confluent"
    if "key" in kept and row.key != given.key and (not is_beside or "keys" in has_sides):
        is_empty = options["output.format"] == "csv" and not row.key and not given.key
        if not is_empty:
            return f"key: {given.key!r} is {row.key!r}"
    if (
        "headers" in kept
        and options.get("transforms") != "header"
        and (not is_beside or "headers" in has_sides)
    ):
        why = difference_in_headers(row.headers, given, options)
        if why is not None:
            return why
    if has_times and "timestamp" in kept and row.timestamp_ms != given.timestamp_ms:
        return f"timestamp: {given.timestamp_ms} is {row.timestamp_ms}"
    return difference_in_restored_value(row.value, place, given, options)


def difference_in_headers(
    found: Sequence[tuple[str, bytes | None]], given: Given, options: Mapping[str, str]
) -> str | None:
    """How restored headers are others; a map has the last of a name, in any order; columns have no nulls."""
    is_folded = options["output.format"] in _FOLDED
    if options["output.layout"] == "lenses" or is_folded:
        last, shown = (
            {name: one for name, one in dict(each).items() if one is not None or not is_folded}
            for each in (given.headers, found)
        )
        if last == shown:
            return None
    return None if tuple(found) == given.headers else f"headers: {given.headers!r} are {found!r}"


def difference_in_restored_value(
    found: bytes | None, place: Place, given: Given, options: Mapping[str, str]
) -> str | None:
    """How a restored value is another one: bytes and texts are themselves, JSON means the same."""
    if _is_without_tombstones(options, given):
        return None
    if found is None or given.value is None:
        return None if found is None and given.value is None else f"value: {given.value!r} is {found!r}"
    converter = converter_of(options)
    if converter in (JSON, *FRAMED) and options["output.format"] != "csv":
        try:
            document = json.loads(found, parse_float=Decimal, parse_int=Decimal)
        except ValueError:
            return f"value: {found!r} is no JSON"
        why = _difference_in_document(document, place, given, options)
        return None if why is None else f"value: {why}"
    if converter not in (STRING, BYTES_CLASS) or options.get("transforms") in ("i", "flatten"):
        return None
    is_folded = options.get("output.newlines") == "escaped"
    same = found == given.value or (is_folded and found == given.value.replace(b"\n", b"\\n"))
    return None if same else f"value: {given.value!r} is {found!r}"
