"""What several tests of S3 use."""

from collections.abc import Iterator

import pytest

from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, said


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    """An S3 whose objects contain their paths."""
    with ScriptedS3(lambda path: Say(said(path.encode()))) as one:
        yield one
