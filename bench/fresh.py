"""Latency of fresh objects, told of by events, while the first listing's backlog is being worked off.

The clock starts before the PUT and stops when a read-committed consumer has the record in its hands, as in
`bench.latency`; only what was uploaded before the backlog was done counts.
"""

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from bench.latency import Seen
from bench.stage import Service, Stage, StageError, stage
from localstack.steps import say

_UPLOADERS: Final = 8


class Fresh:
    """A bucket with a backlog, and a service on it; names are of this measurement alone."""

    def __init__(self, on_stage: Stage, name: str) -> None:
        self._stage = on_stage
        self._name = name

    def prepare(self, backlog: int) -> Service:
        """Fill the bucket, and only then let it tell a queue; the service is not started."""
        on_stage, name = self._stage, self._name
        on_stage.make_bucket(name)

        def put(number: int) -> None:
            body = b'{"backlog":%d}\n' % number
            on_stage.s3.put_object(Bucket=name, Key=f"backlog/{number:06}.jsonl", Body=body)

        with ThreadPoolExecutor(_UPLOADERS) as pool:
            list(pool.map(put, range(backlog)))
        options = on_stage.configuration(
            aws__s3__bucket__name=name,
            sqs__queue__url=f"{on_stage.endpoint}/queue/us-east-1/000000000000/{name}",
            topic=name,
            topic__creation__default__partitions=2,
            topic__creation__default__replication__factor=1,
            file__name__template=".*",
            input__format="jsonl",
            tasks__max=2,
        )
        service = on_stage.service(name, options)
        service.command("setup")
        return service

    def measure(self, service: Service, *, backlog: int, pause_seconds: float) -> dict[str, Any]:
        """Start the service and upload fresh objects until the backlog is done."""
        began = time.monotonic()
        service.start()
        seen = Seen(self._stage, self._name)
        sent: dict[bytes, float] = {}
        try:
            while (done := len(seen.at) - sum(value in seen.at for value in sent)) < backlog:
                value = b'{"fresh":%d}' % len(sent)
                sent[value] = time.monotonic()
                key = f"fresh/{len(sent):06}.jsonl"
                self._stage.s3.put_object(Bucket=self._name, Key=key, Body=value + b"\n")
                time.sleep(pause_seconds)
                if time.monotonic() - began > 900:
                    raise StageError(f"The backlog is not done: {done} objects.\n{service.tail()}")
            took = time.monotonic() - began
            latencies = sorted(seen.wait(value, 120) - at for value, at in sent.items())
        finally:
            seen.stop()
        if not latencies:
            raise StageError("The backlog was done before anything fresh came.")
        return {
            "backlog": backlog,
            "seconds": round(took, 1),
            "fresh": len(latencies),
            "p50_s": round(statistics.median(latencies), 3),
            "p99_s": round(latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))], 3),
            "worst_s": round(latencies[-1], 3),
        }


def main() -> int:
    """Print the latencies as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backlog", type=int, default=20_000)
    parser.add_argument("--pause-seconds", type=float, default=0.1)
    asked = parser.parse_args()
    with stage("fresh") as on_stage:
        fresh = Fresh(on_stage, "headrace-fresh")
        say("fresh", f"{asked.backlog:,} objects ...")
        service = fresh.prepare(asked.backlog)
        try:
            result = fresh.measure(service, backlog=asked.backlog, pause_seconds=asked.pause_seconds)
        finally:
            service.stop()
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
