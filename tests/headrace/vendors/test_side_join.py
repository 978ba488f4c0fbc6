"""Values, keys and headers of three objects, row by row."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace.formats.record_columns import Faults, RecordColumns, RowFault
from headrace.model.columns import column_of
from headrace.options.choices import Form, RestoreOptions
from headrace.vendors.confluent.join import JsonHeaders, JsonKeys, RowsDiffer, joined

_OPTIONS = RestoreOptions(key=Form.STRING, header=Form.STRING)


def _values(*batches: list[bytes]) -> list[RecordColumns]:
    return [Faults().records(column_of(batch)) for batch in batches]


def _keys(*batches: list[bytes]) -> list[RecordColumns]:
    return [JsonKeys(_OPTIONS)(column_of(batch)) for batch in batches]


def _headers(*batches: list[bytes]) -> list[RecordColumns]:
    return [JsonHeaders(_OPTIONS)(column_of(batch)) for batch in batches]


def _pairs(batches: Iterator[RecordColumns]) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (each.keys.get(row) if each.keys is not None else None, each.values.get(row))
        for each in batches
        for row in range(len(each))
    ]


def test_batches_need_not_be_of_one_size() -> None:
    """Three formats are read in batches of their own."""
    values = _values([b"1", b"2", b"3"], [b"4"])
    keys = _keys([b'"a"'], [b'"b"', b"null"], [b'"d"'])
    headers = _headers([b'{"headers":[]}', b'{"headers":[{"key":"h","value":"x"}]}'], [b'{"headers":[]}'] * 2)

    found = list(joined(values, keys, headers))

    assert _pairs(iter(found)) == [(b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"d", b"4")]
    assert [each.headers for each in found] == [((), (("h", b"x"),), ()), ((),)]


def test_a_row_that_is_bad_in_one_object_is_bad() -> None:
    """The rows behind it keep their partners, and the sentence says where it was bad."""
    headers = _headers([b'{"headers":[]}', b"no headers", b'{"headers":[]}'])

    (found,) = joined(_values([b"1", b"2", b"3"]), _keys([b'"a"', b'"b"', b'"c"']), headers)

    assert _pairs(iter([found])) == [(b"a", b"1"), (b"c", b"3")]
    assert [(fault.row, fault.reason) for fault in found.faults] == [(1, "not_an_envelope")]
    assert found.faults[0].message.startswith("in the object of headers: ")


def test_what_values_bring_themselves_is_kept() -> None:
    """Without side objects batches pass as they are."""
    values = _values([b"1"])

    assert list(joined(values, None, None)) == values


def test_headers_of_rows_stay_next_to_keys_of_others() -> None:
    """Of a bad row, too: those after it keep their own."""
    (values,) = _values([b"1", b"2"])
    values = replace(values, headers=((("h", b"1"),), (("h", b"2"),)))
    faulty = replace(
        values, rows=values.rows + 1, faults=(RowFault(0, "not_json", "the line is not one JSON value"),)
    )

    (found,) = joined([values], _keys([b'"a"', b'"b"']), None)
    (other,) = joined([faulty], _keys([b'"a"', b'"b"', b'"c"']), None)

    assert found.headers == other.headers == ((("h", b"1"),), (("h", b"2"),))
    assert _pairs(iter([other])) == [(b"b", b"1"), (b"c", b"2")]


@pytest.mark.parametrize(("rows", "what"), [(1, "fewer"), (3, "1 rows more")])
def test_other_numbers_of_rows_are_found(rows: int, what: str) -> None:
    """At the latest with the last row."""
    with pytest.raises(RowsDiffer, match=f"the object of keys has {what}"):
        list(joined(_values([b"1", b"2"]), _keys([b'"k"'] * rows), None))


def test_tombstones_are_keys_with_headers() -> None:
    """A tombstone object has no values."""
    (found,) = joined(_keys([b'"a"', b'"b"']), None, _headers([b'{"headers":[]}'] * 2))

    assert _pairs(iter([found])) == [(b"a", None), (b"b", None)]


@pytest.mark.parametrize("skip", range(7))
def test_a_reading_that_resumes_skips_rows_of_the_sides(skip: int) -> None:
    """Values go on where they were, keys and headers are read again from their beginning."""
    rows = [b"%d" % row for row in range(6)]
    texts = [b'"%d"' % row for row in range(6)]
    values = _values(rows[skip:]) if skip < len(rows) else []

    found = list(joined(values, _keys(texts[:2], texts[2:5], texts[5:]), None, skip=skip))

    assert _pairs(iter(found)) == [(row, row) for row in rows[skip:]]


def test_only_what_a_batch_needs_is_read_of_a_side() -> None:
    """Memory is bounded by batches and not by objects."""
    read: list[int] = []

    def keys() -> Iterator[RecordColumns]:
        for number in range(100):
            read.append(number)
            yield from _keys([b'"k"'] * 10)

    batches = joined(_values(*[[b"v"] * 10] * 100), keys(), None)
    next(batches)

    assert read == [0]
