"""Every archive restored and compared with Kafka, field by field; what differs is excused, one by one."""

import pytest

from headrace.vendors.confluent.join import RowsDiffer, joined
from tests.headrace.vendors.archive import NAMES, archive
from tests.headrace.vendors.decoding import records
from tests.headrace.vendors.excuses import EXCUSES
from tests.headrace.vendors.restoring import differences, read_object


def test_every_archive_is_in_the_table() -> None:
    """None is left out."""
    assert sorted(EXCUSES) == list(NAMES)
    assert len(NAMES) == 107


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_comes_back_but_for_what_is_excused(name: str) -> None:
    """The differences are exactly those of the table: nothing more is lost, and no excuse is idle."""
    assert differences(archive(name)) == EXCUSES[name]


def test_a_deletion_does_not_outlive_the_value_behind_it() -> None:
    """By start offsets the tombstone of k1 would come after both values; its place between them is proven."""
    assert not any("tombstone" in each or each == "order" for each in EXCUSES["confluent-kvh_json_readd"])


def test_a_side_object_with_other_rows_is_refused() -> None:
    """A value with a newline makes two rows of one: keys would go to the wrong values."""
    bucket = archive("confluent-bytes_keys_json")
    stem = "topics/orders-raw.v1/partition=0/orders-raw.v1+0+0000000001"

    with pytest.raises(RowsDiffer, match="object of keys has fewer rows"):
        list(joined([read_object(bucket, f"{stem}.bin")], [read_object(bucket, f"{stem}.keys.json")], None))


def test_an_empty_object_of_aivens_csv_is_one_row() -> None:
    """An object of one tombstone has no bytes at all, and a line break joins rows and does not end them."""
    bucket = archive("aiven-default")
    key = next(iter(bucket.objects))

    assert [each.value for each in records(read_object(bucket, key, b""))] == [None]
    assert [each.value for each in records(read_object(bucket, key, b"YQ==\n"))] == [b"a", None]
