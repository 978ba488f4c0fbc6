"""A source that two proxies and a hand on its topics can trouble, and what it says and does about it.

It is a service of its own, or a connector of the worker that many tests share: a service takes seven seconds
of CPU until it is ready, a connector half a second.

Keys are `TOPIC/NAME` or `TOPIC/pPARTITION/NAME`: one source writes to whatever topic a test makes.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from bench.stage import Service
from headrace.model.ledger_entry import LedgerEntry, decode_entry, decode_key
from headrace.model.objects import ObjectId
from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.log_lines import written_lines
from tests.support.proxy import Proxy, Request
from tests.support.service import Route, announce, queue_depth
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

ATTEMPTS: Final = 3
"""`errors.max.attempts` of every stand."""
CALLS: Final = 3
"""GETs of one call, `aws.s3.backoff.max.retries` being one less."""
RECORD_MAX: Final = 20_000
"""`record.max.bytes`."""
_ABORTED: Final = "TransactionAborted"
SECRET: Final = b"the-content-of-a-row-which-no-log-may-show"

_OPTIONS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "topic": None,
        "file__name__template": "^{{topic}}/(?:p{{partition}}/)?",
        "errors__max__attempts": ATTEMPTS,
        "errors__retry__delay__ms": 50,
        "errors__retry__delay__max__ms": 400,
        "aws__s3__backoff__delay__ms": 10,
        "aws__s3__backoff__max__delay__ms": 50,
        "aws__s3__backoff__max__retries": CALLS - 1,
        "sqs__wait__time__seconds": 1,
        "key__source": "field:id",
        "record__max__bytes": RECORD_MAX,
        # A transaction of its own for almost every object: what fails must not hide behind what goes well.
        "transaction__boundary__interval__ms": 50,
    }
)


@dataclass(slots=True, kw_only=True)
class Stand:
    """One source with its bucket, its queue, and the proxy in front of S3."""

    route: Route
    service: Service | Hosted
    proxy: Proxy
    name: str
    letters: str | None
    """The dead letter topic, if there is one."""
    bootstrap: str
    """Where its brokers answer."""

    @property
    def is_tolerant(self) -> bool:
        """True with `errors.tolerance=all`."""
        return self.letters is not None

    def topic(self, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new output topic."""
        return kafka.new_topic("errors", partitions=partitions, config=config, bootstrap=self.bootstrap)

    def put(self, key: str, body: bytes, **given: Any) -> str:
        """Upload an object; its version id, or an empty text."""
        answer = aws.s3().put_object(Bucket=self.route.bucket, Key=key, Body=body, **given)
        return str(answer.get("VersionId", ""))

    def end(self, key: str) -> dict[str, Any] | None:
        """The last canonical log line of this key, if it has come to an end."""
        found = self._lines("object", key)
        return found[-1] if found else None

    def await_end(self, key: str, *, seconds: float = 60) -> dict[str, Any]:
        """The canonical log line of this key, once there is one."""
        until_sync(lambda: self.end(key) is not None, seconds=seconds, what=f"the end of {key}")
        found = self.end(key)
        assert found is not None
        return found

    def goes_on(self, topic: str) -> None:
        """Other objects go on: one more arrives while whatever is wrong is wrong."""
        key = f"{topic}/{aws.unique('beside')}"
        self.put(key, b'{"id":"beside"}\n')
        assert self.await_end(key)["outcome"] == "done"

    def failures(self, key: str) -> list[dict[str, Any]]:
        """The log's lines of failed attempts at this key, without transactions that the broker aborted."""
        return [line for line in self._lines("object_failed", key) if line["kind"] != _ABORTED]

    def again(self, key: str) -> int:
        """How often it was read again because a busy broker aborted a transaction: not the object's fault."""
        return len(self._lines("object_failed", key)) - len(self.failures(key))

    def _lines(self, event: str, key: str) -> list[dict[str, Any]]:
        """The log's lines of one event and one key; all others are not even parsed."""
        likely = (line for line in written_lines(self.service.log) if key in line and event in line)
        lines = [json.loads(line) for line in likely if line.startswith("{")]
        return [line for line in lines if (line["event"], line.get("key")) == (event, key)]

    def gets(self, key: str) -> list[Request]:
        """The GETs of this object that reached the proxy, in order."""
        return [request for request in self.proxy.requests if self.is_get(request, key)]

    def answered(self, key: str) -> list[int]:
        """What S3 has answered to GETs of this object, none to one that a lost connection swallowed."""
        return [status for request, status in self.proxy.answers if self.is_get(request, key)]

    def is_get(self, request: Request, key: str) -> bool:
        """True for a GET of this object."""
        return request.method == "GET" and unquote(request.path).partition("?")[0].endswith(f"/{key}")

    def entry(self, key: str) -> LedgerEntry | None:
        """What the ledger says of this key, whatever its ETag: the last record."""
        found = None
        for record in kafka.committed(f"{self.name}-offsets", bootstrap=self.bootstrap):
            assert record.key is not None
            ledger_key = decode_key(record.key)
            if isinstance(ledger_key, ObjectId) and ledger_key.key == key:
                found = None if record.value is None else decode_entry(record.value)
        return found

    def values(self, topic: str) -> list[bytes]:
        """The committed values of a topic, partition by partition."""
        return [record.value or b"" for record in kafka.committed(topic, bootstrap=self.bootstrap)]

    def dead(self, key: str) -> list[kafka.Record]:
        """The dead letters of an object."""
        assert self.letters is not None
        wanted = ("headrace.key", key.encode())
        letters = kafka.committed(self.letters, bootstrap=self.bootstrap)
        return [record for record in letters if wanted in record.headers]

    def readiness(self) -> tuple[bool, str]:
        """What `/health/ready` answers, of a connector its worker's: whether it is ready, and its words."""
        of = f"/connectors/{self.name}" if isinstance(self.service, Hosted) else ""
        url = f"http://127.0.0.1:{self.service.port}{of}/health/ready"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return True, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return False, error.read().decode()

    def await_ready(self, *, ready: bool, seconds: float = 60) -> str:
        """The words of `/health/ready`, once it answers so."""
        said = (not ready, "")

        def is_said() -> bool:
            nonlocal said
            said = self.readiness()
            return said[0] is ready

        until_sync(is_said, seconds=seconds, what=f"ready being {ready}")
        return said[1]

    def await_quiet(self, *, seconds: float = 60) -> None:
        """Wait until nothing is pending and the queue is empty."""
        until_sync(
            lambda: self.service.status()["pending_objects"] == 0, seconds=seconds, what="nothing pending"
        )
        until_sync(lambda: queue_depth(self.route.queue_url) == 0, seconds=seconds, what="an empty queue")

    def silence(self, *, seconds: float) -> int:
        """How many GETs came within so many seconds; looks at the proxy, not at a clock alone."""
        before, deadline = len(self.proxy.requests), time.monotonic() + seconds
        until_sync(lambda: time.monotonic() >= deadline, seconds=seconds + 5)
        return sum(request.method == "GET" for request in self.proxy.requests[before:])


