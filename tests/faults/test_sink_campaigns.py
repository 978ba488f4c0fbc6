"""`make faults` for the sink: each campaign a test. Some: `make faults PYTEST_ARGS='-k sink-records'`."""

import random
from pathlib import Path
from typing import Final

import pytest

from localstack.cluster import cluster
from tests.faults.fault_environment import Site
from tests.faults.faults import Harm
from tests.faults.round_trip import RoundTrip
from tests.faults.sink_campaign import SinkCampaign, SinkRun
from tests.faults.sink_faults import SinkHarm
from tests.sink.archive_account import SIDES

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(7200)]

# A broker that is away for longer than the session costs the lead, which is a campaign of its own.
_PATIENTLY: Final = {"lead__session__timeout__ms": 45_000, "instance__id": "only"}
_JSON: Final = {
    "value__converter": "org.apache.kafka.connect.json.JsonConverter",
    "value__converter__schemas__enable": "false",
}
_BY_RECORDS: Final = {"rotate__records": 200, "rotate__age__ms": 5000}
_BY_CLOCK: Final = {
    "rotate__age__ms": 700,
    "file__name__template": "{{topic}}/{{date:yyyy-MM-dd/HH}}/{{partition}}/"
    "{{start_offset:padding=true}}.headrace{{extension}}",
    "file__name__timestamp__source": "wallclock",
}
# Many a group closes by its age, the larger ones by their records: some hold the committed offset back.
_BY_FIELD: Final = _JSON | {
    "rotate__age__ms": 12_000,
    "rotate__records": 40,
    "file__name__template": "{{value:group}}/{{topic}}/{{partition}}/"
    "{{start_offset:padding=true}}.headrace{{extension}}",
}
_TOGETHER: Final = _JSON | {
    "rotate__together": "total",
    "rotate__records": 1500,
    "rotate__age__ms": 5000,
    "rotate__age__from": "closed",
    "file__name__values": "plain",
    "file__name__template": "{{value:group}}/{{topic}}/{{partition}}/{{batch_offset}}.headrace{{extension}}",
}
_SIDES: Final = {
    "rotate__age__ms": 1500,
    "file__name__template": "topics/{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+"
    "{{start_offset:padding=true}}{{extension}}",
    **SIDES,
}

# 200 kills and 64 outages.
_EVERYTHING: Final[dict[Harm | SinkHarm, int]] = {
    Harm.WORKER: 50,
    Harm.WORKERS: 16,
    Harm.DAEMON: 8,
    Harm.DRIVER: 20,
    Harm.DRIVER_RETURNS: 5,
    Harm.BROKER: 14,
    Harm.CACHE: 4,
    SinkHarm.SEALED_WORKER: 20,
    SinkHarm.SEALED_DRIVER: 10,
    SinkHarm.COMMITTED_WORKER: 20,
    SinkHarm.COMMITTED_DRIVER: 10,
    SinkHarm.COMPLETED_WORKER: 14,
    SinkHarm.COMPLETED_DRIVER: 9,
    SinkHarm.ENDED_UPLOADS: 16,
    SinkHarm.NO_COMPLETIONS: 12,
    SinkHarm.ERRORS_S3: 12,
    SinkHarm.SLOW_S3: 12,
    SinkHarm.CUT_S3: 12,
}

