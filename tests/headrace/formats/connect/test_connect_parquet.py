"""Parquet schemas against those of the objects that the real sinks wrote, and values written with them."""

import io
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.connect import ConnectSchema, Default, InvalidSchema, Type, plain, struct
from headrace.formats.connect.arrow_types import (
    WRITER_OPTIONS,
    arrow_type,
    as_parquet,
    parquet_schema,
)
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.payloads import PayloadSchema, with_defaults
from headrace.formats.connect.schema import DECIMAL, PRECISION, SCALE, TIMESTAMP
from headrace.formats.connect.to_avro import avro_tree
from headrace.options.schema_settings import S3_SINK
from tests.headrace.vendors.archive import Archive, archives

_MODEL: Final = b"parquet.avro.schema"
_ARCHIVES: Final = [
    each for each in archives() if "parquet" in each.name and each.vendor in {"confluent", "lenses"}
]


def _objects(source: Archive) -> list[bytes]:
    return [body for body in source.objects.values() if body.startswith(b"PAR1")]


def _without_list_names(kind: Any) -> Any:
    """The type with one name for the elements of lists, which are always nullable in ours or in theirs."""
    if pa.types.is_struct(kind):
        return pa.struct(
            [pa.field(each.name, _without_list_names(each.type), each.nullable) for each in kind]
        )
    if pa.types.is_list(kind):
        return pa.list_(_without_list_names(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_type, pa.field("value", _without_list_names(kind.item_type), kind.item_field.nullable)
        )
    return kind


def _columns(schema: Any) -> list[tuple[str, Any, bool]]:
    return [(each.name, _without_list_names(each.type), each.nullable) for each in schema]


@pytest.mark.parametrize("source", _ARCHIVES, ids=str)
def test_columns_and_metadata_are_those_of_the_sinks(source: Archive) -> None:
    """Names, types, what may be null, and the metadata of the file."""
    bodies = _objects(source)
    assert bodies
    for body in bodies:
        theirs = pq.read_schema(io.BytesIO(body))
        connect = schema_of_avro(theirs.metadata[_MODEL].decode(), options=S3_SINK)
        assert connect is not None
        ours = parquet_schema(avro_tree(connect, S3_SINK))

        assert _columns(ours) == _columns(theirs)
        assert ours.metadata == {name: theirs.metadata[name] for name in ours.metadata}
        assert set(theirs.metadata) - {b"ARROW:schema"} == set(ours.metadata)


def test_rows_of_the_sinks_can_be_written_and_read_again() -> None:
    """Every archived row, in the schema that we make."""
    for source in _ARCHIVES:
        for body in _objects(source):
            table = pq.read_table(io.BytesIO(body))
            connect = schema_of_avro(table.schema.metadata[_MODEL].decode(), options=S3_SINK)
            assert connect is not None
            rows = _written(
                parquet_schema(avro_tree(connect, S3_SINK)), table.to_struct_array().combine_chunks()
            )
            assert rows == table.to_pylist()


def _written(schema: Any, array: Any) -> list[dict[str, Any]]:
    file = io.BytesIO()
    columns = [as_parquet(array.field(index), field) for index, field in enumerate(schema)]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), file, **WRITER_OPTIONS)
    return list(pq.read_table(io.BytesIO(file.getvalue())).to_pylist())


_PRICE: Final = ConnectSchema(
    type=Type.BYTES, name=DECIMAL, version=1, parameters=((SCALE, "2"), (PRECISION, "9")), optional=True
)
_RICH: Final = struct(
    ("small", plain(Type.INT8)),
    ("price", _PRICE),
    ("at", ConnectSchema(type=Type.INT64, name=TIMESTAMP, version=1, optional=True)),
    ("tags", ConnectSchema(type=Type.ARRAY, items=plain(Type.STRING), optional=True)),
    ("counts", ConnectSchema(type=Type.MAP, key=plain(Type.STRING), value=plain(Type.INT64), optional=True)),
    ("pairs", ConnectSchema(type=Type.MAP, key=plain(Type.INT32), value=plain(Type.STRING), optional=True)),
    (
        "inner",
        struct(
            ("id", plain(Type.INT64)),
            ("name", plain(Type.STRING)),
            ("on", plain(Type.BOOLEAN)),
            (
                "deep",
                struct(
                    ("octets", plain(Type.BYTES)),
                    ("list", ConnectSchema(type=Type.ARRAY, items=plain(Type.INT32))),
                ),
            ),
            name="x.Inner",
            optional=True,
        ),
    ),
    name="x.Rich",
)


