"""Rows that may be envelopes or values: the shape of members tells, and no type of theirs is raised."""

import io
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.errors import InvalidObject
from tests.restore.one_object import decoded, values_of

_STEM: Final = "t/0/000000000001_0_2."
_AIVEN: Final = "t-0-0.avro"
_OWN: Final = "t/0/00000000000000000000.headrace."
_MAP: Final = {"type": "map", "values": "string"}


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _avro(schema: Any, *rows: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), list(rows))
    return out.getvalue()


def _parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def _value(kind: Any, metadata: Any) -> bytes:
    """An Avro object of one value with a member called metadata."""
    schema = _record("Value", _field("value", "double"), _field("metadata", kind))
    return _avro(schema, {"value": 21.5, "metadata": metadata})


# Values with members that are called like those of the envelope.
_VALUES: Final = {
    "key and metadata": ("json", b'{"key":"page-1","metadata":{"author":"ann"}}\n'),
    "value and metadata": ("json", b'{"value":21.5,"metadata":{"unit":"C"}}\n'),
    "metadata alone": ("json", b'{"metadata":{"unit":"C"}}\n'),
    "metadata of a text": ("json", b'{"value":1,"metadata":"topic partition offset"}\n'),
    "metadata of a list": ("json", b'{"value":1,"metadata":["topic","partition","offset"]}\n'),
    "half the metadata": ("json", b'{"value":1,"metadata":{"topic":"t","partition":0}}\n'),
    "null metadata": ("json", b'{"value":1,"metadata":null}\n'),
    "a record": ("avro", _value(_record("Sub", _field("unit", "string")), {"unit": "C"})),
    "a record or null": ("avro", _value(["null", _record("Sub", _field("unit", "string"))], None)),
    "a map": ("avro", _value(_MAP, {"topic": "t", "partition": "0", "offset": "0"})),
    "a text": ("avro", _value("string", "C")),
    "a time of text": ("avro", _value(_record("Sub", _field("timestamp", "string")), {"timestamp": "x"})),
    "a partition of text": (
        "avro",
        _value(_record("Sub", _field("partition", "string")), {"partition": "eu"}),
    ),
    "a column of text": ("parquet", _parquet(value=[21.5], metadata=["C"])),
    "a column of structs": ("parquet", _parquet(value=[21.5], metadata=[{"unit": "C"}])),
}


@pytest.mark.parametrize(("extension", "content"), _VALUES.values(), ids=_VALUES.keys())
@pytest.mark.parametrize("layout", ["lenses", "auto"])
def test_names_alone_make_no_envelope(layout: str, extension: str, content: bytes) -> None:
    """Lenses' metadata has topic, partition and offset; without these nothing is decided, until told."""
    given = {"input.layout": layout}
    with pytest.raises(InvalidObject, match=r"Set store\.envelope to true or false") as raised:
        decoded(given, _STEM + extension, content)
    assert raised.value.reason == "envelope_undecided"

    (value,) = values_of(decoded({**given, "store.envelope": "false"}, _STEM + extension, content))
    assert value is not None
    assert value.startswith(b"{")
    assert b'"metadata":' in value


_METADATA: Final = _record(
    "Metadata",
    _field("timestamp", "long"),
    _field("topic", "string"),
    _field("partition", "int"),
    _field("offset", "long"),
)
_PLACE: Final = {"timestamp": 7, "topic": "t", "partition": 0, "offset": 1}
_ENVELOPES: Final = {
    "json": ("json", b'{"value":"v","metadata":{"topic":"t","partition":0,"offset":1,"timestamp":7}}\n'),
    "a mark": ("json", b'{"value":"dg==","valueIsArray":true}\n'),
    "avro": (
        "avro",
        _avro(
            _record("Row", _field("value", ["null", "string"]), _field("metadata", ["null", _METADATA])),
            {"value": "v", "metadata": _PLACE},
        ),
    ),
    "parquet": ("parquet", _parquet(value=["v"], metadata=[_PLACE])),
}


