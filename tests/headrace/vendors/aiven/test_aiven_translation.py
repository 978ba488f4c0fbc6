"""Aiven's sink configurations in our own options: what each regime of names becomes, and what is refused."""

import json
from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options import Settings, SettingsError
from headrace.options.choices import Compression
from headrace.options.declarations import CANONICAL
from headrace.options.sink_settings import NameTimeSource, OutputFormat, SinkSettings
from headrace.options.vendor import Fate
from headrace.vendors.aiven.translation import AIVEN
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file, own_options

_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_GIVEN: Final[Mapping[str, str]] = {
    "name": "archive",
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "bootstrap.servers": "127.0.0.1:9092",
    "topics": "orders",
    "aws.s3.bucket.name": "bucket",
    "key.converter": _BYTES,
    "value.converter": _BYTES,
}


def _load(changes: Mapping[str, str | None], worker: str | None = None) -> Settings:
    given = {name: text for name, text in {**_GIVEN, **changes}.items() if text is not None}
    return load(
        json.dumps(given),
        kind="json",
        environment={"SECRET": "hunter2", "HOME": "/home/me"},
        read_file=no_file,
        worker_config=worker,
    )


def _sink(changes: Mapping[str, str | None] | None = None, worker: str | None = None) -> SinkSettings:
    sink = _load(changes or {}, worker).sink
    assert sink is not None
    return sink


def _problems(changes: Mapping[str, str | None]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        _load(changes)
    return [str(problem) for problem in caught.value.problems]


def test_its_defaults_hold() -> None:
    """A minute, gzip that no name shows, values alone as csv, parts of 5 MiB, offsets of Connect's group."""
    sink = _sink()

    assert sink.group_id == "connect-archive"
    assert (sink.output.format, sink.output.compression) == (OutputFormat.CSV, Compression.GZIP)
    assert sink.names.template == "{{topic}}-{{partition}}-{{start_offset}}"
    assert (sink.rotation.age_ms, sink.rotation.records, sink.rotation.bytes) == (60_000, 0, 0)
    assert sink.rotation.max_age_ms == 0
    assert sink.upload.part_bytes == 5 * 1024 * 1024


@pytest.mark.parametrize(
    ("changes", "template"),
    [
        ({"file.compression.type": "gzip"}, "{{topic}}-{{partition}}-{{start_offset}}.gz"),
        ({"file.compression.type": "none"}, "{{topic}}-{{partition}}-{{start_offset}}"),
        ({"output_compression": "none"}, "{{topic}}-{{partition}}-{{start_offset}}"),
        (
            {"format.output.type": "avro", "file.compression.type": "zstd"},
            "{{topic}}-{{partition}}-{{start_offset}}.avro.zst",
        ),
        ({"aws.s3.prefix": "a/"}, "{{topic}}-{{partition}}-{{start_offset:padding=20}}.gz"),
        (
            {"aws_s3_prefix": "a/", "format.output.type": "avro", "file.compression.type": "none"},
            "{{topic}}-{{partition}}-{{start_offset:padding=20}}.avro",
        ),
        (
            {"aws.s3.prefix": "{{ utc_date }}/{{ timestamp:unit=YYYY }}/"},
            "{{utc_date}}/{{timestamp:unit=yyyy}}/{{topic}}-{{partition}}-{{start_offset:padding=20}}.gz",
        ),
        (
            # There a prefix shows its partition without zeros, whatever is asked for.
            {"aws.s3.prefix": "{{ partition : padding=true }}-{{start_offset:padding=true}}/"},
            "{{partition}}-{{start_offset:padding=true}}/{{topic}}-{{partition}}-{{start_offset:padding=20}}.gz",
        ),
        (
            {"file.name.template": "{{ topic }}/{{ partition:padding=true }}-{{start_offset:padding=false}}"},
            "{{topic}}/{{partition:padding=true}}-{{start_offset}}",
        ),
        ({"file.name.template": "k/{{ key }}"}, "k/{{key}}"),
    ],
)
def test_names(changes: Mapping[str, str], template: str) -> None:
    """By default, behind a prefix, and by a template."""
    assert _sink(changes).names.template == template


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({"file.name.timestamp.source": "EVENT"}, NameTimeSource.EVENT),
        ({"file.name.timestamp.source": "SIMPLE_DATA:a.b"}, NameTimeSource.VALUE),
        ({}, NameTimeSource.WALLCLOCK),
        ({"timestamp.source": "EVENT"}, NameTimeSource.WALLCLOCK),
    ],
)
def test_times_of_templates(changes: Mapping[str, str], source: NameTimeSource) -> None:
    """The old option is of prefixes alone."""
    template = "{{topic}}/{{timestamp:unit=HH}}/{{partition}}-{{start_offset}}"

    assert _sink({"file.name.template": template, **changes}).names.time_source is source


