"""Schemas that other writers make and Arrow refuses or mistakes, and files that cannot be read."""

import base64
import datetime as dt
import gzip
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
import zstandard

from headrace.formats import SPLITTERS
from headrace.formats.parquet_avro import AvroRows
from headrace.formats.parquet_footer import RangedFile
from headrace.formats.parquet_groups import RowGroups
from headrace.formats.parquet_thrift import I32, Struct
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat, JsonFormat
from tests.headrace.formats.archives import zipped
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.parquet_files import (
    ENUM,
    INTERVAL,
    LOGICAL_ENUM,
    LOGICAL_NULL,
    MAP_KEY_VALUE,
    annotated,
    element,
    presto_map,
    refooted,
    renamed,
    written,
)

PARQUET = decode_options(InputFormat.PARQUET)


def _values(content: bytes, **options: Any) -> list[bytes | None]:
    decoded = decode_all(MemorySource(content), decode_options(InputFormat.PARQUET, **options))
    assert decoded.error is None
    return decoded.values


@pytest.mark.parametrize("logical", [LOGICAL_ENUM, None], ids=["logical", "converted"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_an_enum_is_its_symbol(logical: int | None, *, use_dictionary: bool) -> None:
    """On its own and in a list, annotated in either way."""
    table = pa.table({"e": pa.array([b"RED", None, b"BLUE"]), "l": pa.array([[b"a"], [], None])})
    content = written(table, use_dictionary=use_dictionary)
    for column in ("e", "element"):
        content = refooted(content, annotated(column, ENUM, logical))

    assert _values(content) == [b'{"e":"RED","l":["a"]}', b'{"e":null,"l":[]}', b'{"e":"BLUE","l":null}']


@pytest.mark.parametrize(
    "annotation", [{}, {"logical": None}, {"converted": MAP_KEY_VALUE, "logical": None}], ids=str
)
def test_maps_whose_keys_may_be_null(annotation: dict[str, Any]) -> None:
    """As DuckDB reads them, however the map is annotated."""
    content = presto_map([[("a", 1), ("b", None)], None, [], [("c", 3)]], **annotation)

    assert _values(content) == [b'{"m":{"a":1,"b":null}}', b'{"m":null}', b'{"m":{}}', b'{"m":{"c":3}}']


def test_such_maps_of_other_types() -> None:
    """Keys that are no text make pairs; values may be nested, and hold such a map's neighbours."""
    pairs = presto_map([[(1, 1), (2, None)], []], key=pa.int64())
    nested = presto_map([[("a", [[1], None])], None], value=pa.list_(pa.list_(pa.int64())))

    assert _values(pairs) == [b'{"m":[[1,1],[2,null]]}', b'{"m":[]}']
    assert _values(nested) == [b'{"m":{"a":[[1],null]}}', b'{"m":null}']


def test_a_null_key_is_a_bad_row_and_not_the_end_of_the_process() -> None:
    """Arrow aborts where it is given a map with one."""
    decoded = decode_all(MemorySource(presto_map([[("a", 1)], [("b", 1), (None, 2)], [("c", 3)]])), PARQUET)

    assert decoded.values == [b'{"m":{"a":1}}', b'{"m":{"c":3}}']
    assert [(row.index, row.reason, row.message) for row in decoded.bad] == [
        (1, "not_parquet", "a map of the row has a key that is null")
    ]


def test_repeated_names_are_told_apart() -> None:
    """At the top, in a struct, and beside a name that already looks so."""
    table = pa.table(
        {
            "a": [1],
            "b": ["x"],
            "a_1": [3],
            "c": [4],
            "s": [{"p": 1, "q": 2}],
            "t": pa.array([5], pa.timestamp("ns")),
        }
    )
    content = written(table, use_deprecated_int96_timestamps=True)
    content = refooted(content, renamed({"b": "a", "c": "a", "q": "p"}))

    assert _values(content) == [
        b'{"a":1,"a_2":"x","a_1":3,"a_3":4,"s":{"p":1,"p_1":2},"t":"1970-01-01T00:00:00.000000005"}'
    ]


def test_a_dotted_name_beside_a_struct() -> None:
    """A column `a.b` is not the field `b` of a struct `a`, with INT96 in both."""
    moments = pa.array([1, 2], pa.timestamp("ns"))
    struct = pa.StructArray.from_arrays([pa.array([1, 2]), moments], ["b", "t"])
    content = written(
        pa.table({"a": struct, "a.b": ["x", "y"], "a.t": moments}), use_deprecated_int96_timestamps=True
    )

    first, second = "1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000000002"
    assert [json.loads(value or b"") for value in _values(content)] == [
        {"a": {"b": 1, "t": first}, "a.b": "x", "a.t": first},
        {"a": {"b": 2, "t": second}, "a.b": "y", "a.t": second},
    ]


def int96(*moments: tuple[int, int]) -> bytes:
    """A file with a column `t` of these (Julian day, nanoseconds of the day)."""
    stored = [
        rest.to_bytes(8, "little", signed=True) + day.to_bytes(4, "little", signed=True)
        for day, rest in moments
    ]
    content = written(pa.table({"t": pa.array(stored, pa.binary(12))}), use_dictionary=False)

    def change(footer: Struct) -> None:
        element(footer, "t")[1] = (I32, 3)
        element(footer, "t").pop(2)
        footer[4][1][1][0][1][1][1][0][3][1][1] = (I32, 3)

    return refooted(content, change)


EPOCH = 2_440_588
DAY = 86_400 * 10**9


def test_int96_of_every_year() -> None:
    """One moment beyond the calendar costs the others nothing; nanoseconds beyond the day carry over."""
    year_40000 = EPOCH + 13_890_462
    content = int96((EPOCH, 1), (year_40000, 5), (EPOCH - 1, DAY - 1), (EPOCH, DAY + 7), (EPOCH, -1))

    assert _values(content) == [
        b'{"t":"1970-01-01T00:00:00.000000001"}',
        b'{"t":%d}' % (13_890_462 * DAY + 5),
        b'{"t":"1969-12-31T23:59:59.999999999"}',
        b'{"t":"1970-01-02T00:00:00.000000007"}',
        b'{"t":"1969-12-31T23:59:59.999999999"}',
    ]
    assert _values(content, json_format=JsonFormat.CONNECT)[1] == b'{"t":%d}' % (13_890_462 * DAY // 10**6)


def test_spark_s_last_years_are_those_that_spark_reads() -> None:
    """Spark counts microseconds in 64 bits, and its Julian day wraps around with them."""
    microseconds = 9_089_000_000_000_000_123  # in the year 289,991
    wrapped = microseconds + EPOCH * DAY // 1000 - 2**64
    day, rest = divmod(wrapped, DAY // 1000)

    assert _values(int96((day, rest * 1000))) == [b'{"t":%d}' % (microseconds * 1000)]


def test_nested_int96_keeps_nanoseconds() -> None:
    """In lists, structs and maps, beside nulls."""
    moments = pa.array([1, 2, None, 1001], pa.timestamp("ns"))
    lists = pa.ListArray.from_arrays([0, 2, 2, 4], moments, mask=pa.array([False, True, False]))
    table = pa.table({"l": lists, "m": pa.MapArray.from_arrays([0, 1, 2, 4], ["a", "b", "c", "d"], moments)})

    assert [
        json.loads(value or b"") for value in _values(written(table, use_deprecated_int96_timestamps=True))
    ] == [
        {
            "l": ["1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000000002"],
            "m": {"a": "1970-01-01T00:00:00.000000001"},
        },
        {"l": None, "m": {"b": "1970-01-01T00:00:00.000000002"}},
        {
            "l": [None, "1970-01-01T00:00:00.000001001"],
            "m": {"c": None, "d": "1970-01-01T00:00:00.000001001"},
        },
    ]


def test_what_has_no_counterpart_in_arrow_goes_to_avro() -> None:
    """INT96 in microseconds, maps with optional keys as maps, also within lists."""
    moments = pa.array([1000, None, 2999], pa.timestamp("ns"))
    lists = pa.ListArray.from_arrays([0, 2, 2, 3], moments, mask=pa.array([False, True, False]))
    times = written(pa.table({"l": lists, "t": moments}), use_deprecated_int96_timestamps=True)

    assert _avro(times) == [
        {"l": [_moment(1), None], "t": _moment(1)},
        {"l": None, "t": None},
        {"l": [_moment(2)], "t": _moment(2)},
    ]
    assert _avro(presto_map([[("a", 1)], None])) == [{"m": {"a": 1}}, {"m": None}]


def test_an_interval_is_its_bytes() -> None:
    """By their places, at any depth: a valid name may be that of another column."""
    table = pa.table({"i": pa.array([b"123456789012", None], pa.binary(12))})

    content = refooted(written(table, store_schema=False), annotated("i", INTERVAL, LOGICAL_NULL))

    assert _values(content) == [b'{"i":"MTIzNDU2Nzg5MDEy"}', b'{"i":null}']


def test_columns_whose_names_avro_does_not_have_keep_their_values() -> None:
    """By their places, at any depth: a name that is made valid may be that of another column."""
    row = {"First Name": "Ada", "a.b": 1, "a_b": 2, "1st": True}
    inner = pa.struct({"x y": pa.int64(), "x_y": pa.int64()})
    nested = {"s": inner, "l": pa.list_(inner), "m": pa.map_(pa.string(), inner), "by": pa.map_(inner, inner)}
    table = pa.Table.from_pylist(
        [
            row | {"s": {"x y": 1, "x_y": 2}, "l": [{"x y": 3}, None], "m": [("k", {"x y": 4})], "by": None},
            row | {"s": None, "l": None, "m": None, "by": [({"x y": 5}, {"x_y": 6})]},
        ],
        pa.schema({**{name: pa.infer_type([value]) for name, value in row.items()}, **nested}),
    )

    first, second = _avro(written(table))

    assert list(first.items())[:4] == [("First_Name", "Ada"), ("a_b", 1), ("a_b_", 2), ("_1st", True)]
    assert first["s"] == {"x_y": 1, "x_y_": 2}
    assert first["l"] == [{"x_y": 3, "x_y_": None}, None]
    assert first["m"] == {"k": {"x_y": 4, "x_y_": None}}
    assert (first["by"], second["s"], second["l"], second["m"]) == (None, None, None, None)
    assert second["by"] == [{"key": {"x_y": 5, "x_y_": None}, "value": {"x_y": None, "x_y_": 6}}]


def test_of_a_key_that_a_map_has_twice_avro_gets_the_last() -> None:
    """As Parquet's readers do, and without a warning that shows the key."""
    maps = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))

    assert _avro(written(pa.table({"m": maps}))) == [{"m": {"a": 2}}]


def _moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)  # noqa: DTZ001  # local


def _avro(content: bytes) -> list[Any]:
    """The rows as fastavro reads what is written."""
    source = MemorySource(content)
    groups = RowGroups(source, RangedFile(source, unit_max_bytes=1 << 20), unit_max_bytes=1 << 20)
    rows = AvroRows(groups.schema, JsonFormat.ISO)
    schema = fastavro.parse_schema(json.loads(rows.schema))
    return [
        fastavro.schemaless_reader(io.BytesIO(column.get(index) or b""), schema)
        for batch in groups.batches(0)
        for column in [rows.write(batch, b"")]
        for index in range(len(column))
    ]


class _Keys(pe.KmsClient):  # type: ignore[misc]  # pyarrow has no types
    """Keeps keys by wrapping them in nothing but base64."""

    def wrap_key(self, key_bytes: bytes, _master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def encrypted(*, plaintext_footer: bool) -> bytes:
    """A file whose column `secret` is encrypted, in either mode of the footer."""
    table = pa.table({"open": [1, 2], "secret": ["a", "b"]})
    factory = pe.CryptoFactory(lambda _config: _Keys())
    how = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["secret"]}, plaintext_footer=plaintext_footer
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), how)
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_encryption_is_named(*, plaintext_footer: bool) -> None:
    """It is no damage, and another upload of the same helps nobody."""
    source = MemorySource(encrypted(plaintext_footer=plaintext_footer))

    with pytest.raises(InvalidObject, match="s3://bucket/key: this Parquet object is encrypted") as caught:
        decode_all(source, PARQUET)
    assert caught.value.reason == "unsupported"
    assert ("'secret'" in str(caught.value)) is plaintext_footer
    assert "pload it again" not in str(caught.value)


