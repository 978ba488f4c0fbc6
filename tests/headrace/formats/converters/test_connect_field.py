"""Members as Kafka Connect's values have them, where nothing but the JSON of typed values is there."""

from typing import Any

import pytest

from headrace.formats.connect.schema import DECIMAL, ConnectSchema, Type, plain, struct
from headrace.formats.converted_records import MISSING, ColumnSchema
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.model.columns import column_of

_BYTES = plain(Type.BYTES)
_DECIMAL = ConnectSchema(type=Type.BYTES, name=DECIMAL, parameters=(("scale", "2"),))
_LIST = ConnectSchema(type=Type.ARRAY, items=_BYTES)
_MAP = ConnectSchema(type=Type.MAP, key=plain(Type.STRING), value=_BYTES)


@pytest.mark.parametrize(
    ("schema", "text", "path", "found"),
    [
        (struct(("d", _BYTES)), b'{"d":"ZXU="}', ("d",), b"eu"),
        (struct(("d", _BYTES)), b'{"d":null}', ("d",), None),
        (struct(("d", _BYTES)), b'{"d":"ZXU="}', ("e",), MISSING),
        (struct(("d", _DECIMAL)), b'{"d":1.25}', ("d",), 1.25),
        (struct(("d", plain(Type.STRING))), b'{"d":"ZXU="}', ("d",), "ZXU="),
        (struct(("s", struct(("d", _BYTES)))), b'{"s":{"d":"ZXU="}}', ("s", "d"), b"eu"),
        (struct(("l", _LIST)), b'{"l":["YQ==","ZXU="]}', ("l", "1"), b"eu"),
        (struct(("m", _MAP)), b'{"m":{"k":"ZXU="}}', ("m", "k"), b"eu"),
        (_BYTES, b'"ZXU="', (), b"eu"),
        # A fixed that is a UUID, which JSON has as its text.
        (struct(("d", _BYTES)), b'{"d":"00010203-0405-0607"}', ("d",), "00010203-0405-0607"),
        (None, b'{"d":"ZXU="}', ("d",), "ZXU="),
    ],
)
def test_bytes_are_those_of_the_schema(
    schema: ConnectSchema | None, text: bytes, path: tuple[str, ...], found: Any
) -> None:
    """In JSON they are base64, as texts may be that look like it."""
    column = TypedColumn(ColumnSchema(arrow=None, avro="{}", connect=schema), texts=column_of([text]))
    assert column.connect_field(path) == [found]
