import re
from dataclasses import dataclass
from typing import Any

import pytest

from spark.task.slot_session import _repetition


@dataclass(frozen=True, slots=True)
class Context:
    """Spark's word for which attempt a task is."""

    attempt: int

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's name
        """As Spark counts, from 0."""
        return self.attempt


@pytest.mark.parametrize(
    ("context", "refusal"),
    [
        pytest.param(Context(0), None, id="the first attempt"),
        pytest.param(Context(1), r"repeats a task \(attempt 1\)", id="a repeated one"),
        pytest.param(None, "not a task of Spark", id="no task at all"),
    ],
)
def test_a_task_that_spark_repeats_is_refused(context: Any, refusal: str | None) -> None:
    """`local[2,4]` lets Spark repeat tasks, whatever else is set; the driver refuses them too."""
    found = _repetition(context)
    if refusal is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(refusal, found)
