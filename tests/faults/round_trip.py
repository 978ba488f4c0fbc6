"""Kafka to S3 to Kafka: a sink, and a source that reads the events of its bucket, both under kills."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

from bench.stage import Service
from headrace.model.errors import Exit
from localstack.steps import say
from tests.faults.account import Account, Watch
from tests.faults.campaign import Result, in_random_order
from tests.faults.fault_environment import Route, Site, new_route
from tests.faults.faults import KILLS, READY_SECONDS, Harm, Scene, inflict
from tests.faults.record_load import RecordLoad
from tests.faults.sink_account import completion_faults
from tests.faults.sink_campaign import sink_options
from tests.faults.sink_faults import SINK_KILLS, SinkHarm, inflict_on_sink
from tests.support import aws, kafka

_RECOVER_SECONDS: Final = 240.0
_SETTLE_SECONDS: Final = 900.0
_READ_SECONDS: Final = 300.0
_PARTITIONS: Final = 2

ON_SINK: Final[Mapping[Harm | SinkHarm, int]] = {
    Harm.WORKER: 8,
    Harm.WORKERS: 3,
    Harm.DRIVER: 4,
    Harm.BROKER: 4,
    SinkHarm.SEALED_WORKER: 3,
    SinkHarm.COMMITTED_DRIVER: 3,
    SinkHarm.COMPLETED_WORKER: 3,
    SinkHarm.CUT_S3: 2,
}
ON_SOURCE: Final[Mapping[Harm, int]] = {Harm.WORKER: 8, Harm.WORKERS: 3, Harm.DRIVER: 4}


class RoundTrip:
    """One run of both at a site."""

    def __init__(self, site: Site, *, seed: int, share: float = 1.0, most: int | None = None) -> None:
        self._site = site
        self._chance = random.Random(seed)
        self._share = share
        self._most = most
        self._result = Result(
            campaign="round-trip",
            title="a sink by records (200), and a source that reads its bucket's events, harmed in turn",
            seed=seed,
            date=datetime.now(UTC).date().isoformat(),
        )

    def run(self) -> tuple[Result, Account, list[str]]:
        """The result, records that the second topic lacks or has besides, and what is wrong in the bucket."""
        site = self._site
        began = time.monotonic()
        # The topic of the route is the second one.
        route = new_route(site, partitions=_PARTITIONS)
        topic = kafka.new_topic("archived", partitions=_PARTITIONS, bootstrap=site.bootstrap)
        load = RecordLoad(
            bootstrap=site.bootstrap,
            topic=topic,
            groups=20,
            per_second=400,
            seed=self._chance.getrandbits(32),
        )
        with ExitStack() as stack:
            sink, source = self._sink(stack, route, topic), self._source(stack, route)
            watch = Watch(site.bootstrap, route.topic)
            stack.callback(watch.close)
            for scene in (sink, source):
                scene.leader.start(ready_seconds=READY_SECONDS)
            load.start()
            stack.callback(load.stop)
            on_sink = in_random_order(ON_SINK, share=self._share, chance=self._chance)
            on_source = in_random_order(ON_SOURCE, share=self._share, chance=self._chance)
            harms = [(sink, harm) for harm in on_sink] + [(source, harm) for harm in on_source]
            self._chance.shuffle(harms)
            harms = harms[: self._most]
            for number, (scene, harm) in enumerate(harms, 1):
                say("round-trip", f"{number}/{len(harms)} {'sink' if scene is sink else 'source'}: {harm}")
                self._harm(scene, harm, watch, (sink, source))
            load.stop()
            for scene in (sink, source):
                _settle(scene)
        archived, restored = (Counter(_records(site.bootstrap, name)) for name in (topic, route.topic))
        lost, more = archived - restored, restored - archived
        faults, objects = completion_faults(
            route.bucket, endpoint=site.endpoint, answers=site.s3_proxy.answers
        )
        result = self._result
        result.objects, result.rows = objects, load.produced
        result.lost, result.duplicated = lost.total(), more.total()
        result.seconds = round(time.monotonic() - began, 1)
        return result, Account(lost=lost.total(), duplicated=more.total()), faults

    def _sink(self, stack: ExitStack, route: Route, topic: str) -> Scene:
        name = aws.unique("sink")
        options = sink_options(self._site, name, bucket=route.bucket, topic=topic)
        options |= {"rotate.records": 200, "rotate.age.ms": 3000}
        return self._scene(stack, name, options)

    def _source(self, stack: ExitStack, route: Route) -> Scene:
        name = aws.unique("source")
        options = route.options(name=name, through_proxies=False, input__layout="headrace")
        # The sink has none, and nothing is to wait for them.
        options["restore.sidecars"] = "ignore"
        # The layout says both.
        del options["input.format"], options["file.name.template"]
        return self._scene(stack, name, options)

    def _scene(self, stack: ExitStack, name: str, options: dict[str, object]) -> Scene:
        # A broker that is away for longer than the session costs the lead, which is a campaign of its own.
        options |= {"lead.session.timeout.ms": 45_000, "instance.id": "only"}
        service = Service(self._site.folder, name, options)
        stack.callback(service.stop)
        return Scene(
            site=self._site,
            leader=service,
            standby=None,
            cluster_workers=(),
            chance=self._chance,
            ended=self._result.ended,
        )

    def _harm(self, scene: Scene, harm: Harm | SinkHarm, watch: Watch, scenes: tuple[Scene, Scene]) -> None:
        result = self._result
        time.sleep(self._chance.uniform(0.2, 2.5))  # the moment is random, not waited for
        for one in scenes:
            one.revive()
        began = inflict(harm, scene) if isinstance(harm, Harm) else inflict_on_sink(harm, scene)
        result.times[harm.value] = result.times.get(harm.value, 0) + 1
        result.kills += harm in KILLS or harm in SINK_KILLS
        marks = watch.mark()
        deadline, seen = time.monotonic() + _RECOVER_SECONDS, None
        while seen is None and time.monotonic() < deadline:
            for one in scenes:
                one.revive()
            seen = watch.await_new(marks, seconds=2)
        assert seen is not None, f"{harm}: nothing new in {_RECOVER_SECONDS} s: {scene.leader.tail(40)}"
        result.recovered.setdefault(harm.value, []).append(round(seen - began, 2))


def _settle(scene: Scene) -> None:
    """A clean stop, then a run that ends by itself with nothing left."""
    service = scene.leader
    code = service.stop()
    assert code == Exit.DONE, f"a clean stop ended with {code}: {service.tail()}"
    service.start("--until-idle", ready_seconds=READY_SECONDS)
    code = service.wait(_SETTLE_SECONDS)
    service.stop()
    assert code == Exit.DONE, f"--until-idle ended with {code}: {service.tail(40)}"


def _records(bootstrap: str, topic: str) -> Iterator[tuple[object, ...]]:
    """All that a record is, its offset excepted: markers of transactions come between."""
    for one in kafka.committed(topic, seconds=_READ_SECONDS, bootstrap=bootstrap):
        yield one.partition, one.key, one.value, one.headers, one.timestamp_ms
