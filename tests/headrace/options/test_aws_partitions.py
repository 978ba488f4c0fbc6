"""In which of AWS's partitions a region is, and what is said of buckets there."""

import pytest
from botocore.session import get_session

from headrace.options.aws_forms import bucket_arn, partition_of

_SESSION = get_session()


def _regions() -> list[tuple[str, str]]:
    return [
        (region, partition)
        for partition in _SESSION.get_available_partitions()
        for region in _SESSION.get_available_regions("s3", partition, allow_non_regional=False)
    ]


def test_partitions_are_those_of_botocore() -> None:
    """For all regions that it knows: a new partition of AWS shows here."""
    regions = _regions()

    assert {"aws", "aws-cn", "aws-us-gov", "aws-iso"} <= {partition for _, partition in regions}
    assert [(region, partition_of(region)) for region, _ in regions] == regions


@pytest.mark.parametrize(
    ("region", "partition"),
    [("cn-new-7", "aws-cn"), ("us-isob-west-9", "aws-iso-b"), ("garage", "aws"), ("", "aws")],
)
def test_regions_that_botocore_does_not_know(region: str, partition: str) -> None:
    """Later ones are where their neighbours are; those of other stores have Amazon's ARNs."""
    assert partition_of(region) == partition


def test_a_bucket_names_its_partition() -> None:
    """And no region or account."""
    assert bucket_arn("b", "aws-us-gov") == "arn:aws-us-gov:s3:::b"
