"""Values that begin with a one by chance, which looks as if they named a schema by its UUID."""

import json
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Final
from unittest.mock import Mock
from uuid import UUID

import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converters.framed_converter import FramedConverter
from headrace.formats.converters.framing import ConfluentFraming
from headrace.formats.converters.registry_schemas import (
    ConfluentStore,
    GlueStore,
    NoSchema,
    RegistrySchemas,
    SchemaKind,
    SchemaText,
)
from headrace.formats.converters.typed_columns import RowFaults, RowsUnread
from headrace.model.columns import column_of
from headrace.model.errors import SourceUnavailable
from headrace.options.choices import JsonFormat
from headrace.options.schema_settings import GlueSettings, RegistrySettings
from headrace.options.secret import Secret
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import Answers, avro, http_registry

_GUID: Final = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
_BY_GUID: Final = f"/schemas/guids/{_GUID}"
_TYPES: Final = "/schemas/types"
_STRING: Final = (200, {"schema": '"string"'})
_NO_PATH: Final = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})
_NO_ROUTE: Final = (404, b"<html>Not Found</html>")
_NONE: Final = (404, {"error_code": 40403, "message": "Schema not found"})
# More than are asked for in a row: a hundred where a registry answers at once, and two hundred where it takes
# 25 ms, as on a machine that has much to do: time that passes is spared for questions again.
_JUNK: Final = 400


def _guids(count: int) -> list[UUID]:
    return [UUID(int=number) for number in range(count)]


def _reasons(store: ConfluentStore, ids: Sequence[UUID]) -> list[str]:
    found = [store.schema(each) for each in ids]
    return [each.message for each in found if isinstance(each, NoSchema) and each.reason == "schema_unknown"]


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        pytest.param({_TYPES: (200, ["AVRO", "JSON"])}, [_TYPES], id="that tells its types"),
        pytest.param(
            {_TYPES: _NO_PATH, "/schemas/ids/1": _NONE}, [_TYPES, "/schemas/ids/1"], id="that is older"
        ),
        pytest.param(
            {_TYPES: (403, {"error_code": 40301, "message": "no"}), "/schemas/ids/1": _STRING},
            [_TYPES, "/schemas/ids/1"],
            id="that forbids them",
        ),
    ],
)
@pytest.mark.parametrize("missing", [_NO_PATH, (404, {"code": 404, "message": "Not found"}), _NO_ROUTE])
def test_a_registry_without_uuids_has_no_such_schema(
    answers: Answers, asked: list[str], missing: tuple[int, Any]
) -> None:
    """Waited for, one such record would stop its partition for good. It is asked once."""
    with http_registry({**answers, _BY_GUID: missing}) as (one, questions):
        store = ConfluentStore(one, SchemaKind.AVRO)
        messages = _reasons(store, [_GUID, *_guids(3)])

    assert len(messages) == 4
    assert all("has no UUIDs" in each for each in messages)
    assert str(_GUID) in messages[0]
    assert questions == [_BY_GUID, *asked]


@pytest.mark.parametrize("types", [_NO_ROUTE, _NO_PATH])
@pytest.mark.parametrize("ids", [_NO_ROUTE, _NO_PATH, (200, {"page": "login"})])
def test_what_has_no_way_to_the_registry_says_nothing_of_schemas(
    types: tuple[int, Any], ids: tuple[int, Any]
) -> None:
    """A proxy without a route: the record may be good, and is waited for."""
    with http_registry({_BY_GUID: _NO_ROUTE, _TYPES: types, "/schemas/ids/1": ids}) as (one, _):
        store = ConfluentStore(one, SchemaKind.AVRO)
        for _ in range(2):
            with pytest.raises(SourceUnavailable):
                store.schema(_GUID)


