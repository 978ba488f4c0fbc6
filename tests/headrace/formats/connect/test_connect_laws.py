"""Laws: what a schema of Connect becomes in JSON, Avro, Arrow and Parquet, and comes back as."""

import io
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject

from headrace.formats.arrow import column_of_arrow
from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema, InvalidSchema, Type, struct
from headrace.formats.connect.arrow_types import (
    WRITER_OPTIONS,
    arrow_type,
    as_parquet,
    parquet_schema,
    schema_of_arrow,
)
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.payloads import PayloadSchema, as_connect, with_defaults
from headrace.formats.connect.schema import DECIMAL, PRECISION, SCALE, schema_of_json
from headrace.formats.connect.to_avro import avro_of_schema, avro_tree
from headrace.formats.converters.avro_reader import AvroReader
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.encoding.avro_binary import encoded
from headrace.options.choices import JsonFormat
from headrace.options.schema_settings import CONVERTER, S3_SINK, AvroOptions, JsonStyle
from tests.headrace.formats.connect.schemas import PAIRS, Pair, schemas_and_payloads
from tests.support.connect_schemas import json_of_schema

_OPTIONS = pytest.mark.parametrize("options", [CONVERTER, S3_SINK], ids=["converter", "s3_sink"])


@given(PAIRS)
def test_schemas_come_back_from_json(pair: Pair) -> None:
    """As they were."""
    schema, _ = pair

    assert schema_of_json(json.dumps(json_of_schema(schema))) == schema


@_OPTIONS
@given(PAIRS)
def test_schemas_come_back_from_avro(options: AvroOptions, pair: Pair) -> None:
    """As they were: what Avro has no word for stands in properties."""
    schema, _ = pair

    assert schema_of_avro(_avro(schema, options), options=options) == schema


def _avro(schema: ConnectSchema, options: AvroOptions) -> str:
    try:
        return avro_of_schema(schema, options)
    except InvalidSchema as error:
        # AvroData gives the entries of all maps whose keys are no text one name.
        assert "MapEntry" in str(error)  # noqa: PT017  # an error is one of two right answers
        reject()


@given(schemas_and_payloads())
def test_payloads_come_back_from_json_text(found: tuple[ConnectSchema, list[Any]]) -> None:
    """The JSON of values is that of the payloads they were made of."""
    schema, payloads = found
    array = _array(schema, payloads)

    assert array.type == arrow_type(schema)
    texts = connect_json(array, schema, JsonStyle(fill_defaults=False)).to_pylist()
    assert _array(schema, [json.loads(text) for text in texts]) == array
    assert (
        texts
        == connect_json(
            _array(schema, list(map(json.loads, texts))), schema, JsonStyle(fill_defaults=False)
        ).to_pylist()
    )


def _array(schema: ConnectSchema, payloads: list[Any]) -> Any:
    return PayloadSchema(schema).array([json.dumps(each).encode() for each in payloads])


@_OPTIONS
@given(schemas_and_payloads())
def test_values_come_back_from_avro_data(
    options: AvroOptions, found: tuple[ConnectSchema, list[Any]]
) -> None:
    """Encoded by the Avro schema of their schema, and read as the converter reads them."""
    schema, payloads = found
    array = with_defaults(_array(schema, payloads), schema)
    node = parse_schema(_avro(schema, options))
    data = column_of_arrow(encoded(array, node))
    faults = RowFaults()
    rows, read = AvroReader(node, JsonFormat.ISO, wants_texts=False).read(data, np.arange(len(data)), faults)

    assert (len(rows), faults.found) == (len(payloads), {})
    assert as_connect(read, schema) == array


@given(schemas_and_payloads())
def test_values_come_back_from_parquet(found: tuple[ConnectSchema, list[Any]]) -> None:
    """Written in the schema that parquet-avro would make, and read by pyarrow."""
    inner, payloads = found
    schema = struct(("value", inner), name="Row")
    array = with_defaults(_array(schema, [{"value": each} for each in payloads]), schema)
    _avro(schema, S3_SINK)
    shape = parquet_schema(avro_tree(schema, S3_SINK))
    columns = [as_parquet(array.field(index), field) for index, field in enumerate(shape)]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=shape), file, **WRITER_OPTIONS)
    read = pq.read_table(io.BytesIO(file.getvalue())).to_struct_array().combine_chunks()

    assert as_connect(read, schema) == array


@given(PAIRS)
def test_arrow_types_have_schemas(pair: Pair) -> None:
    """The schema of an inferred type has that type again."""
    kind = arrow_type(pair[0])

    assert arrow_type(schema_of_arrow(kind)) == kind


def test_what_was_never_filled_is_text() -> None:
    """A field of nothing but nulls needs some type."""
    kind = pa.struct([("a", pa.null()), ("b", pa.list_(pa.null()))])
    schema = schema_of_arrow(kind)
    array = pa.array([{"a": None, "b": [None]}], kind)

    assert schema.field("a") == ConnectSchema(type=Type.STRING, optional=True)
    assert as_connect(array, schema).to_pylist() == [{"a": None, "b": [None]}]


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 256, 10**30, -(10**30)])
@pytest.mark.parametrize("digits", ["38", "76"])
def test_decimals_have_as_few_bytes_as_java_gives_them(number: int, digits: str) -> None:
    """`BigInteger.toByteArray`, in Avro as in JSON."""
    schema = ConnectSchema(type=Type.BYTES, name=DECIMAL, parameters=((SCALE, "0"), (PRECISION, digits)))
    (octets,) = encoded(
        pa.array([Decimal(number)], arrow_type(schema)), parse_schema(avro_of_schema(schema))
    ).to_pylist()

    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    assert octets == bytes([2 * length]) + number.to_bytes(length, "big", signed=True)
