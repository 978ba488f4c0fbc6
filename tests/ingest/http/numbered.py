"""A service that has done one of everything: its numbers are looked at, and then it is steered by REST."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.stage import Service
from localstack.ports import free_port
from tests.support import aws
from tests.support.proxy import Proxy
from tests.support.service import Route, new_route, queue_depth, rows
from tests.support.until import until_sync

BAD: Final = b"\n".join([*rows("quarantined", 3), b"{broken", *rows("after", 3)]) + b"\n"
SLOTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """The service, its bucket, queue and topic, what is between it and S3, and its REST interface."""

    route: Route
    proxy: Proxy
    service: Service
    name: str
    rest_port: int


@contextmanager
def numbered(folder: Path) -> Iterator[Numbered]:
    """It has read an object from before and announced ones, and left out an empty one and a message."""
    route, name, rest_port = new_route(folder), aws.unique("numbers"), free_port()
    route.upload("listed.jsonl", rows("listed", 50))
    with Proxy(aws.address()) as proxy:
        # Objects wait for a moment, so that their messages are held long enough to be extended.
        service = route.service(
            name,
            aws__s3__endpoint=proxy.url,
            sqs__visibility__timeout__seconds=2,
            object__min__age__ms=2500,
            tasks__max=SLOTS,
            rest__listen=f"127.0.0.1:{rest_port}",
        )
        try:
            service.start(ready_seconds=300)
            until_sync(lambda: service.status()["mode"] == "events", seconds=60, what="events")
            route.upload("announced.jsonl", rows("announced", 70))
            aws.s3().put_object(Bucket=route.bucket, Key="empty.jsonl", Body=b"")
            aws.s3().put_object(Bucket=route.bucket, Key="bad.jsonl", Body=BAD)
            # Those before the broken line are in Kafka.
            route.uploaded.update(rows("quarantined", 3))
            aws.sqs().send_message(QueueUrl=route.queue_url, MessageBody="not for us")
            ends = {"done": 2, "skipped": 1, "quarantined": 1, "pending": 0, "active": 0}

            def is_over() -> bool:
                counts = service.status()["objects"]
                return all(counts[state] == count for state, count in ends.items())

            until_sync(is_over, seconds=60, what="the end of four objects")
            until_sync(lambda: queue_depth(route.queue_url) == 1, seconds=60, what="only what is not ours")
            yield Numbered(route=route, proxy=proxy, service=service, name=name, rest_port=rest_port)
        finally:
            code = service.stop()
    assert code == 0