def test_times_of_prefixes_are_those_of_the_first_record() -> None:
    """Which group nothing; the new option means nothing there."""
    prefix = {"aws.s3.prefix": "{{timestamp:unit=HH}}/", "file.name.timestamp.source": "EVENT"}

    assert _sink(prefix).names.time_source is NameTimeSource.WALLCLOCK
    assert _sink({**prefix, "timestamp.source": "EVENT"}).names.time_source is NameTimeSource.FIRST
    # Without a time in the prefix it decides nothing.
    assert _sink({"aws.s3.prefix": "p/", "timestamp.source": "SIMPLE_DATA:t"}).names.prefix == "p/"


@pytest.mark.parametrize(
    ("changes", "compression"),
    [
        ({}, Compression.NONE),
        ({"output_compression": "gzip"}, Compression.NONE),
        ({"file.compression.type": "gzip"}, Compression.GZIP),
    ],
)
def test_parquet_is_packed_only_by_the_new_option(
    changes: Mapping[str, str], compression: Compression
) -> None:
    """Whatever its names show."""
    sink = _sink({"format.output.type": "parquet", "aws.s3.prefix": "p/", **changes})

    assert sink.output.compression is compression
    assert sink.names.template.endswith(".gz")


def test_codecs_inside_and_around_avro() -> None:
    """Two options."""
    output = _sink({"format.output.type": "avro", "avro.codec": "snappy"}).output

    assert (output.rows.avro_codec, output.compression) == (Compression.SNAPPY, Compression.GZIP)


def test_the_workers_file_gives_interval_and_converters() -> None:
    """What a connector leaves out."""
    worker = f"offset.flush.interval.ms=5000\nkey.converter={_BYTES}\nvalue.converter={_BYTES}\n"
    absent = {"key.converter": None, "value.converter": None}

    assert _sink(absent, worker).rotation.age_ms == 5000
    assert _sink({"offset.flush.interval.ms": "7000"}, worker).rotation.age_ms == 7000
    assert any("key.converter: is missing" in problem for problem in _problems(absent))


