"""Each transform beside the Java class whose name it has: generated records, compared value by value."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from tests.headrace.formats.transforms.compared import differences, shown
from tests.headrace.formats.transforms.transformed import KAFKA
from tests.support.connect_transforms import Given

pytestmark = pytest.mark.long

_COUNT: Final = 150
_NAMES: Final = ("a", "b", "c", "a.b", "Zähler", "t")
_APART: Final = ("ax", "by", "cz", "Zähler")
_PRIMITIVES: Final = ("int8", "int16", "int32", "int64", "double", "boolean", "string", "bytes")
_LOGICAL: Final = {
    "Timestamp": ("int64", -62_135_596_800_000, 253_402_300_799_999),
    "Date": ("int32", -719_162, 2_932_896),
    "Time": ("int32", 0, 86_399_999),
}


class _Records:
    """Records that are made at random, the same with each seed."""

    def __init__(self, seed: int, *, names: Sequence[str] = _NAMES) -> None:
        self._random = random.Random(seed)
        self._names = names

    def loose(self, depth: int = 3) -> dict[str, Any]:
        """An object without a schema."""
        names = self._random.sample(self._names, self._random.randint(0, 4))
        return {name: self._loose(depth - 1) for name in names}

    def _loose(self, depth: int) -> Any:
        choose = self._random.choice
        kind = choose(("null", "text", "whole", "flag", "fraction", "list", "object", "object"))
        if kind == "object" and depth:
            return self.loose(depth)
        return {
            "null": None,
            "text": choose(("", "x", "{", 'a"b', "2020-01-02 03:04:05", "é", "\U0001f600")),
            "whole": choose((0, 1, -5, 2**40, 1_577_836_800_123)),
            "flag": choose((True, False)),
            "fraction": choose((0.5, -1.25, 1e10)),
            "list": [1, "x", {"y": None}],
        }.get(kind)

    def struct(self, depth: int = 3, **more: Any) -> tuple[dict[str, Any], Any]:
        """A schema of fields, and a value of it that may be null where the schema allows that."""
        fields: list[Any] = []
        payload: dict[str, Any] = {}
        for name in self._random.sample(self._names, self._random.randint(1, 4)):
            schema, value = self._typed(depth - 1)
            fields.append({**schema, "field": name})
            if value is not None or schema.get("optional"):
                payload[name] = value
        schema = {"type": "struct", "fields": fields, "optional": self._random.random() < 0.4, **more}
        if self._random.random() < 0.3:
            schema |= {"name": "com.acme.Thing", "version": 3, "doc": "a thing"}
        return schema, None if schema["optional"] and self._random.random() < 0.25 else payload

    def _typed(self, depth: int) -> tuple[dict[str, Any], Any]:
        choose = self._random.choice
        kind = choose((*_PRIMITIVES, *_LOGICAL, "array", "struct", "struct"))
        if kind == "struct" and depth:
            return self.struct(depth)
        is_optional = self._random.random() < 0.5
        schema: dict[str, Any] = {"type": kind, "optional": is_optional}
        if kind in _LOGICAL:
            stored, least, most = _LOGICAL[kind]
            schema |= {"type": stored, "name": f"org.apache.kafka.connect.data.{kind}", "version": 1}
            value: Any = self._random.randint(least, most)
        elif kind in {"array", "struct"}:
            schema |= {"type": "array", "items": {"type": "int64", "optional": False}}
            value = [1, 2]
        else:
            value = self._plain(kind)
            if self._random.random() < 0.2 and kind != "bytes":
                schema["default"] = self._plain(kind)
        return schema, None if is_optional and self._random.random() < 0.3 else value

    def _plain(self, kind: str) -> Any:
        choose = self._random.choice
        if kind.startswith("int"):
            return choose((0, 1, -7, 100))
        return {
            "double": choose((0.5, -2.25, 1e300)),
            "boolean": choose((True, False)),
            "string": choose(("", "x", "2020-01-02 03:04:05", "é")),
            "bytes": choose(("", "AAEC", "/w==")),
        }[kind]

    def schemaed(self, count: int) -> list[Any]:
        """Values of Connect's JSON with schemas."""
        found = []
        for _ in range(count):
            schema, payload = self.struct()
            found.append({"schema": schema, "payload": payload})
        return found

    def choice(self, options: Sequence[Any]) -> Any:
        """One of them."""
        return self._random.choice(options)


