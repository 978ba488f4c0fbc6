import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.kafka.cache_files import claim_cache_directory
from headrace.kafka.fencing import parse_group_metadata
from headrace.kafka.leadership import Leadership, Role, group_id
from headrace.model.errors import LeadershipLost
from headrace.model.ledger_entry import State
from tests.headrace.kafka.ingester import Ingester, object_id
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

ROOT = Path(__file__).parents[3]
# What does not wait for a session (two minutes here) to be over; on a busy machine it takes its time.
_AT_ONCE_SECONDS = 40


def is_refused(ingester: Ingester, metadata: bytes) -> int | None:
    """The code with which a task's transaction under this metadata is refused; None when it commits."""
    producer = ingester.slot(90)
    try:
        ingester.checkpoint(producer, metadata, object_id(1))
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return None


def test_the_second_waits_and_takes_over(ingester: Ingester) -> None:
    """A standby waits; after a clean stop of the leader it leads at once, not when a session is over."""
    first = ingester.lead(session_timeout_ms=120_000)
    second = ingester.member(session_timeout_ms=120_000)
    until_sync(lambda: second.role is Role.STANDBY, what="the second is a standby")
    assert not second.wait_for_lead(0.2, ingester.stop)
    with pytest.raises(LeadershipLost):
        second.metadata()
    left = time.monotonic()
    first.close()
    assert second.wait_for_lead(60, ingester.stop)
    assert time.monotonic() - left < _AT_ONCE_SECONDS
    assert first.role is Role.CLOSED
    with pytest.raises(LeadershipLost):
        first.metadata()


def test_a_standby_raises_the_generation_and_the_leader_hears_it(ingester: Ingester) -> None:
    """The assignment that says so is empty; metadata of before is refused, that of after is taken.

    Mutation tried: capturing only when `partitions` is not empty leaves the leader with refused metadata.
    """
    leader = ingester.lead()
    before = leader.metadata()
    assert is_refused(ingester, before) is None
    standby = ingester.member()
    until_sync(lambda: standby.role is Role.STANDBY)
    until_sync(lambda: leader.metadata() != before, what="the leader has heard of the generation")
    assert parse_group_metadata(leader.metadata()).generation > parse_group_metadata(before).generation
    assert leader.role is Role.LEADER
    assert is_refused(ingester, before) == KafkaError.ILLEGAL_GENERATION
    assert is_refused(ingester, leader.metadata()) is None


def test_stopping_ends_the_wait(ingester: Ingester) -> None:
    """A standby that is told to stop does so at once."""
    ingester.lead()
    standby, stop = ingester.member(), threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    assert not standby.wait_for_lead(None, stop)
    assert time.monotonic() - began < _AT_ONCE_SECONDS


def test_the_same_instance_id_twice_ends_the_first(ingester: Ingester) -> None:
    """FENCED_INSTANCE_ID: it hears so, clears its metadata and never joins again."""
    lost: list[str] = []
    first = ingester.lead(instance_id="one", on_lost=lost.append)
    second = ingester.lead(instance_id="one")
    # It is told last: whoever asks for the role may see the loss before.
    until_sync(lambda: lost, what="it is told")
    assert first.role is Role.LOST
    assert len(lost) == 1
    # Both would take the lead from each other for ever: what ends it has to be in the log.
    assert "instance.id 'one'" in lost[0]
    assert "an instance.id of its own" in lost[0]
    with pytest.raises(LeadershipLost, match="does not lead"):
        first.metadata()
    with pytest.raises(LeadershipLost):
        first.wait_for_lead(1, ingester.stop)
    assert second.role is Role.LEADER


def test_a_static_member_is_back_at_once(ingester: Ingester) -> None:
    """After a crash (here: a member that never said it left) its partition is given back without a wait.

    The generation may be the same: what the one before still sends is refused by its member id.
    """
    first = ingester.lead(instance_id="one", session_timeout_ms=120_000)
    old = first.metadata()
    assert is_refused(ingester, old) is None
    began = time.monotonic()
    second = ingester.lead(instance_id="one", session_timeout_ms=120_000)
    assert time.monotonic() - began < _AT_ONCE_SECONDS
    assert is_refused(ingester, old) == KafkaError.FENCED_INSTANCE_ID
    assert is_refused(ingester, second.metadata()) is None


def test_a_static_member_that_stops_is_not_missed(ingester: Ingester) -> None:
    """A clean stop leaves the group, as a member without an id does: nobody waits for its session."""
    first = ingester.lead(instance_id="one", session_timeout_ms=120_000)
    standby = ingester.member(session_timeout_ms=120_000)
    until_sync(lambda: standby.role is Role.STANDBY)
    began = time.monotonic()
    first.close()
    assert standby.wait_for_lead(60, ingester.stop)
    assert time.monotonic() - began < _AT_ONCE_SECONDS


