"""Debezium's two transforms: rows of change events, and tables that share a topic."""

from typing import Any

import pytest

from tests.headrace.formats.transforms.transformed import (
    JSON,
    SCHEMALESS,
    WITH_SCHEMA,
    Row,
    chain,
    refusals,
    transformed,
)

_TYPED = {**WITH_SCHEMA, "key.converter": JSON, "behavior.on.null.values": "write"}
_ROW = {
    "type": "struct",
    "name": "shop.Value",
    "optional": True,
    "fields": [{"field": "id", "type": "int64"}, {"field": "to", "type": "string", "optional": True}],
}


def _event(before: Any, after: Any, op: str) -> dict[str, Any]:
    fields = [
        {**_ROW, "field": "before"},
        {**_ROW, "field": "after"},
        {"field": "op", "type": "string"},
        {"field": "source", "type": "struct", "fields": [{"field": "ts_ms", "type": "int64"}]},
    ]
    payload = {"before": before, "after": after, "op": op, "source": {"ts_ms": 5}}
    return {"schema": {"type": "struct", "name": "shop.Envelope", "fields": fields}, "payload": payload}


_OLD, _NEW = {"id": 1, "to": "a"}, {"id": 1, "to": "b"}
_EVENTS = [
    _event(None, _OLD, "c"),
    _event(_OLD, _NEW, "u"),
    _event(_NEW, None, "d"),
    _event(None, None, "t"),
    Row(None),
]


def _unwrap(**options: str) -> dict[str, str]:
    named = {name.replace("_", "."): text for name, text in options.items()}
    return {**_TYPED, **chain({"type": "io.debezium.transforms.ExtractNewRecordState", **named})}


def _values(rows: list[Row]) -> list[Any]:
    return [row.value for row in rows]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, [_OLD, _NEW, None]),
        ({"delete_tombstone_handling_mode": "drop"}, [_OLD, _NEW]),
        ({"drop_tombstones": "false", "delete_handling_mode": "none"}, [_OLD, _NEW, None, None]),
        ({"drop_tombstones": "false"}, [_OLD, _NEW, None]),
        (
            {"delete_handling_mode": "rewrite"},
            [{**_OLD, "__deleted": "false"}, {**_NEW, "__deleted": "false"}, {**_NEW, "__deleted": "true"}],
        ),
        (
            {"delete_tombstone_handling_mode": "rewrite-with-tombstone"},
            [
                {**_OLD, "__deleted": "false"},
                {**_NEW, "__deleted": "false"},
                {**_NEW, "__deleted": "true"},
                None,
            ],
        ),
    ],
    ids=str,
)
def test_deletes_and_tombstones(options: dict[str, str], values: list[Any]) -> None:
    """By the newer option, and by the older two; a truncated table leaves nothing."""
    assert _values(transformed(_unwrap(**options), _EVENTS)) == values


def test_what_is_known_of_the_event_is_added() -> None:
    """As fields and as headers, with prefixes and names of their own."""
    options = _unwrap(add_fields="op:operation,source.ts_ms", add_headers="op", add_headers_prefix="h.")
    (found,) = transformed(options, [_EVENTS[1]])
    assert found.value == {**_NEW, "__operation": "u", "__source_ts_ms": 5}
    assert found.headers == (("h.op", b"u"),)


def test_a_field_is_the_topic() -> None:
    """Of deletes the row before them has it."""
    found = transformed(_unwrap(route_by_field="to"), _EVENTS[:3])
    assert [row.topic for row in found] == ["a", "b", "b"]


def test_fields_are_dropped_that_a_header_lists() -> None:
    """Those that may be null alone, so that older schemas can read the rows; another header is refused."""
    options = _unwrap(drop_fields_header_name="gone")
    rows = [Row(_EVENTS[0], headers=(("gone", b'["id","to"]'),)), Row(_EVENTS[0])]
    assert _values(transformed(options, rows)) == [{"id": 1}, _OLD]
    assert refusals(options, [Row(_EVENTS[0], headers=(("gone", b"to"),))]) == [
        "transform t0: the header gone is no JSON list of names of fields"
    ]


def test_what_is_no_event_passes() -> None:
    """Without a schema there are none, as in Debezium."""
    event = {"before": None, "after": _OLD, "op": "c"}
    unwrap = chain({"type": "io.debezium.transforms.ExtractNewRecordState"})
    assert _values(transformed({**SCHEMALESS, **unwrap}, [event])) == [event]


def test_tables_that_share_a_topic() -> None:
    """Their keys tell them apart; one without a schema is refused."""
    route = {
        "type": "io.debezium.transforms.ByLogicalTableRouter",
        "topic.regex": "(.*)ers",
        "topic.replacement": "$1",
        "key.field.name": "table",
    }
    key = {"schema": {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}, "payload": {"id": 1}}
    (found,) = transformed({**_TYPED, **chain(route)}, [Row(_EVENTS[0], key)])
    assert (found.topic, found.key) == ("ord", {"id": 1, "table": "orders"})
    assert refusals({**SCHEMALESS, **chain(route)}, [Row({"a": 1}, {"id": 1})]) == [
        "transform t0: the key has no schema, and takes no field that tells the tables apart"
    ]
