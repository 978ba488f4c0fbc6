"""How fast an archive of Aiven's sink comes back: `python -m bench.restore`.

First the decoder alone, on one core, beside the plain decoding of the same rows (JSON Lines checked, lines
of text) without a layout; with `--broker`, then, decoding and handing over to a topic of that broker, in CPU
of this process with librdkafka's threads. Then the service with broker and S3 emulator on this machine, which
`make bench-all` measures as well: records/s from the first record on the broker to the last commit, exactly
once, each with its key and timestamp; the ratio to the same rows without a layout, in the same minutes; and
CPU a record, which a busy machine disturbs less (`python -m bench.threads --only restore-jsonl`: by thread).
"""

import argparse
import json
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.aims import AIMS
from bench.contestants import Run, headrace, without_layout
from bench.decode import Memory, best, options, ours
from bench.stage import stage
from bench.workloads import RESTORES, Workload
from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.kafka.producer.batch_produce import best_produce_path
from headrace.kafka.producer.record_calls import RecordProduce
from headrace.kafka.producer.window import ProduceWindow, producer_properties
from headrace.model.columns import RecordTarget, RowBatch
from headrace.options.choices import InputFormat
from headrace.options.settings import FormatSettings
from headrace.vendors.load import load
from spark.memory import keep_freed_memory

_ROWS: Final = 200_000
_TIMES: Final = 7
_KEY: Final = "orders-0-0"


def restored(workload: Workload, source: Memory) -> Callable[[], int]:
    """Decodes all of the object once, and says how many records it gave."""
    decode = batches_of(workload)
    return lambda: sum(len(batch) for batch in decode(source))


def batches_of(workload: Workload) -> Callable[[Memory], Iterator[RowBatch]]:
    """The decoder of such objects."""
    settings = archive_format(workload)
    assert settings.restore is not None
    decoder, how = ArchiveDecoder(settings.restore), DecodeOptions(format=settings, topic="bench")
    return lambda source: decoder.decode(source, None, key=_KEY, options=how, begin=None, end=None)


def archive_format(workload: Workload) -> FormatSettings:
    """What a restore of these objects is told of their rows; names are Aiven's own."""
    given = {"name": "bench", "bootstrap.servers": "127.0.0.1:9092", "aws.s3.bucket.name": "none"}
    own = {name.replace("__", "."): value for name, value in workload.options.items()}
    own |= {"input.format": workload.input_format}
    del own["file.name.template"]
    text = json.dumps(given | own)
    return load(text, kind="json", environment={}, read_file=lambda path: path).format


def decoders() -> None:
    """Print what the decoder alone does, beside plain decoding of the same rows."""
    print(f"{'decoding, one core':32}{'restored/s':>12}{'plain/s':>12}{'ratio':>8}")
    for workload in RESTORES:
        source = Memory(workload.body(0, _ROWS))
        count, how = restored(workload, source), options(InputFormat(workload.plain_format))
        assert count() == _ROWS
        rate, plain = best(count), best(lambda source=source, how=how: ours(source, how))  # type: ignore[misc]  # mypy takes the defaults for arguments
        print(f"{workload.title:32}{rate:12,.0f}{plain:12,.0f}{rate / plain:8.2f}")


def to_broker(bootstrap: str) -> None:
    """Print the least CPU of several times from memory to a topic of its own, which is deleted."""
    admin, name = AdminClient({"bootstrap.servers": bootstrap}), f"bench-restore-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    properties = producer_properties({"bootstrap.servers": bootstrap, "enable.idempotence": "true"})
    producer = Producer(properties)

    def is_void() -> bool:
        return False

    ordinary = RecordProduce(producer, is_void)
    path = best_produce_path(producer, ordinary, is_void, partitioner="murmur2", partitions=lambda _topic: 1)
    window, target = ProduceWindow(producer, properties, is_void), RecordTarget(topic=name, partition=0)
    try:
        for workload in RESTORES:
            source, decode = Memory(workload.body(0, _ROWS)), batches_of(workload)
            found = []
            for _ in range(_TIMES):
                began = time.process_time()
                for rows in decode(source):
                    for begin, end in window.steps(target, rows, 0, len(rows)):
                        path.send(target, rows, begin, end)
                producer.flush(60)
                found.append((time.process_time() - began) / _ROWS * 1e6)
            middle = statistics.median(found)
            print(f"{workload.title:32}{min(found):8.2f} us of CPU a record, {middle:.2f} median")
    finally:
        path.close()
        admin.delete_topics([name])[name].result(30)


def end_to_end(rounds: int, objects: int) -> None:
    """Print what the service does on two tasks, with the broker and the S3 emulator on the same machine."""
    with stage("restore") as on_stage:
        for each in RESTORES:
            workload = replace(each, objects=objects)
            workload.upload(on_stage)
            # A broker whose JVM has compiled nothing costs half the speed.
            headrace(on_stage, workload)
            restores, others = [], []
            for _ in range(rounds):
                restores.append(headrace(on_stage, workload))
                others.append(without_layout(on_stage, workload))
            rate = statistics.median(run.rate for run in restores)
            ratio = rate / statistics.median(run.rate for run in others)
            aim = next(aim.aim for aim in AIMS if aim.workload == workload.name)
            print(f"{workload.title:32}{rate:12,.0f} records/s (aim {aim:,}), {ratio:.2f} of no layout")
            for what, runs in (("restored", restores), ("no layout", others)):
                print(f"{what:>32}{_cpu(runs)}")


def _cpu(runs: Sequence[Run]) -> str:
    """CPU a record of the run in which ours took least: of all our processes, and of those beside."""
    least = min(runs, key=lambda run: sum(run.cpu_us.values()))
    parts = {**least.cpu_us, **least.beside_us}
    shown = ", ".join(f"{name} {each:.2f}" for name, each in parts.items())
    return f"{sum(least.cpu_us.values()):12.2f} us of CPU a record, all our processes: {shown}"


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=60, help="of 50,000 records each")
    parser.add_argument("--decoders", action="store_true", help="only the decoders, without S3 and Kafka")
    parser.add_argument("--broker", help="host and port: from memory to a topic of this one, too")
    chosen = parser.parse_args()
    decoders()
    if chosen.broker:
        keep_freed_memory()
        to_broker(chosen.broker)
    if not chosen.decoders:
        end_to_end(chosen.rounds, chosen.objects)


if __name__ == "__main__":
    # One thread each, so that CPU seconds are seconds of one core.
    pa.set_cpu_count(1)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # noqa: TID251  # a script's own set-up
    main()
