from typing import Any

import pytest

from headrace.formats.records.constant import (
    PRODUCE_TIME,
    constant_headers,
    constant_key,
    constant_timestamp,
    overhead_bytes,
    position_header,
)
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BlockPosition, BytePosition, RowPosition
from headrace.options.choices import Envelope, InputFormat, ValueFormat
from headrace.options.record_sources import (
    FieldSource,
    NoSource,
    ObjectHeaders,
    ObjectKeySource,
    ObjectTime,
    ProduceTime,
    TemplateSource,
    TemplateTime,
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
