"""Peak memory of a worker that reads objects of any size: `python -m bench.memory`.

For each format an object is written to a temporary folder, 64 MiB and 2 GiB side by side; Parquet is one
single row group, with pages of 8 MiB, and what repeats there takes some KiB. It is decoded by a process of
its own, and then brought from S3 to Kafka by a service of its own; printed are the peaks of resident memory,
of that process and of the service's largest Spark worker. `--quick` takes 256 MiB for the larger size,
`--decoders` leaves the services out, `--only parquet` the other formats. Exit code 1 when a peak exceeds the
promise.
"""

import argparse
import gzip
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from bench.decode import AVRO_SCHEMA, options
from bench.processes import tree
from bench.stage import Stage, StageError, stage
from headrace.formats import DECODERS
from headrace.formats.records.registry import varint
from headrace.options.choices import InputFormat

PROMISE_MIB = 400
MIB = 1 << 20
_RUN_SECONDS = 900


class File:
    """An object on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name
        self.size = path.stat().st_size
        self.fetched_bytes = 0

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Chunks of a mebibyte."""
        left = (self.size if end is None else min(end, self.size)) - begin
        with self._path.open("rb") as file:
            file.seek(begin)
            while left > 0 and (chunk := file.read(min(MIB, left))):
                left -= len(chunk)
                self.fetched_bytes += len(chunk)
                yield chunk

    def read_at(self, offset: int, length: int) -> bytes:
        """A range."""
        with self._path.open("rb") as file:
            file.seek(offset)
            chunk = file.read(length)
        self.fetched_bytes += len(chunk)
        return chunk


def _lines(count: int) -> bytes:
    line = '{{"id":{:012d},"customer":"customer-{:04d}","note":"{}"}}\n'
    return "".join(line.format(n, n % 1000, "x" * 140) for n in range(count)).encode()


