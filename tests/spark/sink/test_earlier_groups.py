"""What 1.0.0 archived is known by the groups that 1.0.0 gave it: read and named as it did then."""

import json
from collections.abc import Mapping

import numpy as np
import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import EarlierGroups as ArchivedBefore
from headrace.model.sink_protocol import PartitionGrant
from headrace.options.sink_settings import NameValues, SinkSettings
from spark.sink.grouping_options import (
    CONNECT_ENVELOPES,
    CUT_TIMES,
    DIGIT_TIMES,
    EARLY_TIMES,
    FILLED_DEFAULTS,
    WHOLE_PATHS,
    can_group_by,
    grouping_hash,
    grouping_options,
)
from spark.sink.partition_work import PartitionWork
from spark.sink.routed_tools import EarlierGroups
from tests.spark.sink.grouped import JSON, TAIL, tools_after
from tests.support.sink_archives import sink_settings

_CONVERTER = {"value.converter": JSON["value.converter"]}
_BY_CITY = {"file.name.template": "{{value:kind}}/{{value:addr.city}}/" + TAIL}
_BY_KIND = {"file.name.template": "{{value:kind}}/" + TAIL, **_CONVERTER}
_BY_TIME = {
    "file.name.template": "{{date:yyyy-MM-dd}}/" + TAIL,
    "file.name.timestamp.source": "value:at",
    **JSON,
}
_OF_LENSES = {
    "file.name.values": "lenses",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    **JSON,
}
_ENVELOPES = {"value.converter.schemas.enable": "true", "output.format": "parquet"}
_NULL = "__HIVE_DEFAULT_PARTITION__"
_FLAT = '{"kind":"a","addr.city":"rome"}'
_OWN_MEMBERS = '{"schema":"v2","payload":{"kind":"a"}}'


def _by(variable: str) -> dict[str, str]:
    """Names of Lenses' that show it."""
    return {"file.name.template": f"v={variable}/{TAIL}", **_OF_LENSES}


def _plain(text: str) -> str:
    """The group of these names that shows the text."""
    return f"\x1fv={text}/" + "\x1f/" * 2 + "\x1f\x1f"


_OCTETS = json.dumps(
    {
        "schema": {"type": "struct", "fields": [{"field": "d", "type": "bytes"}]},
        "payload": {"d": "ZXUtMQ=="},
    }
)