@pytest.mark.parametrize("delimiter", [".", "_", ""])
@pytest.mark.parametrize("has_schemas", [False, True])
def test_flatten(delimiter: str, *, has_schemas: bool) -> None:
    """Objects in objects, empty ones, lists, nulls, and, with a schema, names that become one."""
    # Without a schema the last of such names counts, and Java's maps have an order of their own.
    names = _NAMES if has_schemas else _APART
    records = _Records(len(delimiter), names=names)
    step = {"type": f"{KAFKA}Flatten$Value", "delimiter": delimiter}
    loose: list[Any] = [*(records.loose() for _ in range(_COUNT)), None, [1], 5, "x"]
    values = records.schemaed(_COUNT) if has_schemas else loose
    given = [Given(steps=(step,), value=value, has_schemas=has_schemas) for value in values]
    found = differences(given)
    assert not found, shown(found)


_TEXTS: Final = (
    "2020-01-02 03:04:05",
    " 2020-1-2 3:4:5 and more",
    "2020-13-45 25:61:61",
    "20-01-02 03:04:05",
    "0001-01-01 00:00:00",
    "1582-10-10 12:00:00",
    "1500-02-29 01:02:03",
    "9999-12-31 23:59:59",
    "2020-01-02",
    "",
    "-5-01-02 03:04:05",
    "2020-01-02T03:04:05Z",
    "Thu, 02 Jan 2020 03:04:05 +0130",
    "thu, 2 january 20 3:4:5 GMT-02:00",
    "02/01/20 11:04 pm",
    "1/2/70 12:00 AM",
    "20200102030405678",
    "2020-060 24",
    "2020-01-02T03:04:05.9+01:30",
)
_FORMATS: Final = (
    "yyyy-MM-dd HH:mm:ss",
    "EEE, dd MMM yyyy HH:mm:ss Z",
    "dd/MM/yy hh:mm a",
    "yyyyMMddHHmmssSSS",
    "yyyy-DDD kk",
    "yyyy-MM-dd'T'HH:mm:ss.SXXX",
    "yyyy-MM-dd'T'HH:mm:ssX",
    "d/M/y G",
)
_WHOLE: Final = (0, 1, -1, 1_577_934_245_678, -62_135_769_600_000, -12_219_292_800_001, 2**40, -(2**40))
_UNITS: Final = ("seconds", "milliseconds", "microseconds", "nanoseconds")
_TARGETS: Final = ("string", "unix", "Date", "Time", "Timestamp")


def _time_steps(records: _Records, field: str) -> dict[str, str]:
    return {
        "type": f"{KAFKA}TimestampConverter$Value",
        "field": field,
        "target.type": records.choice(_TARGETS),
        "format": records.choice(_FORMATS),
        "unix.precision": records.choice(_UNITS),
    }


@pytest.mark.parametrize("field", ["t", ""])
def test_timestamp_converter_without_a_schema(field: str) -> None:
    """Texts of every format by every format, numbers of every unit, and what is no time."""
    records = _Records(1)
    values: list[Any] = [*_TEXTS * 12, *_WHOLE * 20, 2**62, -(2**63), True, 1.5, [1], {"x": 1}, None, None]
    given = [
        Given(steps=(_time_steps(records, field),), value={"t": value, "x": 1.5} if field else value)
        for value in values
    ]
    others: list[Any] = [{}, [1], None, 7]
    given += [Given(steps=(_time_steps(records, "t"),), value=value) for value in others]
    found = differences(given)
    assert not found, shown(found)


@pytest.mark.parametrize("field", ["t", ""])
def test_timestamp_converter_with_a_schema(field: str) -> None:
    """Every type of a field, each to every type, with defaults and nulls."""
    records = _Records(2)
    given = []
    for _ in range(300):
        schema, value = _time(records, has_default=bool(field))
        if field:
            fields = [{**schema, "field": "t"}, {"type": "string", "optional": True, "field": "x"}]
            schema = {"type": "struct", "optional": records.choice([True, False]), "fields": fields}
            value = {"t": value} if not schema["optional"] or records.choice([True, False]) else None
        body = {"schema": schema, "payload": value}
        given.append(Given(steps=(_time_steps(records, field),), value=body, has_schemas=True))
    found = differences(given)
    assert not found, shown(found)


