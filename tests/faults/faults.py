"""What campaigns do to a service and its parts. Each returns when the harm is done (or over, if it lasts)."""

import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bench.stage import NotReadyError, Service
from tests.faults import processes
from tests.faults.fault_environment import Site
from tests.support.proxy import Answer, Cut, Fault, Refuse, Request, Silent, Slow, Truncate
from tests.support.silence import silent
from tests.support.until import until_sync


class Harm(StrEnum):
    """What happens; the value is how the report calls it."""

    DRIVER = "driver killed"
    DRIVER_RETURNS = "driver killed while it comes back"
    WORKER = "Python worker killed"
    WORKERS = "all Python workers killed"
    DAEMON = "daemon that forks Python workers killed with them"
    EXECUTOR = "executor's JVM killed"
    BROKER = "broker killed, restarted with its data"
    SILENCE = "broker silent for 30 s, longer than the session"
    S3 = "S3 and SQS killed, objects uploaded again"
    LEADER = "leader killed, a standby takes over"
    PAUSE = "leader paused beyond its session, a standby takes over"
    STOP = "leader stopped cleanly, a standby takes over"
    CUT_KAFKA = "connections to Kafka cut"
    SLOW_KAFKA = "connections to Kafka slow for seconds"
    NO_KAFKA = "Kafka refuses connections for seconds"
    CUT_S3 = "connections to S3 cut, bodies too"
    SLOW_S3 = "S3 slow or silent for seconds"
    ERRORS_S3 = "S3 answers 503 for seconds"
    TRUNCATED_S3 = "bodies of S3 end early"
    CUT_SQS = "SQS cut, slow or failing for seconds"
    DISK = "writes to state.dir fail for seconds"
    CACHE = "cache deleted, driver killed"


_SILENCE_SECONDS: Final = 30.0
READY_SECONDS: Final = 300.0
"""A machine that does much besides takes minutes to start Spark; how long it took is in the report."""

KILLS: Final = frozenset(
    {
        Harm.DRIVER,
        Harm.DRIVER_RETURNS,
        Harm.WORKER,
        Harm.WORKERS,
        Harm.DAEMON,
        Harm.EXECUTOR,
        Harm.BROKER,
        Harm.S3,
        Harm.LEADER,
        Harm.CACHE,
    }
)
"""What counts as a kill -9."""

PROXIED: Final = frozenset(
    {
        Harm.CUT_KAFKA,
        Harm.SLOW_KAFKA,
        Harm.NO_KAFKA,
        Harm.CUT_S3,
        Harm.SLOW_S3,
        Harm.ERRORS_S3,
        Harm.TRUNCATED_S3,
        Harm.CUT_SQS,
    }
)
"""What needs a service whose connections go through the proxies."""


@dataclass(slots=True)
class Scene:
    """What a harm may be done to. `leader` leads; `standby` waits, where a campaign has one."""

    site: Site
    leader: Service
    standby: Service | None
    cluster_workers: tuple[int, ...]
    """Processes of the standalone cluster's workers, if there is one."""
    chance: random.Random
    refill: Callable[[], None] = lambda: None
    """Gives an S3 that has lost everything its bucket and its objects again."""
    ended: list[str] = field(default_factory=list)
    """When the leader ended by itself though nobody asked it to."""

    def revive(self) -> None:
        """Start a leader that ended by itself, as whoever runs it would, and note that it did."""
        if not self.leader.is_running:
            self.ended.append(f"exit {self.leader.wait(1)}: {self.leader.tail(3)}")
            self.leader.stop()
            self.leader.start(ready_seconds=READY_SECONDS)

    def swap(self) -> None:
        """The standby leads now."""
        assert self.standby is not None
        self.leader, self.standby = self.standby, self.leader


def inflict(harm: Harm, scene: Scene) -> float:
    """Do it; the moment (monotonic) from which recovery counts: the beginning, or the end of what lasts."""
    return _HOW[harm](scene)


# -- kills -------------------------------------------------------------------------------------------------


def _driver(scene: Scene) -> float:
    below = processes.descendants(scene.leader.pid)
    began = time.monotonic()
    scene.leader.kill()
    # What it left behind may still commit: whoever comes next must not be taken for it.
    processes.await_gone(below)
    scene.leader.start(ready_seconds=READY_SECONDS)
    return began