def _defaulted(value: str, *, shape: str = "string", default: object = "eu", optional: bool = True) -> str:
    """An envelope whose one field `f` has a default."""
    field = {"field": "f", "type": shape, "optional": optional, "default": default}
    if shape == "int64":
        field |= {"name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
    schema = {"type": "struct", "fields": [field]}
    return f'{{"schema":{json.dumps(schema)},"payload":{{"f":{value}}}}}'


_BY_FIELD = {"file.name.template": "{{value:f}}/" + TAIL, **_CONVERTER, **_ENVELOPES}
_BY_KEY = {
    "file.name.template": "{{key}}/" + TAIL,
    **_CONVERTER,
    **_ENVELOPES,
    "transforms": "k,f",
    "transforms.k.type": "org.apache.kafka.connect.transforms.ValueToKey",
    "transforms.k.fields": "f",
    "transforms.f.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
    "transforms.f.field": "f",
}


_BY_NUMBER = {**_BY_KEY, **JSON, "output.format": "jsonl"}
_ROUTED = {
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "x-$1",
}


def _configured(changes: Mapping[str, str]) -> dict[str, str]:
    return {"aws.s3.bucket.name": "bucket", "topics": "t", **changes}


def _sink(changes: Mapping[str, str]) -> SinkSettings:
    found = sink_settings(_configured(changes)).sink
    assert found is not None
    return found


def _before(sink: SinkSettings) -> GroupingOptions:
    """What the ledger has of this sink as 1.0.0 ran it."""
    readings = {WHOLE_PATHS, CUT_TIMES, DIGIT_TIMES, EARLY_TIMES, CONNECT_ENVELOPES, FILLED_DEFAULTS}
    unknown = {*readings, "file.name.numbers", "value.form"}
    options = {name: text for name, text in grouping_options(sink).items() if name not in unknown}
    options.pop("transforms", None)
    if sink.transforms:
        options["transforms"] = sink.transforms.text
    if sink.names.values is NameValues.LENSES:
        options["file.name.values"] = "plain"
    return GroupingOptions(hash="before", options=options)


def _fetched(*values: str, header: bytes = b"007") -> KafkaRecords:
    return KafkaRecords(
        topic="t",
        partition=3,
        offsets=np.arange(len(values), dtype=np.int64),
        timestamps_ms=np.zeros(len(values), np.int64),
        timestamp_types=np.full(len(values), TIMESTAMP_CREATED, np.int64),
        keys=column_of([None] * len(values)),
        values=column_of([value.encode() for value in values]),
        headers=[(("h", header),)] * len(values),
    )


def _groups(groups: EarlierGroups, sink: SinkSettings, records: KafkaRecords) -> list[str]:
    reader = groups.converter or sink_records(sink)
    return [one.group for run in reader.convert(records).runs for one in groups.shapes.split(run).parts]


@pytest.mark.parametrize(
    ("changes", "value", "then", "now"),
    [
        pytest.param(_BY_CITY | JSON, _FLAT, f"a|{_NULL}", "a|rome", id="flattened"),
        pytest.param(_BY_CITY, _FLAT, f"a|{_NULL}", "a|rome", id="flattened bytes"),
        pytest.param(
            _BY_CITY | JSON | {"output.format": "parquet"}, _FLAT, f"a|{_NULL}", "a|rome", id="columns"
        ),
        pytest.param(_BY_CITY | JSON, '{"kind":"a","addr":{"city":"rome"}}', "a|rome", "a|rome", id="nested"),
        pytest.param(_BY_KIND, _OWN_MEMBERS, "a", _NULL, id="members called schema and payload"),
        pytest.param(_BY_KIND, '{"schema":"v2","payload":null}', _NULL, _NULL, id="no payload"),
        pytest.param(_BY_KIND, '{"schema":null,"payload":{"kind":"a"}}', "a", "a", id="envelope"),
        pytest.param(
            _BY_TIME, '{"at":"2024-12-31T23:59:59.9999Z"}', "2025-01-01", "2024-12-31", id="rounded"
        ),
        pytest.param(_BY_TIME, '{"at":"2024-12-31T23:59:59.9994Z"}', "2024-12-31", "2024-12-31", id="cut"),
        pytest.param(_BY_TIME, '{"at":1735689599999}', "2024-12-31", "2024-12-31", id="whole number"),
        pytest.param(_BY_TIME, '{"at":"2024-12-31"}', "2024-12-31", "2024-12-31", id="day"),
        pytest.param(_by("{{header:h}}"), "{}", _plain("007"), _plain("7"), id="header"),
        pytest.param(_by("{{value:l.0}}"), '{"l":["b"]}', _plain("null"), _plain("b"), id="element"),
        pytest.param(
            _by("{{value:d}}") | _ENVELOPES, _OCTETS, _plain("ZXUtMQ=="), _plain("eu-1"), id="bytes"
        ),
        pytest.param(_BY_FIELD, _defaulted("null"), _NULL, "eu", id="default of a null"),
        pytest.param(_BY_FIELD, _defaulted('"us"'), "us", "us", id="default of a value"),
        pytest.param(_BY_FIELD, _defaulted("null", optional=False), "eu", "eu", id="default of a required"),
        pytest.param(
            _BY_FIELD | {"output.format": "csv", "output.envelope": "false", "output.fields": "value"},
            _defaulted("null"),
            _NULL,
            "eu",
            id="default in csv",
        ),
        pytest.param(
            _BY_FIELD | {"output.format": "jsonl"}, _defaulted("null"), _NULL, _NULL, id="default in text"
        ),
        pytest.param(_BY_KEY, _defaulted("null"), _NULL, "eu", id="default that becomes the key"),
        pytest.param(
            _BY_NUMBER, '{"f":0.1000000000000000055}', "0.1", "0.1000000000000000055", id="number as the key"
        ),
    ],
)
def test_records_of_1_0_0_are_grouped_as_it_grouped_them(
    changes: Mapping[str, str], value: str, then: str, now: str
) -> None:
    """Under another group they would be archived again, or hide others that were not."""
    sink = _sink(changes)
    before = _before(sink)
    tools = tools_after(before, sink_settings(_configured(changes)))
    records = _fetched(value)

    assert can_group_by(before, sink)
    assert _groups(tools.earlier["before"], sink, records) == [then]
    assert _groups(EarlierGroups(shapes=tools.shapes, converter=None), sink, records) == [now]


@pytest.mark.parametrize(
    ("changes", "is_read"),
    [
        ({}, True),
        (_CONVERTER, True),
        (_BY_KIND | {"file.name.template": TAIL}, True),
        ({"file.name.template": "{{key}}/" + TAIL}, True),
        ({"file.name.template": "{{date:yyyy-MM-dd}}/" + TAIL}, True),
        (_BY_KIND | JSON | {"file.name.values": "plain"}, True),
        (_BY_KIND | JSON, False),
        (_BY_KIND | {"file.name.values": "plain"}, False),
        (_BY_CITY, False),
        (_BY_TIME, False),
        (_BY_FIELD, False),
        (_BY_KEY, False),
        (_BY_NUMBER, False),
        (_BY_NUMBER | {"file.name.values": "plain"}, True),
        (_ROUTED | {"file.name.template": "{{key}}/" + TAIL}, True),
        (_CONVERTER | {"route.a.topics": "t", "route.a.aws.s3.prefix": "a/"}, True),
        (_CONVERTER | {"route.a.topics": "t", "route.a.file.name.template": "{{value:f}}/" + TAIL}, False),
    ],
)
def test_1_0_0_stops_where_it_would_group_otherwise(changes: Mapping[str, str], *, is_read: bool) -> None:
    """Partitions that have objects open, with a sentence, by comparing what reads records as here."""
    sink = _sink(changes)
    noted, own = grouping_options(sink), _before(sink).options
    readers = [*(name for name in own if name.endswith(".converter")), "transforms"]
    assert all(noted.get(name) == own.get(name) for name in readers) is is_read


@pytest.mark.parametrize("changes", [_BY_FIELD, _BY_KEY])
def test_what_1_0_0_stops_at_changes_nothing_here(changes: Mapping[str, str]) -> None:
    """Neither after it nor after builds that did not note it."""
    sink = _sink(changes)
    own = grouping_options(sink)
    text = {"transforms": sink.transforms.text} if sink.transforms else {}
    built = {name: noted for name, noted in own.items() if name != "transforms"} | text

    assert own != built
    assert can_group_by(GroupingOptions(hash="built", options=built), sink)
    assert can_group_by(GroupingOptions(hash="own", options=own), sink)
    other = _sink({**{name: text for name, text in changes.items() if "transforms" not in name}, **_ROUTED})
    assert not can_group_by(GroupingOptions(hash="own", options=own), other)
    assert not can_group_by(GroupingOptions(hash="built", options=built), other)


def test_a_form_that_is_noted_says_that_nulls_were_defaults() -> None:
    """Builds before the first that notes defaults had them in columns already."""
    sink = _sink(_BY_FIELD)
    options = {name: text for name, text in grouping_options(sink).items() if name != FILLED_DEFAULTS}
    tools = tools_after(GroupingOptions(hash="built", options=options), sink_settings(_configured(_BY_FIELD)))
    assert _groups(tools.earlier["built"], sink, _fetched(_defaulted("null"))) == ["eu"]


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({}, '{"at":1735689599999.7}'),
        ({}, '{"at":1e12}'),
        ({}, '{"at":-1}'),
        ({}, '{"at":"1965-02-26T00:00:00Z"}'),
        (
            _ENVELOPES | {"file.name.timestamp.source": "value:f"},
            _defaulted("null", shape="int64", default=0),
        ),
    ],
)
def test_times_that_1_0_0_refused_are_in_no_group_of_its(changes: Mapping[str, str], value: str) -> None:
    """They have dead letters, or stopped it."""
    changes = {**_BY_TIME, **changes}
    tools = tools_after(_before(_sink(changes)), sink_settings(_configured(changes)))
    assert _groups(tools.earlier["before"], _sink(changes), _fetched(value)) == []


