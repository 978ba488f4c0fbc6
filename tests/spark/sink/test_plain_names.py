"""Names of plain values: texts as Kafka Connect writes them, groups by the name, and what no name is."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.names.date_pattern import DatePattern
from headrace.names.name_ambiguity import is_ambiguous
from headrace.names.name_template import Padding, read_name_template
from spark.sink.grouping import Grouping, java_double
from spark.sink.object_keys import ObjectFacts
from tests.spark.sink.grouped import JSON, TAIL, names_of, records_of, split_names
from tests.support.examples import examples, max_examples

_PLAIN = {"file_name_values": "plain"}
_OF_JSON = {name.replace(".", "_"): text for name, text in JSON.items()}


def test_values_stand_as_they_are() -> None:
    """A slash makes a directory; null, an absent field and the text null are one group."""
    texts = ['"eu west"', '"x/y=z"', "null", '"null"', "7", "true", "1e10", '""']
    values = [f'{{"a":{text}}}'.encode() for text in texts] + [b"{}", None]

    found = split_names(
        names_of("a={{value:a}}/" + TAIL, **_PLAIN, **_OF_JSON), records_of(values, options=JSON)
    )

    assert found == {
        "a=eu west/t/3/0.jsonl": [0],
        "a=x/y=z/t/3/1.jsonl": [1],
        "a=null/t/3/2.jsonl": [2, 3, 8, 9],
        "a=7/t/3/4.jsonl": [4],
        "a=true/t/3/5.jsonl": [5],
        "a=1.0E10/t/3/6.jsonl": [6],
        "a=/t/3/7.jsonl": [7],
    }


def test_what_is_missing_has_a_text_of_its_own() -> None:
    """Another maker's."""
    names = names_of("{{key}}/" + TAIL, file_name_missing="[missing]", **_PLAIN)

    found = split_names(names, records_of([b"1"] * 2, keys=[None, b"k"]))

    assert list(found) == ["[missing]/t/3/0.jsonl", "k/t/3/1.jsonl"]


def test_values_that_make_one_name_are_one_group() -> None:
    """As in a sink that groups by the directory."""
    values = [b'{"a":"x/y","b":"z"}', b'{"a":"x","b":"y"}', b'{"a":"x","b":"y/z"}']
    names = names_of("{{value:a}}/{{value:b}}/" + TAIL, **_PLAIN, **_OF_JSON)

    found = split_names(names, records_of(values, options=JSON))

    assert found == {"x/y/z/t/3/0.jsonl": [0, 2], "x/y/t/3/1.jsonl": [1]}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"..", "name_not_valid"),
        (b"a/./b", "name_not_valid"),
        (b"a\nb", "name_not_valid"),
        (b"a\x1fb", "name_not_valid"),
        (b"\x7f", "name_not_valid"),
        (b"\xff", "name_not_valid"),
        (b"x" * 1024, "name_too_long"),
    ],
)
def test_what_is_no_name_is_a_bad_record(key: bytes, reason: str) -> None:
    """And the others are written."""
    groups = Grouping(names_of("{{key}}/" + TAIL, **_PLAIN)).split(
        records_of([b"1"] * 2, keys=[key, b"good"], first=5)
    )

    assert [(fault.offset, fault.reason) for fault in groups.faults] == [(5, reason)]
    assert [part.rows.tolist() for part in groups.parts if part.rows is not None] == [[1]]


@pytest.mark.parametrize("prefix", ["", "p", "p/"])
@pytest.mark.parametrize(
    ("template", "keys", "bad"),
    [
        ("{{key}}", [b"", b"a", b"a/", b"/", b"/a", b"b"], [0, 2, 3]),
        ("{{topic}}/{{key}}", [b"", b"users/", b"users/7"], [0, 1]),
        ("{{topic}}/{{partition}}-{{start_offset}}/{{key}}", [b"", b"x", b"y/"], [0, 2]),
        ("{{topic}}/{{key}}.x", [b"", b"users/"], []),
    ],
)
def test_a_name_that_is_empty_or_ends_with_a_slash_is_a_bad_record(
    prefix: str, template: str, keys: list[bytes], bad: list[int]
) -> None:
    """S3 takes no empty key, whatever the prefix is; what ends with a slash no restore reads."""
    names = names_of(template, aws_s3_prefix=prefix, file_name_unique="assumed", **_PLAIN)

    found = Grouping(names).split(records_of([b"1"] * len(keys), keys=keys))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [
        (row, "name_not_valid") for row in bad
    ]
    taken = {int(row) for part in found.parts for row in (() if part.rows is None else part.rows)}
    assert taken == set(range(len(keys))) - set(bad)


def test_what_has_no_name_now_may_have_had_one() -> None:
    """Of earlier options: a record that 1.0.0 archived under such a name is not archived again."""
    names = names_of("{{topic}}/{{key}}", **_PLAIN)

    found = Grouping(names, checks_names=False).split(records_of([b"1"] * 2, keys=[b"users/", b""]))

    assert [part.rows.tolist() for part in found.parts if part.rows is not None] == [[0], [1]]
    assert not found.faults


