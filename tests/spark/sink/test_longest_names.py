"""Names as long as S3 takes: those of dates are measured with the longest text that they can have."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from headrace.model.clock import ms_since_1970
from spark.sink.object_keys import ObjectFacts
from tests.spark.sink.grouped import names_of
from tests.support.sink_archives import DAY_MS


@pytest.mark.parametrize("pattern", ["MMMM", "EEEE", "EEEE MMMM d h:m:s", "yyyy", "z MMM", "D A"])
@pytest.mark.parametrize("source", ["wallclock", "first"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_a_name_is_measured_with_the_longest_date(pattern: str, source: str, zone: str) -> None:
    """In September one that was measured in January was too long, which ended the partition."""
    names = names_of(
        "{{header:h}}/{{date:PATTERN}}/{{topic}}/{{partition}}/{{start_offset}}".replace("PATTERN", pattern),
        file_name_timestamp_source=source,
        file_name_timestamp_timezone=zone,
    )
    most = max(length for length in range(900, 1000) if names.problem("t", 3, "x" * length) is None)
    begin = ms_since_1970(datetime(2026, 1, 1, 23, 59, 59, 999_000, tzinfo=ZoneInfo(zone)))

    lengths = {len(names.key(_widest("x" * most, begin + day * DAY_MS)).encode()) for day in range(365)}

    assert max(lengths) == 1024


def _widest(group: str, moment_ms: int) -> ObjectFacts:
    return ObjectFacts(
        topic="t",
        partition=3,
        group=group,
        first_offset=2**63 - 1,
        opened_ms=moment_ms,
        first_time_ms=moment_ms,
        topic_id="x" * 22,
    )
