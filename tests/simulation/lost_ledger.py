"""A copy of the ledger in `state.dir`, when brokers have lost the end of the ledger and it has grown again.

    python -m tests.simulation.lost_ledger

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

import hashlib
from collections import Counter
from typing import Final

from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.s3 import StoredObject
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


def _read(made: Environment, numbers: range | tuple[int, ...], machine: str) -> None:
    """New objects, and a process of a machine that lists them until nothing is left to do."""
    for number in numbers:
        row = b"%d\n" % number
        etag = hashlib.md5(row, usedforsecurity=False).hexdigest()
        stored = StoredObject(row, f'"{etag}"', {}, made.bucket.now_ms())
        made.bucket.put(INCOMING, f"in/{number:03}.jsonl", stored, "put")
    options = {**FIXED, "input.format": "jsonl", "state.dir": str(made.folder / machine)}
    one = Instance(made, options, until_idle=True)
    deadline = made.kernel.now + 300
    while not one.is_over and made.kernel.now < deadline:
        made.kernel.sleep(0.05)
    assert one.ending == "exit 0", one.ending
    made.kernel.sleep(12.0)


def _values(made: Environment) -> Counter[int]:
    """What is in Kafka."""
    return Counter(int(record.value or 0) for record in made.broker.visible(TOPIC, 0))


if __name__ == "__main__":
    lost_while_away()