def test_a_process_that_was_killed_is_not_waited_for(ingester: Ingester, tmp_path: Path) -> None:
    """Who gets the lock of `state.dir` next takes its place in the group, and waits for no session."""
    with zombie(ingester, 120_000, tmp_path) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[0] == "leads"
        assert claim_cache_directory(tmp_path, ingester.name) is None
        process.kill()
        process.wait(60)

        began = time.monotonic()
        home = claim_cache_directory(tmp_path, ingester.name)
        assert home is not None
        with closing(home):
            after = ingester.lead(instance_id=home.instance_id(), session_timeout_ms=120_000)
            assert time.monotonic() - began < _AT_ONCE_SECONDS
            assert is_refused(ingester, bytes.fromhex(said[1])) == KafkaError.FENCED_INSTANCE_ID
            assert is_refused(ingester, after.metadata()) is None


def test_a_broker_that_is_not_there_is_waited_for(ingester: Ingester) -> None:
    """Not joining in time is False, with what is wrong said beside."""
    away = Leadership({"bootstrap.servers": "127.0.0.1:1"}, name=ingester.name, ledger_topic=ingester.topic)
    ingester.stack.callback(away.close)
    away.join()
    assert not away.wait_for_lead(1.0, ingester.stop)
    assert away.role is Role.JOINING
    until_sync(lambda: away.problem is not None)
    assert "bootstrap.servers" in str(away.problem)


@contextmanager
def zombie(
    ingester: Ingester, session_timeout_ms: int, state_dir: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """The process of zombie.py, killed afterwards in whatever state it is."""
    argv = [
        sys.executable,
        "-m",
        "tests.headrace.kafka.zombie",
        ingester.bootstrap,
        ingester.name,
        ingester.topic,
    ]
    process = subprocess.Popen(
        [*argv, str(session_timeout_ms), *([] if state_dir is None else [str(state_dir)])],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        process.wait(60)


def test_a_killed_leader_with_a_standby_is_followed_by_one(ingester: Ingester, tmp_path: Path) -> None:
    """Started again before its session ends it has its place, and the standby remains one."""
    with zombie(ingester, 30_000, tmp_path) as process:
        assert process.stdout is not None
        old = bytes.fromhex(process.stdout.readline().split()[1])
        standby = ingester.member(session_timeout_ms=30_000)
        until_sync(lambda: standby.role is Role.STANDBY)
        process.kill()
        process.wait(60)
        home = claim_cache_directory(tmp_path, ingester.name)
        assert home is not None
        with closing(home):
            after = ingester.lead(instance_id=home.instance_id(), session_timeout_ms=30_000)
            assert is_refused(ingester, old) is not None
            assert is_refused(ingester, after.metadata()) is None
            assert standby.role is Role.STANDBY


def test_a_place_that_two_have_is_led_by_one(ingester: Ingester) -> None:
    """A lock that was granted twice costs the first its lead; its leaving does not touch the second's."""
    first = ingester.lead(instance_id="state.dir-1", session_timeout_ms=30_000)
    old = first.metadata()
    second = ingester.lead(instance_id="state.dir-1", session_timeout_ms=30_000)
    assert is_refused(ingester, old) == KafkaError.FENCED_INSTANCE_ID
    until_sync(lambda: first.role is Role.LOST)
    assert first.is_replaced
    first.close()
    before = second.metadata()
    again = ingester.member(session_timeout_ms=30_000)
    until_sync(lambda: again.role is Role.STANDBY)
    until_sync(lambda: second.metadata() != before, what="the leader has heard of the generation")
    assert second.role is Role.LEADER
    assert not second.is_replaced
    assert is_refused(ingester, second.metadata()) is None


@pytest.mark.parametrize("has_place", [False, True])
def test_a_paused_leader_comes_back_to_nothing(
    ingester: Ingester, tmp_path: Path, *, has_place: bool
) -> None:
    """SIGSTOP beyond the session timeout: a standby takes over; continued, the first can commit nothing more.

    Also with a place in the group by its `state.dir`, whose lock it has all along.

    It carries the metadata of its lead as a lingering batch does, and its transactional id was not fenced:
    the group alone refuses it. Mutation tried: without `send_offsets_to_transaction` it answers `wrote`.
    """
    with zombie(ingester, 6000, tmp_path if has_place else None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[0] == "leads"
        old = bytes.fromhex(said[1])
        standby = ingester.member(session_timeout_ms=6000)
        process.send_signal(signal.SIGSTOP)
        paused = time.monotonic()
        if has_place:
            assert claim_cache_directory(tmp_path, ingester.name) is None
        assert standby.wait_for_lead(60, ingester.stop)
        # Otherwise it would wait until the paused one should have asked again: five minutes.
        assert time.monotonic() - paused < 6 + _AT_ONCE_SECONDS, "session timeout and what is at once"
        assert is_refused(ingester, old) in {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION}
        process.send_signal(signal.SIGCONT)
        process.stdin.write("write\n")
        process.stdin.flush()
        lines = {process.stdout.readline().split()[0] for _ in range(2)}
        assert lines == {"lost", "LeadershipLost"}
        assert standby.role is Role.LEADER
        ledger = ingester.ledger(standby)
        assert ledger.take_over(timeout=60).counts()[State.DONE] == 0


def test_the_group_is_named_after_the_ingester() -> None:
    """The name that ACLs are written for."""
    assert group_id("flights") == "headrace-flights"
