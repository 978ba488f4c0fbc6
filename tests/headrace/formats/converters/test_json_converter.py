"""JSON as Kafka Connect's converter knows it: with a schema, without one, and made into columns."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import MISSING, Conversion, InferredValues
from headrace.formats.converters.json_inference import settled, written
from headrace.formats.encoding import schema_of
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat, OutputSettings
from tests.headrace.formats.encoding.outputs import bare, converters, fetched, output

_PARQUET: Final = output(OutputFormat.PARQUET)


def _json(*, schemas: bool | None = False) -> ConverterSettings:
    return ConverterSettings(kind=ConverterKind.JSON, schemas_enable=schemas)


def _convert(values: list[Any], how: OutputSettings, *, schemas: bool | None = False) -> Conversion:
    texts = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    return RecordConverter(converters(_json(schemas=schemas)), how).convert(fetched(texts))


def _faults(found: Conversion) -> list[tuple[int, str]]:
    return [(fault.offset, fault.reason) for fault in found.faults]


def _values(found: Conversion) -> list[Any]:
    return [value for run in found.runs for value in run.value.arrow().to_pylist()]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (b'{"a": 1.50}', b'{"a": 1.50}'),
        (b'{"a":\n 1.50}', b'{"a":1.50}'),
        (b" 5 ", b"5"),
        (b"null", None),
        (b"\tnull\n", None),
        (None, None),
    ],
)
def test_texts_are_copied_and_null_is_null(text: bytes | None, written: bytes | None) -> None:
    """Only what would not fit in a line is made compact."""
    for values in ([text], [b"1", text, b"{}"]):
        (run,) = _convert(values, output()).runs
        column = run.value.texts()
        assert column.get(values.index(text)) == written


@pytest.mark.parametrize(
    "text", [b"", b" ", b"x", b"{", b"1 2", b"\xff", b'"\\ud800"', b"NaN", b"\xef\xbb\xbf1"]
)
def test_what_is_no_json_is_a_fault(text: bytes) -> None:
    """And its neighbours are written."""
    found = _convert([b"1", text, b"2"], output())

    assert _faults(found) == [(1, "not_json")]
    assert [run.records.offsets.tolist() for run in found.runs] == [[0, 2]]


SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int32"},
        {"field": "name", "type": "string", "optional": True},
        {"field": "kind", "type": "string", "default": "plain"},
        {"field": "octets", "type": "bytes", "optional": True},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
        {"field": "clock", "type": "int32", "name": "org.apache.kafka.connect.data.Time"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        {"field": "tags", "type": "array", "items": {"type": "string"}},
        {"field": "counts", "type": "map", "keys": {"type": "string"}, "values": {"type": "float"}},
    ],
}
PAYLOAD: Final = {
    "id": 7,
    "name": None,
    "kind": None,
    "octets": "AP8=",
    "price": "AMg=",
    "day": 19_782,
    "clock": 1_000,
    "at": 1_704_067_200_000,
    "tags": ["a"],
    "counts": {"x": 1},
}


def test_values_of_a_schema_are_typed() -> None:
    """Every kind of Connect's, its logical types included."""
    (value,) = _values(_convert([{"schema": SCHEMA, "payload": PAYLOAD}], _PARQUET, schemas=True))

    assert value == {
        "id": 7,
        "name": None,
        "kind": "plain",
        "octets": b"\x00\xff",
        "price": Decimal("2.00"),
        "day": date(2024, 2, 29),
        "clock": time(0, 0, 1),
        "at": datetime(2024, 1, 1, tzinfo=UTC),
        "tags": ["a"],
        "counts": [("x", 1.0)],
    }


def test_a_null_is_the_default_of_its_schema_where_that_has_one() -> None:
    """As JsonConverter reads it (`replace.null.with.default`), of an optional member too."""
    member = {"field": "a", "type": "string", "optional": True, "default": "x"}
    nested = {"field": "s", "type": "struct", "optional": True, "fields": [member]}
    schema = {"type": "struct", "fields": [member, nested]}
    payloads = [{"a": None, "s": {}}, {"s": None}, {"a": "", "s": {"a": "y"}}]

    found = _values(
        _convert([{"schema": schema, "payload": each} for each in payloads], _PARQUET, schemas=True)
    )

    assert found == [{"a": "x", "s": {"a": "x"}}, {"a": "x", "s": None}, {"a": "", "s": {"a": "y"}}]


