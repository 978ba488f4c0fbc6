"""Clients: times as botocore reads them, and the addresses that buckets have."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from headrace.options.settings import Settings
from headrace.s3.client import new_s3_client
from ingest.checks.probes.bucket_keys import aws_clients
from listeners.async_clients import _timestamp, s3_client
from tests.support.configuration import settings_for


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


def _of_tasks(settings: Settings) -> str:
    return str(new_s3_client(settings.s3).client.generate_presigned_url("get_object", Params=_OBJECT))


def _of_commands(settings: Settings) -> str:
    return str(aws_clients(settings).s3.generate_presigned_url("get_object", Params=_OBJECT))


def _of_listeners(settings: Settings) -> str:
    async def address() -> str:
        async with s3_client(settings.s3) as client:
            return str(await client.generate_presigned_url("get_object", Params=_OBJECT))

    return asyncio.run(address())


_OBJECT = {"Bucket": "flights", "Key": "a/b"}


@pytest.mark.parametrize("client", [_of_tasks, _of_commands, _of_listeners])
@pytest.mark.parametrize(
    ("endpoint", "path_style", "address"),
    [
        pytest.param("https://s3.test:90", False, "https://flights.s3.test:90/a/b", id="virtual host"),
        pytest.param("https://s3.test:90", True, "https://s3.test:90/flights/a/b", id="path"),
        pytest.param("http://127.0.0.1:90", False, "http://127.0.0.1:90/flights/a/b", id="no host below it"),
        pytest.param("http://[::1]:90", False, "http://[::1]:90/flights/a/b", id="none of IPv6"),
    ],
)
def test_buckets_are_where_the_option_says(
    client: Callable[[Settings], str], endpoint: str, *, path_style: bool, address: str
) -> None:
    """With an endpoint, too: some stores know only one of the two."""
    settings = settings_for(bucket="flights", queue_url=None)
    settings = replace(settings, s3=replace(settings.s3, endpoint=endpoint, path_style=path_style))

    assert client(settings).split("?")[0] == address
