import json
from typing import Any

import pytest

from headrace.formats.records.key_headers_timestamp import (
    PRODUCE_TIME,
    constant_headers,
    constant_key,
    constant_members,
    constant_timestamp,
    overhead_bytes,
    position_header,
)
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BlockPosition, BytePosition, RowPosition
from headrace.options.choices import (
    Envelope,
    FieldSource,
    InputFormat,
    NoSource,
    ObjectHeaders,
    ObjectKeySource,
    ObjectTime,
    ProduceTime,
    TemplateHeaders,
    TemplateSource,
    TemplateTime,
    ValueFormat,
)
from tests.headrace.formats.decode_options import decode_options

OBJECT = S3Object(
    id=ObjectId("b", "in/é 1.jsonl", "abc"), size=10, last_modified_ms=1_700_000_000_123, version_id="v1"
)
ROUTE = Route(topic="orders", partition=3, start_offset=77, timestamp_ms=1_600_000_000_000)
BARE = Route(topic="orders")


@pytest.mark.parametrize(
    ("changes", "route", "key"),
    [
        ({"key_source": ObjectKeySource()}, ROUTE, "in/é 1.jsonl".encode()),
        ({"key_source": ObjectKeySource(), "key_format": ValueFormat.JSON}, ROUTE, '"in/é 1.jsonl"'.encode()),
        ({"key_source": ObjectKeySource(), "envelope": Envelope.AIVEN}, ROUTE, None),
        ({"key_source": NoSource()}, ROUTE, None),
        ({"key_source": FieldSource(("id",))}, ROUTE, None),
        ({"key_source": TemplateSource("{{topic}}-{{partition}}/{{start_offset}}")}, ROUTE, b"orders-3/77"),
        ({"key_source": TemplateSource("{{partition:padding=true}}")}, ROUTE, b"0000000003"),
        ({"key_source": TemplateSource("{{timestamp:unit=yyyy}}")}, ROUTE, b"2020"),
        ({"key_source": TemplateSource("k-{{partition}}-{{timestamp}}")}, BARE, b"k--"),
    ],
)
def test_the_constant_key(changes: dict[str, Any], route: Route, key: bytes | None) -> None:
    """One key for all rows of an object, or None where rows bring their own."""
    settings = decode_options(InputFormat.JSONL, **changes).format

    assert constant_key(OBJECT, route, settings) == key


NAMED = (
    ("t", "{{topic}}"),
    ("p", "{{partition}}"),
    ("p0", "{{partition:padding=true}}"),
    ("o", "{{start_offset}}"),
)
TIMES = (("ms", "{{timestamp}}"), ("y", "{{timestamp:unit=yyyy}}"), ('"q"', "a/{{partition}}"))


@pytest.mark.parametrize(
    ("fields", "route", "members"),
    [
        ((), ROUTE, {}),
        (NAMED, ROUTE, {"t": "orders", "p": 3, "p0": "0000000003", "o": 77}),
        (NAMED, BARE, {"t": "orders", "p": None, "p0": None, "o": None}),
        (TIMES, ROUTE, {"ms": 1_600_000_000_000, "y": "2020", '"q"': "a/3"}),
        (TIMES, BARE, {"ms": None, "y": None, '"q"': "a/"}),
    ],
)
def test_members_of_what_the_key_says(fields: Any, route: Route, members: dict[str, Any]) -> None:
    """Numbers where a variable is one, null where the key does not give it, and empty within a text."""
    settings = decode_options(InputFormat.JSONL, fields=fields).format

    assert json.loads(b"{" + constant_members(route, settings) + b"}") == members


def test_headers_of_what_the_key_says() -> None:
    """Texts; what the key does not give is empty."""
    settings = decode_options(InputFormat.JSONL, headers=TemplateHeaders(NAMED)).format

    assert constant_headers(OBJECT, ROUTE, settings)[:2] == (("t", b"orders"), ("p", b"3"))
    assert constant_headers(OBJECT, BARE, settings)[:2] == (("t", b"orders"), ("p", b""))


def test_source_headers_leave_out_what_is_absent() -> None:
    """Names are headrace.*, values UTF-8 text; the position comes with the rows."""
    settings = decode_options(InputFormat.JSONL, headers=ObjectHeaders()).format
    unversioned = S3Object(id=OBJECT.id, size=1, last_modified_ms=0)

    assert constant_headers(OBJECT, ROUTE, settings) == (
        ("headrace.bucket", b"b"),
        ("headrace.key", "in/é 1.jsonl".encode()),
        ("headrace.etag", b"abc"),
        ("headrace.version_id", b"v1"),
        ("headrace.start_offset", b"77"),
    )
    assert [name for name, _ in constant_headers(unversioned, BARE, settings)] == [
        "headrace.bucket",
        "headrace.key",
        "headrace.etag",
    ]
    assert constant_headers(OBJECT, ROUTE, decode_options(InputFormat.JSONL).format) == ()


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (BytePosition(5), b'{"byte":5}'),
        (BlockPosition(5, 1), b'{"block":5,"record":1}'),
        (RowPosition(2, 3), b'{"group":2,"row":3}'),
    ],
)
def test_the_position_header_is_the_ledgers_shape(
    position: BytePosition | BlockPosition | RowPosition, value: bytes
) -> None:
    """What a header says can be held against the ledger."""
    assert position_header(position) == ("headrace.position", value)


@pytest.mark.parametrize(
    ("source", "route", "milliseconds"),
    [
        (ProduceTime(), ROUTE, PRODUCE_TIME),
        (ObjectTime(), ROUTE, 1_700_000_000_123),
        (TemplateTime(), ROUTE, 1_600_000_000_000),
        (TemplateTime(), BARE, PRODUCE_TIME),
        (FieldSource(("t",)), ROUTE, PRODUCE_TIME),
    ],
)
def test_the_constant_timestamp(source: Any, route: Route, milliseconds: int) -> None:
    """Milliseconds, or the producer's clock where the key says none."""
    settings = decode_options(InputFormat.JSONL, timestamp=source).format

    assert constant_timestamp(OBJECT, route, settings) == milliseconds


def test_overhead_counts_bytes_of_key_and_headers() -> None:
    """Names count as UTF-8, nulls as nothing."""
    assert overhead_bytes("é".encode(), (("ü", b"12"), ("n", None))) == 7
    assert overhead_bytes(None, ()) == 0