@pytest.mark.parametrize(
    "payload",
    [
        {**PAYLOAD, "id": "7"},
        {**PAYLOAD, "id": None},
        {**PAYLOAD, "octets": "?"},
        {**PAYLOAD, "id": 2**40},
        5,
        [],
    ],
)
def test_a_payload_that_is_not_of_its_schema_is_a_fault(payload: Any) -> None:
    """Alone; the others of the same schema are written."""
    good = {"schema": SCHEMA, "payload": PAYLOAD}

    found = _convert([good, {"schema": SCHEMA, "payload": payload}, good], _PARQUET, schemas=True)

    assert _faults(found) == [(1, "schema_unfit")]
    assert [run.records.offsets.tolist() for run in found.runs] == [[0, 2]]


@pytest.mark.parametrize("schema", [{}, {"type": "x"}, {"type": "struct"}, 5])
def test_a_schema_that_is_none_is_a_fault(schema: Any) -> None:
    """With a sentence, not an exception."""
    assert _faults(_convert([{"schema": schema, "payload": 1}], _PARQUET, schemas=True)) == [
        (0, "schema_unfit")
    ]


@pytest.mark.parametrize("within", [False, True])
def test_a_default_beyond_a_double_is_a_fault(within: bool) -> None:
    """Where there are columns, which cannot have it; a text needs none, and is as it was."""
    field: dict[str, Any] = {"field": "a", "type": "double", "optional": True, "default": "@"}
    if within:
        inner = {"type": "struct", "fields": [{"field": "x", "type": "double"}]}
        field = {"field": "a", "optional": True, **inner, "default": {"x": "@"}}
    envelope = {"schema": {"type": "struct", "fields": [field]}, "payload": {"a": None}}
    text = json.dumps(envelope).replace('"@"', "1e400").encode()

    assert _faults(_convert([text], _PARQUET, schemas=True)) == [(0, "schema_unfit")]
    assert not _convert([text], output(OutputFormat.JSONL), schemas=True).faults


_ENVELOPE: Final = b'{"schema":{"type":"struct","fields":[]},"payload":{"id":1}}'


@pytest.mark.parametrize(
    ("schemas", "texts", "faults"),
    [
        (True, [b'{"id":1}', None, None, None], [(1, "no_schema"), (2, "no_schema")]),
        (False, [_ENVELOPE, b'{"id":1}', b"5", None], []),
        (None, [b'{"id":1}', b'{"id":1}', b"5", None], []),
    ],
)
def test_whether_values_have_schemas(schemas: bool | None, texts: list[Any], faults: list[Any]) -> None:
    """`schemas.enable` true, false, and absent: then each value's shape tells."""
    values = [_ENVELOPE, b'{"id":1}', b"5", None]

    found = _convert(values, output(), schemas=schemas)

    assert _faults(found) == faults
    written = [run.value.texts().get(row) for run in found.runs for row in range(len(run))]
    assert written == [text for row, text in enumerate(texts) if row not in dict(faults)]


_LIKE_ENVELOPES: Final = [
    b'{"schema":"orders.v2","payload":{"id":7}}',
    b'{"schema":{"$id":"order.json"},"payload":{"id":8}}',
    b'{"schema":2,"payload":"x"}',
    b'{"schema":"orders.v2","payload":null}',
    b'{"schema":{"type":"struct"},"payload":{"id":9}}',
]


@pytest.mark.parametrize("how", [output(), _PARQUET])
def test_members_called_schema_and_payload_are_no_envelope(how: OutputSettings) -> None:
    """Only a schema of Connect's, or null, makes one; a payload of null is no tombstone else."""
    envelopes = [
        b'{"schema":null,"payload":{"id":1}}',
        b'{"schema":{"type":"int32","optional":true},"payload":5}',
        b'{"schema":{"type":"int32","optional":true},"payload":null}',
    ]

    absent = _convert([*_LIKE_ENVELOPES, *envelopes], how, schemas=None)
    wanted = _convert([*_LIKE_ENVELOPES, *envelopes], how, schemas=True)

    assert _faults(wanted) == [(row, "schema_unfit") for row in range(len(_LIKE_ENVELOPES))]
    assert absent.faults == ()
    kept = {
        int(offset): run.value.texts().get(row)
        for run in absent.runs
        for row, offset in enumerate(run.records.offsets)
    }
    assert [kept[row] for row in sorted(kept)] == [*_LIKE_ENVELOPES, b'{"id":1}', b"5", None]


