"""Where a bucket is, as HeadBucket says it: also who may list one prefix alone learns it."""

import pytest

from headrace.model.errors import HeadraceError
from headrace.s3 import new_s3_calls
from tests.headrace.s3.scripted_s3 import BUCKET, Say, ScriptedS3, said, settings

REGION = "x-amz-bucket-region: eu-west-3"


@pytest.mark.parametrize(
    ("status", "headers", "region"),
    [
        pytest.param(200, (REGION,), "eu-west-3", id="allowed"),
        # The question has no prefix: `headrace policy` allows s3:ListBucket for that of the option alone.
        pytest.param(403, (REGION,), "eu-west-3", id="refused, and named"),
        pytest.param(200, (), None, id="a store without regions"),
    ],
)
def test_the_region_is_named_in_a_refusal_too(
    server: ScriptedS3, status: int, headers: tuple[str, ...], region: str | None
) -> None:
    """In the header that an answer has whatever it is."""
    server.says(Say(said(b"", *headers, status=status)))
    assert new_s3_calls(settings(server.url)).region(BUCKET) == region


def test_a_refusal_that_does_not_name_it_is_one(server: ScriptedS3) -> None:
    """As that of a store that is none of Amazon's."""
    server.says(Say(said(b"", status=403)))
    with pytest.raises(HeadraceError):
        new_s3_calls(settings(server.url)).region(BUCKET)
