"""Names that show the schema of values: a null has none, whatever it was fetched with."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow.parquet as pq
import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import EarlierGroups as ArchivedBefore
from headrace.model.sink_protocol import PartitionGrant
from spark.sink.grouping_options import OWN_NULLS, can_group_by, grouping_options
from spark.sink.partition_work import PartitionWork
from tests.headrace.formats.encoding.registry import datum, framed_as, registry
from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import TAIL, tools_after
from tests.support.sink_archives import Written, kafka_records, sink_settings, written

_TYPE: Final = "org.apache.kafka.connect.transforms."
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_REGISTRY: Final = registry()
_MASK: Final = {
    "transforms": "m",
    "transforms.m.type": _TYPE + "InsertField$Value",
    "transforms.m.partition.field": "p",
}
_JSON: Final = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "output.format": "parquet"}
_APART: Final = {
    "file.name.template": "{{topic}}/{{schema_name}}/{{topic}}+{{partition}}+{{start_offset}}{{extension}}",
    "sidecars": "keys",
    "sidecars.tombstones.directory": "gone",
}
_IN_COLUMNS: Final = {"output.format": "parquet"}
_BY_SCHEMA: Final = {"file.name.template": "{{schema_name}}/" + TAIL}


def _framed_values() -> tuple[bytes, ...]:
    """Values of two schemas, a null of a union, and a number and a text, which have no schema's name."""

    def schema(name: str) -> Any:
        return {"type": "record", "name": name, "fields": [{"name": name.lower(), "type": "int"}]}

    def value(schema: Any, content: Any, subject: str) -> bytes:
        return framed_as(_REGISTRY, "AVRO", json.dumps(schema), datum(schema, content), subject)

    return (
        value(schema("Ordered"), {"ordered": 1}, "t-Ordered"),
        value(schema("Paid"), {"paid": 1}, "t-Paid"),
        value(["null", schema("Ordered")], None, "t-union"),
        value("int", 7, "t-int"),
        value("string", "seven", "t-string"),
    )


_A, _B, _OF_A_UNION, _NUMBER, _TEXT = _framed_values()


@pytest.fixture(autouse=True)
def _registered() -> None:
    """Their schemas are in the registry, which is forgotten after eight others."""
    assert _framed_values() == (_A, _B, _OF_A_UNION, _NUMBER, _TEXT)


def _configured(changes: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "file.compression.type": "none",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": _REGISTRY.urls[0],
        **_BY_SCHEMA,
        **changes,
    }


def _records(values: Sequence[bytes | None]) -> list[Record]:
    return [Record("t", 0, offset, 1_800_000_000_000, b"k", value, ()) for offset, value in enumerate(values)]


def _written(changes: Mapping[str, str], values: Sequence[bytes | None], cuts: Any) -> Written:
    return written(_configured(changes), _records(values), stops=True, batch=cuts)


@pytest.mark.parametrize("changes", [{}, _MASK, {"file.name.values": "plain"}])
@pytest.mark.parametrize("cuts", [1, 1000, [1, 2], [2, 1]])
def test_a_null_has_no_schema_whatever_is_fetched_with_it(changes: Mapping[str, str], cuts: Any) -> None:
    """A replay fetches otherwise: of another group, it would be passed over or archived again."""
    found = _written({"output.format": "jsonl", **changes}, [None, _A, None, _B, None, _A], cuts)
    null = "null" if "file.name.values" in changes else _NULL
    rows = {key: len(each.body.splitlines()) for key, each in found.objects.items()}
    assert rows == {f"{null}/t/0/0.jsonl": 3, "Ordered/t/0/1.jsonl": 2, "Paid/t/0/3.jsonl": 1}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("compatibility", ["none", "backward", "forward", "full"])
@pytest.mark.parametrize("changes", [{}, _MASK, {"rotate.together": "first"}])
def test_nulls_of_several_schemas_are_in_one_object(
    form: str, compatibility: str, changes: Mapping[str, str]
) -> None:
    """Of their neighbours' schemas each would close it, or be refused."""
    own = {"output.format": form, "schema.compatibility": compatibility, "errors.tolerance": "all"}
    found = _written({**own, **changes}, [_A, None, _B, None, _A, None, _B, None], [2])
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert (found.dead_letters, found.stops) == ((), {})
    assert rows == {f"{_NULL}/t/0/1": 4, "Ordered/t/0/0": 2, "Paid/t/0/2": 2}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("compatibility", ["none", "backward", "forward", "full"])
