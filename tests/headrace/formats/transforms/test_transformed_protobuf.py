"""Messages of Protobuf behind transforms: their oneofs, maps, enums and unset fields, in every format."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import pytest
from google.protobuf import message_factory

from headrace.conversion.sink_records import sink_records
from headrace.formats.converted_records import Conversion
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from tests.headrace.formats.encoding.registry import framed_as, registry
from tests.headrace.formats.transforms.transformed import (
    KAFKA,
    NOW_MS,
    chain,
    kafka_records,
    plain,
    sink_of,
)

_PROTO: Final = """syntax = "proto3";
package shop;
message Order {
  int64 id = 1;
  optional string note = 2;
  map<string, int32> labels = 3;
  Kind kind = 4;
  oneof paid { string card = 5; Cash cash = 6; }
  uint32 large = 7;
  Cash tip = 8;
  enum Kind { NEW = 0; OLD = 1; }
  message Cash { double given = 1; }
}"""
_FULL: Final[dict[str, Any]] = {
    "id": 7,
    "note": "n",
    "labels": {"x": 1},
    "kind": 1,
    "card": "c",
    "large": 4_294_967_295,
}
_VALUE: Final[dict[str, Any]] = {
    "paid_0": {"card": "c", "cash": None},
    "id": 7,
    "note": "n",
    "labels": {"x": 1},
    "kind": "OLD",
    "large": 4_294_967_295,
    "tip": None,
}
_UNSET: Final[dict[str, Any]] = {
    "paid_0": None,
    "id": 0,
    "note": None,
    "labels": {},
    "kind": "NEW",
    "large": 0,
    "tip": None,
}
_FLAT: Final[dict[str, Any]] = {"paid_0.card": None, "paid_0.cash.given": None, "tip.given": None}
_CASES: Final[dict[str, tuple[list[dict[str, str]], Any, Any]]] = {
    "inserted": (
        [{"type": f"{KAFKA}InsertField$Value", "static.field": "of", "static.value": "x"}],
        _VALUE | {"of": "x"},
        _UNSET | {"of": "x"},
    ),
    "renamed and left out": (
        [{"type": f"{KAFKA}ReplaceField$Value", "exclude": "labels,tip", "renames": "id:number"}],
        {"paid_0": _VALUE["paid_0"], "number": 7, "note": "n", "kind": "OLD", "large": 4_294_967_295},
        {"paid_0": None, "number": 0, "note": None, "kind": "NEW", "large": 0},
    ),
    "cast": (
        [{"type": f"{KAFKA}Cast$Value", "spec": "id:string,large:float64"}],
        _VALUE | {"id": "7", "large": 4294967295.0},
        _UNSET | {"id": "0", "large": 0.0},
    ),
    "extracted": ([{"type": f"{KAFKA}ExtractField$Value", "field": "paid_0"}], _VALUE["paid_0"], None),
    "flattened": (
        [
            {"type": f"{KAFKA}ReplaceField$Value", "exclude": "labels"},
            {"type": f"{KAFKA}Flatten$Value"},
        ],
        _FLAT | {"paid_0.card": "c", "id": 7, "note": "n", "kind": "OLD", "large": 4_294_967_295},
        _FLAT | {"id": 0, "note": None, "kind": "NEW", "large": 0},
    ),
}


@cache
def _order() -> Any:
    """The class of a message. The schema is read by protoc, a process of its own."""
    return message_factory.GetMessageClass(ProtobufSchema(_PROTO, {}).message((0,)))


def _converted(steps: list[dict[str, str]], form: str, rows: list[Mapping[str, Any] | None]) -> Conversion:
    one = registry()
    values = [
        None
        if row is None
        # One byte zero: the first message of the schema.
        else framed_as(one, "PROTOBUF", _PROTO, b"\x00" + bytes(_order()(**row).SerializeToString()))
        for row in rows
    ]
    options = {
        "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
        "value.converter.schema.registry.url": one.urls[0],
        "output.format": form,
    }
    sink = sink_of(options | chain(*steps))
    return sink_records(sink, lambda: NOW_MS).convert(
        kafka_records([(value, None, (), NOW_MS) for value in values])
    )


def _values(found: Conversion) -> dict[int, Any]:
    return {
        offset: value
        for run in found.runs
        for offset, value in zip(run.records.offsets.tolist(), plain(run.value), strict=True)
    }


@pytest.mark.parametrize("form", ["jsonl", "parquet", "avro"])
@pytest.mark.parametrize(("steps", "full", "unset"), _CASES.values(), ids=_CASES.keys())
def test_a_message_is_an_object_like_others(
    steps: list[dict[str, str]], full: Any, unset: Any, form: str
) -> None:
    """Unset fields have the values of proto3, a oneof is one field of its members, a tombstone stays."""
    found = _converted(steps, form, [_FULL, None, {}])

    assert found.faults == ()
    assert _values(found) == {10: full, 11: None, 12: unset}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"type": f"{KAFKA}Flatten$Value"}, id="a map is not flattened"),
        pytest.param({"type": f"{KAFKA}ExtractField$Value", "field": "missing"}, id="no such field"),
        pytest.param({"type": f"{KAFKA}ReplaceField$Value", "renames": "id:note"}, id="two of one name"),
    ],
)
def test_a_tombstone_has_its_verdict_alone(step: dict[str, str]) -> None:
    """Beside messages that are refused for their schema it was refused with them; alone it is kept."""
    alone = _converted([step], "jsonl", [None])
    beside = _converted([step], "jsonl", [None, _FULL])

    assert alone.faults == ()
    assert [(fault.offset, fault.reason) for fault in beside.faults] == [(11, "transform_refused")]
    assert _values(beside) == _values(alone) == {10: None}