@pytest.mark.parametrize(
    ("text", "then", "now"),
    [
        ("1735689599999", [], ["2024-12-31"]),
        ("0", [], []),
        ("1735689599", [], []),
        ("20241231235959", [], []),
        ("20241231", ["2024-12-31"], ["2024-12-31"]),
        ("2024-12-31", ["2024-12-31"], ["2024-12-31"]),
        ("99999999999999999999", [], []),
        ("9999999999999999999", [], []),
        ("-1", [], []),
        ("\u0661", [], []),
    ],
)
def test_texts_of_digits_are_milliseconds(text: str, then: list[str], now: list[str]) -> None:
    """Of thirteen, as in Confluent's sink; what a build of before began ends as it was."""
    sink, records = _sink(_BY_TIME), _fetched(json.dumps({"at": text}))
    noted = {name: told for name, told in grouping_options(sink).items() if name != DIGIT_TIMES}
    tools = tools_after(GroupingOptions(hash="before", options=noted), sink_settings(_configured(_BY_TIME)))

    assert _groups(tools.earlier["before"], sink, records) == then
    assert _groups(EarlierGroups(shapes=tools.shapes, converter=None), sink, records) == now


@pytest.mark.parametrize("at", ["-1", '"1965-02-26"', '"1969-12-31T23:59:59.999Z"', "-1.5"])
def test_times_before_1970_were_none(at: str) -> None:
    """A year of two digits was then that of 2065 alone."""
    sink, records = _sink(_BY_TIME), _fetched(f'{{"at":{at}}}', '{"at":0}')
    noted = {name: told for name, told in grouping_options(sink).items() if name != EARLY_TIMES}
    tools = tools_after(GroupingOptions(hash="before", options=noted), sink_settings(_configured(_BY_TIME)))

    assert _groups(tools.earlier["before"], sink, records) == ["1970-01-01"]
    now = _groups(EarlierGroups(shapes=tools.shapes, converter=None), sink, records)
    assert now == ["1965-02-26" if "1965" in at else "1969-12-31", "1970-01-01"]


