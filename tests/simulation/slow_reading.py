"""A limit on reading under which steps take longer than `job.max.seconds`: what is drawn, and what holds."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.model.slot_protocol import Batch
from tests.simulation.apart import OWN_FROM
from tests.simulation.objects import BLANK, PAD
from tests.simulation.pairs import valid_options
from tests.simulation.scenario import Scenario, Step

_SHARE: Final = 0.04
_PAD_SHARE: Final = 0.5
_RATES: Final = ("1024", "3000")
"""Small objects are fetched whole: so slowly that most take a batch's time."""
_PADDED_RATES: Final = ("300000", "700000")
"""Large ones come in chunks, each of which takes it."""
# Some chunks have no row.
_PADS: Final = (600_000, 3_500_000)
_LINES: Final = {"input.format": "jsonl", "input.archive": None, "json.path": None}
_BLANK_SHARE: Final = 0.3
"""Of those with large objects: some have no row for most of their bytes, and nothing disturbs them."""
_BLANK_BYTES: Final = 16_000_000
_UNDISTURBED: Final = frozenset({"start", "put", "wait"})
_CHUNK_BYTES: Final = 1024 * 1024
# A first chunk waits for what the batch before has read ahead; as long once more, and the one under way.
_CHUNKS: Final = 5
_PATIENCE_SECONDS: Final = 5.0


def with_slow_reading(scenario: Scenario, fixed: dict[str, str]) -> Scenario:
    """The scenario; some under such a limit, most of these with objects of several chunks.

    Drawn apart, so that what else a seed draws stays as it is.
    """
    rng = random.Random(f"slow-reading-{scenario.seed}")
    if scenario.seed < OWN_FROM or rng.random() >= _SHARE:
        return scenario
    is_padded = rng.random() < _PAD_SHARE
    changed: dict[str, str | None] = {
        "job.max.seconds": "1",
        "max.bytes.per.second": rng.choice(_PADDED_RATES if is_padded else _RATES),
        **(_LINES if is_padded else {}),
    }
    options = valid_options({**scenario.options, **changed}, fixed, {})
    if not is_padded:
        return scenario.without(options=options)
    if rng.random() < _BLANK_SHARE:
        return _with_blanks(scenario, {**options, "tasks.max": "1"})
    pad = (PAD, str(rng.choice(_PADS)).encode())
    records = tuple(
        replace(one, headers=(pad,)) if rng.random() < _PAD_SHARE else one for one in scenario.records
    )
    return scenario.without(options=options, records=records)


def _with_blanks(scenario: Scenario, options: dict[str, str]) -> Scenario:
    """The scenario, whose first object has rows at its end alone, with nothing that disturbs it."""
    first, *others = scenario.records
    name = first.topic.removesuffix(".gz").removesuffix(".zst")
    blank = replace(first, topic=name, headers=((BLANK, str(_BLANK_BYTES).encode()),))
    records = (blank, *(one for one in others if one.topic != blank.topic))
    steps = (Step(0.0, "put", {"begin": 0, "end": len(records), "late": 0.0}), Step(0.0, "start"))
    return scenario.without(options=options, records=records, steps=(*steps, Step(120.0, "wait")))


class BatchTimes:
    """How long a slot works on a batch that nothing disturbs, under a limit on reading."""

    def __init__(self, options: Mapping[str, str], steps: Sequence[Step]) -> None:
        rate, seconds = options.get("max.bytes.per.second"), options.get("job.max.seconds")
        is_read_from_anywhere = options.get("input.format") == "jsonl" and "input.archive" not in options
        self._most = float("inf")
        if rate and seconds and is_read_from_anywhere and all(step.act in _UNDISTURBED for step in steps):
            of_slot = int(rate) / int(options.get("tasks.max", "1"))
            self._most = int(seconds) + _CHUNKS * _CHUNK_BYTES / of_slot + _PATIENCE_SECONDS
        self._granted: dict[str, float] = {}
        """By slot, when it was given its batch."""

    def granted(self, batch: Batch, now: float) -> None:
        """A slot is given a batch."""
        self._granted.pop(str(batch.slot), None)
        # A compressed object is read to its end.
        if not any(split.object.id.key.endswith((".gz", ".zst")) for split in batch.splits):
            self._granted[str(batch.slot)] = now

    def late(self, transactional_id: str, now: float) -> str | None:
        """What is wrong with a commit of this id; None where it is in time, or none of a slot's."""
        age = now - self._granted.get(transactional_id.rpartition("-")[2], now)
        if age <= self._most:
            return None
        return f"a slot commits {age:.0f} s after it was given a batch, and {self._most:.0f} s is the most"
