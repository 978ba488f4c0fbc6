"""A record's group is that of its own values and its own time, whatever is fetched with it."""

import pytest

from tests.spark.sink.grouped import TAIL, names_of, records_of, split_names


@pytest.mark.parametrize("count", [2, 7, 9, 20])
def test_many_fields_with_many_values_group_by_all_of_them(count: int) -> None:
    """In 64 bits, 256 values of each of eight fields were as many as none."""
    rows = [*([number] * count for number in range(256)), [1, *[7] * (count - 1)]]
    headers = [tuple((f"h{place}", str(each).encode()) for place, each in enumerate(row)) for row in rows]
    names = names_of("/".join(f"{{{{header:h{place}}}}}" for place in range(count)) + "/" + TAIL)

    found = split_names(names, records_of([b"1"] * len(rows), headers=headers))

    assert list(found.values()) == [[row] for row in range(len(rows))]


@pytest.mark.parametrize("others", [[], [0], [1_162_089_600_000]])
def test_the_hour_of_a_record_does_not_depend_on_the_others(others: list[int]) -> None:
    """St. John's was at 23:10 a second time: clocks were put back at one past midnight."""
    names = names_of("{{date:yyyy-MM-dd-HH}}/" + TAIL, file_name_timestamp_timezone="America/St_Johns")
    times = [1_162_089_600_000, *others]
    found = split_names(names, records_of([b"1"] * len(times), times=times))
    assert 0 in found["2006-10-28-23/t/3/0.jsonl"]
