"""A task that writes while the schema registry which its values need does not answer."""

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from headrace.model.errors import FrameRefused
from spark.frames.writing import HeadraceWriter, writing_settings
from spark.sink import frame_writer
from tests.headrace.formats.encoding.registry import http_registry
from tests.support.memory_s3 import MemoryS3

_RECORDS: Final = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("value", BinaryType())
)
_ROWS: Final = [{"topic": "t", "partition": 0, "offset": 7, "value": b"\0\0\0\0\x01" + b"\x0e"}]
_SCHEMA: Final = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}


class Away(dict[str, tuple[int, Any]]):
    """Answers of a registry before which a proxy answers some times; or it refuses the user."""

    def __init__(self, times: int, status: int = 200) -> None:
        super().__init__({"/schemas/ids/1": (200, {"schema": json.dumps(_SCHEMA)})})
        self._left = times
        self._status = status

    def get(self, path: str, default: Any = None) -> Any:
        """What is answered at a path."""
        self._left -= 1
        return (self._status, b"<html>") if self._left >= 0 else super().get(path, default)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    """The bucket of a writer that asks a registry again at once."""
    made = MemoryS3()
    monkeypatch.setattr(frame_writer, "new_upload_calls", lambda _s3, options: made.calls(options))
    monkeypatch.setattr(frame_writer, "REGISTRY_PAUSE_SECONDS", 0.01)
    return made


def sent(registry: str, folder: Path) -> int:
    """How many objects a task has sent."""
    options = {
        "path": "s3://archive/",
        "output.format": "jsonl",
        "buffer.dir": str(folder),
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry,
    }
    writer = HeadraceWriter(writing_settings(options, _RECORDS, overwrites=False))
    return len(writer.write(iter(pa.Table.from_pylist(_ROWS).to_batches())).objects)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("status", [200, 401])
def test_a_registry_that_is_back_before_the_patience_ends(tmp_path: Path, status: int) -> None:
    """It failed the task at the first answer that was none, without the patience that S3 is given."""
    with http_registry(Away(3, status)) as (registry, asked):
        assert sent(registry.urls[0], tmp_path) == 1
        assert len(asked) == 4


@pytest.mark.usefixtures("memory")
def test_a_registry_that_stays_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task ends, in the sentence that the documentation has."""
    monkeypatch.setattr(frame_writer, "PATIENCE_SECONDS", 0.1)
    with (
        http_registry(Away(10**6)) as (registry, asked),
        pytest.raises(FrameRefused, match=r"t-0 could not be written for 0 s: What answers at schema\.reg"),
    ):
        sent(registry.urls[0], tmp_path)

    assert asked
