"""Records to groups, and groups to names: what of the data shows, what cannot, and when times are over."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import ColumnSchema
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms.header_topic_steps import text_header
from headrace.model.columns import NO_TIME
from headrace.model.sink_entries import GroupingOptions
from headrace.options.choices import JsonFormat
from headrace.options.sink_settings import OutputFormat
from spark.sink.grouping import Grouping, GroupRows, times_of_field
from spark.sink.grouping_options import grouping_options
from spark.sink.object_keys import NameTooLong, ObjectFacts
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import avro, framed, registry
from tests.spark.sink.grouped import JSON, TAIL, names_of, records_of, split_names, tools_after
from tests.support.sink_archives import sink_settings

_HOUR = 3_600_000
_NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC


def _facts(**changes: object) -> ObjectFacts:
    given: dict[str, object] = {"topic": "t", "partition": 3, "group": "", "first_offset": 42, "opened_ms": 0}
    return ObjectFacts(**(given | changes))  # type: ignore[arg-type]  # the fields by name


def test_the_default_name_is_that_of_the_layout() -> None:
    """Prefix, topic, partition, twenty digits."""
    names = names_of(
        "{{topic}}/{{partition}}/{{start_offset:padding=true}}.headrace{{extension}}", aws_s3_prefix="backup/"
    )

    assert names.key(_facts()) == "backup/t/3/00000000000000000042.headrace.jsonl"
    assert names.is_known_at_start
    assert not names.overwrites


def test_names_without_data_are_one_group_of_all_rows() -> None:
    """Nothing is copied and no row is looked at."""
    groups = Grouping(names_of(TAIL)).split(records_of([b"1"] * 3))

    assert groups.parts == (GroupRows("", None),)
    assert groups.faults == ()


def test_a_name_with_the_end_is_known_at_the_end() -> None:
    """The upload cannot begin before."""
    names = names_of("{{topic}}/{{partition:padding=true}}/{{start_offset}}-{{end_offset}}{{extension}}")

    assert not names.is_known_at_start
    assert names.key(_facts(last_offset=99)) == "t/0000000003/42-99.jsonl"


def test_a_topic_made_again_has_a_directory_of_its_own() -> None:
    """Its small offsets do not meet the objects of the topic that had the name before."""
    names = names_of(TAIL, aws_s3_prefix="p/")

    assert names.key(_facts()) == "p/t/3/42.jsonl"
    assert names.key(_facts(topic_id="s0meUuid")) == "p/topic_id=s0meUuid/t/3/42.jsonl"
    # One directory, whatever the id is.
    assert names.key(_facts(topic_id="a/b+c")) == "p/topic_id=a_b-c/t/3/42.jsonl"


def test_fields_group_by_their_text() -> None:
    """Null, absent, empty, the text null, paths and signs stay apart where they are different values."""
    texts = ["null", '"null"', '""', '"a/b"', '".."', '"é "', "7", '"7"', "true", "1.5"]
    values = [f'{{"a":{{"b":{text}}}}}'.encode() for text in texts] + [b"{}", None]
    names = names_of("{{value:a.b}}/" + TAIL, **{k.replace(".", "_"): v for k, v in JSON.items()})

    found = split_names(names, records_of(values, options=JSON))

    assert found == {
        "__HIVE_DEFAULT_PARTITION__/t/3/0.jsonl": [0, 10, 11],
        "null/t/3/1.jsonl": [1],
        "__HEADRACE_EMPTY__/t/3/2.jsonl": [2],
        "a%2Fb/t/3/3.jsonl": [3],
        "%2E%2E/t/3/4.jsonl": [4],
        "é%20/t/3/5.jsonl": [5],
        "7/t/3/6.jsonl": [6, 7],
        "true/t/3/8.jsonl": [8],
        "1.5/t/3/9.jsonl": [9],
    }


def test_keys_that_are_no_text_group_by_their_bytes() -> None:
    """A key is any bytes."""
    names = names_of("{{key}}/" + TAIL)

    found = split_names(names, records_of([b"1"] * 4, keys=[b"k", b"\xff\x00", None, b"k"]))

    assert found == {
        "k/t/3/0.jsonl": [0, 3],
        "%FF%00/t/3/1.jsonl": [1],
        "__HIVE_DEFAULT_PARTITION__/t/3/2.jsonl": [2],
    }


def test_the_last_header_of_a_name_groups() -> None:
    """As Kafka's own `lastHeader`."""
    headers = [(("r", b"eu"), ("r", b"us")), (), (("R", b"eu"),), (("r", None),)]

    found = split_names(names_of("{{header:r}}/" + TAIL), records_of([b"1"] * 4, headers=headers))

    assert found == {"us/t/3/0.jsonl": [0], "__HIVE_DEFAULT_PARTITION__/t/3/1.jsonl": [1, 2, 3]}