def test_columns_of_a_schema_that_is_none_were_of_no_group() -> None:
    """1.0.0 could not make columns of such a payload."""
    changes = _BY_KIND | {"output.format": "parquet"}
    tools = tools_after(_before(_sink(changes)), sink_settings(_configured(changes)))
    assert _groups(tools.earlier["before"], _sink(changes), _fetched(_OWN_MEMBERS)) == []


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({}, set()),
        (_BY_CITY, {WHOLE_PATHS}),
        ({"file.name.template": "{{value:`addr.city`}}/" + TAIL}, set()),
        ({"file.name.template": "{{key:addr.city}}/" + TAIL}, {WHOLE_PATHS}),
        (_BY_TIME, {CUT_TIMES}),
        (_BY_TIME | {"file.name.timestamp.source": "value:a.at"}, {CUT_TIMES, WHOLE_PATHS}),
        (_BY_TIME | {"file.name.template": TAIL}, set()),
        (_BY_KIND, {CONNECT_ENVELOPES}),
        (_BY_KIND | JSON, set()),
        (_BY_KIND | {"output.format": "parquet"}, {CONNECT_ENVELOPES, FILLED_DEFAULTS}),
        (_BY_KIND | JSON | {"output.format": "parquet"}, set()),
        (_BY_FIELD, {FILLED_DEFAULTS}),
        (_BY_FIELD | {"output.format": "jsonl"}, set()),
        (_BY_FIELD | {"file.name.template": TAIL}, set()),
        (_BY_KEY, {FILLED_DEFAULTS}),
        (_BY_KIND | {"file.name.template": TAIL}, set()),
    ],
)
def test_only_what_1_0_0_read_otherwise_is_noted(changes: Mapping[str, str], noted: set[str]) -> None:
    """All others keep the hash that 1.0.0 gave them."""
    markers = {WHOLE_PATHS, CUT_TIMES, CONNECT_ENVELOPES, FILLED_DEFAULTS}
    assert grouping_options(_sink(changes)).keys() & markers == noted


@pytest.mark.parametrize(
    ("changes", "pinned"),
    [
        ({}, "de64e8bc35b1e5c8"),
        (_CONVERTER, "08806fa9c79f8cda"),
        (
            {"file.name.template": "{{header:region}}/{{topic}}/{{partition}}/{{start_offset}}"},
            "88bdad486c5ad839",
        ),
        (
            {
                "file.name.template": "{{value:region}}/{{topic}}/{{partition}}/{{start_offset}}",
                "file.name.values": "plain",
            },
            "2456a847215faf09",
        ),
        (
            {"file.name.template": "{{date:yyyy-MM-dd}}/{{topic}}/{{partition}}/{{start_offset}}", **JSON},
            "3fe1ce8c11f35336",
        ),
    ],
)
def test_hashes_are_those_of_1_0_0(changes: Mapping[str, str], pinned: str) -> None:
    """As 1.0.0 itself gave them."""
    assert grouping_hash(_sink(changes)) == pinned


@pytest.mark.parametrize(
    ("changes", "values", "done"),
    [
        pytest.param(_BY_CITY | JSON, [_FLAT, '{"kind":"a","addr":{"city":"rome"}}'], "a|rome", id="paths"),
        pytest.param(_BY_KIND, [_OWN_MEMBERS, '{"other":1}'], _NULL, id="envelopes"),
        pytest.param(
            _BY_TIME,
            ['{"at":"2024-12-31T23:59:59.9999Z"}', '{"at":"2024-12-31T22:30:00Z"}'],
            "2024-12-31",
            id="times",
        ),
        pytest.param(_by("{{value:l.0}}"), ['{"l":["b"]}', '{"l":{"0":"b"}}'], _plain("b"), id="elements"),
        pytest.param(_BY_FIELD, [_defaulted("null"), _defaulted('"eu"')], "eu", id="defaults"),
    ],
)
def test_what_was_open_is_read_again_and_what_was_complete_is_not(
    changes: Mapping[str, str], values: list[str], done: str
) -> None:
    """The first record was in an object that was open at the kill; by the groups of now it would be lost."""
    sink = _sink(changes)
    tools = tools_after(_before(sink), sink_settings(_configured(changes)))
    earlier = ArchivedBefore(options="before", done=((done, 1),))
    grant = PartitionGrant(topic="t", partition=3, topic_id="id", offset=0, highest=1, earlier=(earlier,))
    work = PartitionWork(grant, tools)
    records = _fetched(*values)

    archived = work._archived_by_earlier_options(records, sink_records(sink).convert(records).runs)

    assert archived is not None
    assert archived.tolist() == [1]
