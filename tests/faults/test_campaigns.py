"""`make faults`: the campaigns, each a test. Some of them: `make faults PYTEST_ARGS='-k worker'`."""

import random
from pathlib import Path
from typing import Final

import pytest

from localstack.cluster import cluster
from tests.faults.campaign import Campaign, Run
from tests.faults.fault_environment import Site
from tests.faults.faults import Harm
from tests.faults.load import Shape
from tests.support.connect_server import connect_server

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(3600)]

# Large objects are in progress for seconds, over many transactions, so that most harm comes into one.
_SLOWLY: Final = {"max__bytes__per__second": 3_000_000, "transaction__boundary__interval__ms": 300}
# A broker that is away for longer than the session costs the lead, which is a campaign of its own.
_PATIENTLY: Final = _SLOWLY | {"lead__session__timeout__ms": 45_000}
_SPLIT: Final = {"ordering": "none", "job__max__bytes": 2_000_000}
_FEW_AT_ONCE: Final = 2_000

CAMPAIGNS: Final = (
    Campaign(
        name="driver",
        title="JSONL, lingering tasks",
        harms={Harm.DRIVER: 18, Harm.DRIVER_RETURNS: 4},
        options=_SLOWLY,
    ),
    Campaign(
        name="driver-split",
        title="JSONL, no lingering, objects split over slots",
        harms={Harm.DRIVER: 12},
        options=_SLOWLY | _SPLIT | {"job__linger__ms": 0},
        shape=Shape(large_share=0.08),
    ),
    Campaign(
        name="worker",
        title="JSONL, lingering tasks",
        harms={Harm.WORKER: 30, Harm.WORKERS: 10, Harm.DAEMON: 4},
        options=_SLOWLY,
    ),
    Campaign(
        name="worker-split",
        title="JSONL, no lingering, objects split over slots",
        harms={Harm.WORKER: 20, Harm.WORKERS: 8},
        options=_SLOWLY | _SPLIT | {"job__linger__ms": 0},
        shape=Shape(large_share=0.08),
    ),
    Campaign(
        name="worker-ordinary",
        title="JSONL with headers (the ordinary produce path)",
        harms={Harm.WORKER: 16, Harm.WORKERS: 6, Harm.DRIVER: 2, Harm.BROKER: 4},
        options=_PATIENTLY | {"record__headers": "source"},
    ),
    Campaign(
        name="worker-parquet",
        title="Parquet, objects split over slots",
        harms={Harm.WORKER: 8, Harm.WORKERS: 3, Harm.DRIVER: 4},
        options=_SLOWLY | _SPLIT | {"input__format": "parquet", "max__bytes__per__second": 300_000},
        shape=Shape(forms=("parquet",), large_rows=(20_000, 80_000), large_share=0.1),
    ),
    Campaign(
        name="worker-avro",
        title="Avro, objects split over slots",
        harms={Harm.WORKER: 8, Harm.WORKERS: 3, Harm.DRIVER: 4},
        options=_SLOWLY | _SPLIT | {"input__format": "avro", "max__bytes__per__second": 300_000},
        shape=Shape(forms=("avro",), large_rows=(20_000, 80_000), large_share=0.1),
    ),
    Campaign(
        name="broker",
        title="JSONL, lingering tasks",
        harms={Harm.BROKER: 22},
        options=_PATIENTLY,
    ),
    Campaign(
        name="broker-split",
        title="JSONL, no lingering, objects split over slots",
        harms={Harm.BROKER: 10},
        options=_PATIENTLY | _SPLIT | {"job__linger__ms": 0},
        shape=Shape(large_share=0.08),
    ),
    Campaign(
        name="broker-silent",
        title="JSONL, lingering tasks; the lead is lost each time, and no instance ends",
        harms={Harm.SILENCE: 8},
        options=_SLOWLY,
    ),
    Campaign(
        name="broker-silent-pair",
        title="JSONL, no lingering, objects split, two instances; the lead is lost each time",
        harms={Harm.SILENCE: 4, Harm.WORKER: 2},
        options=_SLOWLY | _SPLIT | {"job__linger__ms": 0},
        shape=Shape(large_share=0.08),
        has_standby=True,
    ),
    Campaign(
        name="everything",
        title="JSONL, lingering tasks, all kinds of kills among each other",
        harms={Harm.DRIVER: 5, Harm.DRIVER_RETURNS: 2, Harm.WORKER: 8, Harm.WORKERS: 4, Harm.BROKER: 6},
        # Or those that were killed while they joined would each be waited for, for a session.
        options=_PATIENTLY | {"instance__id": "only"},
    ),
    Campaign(
        name="s3",
        title="JSONL, lingering tasks",
        harms={Harm.S3: 5, Harm.WORKER: 3},
        options=_SLOWLY,
        shape=Shape(large_rows=(20_000, 60_000)),
    ),
    Campaign(
        name="takeover",
        title="JSONL, two instances, session timeout 6 s",
        harms={Harm.LEADER: 6, Harm.PAUSE: 6, Harm.STOP: 3},
        options=_SLOWLY | {"lead__session__timeout__ms": 6000},
        has_standby=True,
    ),
    Campaign(
        name="network",
        title="JSONL, lingering tasks, proxies before S3, SQS and Kafka",
        harms={
            Harm.CUT_KAFKA: 6,
            Harm.SLOW_KAFKA: 4,
            Harm.NO_KAFKA: 3,
            Harm.CUT_S3: 5,
            Harm.SLOW_S3: 5,
            Harm.ERRORS_S3: 5,
            Harm.TRUNCATED_S3: 5,
            Harm.CUT_SQS: 5,
        },
        options=_PATIENTLY,
        shape=Shape(large_rows=(20_000, 60_000)),
    ),
    Campaign(
        name="network-split",
        title="JSONL, no lingering, objects split, proxies before S3, SQS and Kafka",
        harms={Harm.CUT_KAFKA: 4, Harm.CUT_S3: 3, Harm.ERRORS_S3: 2, Harm.TRUNCATED_S3: 3, Harm.WORKER: 3},
        options=_SLOWLY | _SPLIT | {"job__linger__ms": 0},
        shape=Shape(large_rows=(20_000, 60_000)),
    ),
    Campaign(
        name="disk",
        title="JSONL, lingering tasks",
        harms={Harm.DISK: 6, Harm.CACHE: 6},
        options=_SLOWLY,
    ),
    Campaign(
        name="at-least-once",
        title="JSONL, `exactly.once.support=disabled`",
        harms={Harm.DRIVER: 4, Harm.WORKER: 8, Harm.WORKERS: 2, Harm.BROKER: 2},
        options=_PATIENTLY
        | {"exactly__once__support": "disabled", "transaction__boundary__records": _FEW_AT_ONCE},
        at_most_twice=2 * _FEW_AT_ONCE,
    ),
)


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_campaign(campaign: Campaign, site: Site, results: Path, request: pytest.FixtureRequest) -> None:
    """No row is lost and none comes twice, and the service never ends by itself."""
    _run(campaign, site, results, request)


