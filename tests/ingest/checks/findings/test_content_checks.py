"""Whether input.format reads what the objects look like."""

import pytest

from headrace.formats.content_kind import Content, recognise
from headrace.model.errors import Exit
from headrace.options.choices import InputFormat
from ingest.checks.findings.archive_findings import Sample, format_fits
from ingest.checks.findings.finding import Verdict

LINES = recognise(b'{"a":1}\n')
CSV = recognise(b"id,name\n1,a\n2,b\n")
PARQUET = recognise(b"PAR1")


def sample(content: Content | None, codec: str | None = None, key: str = "a") -> Sample:
    """What was found at the beginning of an object."""
    return Sample(url=f"s3://bucket/{key}", content=content, codec=codec)


@pytest.mark.parametrize(
    ("input_format", "samples", "verdict", "words", "remedy"),
    [
        (
            InputFormat.PARQUET,
            [sample(LINES, "gzip")],
            Verdict.FAIL,
            "looks like JSON Lines compressed with gzip, such as s3://bucket/a: input.format=parquet does",
            "Set input.format=jsonl.",
        ),
        (
            InputFormat.JSONL,
            [sample(CSV)],
            Verdict.FAIL,
            "CSV (columns between commas)",
            "Set input.format=csv.",
        ),
        (InputFormat.PARQUET, [sample(PARQUET, "gzip")], Verdict.FAIL, "gzip", "Upload Parquet files unc"),
        (
            InputFormat.JSONL,
            [sample(LINES), sample(PARQUET, key="b")],
            Verdict.WARN,
            "1 of 2 objects looked at looks like Parquet, such as s3://bucket/b",
            "Set input.format=parquet. Or leave such keys out by object.include or object.exclude.",
        ),
        (
            InputFormat.JSONL,
            [sample(LINES, "zstd"), sample(LINES), sample(None)],
            Verdict.OK,
            "2 objects looked at: JSON Lines and JSON Lines compressed with zstd, which input.format=jsonl",
            None,
        ),
        (InputFormat.BYTES, [sample(CSV, "xz")], Verdict.OK, "which input.format=bytes reads", None),
    ],
)
def test_what_fits_is_named(
    input_format: InputFormat, samples: list[Sample], verdict: Verdict, words: str, remedy: str | None
) -> None:
    """All unfit: nothing would be ingested; some: a warning."""
    found = format_fits(input_format, samples)

    assert found is not None
    assert found.verdict is verdict
    assert words in found.sentence
    assert (found.remedy or "").startswith(remedy or "")
    assert (found.exit is Exit.CONFIGURATION) == (verdict is Verdict.FAIL)


def test_nothing_is_said_of_what_cannot_be_told() -> None:
    """No object, or none that says what it is."""
    assert format_fits(InputFormat.JSONL, []) is None
    assert format_fits(InputFormat.JSONL, [sample(None, "bzip2")]) is None
