"""What the tests of workers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import aws
from tests.support.worker_process import WorkerProcess


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[WorkerProcess]]:
    """Two workers of one group, not started; killed at the end if they still run."""
    group = aws.unique("group")
    made = [WorkerProcess(folder=tmp_path, group=group) for _ in range(2)]
    yield made
    for one in made:
        one.kill()
