"""The short form of `make faults`: one service, and every kind of kill once."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.campaign import Campaign, Run
from tests.faults.fault_environment import open_site
from tests.faults.faults import Harm
from tests.faults.load import Shape

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_worker_broker_and_driver_killed(tmp_path: Path) -> None:
    """Under load, at moments that a seed decides: every row is there, once."""
    campaign = Campaign(
        name="short",
        title="JSONL, lingering tasks",
        harms={Harm.WORKER: 1, Harm.BROKER: 1, Harm.DRIVER: 1},
        options={
            "max__bytes__per__second": 2_000_000,
            "transaction__boundary__interval__ms": 300,
            # A broker that is long in starting ends no session, and who comes back does not wait for its end.
            "lead__session__timeout__ms": 45_000,
            "instance__id": "only",
        },
        shape=Shape(per_second=5.0, large_share=0.1, large_rows=(20_000, 40_000)),
    )
    with ExitStack() as stack:
        site = open_site(stack, tmp_path, own_s3=False)
        result, found = Run(campaign, site, seed=20).run()
    assert result.rows > 1000
    assert result.kills == 3
    assert (found.lost, found.duplicated) == (0, 0), found
    assert result.ended == []
