"""The ledger as Connect's partitions and offsets, there and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.control_records import TargetState
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import (
    BlockPosition,
    BytePosition,
    ElementPosition,
    JoinedPosition,
    MemberPosition,
    Position,
    RowPosition,
)
from headrace.options.choices import InputFormat
from ingest.http.rest.port import Change, InvalidOffsets, LedgerObject
from ingest.http.rest.rest_offsets import OffsetsReader, as_item, check_known, has_offset
from ingest.source.catalogue.object_commands import Offset
from tests.ingest.http.rest.recording_connector import READER, FakeConnector, ask

PATH = "/connectors/uploads/offsets"
PARTITION = {"bucket": "bucket", "key": "a.jsonl", "etag": "e1"}
A = ObjectId("bucket", "a.jsonl", "e1")


def a_known(state: State = State.DONE, **changes: Any) -> LedgerObject:
    """An object as the ledger may have it."""
    entry = LedgerEntry(state=state, records=3, size=30, last_modified_ms=1000, **changes)
    return LedgerObject(object=S3Object(id=A, size=30, last_modified_ms=1000), entry=entry)


def stopped(*known: LedgerObject) -> FakeConnector:
    """A connector whose offsets may be changed."""
    return FakeConnector(target=TargetState.STOPPED, slots=(), known={one.object.id: one for one in known})


def test_get_shows_state_and_position_of_each_object() -> None:
    """Flat, as Connect's offsets are."""
    partial = a_known(State.PARTIAL, position=BytePosition(17), options="abc")

    assert ask(stopped(partial), "GET", PATH)[:2] == (
        200,
        {
            "offsets": [
                {
                    "partition": PARTITION,
                    "offset": {
                        "state": "partial",
                        "byte": 17,
                        "options": "abc",
                        "records": 3,
                        "bad": 0,
                        "size": 30,
                        "last_modified_ms": 1000,
                    },
                }
            ]
        },
    )


def test_get_of_many_objects_comes_in_pieces_that_are_one_document() -> None:
    """A ledger with a million entries is never one text in memory."""
    known = {}
    for number in range(1_201):
        one = ObjectId("bucket", f'k"{number:04}\u00e9', "e")
        known[one] = LedgerObject(
            object=S3Object(id=one, size=1, last_modified_ms=1), entry=LedgerEntry(state=State.DONE)
        )
    response = ask(FakeConnector(known=known), "GET", PATH)[2]
    again = ask(FakeConnector(known=known), "GET", PATH)[1]

    assert response.more is not None
    assert [item["partition"]["key"] for item in again["offsets"]] == [one.key for one in known]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        pytest.param(LedgerEntry(state=State.NEW), False, id="to be read from its start"),
        pytest.param(LedgerEntry(state=State.NEW, position=BytePosition(4)), True, id="to be read on"),
        pytest.param(LedgerEntry(state=State.DONE), True, id="done"),
        pytest.param(LedgerEntry(state=State.PARTIAL, cuts=(0, 5, 9)), True, id="in slices"),
    ],
)
def test_an_object_without_progress_has_no_offset(entry: LedgerEntry, *, shown: bool) -> None:
    """After a reset Connect shows none either."""
    assert has_offset(entry) is shown


def test_an_object_in_slices_says_how_many_are_done() -> None:
    """Its positions are those of its slices."""
    known = LedgerObject(
        object=S3Object(id=A, size=1, last_modified_ms=1),
        entry=LedgerEntry(state=State.PARTIAL, cuts=(0, 5, 9)),
        splits=2,
        splits_done=1,
    )

    offset = as_item(known)["offset"]

    assert (offset["slices"], offset["slices_done"]) == (2, 1)