def test_names_of_keys_keep_the_last_record() -> None:
    """Of the name, whatever values made it."""
    names = names_of("{{topic}}/{{key}}", **_PLAIN)

    found = split_names(names, records_of([b"1"] * 4, keys=[b"a/b", None, b"null", b"a/b"]))

    assert found == {"t/null": [2], "t/a/b": [3]}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-1.7976931348623157e308, "-1.7976931348623157E308"),
        (123456789.5, "1.234567895E8"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_are_written_as_java_does(number: float, text: str) -> None:
    """`Double.toString`."""
    assert java_double(number) == text


_PIECES = st.sampled_from(
    [
        *("{{topic}}", "{{partition}}", "{{partition:padding=3}}", "{{start_offset}}", "{{end_offset}}"),
        *("{{start_offset:padding=4}}", "{{start_offset:padding=3,char=_}}", "{{value:a}}", "{{key}}"),
        *("{{end_offset:padding=3,char=_,side=right}}", "{{end_offset:padding=3,side=right}}"),
        *("-", "/", "a", "1", "_", "=", "+", "(", ")"),
    ]
)
_SMALL = st.sampled_from([0, 1, 2, 10, 11, 12, 21, 100, 111, 1111])
_TEXTS = st.text("a1/-_+=() ", max_size=4)
_OBJECTS = st.tuples(st.text("a1-_.", min_size=1, max_size=3), _SMALL, _SMALL, _SMALL, _TEXTS, _TEXTS)
_NEEDED = (("topic", 0), ("partition", 1), ("start_offset", 2), ("end_offset", 3))


@settings(max_examples=3 * max_examples())
@given(pieces=st.lists(_PIECES, min_size=1, max_size=8), objects=st.lists(_OBJECTS, min_size=2, max_size=12))
def test_what_is_not_ambiguous_shows_topic_partition_and_offsets(
    pieces: list[str], objects: list[tuple[str, int, int, int, str, str]]
) -> None:
    """Whatever the values are, so no two objects of different offsets have one name."""
    source = "".join(pieces)
    assume(not any(segment in {".", ".."} for segment in source.split("/")))
    template = read_name_template(source)
    assume(not is_ambiguous(template, ".x", plain=True))
    readable = {each.field for each in template.variables if each.padding.is_readable}

    by_name: dict[str, list[str | int]] = {}
    for facts in objects:
        name = "".join(
            token if isinstance(token, str) else _text(token.padding, str(token.field), facts)
            for token in template.tokens
        )
        shown = [facts[place] for field, place in _NEEDED if field in readable]
        assert by_name.setdefault(name, shown) == shown


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("{{topic}}-gone-{{topic}}+", False),
        ("x{{topic}}{{topic}}y+", False),
        ("{{topic}}-gone-{{topic}}", True),  # where its digits end, and those of the partition begin
        ("{{topic}}-gone-{{topic:hyphens=_}}+", True),
        ("{{topic}}-{{value:a}}-{{topic}}+", True),
        ("{{value:a}}{{topic}}+", True),
    ],
)
def test_a_topic_is_known_by_its_length(head: str, expected: bool) -> None:
    """Where nothing else is before partition and offset, and it is written in one way."""
    template = read_name_template(f"{head}{{{{partition}}}}+{{{{start_offset}}}}")

    assert is_ambiguous(template, ".x", plain=True) is expected


def _text(padding: Padding, field: str, facts: tuple[str, int, int, int, str, str]) -> str:
    topic, partition, first, last, key, value = facts
    texts: Mapping[str, str] = {"topic": topic, "key": key, "value": value}
    numbers = {"partition": partition, "start_offset": first, "end_offset": last}
    return texts[field] if field in texts else padding.text(numbers[field])


def test_an_objects_first_time_groups_nothing() -> None:
    """It stands in the name of whatever else the object holds; one without a time has no name."""
    names = names_of("{{date:yyyy-MM-dd}}/" + TAIL, file_name_timestamp_source="first")
    groups = Grouping(names).split(records_of([b"1"] * 3, times=[0, 10**12, -1]))

    assert [part.rows.tolist() for part in groups.parts if part.rows is not None] == [[0, 1]]
    assert [(fault.offset, fault.reason) for fault in groups.faults] == [(2, "no_timestamp")]
    facts = ObjectFacts(
        topic="t", partition=3, group="", first_offset=0, opened_ms=0, first_time_ms=1_704_067_200_000
    )
    assert names.key(facts) == "2024-01-01/t/3/0.jsonl"
    assert names.name_ends_ms(0) is None


def test_dates_of_the_clock_are_of_the_clock_whatever_the_source() -> None:
    """They group nothing, and end at midnight of their own zone."""
    names = names_of("{{utc_date}}/{{local_date}}/" + TAIL, file_name_timestamp_timezone="Asia/Kolkata")
    opened = 1_704_050_000_000  # 2023-12-31 19:13 UTC, 2024-01-01 00:43 in Kolkata

    assert names.grouping == ()
    assert names.key(
        ObjectFacts(topic="t", partition=3, group="", first_offset=0, opened_ms=opened)
    ).startswith("2023-12-31/2024-01-01/")
    assert names.name_ends_ms(opened) == 1_704_067_200_000
    assert names.name_ends_ms(1_704_067_200_000) == 1_704_133_800_000


