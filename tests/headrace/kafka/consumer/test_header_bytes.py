"""Headers from the bytes of Kafka's record format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.records.registry import varint
from headrace.kafka.consumer.message_columns import HeaderParser
from headrace.model.columns import Headers


def encoded(headers: Headers) -> bytes:
    """The bytes of headers, as a producer writes them."""
    parts = [varint(len(headers))]
    for name, value in headers:
        parts += [varint(len(name.encode())), name.encode()]
        parts += [varint(-1)] if value is None else [varint(len(value)), value]
    return b"".join(parts)


@given(st.lists(st.tuples(st.text(max_size=80), st.none() | st.binary(max_size=100)), max_size=5).map(tuple))
def test_headers_come_back(headers: Headers) -> None:
    """Nulls, empties, long names and repeated ones, in their order; a second time, too."""
    parser = HeaderParser()
    data = encoded(headers)
    assert parser.parse(data) == headers
    assert parser.parse(data) == headers


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x02\x02a\x02b?", b"\x04\x02a\x01"])
def test_what_is_no_header_is_refused(data: bytes) -> None:
    """Bytes that end too early or too late are a sign of a wrong address."""
    with pytest.raises((ValueError, IndexError)):
        HeaderParser().parse(data)