def test_a_registry_that_had_a_schema_is_asked_for_that_one() -> None:
    """From itself: what the client has is no word of now."""
    answers: dict[str, tuple[int, Any]] = {_BY_GUID: _NO_PATH, _TYPES: _NO_PATH, "/schemas/ids/7": _STRING}
    with http_registry(answers) as (one, asked):
        store = ConfluentStore(one, SchemaKind.AVRO)
        assert isinstance(store.schema(7), SchemaText)
        answers["/schemas/ids/7"] = _NO_ROUTE
        with pytest.raises(SourceUnavailable):
            store.schema(_GUID)
        answers["/schemas/ids/7"] = _STRING
        assert len(_reasons(store, [_GUID])) == 1

    assert asked.count("/schemas/ids/7") == 3


def test_such_a_record_is_a_bad_one() -> None:
    """Those around it are archived."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}
    good, junk = b"\0\0\0\0\x01\x02", b"\x01this is no record of the registry"
    guid = UUID(bytes=junk[1:17])
    answers: Answers = {
        "/schemas/ids/1": (200, {"schema": json.dumps(schema)}),
        f"/schemas/guids/{guid}": _NO_PATH,
        _TYPES: (200, ["AVRO"]),
    }
    with http_registry(answers) as (one, _):
        found = _parquet(one).convert(fetched([good, junk, good]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(1, "schema_unknown")]
    assert sum(len(run.value.arrow()) for run in found.runs) == 2


def _at(times: list[float]) -> Callable[[], float]:
    return lambda: times[0]


def test_a_registry_is_asked_for_some_unknown_ids_at_a_time() -> None:
    """Values that begin with a one have each their own; a good one among them waits, and is not judged."""
    now = [0.0]
    guids = _guids(350)
    answers: dict[str, tuple[int, Any]] = {_BY_GUID: _STRING}
    with http_registry(answers) as (one, asked):
        store = ConfluentStore(one, SchemaKind.AVRO, _at(now))
        assert isinstance(store.schema(_GUID), SchemaText)
        messages = _reasons(store, guids[:150])
        assert (len(messages), len(asked)) == (100, 101)
        assert "has no schema with the id" in messages[99]
        answers[f"/schemas/guids/{guids[300]}"] = _STRING
        assert store.schema(guids[300]) is None
        assert store.schema(7) is None
        now[0] = 1.0
        assert isinstance(store.schema(guids[300]), SchemaText)
        assert len(_reasons(store, guids[100:150])) == 20
        assert len(asked) == 122


def test_a_registry_that_is_far_away_is_asked_for_few_seconds_in_a_row() -> None:
    """A slot that is silent for long is given up, and its next task would come no further."""
    asked: list[str] = []
    settings = GlueSettings(region="eu-west-1", endpoint=None, login=Secret("{}"))
    store = GlueStore(settings, SchemaKind.AVRO, lambda _: asked.append, clock=lambda: 0.4 * len(asked))
    in_a_row = sum(1 for _ in takewhile(lambda found: found is not None, map(store.schema, _guids(100))))

    assert 5 <= in_a_row <= 20
    assert len(asked) == in_a_row


def _parquet(registry: RegistrySettings) -> RecordConverter:
    return RecordConverter(converters(avro(registry)), output(OutputFormat.PARQUET))


def test_rows_before_one_that_is_not_asked_for_can_be_read() -> None:
    """Of the same conversion: what the registry has said of them is remembered."""
    junk = [b"\x01" + each.bytes + b"x" for each in _guids(_JUNK)]
    with http_registry({}) as (one, asked):
        converter = _parquet(one)
        with pytest.raises(RowsUnread, match=r"value\.converter") as raised:
            converter.convert(fetched(junk))
        row = raised.value.row
        found = converter.convert(fetched(junk[:row]))

    assert 5 <= row < _JUNK
    assert len(found.faults) == row == len(asked)


def test_nulls_are_no_question() -> None:
    """A partition of tombstones waited for the turn of junk of another one of its topic."""
    junk = [b"\x01" + each.bytes + b"x" for each in _guids(_JUNK)]
    with http_registry({}) as (one, asked):
        converter = _parquet(one)
        with pytest.raises(RowsUnread):
            converter.convert(fetched(junk))
        so_far = len(asked)
        found = converter.convert(fetched([None] * 3))

    assert (len(asked), found.faults) == (so_far, ())
    assert [len(run) for run in found.runs] == [3]


def test_nulls_after_junk_are_no_question() -> None:
    """What was said of its id is forgotten some day, and the registry may be away then."""
    store, now, faults = _Store(), [0.0], RowFaults()
    schemas = RegistrySchemas(store, clock=lambda: now[0])
    converter = FramedConverter(ConfluentFraming(), schemas, Mock(), what="value", style=JsonFormat.ISO)
    (junk,) = _guids(1)
    assert not converter.convert(column_of([b"\x01" + junk.bytes + b"x"]), "orders", faults)
    now[0] = 3600.0
    assert converter.convert(column_of([None]), "orders", faults)
    assert store.asked == [junk]


def test_nulls_are_of_the_schema_that_was_read_before() -> None:
    """Not of one that was not asked for: their object would close, and the next one with them."""
    junk = [b"\x01" + each.bytes + b"x" for each in _guids(_JUNK)]
    with http_registry({"/schemas/ids/1": _STRING, _TYPES: (200, ["AVRO"])}) as (one, _):
        converter = _parquet(one)
        good = converter.convert(fetched([b"\0\0\0\0\1\2x"]))
        with pytest.raises(RowsUnread):
            converter.convert(fetched(junk))
        nulls = converter.convert(fetched([None]))

    assert nulls.runs[0].value.schema == good.runs[0].value.schema


@pytest.mark.parametrize("kind", [ConverterKind.AVRO, ConverterKind.JSON_SCHEMA])
def test_texts_wait_as_columns_do(kind: ConverterKind) -> None:
    """JSON Schema's are not looked into, and are those of the registry all the same."""
    junk = [b"\x01" + each.bytes + b"{}" for each in _guids(_JUNK)]
    with http_registry({}) as (one, _):
        read_by = ConverterSettings(kind=kind, registry=one)
        converter = RecordConverter(converters(read_by), output(OutputFormat.JSONL))
        with pytest.raises(RowsUnread):
            converter.convert(fetched(junk))


