"""Debezium's transforms beside its own Java classes: change events at random, compared value by value."""

import random
from typing import Any, Final

import pytest

from localstack import jars
from tests.headrace.formats.transforms.compared import differences, shown
from tests.support.connect_transforms import Given

pytestmark = pytest.mark.long

_LOCK: Final = jars.LOCK.with_name("debezium-jars.lock")
_DEBEZIUM: Final = "io.debezium.transforms."
_ROW: Final = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "topic", "type": "string", "optional": True},
    {"field": "price", "type": "double", "optional": True, "default": 0.5},
    {"field": "at", "type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp"},
]
_SOURCE: Final = [
    {"field": "table", "type": "string", "optional": False},
    {"field": "ts_ms", "type": "int64", "optional": False},
    {"field": "lsn", "type": "int64", "optional": True},
    {"field": "snapshot", "type": "string", "optional": True, "default": "false"},
]
_TRANSACTION: Final = [
    {"field": "id", "type": "string", "optional": False},
    {"field": "total_order", "type": "int64", "optional": False},
]
_KEY: Final = {
    "type": "struct",
    "name": "db.shop.orders.Key",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "name", "type": "string", "optional": True},
    ],
}


def _struct(fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": True, **more}


def _schema(name: str) -> dict[str, Any]:
    row = _struct(_ROW, name="db.shop.orders.Value", version=2)
    return {
        **_struct(
            [
                {**row, "field": "before"},
                {**row, "field": "after"},
                {**_struct(_SOURCE, name="io.debezium.Source", optional=False), "field": "source"},
                {**_struct(_TRANSACTION, name="event.block", version=1), "field": "transaction"},
                {"field": "op", "type": "string", "optional": False},
                {"field": "ts_ms", "type": "int64", "optional": True},
            ],
            name=name,
            version=1,
        ),
        "optional": False,
    }


class _Events:
    """Change events that are made at random, the same with each seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _row(self) -> dict[str, Any]:
        choose = self._random.choice
        return {
            "id": self._random.randrange(100),
            "name": choose((None, "é", "x")),
            "topic": choose((None, "", "to-one", "to.two")),
            "price": choose((1.25, 2.5)),
            "at": choose((None, 0, 1_577_836_800_123)),
        }

    def value(self) -> Any:
        """An event of any operation, or what is no event."""
        op = self._random.choice(("c", "r", "u", "u", "d", "d", "t", "none", "other"))
        if op == "none":
            return None
        payload = {
            "before": self._row() if op in {"u", "d"} else None,
            "after": self._row() if op in {"c", "r", "u", "other"} else None,
            "source": {"table": "orders", "ts_ms": 5, "lsn": self._random.choice((None, 7)), "snapshot": "x"},
            "transaction": self._random.choice((None, {"id": "t1", "total_order": 4})),
            "op": "c" if op == "other" else op,
            "ts_ms": self._random.choice((None, 9)),
        }
        name = "db.shop.orders.Other" if op == "other" else "db.shop.orders.Envelope"
        return {"schema": _schema(name), "payload": payload}

    def given(self, step: dict[str, str], topic: str = "db.shop-1.orders") -> Given:
        """An event with a key, and sometimes with a header that lists fields."""
        headers: tuple[tuple[str, str], ...] = (("own", "1"),)
        if self._random.random() < 0.7:
            listed = self._random.choice(('["name"]', '["id","price","__op"]', '["name","at"]'))
            headers += (("gone", listed),)
        payload = {"id": self._random.randrange(9), "name": self._random.choice((None, "k"))}
        has_key = self._random.random() < 0.8
        key = {"schema": _KEY, "payload": payload} if has_key else None
        return Given(
            steps=({**step, "type": _DEBEZIUM + step["type"]},),
            value=self.value(),
            key=key,
            has_schemas=True,
            topic=topic,
            headers=headers,
        )


_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone")
_ADDED: Final[tuple[dict[str, str], ...]] = (
    {},
    {"add.fields": "op,table,source.ts_ms,lsn:position,transaction.id,ts_ms,missing"},
    {"add.headers": "op,source.table,total_order,snapshot", "add.headers.prefix": "h-"},
    {"add.fields": "op,snapshot", "add.fields.prefix": "", "add.headers": "op:operation,ts_ms"},
    {"route.by.field": "topic"},
    {"drop.fields.header.name": "gone"},
    {"drop.fields.header.name": "gone", "drop.fields.from.key": "true", "add.fields": "op"},
    {
        "drop.fields.header.name": "gone",
        "drop.fields.keep.schema.compatible": "false",
        "add.fields": "op",
        "drop.fields.from.key": "true",
    },
    {"add.fields": "source"},
    {"replace.null.with.default": "false", "add.fields": "nowhere.x"},
)


@pytest.mark.parametrize("mode", _MODES)
def test_extract_new_record_state(mode: str) -> None:
    """Every operation, with every way to add, drop and route."""
    events = _Events(_MODES.index(mode))
    given = [
        events.given(
            {"type": "ExtractNewRecordState", "delete.tombstone.handling.mode": mode, **_ADDED[count % 10]}
        )
        for count in range(400)
    ]
    found = differences(given, _LOCK)
    assert not found, shown(found)


_ROUTERS: Final[tuple[dict[str, str], ...]] = (
    {"topic.regex": "(.*)shop-\\d+(.*)", "topic.replacement": "$1shop$2"},
    {
        "topic.regex": "(.*)shop-\\d+(.*)",
        "topic.replacement": "1$1all-shops$2",
        "key.enforce.uniqueness": "false",
    },
    {
        "topic.regex": "(.*)shop-(.*)",
        "topic.replacement": "$1all",
        "key.field.name": "shard",
        "key.field.regex": "(.*)shop-(\\d+).*",
        "key.field.replacement": "$2",
    },
    {"topic.regex": "(.*)shop-(.*)", "topic.replacement": "all", "key.field.name": "id"},
    {"topic.regex": "none", "topic.replacement": "all"},
    {"topic.regex": "(.*)shop(.*)", "topic.replacement": "1_$1$2-x", "schema.name.adjustment.mode": "avro"},
    {
        "topic.regex": "(.*)shop(.*)",
        "topic.replacement": "_$1-2",
        "schema.name.adjustment.mode": "avro_unicode",
    },
)


@pytest.mark.parametrize("step", _ROUTERS, ids=str)
def test_by_logical_table_router(step: dict[str, str]) -> None:
    """Keys that get a field, schemas that get a name, values that are no events."""
    events = _Events(len(step))
    given = [events.given({"type": "ByLogicalTableRouter", **step}) for _ in range(60)]
    found = differences(given, _LOCK)
    assert not found, shown(found)
