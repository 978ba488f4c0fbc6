"""Ledgers that brokers have lost: their end, which has grown again since, or all of them.

    python -m tests.simulation.lost_ledger
    python -m tests.simulation.lost_ledger marked

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from headrace.kafka.cache_files import claim_cache_directory, found_identity
from headrace.kafka.ledger_reader import lost_ledger
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidLedger
from headrace.options import Settings
from ingest.checks.probes.status_reader import StatusReader
from ingest.cli.object_command import objects_to_mark
from ingest.cli.replay_and_mark import begun
from ingest.cli.submit import SubmitOutcome, submit
from ingest.source.catalogue import Selection
from ingest.source.command_queue import new_commands
from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.s3 import SimulatedS3, StoredObject
from tests.simulation.source_generator import FIXED, INCOMING, TOPIC

_LEDGER: Final = "source-offsets"
_KEPT: Final = range(5)
_LOST: Final = range(5, 15)
_NEW: Final = range(15, 60)


def lost_while_away() -> None:
    """What another machine has read meanwhile is not read again by the one that has an older copy."""
    with environment(7) as made:
        made.bucket.make(INCOMING)
        made.broker.create(TOPIC, 1)

        def body() -> None:
            _read(made, _KEPT, "here")
            log = made.broker.log(_LEDGER, 0)
            cut = log.end
            _read(made, _LOST, "here")
            log.cut_off(cut)
            _read(made, _NEW, "there")
            assert log.end > cut + 2 * len(_LOST)
            before = _values(made)
            _read(made, (), "here")
            assert _values(made) == before
            assert before == {
                number: 2 if number in _LOST else 1 for each in (_KEPT, _LOST, _NEW) for number in each
            }

        made.operate(body)
        discarded = [line["reason"] for _, _, event, line in made.log if event == "cache_discarded"]
        assert len(discarded) == 1
        assert "brokers have lost records of the ledger" in discarded[0]


def _looked_for_once(settings: Settings) -> None:
    """A ledger that is not there is asked for once each time that the status is shown."""
    asked = []

    def open_ledger(settings: Settings, *, timeout: float) -> None:  # noqa: ARG001  # as it is called
        asked.append(timeout)

    reader = StatusReader(settings, timeout=60, open_ledger=open_ledger)
    for count in (1, 2):
        assert "is not there yet" in reader.status()["why"]
        assert reader.entries(frozenset(), "a") == []
        assert len(asked) == count, "it may be there by the next time, and not before"


def lost_and_marked() -> None:
    """Objects that are marked in the place of a ledger that is gone are not read again; others are."""
    with environment(7) as made:
        made.bucket.make(INCOMING)
        made.broker.create(TOPIC, 1)
        settings = made.settings({**FIXED, "input.format": "jsonl", "state.dir": str(made.folder / "here")})

        def body() -> None:
            assert lost_ledger(settings, timeout=60) is None, "nothing has begun"
            _looked_for_once(settings)
            _read(made, _KEPT, "here")
            made.broker.delete(_LEDGER)
            assert "is gone" in str(lost_ledger(settings, timeout=60))
            assert "is gone" in str(StatusReader(settings, timeout=60).status()["problems"]["ledger"])
            assert "is gone" in _refused(lambda: begun(settings, None, 60))
            assert _LEDGER not in made.broker.topics, "it was replaced on the way to the error"
            reading = begun(settings, None, 60, accept_new_ledger=True)
            assert "made again" in str(lost_ledger(settings, timeout=60))
            assert "made again" in str(StatusReader(settings, timeout=60).status()["problems"]["ledger"])
            chosen = [*objects_to_mark(SimulatedS3(made.bucket), reading.cache, settings, Selection())]
            at_ms = made.bucket.now_ms()
            commands = [
                each for one in chosen[1:] for each in new_commands("mark", [one.object], at_ms=at_ms)
            ]

            def mark(
                *, accept: bool, report: Callable[[int, int], None] = lambda _done, _all: None
            ) -> SubmitOutcome:
                return submit(
                    settings,
                    reading,
                    commands,
                    report_progress=report,
                    timeout=60,
                    accept_new_ledger=accept,
                )

            # What was made and not led yet is not the group's.
            assert "made again" in _refused(lambda: mark(accept=False))
            remembered = _remembered(settings)
            assert remembered is not None
            # After its first mark, and between its last one and the acceptance.
            for marks in (1, len(commands)):
                with suppress(_Killed):
                    mark(accept=True, report=partial(_killed, marks))
                    raise AssertionError("it died")
                made.kernel.sleep(30.0)
                assert _remembered(settings) == remembered, "the second memory of what was lost"
                # On the machine that remembers the ledger, and on one that has the group's memory alone.
                for machine in ("here", f"there-{marks}"):
                    why = "what is not marked yet would be read again"
                    assert "made again" in str(_ended(made, machine)), why
                assert _values(made) == dict.fromkeys(_KEPT, 1)
            assert mark(accept=True) is SubmitOutcome.APPLIED_HERE
            assert _remembered(settings) is None
            reading.close()
            _read(made, _NEW, "here")
            assert _values(made) == {**dict.fromkeys((*_KEPT, *_NEW), 1), _KEPT[0]: 2}

        made.operate(body)


def _remembered(settings: Settings) -> LedgerIdentity | None:
    """The ledger that the cache in `state.dir` is of."""
    assert settings.state_dir is not None
    home = claim_cache_directory(settings.state_dir, settings.name)
    assert home is not None
    try:
        return found_identity(home)
    finally:
        home.close()


class _Killed(Exception):
    """The end of a command."""


def _killed(marks: int, done: int, _all: int) -> None:
    if done >= marks:
        raise _Killed


def _refused(act: Callable[[], object]) -> str:
    try:
        act()
    except InvalidLedger as error:
        return str(error)
    raise AssertionError("it is refused")


def _read(made: Environment, numbers: range | tuple[int, ...], machine: str) -> None:
    """New objects, and a process of a machine that lists them until nothing is left to do."""
    for number in numbers:
        row = b"%d\n" % number
        etag = hashlib.md5(row, usedforsecurity=False).hexdigest()
        stored = StoredObject(row, f'"{etag}"', {}, made.bucket.now_ms())
        made.bucket.put(INCOMING, f"in/{number:03}.jsonl", stored, "put")
    assert (ending := _ended(made, machine)) == "exit 0", ending


def _ended(made: Environment, machine: str) -> str | None:
    """How a process of a machine ends that has nothing left to do."""
    options = {**FIXED, "input.format": "jsonl", "state.dir": str(made.folder / machine)}
    one = Instance(made, options, until_idle=True)
    deadline = made.kernel.now + 300
    while not one.is_over and made.kernel.now < deadline:
        made.kernel.sleep(0.05)
    made.kernel.sleep(12.0)
    return one.ending


def _values(made: Environment) -> Counter[int]:
    """What is in Kafka."""
    return Counter(int(record.value or 0) for record in made.broker.visible(TOPIC, 0))


if __name__ == "__main__":
    if sys.argv[1:] == ["marked"]:
        lost_and_marked()
    else:
        lost_while_away()