_LEAVES: Final = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=4)
_OBJECTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.text(max_size=4),
        "day": st.sampled_from(["2024-01-01", "2024-01-01T00:00:00Z"]),
        "c": st.fixed_dictionaries(
            {}, optional={"x": st.booleans(), "y": st.lists(st.none() | st.text(max_size=2))}
        ),
        "d": st.lists(
            st.fixed_dictionaries({}, optional={"z": st.floats(allow_nan=False, allow_infinity=False)})
        ),
    },
)


def _same(found: Any, value: Any) -> bool:
    """True where what was found is the value, with nulls for members that it does not have."""
    if isinstance(found, dict) and isinstance(value, dict):
        return value.keys() <= found.keys() and all(
            _same(each, value.get(name)) for name, each in found.items()
        )
    if isinstance(found, list) and isinstance(value, list):
        return len(found) == len(value) and all(map(_same, found, value))
    return bool(found == value)


@given(values=st.lists(_OBJECTS, min_size=1, max_size=6))
def test_columns_of_json_without_a_schema(values: list[Any]) -> None:
    """All members, nullable; texts that look like moments stay texts."""
    found = _convert([*values, None], _PARQUET)

    assert found.faults == ()
    assert len(found.runs) == 1
    assert all(_same(one, value) for one, value in zip(_values(found), [*values, None], strict=True))


@given(batches=st.lists(st.lists(_OBJECTS, min_size=1, max_size=3), min_size=2, max_size=4))
def test_what_was_found_before_changes_no_value(batches: list[list[Any]]) -> None:
    """A converter remembers what a topic had, to read it faster."""
    converter = RecordConverter(converters(_json()), _PARQUET)
    for batch in batches:
        (run,) = converter.convert(fetched([json.dumps(value).encode() for value in batch])).runs
        array = run.value.arrow()
        array.validate(full=True)
        assert all(_same(one, value) for one, value in zip(array.to_pylist(), batch, strict=True))


