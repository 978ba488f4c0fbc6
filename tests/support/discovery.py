"""For the tests of discovery: many uploads at once, and what a service says of itself while they arrive."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.log_lines import written_lines
from tests.support.service import Route, queue_depth
from tests.support.until import until_sync

_UPLOADERS = 8
_SQS_BATCH = 10


Uploaded = tuple[str, str, int]
"""Key, ETag and size of an object that was put, as `send_event` wants them (but the key is not encoded)."""


def upload_all(route: Route, objects: Mapping[str, list[bytes]], *, counts: bool = True) -> list[Uploaded]:
    """Put all these objects, some at once; `counts` as in `Endpoint.upload`."""
    client = aws.s3()

    def put(key: str) -> Uploaded:
        body = b"".join(line + b"\n" for line in objects[key])
        answer = client.put_object(Bucket=route.bucket, Key=key, Body=body)
        return key, answer["ETag"].strip('"'), len(body)

    with ThreadPoolExecutor(_UPLOADERS) as pool:
        uploaded = list(pool.map(put, objects))
    client.close()
    if counts:
        for lines in objects.values():
            route.uploaded.update(lines)
    return uploaded


def announce_all(route: Route, uploaded: Iterable[Uploaded]) -> None:
    """One message for each object, as S3 words it."""
    client = aws.sqs()
    bodies = [_event(route.bucket, *one) for one in uploaded]
    for begin in range(0, len(bodies), _SQS_BATCH):
        batch = bodies[begin : begin + _SQS_BATCH]
        client.send_message_batch(
            QueueUrl=route.queue_url,
            Entries=[{"Id": str(number), "MessageBody": body} for number, body in enumerate(batch)],
        )
    client.close()


def _event(bucket: str, key: str, etag: str, size: int) -> str:
    named = {"key": urllib.parse.quote_plus(key, safe="/"), "eTag": etag, "size": size}
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "s3": {"bucket": {"name": bucket}, "object": named},
    }
    return json.dumps({"Records": [record]})


def await_records(service: Service, count: int, *, seconds: float = 60) -> None:
    """Wait until this run of the service has committed so many records; cheaper than reading the topic."""
    until_sync(
        lambda: service.status()["records_total"] >= count, seconds=seconds, what=f"{count} records committed"
    )


def await_all(service: Service, route: Route, *, seconds: float = 60) -> None:
    """Wait until as many records are committed in this first run as were uploaded on the route."""
    await_records(service, sum(route.uploaded.values()), seconds=seconds)


def await_settled(service: Service, route: Route, *, seconds: float = 60) -> None:
    """The same, and until every message was deleted and nothing is pending."""
    await_all(service, route, seconds=seconds)
    until_sync(lambda: queue_depth(route.queue_url) == 0, seconds=seconds, what="an empty queue")
    until_sync(lambda: service.status()["pending_objects"] == 0, seconds=seconds, what="nothing pending")


def await_full_listing(service: Service, *, seconds: float = 60) -> None:
    """Wait for the end of a full listing that began after this call: the next but one to end."""
    for _ in range(2):
        before = service.status()["last_full_listing_ms"]
        until_sync(
            lambda before=before: service.status()["last_full_listing_ms"] != before,  # type: ignore[misc] # the default binds the loop's variable
            seconds=seconds,
            what="a full listing",
        )


def metric(service: Service | Hosted, name: str, **labels: str) -> float:
    """A sample of `/metrics`; 0 when there is none yet with these labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return 0.0


def log_lines(service: Service | Hosted, event: str) -> list[dict[str, Any]]:
    """The log's lines of one event, in order."""
    lines = (line for line in written_lines(service.log) if line.startswith("{"))
    found = (json.loads(line) for line in lines)
    return [line for line in found if line["event"] == event]


def outcomes(service: Service, key: str) -> list[tuple[str, str | None]]:
    """How the contents of a key ended, state and reason, in order, by the log's canonical lines."""
    return [(line["outcome"], line["reason"]) for line in log_lines(service, "object") if line["key"] == key]


def modes(service: Service) -> list[str]:
    """The modes that the log told of, in order."""
    return [line["mode"] for line in log_lines(service, "mode")]


def is_in_mode(service: Service, mode: str) -> bool:
    """True when `/status` and the metric agree that this mode is on."""
    others = {"events", "fallback", "listing"} - {mode}
    return (
        service.status()["mode"] == mode
        and metric(service, "headrace_mode", mode=mode) == 1
        and all(metric(service, "headrace_mode", mode=other) == 0 for other in others)
    )


def await_mode(service: Service, mode: str, *, seconds: float = 60) -> None:
    """Wait until a mode is on, for `/status` and for the metric."""
    until_sync(lambda: is_in_mode(service, mode), seconds=seconds, what=f"mode {mode}")


def values_of(route: Route, key: str) -> list[bytes]:
    """The committed values whose record key is this object key, partition by partition, in offset order."""
    return [record.value or b"" for record in kafka.committed(route.topic) if record.key == key.encode()]


@contextmanager
def running(service: Service) -> Iterator[Service]:
    """The service, started; stopped afterwards, and that cleanly."""
    service.start()
    try:
        yield service
    except BaseException:
        service.stop()
        raise
    assert service.stop() == 0