def _driver_returns(scene: Scene) -> float:
    """Kill it, and again at a random moment of its start, takeover included."""
    scene.leader.kill()
    try:
        scene.leader.start(ready_seconds=scene.chance.uniform(0.5, 8.0))
    except NotReadyError:
        # Killed while it started, as was wanted; what ends by itself then is another error.
        began = time.monotonic()
        scene.leader.start(ready_seconds=READY_SECONDS)
        return began
    return _driver(scene)


def _worker(scene: Scene) -> float:
    return _kill_workers(scene, lambda pids: [scene.chance.choice(pids)])


def _workers(scene: Scene) -> float:
    return _kill_workers(scene, list)


def _daemon(scene: Scene) -> float:
    """The next worker that Spark needs comes from a new daemon."""
    pid = scene.leader.pid
    daemons = [*processes.daemons(pid), *processes.workers(pid)]
    began = time.monotonic()
    processes.kill(daemons)
    processes.await_gone(daemons)
    return began


def _kill_workers(scene: Scene, choose: Callable[[list[int]], list[int]]) -> float:
    def there() -> list[int]:
        scene.revive()
        return _workers_of(scene)

    until_sync(there, seconds=60, what="a Python worker")
    chosen = choose(there())
    began = time.monotonic()
    processes.kill(chosen)
    processes.await_gone(chosen)
    return began


def _workers_of(scene: Scene) -> list[int]:
    above = (scene.leader.pid, *scene.cluster_workers)
    return [pid for one in above for pid in processes.workers(one)]


def _executor(scene: Scene) -> float:
    def there() -> list[int]:
        return [pid for one in scene.cluster_workers for pid in processes.executors(one)]

    # One at a time: with none left the work only waits, which is no harder.
    until_sync(lambda: len(there()) > 1, seconds=180, what="two executors")
    chosen = [scene.chance.choice(there())]
    began = time.monotonic()
    processes.kill(chosen)
    processes.await_gone(chosen)
    return began


def _broker(scene: Scene) -> float:
    began = time.monotonic()
    scene.site.broker.kill()
    scene.site.broker.start()
    return began


def _silence(scene: Scene) -> float:
    """Its connections stay open, and nobody answers: the group forgets who leads."""
    with silent(scene.site.broker):
        time.sleep(_SILENCE_SECONDS)  # as long as that: the time that it lasts is what it is about
    return time.monotonic()


def _s3(scene: Scene) -> float:
    emulator = scene.site.emulator
    assert emulator is not None, "this site shares its S3 with others"
    began = time.monotonic()
    emulator.daemon.kill()
    emulator.start()
    scene.refill()
    return began


def _leader(scene: Scene) -> float:
    former = scene.leader
    below = processes.descendants(former.pid)
    began = time.monotonic()
    former.kill()
    processes.await_gone(below)
    _succeed(scene)
    return began


def _stop(scene: Scene) -> float:
    began = time.monotonic()
    assert scene.leader.stop() == 0
    _succeed(scene)
    return began


def _pause(scene: Scene) -> float:
    """SIGSTOP; once the standby leads, SIGCONT: the former has to become the standby by itself."""
    former = scene.leader
    began = time.monotonic()
    former.signal(signal.SIGSTOP)
    _succeed(scene)
    former.signal(signal.SIGCONT)
    until_sync(lambda: _role(former) == "standby", seconds=60, what="the former leader standing by")
    return began


def _succeed(scene: Scene) -> None:
    """Wait until the standby leads; the former leader, once it is gone, is started again by the campaign."""
    assert scene.standby is not None, "this campaign has no standby"
    heir = scene.standby
    until_sync(lambda: _role(heir) == "leader", seconds=READY_SECONDS, what="the standby leading")
    scene.swap()


def _role(service: Service) -> str:
    try:
        return str(service.status()["role"])
    except OSError:
        return "unknown"


def _cache(scene: Scene) -> float:
    """While it runs, and before it comes again."""
    shutil.rmtree(scene.site.folder / "state", ignore_errors=True)
    time.sleep(scene.chance.uniform(0.0, 2.0))  # the moment is random, not waited for
    below = processes.descendants(scene.leader.pid)
    began = time.monotonic()
    scene.leader.kill()
    processes.await_gone(below)
    shutil.rmtree(scene.site.folder / "state", ignore_errors=True)
    scene.leader.start(ready_seconds=READY_SECONDS)
    return began


# -- what lasts --------------------------------------------------------------------------------------------


