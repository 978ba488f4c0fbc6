"""The load of a campaign: objects of every kind, each row of which is different and known by its number.

What is uploaded is a function of the seed alone, so that the same bytes can be uploaded again.
"""

import gzip
import io
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_TEXT: Final = b"abcdefghijklmnopqrstuvwxyz"
_TRY_AGAIN_SECONDS: Final = 0.2


def row(number: int) -> bytes:
    """The row of this number, as it is read from its topic."""
    return b'{"n":%d,"text":"%s"}' % (number, _TEXT[: 5 + number % 20])


def number_of(value: bytes) -> int:
    """The number of a row; ValueError when it is none."""
    head, _, rest = value.partition(b",")
    number = int(head.removeprefix(b'{"n":'))
    if row(number) != head + b"," + rest:
        raise ValueError(f"not a row of the load: {value[:80]!r}")
    return number


@dataclass(frozen=True, slots=True)
class Upload:
    """One object: rows [first, first + count) in one of the forms `jsonl`, `gzip`, `parquet`, `avro`."""

    key: str
    form: str
    first: int
    count: int

    def body(self) -> bytes:
        """Its bytes, the same at each call."""
        return _FORMS[self.form](range(self.first, self.first + self.count))


def _jsonl(numbers: range) -> bytes:
    return b"".join(row(number) + b"\n" for number in numbers)


def _gzip(numbers: range) -> bytes:
    return gzip.compress(_jsonl(numbers), compresslevel=1, mtime=0)


def _columns(numbers: range) -> dict[str, list[Any]]:
    texts = [_TEXT[: 5 + number % 20].decode() for number in numbers]
    return {"n": list(numbers), "text": texts}


def _parquet(numbers: range) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(_columns(numbers)), file, row_group_size=2000)
    return file.getvalue()


def _avro(numbers: range) -> bytes:
    schema: Any = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "n", "type": "long"}, {"name": "text", "type": "string"}],
    }
    columns = _columns(numbers)
    file = io.BytesIO()
    fastavro.writer(
        file,
        fastavro.parse_schema(schema),
        [{"n": n, "text": text} for n, text in zip(columns["n"], columns["text"], strict=True)],
        codec="deflate",
        # By default a random one: the same rows would have another ETag each time.
        sync_marker=b"0123456789abcdef",
    )
    return file.getvalue()


_FORMS: Final[dict[str, Callable[[range], bytes]]] = {
    "jsonl": _jsonl,
    "gzip": _gzip,
    "parquet": _parquet,
    "avro": _avro,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is uploaded: the objects' `forms`, so many a second, and how large the large ones are."""

    forms: tuple[str, ...] = ("jsonl", "jsonl", "gzip")
    per_second: float = 3.0
    small_rows: int = 300
    large_rows: tuple[int, int] = (20_000, 200_000)
    large_share: float = 0.04


@dataclass(slots=True)
class Load:
    """Uploads in a thread of its own from `start` to `stop`, whatever happens to S3 meanwhile."""

    bucket: str
    client: "S3Client"
    shape: Shape
    seed: int
    uploads: list[Upload] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    @property
    def rows(self) -> int:
        """How many rows there are; their numbers are 0 up to it."""
        with self._lock:
            return self.uploads[-1].first + self.uploads[-1].count if self.uploads else 0

    def start(self) -> None:
        """Begin to upload."""
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Upload no more; returns when the last object is there."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def repeat(self) -> None:
        """Upload everything again, the same bytes under the same keys."""
        with self._lock:
            uploads = list(self.uploads)
        for upload in uploads:
            self._put(upload)

    def _run(self) -> None:
        chance = random.Random(self.seed)
        while not self._stop.is_set():
            upload = self._next(chance)
            with self._lock:
                self.uploads.append(upload)
            self._put(upload)
            self._stop.wait(chance.expovariate(self.shape.per_second))

    def _next(self, chance: random.Random) -> Upload:
        is_large = chance.random() < self.shape.large_share
        count = (
            chance.randint(*self.shape.large_rows) if is_large else chance.randint(1, self.shape.small_rows)
        )
        number = len(self.uploads)
        form = chance.choice(self.shape.forms)
        # Keys arrive in any order.
        key = f"{chance.randrange(16):x}/{number:06d}.{form}"
        return Upload(key, form, self.rows, count)

    def _put(self, upload: Upload) -> None:
        """Until it is there: a load that gives up would look like rows that were lost."""
        body = upload.body()
        while True:
            try:
                self.client.put_object(Bucket=self.bucket, Key=upload.key, Body=body)
            except (BotoCoreError, ClientError):
                # S3 is away, or has lost its bucket: whoever did that makes it again.
                threading.Event().wait(_TRY_AGAIN_SECONDS)
            else:
                return
