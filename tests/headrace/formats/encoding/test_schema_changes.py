"""What a record of another schema means for an open object, by `schema.compatibility`."""

from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.conversion.encoders import new_encoder
from headrace.formats.arrow import DEFAULT
from headrace.formats.converted_records import ColumnSchema, Form
from headrace.formats.converters.json_inference import TypesConflict, merged
from headrace.formats.encoding import NewObject, Projected, Refused, RowSchema, Same, next_schema, schema_of
from headrace.formats.encoding.row_schema import ALIASES, ColumnForm, default_of, fits, projected
from headrace.options.sink_settings import OutputFormat, SchemaCompatibility
from tests.headrace.formats.encoding.outputs import bare, converted, converters, fetched, output
from tests.headrace.formats.encoding.registry import avro, framed, registry

_OLD: Final = pa.struct([pa.field("id", pa.int32(), nullable=False)])
_ADDED: Final = pa.struct([pa.field("id", pa.int32(), nullable=False), pa.field("x", pa.string())])
_FIXED: Final = pa.struct(
    [pa.field("id", pa.int32(), nullable=False), pa.field("x", pa.string(), nullable=False)]
)
_RENAMED: Final = pa.struct([pa.field("number", pa.int32(), False, {ALIASES: '["id"]'})])
_WIDE: Final = pa.struct([pa.field("id", pa.int64(), nullable=False)])
_N, _B = SchemaCompatibility.NONE, SchemaCompatibility.BACKWARD
_F, _A = SchemaCompatibility.FORWARD, SchemaCompatibility.FULL


def _within(kind: Any) -> Any:
    """A struct with members of this type, alone, in a list and in a map."""
    return pa.struct([("one", kind), ("all", pa.list_(kind)), ("named", pa.map_(pa.string(), kind))])


def _schema(kind: Any, version: int | None) -> RowSchema:
    return RowSchema(value=ColumnForm(Form.TYPED, ColumnSchema(arrow=kind, avro=str(kind), version=version)))


@pytest.mark.parametrize(
    ("compatibility", "opened", "new", "change"),
    [
        (_N, (_OLD, 1), (_OLD, 1), Same),
        (_N, (_OLD, 1), (_OLD, 2), Same),
        (_F, (_OLD, 2), (_OLD, 1), Same),
        (_N, (_OLD, 1), (_ADDED, 2), NewObject),
        (_N, (_ADDED, 2), (_OLD, 1), NewObject),
        (_B, (_OLD, 1), (_ADDED, 2), NewObject),
        (_B, (_ADDED, 2), (_OLD, 1), Projected),
        (_B, (_FIXED, 2), (_OLD, 1), Refused),
        (_F, (_OLD, 1), (_ADDED, 2), Projected),
        (_F, (_ADDED, 2), (_OLD, 1), NewObject),
        (_F, (_OLD, 1), (pa.string(), 2), Refused),
        (_A, (_OLD, 1), (_ADDED, 2), NewObject),
        (_A, (_ADDED, 2), (_OLD, 1), Projected),
        (_A, (_FIXED, 2), (_OLD, 1), Refused),
        # Ids are the registry's, not the subject's: a newer version may have a lower one.
        (_B, (_OLD, 10), (_ADDED, 7), NewObject),
        (_A, (_OLD, 10), (_ADDED, 7), NewObject),
        (_F, (_ADDED, 7), (_OLD, 10), Projected),
        (_B, (_within(_OLD), 10), (_within(_ADDED), 7), NewObject),
        (_B, (_within(_ADDED), 10), (_within(_OLD), 7), Projected),
        (_B, (_RENAMED, 10), (_OLD, 7), Projected),
        (_B, (_OLD, 10), (_WIDE, 7), NewObject),
        (_B, (_WIDE, 10), (_OLD, 7), Projected),
        (_B, (_ADDED, None), (_OLD, 1), NewObject),
        (_N, (_OLD, 1), (pa.null(), None), Projected),
        (_N, (pa.null(), None), (_OLD, 1), NewObject),
        (_B, (None, 2), (None, 1), NewObject),
    ],
)
def test_changes_of_registered_schemas(
    compatibility: SchemaCompatibility, opened: Any, new: Any, change: type
) -> None:
    """The registry's order tells the newer; nulls of no schema join any."""
    how = output(OutputFormat.PARQUET, schema_compatibility=compatibility)

    assert type(next_schema(how, _schema(*opened), _schema(*new))) is change


def test_the_stricter_of_key_and_value_counts() -> None:
    """Both have to fit."""
    old, new = _schema(_OLD, 1).value, _schema(_ADDED, 2).value
    how = output(OutputFormat.PARQUET)

    assert type(next_schema(how, RowSchema(old, old), RowSchema(new, old))) is NewObject
    assert type(next_schema(how, RowSchema(old, old), RowSchema(old, old))) is Same


