"""Tombstones of a registry's topic that come before all values, in rows without an envelope, and a replay."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import EarlierGroups, PartitionGrant
from spark.sink.grouping_options import grouping_options
from spark.sink.partition_work import PartitionWork
from spark.sink.routed_tools import RoutedTools, SlotTools
from spark.sink.sink_work import sink_task_settings
from tests.headrace.formats.encoding.registry import datum, framed_as, registry
from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import TAIL
from tests.support.sink_archives import NOON_MS, DrivenTools, kafka_records, sink_settings

_REGISTRY: Final = registry()


def _configured(changes: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "output.envelope": "false",
        "output.fields": "value",
        "output.format": "avro",
        "errors.tolerance": "all",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": _REGISTRY.urls[0],
        "file.name.template": "{{key}}/{{schema_name}}/" + TAIL,
        **changes,
    }


def _records(keys: Sequence[bytes], nulls: int = 1) -> list[Record]:
    """The first ones are tombstones, the others are records of a schema."""
    schema = {"type": "record", "name": "Ordered", "fields": [{"name": "ordered", "type": "int"}]}
    value = framed_as(_REGISTRY, "AVRO", json.dumps(schema), datum(schema, {"ordered": 1}), "t-ordered")
    values = [*[None] * nulls, *[value] * (len(keys) - nulls)]
    return [
        Record("t", 0, offset, 1_800_000_000_000, key, each, ())
        for offset, (key, each) in enumerate(zip(keys, values, strict=True))
    ]


@contextmanager
def _read_again(
    folder: Path,
    changes: Mapping[str, str],
    done: int,
    *,
    is_earlier: bool = False,
    records: Sequence[Record] | None = None,
) -> Iterator[PartitionWork]:
    """What reads once more what it, fetched otherwise, has archived: of the group of the record `done`.

    With `is_earlier` by other options.
    """
    settings = sink_settings(_configured(changes))
    assert settings.sink is not None
    driven, those = DrivenTools(settings, folder), kafka_records(records or _records([b"a", b"b", b"b"]))
    try:
        before = GroupingOptions(hash="before", options=grouping_options(settings.sink))
        tools = _tools_after(before, driven, settings) if is_earlier else driven.tools.for_topic("t")
        # Alone, as they were fetched then.
        alone = [sink_records(settings.sink).convert(those.take(slice(row, row + 1))) for row in range(3)]
        group = [tools.shapes.split(run).parts[0].group for one in alone for run in one.runs][done]
        archived: Any = (
            {"earlier": (EarlierGroups(options="before", done=((group, 2),)),)}
            if is_earlier
            else {"done": ((group, 2),)}
        )
        grant = PartitionGrant(topic="t", partition=0, topic_id="id", offset=0, highest=2, **archived)
        work = PartitionWork(grant, tools)
        work.add(those, NOON_MS)
        yield work
    finally:
        driven.close()


def _tools_after(before: GroupingOptions, driven: DrivenTools, settings: Any) -> SlotTools:
    return RoutedTools(
        (before,),
        settings=sink_task_settings(settings, settings.sink),
        uploads=driven.uploads,
        dead_letters=driven.tools.for_topic("t").dead_letters,
        recurring=driven.recurring,
    ).for_topic("t")


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_one_that_an_object_has_is_passed_over(form: str, tolerance: str, tmp_path: Path) -> None:
    """The values that are fetched with it now would refuse it."""
    with _read_again(tmp_path, {"output.format": form, "errors.tolerance": tolerance}, 0) as work:
        found = work.transaction(NOON_MS)
        assert work.stop is None
        assert [one.first_offset for one in work.objects.uncommitted()] == [1]
        assert found is not None
        assert (found.bad, found.checkpoint.offset) == ((), 1)


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_one_that_no_object_has_is_a_bad_record(form: str, tmp_path: Path) -> None:
    """What is archived above it is of another group."""
    with _read_again(tmp_path, {"output.format": form}, 1) as work:
        found = work.transaction(NOON_MS)
        assert work.stop is None
        assert list(work.objects.uncommitted()) == []
        assert found is not None
        assert found.bad == ("null_value",)
    with _read_again(tmp_path, {"output.format": form, "errors.tolerance": "none"}, 1) as work:
        assert work.stop is not None
        assert (work.stop.offset, work.stop.reason) == (0, "null_value")


def test_several_of_one_key_are_bad_records_of_names_of_keys_alone(tmp_path: Path) -> None:
    """Where an object has the last record of its key, the ones before are of the same group."""
    records = _records([b"a", b"a", b"b"], nulls=2)
    with _read_again(tmp_path, {"file.name.template": "{{key}}"}, 2, records=records) as work:
        found = work.transaction(NOON_MS)
        assert work.stop is None
        assert found is not None
        assert (found.bad, found.checkpoint.offset) == (("null_value", "null_value"), 3)


def test_one_whose_group_is_not_known_stops_its_partition(tmp_path: Path) -> None:
    """By options that are no longer in force nobody has grouped it."""
    with _read_again(tmp_path, {}, 0, is_earlier=True) as work:
        assert work.stop is not None
        assert (work.stop.offset, work.stop.reason) == (0, "replay_changed")


def test_one_that_fails_by_an_option_stops_its_partition(tmp_path: Path) -> None:
    """Whatever it is fetched with: the option was another one when what lies above it was archived."""
    with _read_again(tmp_path, {"behavior.on.null.values": "fail"}, 0) as work:
        assert work.stop is not None
        assert (work.stop.offset, work.stop.reason) == (0, "replay_changed")
