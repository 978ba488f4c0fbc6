"""What a connector of a worker was created to do: written into its ledger once, by who leads it first."""

import time
from typing import Final

from headrace.kafka.control_records import CREATION, PAUSE, Creation, Pause, encode_control
from headrace.kafka.driver_ledger import DriverLedger
from headrace.model.clock import wall_ms
from headrace.model.errors import Unavailable

_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.01


def begin_as_created(ledger: DriverLedger, creation: Creation | None) -> None:
    """Return when the ledger says what this creation began with, or has said so before; None: nothing to say.

    So one that was deleted while it was stopped, and is created again, runs; and one that was created
    STOPPED and resumed since continues. Blocks. LeadershipLost, InvalidLedger, Unavailable.
    """
    if creation is None or ledger.control(CREATION) == creation:
        return
    pause = Pause(state=creation.state, at_ms=wall_ms())
    ledger.commit([(PAUSE, encode_control(pause)), (CREATION, encode_control(creation))])
    deadline = time.monotonic() + _SECONDS
    while ledger.control(CREATION) != creation:
        if time.monotonic() > deadline:
            raise Unavailable("The ledger is written, but cannot be read back yet: is Kafka up?")
        time.sleep(_LOOK_SECONDS)