def test_a_header_that_a_transform_made_groups_with_the_same_of_kafka() -> None:
    """A name shows one text for both."""
    headers = [(("r", b"eu"),), (("r", text_header(b"eu")),), (("r", text_header(b"us")),)]
    found = split_names(names_of("{{header:r}}/" + TAIL), records_of([b"1"] * 3, headers=headers))
    assert found == {"eu/t/3/0.jsonl": [0, 1], "us/t/3/2.jsonl": [2]}


def test_two_fields_group_by_both() -> None:
    """Every pair is a group, in the order of first rows."""
    values = [b'{"a":1,"b":"x"}', b'{"a":2,"b":"x"}', b'{"a":1,"b":"y"}', b'{"a":1,"b":"x"}']

    found = split_names(names_of("a={{value:a}}/b={{value:b}}/" + TAIL), records_of(values, options=JSON))

    assert list(found.items()) == [
        ("a=1/b=x/t/3/0.jsonl", [0, 3]),
        ("a=2/b=x/t/3/1.jsonl", [1]),
        ("a=1/b=y/t/3/2.jsonl", [2]),
    ]


def test_records_group_by_their_own_time_in_the_zone() -> None:
    """Half past eleven in the evening is another day in Kolkata."""
    names = names_of("{{date:yyyy-MM-dd/HH}}/" + TAIL, file_name_timestamp_timezone="Asia/Kolkata")
    times = [_NOON, _NOON + 7 * _HOUR, _NOON + _HOUR // 4]

    found = split_names(names, records_of([b"1"] * 3, times=times))

    assert found == {"2026-01-01/17/t/3/0.jsonl": [0, 2], "2026-01-02/00/t/3/1.jsonl": [1]}


@pytest.mark.parametrize(
    ("at", "hour"),
    [
        ('"2024-05-01T10:59:59.999999Z"', "2024-05-01/10"),
        ('"2024-05-01T23:59:59.9995"', "2024-05-01/23"),
        ('"2024-05-01T10:59:59.999999999Z"', "2024-05-01/10"),
        ("1714561199999", "2024-05-01/10"),
        ("1714561199999.9", "2024-05-01/10"),
        ("1.7145611999999E12", "2024-05-01/10"),
    ],
)
def test_a_time_of_a_value_is_never_later_than_it_is(at: str, hour: str) -> None:
    """Rounded up, the last half millisecond of an hour or a day would be in the next one's folder."""
    names = names_of("{{date:yyyy-MM-dd/HH}}/" + TAIL, file_name_timestamp_source="value:at")
    records = records_of([b'{"at":%s}' % at.encode()], options=JSON)
    assert list(split_names(names, records)) == [f"{hour}/t/3/0.jsonl"]


@pytest.mark.parametrize("at", ["1e400", "-1e15", "true", '"soon"', "1e15", "null", "[]"])
def test_what_is_no_time_is_a_bad_record(at: str) -> None:
    """Also a number beyond the years that are shown."""
    names = names_of("{{date:yyyy}}/" + TAIL, file_name_timestamp_source="value:at")
    groups = Grouping(names).split(records_of([b'{"at":%s}' % at.encode()], options=JSON))
    assert [fault.reason for fault in groups.faults] == ["no_timestamp"]


def test_units_of_the_timestamp_are_those_of_the_date() -> None:
    """As the Aiven sink writes them."""
    names = names_of("{{timestamp:unit=yyyy}}{{timestamp:unit=MM}}{{timestamp:unit=dd}}/" + TAIL)

    assert list(split_names(names, records_of([b"1"], times=[_NOON]))) == ["20260101/t/3/0.jsonl"]


@pytest.mark.parametrize(
    "value",
    [b'{"at":1767268800000}', b'{"at":"2026-01-01T12:00:00Z"}', b'{"at":"2026-01-01T13:00:00+01:00"}'],
)
def test_the_time_may_be_a_field_of_the_value(value: bytes) -> None:
    """Milliseconds, or a text with the zone in it."""
    names = names_of("{{date:yyyyMMddHHmm}}/" + TAIL, file_name_timestamp_source="value:at")

    assert list(split_names(names, records_of([value], options=JSON))) == ["202601011200/t/3/0.jsonl"]


_DATE, _TIME, _TIMESTAMP = (f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp"))
_FIFTEENTH = 1_705_276_800_000  # 2024-01-15 00:00 UTC


@pytest.mark.parametrize("style", ["iso", "connect"])
@pytest.mark.parametrize("written", ["avro", "parquet"])
@pytest.mark.parametrize(
    ("kind", "name", "value", "expected"),
    [
        ("int32", _DATE, 19_737, _FIFTEENTH),
        ("int64", _TIMESTAMP, _FIFTEENTH + 1, _FIFTEENTH + 1),
        ("int64", None, _FIFTEENTH + 1, _FIFTEENTH + 1),
        ("string", None, "2024-01-15", _FIFTEENTH),
        ("int32", _DATE, None, NO_TIME),
        # A time of day is on no day, though it is a number of ms, too.
        ("int32", _TIME, 3_600_000, NO_TIME),
    ],
)
def test_a_date_of_a_schema_is_that_day_whatever_its_json_is(
    kind: str, name: str | None, value: object, expected: int, written: str, style: str
) -> None:
    """Connect has days since 1970, which are no milliseconds."""
    at = {"field": "at", "type": kind, "optional": True} | (
        {} if name is None else {"name": name, "version": 1}
    )
    day = {"field": "day", "type": "struct", "fields": [at]}
    text = json.dumps(
        {"schema": {"type": "struct", "fields": [day]}, "payload": {"day": {"at": value}}}
    ).encode()
    options = {
        **JSON,
        "value.converter.schemas.enable": "true",
        "output.format": written,
        "json.format": style,
    }
    records = records_of([text, text], options=options)
    assert times_of_field(records, ["day", "at"]).tolist() == [expected, expected]
    assert times_of_field(records, ["day", "no"]).tolist() == [NO_TIME, NO_TIME]
    assert times_of_field(records, ["day"]).tolist() == [NO_TIME, NO_TIME]


@pytest.mark.parametrize("style", JsonFormat)
@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.AVRO, OutputFormat.PARQUET])
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, 19_737, _FIFTEENTH),
        ({"type": "long", "logicalType": "timestamp-millis"}, _FIFTEENTH + 1, _FIFTEENTH + 1),
        ({"type": "int", "logicalType": "time-millis"}, 3_600_000, NO_TIME),
        ({"type": "long", "logicalType": "time-micros"}, 3_600_000_000, NO_TIME),
        (["null", {"type": "long", "logicalType": "time-micros"}], 3_600_000_000, NO_TIME),
        ("long", _FIFTEENTH + 1, _FIFTEENTH + 1),
    ],
    ids=["date", "timestamp", "time", "micros", "maybe micros", "number"],
)
@pytest.mark.parametrize("is_in_a_map", [False, True])
def test_a_date_of_avro_is_that_day_in_any_output(
    kind: object, value: int, expected: int, wanted: OutputFormat, style: JsonFormat, *, is_in_a_map: bool
) -> None:
    """As columns, or as JSON by the schema."""
    one = registry()
    held: object = {"type": "map", "values": kind} if is_in_a_map else _avro_record("Held", kind)
    given = framed(one, _avro_record("Row", held), {"at": {"at": value}})
    conversion = RecordConverter(converters(avro(one)), output(wanted, json_format=style)).convert(
        fetched([given])
    )
    (run,) = conversion.runs
    assert times_of_field(run, ["at", "at"]).tolist() == [expected]