@pytest.mark.parametrize("together", ["none", "first"])
@pytest.mark.parametrize("cuts", [1000, [2, 1, 3]])
def test_nulls_close_no_object_of_values_without_a_name(
    form: str, compatibility: str, together: str, cuts: Any
) -> None:
    """They are of one group, whatever schemas the nulls were fetched with."""
    changes = {"output.format": form, "schema.compatibility": compatibility, "rotate.together": together}
    found = _written(changes, [_NUMBER, _A, None, _NUMBER, None, _B, None, None, _NUMBER], cuts)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert rows == {f"{_NULL}/t/0/0": 7, "Ordered/t/0/1": 1, "Paid/t/0/5": 1}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("compatibility", ["none", "backward", "forward", "full"])
@pytest.mark.parametrize("together", ["none", "first"])
@pytest.mark.parametrize("cuts", [1, 1000, [2, 1]])
def test_a_null_closes_no_object_for_a_value_of_another_group(
    form: str, compatibility: str, together: str, cuts: Any
) -> None:
    """It has the schema of what was read before it, which has no name either, in another partition too."""
    own = {"output.format": form, "schema.compatibility": compatibility, "rotate.together": together}
    changes = {**own, "file.name.template": "{{key}}/{{schema_name}}/" + TAIL, "errors.tolerance": "all"}
    given = [(b"a", _NUMBER), (b"b", _TEXT), (b"a", None), (b"a", _NUMBER), (b"b", None), (b"b", _TEXT)]
    records = [
        Record("t", 0, offset, 1_800_000_000_000, key, value, ()) for offset, (key, value) in enumerate(given)
    ]
    found = written(_configured(changes), records, stops=True, batch=cuts)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert (found.dead_letters, found.stops) == ((), {})
    assert rows == {f"a/{_NULL}/t/0/0": 3, f"b/{_NULL}/t/0/1": 3}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("compatibility", ["backward", "forward", "full"])
@pytest.mark.parametrize("together", ["none", "first"])
@pytest.mark.parametrize("cuts", [1, 1000, [1, 3], [2, 1]])
def test_a_null_is_taken_after_a_value_that_is_refused(
    form: str, compatibility: str, together: str, cuts: Any
) -> None:
    """It has the schema of the value before it, and is no record that its object refuses."""
    own = {"output.format": form, "schema.compatibility": compatibility, "rotate.together": together}
    begun, refused = (_NUMBER, _TEXT) if compatibility == "forward" else (_TEXT, _NUMBER)
    found = _written({**own, "errors.tolerance": "all"}, [begun, refused, None, begun], cuts)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert (rows, found.stops) == ({f"{_NULL}/t/0/0": 3}, {})


@pytest.mark.parametrize("compatibility", ["backward", "forward", "full"])
@pytest.mark.parametrize("together", ["none", "first"])
@pytest.mark.parametrize("cuts", [1, 1000, [1, 4], [2, 1], [3, 1]])
def test_a_null_is_taken_before_a_value_that_is_refused(compatibility: str, together: str, cuts: Any) -> None:
    """It was fetched with it, and has its schema, which the open object does not take."""
    own = {"output.format": "avro", "schema.compatibility": compatibility, "rotate.together": together}
    begun, refused = (_NUMBER, _TEXT) if compatibility == "forward" else (_TEXT, _NUMBER)
    values = [begun, None, refused, None, begun]
    found = _written({**own, "errors.tolerance": "all"}, values, cuts)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert (rows, found.stops) == ({f"{_NULL}/t/0/0": 4}, {})


@pytest.mark.parametrize("compatibility", ["backward", "forward", "full"])
@pytest.mark.parametrize("together", ["none", "first"])
@pytest.mark.parametrize("cuts", [1, 1000, [1, 2], [2, 1]])
def test_nulls_that_an_object_begins_with_refuse_no_value(
    compatibility: str, together: str, cuts: Any
) -> None:
    """They have the schema of a value of another group, where that was fetched with them."""
    own = {"output.format": "avro", "schema.compatibility": compatibility, "rotate.together": together}
    changes = {**own, "file.name.template": "{{key}}/{{schema_name}}/" + TAIL}
    other, value = (_NUMBER, _TEXT) if compatibility == "forward" else (_TEXT, _NUMBER)
    given = [(b"a", None), (b"b", other), (b"a", value)]
    records = [
        Record("t", 0, offset, 1_800_000_000_000, key, value, ()) for offset, (key, value) in enumerate(given)
    ]
    found = written(_configured(changes), records, stops=True, batch=cuts)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert (found.dead_letters, found.stops) == ((), {})
    assert rows == {f"a/{_NULL}/t/0/0": 1, f"a/{_NULL}/t/0/2": 1, f"b/{_NULL}/t/0/1": 1}


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_a_null_begins_an_object_with_the_schema_of_the_first(form: str) -> None:
    """The next value without a name closes it, and takes those that follow into its own."""
    found = _written({"output.format": form}, [_A, None, _B, None, _NUMBER, None, _NUMBER], 1000)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert rows == {f"{_NULL}/t/0/1": 2, f"{_NULL}/t/0/4": 3, "Ordered/t/0/0": 1, "Paid/t/0/2": 1}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("nulls", ["write", "ignore", "fail"])
