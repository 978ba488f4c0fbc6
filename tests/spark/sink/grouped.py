"""Names, groups and records for the tests of grouping: settings from options, records through converters."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import ConvertedRecords
from headrace.model.columns import TIMESTAMP_CREATED, Headers, KafkaRecords, column_of
from headrace.model.sink_entries import GroupingOptions
from headrace.options import Settings
from headrace.options.sink_settings import SinkSettings
from headrace.vendors.load import load
from spark.sink.grouping import Grouping
from spark.sink.object_keys import ObjectFacts, ObjectNames
from spark.sink.routed_tools import RoutedTools, SlotTools
from spark.sink.sink_work import sink_task_settings
from tests.support.sink_archives import DrivenTools

_COMPLETE: Mapping[str, str] = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics.regex": ".*",
}
TAIL = "{{topic}}/{{partition}}/{{start_offset}}{{extension}}"
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def sink_of(**options: str) -> SinkSettings:
    """Settings of a sink; `_` in names stands for a dot."""
    given = {**_COMPLETE, **{name.replace("_", "."): text for name, text in options.items()}}
    settings = load(json.dumps(given), kind="json", environment={"HOME": "/home/me"}, read_file=_no_file)
    assert settings.sink is not None
    return settings.sink


def names_of(template: str, **options: str) -> ObjectNames:
    """The names of a sink with this template."""
    return ObjectNames(sink_of(file_name_template=template, **options).names, ".jsonl")


def records_of(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
    times: Sequence[int] | None = None,
    first: int = 0,
    options: Mapping[str, str] | None = None,
) -> ConvertedRecords:
    """Records of topic t, partition 3, from offset `first` on, read as the options say."""
    count = len(values)
    sink = sink_of(**{name.replace(".", "_"): text for name, text in (options or {}).items()})
    records = KafkaRecords(
        topic="t",
        partition=3,
        offsets=np.arange(first, first + count, dtype=np.int64),
        timestamps_ms=np.array([0] * count if times is None else times, np.int64),
        timestamp_types=np.full(count, TIMESTAMP_CREATED, np.int64),
        keys=column_of([None] * count if keys is None else keys),
        values=column_of(values),
        headers=headers,
    )
    (run,) = RecordConverter(sink.converters, sink.output).convert(records).runs
    return run


def split_names(names: ObjectNames, records: ConvertedRecords) -> dict[str, list[int]]:
    """The rows in each object, by its key."""
    found = {}
    for group, rows in Grouping(names).split(records).parts:
        numbers = list(range(len(records))) if rows is None else rows.tolist()
        offset = int(records.records.offsets[numbers[0]])
        facts = ObjectFacts(
            topic=records.records.topic,
            partition=records.records.partition,
            group=group,
            first_offset=offset,
            opened_ms=0,
        )
        found[names.key(facts)] = numbers
    return found


def tools_after(before: GroupingOptions, settings: Settings) -> SlotTools:
    """What a topic's partitions work with where the ledger has groups of earlier options."""
    assert settings.sink is not None
    with TemporaryDirectory() as folder:
        driven = DrivenTools(settings, Path(folder))
        return RoutedTools(
            (before,),
            settings=sink_task_settings(settings, settings.sink),
            uploads=driven.uploads,
            dead_letters=driven.tools.for_topic("t").dead_letters,
            recurring=driven.recurring,
        ).for_topic("t")


def _no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)
