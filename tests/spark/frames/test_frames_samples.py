"""Objects that a schema is inferred from, and that a read of them leaves out, or reads a part of."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from headrace.model.errors import FrameRefused
from spark.frames.source import HeadraceSource
from tests.support.http_bucket import HttpBucket, http_bucket

_ROWS: Final = b'{"n":1}\n{"n":2}\n'
# The second member is cut.
_CUT: Final = gzip.compress(b'{"n":3,"more":1}\n') + gzip.compress(_ROWS)[:20]
_TOLERANT: Final = {"errors.tolerance": "all"}
_SKIPPING: Final = {"on.superseded": "skip"}
_GONE: Final = b"gone"


class Changing(dict[str, bytes]):
    """Objects of which some are gone when they are read."""

    def get(self, key: str, default: bytes | None = None) -> bytes | None:  # type: ignore[override]  # a server's
        """The content, None where it is gone."""
        found = super().get(key)
        return default if found == _GONE else found


@pytest.fixture
def bucket() -> Iterator[HttpBucket]:
    """A bucket that is empty."""
    with http_bucket() as made:
        made.objects = Changing()
        yield made


def columns(bucket: HttpBucket, folder: Path, **options: str) -> list[str]:
    """The columns that are inferred, and that all rows can be read with."""
    source = HeadraceSource(
        {
            "path": "s3://bucket/in/",
            "rows": "columns",
            "state.path": str(folder),
            **bucket.options,
            **options,
        }
    )
    schema = source.schema()
    reader = source.reader(schema)
    assert sum(rows.num_rows for part in reader.partitions() for rows in reader.read(part)) > 0
    return list(schema.fieldNames())[:-1]


@pytest.mark.parametrize(
    ("name", "content", "options", "found"),
    [
        pytest.param("b.jsonl.gz", _CUT, _TOLERANT, ["n", "more"], id="cut"),
        pytest.param("_SUCCESS.txt", b"done\n", _TOLERANT, ["n"], id="text"),
        pytest.param("b.parquet", b"PAR1aaaaaaaaaaaaaaaaaaaPAR1", _TOLERANT, ["n"], id="damaged"),
        pytest.param("b.jsonl", _GONE, _SKIPPING, ["n"], id="gone"),
    ],
)
def test_what_a_read_tolerates_is_no_end_of_the_schema(
    bucket: HttpBucket, tmp_path: Path, name: str, content: bytes, options: dict[str, str], found: list[str]
) -> None:
    """With a schema such objects were read; without one the query ended at the first."""
    bucket.objects |= {"in/a.jsonl": _ROWS, f"in/{name}": content}

    with pytest.raises(FrameRefused, match="No schema can be inferred: s3://bucket/in/"):
        columns(bucket, tmp_path)
    assert columns(bucket, tmp_path, **options) == found


def test_a_variable_of_the_template_with_the_name_of_a_column_that_is_kept(
    bucket: HttpBucket, tmp_path: Path
) -> None:
    """The variable wins, as where columns are inferred; there were two columns then, and a refusal."""
    bucket.objects |= {"in/orders/a.jsonl": b'{"n":1,"topic":"x"}'}

    assert columns(bucket, tmp_path) == ["n", "topic"]
    template = "in/{{topic}}/.*"
    for _ in range(2):
        assert columns(bucket, tmp_path, **{"file.name.template": template}) == ["n", "topic"]
    assert columns(bucket, tmp_path / "new", **{"file.name.template": template}) == ["n", "topic"]


@pytest.mark.parametrize(
    ("content", "options", "why"),
    [
        (
            b"PAR1aaaaaaaaaaaaaaaaaaaPAR1",
            _TOLERANT,
            "s3://bucket/in/a.parquet: the Parquet object is damaged",
        ),
        (_GONE, _SKIPPING, "s3://bucket/in/a.parquet is not there any more"),
    ],
)
def test_a_schema_of_no_object_that_can_be_read(
    bucket: HttpBucket, tmp_path: Path, content: bytes, options: dict[str, str], why: str
) -> None:
    """The sentence has how many there are, and what the first is."""
    bucket.objects |= {"in/a.parquet": content, "in/b.parquet": content}

    with pytest.raises(FrameRefused) as raised:
        columns(bucket, tmp_path, **options)

    begin = (
        "No schema can be inferred from s3://bucket/in/: 2 objects were looked into, and 2 could not be read"
    )
    assert str(raised.value).startswith(f"{begin}, the first: {why}")