def test_values_of_all_types_are_written() -> None:
    """Required members of a record that is null need something to stand there; maps of numbers are lists."""
    payloads: list[dict[str, Any]] = [
        {
            "small": -3,
            "price": "MDk=",
            "at": 5,
            "tags": ["a", "b"],
            "counts": {"a": 1},
            "pairs": [[1, "x"]],
            "inner": {"id": 1, "name": "n", "on": True, "deep": {"octets": "AP8=", "list": [1, 2]}},
        },
        {"small": 4},
    ]
    array = PayloadSchema(_RICH).array([json.dumps(each).encode() for each in payloads])
    schema = parquet_schema(avro_tree(_RICH, S3_SINK))

    first, last = _written(schema, array)
    assert schema.field("small").type == pa.int32()
    assert schema.field("price").type == pa.decimal128(9, 2)
    assert str(first["price"]) == "123.45"
    assert first["pairs"] == [{"key": 1, "value": "x"}]
    assert first["inner"]["deep"] == {"octets": b"\x00\xff", "list": [1, 2]}
    assert last == {"small": 4, **dict.fromkeys(["price", "at", "tags", "counts", "pairs", "inner"])}


_INNER: Final = pa.field("f", pa.struct([pa.field("a", pa.int32(), nullable=False)]))
_ITEM: Final = pa.field("item", pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("field", "values", "is_held"),
    [
        (_INNER, [None, {"a": 1}], True),
        (_INNER, [None, {"a": None}], False),
        (_INNER.with_nullable(False), [{"a": 1}, None], False),
        (pa.field("f", pa.struct([_INNER.with_nullable(False)])), [None, {"f": {"a": 1}}], True),
        (pa.field("f", pa.struct([_INNER.with_nullable(False)])), [None, {"f": None}], False),
        (pa.field("f", pa.list_(_ITEM)), [None, [], [1]], True),
        (pa.field("f", pa.list_(_ITEM)), [None, [1, None]], False),
        (pa.field("f", pa.map_(pa.string(), _ITEM)), [None, [("a", 1)]], True),
        (pa.field("f", pa.map_(pa.string(), _ITEM)), [[("a", None)]], False),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_nothing_is_made_up_but_below_a_null(
    field: Any, values: list[Any], before: int, *, is_held: bool
) -> None:
    """Of any other null in a required place there is no row; of a part of an array either."""
    array = pa.array([None] * before + values, _nullable(field.type))[before:]

    if is_held:
        assert as_parquet(array, field).to_pylist() == values
    else:
        with pytest.raises(pa.ArrowInvalid, match="is null"):
            as_parquet(array, field)


def _nullable(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _nullable(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return pa.list_(_nullable(kind.value_type)) if pa.types.is_list(kind) else kind


def test_defaults_stand_where_a_field_is_null() -> None:
    """At every depth; a row that is null stays so."""
    price = ConnectSchema(
        type=Type.BYTES, name=DECIMAL, parameters=((SCALE, "1"),), default=Default('"Dw=="')
    )
    inner = struct(("kind", ConnectSchema(type=Type.STRING, optional=True, default=Default('"plain"'))))
    listed = ConnectSchema(type=Type.ARRAY, items=inner, optional=True)
    schema = struct(("price", price), ("listed", listed))
    array = pa.array([{"listed": [{"kind": None}, {"kind": "x"}]}, None], arrow_type(schema))

    first, last = with_defaults(array, schema).to_pylist()
    assert str(first["price"]) == "1.5"
    assert first["listed"] == [{"kind": "plain"}, {"kind": "x"}]
    assert last is None


def test_a_default_of_avro_beyond_a_double_is_none() -> None:
    """No JSON has it; as AvroData has it, a default that is no value of its type is left out."""
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1e400}]}'

    connect = schema_of_avro(text)

    assert connect is not None
    assert connect.fields[0].schema.default is None
    assert with_defaults(pa.array([None], arrow_type(connect)), connect).to_pylist() == [None]


def test_a_record_without_fields_is_refused() -> None:
    """Parquet has none."""
    with pytest.raises(InvalidSchema, match="no record without fields"):
        parquet_schema(avro_tree(struct(("a", struct(name="x.Empty")))))
