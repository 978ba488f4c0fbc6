"""A connector begins as it was created, once for each creation, whatever it was left at before."""

from dataclasses import dataclass, field
from typing import cast

from headrace.kafka.control_records import (
    CREATION,
    PAUSE,
    Control,
    Creation,
    Pause,
    TargetState,
    decode_control,
    encode_control,
)
from headrace.kafka.driver_ledger import DriverLedger
from headrace.model.ledger_entry import ControlKey
from ingest.service.leadership_phase import begin_as_created


@dataclass(slots=True)
class Records:
    """A ledger's control records."""

    controls: dict[ControlKey, bytes] = field(default_factory=dict)
    commits: int = 0

    def control(self, key: ControlKey) -> Control | None:
        """As it was committed."""
        raw = self.controls.get(key)
        return None if raw is None else decode_control(key, raw)

    def commit(self, writes: list[tuple[ControlKey, bytes]]) -> None:
        """All of them."""
        self.commits += 1
        self.controls.update(writes)

    @property
    def target(self) -> TargetState | None:
        """What is wanted of the connector."""
        found = self.control(PAUSE)
        return found.state if isinstance(found, Pause) else None

    def begin(self, creation: Creation | None) -> None:
        """As a leader does."""
        begin_as_created(cast(DriverLedger, self), creation)


def test_it_begins_as_it_was_created_and_goes_on_as_it_was_left() -> None:
    """The second leader finds that it was resumed since."""
    ledger, creation = Records(), Creation(id=1, state=TargetState.STOPPED)
    ledger.begin(creation)
    assert (ledger.target, ledger.control(CREATION)) == (TargetState.STOPPED, creation)

    ledger.controls[PAUSE] = encode_control(Pause(state=TargetState.RUNNING, at_ms=2))
    ledger.begin(creation)
    assert (ledger.target, ledger.commits) == (TargetState.RUNNING, 1)


def test_one_that_was_deleted_while_stopped_and_created_again_runs() -> None:
    """Its ledger is the one of before."""
    ledger = Records({PAUSE: encode_control(Pause(state=TargetState.STOPPED, at_ms=2))})
    ledger.begin(Creation(id=3, state=TargetState.RUNNING))

    assert ledger.target is TargetState.RUNNING


def test_one_that_no_request_created_goes_on_as_it_was_left() -> None:
    """`headrace run`, and connectors that are files."""
    ledger = Records({PAUSE: encode_control(Pause(state=TargetState.PAUSED, at_ms=2))})
    ledger.begin(None)

    assert (ledger.target, ledger.commits) == (TargetState.PAUSED, 0)
