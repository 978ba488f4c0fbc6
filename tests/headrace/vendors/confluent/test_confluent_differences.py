"""What Confluent's sink does otherwise with a configuration: followed, or said at start."""

from collections.abc import Mapping
from datetime import UTC
from typing import Final

import pytest

from headrace.conversion.side_rows import side_output
from headrace.options import Settings, SettingsError
from headrace.options.choices import Compression
from headrace.options.sink_settings import SideRole
from spark.sink.rotation import next_on_schedule
from tests.support.sink_archives import sink_settings

_S3: Final = "io.confluent.connect.s3."
_SINK: Final[Mapping[str, str]] = {
    "name": "archive",
    "connector.class": f"{_S3}S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "bucket",
    "flush.size": "1000",
    "storage.class": f"{_S3}storage.S3Storage",
    "format.class": f"{_S3}format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "timezone": "UTC",
}
_TIMED: Final[Mapping[str, str]] = {
    **_SINK,
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "partition.duration.ms": "3600000",
}
_HOUR_MS: Final = 3_600_000
_OPENED_MS: Final = 1714521600000 + 12 * _HOUR_MS


def _said(settings: Settings, option: str) -> bool:
    return any(warning.startswith(f"{option}=") for warning in settings.warnings)


@pytest.mark.parametrize(
    ("hours", "closes_after", "is_said"),
    [(1, 1, False), (8, 4, False), (24, 12, False), (48, 12, False), (168, 12, False), (5, None, True)],
)
def test_a_schedule_begins_at_each_midnight(hours: int, closes_after: int | None, *, is_said: bool) -> None:
    """There an object is open until the next midnight at most; what we close at other times is said."""
    settings = sink_settings({**_SINK, "rotate.schedule.interval.ms": str(hours * _HOUR_MS)})
    assert settings.sink is not None

    schedule = settings.sink.rotation.schedule_ms
    assert _said(settings, "rotate.schedule.interval.ms") is is_said
    if closes_after is not None:
        closes = next_on_schedule(_OPENED_MS, schedule, UTC)
        assert closes - _OPENED_MS == closes_after * _HOUR_MS


@pytest.mark.parametrize(
    ("locale", "pattern", "is_said"),
    [
        ("en-US", "YYYY/MMMM", True),
        ("en-US", "'day'=EEEE", True),
        ("en-US", "G/YYYY", True),
        ("en-US", "YYYY/MMM/EEE/a", False),
        ("en-US", "'year'=YYYY/'month'=MM", False),
        ("en", "YYYY/MMMM", False),
    ],
)
def test_words_of_a_locale_with_a_country(locale: str, pattern: str, *, is_said: bool) -> None:
    """Java takes `en-US` for a language without words there: April is Apr."""
    settings = sink_settings({**_TIMED, "locale": locale, "path.format": pattern})

    assert _said(settings, "locale") is is_said


@pytest.mark.parametrize("locale", ["en_US_POSIX", "en_US.UTF-8", "English", "C", "de-Latn-DE"])
def test_a_locale_decides_nothing_without_words(locale: str) -> None:
    """Java takes any text for a language, and numbers are the same in all of them."""
    numbers = {**_TIMED, "path.format": "YYYY/MM"}
    settings = sink_settings({**numbers, "locale": locale})
    assert settings.sink == sink_settings({**numbers, "locale": "en"}).sink

    with pytest.raises(SettingsError, match=r"locale = '.*': expected a language"):
        sink_settings({**_TIMED, "path.format": "YYYY/MMM", "locale": locale})


@pytest.mark.parametrize(
    ("form", "codec"),
    [("avro.Avro", {"avro.codec": "deflate"}), ("parquet.Parquet", {"parquet.codec": "gzip"})],
)
def test_the_level_is_of_json_and_bytes(form: str, codec: Mapping[str, str]) -> None:
    """Avro and Parquet have none there, though DEFLATE is gzip here as that of the values is."""
    settings = sink_settings(
        {
            **_SINK,
            **codec,
            "s3.compression.type": "gzip",
            "s3.compression.level": "9",
            "store.kafka.keys": "true",
            "keys.format.class": f"{_S3}format.{form}Format",
            "store.kafka.headers": "true",
            "headers.format.class": f"{_S3}format.json.JsonFormat",
        }
    )
    assert settings.sink is not None
    keys, headers = (side_output(settings.sink.output, role) for role in SideRole)
    assert (keys.compression, keys.compression_level) == (Compression.GZIP, None)
    assert (headers.compression, headers.compression_level) == (Compression.GZIP, 9)


def test_lists_have_three_levels() -> None:
    """Who asks for that has it, and who asks for two levels is refused."""
    option = "parquet.avro.write-old-list-structure"
    parquet = {**_SINK, "format.class": f"{_S3}format.parquet.ParquetFormat"}

    assert any(option in each for each in sink_settings({**parquet, option: "false"}).warnings)
    with pytest.raises(SettingsError, match="lists of two levels"):
        sink_settings({**parquet, option: "true"})
