"""The ledger's bytes are a contract: others read the topic."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import (
    ERROR_MAX,
    ControlKey,
    LedgerEntry,
    LedgerKey,
    SplitKey,
    State,
    decode_entry,
    decode_key,
    encode_entry,
    encode_key,
    is_control_key,
    shortened,
)
from headrace.model.objects import ObjectId, PlacedTombstones, RowPlace, SideObject
from headrace.model.positions import (
    BlockPosition,
    BytePosition,
    ElementPosition,
    JoinedPosition,
    MemberPosition,
    RowPosition,
)

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
COUNT = st.integers(0, 2**63 - 1)
IDS = st.builds(ObjectId, TEXT, TEXT, TEXT)
KEYS: st.SearchStrategy[LedgerKey] = st.one_of(
    IDS, st.builds(SplitKey, IDS, COUNT, COUNT), st.builds(ControlKey, TEXT)
)
PLAIN_POSITIONS = st.one_of(
    st.builds(BytePosition, COUNT),
    st.builds(ElementPosition, COUNT, COUNT),
    st.builds(BlockPosition, COUNT, COUNT),
    st.builds(RowPosition, COUNT, COUNT),
)
POSITIONS = (
    PLAIN_POSITIONS
    | st.builds(JoinedPosition, st.none() | PLAIN_POSITIONS, COUNT, COUNT)
    | st.builds(MemberPosition, COUNT, COUNT, TEXT, PLAIN_POSITIONS)
)
SIDES = st.builds(SideObject, TEXT, TEXT, COUNT, st.none() | TEXT)
PLACES = st.lists(st.builds(RowPlace, COUNT, COUNT, COUNT), max_size=3).map(tuple)
TOMBSTONES = st.builds(PlacedTombstones, SIDES, st.none() | SIDES, PLACES)


@st.composite
def entries(draw: st.DrawFn) -> LedgerEntry:
    """Any entry: the options' hash goes with a position or with cuts."""
    position = draw(st.none() | POSITIONS)
    cuts = draw(st.none() | st.lists(COUNT).map(tuple))
    return LedgerEntry(
        state=draw(st.sampled_from(State)),
        reason=draw(st.none() | TEXT),
        records=draw(COUNT),
        bad=draw(COUNT),
        position=position,
        options=None if position is None and cuts is None else draw(TEXT),
        topic=draw(st.none() | TEXT),
        partition=draw(st.none() | COUNT),
        attempts=draw(COUNT),
        error=draw(st.none() | TEXT),
        size=draw(COUNT),
        version_id=draw(st.none() | TEXT),
        last_modified_ms=draw(COUNT),
        updated_ms=draw(COUNT),
        cuts=cuts,
        sides=draw(st.lists(SIDES, max_size=2).map(tuple)),
        tombstones=draw(st.lists(TOMBSTONES, max_size=2).map(tuple)),
    )


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        pytest.param(ObjectId("b", "k é/ +", "e"), '{"bucket":"b","key":"k é/ +","etag":"e"}', id="object"),
        pytest.param(
            SplitKey(ObjectId("b", "k", "e"), 0, 9),
            '{"bucket":"b","key":"k","etag":"e","slice":[0,9]}',
            id="slice",
        ),
        pytest.param(ControlKey("slots"), '{"control":"slots"}', id="control"),
    ],
)
def test_keys_are_compact_json_in_the_order_of_the_contract(key: LedgerKey, raw: str) -> None:
    """Compaction compares bytes: equal keys must be equal bytes, for ever."""
    assert encode_key(key) == raw.encode()


def test_a_value_has_every_field_of_the_contract_in_its_order() -> None:
    """`jq` users and other tools read these names."""
    shape = msgspec.json.decode(encode_entry(LedgerEntry(state=State.DONE)))

    assert list(shape) == [
        "v", "state", "reason", "records", "bad", "position", "topic", "partition",
        "attempts", "error", "size", "version_id", "last_modified_ms", "updated_ms",
    ]  # fmt: skip


@given(KEYS)
def test_every_key_comes_back(key: LedgerKey) -> None:
    """decode(encode(key)) is the key."""
    assert decode_key(encode_key(key)) == key
    assert is_control_key(encode_key(key)) is isinstance(key, ControlKey)


@given(entries())
def test_every_entry_comes_back(entry: LedgerEntry) -> None:
    """decode(encode(entry)) is the entry."""
    assert decode_entry(encode_entry(entry)) == entry


def test_a_sentence_of_any_length_fits_into_a_record() -> None:
    """A registry that quotes two schemas made a record above the topic's limit, which ended the ingester."""
    entry = LedgerEntry(state=State.QUARANTINED, error="a\n" + "x" * 2_000_000)

    assert len(encode_entry(entry)) < 5000
    assert decode_entry(encode_entry(entry)).error == "a\n" + "x" * (ERROR_MAX - 2)
    assert shortened("a\n" + "x" * 2_000_000) == "a\\n" + "x" * (ERROR_MAX - 4) + "…"
    # Escapes are longer than what they stand for; an entry is read back as it was committed.
    entry = LedgerEntry(state=State.QUARANTINED, error=shortened("\n" * 1_500))
    assert decode_entry(encode_entry(entry)) == entry
    assert shortened(entry.error or "") == entry.error


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b'{"v":2,"state":"done"}', "newer Headrace", id="newer format"),
        pytest.param(b'{"v":1,"state":"melted","position":null}', "'melted'", id="unknown state"),
        pytest.param(b"[]", "not Headrace's", id="other JSON"),
        pytest.param(b"\xff", "not Headrace's", id="no JSON"),
        pytest.param(b'{"v":1,"state":"done","position":{"x":1}}', "not Headrace's", id="unknown position"),
    ],
)
def test_a_value_that_cannot_be_understood_is_refused(raw: bytes, expected: str) -> None:
    """Guessing would lose or repeat records."""
    with pytest.raises(InvalidLedger, match=expected):
        decode_entry(raw)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_key_or_ledger_unfit(raw: bytes) -> None:
    """A foreign topic is named as such, not a stack trace."""
    try:
        key = decode_key(raw)
    except InvalidLedger as error:
        assert "not Headrace's" in str(error)  # noqa: PT017 - either outcome is right, by the input
    else:
        assert isinstance(key, ObjectId | SplitKey | ControlKey)
