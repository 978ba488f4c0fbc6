"""What comparisons with Spark's own file sources share: a bucket, the same objects as files, a session."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from localstack_client.session import Session
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import headrace.spark


def client_of(service: Any, endpoint: str) -> Any:
    """A client of S3 or SQS."""
    host = urlsplit(endpoint).netloc
    return Session("test", "test", region_name="us-east-1", localstack_host=host).client(service)


BARE_ROWS: Final = 3_300
"""Of a batch: more of them cost Spark as much a row."""


class BareReader(DataSourceReader):
    """Yields `copies` of a Parquet file's rows in each of `tasks` tasks, as batches that are in memory."""

    def __init__(self, path: str, columns: list[str], copies: int, tasks: int) -> None:
        self._path = path
        self._columns = columns
        self._copies = copies
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """All of them alike."""
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The file is decoded once, and its batches are handed out again and again."""
        del partition
        table = pq.read_table(self._path, columns=self._columns).replace_schema_metadata()
        batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=BARE_ROWS)
        for _ in range(self._copies):
            yield from batches


class BareSource(DataSource):
    """What no source in Python is faster than: it takes rows from memory, and does nothing with them."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bare"

    def reader(self, schema: StructType) -> BareReader:
        """The reader of these columns."""
        given = self.options
        return BareReader(given["path"], schema.fieldNames(), int(given["copies"]), int(given["tasks"]))


class Bench:
    """A bucket, the same objects as files, and a session that reads both."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.s3 = client_of("s3", endpoint)
        self.bucket = f"headrace-spark-{uuid.uuid4().hex[:8]}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.folder = folder
        self.endpoint = endpoint
        builder: Any = SparkSession.builder
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "2g",
            "spark.log.level": "ERROR",
            # As docs/spark.md advises: over TCP each task of a Python source begins 40 ms later.
            "spark.python.unix.domain.socket.enabled": "true",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.master("local[2]").getOrCreate()
        headrace.spark.register(self.spark)
        self.spark.dataSource.register(BareSource)

    def put(self, key: str, content: bytes) -> None:
        """An object, and a file of the same content."""
        path = self.folder / "files" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Spark's source may not see half a file.
        hidden = path.with_name(f".{path.name}")
        hidden.write_bytes(content)
        hidden.rename(path)
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=content)

    def options(self, prefix: str, **more: str) -> dict[str, str]:
        """The options of our source."""
        return {
            "path": f"s3://{self.bucket}/{prefix}",
            "aws.s3.endpoint": self.endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "rows": "columns",
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def files(self, prefix: str) -> str:
        """The folder of the same objects."""
        return str(self.folder / "files" / prefix)