@given(
    state=st.sampled_from([state for state in State if state is not State.NEW]),
    records=st.integers(0, 2**40),
    bad=st.integers(0, 9),
    position=st.none()
    | st.builds(BytePosition, st.integers(0, 2**60))
    | st.builds(
        JoinedPosition, st.builds(BytePosition, st.integers(0, 9)), st.integers(0, 9), st.integers(0, 9)
    )
    | st.builds(
        MemberPosition,
        st.integers(0, 9),
        st.integers(0, 9),
        st.text(max_size=5),
        st.builds(BytePosition, st.integers(0, 9)),
    ),
    reason=st.none() | st.text(max_size=5),
)
def test_what_get_shows_patch_takes_back(
    state: State, records: int, bad: int, position: Position | None, reason: str | None
) -> None:
    """Law: a saved answer, sent again, sets what was saved."""
    entry = LedgerEntry(
        state=state,
        reason=reason,
        records=records,
        bad=bad,
        position=position,
        options=None if position is None else "abc",
        size=5,
        last_modified_ms=7,
        version_id="v",
    )
    seen = S3Object(id=A, size=5, last_modified_ms=7, version_id="v")

    changes = READER.read([as_item(LedgerObject(object=seen, entry=entry))])

    assert changes == [Change(object=seen, offset=Offset.of(entry))]


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [
        pytest.param(None, None, id="forgotten"),
        pytest.param({"state": "done"}, Offset(state=State.DONE), id="done"),
        pytest.param(
            {"byte": 17},
            Offset(state=State.NEW, position=BytePosition(17), options="0123456789abcdef"),
            id="a position alone",
        ),
        pytest.param(
            {"byte": 17, "options": "old", "records": 4, "state": "partial", "reason": None},
            Offset(state=State.PARTIAL, position=BytePosition(17), options="old", records=4),
            id="a position of old",
        ),
    ],
)
def test_patch_hands_on_what_is_wanted(offset: Any, wanted: Offset | None) -> None:
    """A position is one by the options of now unless it says which."""
    connector = stopped(a_known())

    status, shape, _ = ask(
        connector, "PATCH", PATH, {"offsets": [{"partition": PARTITION, "offset": offset}]}
    )

    assert (status, shape) == (
        200,
        {"message": "The offsets for this connector have been altered successfully"},
    )
    ((change,),) = connector.calls
    assert (change.object.id, change.offset) == (A, wanted)


NEEDED = "Partitions / offsets need to be provided for an alter offsets request"
NO_PARTITION = "offsets[0]: The partition for a source connector offset cannot be null or missing"
THREE = "offsets[0]: a partition holds bucket, key and etag, each a text, and nothing else"


def _one(partition: Any = PARTITION, offset: Any = None) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("{", "The body of the request is not JSON", id="no json"),
        pytest.param([], NEEDED, id="a list"),
        pytest.param({}, NEEDED, id="nothing"),
        pytest.param({"offsets": []}, NEEDED, id="empty"),
        pytest.param({"offsets": [{}]}, NO_PARTITION, id="no partition"),
        pytest.param(_one(None), NO_PARTITION, id="null partition"),
        pytest.param({"offsets": [7]}, NO_PARTITION, id="a number"),
        pytest.param(_one({"bucket": "bucket", "key": "a"}), THREE, id="no etag"),
        pytest.param(_one({**PARTITION, "slice": [1, 2]}), THREE, id="a slice"),
        pytest.param(_one({**PARTITION, "key": 7}), THREE, id="key is a number"),
        pytest.param(
            _one({**PARTITION, "bucket": "b2"}),
            "offsets[0]: the bucket of this connector is 'bucket'",
            id="another bucket",
        ),
        pytest.param(_one(offset=7), "offsets[0]: the offset has to be an object or null", id="offset is 7"),
        pytest.param(
            _one(offset={"byte": -1}), "offsets[0]: byte has to be a whole number from 0", id="negative"
        ),
        pytest.param(
            _one(offset={"byte": True}), "offsets[0]: byte has to be a whole number from 0", id="true"
        ),
        pytest.param(
            _one(offset={"byte": 2**70}), "offsets[0]: byte has to be a whole number from 0", id="too large"
        ),
        pytest.param(_one(offset={"state": 1}), "offsets[0]: state has to be a text", id="state is 1"),
        pytest.param(
            _one(offset={"state": "lost"}),
            "offsets[0]: state has to be one of: partial, done, skipped, failed, quarantined, new",
            id="unknown state",
        ),
        pytest.param(
            _one(offset={"group": 1, "row": 1}),
            "offsets[0]: an offset has no 'group' here; there are: state, reason, options, version_id, "
            "records, bad, size, last_modified_ms, byte",
            id="position of another format",
        ),
        pytest.param(
            _one(offset={}),
            "offsets[0]: a new object has no offset; to have all of it read again, set the offset to null",
            id="empty offset",
        ),
        pytest.param(
            {"offsets": [*_one()["offsets"], *_one(offset={"state": "done"})["offsets"]]},
            "offsets[1]: its partition was given another offset before",
            id="twice",
        ),
        pytest.param(
            {"offsets": [{}] * 5_001},
            "At most 5,000 offsets can be altered at once: send them in several requests",
            id="too many",
        ),
    ],
)
def test_patch_of_nonsense_is_400_and_names_the_item(body: Any, message: str) -> None:
    """Nothing of it is done."""
    connector = stopped(a_known())

    assert ask(connector, "PATCH", PATH, body)[:2] == (400, {"error_code": 400, "message": message})
    assert connector.calls == []