@contextmanager
def stand(
    folder: Path, stem: str, *, tolerant: bool = False, bootstrap: str | None = None, **options: object
) -> Iterator[Stand]:
    """A stand whose service runs; afterwards it has to end cleanly, and must not have shown any content.

    `bootstrap` is where other brokers than the shared one answer.
    """
    servers = bootstrap or kafka.address()
    route, asked, letters = _asked(folder, servers, tolerant=tolerant, options=options)
    with Proxy(aws.address()) as proxy:
        name = aws.unique(stem)
        service = route.service(name, aws__s3__endpoint=proxy.url, **asked)
        try:
            service.start(ready_seconds=300)
            yield Stand(
                route=route, service=service, proxy=proxy, name=name, letters=letters, bootstrap=servers
            )
        except BaseException:
            service.stop()
            raise
        assert service.stop() == 0
    assert SECRET not in service.log.read_bytes()


@contextmanager
def hosted_stand(
    worker: WorkerProcess, folder: Path, stem: str, *, tolerant: bool = False
) -> Iterator[Stand]:
    """A stand that is a connector of this worker; no content may be in the worker's log afterwards."""
    servers = kafka.address()
    route, asked, letters = _asked(folder, servers, tolerant=tolerant, options={})
    with Proxy(aws.address()) as proxy:
        name = aws.unique(stem)
        given = route.options(aws__s3__endpoint=proxy.url, **asked)
        hosted = Hosted(worker=worker, name=name, options=given)
        try:
            hosted.start()
            yield Stand(
                route=route, service=hosted, proxy=proxy, name=name, letters=letters, bootstrap=servers
            )
        finally:
            hosted.stop()
    assert SECRET not in hosted.log.read_bytes()


def _asked(
    folder: Path, servers: str, *, tolerant: bool, options: Mapping[str, object]
) -> tuple[Route, dict[str, object], str | None]:
    """A route without a topic, the options of a stand on it, and its dead letter topic if it has one."""
    bucket, queue_url = aws.new_bucket(), aws.new_queue()
    announce(bucket, queue_url)
    route = Route(folder=folder, bucket=bucket, queue_url=queue_url, topic="")
    asked: dict[str, object] = {**_OPTIONS, "bootstrap__servers": servers, **options}
    if not tolerant:
        return route, asked, None
    letters = kafka.new_topic("letters", bootstrap=servers)
    asked |= {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": letters}
    return route, asked, letters


def json_lines(*rows: Mapping[str, Any]) -> bytes:
    """Rows as JSON Lines."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def counted(count: int, mark: str = "row") -> Sequence[Mapping[str, Any]]:
    """So many rows, each different."""
    return [{"id": f"{mark}-{number}"} for number in range(count)]
