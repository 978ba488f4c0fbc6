"""`make faults` for the workers of one group: any is killed with -9, connectors of both kinds go on."""

import random
import statistics
import time
from pathlib import Path
from typing import Final

import pytest

from localstack.steps import say
from tests.faults.worker_group import Group, leads

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(5400)]

_KILLS: Final = 50
_SESSION_SECONDS: Final = 6.0
# A session begins with the last heartbeat; behind it who has joined is given the lead, and reads its ledger.
_TAKE_OVER_SECONDS: Final = 6.0
# How often the next worker is killed before the one before is back.
_OVERLAP: Final = 0.2


def test_campaign_workers(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """No row is lost, none comes twice, every connector is led again in time; the broken one stays FAILED."""
    seed = request.config.getoption("--faults-seed")
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    print(f"workers: --faults-seed={seed}")  # noqa: T201 - pytest shows it when the test fails
    kills = max(1, round(_KILLS * request.config.getoption("--faults-share")))
    began, chance, led = time.monotonic(), random.Random(seed), list[float]()
    group = Group(tmp_path, chance)
    try:
        group.open()
        for number in range(kills):
            if chance.random() >= _OVERLAP or len(group.living()) < group.size:
                _bring_back(group)
                group.await_spread()
            time.sleep(chance.uniform(0.2, 4.0))  # the moment is random, not waited for
            found = _kill_one(group, chance)
            led += found
            say("workers", f"{number + 1}/{kills} killed, led again: {[round(one, 1) for one in found]}")
        _bring_back(group)
        group.await_spread()
        group.settle()
    finally:
        group.close()
    rows, lost, twice = group.account()
    print(  # noqa: T201 - for docs/faults.md
        f"{kills} kills, {rows:,} rows: {lost} lost, {twice} twice; led again after "
        f"{statistics.median(led):.1f} s (median), {max(led):.1f} s (worst of {len(led)}); "
        f"{(time.monotonic() - began) / 60:.1f} minutes; seed {seed}"
    )
    assert (lost, twice, group.owed()) == (0, 0, [])
    assert max(led) <= _SESSION_SECONDS + _TAKE_OVER_SECONDS


def _kill_one(group: Group, chance: random.Random) -> list[float]:
    """How long each connector that the killed worker led was without a lead."""
    victim = chance.choice(group.living())
    had = leads(victim)
    victim.kill()
    return list(group.await_led(had, since=time.monotonic(), seconds=60).values())


def _bring_back(group: Group) -> None:
    """Start those again that were killed."""
    dead = [one for one in group.workers if one not in group.living()]
    for worker in dead:
        worker.start()
    for worker in dead:
        worker.await_ready(240)