def test_another_form_is_another_object() -> None:
    """Values with a schema after values without one."""
    plain = RowSchema(value=ColumnForm(Form.BYTES))

    assert type(next_schema(output(OutputFormat.PARQUET), plain, _schema(_OLD, 1))) is NewObject


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.null(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.list_(pa.null()), pa.list_(pa.string()), pa.list_(pa.string())),
        (
            pa.struct([("a", pa.int64())]),
            pa.struct([("b", pa.bool_())]),
            pa.struct([("a", pa.int64()), ("b", pa.bool_())]),
        ),
        (pa.int64(), pa.string(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.list_(pa.int64()))]), None),
        (pa.list_(pa.int64()), pa.struct([]), None),
    ],
)
def test_inferred_types_are_merged(one: Any, other: Any, both: Any) -> None:
    """Whichever comes first; names keep the order in which they came."""
    if both is None:
        with pytest.raises(TypesConflict):
            merged(one, other)
        with pytest.raises(TypesConflict):
            merged(other, one)
        return
    assert merged(one, other) == both
    assert {*str(merged(other, one))} == {*str(both)}


def _default(text: str) -> Any:
    return {DEFAULT: text}


@pytest.mark.parametrize(
    ("source", "target", "does"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int64(), pa.float64(), True),
        (pa.string(), pa.binary(), True),
        (pa.string(), pa.int64(), False),
        (
            pa.struct([pa.field("a", pa.int32())]),
            pa.struct([pa.field("a", pa.int32(), nullable=False)]),
            False,
        ),
        (pa.struct([]), pa.struct([pa.field("a", pa.int32(), False, _default("5"))]), True),
        (pa.struct([]), pa.struct([pa.field("a", pa.int32(), nullable=False)]), False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), True),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.string()), False),
    ],
)
def test_what_can_be_read_as_what(source: Any, target: Any, does: bool) -> None:
    """By Avro's rules of resolution."""
    assert fits(source, target) is does


def test_a_member_of_another_name_is_found_by_its_alias() -> None:
    """And not lost to its default; of its own name, where there is one."""
    one = registry()

    def record(name: str, **more: Any) -> Any:
        inner = {"type": "record", "name": "I", "fields": [{"name": name, "type": "int", **more}]}
        return {"type": "record", "name": "R", "fields": [{"name": "i", "type": inner}]}

    values = [(record("x"), {"i": {"x": 5}}), (record("y", aliases=["z", "x"], default=0), {"i": {"y": 6}})]
    how = bare(OutputFormat.PARQUET, schema_compatibility=_B)
    old, new = (
        converted(fetched([framed(one, schema, row)]), how, converters(avro(one)))[0]
        for schema, row in values
    )

    assert type(next_schema(how, schema_of(how, new), schema_of(how, old))) is Projected
    encoder = new_encoder(how, schema_of(how, new))
    encoder.add(old)
    table = pq.read_table(pa.BufferReader(encoder.drain() + encoder.finish()))
    assert table.to_pylist() == [{"i": {"y": 5}}]


def test_values_are_projected() -> None:
    """Nested, with nulls, over slices."""
    source = pa.array(
        [None, {"a": [{"x": 1}], "m": [("k", 1)], "gone": 1}, {"a": None, "m": None, "gone": 2}],
        pa.struct(
            [
                ("a", pa.list_(pa.struct([("x", pa.int32())]))),
                ("m", pa.map_(pa.string(), pa.int32())),
                ("gone", pa.int64()),
            ]
        ),
    )
    target = pa.struct(
        [
            pa.field("new", pa.string(), False, _default('"d"')),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("a", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.bool_())]))),
        ]
    )

    found = projected(source.slice(1), target)

    found.validate(full=True)
    assert found.to_pylist() == [
        {"new": "d", "m": [("k", 1)], "a": [{"x": 1, "y": None}]},
        {"new": "d", "m": None, "a": None},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.decimal128(6, 2), '"\\u0001"', Decimal("0.01")),
        (pa.binary(2), '"\\u00ff\\u0001"', b"\xff\x01"),
        (pa.map_(pa.int32(), pa.binary()), '[[1,"\\u00ff"]]', [(1, b"\xff")]),
        (pa.date32(), "1", date(1970, 1, 2)),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), '{"a":1}', {"a": 1, "b": None}),
    ],
)
def test_a_default_is_read_by_its_type(kind: Any, text: str, value: Any) -> None:
    """What was written of a schema's default."""
    found = default_of(pa.field("a", kind, False, _default(text)))

    assert found is not None
    assert found.to_pylist() == [value]


@pytest.mark.parametrize(
    ("kind", "text"), [(pa.int32(), '"x"'), (pa.binary(2), '"abc"'), (pa.list_(pa.int32()), "5")]
)
def test_a_default_of_another_type_is_none(kind: Any, text: str) -> None:
    """A registry need not check it: nothing can stand for the field then."""
    field = pa.field("a", kind, False, _default(text))

    assert default_of(field) is None
    assert not fits(pa.struct([]), pa.struct([field]))