def test_campaign_executor(site: Site, results: Path, request: pytest.FixtureRequest) -> None:
    """The same on a standalone cluster, of which executors are killed."""
    with cluster(site.folder) as found:
        campaign = Campaign(
            name="executor",
            title="JSONL on a standalone cluster of two workers",
            harms={Harm.EXECUTOR: 12, Harm.WORKER: 4, Harm.DRIVER: 2},
            options=_SLOWLY | found.options,
        )
        _run(campaign, site, results, request, found.workers)


def test_campaign_connect(site: Site, results: Path, request: pytest.FixtureRequest) -> None:
    """The same through a Spark Connect server, which is the cluster's one application."""
    conf = {"spark.task.maxFailures": "1", "spark.executor.memory": "512m"}
    with (
        cluster(site.folder) as found,
        connect_server(site.folder, master=found.master, conf=conf) as server,
    ):
        campaign = Campaign(
            name="connect",
            title="JSONL through a Spark Connect server on a standalone cluster of two workers",
            harms={Harm.EXECUTOR: 6, Harm.WORKER: 4, Harm.DRIVER: 3},
            options=_SLOWLY | {"spark__remote": server.url},
        )
        _run(campaign, site, results, request, found.workers)


def _run(
    campaign: Campaign,
    site: Site,
    results: Path,
    request: pytest.FixtureRequest,
    cluster_workers: tuple[int, ...] = (),
) -> None:
    seed = request.config.getoption("--faults-seed")
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    print(f"{campaign.name}: --faults-seed={seed}")  # noqa: T201 - pytest shows it when the test fails
    share = request.config.getoption("--faults-share")
    result, found = Run(campaign, site, seed=seed, share=share, cluster_workers=cluster_workers).run()
    result.save(results)
    assert found.lost == 0, f"seed {seed}: {found}"
    allowed = (campaign.at_most_twice or 0) * sum(result.times.values())
    assert found.duplicated <= allowed, f"seed {seed}: {found}"
    assert not result.ended, f"seed {seed}: it ended by itself: {result.ended}"