def _lasts(scene: Scene, longest: float = 8.0) -> None:
    time.sleep(scene.chance.uniform(0.5, longest))  # the time that it lasts is random, not waited for


def _cut_kafka(scene: Scene) -> float:
    began = time.monotonic()
    for _ in range(scene.chance.randint(1, 5)):
        scene.site.kafka_proxy.cut()
        time.sleep(scene.chance.uniform(0.0, 0.7))  # as above
    return began


def _slow_kafka(scene: Scene) -> float:
    proxy = scene.site.kafka_proxy
    proxy.on(Slow(bytes_per_second=scene.chance.choice([2_000, 20_000])))
    proxy.cut()
    _lasts(scene)
    proxy.off()
    # Connections that are slow stay so.
    proxy.cut()
    return time.monotonic()


def _no_kafka(scene: Scene) -> float:
    proxy = scene.site.kafka_proxy
    proxy.on(Refuse())
    _lasts(scene, 20.0)
    proxy.off()
    return time.monotonic()


def _is_object(request: Request) -> bool:
    """A GET of an object, not a listing."""
    return request.method == "GET" and "list-type" not in request.path


def _cut_s3(scene: Scene) -> float:
    chance = scene.chance
    fault = Cut(after_bytes=chance.choice([0, 1, 1000, 200_000]))
    scene.site.s3_proxy.on(fault, when=lambda _: chance.random() < 0.5)
    scene.site.s3_proxy.cut()
    _lasts(scene)
    scene.site.s3_proxy.off()
    return time.monotonic()


def _slow_s3(scene: Scene) -> float:
    chance, proxy = scene.chance, scene.site.s3_proxy
    faults: list[Fault] = [Slow(seconds=1.0), Slow(bytes_per_second=50_000), Silent()]
    fault = chance.choice(faults)
    proxy.on(fault, when=lambda _: chance.random() < 0.3)
    _lasts(scene)
    proxy.off()
    # Connections that are slow or silent stay so.
    proxy.cut()
    return time.monotonic()


def _errors_s3(scene: Scene) -> float:
    chance = scene.chance
    share = chance.choice([0.3, 1.0])
    body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    scene.site.s3_proxy.on(Answer(status=503, body=body), when=lambda _: chance.random() < share)
    _lasts(scene)
    scene.site.s3_proxy.off()
    return time.monotonic()


def _truncated_s3(scene: Scene) -> float:
    chance = scene.chance
    fault = Truncate(after_bytes=chance.choice([0, 1, 500, 100_000]))
    scene.site.s3_proxy.on(fault, when=lambda request: _is_object(request) and chance.random() < 0.5)
    _lasts(scene)
    scene.site.s3_proxy.off()
    return time.monotonic()


def _cut_sqs(scene: Scene) -> float:
    proxy = scene.site.sqs_proxy
    faults: list[Fault] = [Cut(), Refuse(), Slow(seconds=2.0), Answer(status=503), Silent()]
    proxy.on(scene.chance.choice(faults))
    proxy.cut()
    _lasts(scene)
    proxy.off()
    proxy.cut()
    return time.monotonic()


def _disk(scene: Scene) -> float:
    """A limit on the size of files stands for a full disk; the service's log is not on that disk."""
    pid = scene.leader.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    _lasts(scene)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    return time.monotonic()


_HOW: Final[dict[Harm, Callable[[Scene], float]]] = {
    Harm.DRIVER: _driver,
    Harm.DRIVER_RETURNS: _driver_returns,
    Harm.WORKER: _worker,
    Harm.WORKERS: _workers,
    Harm.DAEMON: _daemon,
    Harm.EXECUTOR: _executor,
    Harm.BROKER: _broker,
    Harm.SILENCE: _silence,
    Harm.S3: _s3,
    Harm.LEADER: _leader,
    Harm.PAUSE: _pause,
    Harm.STOP: _stop,
    Harm.CUT_KAFKA: _cut_kafka,
    Harm.SLOW_KAFKA: _slow_kafka,
    Harm.NO_KAFKA: _no_kafka,
    Harm.CUT_S3: _cut_s3,
    Harm.SLOW_S3: _slow_s3,
    Harm.ERRORS_S3: _errors_s3,
    Harm.TRUNCATED_S3: _truncated_s3,
    Harm.CUT_SQS: _cut_sqs,
    Harm.DISK: _disk,
    Harm.CACHE: _cache,
}
