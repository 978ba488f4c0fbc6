"""Locks of Lenses' sink: those that it wrote, those that are damaged, and their names."""

import json
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.vendors.lenses.names import (
    CopyOperation,
    DeleteOperation,
    IndexPlace,
    InvalidLock,
    Lock,
    Operation,
    PendingCommit,
    UploadOperation,
    offset_of,
    read_lock,
    values_of,
    written_lock,
)
from tests.headrace.vendors.archive import archives

_OWNER = "62032a5d-2d1a-4128-884a-8b1e7883f332"
_PENDING = {
    "owner": _OWNER,
    "committedOffset": 9,
    "pendingState": {
        "pendingOffset": 19,
        "pendingOperations": [
            {"bucket": "b", "source": "staged/1", "destination": ".temp-upload/t", "type": "upload"},
            {"bucket": "b", "source": ".temp-upload/t", "destination": "t", "eTag": '"e"', "type": "copy"},
            {"bucket": "b", "source": ".temp-upload/t", "eTag": '"e"', "type": "delete"},
        ],
    },
}

_text = st.text(min_size=1)
_offsets = st.integers(0, 2**63 - 1)
_operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(UploadOperation, bucket=_text, source=st.text(), destination=_text),
    st.builds(CopyOperation, bucket=_text, source=_text, destination=_text, etag=_text),
    st.builds(DeleteOperation, bucket=_text, source=_text, etag=_text),
)
_locks = st.builds(
    Lock,
    owner=st.text(),
    committed=st.none() | _offsets,
    pending=st.none()
    | st.builds(PendingCommit, offset=_offsets, operations=st.lists(_operations, min_size=1).map(tuple)),
)


@given(_locks)
def test_what_is_written_reads_back(lock: Lock) -> None:
    """With members in the words of Lenses, unknown ones aside."""
    raw = written_lock(lock)
    assert read_lock(raw) == lock
    shown = json.loads(raw)
    assert set(shown) == {"owner", "committedOffset", "pendingState"}
    assert read_lock(json.dumps({**shown, "later": 1}).encode()) == lock


def test_operations_have_the_members_of_lenses() -> None:
    """Lenses goes on where we have written, and we where it has."""
    lock = read_lock(json.dumps(_PENDING).encode())
    assert lock.pending is not None
    assert [type(each) for each in lock.pending.operations] == [
        UploadOperation,
        CopyOperation,
        DeleteOperation,
    ]
    assert (lock.committed, lock.pending.offset) == (9, 19)
    assert json.loads(written_lock(lock)) == _PENDING


@given(st.binary(min_size=1) | st.text(min_size=1).map(str.encode))
def test_any_bytes_are_a_lock_or_refused(raw: bytes) -> None:
    """With a sentence, and no other exception."""
    try:
        read_lock(raw)
    except InvalidLock as error:
        assert str(error)  # noqa: PT017  # it may also be a lock


@pytest.mark.parametrize(
    "damage",
    [
        {"committedOffset": -1},
        {"committedOffset": "9"},
        {"committedOffset": 2**63},
        {"owner": None},
        {"pendingState": {"pendingOffset": 1, "pendingOperations": []}},
        {"pendingState": {"pendingOffset": 1, "pendingOperations": [{"type": "rename", "bucket": "b"}]}},
        {"pendingState": {"pendingOffset": 1, "pendingOperations": [{"type": "copy", "bucket": "b"}]}},
        {"pendingState": {"pendingOperations": [{"type": "delete", "bucket": "b"}]}},
    ],
    ids=str,
)
def test_a_damaged_lock_is_refused(damage: dict[str, object]) -> None:
    """What would be guessed decides where reading begins."""
    with pytest.raises(InvalidLock):
        read_lock(json.dumps(_PENDING | damage).encode())


def test_an_empty_lock_says_nothing() -> None:
    """A write that was cut leaves it; Lenses takes it as a new one."""
    assert read_lock(b"") == Lock(owner="")


_names = st.text(min_size=1)


def _encoded(text: str) -> str:
    return quote_plus(text, safe="").replace("_", "%5F")


@given(st.lists(st.tuples(_names, st.text()), min_size=1))
def test_names_of_group_locks_read_back(pairs: list[tuple[str, str]]) -> None:
    """Whatever characters names and values have."""
    stem = "_".join(f"{_encoded(name)}={_encoded(value)}" for name, value in pairs)
    assert values_of(f".indexes/c/.locks/Topic(t)/0/{stem}.lock") == tuple(pairs)


@pytest.mark.parametrize("name", ["sweep-marker.json", "a.lock", "a=1_b.lock", "a=1.lock.tmp.7"])
def test_other_files_are_no_group_locks(name: str) -> None:
    """Lenses keeps more there."""
    assert values_of(f".indexes/c/.locks/Topic(t)/0/{name}") is None


@pytest.mark.parametrize(
    ("name", "offset"),
    [("00000000000000000042", 42), ("7", 7), ("1" * 21, None), ("x", None), ("", None)],
)
def test_offsets_in_names(name: str, offset: int | None) -> None:
    """Files of releases before 9."""
    assert offset_of(f".indexes/c/t/00000/{name}") == offset


def test_locks_that_lenses_wrote() -> None:
    """Every lock of every archive is found by its place, and nothing is left half done."""
    seen = 0
    for archive in archives():
        for key, body in archive.objects.items():
            root, _, below = key.partition("/.locks/")
            if not below:
                continue
            root, _, connector = root.rpartition("/")
            topic, partition, *group = below.removesuffix(".lock").split("/")
            place = IndexPlace(
                root=root,
                connector=connector,
                topic=topic.removeprefix("Topic(").removesuffix(")"),
                partition=int(partition),
            )
            lock = read_lock(body)
            assert lock.pending is None
            assert key in place.locks or (group and values_of(key) and key.startswith(place.group_locks))
            seen += 1
    assert seen > 100
