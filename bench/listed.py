"""What a listed object that the ledger knows as done costs the driver: its page parsed, and merged.

Each hour, and at the poll cadence without a queue, nearly all that a listing shows is of this kind. The pages
come from memory, as S3 writes them; parser, lister, catalogue and the cache of the ledger are the service's.

    python -m bench.listed [--pages 20] [--rounds 20]

With `--service` it is the CPU of the whole driver of a service that lists 3,000 objects all the time and has
nothing else to do, on parts of its own: HTTP, credentials and threads are in it.
"""

import argparse
import asyncio
import re
import statistics
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import botocore.session
from botocore.handlers import decode_list_object_v2
from botocore.model import Shape
from botocore.parsers import create_parser

from bench import processes
from bench.contestants import PARTITIONS, serving
from bench.stage import Service, StageError, stage
from bench.workloads import WORKLOADS
from headrace.kafka.cache_files import CacheDirectory, collect_rows
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model import clock
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ListingPage, ObjectId
from ingest.source.catalogue import Catalogue
from ingest.source.object_selection import object_filter_of
from listeners.async_clients import _before_parse
from listeners.discovery_events import Counters, Event, ListingKind
from listeners.listing import Bucket, Lister
from tests.support.configuration import settings_for

_BUCKET: Final = "listed"
_KEYS: Final = 1_000
_OBJECTS: Final = 3 * _KEYS
_PATIENCE_SECONDS: Final = 300.0
_MODIFIED_MS: Final = 1_764_000_000_000
_LIST: Final = botocore.session.get_session().get_service_model("s3").operation_model("ListObjectsV2")
_CONTENTS: Final = (
    "<Contents><Key>{key}</Key><LastModified>2025-11-24T16:00:00.000Z</LastModified>"
    "<ETag>&quot;{etag}&quot;</ETag><Size>2000</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
_PAGE: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult '
    'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name><Prefix></Prefix>'
    "<EncodingType>url</EncodingType><MaxKeys>1000</MaxKeys><IsTruncated>{more}</IsTruncated>"
    "{token}{contents}</ListBucketResult>"
)


def objects(page: int) -> Iterator[ObjectId]:
    """Those of one page."""
    for number in range(page * _KEYS, (page + 1) * _KEYS):
        yield ObjectId(_BUCKET, f"in/2026/11/26/events-{number:09}.jsonl", f"{number:032x}")


def body(page: int, pages: int) -> bytes:
    """S3's answer."""
    is_last = page + 1 == pages
    token = "" if is_last else f"<NextContinuationToken>{page + 1}</NextContinuationToken>"
    contents = "".join(_CONTENTS.format(key=each.key, etag=each.etag) for each in objects(page))
    more = "false" if is_last else "true"
    return _PAGE.format(bucket=_BUCKET, more=more, token=token, contents=contents).encode()


class Pages:
    """In the place of S3's client."""

    def __init__(self, pages: int) -> None:
        self._bodies = [body(page, pages) for page in range(pages)]
        self._parser = create_parser("rest-xml")

    async def list_objects_v2(self, **given: Any) -> Mapping[str, Any]:
        """A page, parsed as the listeners' client does it."""
        at = self._bodies[int(given.get("ContinuationToken", 0))]
        answer: dict[str, Any] = {"status_code": 200, "headers": {}, "body": at}
        found: dict[str, Any] = {}
        _before_parse(answer, found)
        page: dict[str, Any] = self._parser.parse(answer, cast("Shape", _LIST.output_shape))
        page.update(found)
        decode_list_object_v2(page, {"encoding_type_auto_set": True})
        return page

    async def head_object(self, **given: Any) -> Mapping[str, Any]:
        """None is asked for: the listing has all ETags."""
        raise AssertionError(given)


def measure(pages: int, rounds: int) -> None:
    """Print microseconds of CPU an object: the least and the median of the rounds."""
    identity = LedgerIdentity(cluster_id="c", topic="l", topic_id="t")
    settings = settings_for(bucket=_BUCKET, queue_url=None)
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as cache:
        for page in range(pages):
            known = (
                (encode_key(each), encode_entry(_done(number))) for number, each in enumerate(objects(page))
            )
            cache.apply(collect_rows(known), page)
        catalogue = Catalogue(view=CacheLedgerView(cache), filters={_BUCKET: object_filter_of(settings)})
        merging = 0.0

        def post(event: Event) -> None:
            nonlocal merging
            if isinstance(event, ListingPage):
                begun = time.process_time()
                effects = catalogue.on_listing_page(event, clock.now())
                merging += time.process_time() - begun
                assert not effects.pending
                lister.page_done()

        def count(*_counted: object) -> None:
            return None

        counters = Counters(messages=count, heartbeats=count, list_requests=count, inventory_rows=count)
        lister = Lister(client=Pages(pages), bucket=Bucket(name=_BUCKET), post=post, counters=counters)
        found: dict[str, list[float]] = {"parsed": [], "merged": []}
        for _ in range(rounds):
            merging, begun = 0.0, time.process_time()
            asyncio.run(lister.list(ListingKind.FULL, after=None))
            whole = time.process_time() - begun
            found["merged"].append(merging / pages / _KEYS * 1e6)
            found["parsed"].append((whole - merging) / pages / _KEYS * 1e6)
    for name, each in found.items():
        print(f"{name}: {min(each):.2f} at least, {statistics.median(each):.2f} µs an object")


def _done(number: int) -> LedgerEntry:
    return LedgerEntry(
        state=State.DONE,
        records=10,
        topic="events",
        partition=number % 4,
        size=2000,
        last_modified_ms=_MODIFIED_MS,
        updated_ms=_MODIFIED_MS + number,
    )


def in_service(seconds: float) -> float:
    """Microseconds of the driver a listed object, in so many seconds of a service whose objects are done."""
    small = next(each for each in WORKLOADS if each.name == "small")
    often = {"poll__interval__ms": "500", "poll__listing": "full"}
    workload = replace(small, objects=_OBJECTS, options=dict(small.options) | often)
    with stage("listed") as on_stage:
        workload.upload(on_stage)
        topic = f"listed-{uuid.uuid4().hex[:8]}"
        on_stage.make_topic(topic, PARTITIONS)
        with serving(on_stage, topic, workload) as service:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while service.status()["objects"]["done"] < _OBJECTS:
                if time.monotonic() > deadline:
                    raise StageError(f"not done in {_PATIENCE_SECONDS:.0f} s:\n{service.tail()}")
                time.sleep(0.5)
            # The passes that were under way meanwhile.
            time.sleep(2)
            used, pages = processes.cpu_seconds(service.pid)["driver"], _pages(service)
            time.sleep(seconds)
            used = processes.cpu_seconds(service.pid)["driver"] - used
            return used / (_pages(service) - pages) / _KEYS * 1e6


def _pages(service: Service) -> float:
    """How many pages were listed so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/metrics", timeout=5) as answer:
        found = re.search(r"headrace_list_requests_total ([\d.]+)", answer.read().decode())
    if found is None:
        raise StageError("the metrics have no headrace_list_requests_total")
    return float(found[1])


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--service", action="store_true")
    given = parser.parse_args()
    if given.service:
        print(f"{in_service(seconds=16):.1f} µs of the driver a listed object")
    else:
        measure(given.pages, given.rounds)


if __name__ == "__main__":
    main()
