"""Objects of a partition that close together: where, by what, and that no order of fetching changes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.model.columns import NO_TIME
from headrace.model.sink_protocol import PartitionGrant
from headrace.options.sink_settings import RotationSettings
from spark.sink.partition_work import PartitionWork
from spark.sink.rotation import (
    BatchCut,
    BatchFacts,
    BatchRotation,
    OpenBatch,
    OpenFacts,
    RotateReason,
    Rotation,
    WaitingRows,
)
from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import JSON, TAIL, names_of, records_of, sink_of
from tests.support.examples import examples
from tests.support.sink_archives import NOON_MS, DrivenTools, kafka_records, written
from tests.support.until import until_sync

_OFF = {"rotate_bytes": "0", "rotate_age_ms": "0", "open_object_max_age_ms": "0"}


def _settings(**options: str) -> RotationSettings:
    return sink_of(**{**_OFF, "rotate_bytes": "1000000000", **options}).rotation


def _waiting(rows: Mapping[str, Mapping[int, int]]) -> list[WaitingRows]:
    """Rows of groups, by their offsets, with times."""
    found = []
    for group, times in rows.items():
        offsets = list(times)
        part = records_of([b"1"] * (max(offsets) + 1)).take(np.array(offsets, np.int64))
        found.append(WaitingRows(group, part, np.array(list(times.values()), np.int64)))
    return found


def _facts(records: Mapping[str, int], *, first: int = 0, last_group: str = "a") -> BatchFacts:
    opened = {
        group: OpenFacts(records=count, bytes=0, opened_ms=0, first_timestamp_ms=first)
        for group, count in records.items()
    }
    batch = OpenBatch(first_offset=0, first_time_ms=first, last_group=last_group)
    return BatchFacts(open=opened, batch=batch if records else OpenBatch())


_AB = {"a": {2: 0, 5: 0}, "b": {3: 0, 4: 0}}
_TOTAL = {"rotate_together": "total"}
_FIRST = {"rotate_together": "first"}


@pytest.mark.parametrize(
    ("options", "open_records", "rows", "cut"),
    [
        pytest.param({**_TOTAL, "rotate_records": "5"}, {}, _AB, None, id="total, room"),
        pytest.param(
            {**_TOTAL, "rotate_records": "3"}, {}, _AB, BatchCut(5, RotateReason.RECORDS), id="total, full"
        ),
        pytest.param(
            {**_TOTAL, "rotate_records": "3"},
            {"a": 1, "c": 1},
            _AB,
            BatchCut(3, RotateReason.RECORDS),
            id="total, others open",
        ),
        pytest.param({**_FIRST, "rotate_records": "3"}, {"c": 2}, _AB, None, id="each, room"),
        pytest.param(
            {**_FIRST, "rotate_records": "2"},
            {},
            _AB,
            BatchCut(5, RotateReason.RECORDS),
            id="the first that is full",
        ),
        pytest.param(
            {**_TOTAL, "rotate_span_ms": "10"},
            {},
            {"a": {2: 100, 5: 105}, "b": {3: 90, 4: 110}},
            BatchCut(4, RotateReason.SPAN),
            id="total, span from the first of all",
        ),
        pytest.param(
            {**_FIRST, "rotate_span_ms": "10"},
            {},
            {"a": {2: 100, 5: 109}, "b": {3: 90, 4: 100}},
            BatchCut(4, RotateReason.SPAN),
            id="span of one group",
        ),
        pytest.param(
            {**_TOTAL, "rotate_span_ms": "10"},
            {"a": 1},
            {"a": {2: NO_TIME, 5: 10}},
            BatchCut(5, RotateReason.SPAN),
            id="a record without a time",
        ),
        pytest.param(
            {**_TOTAL, "rotate_span_ms": "10"},
            {},
            {"a": {2: -1, 5: 9}},
            BatchCut(5, RotateReason.SPAN),
            id="total, span from before 1970",
        ),
        pytest.param(
            {**_FIRST, "rotate_span_ms": "10"},
            {},
            {"a": {2: -5000, 5: -4991}, "b": {3: -90, 4: -80}},
            BatchCut(4, RotateReason.SPAN),
            id="span of one group, before 1970",
        ),
        pytest.param(
            {**_FIRST, "rotate_on_group_change": "true"},
            {},
            _AB,
            BatchCut(3, RotateReason.GROUP),
            id="another group",
        ),
        pytest.param(
            {**_FIRST, "rotate_on_group_change": "true"},
            {"b": 1},
            {"a": {2: 0}},
            BatchCut(2, RotateReason.GROUP),
            id="another group than the open one",
        ),
        pytest.param(
            {**_FIRST, "rotate_on_group_change": "true"}, {}, {"a": {2: 0}}, None, id="the first group of all"
        ),
    ],
)
def test_where_all_that_is_open_closes(
    options: Mapping[str, str],
    open_records: Mapping[str, int],
    rows: Mapping[str, Mapping[int, int]],
    cut: BatchCut | None,
) -> None:
    """In the order of offsets, at whichever comes first."""
    facts = _facts(open_records, last_group=next(iter(open_records), ""))

    assert BatchRotation(_settings(**options)).cut(_waiting(rows), facts, ()) == cut


def test_a_schema_closes_at_its_first_record() -> None:
    """Unless something else does before."""
    rotation = BatchRotation(_settings(**_TOTAL, rotate_records="3"))

    assert rotation.cut(_waiting(_AB), _facts({"a": 1}), (3,)) == BatchCut(3, RotateReason.SCHEMA)
    assert rotation.cut(_waiting(_AB), _facts({"a": 2}), (4,)) == BatchCut(3, RotateReason.RECORDS)


def _record(offset: int, group: str, time_ms: int = NO_TIME) -> Record:
    value = json.dumps({"g": group}).encode()
    return Record("t", 0, offset, max(0, time_ms), None, value, ())


_CONFIG = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "topics": "t",
    "file.compression.type": "none",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "rotate.bytes": "0",
    "rotate.age.ms": "0",
    "open.object.max.age.ms": "0",
    "rotate.on.stop": "false",
    "file.name.values": "plain",
    "file.name.template": "{{value:g}}/{{topic}}/{{partition}}/{{batch_offset}}.jsonl",
}


@settings(max_examples=examples(60), deadline=None)
@given(
    groups=st.lists(st.sampled_from("abc"), min_size=1, max_size=30),
    full=st.integers(1, 7),
    together=st.sampled_from(["first", "total"]),
    changes=st.booleans(),
    fetched=st.integers(1, 31),
)
@example(groups=[*"ab", *"c" * 15, *"a" * 9], full=7, together="first", changes=True, fetched=2)
@example(groups=[*"ab" * 5, *"c" * 15, *"ab" * 3], full=5, together="first", changes=False, fetched=3)
def test_objects_are_the_same_however_records_are_fetched(
    groups: list[str], full: int, together: str, *, changes: bool, fetched: int
) -> None:
    """Each record is in one object, batches lie one behind the other, and what is left is the tail."""
    config = {
        **_CONFIG,
        "rotate.together": together,
        "rotate.records": str(full),
        "rotate.on.group.change": str(changes).lower(),
    }
    records = [_record(offset, group) for offset, group in enumerate(groups)]

    found = written(config, records, batch=fetched)
    whole = written(config, records, batch=1000)

    assert {key: each.body for key, each in found.objects.items()} == {
        key: each.body for key, each in whole.objects.items()
    }
    offsets: dict[int, list[int]] = {}
    for key, each in found.objects.items():
        rows = [json.loads(line)["offset"] for line in each.body.splitlines()]
        offsets.setdefault(int(key.rpartition("/")[2].removesuffix(".jsonl")), []).extend(rows)
        assert len(rows) <= full
    (committed,) = found.committed.values()
    assert sorted(chain.from_iterable(offsets.values())) == list(range(committed))
    assert all(
        min(rows) == batch and sorted(rows) == list(range(batch, max(rows) + 1))
        for batch, rows in offsets.items()
    )
    if together == "total":
        assert all(len(rows) <= full for rows in offsets.values())


def test_age_counts_from_the_last_close() -> None:
    """A record that comes after a long silence is not held for as long again."""
    rotation = Rotation(_settings(rotate_age_ms="1000"), names_of(TAIL))
    opened = OpenFacts(records=1, bytes=0, opened_ms=5000, first_timestamp_ms=0)

    assert rotation.next_due_ms(opened) == 6000
    assert rotation.next_due_ms(replace(opened, age_from_ms=4500)) == 5500
    assert rotation.due(replace(opened, age_from_ms=10), 5000) is RotateReason.AGE


@pytest.mark.parametrize("together", ["none", "first", "total"])
def test_what_lies_below_a_refused_record_is_written_in_all_groups(together: str) -> None:
    """The partition stands at the record, and nothing before it is passed over."""
    config = {
        **_CONFIG,
        "rotate.together": together,
        "rotate.on.stop": "true",
        "rotate.records": "100",
        "output.format": "parquet",
        "output.fields": "value",
        "output.envelope": "false",
        "file.name.template": "{{value:g}}/{{topic}}/{{partition}}/{{start_offset}}.parquet",
    }
    values = [
        b'{"g":"a","x":1}',
        b'{"g":"b","x":1}',
        b'{"g":"b","x":2}',
        b'{"g":"a","x":[1,"y"]}',
        b'{"g":"b","x":1}',
    ]
    records = [Record("t", 0, offset, 0, None, value, ()) for offset, value in enumerate(values)]

    found = written(config, records, stops=True)

    assert {stop.offset for stop in found.stops.values()} == {3}
    assert set(found.committed.values()) == {3}
    assert {key.split("/")[0] for key in found.objects} == {"a", "b"}


class _CountedCuts(BatchRotation):
    """Counts the rows that it looks at."""

    def __init__(self, rotation: RotationSettings) -> None:
        super().__init__(rotation)
        self.rows = 0

    def cut(
        self, waiting: Sequence[WaitingRows], facts: BatchFacts, schema_breaks: Sequence[int]
    ) -> BatchCut | None:
        self.rows += sum(len(rows.converted) for rows in waiting)
        return super().cut(waiting, facts, schema_breaks)


@pytest.mark.parametrize("together", ["none", "first", "total"])
def test_a_close_costs_what_closes_and_gives_a_sign_of_life(together: str, tmp_path: Path) -> None:
    """However many groups wait: times out of order are thousands of objects in a fetch."""
    config = {**_CONFIG, "rotate.together": together, "rotate.span.ms": "1", "output.format": "parquet"}
    config["file.name.template"] = config["file.name.template"].replace("batch_offset", "start_offset")
    records = [_record(offset, f"g{offset % 40}", NOON_MS + offset // 40 + offset) for offset in range(400)]
    made = DrivenTools(config, tmp_path)
    try:
        tools = made.tools.for_topic("t")
        beats: list[int] = []
        batches = _CountedCuts(tools.settings.sink.rotation)
        tools = replace(tools, batches=batches, beat=lambda: beats.append(len(work.objects.closed)))
        work = PartitionWork(PartitionGrant(topic="t", partition=0, topic_id="id", offset=0), tools)

        work.add(kafka_records(records), NOON_MS)

        assert work.objects.open_count + len(work.objects.closed) == len(records)
        assert set(beats) >= set(range(0, 360, 40))
        assert batches.rows < 12 * len(records)
    finally:
        made.close()


def _has_committed(work: PartitionWork) -> bool:
    if (found := work.transaction(NOON_MS)) is not None:
        work.committed(found)
    return not work.objects.closed


def test_what_closes_for_room_waits_for_nothing_that_stays_open(tmp_path: Path) -> None:
    """Where the clock decides groups: a stop that leaves open objects unwritten waits for all closed ones."""
    transform = "transforms.clock"
    config = {
        **_CONFIG,
        "rotate.records": "100",
        "file.name.template": "{{value:g}}/{{topic}}/{{partition}}/{{start_offset}}.jsonl",
        "transforms": "clock",
        f"{transform}.type": "io.lenses.connect.smt.header.InsertWallclock",
        f"{transform}.header.name": "clock",
        f"{transform}.value.type": "epoch",
    }
    made = DrivenTools(config, tmp_path)
    try:
        work = PartitionWork(
            PartitionGrant(topic="t", partition=0, topic_id="id", offset=0), made.tools.for_topic("t")
        )
        records = [_record(offset, group) for offset, group in enumerate("abac")]
        work.add(kafka_records(records), NOON_MS)
        work.objects.close_due(NOON_MS)

        work.objects.close_oldest()
        work.objects.close_all()

        assert {one.first_offset for one in work.objects.closed} == {0, 1}
        until_sync(lambda: _has_committed(work), what="all closed objects committed")
        assert work.objects.open_count == 1
    finally:
        made.close()


@pytest.mark.parametrize(
    ("source", "expected"), [("event", [NO_TIME, 7]), ("value:at", [-5, NO_TIME]), ("wallclock", [3, 3])]
)
def test_the_times_of_a_span_are_those_of_names(source: str, expected: list[int]) -> None:
    """Kafka's -1 is no time of a record, and an ordinary one of a field."""
    rotation = BatchRotation(sink_of(rotate_span_ms="10").rotation)
    names = names_of("{{date:yyyy}}/" + TAIL, file_name_timestamp_source=source)
    records = records_of([b'{"at":-5}', b'{"at":"soon"}'], times=[-1, 7], options=JSON)
    assert rotation.times(records, names, 3).tolist() == expected