def _avro_record(name: str, kind: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "at", "type": kind}]}


@pytest.mark.parametrize("style", JsonFormat)
@pytest.mark.parametrize("kind", [*map(pa.timestamp, ("s", "ms", "us", "ns")), pa.date32(), pa.date64()])
def test_moments_of_arrow_are_ms_whatever_they_are_counted_in(kind: Any, style: JsonFormat) -> None:
    """In a column of them alone, too."""
    array = pa.array(["2024-01-15", None]).cast(pa.timestamp("s")).cast(kind)
    column = TypedColumn(ColumnSchema(arrow=kind, avro='"long"'), array=array, style=style)
    records = replace(records_of([b"1", b"2"]), value=column)
    assert times_of_field(records, []).tolist() == [_FIFTEENTH, NO_TIME]


def test_what_has_no_time_is_a_bad_record() -> None:
    """Kafka's -1, a time after the year 9999, and a field that is no time."""
    groups = Grouping(names_of("{{date:yyyy}}/" + TAIL)).split(
        records_of([b"1"] * 3, times=[-1, 2**62, _NOON], first=10)
    )
    of_values = Grouping(names_of("{{date:yyyy}}/" + TAIL, file_name_timestamp_source="value:at")).split(
        records_of([b'{"at":true}', b'{"at":"soon"}', b"{}"], options=JSON)
    )

    assert [(fault.offset, fault.reason) for fault in groups.faults] == [
        (10, "no_timestamp"),
        (11, "no_timestamp"),
    ]
    assert [part.rows.tolist() for part in groups.parts if part.rows is not None] == [[2]]
    assert [fault.reason for fault in of_values.faults] == ["no_timestamp"] * 3