def test_an_encrypted_footer_is_named_when_splits_are_looked_for() -> None:
    """The planner asks before a task does."""
    with pytest.raises(InvalidObject, match="encrypted"):
        SPLITTERS[InputFormat.PARQUET](MemorySource(encrypted(plaintext_footer=False)), 4, options=PARQUET)


def test_lzo_is_named() -> None:
    """Arrow has no LZO, and would call it a damaged file."""

    def change(footer: Struct) -> None:
        footer[4][1][1][0][1][1][1][0][3][1][4] = (I32, 3)

    content = refooted(written(pa.table({"n": [1, 2]})), change)

    with pytest.raises(
        InvalidObject, match="column 'n' is compressed with LZO, which is not supported"
    ) as caught:
        decode_all(MemorySource(content), PARQUET)
    assert caught.value.reason == "unsupported"


def test_what_does_not_end_in_parquet_s_magic_is_said_to() -> None:
    """JSON Lines by mistake, for one."""
    decoded = decode_all(MemorySource(b'{"a":1}\n' * 20), PARQUET)

    assert decoded.error is not None
    assert "does not end in PAR1" in str(decoded.error)


def test_a_dictionary_of_arrow_s_own_is_text() -> None:
    """Categories of pandas: Arrow would gather all values of a row group in one dictionary."""
    table = pa.table({"c": pa.array(["x", None, "y", "x"]).dictionary_encode()})

    assert _values(written(table)) == [b'{"c":"x"}', b'{"c":null}', b'{"c":"y"}', b'{"c":"x"}']


@pytest.mark.parametrize("input_format", [InputFormat.PARQUET, InputFormat.AUTO])
@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (gzip.compress, r"compressed as a whole \(gzip\)"),
        (zstandard.compress, r"compressed as a whole \(zstd\)"),
        (lambda data: zipped([("a", data)]), "a zip archive"),
    ],
    ids=["gzip", "zstd", "zip"],
)
def test_parquet_that_is_compressed_as_a_whole_is_named(
    pack: Any, words: str, input_format: InputFormat
) -> None:
    """No attempt helps, so that it is no damage."""
    out = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(100))}), out)
    source = MemorySource(pack(out.getvalue()), name="s3://bucket/a.parquet.gz")
    with pytest.raises(InvalidObject, match=words) as refused:
        decode_all(source, decode_options(input_format))
    assert refused.value.reason == "unsupported"
