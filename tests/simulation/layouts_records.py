"""Records of which each has a number that is found again in any layout: in its value, else in its key."""

import base64
import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.simulation.circumstances import Circumstance
from tests.simulation.pairs import drawn_count
from tests.simulation.scenario import Given
from tests.simulation.schemas import framed, meaning_of_framed
from tests.simulation.sink_records import FRAMED, JSON

_KINDS: Final = (
    "0",
    "1.0",
    "1.50",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "null",
    "true",
    '"text"',
    '"1"',
    '""',
    '"a/b"',
    '"line\\nfeed"',
    '"\\u00e9\\"\\\\,"',
    '"\\ud83d\\ude00"',
)
_UNLIKE_NUMBERS: Final = ("null", "true", '"text"', '"a/b"')
_BAD: Final = ('{"n":%d', "no JSON %d", '{"n":%d} x', '{"n":%d,"a":NaN}', "[%d,2]")
_HEADERS: Final = (
    (),
    (),
    (("h", b"one"),),
    (("h", b"1"),),
    (("h", b"two"), ("h", b"three")),
    (("x-y", b"\xc3\xa9"), ("h", b"")),
    (("x", None),),
)
_KEY: Final = re.compile(rb"k([0-9]+)")
# Values of bytes follow one another without anything between them.
_BARE: Final = re.compile(rb'plain ([0-9]+)|"n": ?"?([0-9]+)|(?:^|(?<=[}\]]))\[([0-9]+),', re.MULTILINE)


def layout_records(
    rng: random.Random,
    topics: Mapping[str, int],
    options: Mapping[str, str],
    about: Circumstance | None,
    *,
    first: int = 0,
) -> Iterator[Given]:
    """Records as they are produced, in this order; the first shows the number `first`."""
    converter, shares = converter_of(options), (0.0, 0.0, 0.05, 0.3)
    bad_share = rng.choice(shares)
    if about is not None and about.bad_share is not None:
        bad_share = about.bad_share
    null_share = rng.choice((0.0, 0.1, 0.3))
    kinds = rng.sample(_KINDS if _has_names(options) else _UNLIKE_NUMBERS, rng.choice((1, 2, 3)))
    kinds = list(about.kinds) if about is not None and about.kinds else kinds
    counts = () if about is None else about.counts
    count = rng.choice(counts) if counts else drawn_count(rng, small=(2, 4, 6), big=(12, 30))
    for number in range(first, first + count):
        topic = rng.choice(list(topics))
        key = rng.choice((b"k%d" % number, b"k%d" % number, b"k1", b"a/b", b"", None))
        if rng.random() < null_share:
            value, key = None, b"k%d" % number
        elif converter in FRAMED:
            member = rng.choice((number, "text"))
            value = framed(converter, number, member, is_unknown=rng.random() < bad_share)
        elif converter == JSON and rng.random() < bad_share:
            value = (rng.choice(_BAD) % number).encode()
        elif converter == JSON:
            value = _document(rng, number, kinds, has_schema=_has_schemas(options))
        else:
            value = _text(rng, number, options)
        yield Given(
            topic,
            rng.randrange(topics[topic]),
            key,
            value,
            1_700_000_000_000 + number * rng.choice((0, 1, 1_800_000)),
            rng.choice(_HEADERS),
        )


def converter_of(options: Mapping[str, str]) -> str:
    """How values are read: one vendor's are always JSON."""
    named = options.get("value.converter", BYTES_CLASS)
    return JSON if options["output.layout"] == "quix" and named == BYTES_CLASS else named


def _has_names(options: Mapping[str, str]) -> bool:
    """Whether a row shows which of its columns is the number."""
    return options["output.format"] != "csv" or options.get("csv.header") != "false"


def _has_schemas(options: Mapping[str, str]) -> bool:
    return options.get("value.converter.schemas.enable") == "true"


_FIELDS: Final = [
    {"field": "n", "type": "int64"},
    {"field": "a", "type": "string", "optional": True},
    {"field": "b", "type": "struct", "optional": True, "fields": [{"field": "c", "type": "double"}]},
]


def _document(rng: random.Random, number: int, kinds: list[str], *, has_schema: bool) -> bytes:
    if has_schema:
        row = {"n": number, "a": rng.choice((None, "x", "y/z")), "b": rng.choice((None, {"c": 0.5}))}
        schema = {"type": "struct", "name": "rows.Value", "optional": True, "fields": _FIELDS}
        return json.dumps({"schema": schema, "payload": row}, separators=(",", ":")).encode()
    members = [f'"n":{number}', f'"a":{rng.choice(kinds)}']
    if rng.random() < 0.5:
        members.append(f'"b":{{"c":{rng.choice(kinds)}}}')
    if rng.random() < 0.2:
        members.append(rng.choice(('"l":[1,2]', '"l":[]', '"l":[{"x":1},{"x":2}]')))
    rng.shuffle(members)
    return ("{" + ",".join(members) + "}").encode()


def _text(rng: random.Random, number: int, options: Mapping[str, str]) -> bytes:
    ends = [b"", b"", b", two", b' "quoted"', b"\xc3\xa9", b"x" * 300]
    if bears_line_feeds(options):
        ends.append(b"\nand more")
    if converter_of(options) == BYTES_CLASS:
        ends.append(b"\xff\x00")
    return b"plain %d;%b" % (number, rng.choice(ends))


BYTES_CLASS: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"


def bears_line_feeds(options: Mapping[str, str]) -> bool:
    """Whether a line feed in a value ends no row."""
    return options["output.format"] in ("avro", "parquet", "json", "jsonl") and (
        options["output.layout"] != "lenses" or options.get("output.envelope") != "false"
    )


# -- The number of a record, and of what is found ------------------------------------------------------------


def number_of_given(given: Given, options: Mapping[str, str]) -> int | None:
    """Which record it is."""
    if given.value is None:
        return number_in_key(given.key)
    converter = options.get("value.converter", "")
    if converter in FRAMED:
        try:
            row = meaning_of_framed(converter, given.value)
            return int(row["n"]) if isinstance(row, dict) else None
        except ValueError:
            return None
    if b'"payload"' in given.value:
        return int(json.loads(given.value)["payload"]["n"])
    shown = given.value.rpartition(b'"n":')[2]
    found = re.search(rb"[0-9]+", shown)
    return None if found is None else int(found[0])


def number_in_key(key: Any) -> int | None:
    """The number in a key, or in its text, or in its base64."""
    for raw in _raw(key):
        found = _KEY.fullmatch(raw)
        if found is not None:
            return int(found[1])
    return None


def number_in(value: Any) -> int | None:
    """The number in a value as a layout shows it."""
    if isinstance(value, Mapping):
        return int(value["n"]) if value.get("n") is not None else None
    if isinstance(value, list):
        return int(value[0]) if value else None
    for raw in _raw(value):
        found = _BARE.search(raw)
        if found is not None:
            return int(found[1] or found[2] or found[3])
    return None


def numbers_in_text(data: bytes) -> list[int]:
    """The numbers of all values in what holds them one after the other."""
    return [int(found[1] or found[2] or found[3]) for found in _BARE.finditer(data)]


def _raw(value: Any) -> Iterator[bytes]:
    """The bytes that it may be."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
        try:
            yield base64.b64decode(value, validate=True)
        except ValueError:
            return