@pytest.mark.parametrize("offset", [{"byte": 17}, {"state": "done"}], ids=["read on", "done"])
def test_an_offset_of_an_unknown_object_needs_its_size(offset: dict[str, Any]) -> None:
    """When it is read, now or after a reset, what S3 says is held against it."""
    connector = stopped()

    refused = ask(connector, "PATCH", PATH, _one(offset=offset))
    taken = ask(connector, "PATCH", PATH, _one(offset={**offset, "size": 0}))

    assert refused[0] == 400
    assert "its offset has to hold size" in refused[1]["message"]
    assert taken[0] == 200
    assert len(connector.calls) == 1


MUST_BE_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/uploads/stop' endpoint"
)


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("target", "slots"),
    [
        pytest.param(TargetState.RUNNING, ((0, False),), id="running"),
        pytest.param(TargetState.PAUSED, ((0, False),), id="paused"),
        pytest.param(TargetState.STOPPED, ((0, False),), id="still giving back"),
    ],
)
def test_offsets_are_changed_only_when_stopped(
    method: str, target: TargetState, slots: tuple[tuple[int, bool], ...]
) -> None:
    """400 in Connect's words, with the way out."""
    connector = FakeConnector(target=target, slots=slots)

    assert ask(connector, method, PATH, _one())[:2] == (400, {"error_code": 400, "message": MUST_BE_STOPPED})
    assert connector.calls == []


def test_delete_resets_all() -> None:
    """Connect's message."""
    connector = stopped(a_known())

    assert ask(connector, "DELETE", PATH)[:2] == (
        200,
        {"message": "The offsets for this connector have been reset successfully"},
    )
    assert connector.calls == ["reset"]


@pytest.mark.parametrize(
    ("input_format", "offset", "position"),
    [
        (InputFormat.JSON, {"element": 3, "byte": 40}, ElementPosition(3, 40)),
        (InputFormat.JSON, {"byte": 40}, BytePosition(40)),
        (InputFormat.CSV, {"byte": 40}, BytePosition(40)),
        (InputFormat.TEXT, {"byte": 40}, BytePosition(40)),
        (InputFormat.AUTO, {"byte": 40}, BytePosition(40)),
        (InputFormat.AUTO, {"element": 3, "byte": 40}, ElementPosition(3, 40)),
        (InputFormat.AUTO, {"group": 1, "row": 2}, RowPosition(1, 2)),
        (InputFormat.AUTO, {"block": 1, "record": 2}, BlockPosition(1, 2)),
        (
            InputFormat.JSON,
            {"entry": 1, "header": 512, "member": "a.json", "element": 3, "byte": 40},
            MemberPosition(1, 512, "a.json", ElementPosition(3, 40)),
        ),
    ],
)
def test_each_format_has_its_positions(
    input_format: InputFormat, offset: dict[str, int], position: Position
) -> None:
    """With `auto` the object decides, so that any is taken."""
    reader = OffsetsReader(buckets=("bucket",), input_format=input_format, options="0123456789abcdef")
    item = {"partition": {"bucket": "bucket", "key": "k", "etag": "e"}, "offset": offset}
    (change,) = reader.read([item])

    assert change.offset is not None
    assert change.offset.position == position