@pytest.mark.parametrize("cuts", [1, 1000, [2, 1]])
def test_a_null_of_a_union_has_no_schema_either(form: str, nulls: str, cuts: Any) -> None:
    """It is no tombstone, and is written whatever becomes of those."""
    own = {"output.format": form, "behavior.on.null.values": nulls}
    found = _written(own, [_A, _OF_A_UNION, _B, _OF_A_UNION, _A], cuts)
    rows = {key.rpartition(".")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert rows == {f"{_NULL}/t/0/1": 2, "Ordered/t/0/0": 2, "Paid/t/0/2": 1}


def _rows(body: bytes) -> int:
    if body.startswith(b"PAR1"):
        return len(pq.read_table(io.BytesIO(body)))
    return len(list(fastavro.reader(io.BytesIO(body))))


def test_what_was_open_at_an_upgrade_is_grouped_as_it_was() -> None:
    """A null was with the value before it: what covers that value covers the null, and no more."""
    archived, groups = _after_an_upgrade({"output.format": "jsonl"}, [_B, None, _A, None], ("Paid", 1))
    assert archived == [0, 1]
    assert groups == ["Paid", _NULL, "Ordered", _NULL]


@pytest.mark.parametrize("nulls", ["write", "ignore", "fail"])
@pytest.mark.parametrize(
    ("values", "done", "archived"),
    [
        ([_B, _A, _OF_A_UNION, _A], ("Ordered", 3), [1, 2, 3]),
        ([_A, _OF_A_UNION, _A, _NUMBER], (_NULL, 3), [3]),
    ],
)
def test_a_null_of_a_union_was_with_its_schema(
    nulls: str, values: list[bytes], done: tuple[str, int], archived: list[int]
) -> None:
    """Taken for one of its new group, it would be archived again, or passed over."""
    found, _ = _after_an_upgrade({**_IN_COLUMNS, "behavior.on.null.values": nulls}, values, done)
    assert found == archived


def _after_an_upgrade(
    changes: Mapping[str, str], values: Sequence[bytes | None], done: tuple[str, int]
) -> tuple[list[int], list[str]]:
    """The offsets that were archived by a group of the earlier version, and the groups that are now."""
    settings = sink_settings(_configured(changes))
    assert settings.sink is not None
    own = grouping_options(settings.sink)
    options = {name: text for name, text in own.items() if name != OWN_NULLS}
    assert options != own, "else all that was archived is taken for that of these groups"
    before = GroupingOptions(hash="before", options=options)
    tools = tools_after(before, settings)
    earlier = ArchivedBefore(options="before", done=(done,))
    grant = PartitionGrant(
        topic="t", partition=0, topic_id="id", offset=0, highest=len(values) - 1, earlier=(earlier,)
    )
    records = kafka_records(_records(values))
    runs = sink_records(settings.sink).convert(records).runs

    archived = PartitionWork(grant, tools)._archived_by_earlier_options(records, runs)

    assert can_group_by(before, settings.sink)
    assert archived is not None
    return np.sort(archived).tolist(), [one.group for run in runs for one in tools.shapes.split(run).parts]


@pytest.mark.parametrize(
    ("changes", "is_noted"),
    [
        ({}, True),
        ({"value.converter": "io.confluent.connect.json.JsonSchemaConverter"}, True),
        ({"value.converter": "io.confluent.connect.protobuf.ProtobufConverter"}, True),
        ({"file.name.values": "plain"}, True),
        (_JSON, False),
        (_JSON | _MASK, True),
        ({"file.name.template": TAIL}, False),
        ({"behavior.on.null.values": "ignore"}, True),
        ({"behavior.on.null.values": "fail"}, True),
        (_APART, False),
        ({"file.name.template": "{{value:a}}/" + TAIL}, False),
    ],
)
def test_only_names_that_show_schemas_are_noted(changes: Mapping[str, str], *, is_noted: bool) -> None:
    """All others keep the hash that they had."""
    sink = sink_settings(_configured(changes)).sink
    assert sink is not None
    assert (OWN_NULLS in grouping_options(sink)) is is_noted
