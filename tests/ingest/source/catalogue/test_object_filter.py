"""Which objects the configuration excludes."""

import pytest

from headrace.model.objects import ObjectId, Route, S3Object
from ingest.source.catalogue.listing_merge import Baseline, ExclusionReason, ObjectFilter

ROUTE = Route(topic="topic")


def route(key: str) -> Route | None:
    """Everything but keys with a question mark."""
    return None if "?" in key else ROUTE


INTAKE = ObjectFilter(
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
        ("in/?.jsonl", ExclusionReason.UNMATCHED),
        ("in/d.JSONL", ExclusionReason.EXCLUDED),
        ("in/d.jsonl.bak", ExclusionReason.EXCLUDED),
        ("in/tmp/d.gz", ExclusionReason.EXCLUDED),
        ("in/a.gz", ExclusionReason.EXCLUDED),
        ("in/c.gz", ROUTE),
        ("out/d.jsonl", ExclusionReason.OUTSIDE_PREFIX),
        ("in", ExclusionReason.OUTSIDE_PREFIX),
        ("in/folder/", ExclusionReason.FOLDER),
        ("in/.indexes/d.jsonl", ExclusionReason.INTERNAL),
        ("in/a/.temp-upload/d.jsonl", ExclusionReason.INTERNAL),
        ("in/a.indexes/d.jsonl", ROUTE),
        ("in/new\nline.jsonl", ROUTE),
    ],
)
def test_announced(key: str, expected: Route | ExclusionReason) -> None:
    """The key alone decides."""
    assert INTAKE.route_or_reason(key) == expected


@pytest.mark.parametrize(
    ("key", "last_modified_ms", "expected"),
    [
        ("in/d.gz", 5000, ROUTE),
        ("in/d.gz", 4999, ExclusionReason.EXISTING),
        ("in/c", 9000, ExclusionReason.START_KEY),
        ("in/b.jsonl", 9000, ExclusionReason.START_KEY),
        ("in/c.gz", 9000, ROUTE),
        ("out/d.gz", 9000, ExclusionReason.OUTSIDE_PREFIX),
    ],
)
def test_listed(key: str, last_modified_ms: int, expected: Route | ExclusionReason) -> None:
    """Of a listing the baseline leaves out more: what is older than the first start, or at the start key."""
    seen = S3Object(id=ObjectId("bucket", key, "etag"), size=1, last_modified_ms=last_modified_ms)
    assert INTAKE.listed_route_or_reason(seen) == expected


@pytest.mark.parametrize(
    ("key", "last_modified_ms", "expected"),
    [
        pytest.param("in/big", 3000, ROUTE, id="begun before the first start, completed after it"),
        pytest.param("in/big", 2000, ExclusionReason.EXISTING, id="what it replaces"),
        pytest.param("in/big", 9000, ROUTE, id="uploaded since"),
        pytest.param("in/other", 3000, ExclusionReason.EXISTING, id="another key"),
        pytest.param("in/again", 4000, ExclusionReason.EXISTING, id="there, and the upload broken off"),
        pytest.param("in/changed", 4000, ROUTE, id="not what was there"),
    ],
)
def test_uploads_that_were_under_way_are_not_existing(
    key: str, last_modified_ms: int, expected: Route | ExclusionReason
) -> None:
    """S3 dates a multipart upload back to its beginning, in whole seconds where it lists."""
    baseline = Baseline(
        existing_before_ms=5000,
        uploads=dict.fromkeys(("in/big", "in/again", "in/changed"), 3400),
        there={"in/again": "etag-2", "in/changed": "etag-1"},
    )
    intake = ObjectFilter(route=lambda _: ROUTE, baseline=baseline)
    seen = S3Object(id=ObjectId("bucket", key, "etag-2"), size=1, last_modified_ms=last_modified_ms)
    assert intake.listed_route_or_reason(seen) == expected


@pytest.mark.parametrize("key", ["", "a", "a/b", ".indexes", "é"])
def test_without_conditions_every_key_is_in(key: str) -> None:
    """No prefix, no globs, no baseline."""
    assert ObjectFilter(route=lambda _: ROUTE).route_or_reason(key) == ROUTE
