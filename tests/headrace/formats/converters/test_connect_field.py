"""Members as Kafka Connect's values have them, where nothing but the JSON of typed values is there."""

import json
from typing import Any

import pytest

from headrace.formats.converted_records import MISSING, ColumnSchema
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.model.columns import column_of

_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
_WHOLE = {**_MONEY, "scale": 0}
_UUID = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
_KIND = {"type": "enum", "name": "Kind", "symbols": ["ZXU"]}


def _record(name: str = "R", **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_A = _record("A", d="bytes")
_ID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
_LONG = "12345678901234567890123456789012345678.90"


@pytest.mark.parametrize(
    ("schema", "text", "path", "found"),
    [
        (_record(d="bytes"), b'{"d":"ZXU="}', "d", b"eu"),
        (_record(d=["null", "bytes"]), b'{"d":"ZXU="}', "d", b"eu"),
        (_record(d=["null", "bytes"]), b'{"d":null}', "d", None),
        (_record(d="bytes"), b'{"d":"ZXU="}', "e", MISSING),
        (_record(d="string"), b'{"d":"ZXU="}', "d", "ZXU="),
        (_record(d=_KIND), b'{"d":"ZXU="}', "d", "ZXU="),
        (_record(s=_record("S", d="bytes")), b'{"s":{"d":"ZXU="}}', "s.d", b"eu"),
        (_record(l=_list("bytes")), b'{"l":["YQ==","ZXU="]}', "l.1", b"eu"),
        (_record(m={"type": "map", "values": "bytes"}), b'{"m":{"k":"ZXU="}}', "m.k", b"eu"),
        ("bytes", b'"ZXU="', "", b"eu"),
        ({"type": "fixed", "name": "F", "size": 2}, b'"ZXU="', "", b"eu"),
        (_record(d=_UUID), f'{{"d":"{_ID}"}}'.encode(), "d", _ID),
        # A type that refers to itself.
        (_record(d="bytes", next=["null", "R"]), b'{"d":"","next":{"d":"ZXU="}}', "next.d", b"eu"),
        # Records of a union have the same, or what JSON shows is all that is known.
        (_record(u=[_A, _record("B", d="bytes")]), b'{"u":{"d":"ZXU="}}', "u.d", b"eu"),
        (_record(u=[_A, _record("B", d="string")]), b'{"u":{"d":"ZXU="}}', "u.d", "ZXU="),
        (_record(u=["long", "bytes"]), b'{"u":"ZXU="}', "u", "ZXU="),
        # The text of messages that have no columns has no schema.
        ("string", b'{"d":"ZXU="}', "d", "ZXU="),
        (_record(d=_MONEY), b'{"d":1.50}', "d", "1.50"),
        (_record(d=_MONEY), b'{"d":-2}', "d", "-2.00"),
        (_record(d=["null", _MONEY]), b'{"d":null}', "d", None),
        (_record(d=_MONEY), b'{"d":12345678901234567.89}', "d", "12345678901234567.89"),
        (_record(d=_MONEY), f'{{"d":{_LONG}}}'.encode(), "d", _LONG),
        (_record(d=_WHOLE), b'{"d":123456789012345678901234567890}', "d", "123456789012345678901234567890"),
        (_record(d=_WHOLE, e=_list(_WHOLE)), b'{"d":1,"e":[10000000]}', "e.0", "10000000"),
        # As `json.format=connect` shows them.
        (_record(d=_MONEY), b'{"d":"AJY="}', "d", "1.50"),
        (_record(d=_MONEY), b'{"d":"/w=="}', "d", "-0.01"),
        (_record(l=_list(_MONEY)), b'{"l":[1.50]}', "l.0", "1.50"),
        (_record(d=_MONEY, next=["null", "R"]), b'{"d":0.10,"next":null}', "d", "0.10"),
        (_record(d="double"), b'{"d":1.50}', "d", 1.5),
        (_MONEY, b"1.50", "", "1.50"),
    ],
)
def test_members_are_those_of_the_schema(schema: Any, text: bytes, path: str, found: Any) -> None:
    """JSON has bytes in base64, as texts may be that look like it, and decimals as any other number."""
    column = TypedColumn(ColumnSchema(arrow=None, avro=json.dumps(schema)), texts=column_of([text]))
    assert column.connect_field(path.split(".") if path else ()) == [found]


def test_a_schema_beyond_the_bounds_of_files_has_members() -> None:
    """JsonConverter's may be deeper or wider, and its records are written: JSON shows what is known."""
    deep: dict[str, Any] = _record("R60", d="long")
    for level in range(60):
        deep = _record(f"R{level}", d=["null", deep])
    wide = _record(**{f"f{number}": "long" for number in range(20_000)})
    for schema in (_record(at="long", deep=deep), _record(at="long", wide=wide)):
        column = TypedColumn(
            ColumnSchema(arrow=None, avro=json.dumps(schema)), texts=column_of([b'{"at":7}'])
        )

        assert column.moments(["at"]) == column.connect_field(["at"]) == [7]