@pytest.mark.parametrize(("extension", "content"), _ENVELOPES.values(), ids=_ENVELOPES.keys())
@pytest.mark.parametrize("layout", ["lenses", "auto"])
def test_metadata_and_marks_tell(layout: str, extension: str, content: bytes) -> None:
    """As the sink writes them."""
    assert values_of(decoded({"input.layout": layout}, _STEM + extension, content)) == [b"v"]


_OTHER: Final[dict[str, Any]] = {
    "timestamp": "string",
    "topic": "long",
    "partition": "string",
    "offset": "double",
}
_BAD: Final[dict[str, Any]] = {"timestamp": "2024-01-01", "topic": 5, "partition": "eu", "offset": 1.5}


def _lenses(name: str) -> tuple[str, str, bytes]:
    """An envelope of Lenses whose metadata has a member of another type."""
    fields = [
        _field(each["name"], _OTHER[name]) if each["name"] == name else each for each in _METADATA["fields"]
    ]
    schema = _record("Row", _field("value", "double"), _field("metadata", _record("Metadata", *fields)))
    return "lenses", _STEM + "avro", _avro(schema, {"value": 1.0, "metadata": _PLACE | {name: _BAD[name]}})


def _aiven(kind: Any, timestamp: Any) -> tuple[str, str, bytes]:
    schema = _record("Value", _field("timestamp", kind), _field("value", "double"))
    return "aiven", _AIVEN, _avro(schema, {"timestamp": timestamp, "value": 21.5})


_HEADERS: Final = {
    "type": "array",
    "items": _record("Header", _field("key", "long"), _field("value", "string")),
}
_UNFIT: Final = {
    **{f"a {name} of another type": _lenses(name) for name in _OTHER},
    "metadata is a text": ("lenses", _STEM + "avro", _value("string", "C")),
    "metadata is a map": ("lenses", _STEM + "avro", _value(_MAP, {"topic": "t"})),
    "the row is a text": ("lenses", _STEM + "avro", _avro("string", "a")),
    "the row is null": ("lenses", _STEM + "avro", _avro(["null", "string"], None)),
    "a column of another type": ("lenses", _STEM + "parquet", _parquet(value=["v"], metadata=[5])),
    "a time of text": _aiven("string", "2024-01-01T00:00:00Z"),
    "a time of digits": _aiven("string", "5"),
    "a broken time": _aiven("double", 1.5),
    "a truth as time": _aiven("boolean", True),
    "a row of Aiven is a text": ("aiven", _AIVEN, _avro("string", "a")),
    "headers with numbers as names": (
        "aiven",
        _AIVEN,
        _avro(
            _record("Row", _field("value", "string"), _field("headers", _HEADERS)),
            {"value": "v", "headers": [{"key": 1, "value": "x"}]},
        ),
    ),
    "ours with a time of text": (
        "headrace",
        _OWN + "avro",
        _avro(
            _record("Row", _field("timestamp", "string"), _field("value", "string")),
            {"timestamp": "x", "value": "v"},
        ),
    ),
    "Aiven's with headers of a list of several types": (
        "aiven",
        "t-0-0.avro",
        _avro(
            _record(
                "Row",
                _field("value", "string"),
                _field("headers", {"type": "array", "items": ["bytes", "string"]}),
            ),
            {"value": "v", "headers": [b"x", "y"]},
        ),
    ),
    "Aiven's with headers of several types": (
        "aiven",
        "t-0-0.avro",
        _avro(
            _record("Row", _field("value", "string"), _field("headers", ["bytes", "string"])),
            {"value": "v", "headers": b"x"},
        ),
    ),
    "Aiven's with headers of several types without bytes": (
        "aiven",
        "t-0-0.avro",
        _avro(
            _record("Row", _field("value", "string"), _field("headers", ["string", "long"])),
            {"value": "v", "headers": "x"},
        ),
    ),
    "ours is a text": ("headrace", _OWN + "avro", _avro("string", "a")),
    "ours with a broken offset": ("headrace", _OWN + "parquet", _parquet(offset=[1.5], value=["v"])),
    "ours with an offset beyond 64 bits": (
        "headrace",
        _OWN + "parquet",
        _parquet(offset=pa.array([2**63], pa.uint64()), value=["v"]),
    ),
}