def test_a_list_is_no_value_of_a_name() -> None:
    """Nor an object; the rest of the records is grouped."""
    groups = Grouping(names_of("{{value:a}}/" + TAIL)).split(
        records_of([b'{"a":[1]}', b'{"a":{}}', b'{"a":1}'], options=JSON)
    )

    assert [(fault.offset, fault.reason) for fault in groups.faults] == [
        (0, "name_not_scalar"),
        (1, "name_not_scalar"),
    ]
    assert len(groups.parts) == 1
    assert "1" not in groups.faults[0].message


def test_a_name_that_s3_would_not_take_is_a_bad_record() -> None:
    """1,024 bytes of UTF-8, counted with the widest offset, so that it does not depend on where it stands."""
    names = names_of("{{key}}/" + TAIL)
    room = 1024 - len("topic_id=") - 22 - len("//t/3/.jsonl") - 19

    keys = [b"k" * room, b"k" * (room + 1), "é".encode() * room]
    fits = Grouping(names).split(records_of([b"1"] * 3, keys=keys))

    assert [(fault.offset, fault.reason) for fault in fits.faults] == [
        (1, "name_too_long"),
        (2, "name_too_long"),
    ]
    longest = _facts(group=fits.parts[0].group, first_offset=2**63 - 1, topic_id="x" * 22)
    assert len(names.key(longest).encode()) == 1024
    with pytest.raises(NameTooLong):
        names.key(_facts(group="k" * 1024))


def test_a_prefix_that_leaves_no_room_is_a_fault_of_every_record() -> None:
    """Never a key that S3 refuses."""
    groups = Grouping(names_of(TAIL, aws_s3_prefix="p" * 1024)).split(records_of([b"1"] * 2))

    assert (groups.parts, [fault.reason for fault in groups.faults]) == ((), ["name_too_long"] * 2)


def test_names_of_keys_alone_keep_the_last_record_of_each() -> None:
    """The others of a batch would be overwritten at once."""
    names = names_of("{{topic}}/{{key}}")

    assert names.overwrites
    assert split_names(names, records_of([b"1"] * 4, keys=[b"a", b"b", b"a", b"b"])) == {
        "t/a": [2],
        "t/b": [3],
    }


def test_the_wall_clock_groups_nothing_and_is_over_with_its_hour() -> None:
    """A name shows when its object was opened, so that groups are the same whenever records are read."""
    names = names_of("{{date:yyyy-MM-dd/HH}}/" + TAIL, file_name_timestamp_source="wallclock")

    assert Grouping(names).split(records_of([b"1"])).parts == (GroupRows("", None),)
    assert names.key(_facts(opened_ms=_NOON + 1)) == "2026-01-01/12/t/3/42.jsonl"
    assert names.name_ends_ms(_NOON) == _NOON + _HOUR
    assert names.name_ends_ms(_NOON + _HOUR - 1) == _NOON + _HOUR
    assert names_of("{{date:HH}}/" + TAIL).name_ends_ms(_NOON) is None


