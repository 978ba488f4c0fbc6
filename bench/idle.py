"""What Headrace costs while nothing arrives: CPU, and requests to SQS, S3 and Kafka, scaled to an hour.

The requests are counted by what stands between it and the parts: a proxy in front of LocalStack, a relay in
front of the broker. CPU is that of the whole process tree (driver, JVM, Python workers), from /proc.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bench import processes
from bench.kafka_relay import KafkaRelay
from bench.stage import Service, Stage, StageError, stage
from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from localstack.steps import say
from tests.support.proxy import Proxy, Request

BUCKET: Final = "headrace-idle"
TOPIC: Final = "idle"
OBJECTS: Final = 20
# What the start leaves behind (lingering tasks, the first listing) is over after this.
SETTLE_SECONDS: Final = 45.0


def prepared(on_stage: Stage, proxy: Proxy, bootstrap: str) -> Service:
    """Bucket, queue and topic, and a service that reaches all of them past the counters."""
    on_stage.make_bucket(BUCKET)
    on_stage.bootstrap = bootstrap
    options = on_stage.configuration(
        aws__s3__bucket__name=BUCKET,
        aws__s3__endpoint=proxy.url,
        sqs__queue__url=f"{on_stage.endpoint}/queue/us-east-1/000000000000/{BUCKET}",
        sqs__endpoint=proxy.url,
        topic=TOPIC,
        topic__creation__default__partitions=1,
        topic__creation__default__replication__factor=1,
        file__name__template=".*",
        input__format="jsonl",
    )
    service = on_stage.service("idle", options)
    service.command("setup")
    return service


def measure(on_stage: Stage, *, seconds: float) -> dict[str, Any]:
    """Requests an hour by kind, and CPU as a share of one core by kind of process."""
    relay_port = free_port()
    broker = Broker(
        folder=on_stage.folder / "idle-broker",
        jar_folder=JAR_FOLDER,
        port=free_port(),
        controller_port=free_port(),
        properties={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay_port}"},
        lasting=True,
    )
    with Proxy(on_stage.endpoint) as proxy, KafkaRelay(broker.bootstrap, port=relay_port) as relay:
        broker.start()
        try:
            service = prepared(on_stage, proxy, relay.address)
            service.start()
            try:
                return observe(on_stage, service, proxy, relay, seconds=seconds)
            finally:
                service.stop()
        finally:
            broker.stop()


def observe(
    on_stage: Stage, service: Service, proxy: Proxy, relay: KafkaRelay, *, seconds: float
) -> dict[str, Any]:
    """Look at a service that has done some work and has nothing more to do."""
    for number in range(OBJECTS):
        on_stage.s3.put_object(Bucket=BUCKET, Key=f"{number}.jsonl", Body=b'{"number":%d}\n' % number)
    deadline = time.monotonic() + 60
    while service.status()["objects"]["done"] < OBJECTS:
        if time.monotonic() > deadline:
            raise StageError(f"The objects before the quiet time are not done:\n{service.tail()}")
        time.sleep(0.1)
    say("idle", f"{SETTLE_SECONDS:.0f} s to settle, then {seconds:.0f} s to measure ...")
    time.sleep(SETTLE_SECONDS)

    asked, kafka, cpu = len(proxy.requests), relay.counts(), processes.cpu_seconds(service.pid)
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    requests = Counter(kinds(proxy.requests[asked:]))
    kafka = relay.counts() - kafka
    used = processes.cpu_seconds(service.pid)
    shares = {kind: 100 * (after - cpu.get(kind, 0.0)) / took for kind, after in used.items()}
    return {
        "seconds": round(took, 1),
        "requests_an_hour": hourly(requests, took),
        "kafka_requests_an_hour": hourly(kafka, took) | {"all": round(kafka.total() * 3600 / took)},
        "cpu_percent_of_a_core": {kind: round(share, 2) for kind, share in shares.items()}
        | {"all": round(sum(shares.values()), 2)},
        "resident_mib": processes.memory_mib(service.pid)[0],
    }


def kinds(requests: Iterable[Request]) -> Iterable[str]:
    """What each request to LocalStack asked for."""
    for request in requests:
        target = request.headers.get("x-amz-target", "")
        if target.startswith("AmazonSQS."):
            yield target
        elif "list-type=2" in request.path:
            yield "S3 LIST"
        else:
            yield f"S3 {request.method}"


def hourly(counts: Mapping[str, int], seconds: float) -> dict[str, int]:
    """The counts scaled to an hour."""
    return {name: round(count * 3600 / seconds) for name, count in sorted(counts.items())}


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    asked = parser.parse_args()
    with stage("idle") as on_stage:
        print(json.dumps(measure(on_stage, seconds=asked.seconds), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
