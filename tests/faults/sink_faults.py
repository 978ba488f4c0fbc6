"""What is done to a sink beyond `faults`: harm at the points of its protocol, found by its requests to S3."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.exceptions import ClientError

from tests.faults import processes
from tests.faults.faults import READY_SECONDS, Scene
from tests.faults.lasting_s3 import LastingS3
from tests.support import aws
from tests.support.proxy import Answer, Cut, Fault, Request, Silent, Slow
from tests.support.silence import silent
from tests.support.until import until_sync


class SinkHarm(StrEnum):
    """What happens; the value is how the report calls it."""

    SEALED_WORKER = "Python worker killed between seal and commit"
    SEALED_DRIVER = "driver killed between seal and commit"
    COMMITTED_WORKER = "Python worker killed between commit and completion"
    COMMITTED_DRIVER = "driver killed between commit and completion"
    COMPLETED_WORKER = "Python worker killed when S3 has completed, before the answer arrives"
    COMPLETED_DRIVER = "driver killed when S3 has completed, before the answer arrives"
    ENDED_UPLOADS = "uploads ended by another program while parts are sent"
    NO_COMPLETIONS = "S3 refuses completions for seconds, by an error inside a 200 too"
    ERRORS_S3 = "S3 answers 500 for seconds to requests of a sink"
    SLOW_S3 = "S3 takes what a sink sends slowly, or not at all, for seconds"
    CUT_S3 = "connections of a sink to S3 cut, its answers lost"
    KILLED_S3 = "S3 killed while parts are sent or objects completed, restarted with its data"


SINK_KILLS: Final = frozenset(
    {
        SinkHarm.SEALED_WORKER,
        SinkHarm.SEALED_DRIVER,
        SinkHarm.COMMITTED_WORKER,
        SinkHarm.COMMITTED_DRIVER,
        SinkHarm.COMPLETED_WORKER,
        SinkHarm.COMPLETED_DRIVER,
        SinkHarm.KILLED_S3,
    }
)
"""What counts as a kill -9."""

_POINT_SECONDS: Final = 90.0
_NO_UPLOAD: Final = b"<Error><Code>NoSuchUpload</Code><Message>It was ended.</Message></Error>"


def inflict_on_sink(harm: SinkHarm, scene: Scene) -> float:
    """Do it; the moment (monotonic) from which recovery counts: the beginning, or the end of what lasts."""
    return _HOW[harm](scene)


def is_completion(request: Request) -> bool:
    """CompleteMultipartUpload."""
    return request.method == "POST" and "uploadId=" in request.path


def is_part(request: Request) -> bool:
    """UploadPart."""
    return request.method == "PUT" and "uploadId=" in request.path


def place_of(request: Request) -> tuple[str, str]:
    """The bucket and the key that a request is about."""
    bucket, _, key = unquote(urlsplit(request.path).path).lstrip("/").partition("/")
    return bucket, key


# -- points of the protocol ----------------------------------------------------------------------------------


def _after_seal(scene: Scene, kill: Callable[[Scene], float]) -> float:
    """Parts are there, and the broker does not answer: the commit, if it was sent, is in doubt."""
    proxy = scene.site.s3_proxy
    _await_requests(scene, is_part, 1)
    # With luck in the transaction, and without before it.
    time.sleep(scene.chance.uniform(0.0, 0.05))
    with ExitStack() as stack:
        stack.enter_context(silent(scene.site.broker))
        # Objects that were committed before are not completed either.
        proxy.on(Silent(), when=is_completion)
        stack.callback(_behave, scene)
        time.sleep(scene.chance.uniform(0.0, 0.3))
        return kill(scene)


def _after_commit(scene: Scene, kill: Callable[[Scene], float]) -> float:
    """A completion was sent, which is done after the commit only, and S3 has never seen it."""
    return _in_completion(scene, kill, Silent())


def _after_completion(scene: Scene, kill: Callable[[Scene], float]) -> float:
    """S3 has completed an object, and its answer is lost."""
    return _in_completion(scene, kill, Cut(after_bytes=0))


def _in_completion(scene: Scene, kill: Callable[[Scene], float], fault: Fault) -> float:
    scene.site.s3_proxy.on(fault, when=is_completion)
    try:
        _await_requests(scene, is_completion, scene.chance.randint(1, 4))
        began = kill(scene)
    finally:
        _behave(scene)
    return began


def _behave(scene: Scene) -> None:
    """Connections that are silent stay so unless they are cut."""
    scene.site.s3_proxy.off()
    scene.site.s3_proxy.cut()


def _await_requests(scene: Scene, wanted: Callable[[Request], bool], count: int) -> None:
    """Until so many of them have come from now on."""
    proxy = scene.site.s3_proxy
    before = len(proxy.requests)

    def have_come() -> bool:
        scene.revive()
        return sum(wanted(request) for request in proxy.requests[before:]) >= count

    until_sync(have_come, seconds=_POINT_SECONDS, what=f"{count} requests of this kind")


def _kill_worker(scene: Scene) -> float:
    chosen = processes.workers(scene.leader.pid)
    for pid in scene.cluster_workers:
        chosen += processes.workers(pid)
    began = time.monotonic()
    # All or one, half of the times each: then the other goes on.
    processes.kill(chosen if scene.chance.random() < 0.5 else chosen[:1])
    return began


def _kill_driver(scene: Scene) -> float:
    """Only killed here; it is started again once the point has passed (`revive`)."""
    below = processes.descendants(scene.leader.pid)
    began = time.monotonic()
    scene.leader.kill()
    processes.await_gone(below)
    return began


def _and_started(point: Callable[[Scene, Callable[[Scene], float]], float]) -> Callable[[Scene], float]:
    def inflict(scene: Scene) -> float:
        began = point(scene, _kill_driver)
        scene.leader.start(ready_seconds=READY_SECONDS)
        return began

    return inflict


# -- uploads that are ended, and what lasts ------------------------------------------------------------------


def _ended_uploads(scene: Scene) -> float:
    """As a person or a rule of the bucket would: the next part finds no upload."""
    chance, proxy = scene.chance, scene.site.s3_proxy
    times = chance.randint(1, 4)
    taken: list[Request] = []

    def wanted(request: Request) -> bool:
        if not is_part(request) or len(taken) >= times:
            return False
        taken.append(request)
        return True

    proxy.on(Answer(status=404, body=_NO_UPLOAD), when=wanted)
    _await_requests(scene, is_part, times)
    proxy.off()
    client = aws.s3(scene.site.endpoint)
    for request in taken:
        bucket, key = place_of(request)
        (upload,) = parse_qs(urlsplit(request.path).query)["uploadId"]
        with suppress(ClientError):
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    client.close()
    return time.monotonic()


def _lasting(scene: Scene, fault: Fault, when: Callable[[Request], bool], longest: float = 8.0) -> float:
    scene.site.s3_proxy.on(fault, when=when)
    time.sleep(scene.chance.uniform(0.5, longest))  # the time that it lasts is random, not waited for
    _behave(scene)
    return time.monotonic()


def _no_completions(scene: Scene) -> float:
    inside = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InternalError</Code></Error>'
    answers = [Answer(status=503), Answer(status=200, body=inside), Answer(status=500)]
    return _lasting(scene, scene.chance.choice(answers), is_completion, 12.0)


def _errors_s3(scene: Scene) -> float:
    chance = scene.chance
    share = chance.choice([0.3, 1.0])
    return _lasting(scene, Answer(status=500), lambda _: chance.random() < share)


def _slow_s3(scene: Scene) -> float:
    chance = scene.chance
    faults: list[Fault] = [Slow(seconds=2.0), Slow(request_bytes_per_second=2000), Silent()]
    share = chance.choice([0.3, 1.0])
    return _lasting(scene, chance.choice(faults), lambda _: chance.random() < share)


def _cut_s3(scene: Scene) -> float:
    """S3 does what it is asked to, and the answer is cut: before it, or in it."""
    chance = scene.chance
    fault = Cut(after_bytes=chance.choice([0, 1, 100]))
    share = chance.choice([0.3, 1.0])
    return _lasting(scene, fault, lambda _: chance.random() < share)


def _killed_s3(scene: Scene) -> float:
    """At a part or a completion, which it may have kept or not; sometimes away for longer than a retry."""
    emulator, chance = scene.site.emulator, scene.chance
    assert isinstance(emulator, LastingS3), "this S3 forgets what it has acknowledged"
    _await_requests(scene, chance.choice([is_part, is_completion]), chance.randint(1, 4))
    began = time.monotonic()
    emulator.daemon.kill()
    time.sleep(chance.choice([0.0, 1.0, 10.0]))  # the time that it is away
    emulator.start()
    return began


_HOW: Final[dict[SinkHarm, Callable[[Scene], float]]] = {
    SinkHarm.SEALED_WORKER: lambda scene: _after_seal(scene, _kill_worker),
    SinkHarm.SEALED_DRIVER: _and_started(_after_seal),
    SinkHarm.COMMITTED_WORKER: lambda scene: _after_commit(scene, _kill_worker),
    SinkHarm.COMMITTED_DRIVER: _and_started(_after_commit),
    SinkHarm.COMPLETED_WORKER: lambda scene: _after_completion(scene, _kill_worker),
    SinkHarm.COMPLETED_DRIVER: _and_started(_after_completion),
    SinkHarm.ENDED_UPLOADS: _ended_uploads,
    SinkHarm.NO_COMPLETIONS: _no_completions,
    SinkHarm.ERRORS_S3: _errors_s3,
    SinkHarm.SLOW_S3: _slow_s3,
    SinkHarm.CUT_S3: _cut_s3,
    SinkHarm.KILLED_S3: _killed_s3,
}
