"""Times of values before 1970 in names of objects, as far back as a name shows them."""

from collections.abc import Mapping

import pytest

from spark.sink.grouping import Grouping
from spark.sink.object_keys import ObjectNames
from tests.spark.sink.grouped import JSON, TAIL, names_of, records_of, sink_of, split_names


@pytest.mark.parametrize(
    ("at", "zone", "hour"),
    [
        ("-1", "UTC", "1969-12-31/23"),
        ("-0.5", "UTC", "1969-12-31/23"),
        ("-1.5", "UTC", "1969-12-31/23"),
        ("-152928000000", "UTC", "1965-02-26/00"),
        ("-152928000001", "UTC", "1965-02-25/23"),
        ('"1965-02-26T00:59:59.9999Z"', "Europe/Paris", "1965-02-26/01"),
        ('"1900-01-01"', "Europe/Paris", "1900-01-01/00"),
        ('"1899-12-31T23:50:38Z"', "Europe/Paris", "1899-12-31/23"),
        ('"1899-12-31T23:50:39Z"', "Europe/Paris", "1900-01-01/00"),
        ('"0965-03-01T00:00:00Z"', "UTC", "0965-03-01/00"),
        ('"0001-01-01T00:00:00Z"', "UTC", "0001-01-01/00"),
        ('"0001-01-01T00:00:00Z"', "+02:00", "0001-01-01/02"),
    ],
)
def test_times_before_1970_are_times(at: str, zone: str, hour: str) -> None:
    """As in Confluent's sink: dates of birth, old documents, and what languages have for no time."""
    names = names_of(
        "{{date:yyyy-MM-dd/HH}}/" + TAIL,
        file_name_timestamp_source="value:at",
        file_name_timestamp_timezone=zone,
    )
    records = records_of([b'{"at":%s}' % at.encode()], options=JSON)
    assert list(split_names(names, records)) == [f"{hour}/t/3/0.jsonl"]


def test_times_of_two_centuries_in_one_fetch_are_each_in_their_own_hour() -> None:
    """Clocks were changed at any second once; those of today alone would need a look each quarter."""
    names = names_of(
        "{{date:yyyy-MM-dd/HH}}/" + TAIL,
        file_name_timestamp_source="value:at",
        file_name_timestamp_timezone="Europe/Paris",
    )
    times = ("2026-01-01T00:00:00Z", "1899-12-31T23:50:38Z", "1899-12-31T23:50:39Z")
    records = records_of([b'{"at":"%s"}' % at.encode() for at in times], options=JSON)
    hours = ["2026-01-01/01", "1899-12-31/23", "1900-01-01/00"]
    assert list(split_names(names, records)) == [f"{hour}/t/3/{row}.jsonl" for row, hour in enumerate(hours)]


@pytest.mark.parametrize(
    ("at", "options"),
    [
        ("0001-01-01T00:00:00Z", {"file_name_timestamp_timezone": "America/New_York"}),
        ("0001-01-05T00:00:00Z", {"file_name_timestamp_round_ms": str(1000 * 86_400_000)}),
        ("0965-01-01T00:00:00Z", {"file_name_template": "{{date:y}}/" + TAIL}),
        ("0000-12-31T23:59:59.999Z", {}),
        ("-999999999-01-01T00:00:00Z", {}),
        ("-9999999999-01-01T00:00:00Z", {}),
    ],
)
def test_times_that_no_four_digits_show_are_bad(at: str, options: Mapping[str, str]) -> None:
    """Of the year 0 where the name's clock is, or cut short by the date: two objects could have one name."""
    given: dict[str, str] = {
        "file_name_template": "{{date:yyyy}}/" + TAIL,
        "file_name_timestamp_source": "value:at",
        **options,
    }
    records = records_of([b'{"at":"1965-01-01"}', b'{"at":"%s"}' % at.encode()], options=JSON)
    groups = Grouping(ObjectNames(sink_of(**{**given, **options}).names, ".jsonl")).split(records)
    assert [(fault.offset, fault.reason) for fault in groups.faults] == [(1, "no_timestamp")]


def test_an_offset_of_seconds_is_shown_without_them() -> None:
    """As in Java: Brussels was 17 minutes and 30 seconds ahead until 1880."""
    names = names_of(
        "{{date:yyyy-MM-dd xx}}/" + TAIL,
        file_name_timestamp_source="value:at",
        file_name_timestamp_timezone="Europe/Brussels",
    )
    records = records_of([b'{"at":"1870-01-01"}'], options=JSON)
    assert list(split_names(names, records)) == ["1870-01-01 +0017/t/3/0.jsonl"]