def _write_jsonl(path: Path, size: int) -> None:
    block = _lines(MIB // 200)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def _write_gzip(path: Path, size: int) -> None:
    block = gzip.compress(_lines(MIB // 200), 1)
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(block)


def _write_bomb(path: Path, size: int) -> None:
    """Lines out of all proportion to the bytes they come from."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    block = b'{"a":1}\n' * (MIB // 8)
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(packer.compress(block))
        file.write(packer.flush())


def _write_one_line(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(b"x" * MIB)


def _write_avro(path: Path, size: int) -> None:
    """Blocks of 8 MiB."""
    text = varint(140) + b"x" * 140
    datum = varint(2**50) + varint(8) + b"customer" + bytes(16) + text + varint(2**50) + b"\x01" + varint(0)
    count = 8 * MIB // len(datum)
    meta = {b"avro.schema": json.dumps(AVRO_SCHEMA).encode(), b"avro.codec": b"null"}
    sync = bytes(range(16))
    with path.open("wb") as file:
        file.write(b"Obj\x01" + varint(len(meta)))
        for key, value in meta.items():
            file.write(varint(len(key)) + key + varint(len(value)) + value)
        file.write(varint(0) + sync)
        for _ in range(max(1, size // (count * len(datum)))):
            file.write(varint(count) + varint(count * len(datum)) + datum * count + sync)


def _write_parquet(path: Path, size: int) -> None:
    """One row group, pages of 8 MiB."""
    rows = 50_000
    batch = pa.record_batch(
        {
            "id": pa.array(range(rows)),
            "customer": [f"customer-{n:06d}" for n in range(rows)],
            "note": [f"{n:020d}" * 8 for n in range(rows)],
        }
    )
    times = max(1, size // batch.nbytes)
    how: dict[str, Any] = {"compression": "none", "data_page_size": 8 * MIB}
    with pq.ParquetWriter(path, batch.schema, **how) as writer:
        writer.write_table(pa.Table.from_batches([batch] * times), row_group_size=rows * times)


def _write_wide_parquet(path: Path, size: int) -> None:
    """One row group of twenty columns, with the pages of 1 MiB that writers make unless told otherwise."""
    rows = 50_000
    columns = {f"c{number}": pa.array(range(number, rows + number)) for number in range(10)}
    columns |= {f"t{number}": [f"{n * number:030d}" for n in range(rows)] for number in range(10)}
    batch = pa.record_batch(columns)
    times = max(1, size // batch.nbytes)
    with pq.ParquetWriter(path, batch.schema, compression="none") as writer:
        writer.write_table(pa.Table.from_batches([batch] * times), row_group_size=rows * times)


def _write_repeated_parquet(path: Path, size: int, length: int = 50_000) -> None:
    """`size` bytes of texts that repeat, which a dictionary makes some KiB."""
    count = size // length
    texts = pa.array([letter * length for letter in "abcd"])
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(count) % 4, pa.int32()), texts)
    pq.write_table(pa.table({"text": column}), path, row_group_size=count, store_schema=False)


def _write_listed_parquet(path: Path, size: int) -> None:
    """The same in lists, of which each has half a megabyte."""
    length, of_each = 10_000, 50
    count = size // length // of_each * of_each
    texts = pa.array([letter * length for letter in "abcd"])
    items = pa.DictionaryArray.from_arrays(pa.array(np.arange(count) % 4, pa.int32()), texts)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, count + 1, of_each), pa.int32()), items)
    pq.write_table(pa.table({"texts": lists}), path, row_group_size=count, store_schema=False)


WRITERS: dict[str, tuple[InputFormat, Callable[[Path, int], None]]] = {
    "jsonl": (InputFormat.JSONL, _write_jsonl),
    "jsonl, gzip": (InputFormat.JSONL, _write_gzip),
    "jsonl, zstd bomb": (InputFormat.JSONL, _write_bomb),
    "jsonl, one line": (InputFormat.JSONL, _write_one_line),
    "bytes": (InputFormat.BYTES, _write_one_line),
    "avro": (InputFormat.AVRO, _write_avro),
    "parquet, one row group": (InputFormat.PARQUET, _write_parquet),
    "parquet, twenty columns": (InputFormat.PARQUET, _write_wide_parquet),
    "parquet, repeated texts": (InputFormat.PARQUET, _write_repeated_parquet),
    "parquet, lists of them": (InputFormat.PARQUET, _write_listed_parquet),
}


def _decode(path: Path, input_format: InputFormat, out: Any) -> None:
    rows = bad = 0
    for batch in DECODERS[input_format](File(path), None, options=options(input_format)):
        rows += len(batch)
        bad += len(batch.bad)
    out.put((rows, bad, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def _run(target: Callable[..., None], *arguments: Any) -> None:
    # A fresh interpreter: a fork would begin with the parent's peak.
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"a process ended with {process.exitcode}")


def _worker_peak(on_stage: Stage, path: Path, input_format: InputFormat) -> float:
    """MiB of the largest worker of a service that brings the object to Kafka."""
    name = f"memory-{uuid.uuid4().hex[:8]}"
    on_stage.make_bucket(name)
    on_stage.make_topic(name, 2)
    on_stage.s3.upload_file(str(path), name, "object")
    options = on_stage.configuration(
        aws__s3__bucket__name=name,
        topic=name,
        file__name__template=".*",
        input__format=input_format.value,
        errors__tolerance="all",
        tasks__max=2,
    )
    service = on_stage.service(name, options)
    service.start()
    try:
        deadline = time.monotonic() + _RUN_SECONDS
        # A worker may be gone as soon as it has nothing to do, and its peak with it.
        peak = 0.0
        while service.status()["objects"]["done"] == 0:
            if time.monotonic() > deadline:
                raise StageError(f"the object is not done after {_RUN_SECONDS} s:\n{service.tail()}")
            peak = max([peak, *(used.peak_mib for used in tree(service.pid) if used.kind == "workers")])
            time.sleep(0.2)
    finally:
        service.stop()
    on_stage.s3.delete_object(Bucket=name, Key="object")
    on_stage.admin.delete_topics([name])[name].result(30)
    return peak


def measure(sizes: tuple[int, ...], on_stage: Stage | None, only: str) -> float:
    """Print the peaks for objects of these MiB, with a stage those of services too; the worst one."""
    worst = 0.0
    heads = f"{'decoder MiB':>13}" + ("" if on_stage is None else f"{'worker MiB':>12}")
    print(f"{'':26}{'object MiB':>12}{'rows':>14}{'bad':>6}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "object"
        chosen = {label: each for label, each in WRITERS.items() if label.startswith(only)}
        for label, (input_format, write) in chosen.items():
            for size in sizes:
                _run(write, path, size * MIB)
                out = multiprocessing.get_context("spawn").SimpleQueue()
                _run(_decode, path, input_format, out)
                rows, bad, *peaks = out.get()
                if on_stage is not None:
                    peaks.append(_worker_peak(on_stage, path, input_format))
                worst = max(worst, *peaks)
                shown = "".join(f"{peak:{width},.0f}" for peak, width in zip(peaks, (13, 12), strict=False))
                print(f"{label:26}{path.stat().st_size / MIB:12,.1f}{rows:14,}{bad:6}{shown}", flush=True)
    return worst


def main() -> int:
    """Print the peaks, and whether the promise holds."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="the formats whose names begin so")
    arguments.add_argument("--quick", action="store_true", help="256 MiB instead of 2 GiB")
    arguments.add_argument("--decoders", action="store_true", help="only the decoders, without S3 and Kafka")
    chosen = arguments.parse_args()
    sizes = (64, 256 if chosen.quick else 2048)
    if chosen.decoders:
        worst = measure(sizes, None, chosen.only)
    else:
        with stage("memory") as on_stage:
            worst = measure(sizes, on_stage, chosen.only)
    print(f"worst {worst:,.0f} MiB, promised {PROMISE_MIB} MiB")
    return 1 if worst > PROMISE_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
