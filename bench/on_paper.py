"""So many slots and objects a day as this machine cannot have, reckoned from what was measured on it.

CPU an object is that of `bench/results.json`, of small objects, by process; bytes of the ledger are those of
an entry, encoded. The rest is arithmetic, printed with the figures: nothing of it was run.

    python -m bench.on_paper                                    # 100 slots, 10 million objects a day
    python -m bench.on_paper --slots 400 --objects 100000000
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ObjectId
from headrace.model.positions import BytePosition

_DAY_SECONDS: Final = 86_400
# As Kafka stores a record in a batch: lengths, deltas and attributes, some bytes each.
_RECORD_OVERHEAD: Final = 12
# Where many wait, up to so many share a transaction (`planner`); where they come one by one, a batch has one.
_MOST_A_BATCH: Final = 200
_SQS_BATCH: Final = 10
_LIST_PAGE: Final = 1000
_RETENTION_DAYS: Final = 30
# Of us-east-1 in 2026, USD a million.
_USD_GET: Final = 0.40
_USD_LIST: Final = 5.0
_USD_SQS: Final = 0.40
_USD_CORE_HOUR: Final = 0.05
_KEY: Final = "topics/orders/year=2026/month=11/day=25/hour=20/orders-12-0000000000123456789.jsonl.gz"
_ETAG: Final = "d41d8cd98f00b204e9800998ecf8427e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """CPU microseconds of a small object, by process."""

    workers: float
    driver: float
    jvm: float
    broker: float

    @classmethod
    def of(cls, results: Any) -> "Measured":
        """What `make bench-all` found."""
        found = results["workloads"]["small"]["contestants"]["headrace"]
        us = found["cpu_us"]
        return cls(
            workers=us["workers"], driver=us["driver"], jvm=us["jvm"], broker=found["beside_us"]["broker"]
        )


def entry_bytes() -> int:
    """Bytes of the ledger's record of a finished object with a key of usual length, not compressed."""
    key = encode_key(ObjectId("a-bucket-of-usual-length", _KEY, _ETAG))
    entry = LedgerEntry(
        state=State.DONE,
        records=1000,
        position=BytePosition(200_000),
        options="0123456789abcdef",
        topic="orders",
        partition=12,
        size=200_000,
        last_modified_ms=1_795_637_219_268,
        updated_ms=1_795_637_220_268,
    )
    return len(key) + len(encode_entry(entry)) + _RECORD_OVERHEAD


def table(measured: Measured, slots: int, objects: int, peak: float) -> list[tuple[str, str, str]]:
    """What is reckoned, how, and how much; in the busiest hour there are `peak` times the mean's objects."""
    a_second = objects / _DAY_SECONDS
    busiest = a_second * peak
    entry = entry_bytes()
    busy = busiest * measured.workers / 1e6
    sqs = 2 * objects / _SQS_BATCH
    lists = 24 * objects / _LIST_PAGE
    gets = objects * _USD_GET / 1e6
    requests = gets + sqs * _USD_SQS / 1e6 + lists * _USD_LIST / 1e6
    cores = (slots + 1) * 24 * _USD_CORE_HOUR
    ledger = objects * entry
    return [
        (
            "objects a second, and in the busiest hour",
            f"{peak:g} times the mean",
            f"{a_second:,.0f}, {busiest:,.0f}",
        ),
        ("slots busy", f"{measured.workers / 1000:.2f} ms a small object", f"{busy:.2f} of {slots}"),
        (
            "objects a second that the slots could take",
            "a core each, GETs of 20 ms, 32 in flight",
            f"{slots * min(1e6 / measured.workers, 32 / 0.02):,.0f}",
        ),
        (
            "the driver's thread",
            f"{measured.driver / 1000:.2f} ms an object, JVM {measured.jvm / 1000:.3f}",
            f"{busiest * measured.driver / 1e6:.3f} of a core",
        ),
        (
            "at most, one driver",
            "one thread decides",
            f"{1e6 / measured.driver:,.0f} objects/s",
        ),
        (
            "brokers, without replication",
            f"{measured.broker / 1000:.2f} ms an object",
            f"{busiest * measured.broker / 1e6:.2f} cores",
        ),
        (
            "transactions a second",
            f"one a batch of 1 to {_MOST_A_BATCH} objects",
            f"{busiest / _MOST_A_BATCH:.1f} to {busiest:,.0f}",
        ),
        ("ledger, a record", "key and entry, encoded", f"{entry} bytes"),
        ("ledger, a day", "a record an object, not compressed", f"{ledger / 1e9:.1f} GB"),
        (
            f"ledger, {_RETENTION_DAYS} days",
            "`ledger.retention.ms`",
            f"{_RETENTION_DAYS * ledger / 1e9:,.0f} GB",
        ),
        ("ledger, writes", "one partition", f"{busiest:,.0f} records/s, {busiest * entry / 1e6:.2f} MB/s"),
        ("requests a day, GET", "one an object", f"{objects:,}"),
        ("requests a day, SQS", f"received and deleted by {_SQS_BATCH}", f"{sqs:,.0f}"),
        ("requests a day, LIST", "a day's keys each hour, a thousand a page", f"{lists:,.0f}"),
        ("requests, USD a day", "0.40 a million GET and SQS, 5 a million LIST", f"{requests:.2f}"),
        ("requests, USD for a million objects", "the same", f"{requests / objects * 1e6:.2f}"),
        ("cores, USD a day", f"slots and a driver, {_USD_CORE_HOUR} a core and hour", f"{cores:.2f}"),
    ]


def main() -> None:
    """Print the table, as docs/planning.md has it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--objects", type=int, default=10_000_000, help="a day")
    parser.add_argument("--peak", type=float, default=4.0, help="the busiest hour, of the day's mean")
    asked = parser.parse_args()
    measured = Measured.of(json.loads(Path(__file__).with_name("results.json").read_text()))
    print(f"| {asked.slots} slots, {asked.objects:,} small objects a day | reckoned | |")
    print("| --- | --- | ---: |")
    for what, how, much in table(measured, asked.slots, asked.objects, asked.peak):
        print(f"| {what} | {how} | {much} |")


if __name__ == "__main__":
    main()