def _time(records: _Records, *, has_default: bool) -> tuple[dict[str, Any], Any]:
    kind = records.choice((*_LOGICAL, "string", "int64", "int64", "int32"))
    # Of a type that is no time Kafka refuses nulls too.
    is_optional = records.choice([True, False]) and (has_default or kind != "int32")
    schema: dict[str, Any] = {"type": kind, "optional": is_optional}
    if kind in _LOGICAL:
        stored, least, most = _LOGICAL[kind]
        schema |= {"type": stored, "name": f"org.apache.kafka.connect.data.{kind}", "version": 1}
        value: Any = records.choice((least, 0, 1, 12_345, most))
    else:
        value = records.choice(_TEXTS) if kind == "string" else records.choice((*_WHOLE[:2], 1_577_934_245))
        if has_default and schema["optional"] and records.choice([True, False]):
            schema["default"] = value
    return schema, None if schema["optional"] and records.choice([True, False, False]) else value


@pytest.mark.parametrize("has_schemas", [False, True])
def test_set_schema_metadata(*, has_schemas: bool) -> None:
    """A name, a version, both; a value without a schema is refused, and a null is not."""
    records = _Records(3)
    choices: list[dict[str, str]] = [{"schema.name": "com.acme.Other"}, {"schema.version": "-7"}]
    choices.append({"schema.name": "other", "schema.version": "2"})
    values: list[Any] = records.schemaed(_COUNT) if has_schemas else [records.loose(), None, 5, "x"]
    if has_schemas:
        values.append({"schema": {"type": "int64"}, "payload": 5})
    given = [
        Given(
            steps=({"type": f"{KAFKA}SetSchemaMetadata$Value", **records.choice(choices)},),
            value=value,
            has_schemas=has_schemas,
        )
        for value in values
    ]
    found = differences(given)
    assert not found, shown(found)


_OTHERS: Final[tuple[Mapping[str, str], ...]] = (
    {"type": f"{KAFKA}Flatten$Key"},
    {"type": f"{KAFKA}InsertField$Value", "static.field": "s", "static.value": "x", "timestamp.field": "ts"},
    {"type": f"{KAFKA}InsertField$Value", "topic.field": "a!", "offset.field": "o"},
    {"type": f"{KAFKA}InsertField$Key", "partition.field": "p"},
    {"type": f"{KAFKA}ReplaceField$Value", "exclude": "ax,cz"},
    {"type": f"{KAFKA}ReplaceField$Value", "include": "ax,by", "renames": "ax:q"},
    {"type": f"{KAFKA}ExtractField$Value", "field": "ax"},
    {"type": f"{KAFKA}HoistField$Key", "field": "all"},
    {"type": f"{KAFKA}ValueToKey", "fields": "ax"},
    {"type": f"{KAFKA}InsertHeader", "header": "h", "value.literal": "text"},
    {"type": f"{KAFKA}InsertHeader", "header": "h", "value.literal": "12"},
    {"type": f"{KAFKA}DropHeaders", "headers": "one"},
    {"type": f"{KAFKA}HeaderFrom$Value", "fields": "by", "headers": "h", "operation": "copy"},
    {"type": f"{KAFKA}HeaderFrom$Value", "fields": "by", "headers": "h", "operation": "move"},
    {"type": f"{KAFKA}MaskField$Value", "fields": "ax,by"},
    {"type": f"{KAFKA}MaskField$Value", "fields": "cz", "replacement": "7"},
    {"type": f"{KAFKA}Cast$Value", "spec": "ax:string,by:int8"},
    {"type": f"{KAFKA}Cast$Value", "spec": "cz:boolean,by:float64"},
    {"type": f"{KAFKA}RegexRouter", "regex": "o(.*?)x?", "replacement": "$1-new"},
    {"type": f"{KAFKA}RegexRouter", "regex": "(or)(d).*", "replacement": "$2$1"},
    {
        "type": f"{KAFKA}TimestampRouter",
        "topic.format": "${topic}_${timestamp}",
        "timestamp.format": "yyyyMM",
    },
)


@pytest.mark.parametrize("has_schemas", [False, True])
@pytest.mark.parametrize("step", _OTHERS, ids=lambda step: "-".join(step.values())[37:])
def test_the_other_classes(step: Mapping[str, str], *, has_schemas: bool) -> None:
    """Each over values and keys of every kind, and headers."""
    records = _Records(len(str(step)), names=_APART)
    values = records.schemaed(40) if has_schemas else [*(records.loose() for _ in range(38)), None, 5]
    key: Any = {"ax": 1, "by": "x"}
    if has_schemas:
        fields = [{"field": "ax", "type": "int64"}, {"field": "by", "type": "string", "optional": True}]
        key = {"schema": {"type": "struct", "fields": fields}, "payload": key}
    headers = (("one", "1"), ("two", "text"))
    given = [
        Given(steps=(step,), value=value, key=key, has_schemas=has_schemas, headers=headers)
        for value in values
    ]
    found = differences(given)
    assert not found, shown(found)
