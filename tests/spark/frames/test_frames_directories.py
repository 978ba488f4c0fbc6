"""Tasks that note something at `state.path`, on a machine that sees the driver's directory or another one."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.model.errors import FrameRefused
from headrace.model.objects import ObjectId, Route, S3Object
from spark.frames.batch_splits import FramePartition, splits_of
from spark.frames.frame_options import reading_settings
from spark.frames.reading import ReadTask

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.parts

_BAD = {"errors.tolerance": "all"}
_NEW = {"schema.evolution": "add"}
_SCHEMA = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}


class Stored:
    """One object, and what a task of a stream's first batch reads of it."""

    def __init__(self, s3: "S3Client", endpoint: str, bucket: str, state: Path) -> None:
        self._s3, self._bucket, self.state = s3, bucket, state
        self._given = {
            "path": f"s3://{bucket}/in/",
            "rows": "columns",
            "input.format": "jsonl",
            "state.path": str(state),
            "aws.s3.endpoint": endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
        }

    def read(self, content: bytes, options: dict[str, str]) -> list[int]:
        """The rows of this content, in the order of the object."""
        etag = self._s3.put_object(Bucket=self._bucket, Key="in/a", Body=content)["ETag"].strip('"')
        found = S3Object(id=ObjectId(self._bucket, "in/a", etag), size=len(content), last_modified_ms=0)
        schema = pa.schema([("n", pa.int64()), ("_rescued_data", pa.string())])
        task = ReadTask(reading_settings({**self._given, **options}), schema, frozenset(), is_inferred=True)
        partition = FramePartition(tuple(splits_of(found, Route(topic="t"))), batch=1, is_begun=False)
        return [row["n"] for batch in task.read(partition) for row in batch.to_pylist()]


@pytest.fixture
def stored(s3: "S3Client", s3_endpoint: str, bucket: str, tmp_path: Path) -> Stored:
    """A bucket, and a directory that is empty: of a machine that does not see the driver's."""
    return Stored(s3, s3_endpoint, bucket, tmp_path)


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (b'{"n":1}\n{', _BAD, "has no log.json here, and the query's driver has made it: name a directory"),
        (b'{"n":1,"m":2}\n', _NEW, "has no schema.json here"),
    ],
)
def test_a_directory_that_the_driver_did_not_make(
    stored: Stored, content: bytes, options: dict[str, str], sentence: str
) -> None:
    """It is of another machine: what is noted there is never seen, so nothing is."""
    with pytest.raises(FrameRefused, match=sentence):
        stored.read(content, options)
    assert not any(stored.state.iterdir())


def test_the_directory_of_the_driver(stored: Stored) -> None:
    """Bad rows and new columns are in it."""
    (stored.state / "log.json").touch()
    (stored.state / "schema.json").write_text(json.dumps(_SCHEMA))

    assert stored.read(b'{"n":1}\n{', _BAD) == [1]
    assert len(list((stored.state / "bad").rglob("*.jsonl"))) == 1
    with pytest.raises(FrameRefused, match=r"The schema at state\.path has it now"):
        stored.read(b'{"n":1,"m":2}\n', _NEW)
    assert '"m"' in (stored.state / "schema.json").read_text()
