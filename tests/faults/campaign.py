"""A campaign: load, harm at random moments, recovery, and the account of every row at the end."""

import json
import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from bench.stage import Service, StageError
from localstack.steps import say
from tests.faults.account import Account, Watch, account
from tests.faults.fault_environment import Route, Site, new_route
from tests.faults.faults import KILLS, PROXIED, READY_SECONDS, Harm, Scene, inflict
from tests.faults.load import Load, Shape
from tests.support import aws
from tests.support.until import until_sync

_H = TypeVar("_H", bound=StrEnum)

_RECOVER_SECONDS: Final = 180.0
_SETTLE_SECONDS: Final = 600.0
# How often the next harm does not wait until the service has recovered from the last one.
_OVERLAP: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is done to which configuration."""

    name: str
    title: str
    """The configuration in words, for the report."""
    harms: Mapping[Harm, int]
    """How often each."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Of the service, `__` in a name for a dot."""
    shape: Shape = field(default_factory=Shape)
    has_standby: bool = False
    at_most_twice: int | None = 0
    """Rows that one harm may duplicate; 0 unless `exactly.once.support=disabled`."""

    @property
    def through_proxies(self) -> bool:
        """True when its connections go through the proxies."""
        return any(harm in PROXIED for harm in self.harms)


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of a campaign, as it is kept for the report."""

    campaign: str
    title: str
    seed: int
    date: str
    objects: int = 0
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    may_duplicate: bool = False
    seconds: float = 0.0
    times: dict[str, int] = field(default_factory=dict)
    """How often each harm was done."""
    kills: int = 0
    recovered: dict[str, list[float]] = field(default_factory=dict)
    """Seconds to the next committed row, where the next harm waited for it."""
    ended: list[str] = field(default_factory=list)
    """When the service ended by itself though nobody asked it to."""

    def save(self, folder: Path) -> None:
        """Keep it beside those of other campaigns, and of this one with other seeds."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.campaign}-{self.seed}.json").write_text(json.dumps(asdict(self), indent=2))


def in_random_order(
    harms: Mapping[_H, int], *, share: float, chance: random.Random, most: int | None = None
) -> list[_H]:
    """So much of a campaign's harms, each once at least, in a random order; of these the first `most`."""
    found = [harm for harm, times in harms.items() for _ in range(max(1, round(times * share)))]
    chance.shuffle(found)
    return found[:most]


class Run:
    """One run of a campaign at a site."""

    def __init__(
        self,
        campaign: Campaign,
        site: Site,
        *,
        seed: int,
        share: float = 1.0,
        cluster_workers: tuple[int, ...] = (),
    ) -> None:
        self._campaign = campaign
        self._site = site
        self._chance = random.Random(seed)
        self._share = share
        self._cluster_workers = cluster_workers
        self._result = Result(
            campaign=campaign.name,
            title=campaign.title,
            seed=seed,
            date=datetime.now(UTC).date().isoformat(),
            may_duplicate=campaign.at_most_twice != 0,
        )

    def run(self) -> tuple[Result, Account]:
        """Run it; every harm is recovered from, or AssertionError. Blocks for minutes."""
        began = time.monotonic()
        with ExitStack() as stack:
            name = aws.unique(self._campaign.name)
            route = new_route(self._site)
            load = self._load(stack, route)
            scene = self._scene(stack, name, route, load)
            watch = Watch(self._site.bootstrap, route.topic)
            stack.callback(watch.close)
            scene.leader.start(ready_seconds=READY_SECONDS)
            if scene.standby is not None:
                scene.standby.start(ready_seconds=READY_SECONDS)
            load.start()
            stack.callback(load.stop)
            harms = in_random_order(self._campaign.harms, share=self._share, chance=self._chance)
            for number, harm in enumerate(harms, 1):
                say(name, f"{number}/{len(harms)} {harm}")
                self._harm(scene, watch, harm)
            load.stop()
            self._settle(scene, load)
            self._stop(scene)
        found = account(self._site.bootstrap, route.topic, load.rows)
        result = self._result
        result.objects, result.rows = len(load.uploads), load.rows
        result.lost, result.duplicated = found.lost, found.duplicated
        result.seconds = round(time.monotonic() - began, 1)
        return result, found

    def _load(self, stack: ExitStack, route: Route) -> Load:
        client = aws.s3(self._site.endpoint)
        stack.callback(client.close)
        seed = self._chance.getrandbits(32)
        return Load(bucket=route.bucket, client=client, shape=self._campaign.shape, seed=seed)

    def _scene(self, stack: ExitStack, name: str, route: Route, load: Load) -> Scene:
        campaign, site = self._campaign, self._site
        services = []
        for state in ["first", "second"][: 2 if campaign.has_standby else 1]:
            options = route.options(
                name=f"{name}-{state}", through_proxies=campaign.through_proxies, **campaign.options
            )
            services.append(Service(site.folder, name, options))
            stack.callback(services[-1].stop)

        def refill() -> None:
            route.furnish()
            load.repeat()

        return Scene(
            site=site,
            leader=services[0],
            standby=services[1] if campaign.has_standby else None,
            cluster_workers=self._cluster_workers,
            chance=self._chance,
            refill=refill,
            ended=self._result.ended,
        )

    def _harm(self, scene: Scene, watch: Watch, harm: Harm) -> None:
        result = self._result
        time.sleep(self._chance.uniform(0.2, 2.5))  # the moment is random, not waited for
        scene.revive()
        began = inflict(harm, scene)
        result.times[harm.value] = result.times.get(harm.value, 0) + 1
        result.kills += (2 if harm is Harm.DRIVER_RETURNS else 1) if harm in KILLS else 0
        marks = watch.mark()
        self._bring_standby(scene)
        if self._chance.random() < _OVERLAP and harm in KILLS:
            time.sleep(self._chance.uniform(0.0, 3.0))  # as above
            return
        deadline, seen = time.monotonic() + _RECOVER_SECONDS, None
        while seen is None and time.monotonic() < deadline:
            # Whoever runs it starts it again at once when it has ended.
            scene.revive()
            seen = watch.await_new(marks, seconds=2)
        assert seen is not None, f"{harm}: nothing new in {_RECOVER_SECONDS} s: {scene.leader.tail(40)}"
        result.recovered.setdefault(harm.value, []).append(round(seen - began, 2))

    def _bring_standby(self, scene: Scene) -> None:
        """The former leader is back as the standby."""
        if scene.standby is not None and not scene.standby.is_running:
            scene.standby.stop()
            scene.standby.start(ready_seconds=READY_SECONDS)

    def _settle(self, scene: Scene, load: Load) -> None:
        """Until every object is done."""

        def is_over() -> bool:
            scene.revive()
            try:
                return bool(scene.leader.status()["objects"]["done"] >= len(load.uploads))
            except (OSError, KeyError, StageError):
                return False

        try:
            until_sync(is_over, seconds=_SETTLE_SECONDS, what="all objects done")
        except AssertionError:
            # The account says what is missing; the state says where it hangs.
            say(self._campaign.name, f"not settled: {scene.leader.status()}")

    def _stop(self, scene: Scene) -> None:
        for service in (scene.leader, scene.standby):
            if service is not None:
                code = service.stop()
                assert code == 0, f"a clean stop ended with {code}: {service.tail()}"