def test_least_and_greatest_times_are_known_at_the_end() -> None:
    """As is the last offset."""
    names = names_of(
        "{{topic}}/{{partition}}/{{end_offset:padding=12}}_{{first_timestamp}}_{{last_timestamp}}.json"
    )
    facts = ObjectFacts(
        topic="t",
        partition=0,
        group="",
        first_offset=0,
        last_offset=2,
        opened_ms=0,
        least_timestamp_ms=5,
        greatest_timestamp_ms=77,
    )

    assert not names.is_known_at_start
    assert names.key(facts) == "t/0/000000000002_5_77.json"


def test_a_name_that_no_clock_changes_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds that are rounded to days: a slot does not look at each second of a year."""
    names = names_of(
        "{{joda:ss}}/" + TAIL,
        file_name_timestamp_source="wallclock",
        file_name_timestamp_round_ms="86400000",
        file_name_timestamp_timezone="Europe/Berlin",
    )
    asked = []
    text = DatePattern.text

    def counted(date: DatePattern, moment_ms: int, zone: ZoneInfo, round_ms: int = 0) -> str:
        asked.append(moment_ms)
        return text(date, moment_ms, zone, round_ms)

    monkeypatch.setattr(DatePattern, "text", counted)

    assert names.name_ends_ms(1_704_067_200_000) is None
    assert len(asked) < 1_000


@settings(max_examples=examples(75), deadline=None)
@given(
    round_minutes=st.sampled_from([7, 60, 90, 1440]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]),
    pattern=st.sampled_from(["HH-mm", "dd", "dd HH Z"]),
    # Around the days of 2024 on which these zones change their clocks.
    days=st.sampled_from([70, 90, 97, 280, 301, 308]),
    minute=st.integers(0, 1439),
)
def test_a_name_ends_when_its_text_first_changes(
    round_minutes: int, zone: str, pattern: str, days: int, minute: int
) -> None:
    """Whatever the clocks do meanwhile: as looking at each quarter of an hour, or minute, finds it."""
    begin = 1_704_067_200_000 + (days * 1440 + minute) * 60_000
    given = {
        "file_name_timestamp_source": "wallclock",
        "file_name_timestamp_round_ms": str(round_minutes * 60_000),
        "file_name_timestamp_timezone": zone,
    }
    names = names_of("{{joda:" + pattern + "}}/" + TAIL, **given)

    def shown(at_ms: int) -> str:
        return names.key(ObjectFacts(topic="t", partition=3, group="", first_offset=0, opened_ms=at_ms))

    ends = names.name_ends_ms(begin)

    whole = range(begin // 60_000 * 60_000 + 60_000, begin + 3 * 86_400_000, 60_000)
    assert ends == next((at for at in whole if shown(at) != shown(begin)), ends)


@pytest.mark.parametrize(
    ("round_ms", "zone", "minutes", "texts"),
    [
        ("600000", "UTC", [0, 9, 10, 61], ["00-00", "00-00", "00-10", "01-00"]),
        ("420000", "UTC", [0, 6, 7, 59, 60, 63], ["23-54", "00-01", "00-01", "00-57", "00-57", "00-57"]),
        ("86400000", "Asia/Kathmandu", [0, 1094, 1095], ["00-00", "00-00", "00-00"]),
    ],
)
def test_times_are_rounded_by_the_clock_of_the_zone(
    round_ms: str, zone: str, minutes: list[int], texts: list[str]
) -> None:
    """As the durations of Confluent's partitions are, for records and for the wall clock."""
    midnight = 1_704_067_200_000
    given = {"file_name_timestamp_round_ms": round_ms, "file_name_timestamp_timezone": zone}
    names = names_of("{{joda:HH-mm}}/" + TAIL, **given)
    times = [midnight + minute * 60_000 for minute in minutes]

    found = split_names(names, records_of([b"1"] * len(times), times=times))

    assert {row: key.split("/")[0] for key, rows in found.items() for row in rows} == dict(enumerate(texts))
    clock = names_of("{{joda:HH-mm}}/" + TAIL, file_name_timestamp_source="wallclock", **given)
    shown = [
        clock.key(ObjectFacts(topic="t", partition=3, group="", first_offset=0, opened_ms=time)).split("/")[0]
        for time in times
    ]
    assert shown == texts
    for time in times:
        ends = clock.name_ends_ms(time)
        # A day that is rounded to its midnight never shows another minute.
        assert (
            ends is None if round_ms == "86400000" else ends == _rounded(time, int(round_ms)) + int(round_ms)
        )


def _rounded(moment_ms: int, round_ms: int) -> int:
    return moment_ms // round_ms * round_ms
