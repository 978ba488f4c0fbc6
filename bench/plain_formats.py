"""`bench.plain_script` for the other formats: the loop that each library's own page shows, then produce.

Written fairly, as that one is. Prints the records sent and the seconds from the first GET to the last
acknowledgement.
"""

import io
import json
import sys
from collections.abc import Callable, Iterable
from typing import Final

import fastavro
import pyarrow.parquet as pq
import zstandard

from bench.plain_script import send


def _zstd(body: bytes) -> Iterable[bytes]:
    return zstandard.ZstdDecompressor().stream_reader(body).readall().splitlines()


def _avro(body: bytes) -> Iterable[bytes]:
    return (json.dumps(row, separators=(",", ":")).encode() for row in fastavro.reader(io.BytesIO(body)))


def _parquet(body: bytes) -> Iterable[bytes]:
    rows = pq.read_table(io.BytesIO(body)).to_pylist()
    return (json.dumps(row, separators=(",", ":")).encode() for row in rows)


def _chunks(body: bytes) -> Iterable[bytes]:
    return (body[at : at + 4096] for at in range(0, len(body), 4096))


LOOPS: Final[dict[str, Callable[[bytes], Iterable[bytes]]]] = {
    "zstd": _zstd,
    "avro": _avro,
    "parquet": _parquet,
    "nested": _parquet,
    "bytes": _chunks,
}


if __name__ == "__main__":
    sent, seconds = send(*sys.argv[1:7], rows=LOOPS[sys.argv[7]])
    print(sent, seconds)