def test_a_registry_that_was_replaced_is_asked_again() -> None:
    """After half a minute, by a newer one."""
    now = [0.0]
    answers: dict[str, tuple[int, Any]] = {_BY_GUID: _NO_PATH, _TYPES: (200, ["AVRO"])}
    with http_registry(answers) as (one, _):
        store = ConfluentStore(one, SchemaKind.AVRO, _at(now))
        assert len(_reasons(store, [_GUID])) == 1
        answers[_BY_GUID] = _STRING
        assert len(_reasons(store, [_GUID])) == 1
        now[0] = 31.0
        assert isinstance(store.schema(_GUID), SchemaText)


class _Store:
    """Has schemas of small ids only."""

    def __init__(self) -> None:
        self.asked: list[int | UUID] = []

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema | None:
        self.asked.append(id_)
        is_known = isinstance(id_, int) and id_ < 10
        return SchemaText('"string"') if is_known else NoSchema("schema_unknown", "none")


def test_ids_that_are_unknown_are_not_kept_for_ever() -> None:
    """A topic of other values would fill the memory with them."""
    store = _Store()
    schemas = RegistrySchemas(store)
    schemas.schema(1)
    for each in _guids(1500):
        schemas.schema(each)
    asked = len(store.asked)

    assert isinstance(schemas.schema(1), SchemaText)
    schemas.schema(_guids(1500)[-1])
    assert len(store.asked) == asked
    schemas.schema(_guids(1)[0])
    assert len(store.asked) == asked + 1


def test_keys_of_schemas_are_those_of_their_column() -> None:
    """Kept for longer they would never end."""
    framing = ConfluentFraming()
    for number in range(3):
        column = column_of([b"\x01" + UUID(int=number).bytes + b"x", b"\0\0\0\0\x05x"])
        frames = framing.frames(column, "value", RowFaults())
        assert [frames.keys.key(owner).id for owner in frames.owners.tolist()] == [UUID(int=number), 5]
        assert sorted(frames.owners.tolist()) == [0, 1]