@pytest.mark.parametrize(
    ("pattern", "zone", "hours"),
    [("yyyy-MM-dd", "UTC", 12), ("yyyy-MM-dd", "Asia/Kathmandu", 6.25), ("yyyy", "UTC", 12 + 364 * 24)],
)
def test_a_day_or_a_year_on_the_wall_ends_in_its_zone(pattern: str, zone: str, hours: float) -> None:
    """Kathmandu is 5:45 ahead."""
    names = names_of(
        f"{{{{date:{pattern}}}}}/{TAIL}",
        file_name_timestamp_source="wallclock",
        file_name_timestamp_timezone=zone,
    )

    assert names.name_ends_ms(_NOON + 5) == _NOON + int(hours * _HOUR)


_LONG = [
    b"9007199254740993.1",
    b"9007199254740993.2",
    b"1e400",
    b"-1e400",
    b"1e-400",
    b"null",
    b"0.0",
    b"1.10",
    b"1.1",
]
_BY_KEY = "{{topic}}/{{key}}"
_JSON_KEYS = {name.replace("value", "key"): text for name, text in JSON.items()}


def test_numbers_that_no_double_is_have_names_of_their_own() -> None:
    """Names of keys alone overwrite: two such keys were one object, and an infinite one that of no key."""
    records = records_of([b"1"] * len(_LONG), keys=_LONG, options=_JSON_KEYS)

    assert list(split_names(names_of(_BY_KEY), records)) == [
        "t/9007199254740993.1",
        "t/9007199254740993.2",
        "t/1E%2B400",
        "t/-1E%2B400",
        "t/1E-400",
        "t/__HIVE_DEFAULT_PARTITION__",
        "t/0.0",
        "t/1.1",
    ]


@pytest.mark.parametrize(
    ("noted", "day"), [({}, "1970-01-01"), ({"value.form": "columns:connect"}, "2024-01-15")]
)
def test_dates_that_an_earlier_version_took_for_numbers_are_known_by_those(
    noted: dict[str, str], day: str
) -> None:
    """Archived under 1970, they would come under their day once more."""
    config = {
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "file.name.template": "{{date:yyyy-MM-dd}}/" + TAIL,
        "file.name.timestamp.source": "value:at",
    }
    settings = sink_settings(config)
    assert settings.sink is not None
    before = GroupingOptions(hash="before", options=grouping_options(settings.sink) | noted)
    tools = tools_after(before, settings)
    array = pa.array([{"at": 19_737}], pa.struct([("at", pa.int32())])).cast(pa.struct([("at", pa.date32())]))
    column = TypedColumn(ColumnSchema(arrow=array.type, avro='"null"'), array=array, style=JsonFormat.CONNECT)
    records = replace(records_of([b"1"]), value=column)
    assert list(split_names(tools.earlier["before"].shapes.values.names, records)) == [
        f"{day}/t/3/0.jsonl.gz"
    ]
    assert list(split_names(tools.shapes.values.names, records)) == ["2024-01-15/t/3/0.jsonl.gz"]


def test_what_an_earlier_version_archived_is_grouped_as_it_was() -> None:
    """Its groups are in the ledger, and what is in them must not come into another one."""
    config = {"aws.s3.bucket.name": "bucket", "topics": "t", "file.name.template": _BY_KEY, **_JSON_KEYS}
    settings = sink_settings(config)
    assert settings.sink is not None
    now = grouping_options(settings.sink)
    before = GroupingOptions(
        hash="before", options={name: text for name, text in now.items() if name != "file.name.numbers"}
    )
    assert before.options != now
    tools = tools_after(before, settings)
    records = records_of([b"1"] * len(_LONG), keys=_LONG, options=_JSON_KEYS)

    assert list(split_names(tools.earlier["before"].shapes.values.names, records)) == [
        "t/9007199254740994.0",
        "t/__HIVE_DEFAULT_PARTITION__",
        "t/0.0",
        "t/1.1",
    ]
