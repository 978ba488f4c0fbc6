"""A limit on reading under which first rows take longer than `job.max.seconds`: what is drawn."""

import random
from dataclasses import replace
from typing import Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.objects import PAD
from tests.simulation.pairs import valid_options
from tests.simulation.scenario import Scenario

_SHARE: Final = 0.04
_PAD_SHARE: Final = 0.5
_RATES: Final = ("1024", "3000")
"""Small objects are fetched whole: so slowly that most take a batch's time."""
_PADDED_RATES: Final = ("300000", "700000")
"""Large ones come in chunks, each of which takes it."""
# Some chunks have no row.
_PADS: Final = (600_000, 3_500_000)
_LINES: Final = {"input.format": "jsonl", "input.archive": None, "json.path": None}


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
    pad = (PAD, str(rng.choice(_PADS)).encode())
    records = tuple(
        replace(one, headers=(pad,)) if rng.random() < _PAD_SHARE else one for one in scenario.records
    )
    return scenario.without(options=options, records=records)