@pytest.mark.parametrize(("layout", "key", "content"), _UNFIT.values(), ids=_UNFIT.keys())
def test_members_of_other_types_are_faults_of_their_rows(layout: str, key: str, content: bytes) -> None:
    """Nothing else is raised, and no record is made of them."""
    batches = decoded({"input.layout": layout, "restore.envelope": "yes"}, key, content)

    assert values_of(batches) == []
    assert [bad.reason for batch in batches for bad in batch.bad] == ["not_an_envelope"]


def test_rows_without_the_member_are_records() -> None:
    """A null is of no type: only what is there and does not fit is a fault."""
    told = {"input.layout": "headrace", "restore.envelope": "yes"}
    content = _parquet(timestamp=[None, "x", None], value=["a", "b", "c"])
    batches = decoded(told, _OWN + "parquet", content)

    assert values_of(batches) == [b"a", b"c"]
    assert [bad.index for batch in batches for bad in batch.bad] == [1]
    whole = decoded(told, _OWN + "parquet", _parquet(offset=[3.0], value=["a"]))
    assert values_of(whole) == [b"a"]


_AIVENS_VALUE: Final = b'{"timestamp":"2026-01-31T12:00:00Z","value":21.5}'
_OWN_ROW: Final = b'{"topic":"t","partition":0,"offset":0,"timestamp":7,"key":"k","value":1}'
_OWN_VALUE: Final = b'{"timestamp":7,"value":21.5}'
# Without metadata, so that only its sink's option tells.
_LENSES_ROW: Final = b'{"key":"k","value":1}'
_ROWS: Final = {
    "aiven": ("t-0-0", _AIVENS_VALUE),
    "lenses": (_STEM + "json", _LENSES_ROW),
    "own": (_OWN + "jsonl", _OWN_ROW),
    "own value": (_OWN + "jsonl", _OWN_VALUE),
}
_TOLD_NO: Final = {"format.output.envelope": "false"}
_TOLD_YES: Final = {"store.envelope": "true"}


@pytest.mark.parametrize(
    ("told", "of", "expected"),
    [
        ({}, "aiven", b"21.5"),
        (_TOLD_NO, "aiven", _AIVENS_VALUE),
        (_TOLD_NO | _TOLD_YES, "aiven", _AIVENS_VALUE),
        (_TOLD_NO | {"restore.envelope": "yes"}, "aiven", _AIVENS_VALUE),
        ({"store.envelope": "false"}, "aiven", b"21.5"),
        ({}, "lenses", None),
        (_TOLD_NO, "lenses", None),
        (_TOLD_NO | _TOLD_YES, "lenses", b"1"),
        (_TOLD_NO | {"store.envelope": "false"}, "lenses", _LENSES_ROW),
        (_TOLD_YES | {"restore.envelope": "no"}, "lenses", b"1"),
        ({"format.output.envelope": "true"}, "lenses", None),
        (_TOLD_NO, "own", b"1"),
        ({"store.envelope": "false"}, "own", b"1"),
        (_TOLD_NO | _TOLD_YES, "own value", None),
        (_TOLD_YES | {"restore.envelope": "no"}, "own value", _OWN_VALUE),
        ({"restore.envelope": "yes"}, "own value", b"21.5"),
    ],
)
def test_what_one_sink_was_told_is_of_its_own_objects(
    told: dict[str, str], of: str, expected: bytes | None
) -> None:
    """With `input.layout=auto`; None: nothing is decided, and the object is quarantined."""
    key, row = _ROWS[of]
    given = {"input.layout": "auto", "input.format": "jsonl", **told}
    if expected is None:
        with pytest.raises(InvalidObject) as raised:
            decoded(given, key, row + b"\n")
        assert raised.value.reason == "envelope_undecided"
        return
    assert values_of(decoded(given, key, row + b"\n")) == [expected]
