import pytest

from headrace.kafka.fencing import GroupMetadata, assigned_topics, parse_group_metadata

# As librdkafka 2.16 gave them on Apache Kafka 4.1.
DYNAMIC = b"CGMDv2:\x02\x00\x00\x00headrace-a\x00rdkafka-121e1f49\x00\x01"
STATIC = b"CGMDv2:\x01\x00\x00\x00headrace-a\x00i1-925f0efa\x00\x00i1\x00"
FORGOTTEN = b"CGMDv2:\xff\xff\xff\xffheadrace-a\x00\x00\x01"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            DYNAMIC,
            GroupMetadata(group="headrace-a", generation=2, member="rdkafka-121e1f49", instance=None),
            id="dynamic",
        ),
        pytest.param(
            STATIC,
            GroupMetadata(group="headrace-a", generation=1, member="i1-925f0efa", instance="i1"),
            id="static",
        ),
        pytest.param(
            FORGOTTEN,
            GroupMetadata(group="headrace-a", generation=-1, member="", instance=None),
            id="forgotten",
        ),
    ],
)
def test_group_metadata_is_read(raw: bytes, expected: GroupMetadata) -> None:
    """Group, generation, member and instance are where librdkafka writes them."""
    assert parse_group_metadata(raw) == expected


@pytest.mark.parametrize(
    ("raw", "is_checked"),
    [
        pytest.param(DYNAMIC, True, id="member"),
        pytest.param(FORGOTTEN, False, id="forgotten"),
        pytest.param(b"CGMDv2:\x02\x00\x00\x00g\x00\x00\x01", False, id="no-member"),
        pytest.param(b"CGMDv2:\xff\xff\xff\xffg\x00m\x00\x01", False, id="no-generation"),
        pytest.param(b"CGMDv2:\x00\x00\x00\x00g\x00m\x00\x01", True, id="generation-zero"),
    ],
)
def test_unchecked_metadata_is_told_apart(raw: bytes, is_checked: bool) -> None:
    """A missing member id or generation each make the broker accept it from anyone."""
    assert parse_group_metadata(raw).is_checked_by_broker is is_checked


@pytest.mark.parametrize("raw", [b"", b"CGMDv2:", b"CGMDv3:\x01\x00\x00\x00g\x00m\x00\x01", DYNAMIC[:-1]])
def test_other_bytes_are_no_metadata(raw: bytes) -> None:
    """Another version of librdkafka's form is refused, not guessed at."""
    with pytest.raises(ValueError, match="not group metadata"):
        parse_group_metadata(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"", set(), id="nothing yet"),
        pytest.param(
            b"\x00\x00\x00\x00\x00\x01\x00\x06ledger\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
            {"ledger"},
            id="one partition, as librdkafka writes it",
        ),
        pytest.param(b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", set(), id="a standby"),
        pytest.param(
            b"\x00\x03\x00\x00\x00\x02\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
            b"\x00\x01b\x00\x00\x00\x00",
            {"a"},
            id="two topics, one without a partition",
        ),
    ],
)
def test_an_assignment_is_read(raw: bytes, expected: set[str]) -> None:
    """In the consumer protocol's form, whatever follows it."""
    assert assigned_topics(raw) == expected


def test_an_assignment_that_ends_early_is_none() -> None:
    """Rather than a member that holds nothing."""
    with pytest.raises(ValueError, match="not a consumer's assignment"):
        assigned_topics(b"\x00\x00\x00\x00\x00\x01\x00\x06led")
