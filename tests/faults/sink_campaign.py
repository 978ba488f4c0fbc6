"""A campaign against a sink: records come, harm is done, and every object is read in the end."""

import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from bench.stage import Service
from headrace.model.errors import Exit
from localstack.steps import say
from tests.faults.campaign import Result, in_random_order
from tests.faults.fault_environment import Site
from tests.faults.faults import KILLS, PROXIED, READY_SECONDS, Harm, Scene, inflict
from tests.faults.record_load import RecordLoad
from tests.faults.sink_account import BucketAccount, bucket_account
from tests.faults.sink_faults import SINK_KILLS, SinkHarm, inflict_on_sink, is_completion
from tests.support import aws, kafka

_RECOVER_SECONDS: Final = 180.0
_SETTLE_SECONDS: Final = 900.0
_OK: Final = 200
# How often the next harm does not wait until the service has recovered from the last one.
_OVERLAP: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCampaign:
    """What is done to which configuration."""

    name: str
    title: str
    """The configuration in words, for the report."""
    harms: Mapping[Harm | SinkHarm, int]
    """How often each."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Of the sink, `__` in a name for a dot."""
    groups: int = 20
    per_second: int = 600
    has_standby: bool = False
    has_sides: bool = False


def sink_options(site: Site, state: str, *, bucket: str, topic: str) -> dict[str, object]:
    """A sink's configuration, S3 behind the proxy; `state` names the folder of its own."""
    return {
        "connector.class": "HeadraceSink",
        "topics": topic,
        "bootstrap.servers": site.bootstrap,
        "aws.s3.endpoint": site.s3_proxy.url,
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "aws.s3.bucket.name": bucket,
        "tasks.max": 2,
        "state.dir": str(site.folder / "state" / state),
    }


class SinkRun:
    """One run of a campaign at a site. S3 is behind the proxy always: it counts completions."""

    def __init__(
        self,
        campaign: SinkCampaign,
        site: Site,
        *,
        seed: int,
        share: float = 1.0,
        most: int | None = None,
        cluster_workers: tuple[int, ...] = (),
    ) -> None:
        self._campaign = campaign
        self._site = site
        self._chance = random.Random(seed)
        self._share = share
        self._most = most
        self._cluster_workers = cluster_workers
        self._name = aws.unique(campaign.name)
        self._result = Result(
            campaign=campaign.name,
            title=campaign.title,
            seed=seed,
            date=datetime.now(UTC).date().isoformat(),
        )

    def run(self) -> tuple[Result, BucketAccount]:
        """Run it; every harm is recovered from, or AssertionError. Blocks for minutes."""
        campaign, site = self._campaign, self._site
        began = time.monotonic()
        bucket = _versioned_bucket(site.endpoint)
        topic = kafka.new_topic("archived", partitions=2, bootstrap=site.bootstrap)
        load = RecordLoad(
            bootstrap=site.bootstrap,
            topic=topic,
            groups=campaign.groups,
            per_second=campaign.per_second,
            seed=self._chance.getrandbits(32),
        )
        with ExitStack() as stack:
            scene = self._scene(stack, bucket, topic)
            scene.leader.start(ready_seconds=READY_SECONDS)
            if scene.standby is not None:
                scene.standby.start(ready_seconds=READY_SECONDS)
            load.start()
            stack.callback(load.stop)
            harms = in_random_order(campaign.harms, share=self._share, chance=self._chance, most=self._most)
            for number, harm in enumerate(harms, 1):
                say(self._name, f"{number}/{len(harms)} {harm}")
                self._harm(scene, harm)
            load.stop()
            self._settle(scene)
        found = bucket_account(
            bucket,
            topic,
            endpoint=site.endpoint,
            bootstrap=site.bootstrap,
            answers=site.s3_proxy.answers,
            has_sides=campaign.has_sides,
        )
        result = self._result
        result.objects, result.rows = found.objects, load.produced
        result.lost, result.duplicated = found.records.lost, found.records.duplicated
        result.seconds = round(time.monotonic() - began, 1)
        return result, found

    def _scene(self, stack: ExitStack, bucket: str, topic: str) -> Scene:
        campaign, site = self._campaign, self._site
        through = any(harm in PROXIED for harm in campaign.harms)
        services = []
        for state in ["first", "second"][: 2 if campaign.has_standby else 1]:
            options = sink_options(site, f"{self._name}-{state}", bucket=bucket, topic=topic)
            if through:
                options["bootstrap.servers"] = site.kafka_proxy.address
            options |= {name.replace("__", "."): value for name, value in campaign.options.items()}
            services.append(Service(site.folder, self._name, options))
            stack.callback(services[-1].stop)
        return Scene(
            site=site,
            leader=services[0],
            standby=services[1] if campaign.has_standby else None,
            cluster_workers=self._cluster_workers,
            chance=self._chance,
            ended=self._result.ended,
        )

    def _harm(self, scene: Scene, harm: Harm | SinkHarm) -> None:
        result = self._result
        time.sleep(self._chance.uniform(0.2, 2.5))  # the moment is random, not waited for
        scene.revive()
        began = inflict(harm, scene) if isinstance(harm, Harm) else inflict_on_sink(harm, scene)
        is_kill = harm in KILLS or harm in SINK_KILLS
        result.times[harm.value] = result.times.get(harm.value, 0) + 1
        result.kills += (2 if harm is Harm.DRIVER_RETURNS else 1) if is_kill else 0
        if scene.standby is not None and not scene.standby.is_running:
            scene.standby.stop()
            scene.standby.start(ready_seconds=READY_SECONDS)
        before = len(self._site.s3_proxy.answers)
        if is_kill and self._chance.random() < _OVERLAP:
            time.sleep(self._chance.uniform(0.0, 3.0))  # as above
            return
        deadline = time.monotonic() + _RECOVER_SECONDS
        while not self._has_completed(before):
            # Whoever runs it starts it again at once when it has ended.
            scene.revive()
            assert time.monotonic() < deadline, (
                f"{harm}: no new object in {_RECOVER_SECONDS} s: {scene.leader.tail(40)}"
            )
            time.sleep(0.02)
        result.recovered.setdefault(harm.value, []).append(round(time.monotonic() - began, 2))

    def _has_completed(self, before: int) -> bool:
        """Whether S3 has completed an object since it had given so many answers."""
        answers = self._site.s3_proxy.answers[before:]
        return any(status == _OK and is_completion(request) for request, status in answers)

    def _settle(self, scene: Scene) -> None:
        """Clean stops, then a run that ends by itself with nothing left."""
        for service in (scene.standby, scene.leader):
            if service is not None:
                code = service.stop()
                assert code == Exit.DONE, f"a clean stop ended with {code}: {service.tail()}"
        scene.leader.start("--until-idle", ready_seconds=READY_SECONDS)
        code = scene.leader.wait(_SETTLE_SECONDS)
        scene.leader.stop()
        assert code == Exit.DONE, f"--until-idle ended with {code}: {scene.leader.tail(40)}"


def _versioned_bucket(endpoint: str) -> str:
    """An empty bucket that keeps what is written over."""
    name = aws.unique("bucket")
    client = aws.s3(endpoint)
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    client.close()
    return name
