"""Records of the sink's scenarios: nasty values, with schemas and without, and events of changed rows."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tests.simulation.circumstances import Circumstance
from tests.simulation.pairs import drawn_count
from tests.simulation.scenario import Given
from tests.simulation.schemas import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    framed,
    framed_by,
    meaning_of_framed,
    nameless_of,
    schemas_of,
)

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_NUMBERS: Final = (
    "0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "1e2",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "12345678901234567890123",
)
_SCALARS: Final = (
    *_NUMBERS,
    "null",
    "true",
    "false",
    '"text"',
    '"1"',
    '""',
    '"\\u00e9/\\\\"',
    '"2024-01-01"',
    '"+10000-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59.999999999Z"',
    "1.7976931348623157e308",
    "1e400",
    "-0.0",
    "0.1000000000000000055511151231257827",
    '"\\u0000"',
    '"\\ud83d\\ude00"',
)
_TIMES: Final = (
    "1700000000000",
    "1700003600000",
    "1700003600000.0",
    "1.7000072e12",
    "0",
    "-1",
    "null",
    '"x"',
    "253402300800000",
)
_BAD: Final = (
    b"no JSON",
    b"{",
    b"\xff\xfe",
    b'{"a":1} x',
    b"",
    b'{"a":NaN}',
    b'{"a":1,"a":2}',
    b"[1,2]",
    b"7",
)


def records_of(
    rng: random.Random, topics: Mapping[str, int], options: Mapping[str, str], about: Circumstance | None
) -> Iterator[Given]:
    """Records as they are produced, in this order."""
    has_schemas = options.get("value.converter.schemas.enable") == "true"
    is_event = rng.random() < _EVENT_SHARE
    converter = options.get("value.converter", "")
    is_json = converter == JSON
    kinds = rng.sample(_SCALARS, rng.choice((1, 2, 2, 3)))
    kinds = list(about.kinds) if about is not None and about.kinds else kinds
    times = rng.sample(_TIMES, rng.choice((1, 1, 2)))
    bad_share = rng.choice((0.0, 0.0, 0.05, 0.3))
    if about is not None and about.bad_share is not None:
        bad_share = about.bad_share
    counts = () if about is None else about.counts
    for number in range(rng.choice(counts) if counts else drawn_count(rng, small=(1, 2, 4, 6), big=(12, 30))):
        topic = rng.choice(list(topics))
        roll = rng.random()
        if roll < bad_share:
            value: bytes | None = rng.choice(_BAD)
        elif roll > 0.95:
            value = None
        elif converter in FRAMED:
            member = rng.choice((number, "text", "", 2**62))
            value = framed(converter, number, member, is_unknown=rng.random() < bad_share)
        elif is_json and has_schemas:
            value = _with_schema(rng, number, is_event=is_event)
        elif is_json:
            value = _document(rng, kinds, times, number)
        else:
            value = rng.choice(
                (b"plain %d" % number, b"", b'a,b\n"c"', b"\xc3\xa9", b"x" * rng.choice((1, 300)))
            )
        yield Given(
            topic,
            rng.randrange(topics[topic]),
            rng.choice((None, b"k1", b"k2", b"a/b", b"")),
            value,
            1_700_000_000_000 + number * rng.choice((0, 1, 1_800_000)),
            rng.choice(((), (), (("h", b"one"),), (("h", b"two"), ("h", b"three")), (("x", None),))),
        )


def records_by_schemas(
    rng: random.Random,
    topics: Mapping[str, int],
    options: Mapping[str, str],
    about: Circumstance | None,
    *,
    is_numbered: bool = False,
    has_nameless: bool = False,
) -> Iterator[Given]:
    """Records of several schemas, and tombstones between them, before and after them, often in a row.

    With `is_numbered` each has a number in its value, or a tombstone in its key.
    """
    converter, counts = options["value.converter"], () if about is None else about.counts
    ids = rng.sample(schemas_of(converter, with_nulls=not is_numbered), rng.choice((2, 3)))
    if has_nameless:
        ids = [*ids[:2], *nameless_of(converter)[: rng.choice((1, 2))] * 2]
    null_share, unknown_share = rng.choice((0.3, 0.6)), rng.choice((0.0, 0.0, 0.1))
    keys, id_ = rng.choice(((b"k1",), (None, b"k1", b"a/b"))), None
    for number in range(rng.choice(counts) if counts else drawn_count(rng, small=(3, 5, 8), big=(12, 30))):
        if not number or rng.random() < _OTHER_SHARE:
            id_ = None if rng.random() < null_share else rng.choice(ids)
        topic, key = rng.choice(list(topics)), rng.choice(keys)
        if id_ is None:
            value, key = None, b"k%d" % number if is_numbered else key
        elif rng.random() < unknown_share:
            value = framed(converter, number, number, is_unknown=True)
        else:
            value = framed_by(converter, id_, number, is_null=rng.random() < null_share)
        yield Given(topic, rng.randrange(topics[topic]), key, value, 1_700_000_000_000 + number)


def _document(rng: random.Random, kinds: Sequence[str], times: Sequence[str], number: int) -> bytes:
    members = [f'"n":{number}', f'"a":{rng.choice(kinds)}', f'"ts":{rng.choice(times)}']
    if rng.random() < 0.5:
        members.append(f'"b":{{"c":{rng.choice(kinds)}}}')
    if rng.random() < 0.2:
        members.append(
            rng.choice(
                (
                    '"l":[1,2]',
                    '"l":[]',
                    '"l":[{"x":1},{"x":1.5}]',
                    '"deep":' + "[" * 20 + "]" * 20,
                    '"deep":' + '{"d":' * 120 + "1" + "}" * 120,
                )
            )
        )
    rng.shuffle(members)
    return ("{" + ",".join(members) + "}").encode()


FRAMED: Final = (AVRO, JSON_SCHEMA, PROTOBUF)
"""Converters whose values name a schema of a registry."""
_EVENT_SHARE: Final = 0.5
_OTHER_SHARE: Final = 0.6
_TYPED: Final = (("int64", 9007199254740993), ("int64", -1), ("string", "text"), ("double", 0.1))
_OP: Final = {"field": "op", "type": "string"}
_FIELDS: Final = [
    {"field": "n", "type": "int64"},
    {"field": "ts", "type": "int64", "optional": True},
    {"field": "b", "type": "struct", "optional": True, "fields": [{"field": "c", "type": "string"}]},
]


def _with_schema(rng: random.Random, number: int, *, is_event: bool) -> bytes:
    """A row with its schema, or the event of one that was written, changed or deleted."""
    kind, value = rng.choice(_TYPED)
    fields = [*_FIELDS, {"field": "a", "type": kind, "optional": True}]
    row: dict[str, Any] = {
        "n": number,
        "ts": rng.choice((None, 1_700_000_000_000)),
        "a": rng.choice((None, value)),
    }
    row["b"] = rng.choice((None, {"c": "within"}))
    schema: Any = {"type": "struct", "name": "rows.Value", "optional": True, "fields": fields}
    if not is_event:
        return json.dumps({"schema": schema, "payload": row}).encode()
    event = {
        "type": "struct",
        "name": "rows.Envelope",
        "fields": [{**schema, "field": "before"}, {**schema, "field": "after"}, _OP],
    }
    op = rng.choice(("c", "u", "d"))
    payload = {"before": None if op == "c" else row, "after": None if op == "d" else row, "op": op}
    return json.dumps({"schema": event, "payload": payload}).encode()


def meaning_of_value(value: bytes, options: Mapping[str, str]) -> Any:
    """What is to be archived of a value; ValueError, KeyError or TypeError where there is no such."""
    converter = options.get("value.converter", "")
    if converter in FRAMED:
        row = meaning_of_framed(converter, value)
        if not isinstance(row, dict):
            return Decimal(row) if isinstance(row, int) else row
        return {name: Decimal(one) if isinstance(one, int) else one for name, one in row.items()}
    return _meaning_of(json.loads(value, parse_float=Decimal, parse_int=Decimal), options)


def _meaning_of(document: Any, options: Mapping[str, str]) -> Any:
    """What is to be archived of a document, as the settings say it."""
    transforms = options.get("transforms", "").split(",")
    meant = document
    if options.get("value.converter.schemas.enable") == "true":
        meant = document["payload"]
        if "unwrap" in transforms and document["schema"]["name"].endswith(".Envelope"):
            is_deleted = meant["op"] == "d"
            row = meant["before" if is_deleted else "after"]
            meant = {**row, "__op": meant["op"], "__deleted": "true" if is_deleted else "false"}
    if "flatten" not in transforms:
        return meant
    # Avro's names have no dots.
    dot = "_" if options["output.format"] == "avro" else "."
    return {name.replace(".", dot): value for name, value in _flat(meant).items()}


def _flat(document: Any, before: str = "") -> Any:
    """The fields of objects within as fields."""
    if not isinstance(document, Mapping):
        return document
    found: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found
