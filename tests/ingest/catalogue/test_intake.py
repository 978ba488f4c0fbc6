"""What configuration leaves out."""

import pytest

from ingest.catalogue.intake import Baseline, Intake, LeftOut
from ingest.objects import ObjectId, Route, S3Object

ROUTE = Route(topic="topic")


def route(key: str) -> Route | None:
    """Everything but keys with a question mark."""
    return None if "?" in key else ROUTE


INTAKE = Intake(
    route=route,
    prefix="in/",
    include=["*.jsonl", "*.gz"],
    exclude=["*/tmp/*", "in/[ab].gz"],
    baseline=Baseline(existing_before_ms=5000, start_key="in/c"),
)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("in/d.jsonl", ROUTE),
        ("in/deep/d.gz", ROUTE),
        ("in/?.jsonl", LeftOut.UNMATCHED),
        ("in/d.JSONL", LeftOut.EXCLUDED),
        ("in/d.jsonl.bak", LeftOut.EXCLUDED),
        ("in/tmp/d.gz", LeftOut.EXCLUDED),
        ("in/a.gz", LeftOut.EXCLUDED),
        ("in/c.gz", ROUTE),
        ("out/d.jsonl", LeftOut.OUTSIDE_PREFIX),
        ("in", LeftOut.OUTSIDE_PREFIX),
        ("in/folder/", LeftOut.FOLDER),
        ("in/.indexes/d.jsonl", LeftOut.INTERNAL),
        ("in/a/.temp-upload/d.jsonl", LeftOut.INTERNAL),
        ("in/a.indexes/d.jsonl", ROUTE),
        ("in/new\nline.jsonl", ROUTE),
    ],
)
def test_announced(key: str, expected: Route | LeftOut) -> None:
    """The key alone decides."""
    assert INTAKE.judge(key) == expected


@pytest.mark.parametrize(
    ("key", "last_modified_ms", "expected"),
    [
        ("in/d.gz", 5000, ROUTE),
        ("in/d.gz", 4999, LeftOut.EXISTING),
        ("in/c", 9000, LeftOut.START_KEY),
        ("in/b.jsonl", 9000, LeftOut.START_KEY),
        ("in/c.gz", 9000, ROUTE),
        ("out/d.gz", 9000, LeftOut.OUTSIDE_PREFIX),
    ],
)
def test_listed(key: str, last_modified_ms: int, expected: Route | LeftOut) -> None:
    """Of a listing the baseline leaves out more: what is older than the first start, or at the start key."""
    seen = S3Object(id=ObjectId("bucket", key, "etag"), size=1, last_modified_ms=last_modified_ms)
    assert INTAKE.judge_listed(seen) == expected


@pytest.mark.parametrize("key", ["", "a", "a/b", ".indexes", "é"])
def test_without_conditions_every_key_is_in(key: str) -> None:
    """No prefix, no globs, no baseline."""
    assert Intake(route=lambda _: ROUTE).judge(key) == ROUTE
