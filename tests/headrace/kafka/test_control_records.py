import pytest

from headrace.kafka.cache_files import CONTROL_BEGINS, collect_rows
from headrace.kafka.control_records import (
    CREATION,
    FIRST_START,
    OWNER,
    PAUSE,
    SLOTS,
    TOPICS,
    AbsentRange,
    CommandRecord,
    Control,
    Creation,
    FirstStart,
    Owner,
    Pause,
    SlotCount,
    TargetState,
    TopicsReset,
    command_key,
    decode_control,
    encode_control,
    first_start_key,
    is_command,
    pause_of,
)
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import ControlKey, encode_key


@pytest.mark.parametrize(
    ("key", "control", "raw"),
    [
        (SLOTS, SlotCount(slots=4), b'{"v":1,"slots":4}'),
        (OWNER, Owner(name="flights"), b'{"v":1,"name":"flights"}'),
        (FIRST_START, FirstStart(at_ms=7, start_key="k"), b'{"v":1,"at_ms":7,"start_key":"k","moved_to":[]}'),
        (
            FIRST_START,
            FirstStart(at_ms=7, uploads={"é": 5}),
            '{"v":1,"at_ms":7,"start_key":null,"uploads":{"é":5},"moved_to":[]}'.encode(),
        ),
        (
            first_start_key("uploads"),
            FirstStart(at_ms=7, moved_to=("in/done/",)),
            b'{"v":1,"at_ms":7,"start_key":null,"moved_to":["in/done/"]}',
        ),
        (
            first_start_key("uploads"),
            FirstStart(at_ms=7, absent=(AbsentRange("in/a", "e", "in/é", "", 5),)),
            '{"v":1,"at_ms":7,"start_key":null,"moved_to":[],"absent":[["in/a","e","in/é","",5]]}'.encode(),
        ),
        (PAUSE, Pause(state=TargetState.PAUSED, at_ms=7), b'{"v":1,"state":"paused","at_ms":7}'),
        (
            CREATION,
            Creation(id=5, state=TargetState.STOPPED),
            b'{"v":1,"id":5,"state":"stopped"}',
        ),
        (
            TOPICS,
            TopicsReset(at_ms=7, offsets=(("t", 0, 3),)),
            b'{"v":1,"at_ms":7,"offsets":[["t",0,3]]}',
        ),
        (
            command_key("c1"),
            CommandRecord(action="replay", at_ms=7),
            b'{"v":1,"action":"replay","from_start":false,"at_ms":7}',
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ControlKey) else "",
)
def test_controls_there_and_back(key: ControlKey, control: Control, raw: bytes) -> None:
    """The bytes in the topic are pinned: a ledger outlives the version that wrote it."""
    assert encode_control(control) == raw
    assert decode_control(key, raw) == control
    assert encode_key(key).startswith(CONTROL_BEGINS)
    assert collect_rows([(encode_key(key), raw)]).controls == {key.name: raw}


@pytest.mark.parametrize("state", TargetState)
def test_what_was_asked_last_is_found_among_the_controls(state: TargetState) -> None:
    """Without a record nothing was."""
    pause = Pause(state=state, at_ms=7)
    others = {SLOTS: encode_control(SlotCount(slots=4))}

    assert pause_of({**others, PAUSE: encode_control(pause)}) == pause
    assert pause_of(others) is None


def test_a_first_start_of_an_older_version_is_read() -> None:
    """It knew of no prefixes that objects were moved to."""
    raw = b'{"v":1,"at_ms":7,"start_key":"k"}'

    assert decode_control(FIRST_START, raw) == FirstStart(at_ms=7, start_key="k")


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        pytest.param(SLOTS, b'{"v":2,"slots":4}', id="newer"),
        pytest.param(ControlKey("moon"), b'{"v":1}', id="unknown"),
        pytest.param(SLOTS, b'{"v":1,"slots":"4"}', id="shape"),
        pytest.param(SLOTS, b"4", id="no-object"),
        pytest.param(PAUSE, b'{"v":1,"state":"asleep","at_ms":7}', id="unknown-state"),
    ],
)
def test_a_foreign_control_is_refused(key: ControlKey, raw: bytes) -> None:
    """A control that is not understood must not be passed over: it may be why something must not happen."""
    with pytest.raises(InvalidLedger):
        collect_rows([(encode_key(key), raw)])


def test_commands_have_keys_of_their_own() -> None:
    """Two commands never share a key, or compaction would lose the first."""
    assert command_key("a") != command_key("b")
    assert is_command(command_key("a"))
    assert not is_command(SLOTS)