CAMPAIGNS: Final = (
    SinkCampaign(
        name="sink-records",
        title="objects close by records (200)",
        harms=_EVERYTHING,
        options=_BY_RECORDS | _PATIENTLY,
    ),
    SinkCampaign(
        name="sink-clock",
        title="objects close by the wall clock (0.7 s), an hour in the name",
        harms=_EVERYTHING,
        options=_BY_CLOCK | _PATIENTLY,
    ),
    SinkCampaign(
        name="sink-field",
        title="by a field of the value, 200 groups (40 records or 12 s)",
        harms=_EVERYTHING,
        options=_BY_FIELD | _PATIENTLY,
        groups=200,
    ),
    SinkCampaign(
        name="sink-together",
        title="objects of 20 groups close together (1,500 records or 5 s)",
        harms=_EVERYTHING,
        options=_TOGETHER | _PATIENTLY,
    ),
    SinkCampaign(
        name="sink-sides",
        title="keys and headers in objects beside the values (1.5 s)",
        harms=_EVERYTHING,
        options=_SIDES | _PATIENTLY,
        has_sides=True,
    ),
    SinkCampaign(
        name="sink-takeover",
        title="by a field, 20 groups; two instances, session timeout 6 s",
        harms={Harm.LEADER: 6, Harm.PAUSE: 6, Harm.STOP: 4, Harm.SILENCE: 2, SinkHarm.COMMITTED_WORKER: 4},
        options=_BY_FIELD | {"rotate__age__ms": 3000, "lead__session__timeout__ms": 6000},
        has_standby=True,
    ),
    SinkCampaign(
        name="sink-network",
        title="objects close by records (200); proxies before S3 and Kafka",
        harms={Harm.CUT_KAFKA: 6, Harm.SLOW_KAFKA: 4, Harm.NO_KAFKA: 3, SinkHarm.CUT_S3: 3, Harm.WORKER: 4},
        options=_BY_RECORDS | _PATIENTLY,
    ),
)


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_sink_campaign(
    campaign: SinkCampaign, site: Site, sink_results: Path, request: pytest.FixtureRequest
) -> None:
    """Every record is in one object, each object was completed once, and the sink never ends by itself."""
    _run(campaign, site, sink_results, request)


def test_sink_campaign_s3(lasting_site: Site, sink_results: Path, request: pytest.FixtureRequest) -> None:
    """The same while S3 itself is killed; it keeps what it has acknowledged, as S3 does."""
    campaign = SinkCampaign(
        name="sink-s3",
        title="objects close by records (200), on an S3 that is killed and keeps its data",
        harms={SinkHarm.KILLED_S3: 30, Harm.WORKER: 4, SinkHarm.COMMITTED_WORKER: 4, Harm.DRIVER: 4},
        options=_BY_RECORDS | _PATIENTLY,
    )
    _run(campaign, lasting_site, sink_results, request)


def test_sink_campaign_executor(site: Site, sink_results: Path, request: pytest.FixtureRequest) -> None:
    """The same on a standalone cluster, of which executors are killed."""
    with cluster(site.folder) as found:
        campaign = SinkCampaign(
            name="sink-executor",
            title="by a field, 20 groups, on a standalone cluster of two workers",
            harms={Harm.EXECUTOR: 12, Harm.WORKER: 4, Harm.DRIVER: 2, SinkHarm.COMMITTED_WORKER: 4},
            options=_BY_FIELD | _PATIENTLY | {"rotate__age__ms": 3000} | found.options,
        )
        _run(campaign, site, sink_results, request, found.workers)


def test_sink_campaign_round_trip(site: Site, sink_results: Path, request: pytest.FixtureRequest) -> None:
    """A consumer of the bucket's events gives back what was archived, to the byte."""
    seed, share = _seed(request), request.config.getoption("--faults-share")
    most = request.config.getoption("--faults-most")
    result, found, faults = RoundTrip(site, seed=seed, share=share, most=most).run()
    result.save(sink_results)
    assert (found.lost, found.duplicated) == (0, 0), f"seed {seed}: {found}"
    assert not faults, f"seed {seed}: {faults[:20]}"
    assert not result.ended, f"seed {seed}: it ended by itself: {result.ended}"


def _seed(request: pytest.FixtureRequest) -> int:
    seed: int | None = request.config.getoption("--faults-seed")
    return random.SystemRandom().randrange(1_000_000) if seed is None else seed


def _run(
    campaign: SinkCampaign,
    site: Site,
    results: Path,
    request: pytest.FixtureRequest,
    cluster_workers: tuple[int, ...] = (),
) -> None:
    seed = _seed(request)
    print(f"{campaign.name}: --faults-seed={seed}")  # noqa: T201 - pytest shows it when the test fails
    share = request.config.getoption("--faults-share")
    most = request.config.getoption("--faults-most")
    run = SinkRun(campaign, site, seed=seed, share=share, most=most, cluster_workers=cluster_workers)
    result, found = run.run()
    result.save(results)
    assert (found.records.lost, found.records.duplicated) == (0, 0), f"seed {seed}: {found}"
    assert not found.faults, f"seed {seed}: {found.faults[:20]}"
    assert not result.ended, f"seed {seed}: it ended by itself: {result.ended}"
