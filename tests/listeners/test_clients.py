"""Clients: times as botocore reads them, and who is asked for credentials."""

from datetime import UTC, datetime
from typing import cast

import pytest
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from listeners.async_clients import _timestamp


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("2026-01-31T12:00:00.000Z", id="S3's listings"),
        pytest.param("2026-01-31T12:00:00Z", id="without milliseconds"),
        pytest.param("Sat, 31 Jan 2026 12:00:00 GMT", id="a header"),
        pytest.param(cast("str", 1_769_860_800), id="a number"),
        pytest.param("1769860800", id="digits"),
        pytest.param("20260131", id="digits that could be a date"),
        pytest.param("2026-01-31T12:00:00", id="without a zone"),
    ],
)
def test_times_are_read_as_botocore_reads_them(value: str) -> None:
    """The shortcut is for speed only."""
    assert _timestamp(value) == parse_timestamp(value)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - bounds
def test_any_time_of_a_listing(when: datetime) -> None:
    """To the millisecond, as S3 writes it."""
    text = when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"
    assert _timestamp(text) == parse_timestamp(text)