@pytest.mark.parametrize(
    ("input_format", "offset"),
    [
        (InputFormat.JSON, {"element": 40}),
        (InputFormat.AUTO, {"byte": 40, "row": 1}),
    ],
)
def test_half_a_position_is_none(input_format: InputFormat, offset: dict[str, int]) -> None:
    """The sentence says what a position has."""
    reader = OffsetsReader(buckets=("bucket",), input_format=input_format, options="0123456789abcdef")
    item = {"partition": {"bucket": "bucket", "key": "k", "etag": "e"}, "offset": offset}
    with pytest.raises(
        InvalidOffsets, match=r"a position has to hold (element and byte or byte|byte or element and byte)"
    ):
        reader.read([item])


@pytest.mark.parametrize(
    ("offset", "wrong"),
    [
        ({"values": {"byte": 1}, "row": 1, "tombstones": -1}, "values, row and tombstones"),
        ({"values": {"byte": "x"}, "row": 1, "tombstones": 0}, "values, row and tombstones"),
        (
            {"values": {"byte": 1}, "row": 1, "tombstones": 0, "byte": 1},
            "values, row and tombstones|no 'byte'",
        ),
    ],
)
def test_a_joined_position_is_whole_or_none(offset: dict[str, Any], wrong: str) -> None:
    """An object that is read with others goes on in all of them, or not at all."""
    item = {"partition": {"bucket": A.bucket, "key": A.key, "etag": A.etag}, "offset": offset}

    reader = OffsetsReader(buckets=(A.bucket,), input_format=InputFormat.AVRO, options="abc")
    with pytest.raises(InvalidOffsets, match=wrong):
        reader.read([item])


def test_a_joined_position_needs_an_entry_that_names_the_others() -> None:
    """Without it the object's keys would be left out from there on, in silence."""
    offset = {"state": "partial", "values": {"byte": 1}, "row": 1, "tombstones": 0, "size": 5}
    item = {"partition": {"bucket": A.bucket, "key": A.key, "etag": A.etag}, "offset": offset}
    (change,) = READER.read([item])

    with pytest.raises(InvalidOffsets, match="does not know with which objects"):
        check_known(change, None)
    check_known(change, LedgerObject(object=change.object, entry=LedgerEntry(state=State.PARTIAL)))


@pytest.mark.parametrize(
    "offset",
    [
        {"entry": 1, "header": 2, "member": "a"},
        {"entry": 1, "header": 2, "member": 3, "byte": 4},
        {"entry": -1, "header": 2, "member": "a", "byte": 4},
        {"entry": "1", "header": 2, "member": "a", "byte": 4},
        {"entry": 1, "member": "a", "byte": 4},
    ],
)
def test_half_a_position_in_an_archive_is_none(offset: dict[str, Any]) -> None:
    """It says which member, and where in it."""
    reader = OffsetsReader(buckets=("bucket",), input_format=InputFormat.JSONL, options="0123456789abcdef")
    item = {"partition": {"bucket": "bucket", "key": "k", "etag": "e"}, "offset": offset}

    with pytest.raises(InvalidOffsets, match="has to hold entry, header, member and where in it"):
        reader.read([item])