def test_old_spellings_and_secrets() -> None:
    """References are passed on as references, and new spellings win."""
    settings = _load(
        {
            "aws.s3.bucket.name": None,
            "aws_s3_bucket": "old",
            "aws_access_key_id": "AKIA",
            "aws_secret_access_key": "${env:SECRET}",
            "aws_s3_region": "eu-west-1",
            "aws.s3.region": "eu-west-2",
        }
    )

    assert (settings.s3.bucket, settings.s3.region) == ("old", "eu-west-2")
    assert own_options(settings)["aws.secret.access.key"] == "${env:SECRET}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"file.name.template": "{{topic}}"}, "file.name.template"),
        (
            {"file.name.template": "{{topic}}-{{partition}}-{{start_offset}}-{{what}}"},
            "which is not one of topic",
        ),
        ({"file.name.template": "{{topic}}-{{partition}}-{{start_offset}}-{{timestamp}}"}, "without a unit"),
        ({"file.name.template": "{{key}}-{{timestamp:unit=HH}}"}, "does not group"),
        ({"file.name.template": "{{key}}", "file.max.records": "2"}, "file.max.records"),
        ({"file.name.template": "{{key}}", "aws.s3.prefix": "a/"}, "keep one of the two"),
        ({"file.name.template": ".well-known/acme-challenge/{{key}}"}, "which Aiven's sink refuses"),
        ({"aws.s3.prefix": "{{ date }}/"}, "which is not one of topic"),
        (
            {
                "file.name.timestamp.source": "HEADER:h",
                "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}-{{timestamp:unit=HH}}",
            },
            "expected WALLCLOCK, EVENT",
        ),
        (
            {"aws.s3.prefix": "{{timestamp:unit=HH}}/", "timestamp.source": "SIMPLE_DATA:t"},
            "timestamp.source = 'SIMPLE_DATA:t': is the field of an object's first record there",
        ),
        ({"format.output.fields": "key,value", "format.output.envelope": "false"}, "takes one field"),
        ({"format.output.fields": "keys"}, "expected a comma-separated list of key, value"),
        ({"format.output.type": "xml"}, "expected one of csv, json"),
        ({"avro.codec": "lzo"}, "expected one of null, deflate"),
        ({"connect.meta.data": "false"}, "is not written in another way than true"),
        ({"file.record.grouper.builder": "a.B"}, "classes of others do not run here"),
        ({"file.max.records": "-1"}, "expected a whole number from 0"),
        ({"aws.credentials.provider": "a.B"}, "aws.credentials.provider"),
        ({"transforms": "a"}, "transforms"),
    ],
)
def test_problems(changes: Mapping[str, str], problem: str) -> None:
    """Each in a sentence with the option of the configuration."""
    assert any(problem in found for found in _problems(changes)), _problems(changes)


def test_needless_options_are_one_warning() -> None:
    """Nothing is ignored in silence."""
    settings = _load({"kafka.retry.backoff.ms": "5", "aws.s3.fetch.page.size": "6"})

    (warning,) = [each for each in settings.warnings if "kafka.retry" in each]
    assert "aws.s3.fetch.page.size, kafka.retry.backoff.ms" in warning


def test_the_table_names_options_that_there_are() -> None:
    """Each is there once, and what is kept under its own name is one of ours."""
    names = [option.name for option in AIVEN.options]

    assert len(names) == len(set(names))
    for option in AIVEN.options:
        if option.fate is Fate.KEPT and option.note == f"`{option.name}`":
            assert option.name in CANONICAL


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({}, "is in UTC; set timestamp.timezone where"),
        ({"timestamp.timezone": "Asia/Seoul"}, "is in Asia/Seoul by timestamp.timezone, where"),
    ],
)
@pytest.mark.parametrize("times", ["", "{{timestamp:unit=HH}}/"])
def test_whose_days_local_dates_are_is_said(changes: Mapping[str, str], warning: str, times: str) -> None:
    """Names have one zone here, and there the machine's; that zone was said to decide nothing."""
    settings = _load({"aws.s3.prefix": f"{{{{local_date}}}}/{times}", **changes})

    assert [warning in each for each in settings.warnings if "local_date" in each] == [True]
    assert not any("nothing depends" in each for each in settings.warnings)
    assert own_options(settings).get("file.name.timestamp.timezone") == changes.get("timestamp.timezone")


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ("0", "offset.flush.interval.ms (here open.object.max.age.ms) = '0': is 0, and so is every rotate.*"),
        ("10s", "offset.flush.interval.ms = '10s': expected a whole number of milliseconds"),
    ],
)
def test_a_wrong_interval_of_the_worker_is_named(interval: str, said: str) -> None:
    """Not an option of ours, which stands in no file."""
    worker = f"offset.flush.interval.ms={interval}\n"
    with pytest.raises(SettingsError) as caught:
        _load({}, worker)
    (problem,) = caught.value.problems
    assert str(problem).startswith(said)

    assert _sink({"rotate.age.ms": "7000"}, worker).rotation.age_ms == 7000
    own = {"offset.flush.interval.ms": "5000", "open.object.max.age.ms": "9000"}
    assert not any("wins over" in warning for warning in _load(own, worker).warnings)
    with pytest.raises(SettingsError, match=r"rotate\.age\.ms = '0': is 0, and so is every other"):
        _load({"rotate.age.ms": "0"}, "offset.flush.interval.ms=5000")
