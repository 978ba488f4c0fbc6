"""How fast an archive of Aiven's sink comes back: `python -m bench.restore`.

First the decoder alone, on one core, beside the plain decoding of the same rows (JSON Lines checked, lines of
text) without a layout. Then the service with broker and S3 emulator on this machine: records/s from the first
record on the broker to the last commit, exactly once, each with its key and timestamp; and CPU a record,
which a busy machine disturbs less.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from bench.archive_rows import CSV_FIELDS, aiven_csv, aiven_jsonl
from bench.contestants import Run, headrace
from bench.decode import Memory, best, options, ours
from bench.stage import stage
from bench.workloads import Workload
from ingest.settings import load
from ingest.settings.choices import InputFormat
from ingest.settings.settings import FormatSettings
from spark.formats import DecodeOptions
from spark.formats.archives import ArchiveDecoder

_ROWS: Final = 200_000
_KEY: Final = "orders-0-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One form of the sink's objects; `plain` is how their rows are read without a layout."""

    name: str
    body: Callable[[int, int], bytes]
    plain: InputFormat
    given: dict[str, str]
    aim: int


ARCHIVES: Final = (
    Archive(
        name="aiven jsonl envelope",
        body=aiven_jsonl,
        plain=InputFormat.JSONL,
        given={"input.format": "jsonl"},
        aim=400_000,
    ),
    Archive(
        name="aiven csv",
        body=aiven_csv,
        plain=InputFormat.TEXT,
        given={"input.format": "csv", "format.output.fields": CSV_FIELDS},
        aim=300_000,
    ),
)


def restored(archive: Archive, source: Memory) -> Callable[[], int]:
    """Decodes all of the object once, and says how many records it gave."""
    settings = _settings(archive)
    assert settings.restore is not None
    decoder, how = ArchiveDecoder(settings.restore), DecodeOptions(format=settings, topic="bench")

    def count() -> int:
        batches = decoder.decode(source, None, key=_KEY, options=how, begin=None, end=None)
        return sum(len(batch) for batch in batches)

    return count


def _settings(archive: Archive) -> FormatSettings:
    given = {"name": "bench", "bootstrap.servers": "127.0.0.1:9092", "aws.s3.bucket.name": "none"}
    text = json.dumps({**given, "input.layout": "aiven", **archive.given})
    return load(text, kind="json", environment={}, read_file=lambda path: path).format


def decoders() -> None:
    """Print what the decoder alone does, beside plain decoding of the same rows."""
    print(f"{'decoding, one core':26}{'restored/s':>12}{'plain/s':>12}{'ratio':>8}")
    for archive in ARCHIVES:
        source = Memory(archive.body(0, _ROWS))
        count, how = restored(archive, source), options(archive.plain)
        assert count() == _ROWS
        rate, plain = best(count), best(lambda source=source, how=how: ours(source, how))  # type: ignore[misc]
        print(f"{archive.name:26}{rate:12,.0f}{plain:12,.0f}{rate / plain:8.2f}")


def end_to_end(rounds: int, objects: int) -> None:
    """Print what the service does on two tasks, with the broker and the S3 emulator on the same machine."""
    with stage("restore") as on_stage:
        for archive in ARCHIVES:
            workload = _workload(archive, objects)
            plain = replace(workload, input_format=archive.plain.value, options={})
            workload.upload(on_stage)
            headrace(on_stage, plain)  # a broker whose JVM has compiled nothing costs half the speed
            restores, others = [], []
            for _ in range(rounds):
                restores.append(headrace(on_stage, workload))
                others.append(headrace(on_stage, plain))
            rate = statistics.median(run.rate for run in restores)
            ratio = rate / statistics.median(run.rate for run in others)
            print(f"{archive.name:26}{rate:12,.0f} records/s (aim {archive.aim:,}), {ratio:.2f} of plain")
            for what, runs in (("restored", restores), ("plain", others)):
                print(f"{what:>26}{_cpu(runs)}")


def _cpu(runs: Sequence[Run]) -> str:
    """CPU a record of the run that took least."""
    least = min(runs, key=lambda run: sum(run.cpu_us.values()))
    parts = {**least.cpu_us, **least.beside_us}
    shown = ", ".join(f"{name} {each:.2f}" for name, each in parts.items())
    return f"{sum(parts.values()):12.2f} us of CPU a record: {shown}"


def _workload(archive: Archive, objects: int) -> Workload:
    changes = {option.replace(".", "__"): text for option, text in archive.given.items()}
    # As in an archive, all records of an object are of one partition.
    changes |= {"input__layout": "aiven", "file__name__template": "in/{{partition:padding=false}}"}
    changes["restore__partition"] = "modulo"
    return Workload(
        name=archive.name.replace(" ", "-"),
        title=archive.name,
        objects=objects,
        rows=50_000,
        body=archive.body,
        options=changes,
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=20, help="of 50,000 records each")
    parser.add_argument("--decoders", action="store_true", help="only the decoders, without S3 and Kafka")
    chosen = parser.parse_args()
    decoders()
    if not chosen.decoders:
        end_to_end(chosen.rounds, chosen.objects)


if __name__ == "__main__":
    # One thread each, so that CPU seconds are seconds of one core.
    pa.set_cpu_count(1)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # noqa: TID251  # a script's own set-up
    main()
