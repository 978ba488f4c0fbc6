"""Keys of hostile values are keys that S3 takes and lists as they are."""

import pytest

from spark.sink.object_keys import ObjectFacts
from tests.spark.sink.grouped import TAIL, names_of
from tests.support import aws

pytestmark = pytest.mark.parts

_VALUES = [
    *(None, "", ".", "..", "/", "a/b", "a b", "+", "%2F", "?x=1&y", "#", "\\", "\x00\n\x7f", "<&>\"'"),
    *("é", "日本", "e\u0301", "\u202eabc", "😀", b"\xff\xfe", "\ufffe", "__HIVE_DEFAULT_PARTITION__"),
]


def test_every_name_is_put_and_listed_as_it_is() -> None:
    """One object each, whatever the value."""
    bucket, names = aws.new_bucket(), names_of("v={{header:h}}/" + TAIL)
    keys = [
        names.key(
            ObjectFacts(topic="t", partition=0, group=names.group((value,)), first_offset=1, opened_ms=0)
        )
        for value in _VALUES
    ]

    for key in keys:
        aws.s3().put_object(Bucket=bucket, Key=key, Body=b"x")

    listed = [found["Key"] for found in aws.s3().list_objects_v2(Bucket=bucket)["Contents"]]
    assert sorted(listed) == sorted(keys)
    assert len(set(keys)) == len(_VALUES)