@given(values=st.lists(_LEAVES | st.lists(_LEAVES, max_size=3) | _OBJECTS, min_size=1, max_size=6))
def test_any_json_has_a_kind_or_is_a_fault(values: list[Any]) -> None:
    """Alone, each value is a column of its own kind; a list of different ones is a fault. Nothing else is."""
    found = _convert(values, _PARQUET)

    refused = {offset for offset, reason in _faults(found) if reason == "schema_conflict"}
    assert len(refused) == len(found.faults)
    singles = [run.slice(row, row + 1) for run in found.runs for row in range(len(run))]
    columns = {each.records.first_offset: each.value for each in singles}
    assert sorted([*columns, *refused]) == list(range(len(values)))
    for offset, column in columns.items():
        assert isinstance(column, InferredValues)
        (kind,) = column.kinds()
        assert _same(column.arrow_as(written(kind)).to_pylist()[0], values[offset])
    assert all(isinstance(values[offset], list) for offset in refused)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5], pa.float64()),
        ([1, 2**63], pa.float64()),
        ([None, True], pa.bool_()),
        (["2024-01-01", "2024-01-02"], pa.string()),
        ([[], [1]], pa.list_(pa.int64())),
        ([{"a": 1}, {"b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ],
)
def test_types_that_are_inferred(values: list[Any], kind: Any) -> None:
    """Integers are long, other numbers double."""
    (run,) = _convert(values, _PARQUET).runs

    assert run.value.arrow().type == kind


def test_a_number_beyond_a_double_is_a_fault() -> None:
    """It cannot be a column's."""
    assert _faults(_convert([b'{"a":1}', b'{"a":1e999}'], _PARQUET)) == [(1, "number_too_large")]


def test_a_name_twice_in_an_object() -> None:
    """The last one counts, as for most readers."""
    assert _values(_convert([b'{"a":1,"a":2}'], _PARQUET)) == [{"a": 2}]


def _column(*texts: bytes | None) -> InferredValues:
    (run,) = RecordConverter(converters(_json()), _PARQUET).convert(fetched(list(texts))).runs
    assert isinstance(run.value, InferredValues)
    return run.value


def test_which_values_come_into_an_object() -> None:
    """Narrower ones do; a wider one, and one of another type, begin another object."""
    kind = settled(_column(b'{"a":1,"b":{"c":"x"}}').kinds()[0])

    assert _column(b'{"a":3}', b'{"b":null}', None).fit(kind, 0).rows == 3
    for other in (b'{"d":true}', b'{"a":1.5}', b'{"b":{"e":1}}', b'{"b":{"c":[]}}'):
        assert _column(b'{"a":3}', other).fit(kind, 0).rows == 1


def test_the_first_values_widen_their_object() -> None:
    """So many of them as are asked for; integers that no double holds are never made doubles."""
    values = _column(b'{"a":1}', b'{"a":1.5}', b'{"b":1}', b'{"c":1}')
    assert values.fit(pa.null(), 3).rows == 3
    assert written(values.fit(pa.null(), 3).kind) == pa.struct([("a", pa.float64()), ("b", pa.int64())])
    large = _column(b'{"a":9007199254740993}', b'{"a":1}', b'{"a":1.5}')
    assert large.fit(pa.null(), 10).rows == 2
    assert _column(b'{"a":1.5}').fit(large.kinds()[0], 10).rows == 0


def test_fields_by_their_path() -> None:
    """Of JSON, and of bytes that are JSON; what is absent is told from null."""
    values = [b'{"a":{"b c":"x"},"n":null,"i":1}', b'{"a":5}', b"[]", None]
    for kind in (ConverterKind.JSON, ConverterKind.BYTES):
        (run,) = RecordConverter(converters(kind), output()).convert(fetched(values)).runs
        assert run.field("value", ["a", "b c"]) == ["x", MISSING, MISSING, MISSING]
        assert run.field("value", ["n"]) == [None, MISSING, MISSING, MISSING]
        assert run.field("value", ["i"]) == [1, MISSING, MISSING, MISSING]
    (run,) = RecordConverter(converters(), output()).convert(fetched([b"\xff", b"t", None])).runs
    assert run.field("value", ()) == [b"\xff", "t", None]


_DOTTED: Final = {
    "type": "struct",
    "fields": [
        {"field": "a.b", "type": "string", "optional": True},
        {
            "field": "a",
            "type": "struct",
            "optional": True,
            "fields": [
                {"field": "b", "type": "string", "optional": True},
                {"field": "c.d", "type": "string", "optional": True},
                {"field": "c", "type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
            ],
        },
    ],
}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (["a", "b"], "whole"),
        (["a.b"], "whole"),
        (["a", "c.d"], "part"),
        (["a", "c", "d"], "inner"),
        (["a", "x"], MISSING),
    ],
)
def test_a_field_of_the_whole_name_comes_before_a_path(path: list[str], wanted: object) -> None:
    """As `Flatten` names fields; of the value alone, and not of what is inside it."""
    values = [{"a.b": "whole", "a": {"b": "inside", "c.d": "part", "c": {"d": "inner"}}}]
    kinds = (
        _convert(values, output()),
        _convert([{"schema": _DOTTED, "payload": each} for each in values], output(), schemas=True),
        _convert([{"schema": _DOTTED, "payload": each} for each in values], _PARQUET, schemas=True),
    )
    for found in kinds:
        (run,) = found.runs
        assert run.field("value", path) == [wanted]


def test_a_path_is_one_where_no_field_has_the_whole_name() -> None:
    """Decided for each record where there is no schema."""
    values = [{"a": {"b": 1}}, {"a.b": 2}, {"a": {"b": 3}, "a.b": None}, {"a": 0, "a.b": 4}, {"a": 5}]
    (run,) = _convert(values, output()).runs

    assert run.field("value", ["a", "b"]) == [1, 2, None, 4, MISSING]


@pytest.mark.parametrize("name", ['size"', "a\\b", "a\tb", "\x1f"])
def test_a_field_may_have_a_name_that_json_escapes(name: str) -> None:
    """No structure has such a member; nothing but that differs."""
    values: list[Any] = [{name: 1}, {"a": {name: 0.10}}, {f"a.{name}": "whole"}, {"a": 1}, [name], None]
    (run,) = _convert(values, output()).runs

    assert run.field("value", [name]) == [1, MISSING, MISSING, MISSING, MISSING, MISSING]
    assert run.field("value", ["a", name]) == [MISSING, 0.1, "whole", MISSING, MISSING, MISSING]


def test_csv_of_json_without_an_envelope_has_columns() -> None:
    """The same inference."""
    (run,) = _convert([{"a": 1}], bare(OutputFormat.CSV)).runs

    assert schema_of(bare(OutputFormat.CSV), run).value is not None
