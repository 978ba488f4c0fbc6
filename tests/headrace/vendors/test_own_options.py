"""Options of ours next to another vendor's class win, and are refused by no line that nobody wrote."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from headrace.options import SettingsError
from headrace.options.declarations import OPTIONS
from headrace.options.declarations.option import Group, Option
from headrace.options.given import is_for
from headrace.options.vendor import Direction
from headrace.options.vendor_translation import Translation
from headrace.vendors.aiven.translation import AIVEN
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file, own_options
from tests.support.sink_archives import sink_settings

_TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_FORMAT: Final = "io.confluent.connect.s3.format."
_JSON: Final = {
    "topics": "t",
    "key.converter": _TEXT,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_CONFLUENT: Final = {
    **_JSON,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "bucket",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": f"{_FORMAT}json.JsonFormat",
}
_PARQUET: Final = {**_CONFLUENT, "format.class": f"{_FORMAT}parquet.ParquetFormat"}
_KEYS: Final = {**_PARQUET, "store.kafka.keys": "true", "behavior.on.null.values": "write"}
_HOURLY: Final = {
    **_CONFLUENT,
    "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner",
    "locale": "en",
    "timezone": "UTC",
    "timestamp.extractor": "Record",
    "rotate.interval.ms": "60000",
}
_AIVEN: Final = {
    **_JSON,
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "aws.s3.bucket.name": "bucket",
    "format.output.type": "jsonl",
}
_CSV: Final = {
    **{name: text for name, text in _AIVEN.items() if name != "format.output.type"},
    "key.converter": _BYTES,
    "value.converter": _BYTES,
}
_AVRO: Final = {
    **_AIVEN,
    "format.output.type": "avro",
    "file.name.template": "{{timestamp:unit=yyyy}}/{{topic}}-{{partition}}-{{start_offset}}",
    "file.name.timestamp.source": "EVENT",
}
_LENSES: Final = {
    **_JSON,
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "connect.s3.kcql": "INSERT INTO bucket SELECT * FROM t",
}
_ENVELOPE: Final = {
    **_LENSES,
    "connect.s3.kcql": "INSERT INTO bucket:p SELECT * FROM t PARTITIONBY a STOREAS PARQUET "
    "PROPERTIES('store.envelope'=true)",
}
ALL: Final[Mapping[str, Mapping[str, str]]] = {
    "confluent": _CONFLUENT,
    "confluent by time": _HOURLY,
    "confluent keys": _KEYS,
    "aiven csv": _CSV,
    "aiven avro": _AVRO,
    "lenses": _LENSES,
    "lenses envelope": _ENVELOPE,
}
_GROUPS: Final = frozenset({Group.SINK, Group.OUTPUT, Group.ROTATION, Group.UPLOADS})
_NUMBERS: Final = frozenset({"INT", "LONG"})


def choices(option: Option[Any]) -> tuple[str, ...]:
    """The texts of an option that has a few; none of one that takes any."""
    if option.form.values:
        return tuple(map(str, option.form.values))
    if option.form.kind == "BOOLEAN":
        return ("true", "false")
    return ("0", "1") if option.form.kind in _NUMBERS else ()


def _decides(option: Option[Any]) -> bool:
    """Whether it says what objects are, or goes together with an option that does."""
    return option.group in _GROUPS or option.name in {"file.compression.type", "aws.s3.backoff.max.delay.ms"}


def _of_others(config: Mapping[str, str], option: str, text: str) -> Iterator[str]:
    """The problems that name neither the option nor one that the configuration has."""
    try:
        sink_settings({**config, option: text})
    except SettingsError as error:
        for problem in error.problems:
            named = problem.option.split(" (here")[0]
            if named not in config and named != option and "is missing" not in problem.message:
                yield f"{option}={text}: {problem}"


@pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())
def test_no_option_of_ours_is_refused_by_a_line_that_nobody_wrote(config: Mapping[str, str]) -> None:
    """Every value of each option of sinks that has a few, next to each vendor's configuration."""
    swept = [each for each in OPTIONS if is_for(each, Direction.SINK) and _decides(each)]
    found = [
        problem
        for option in swept
        for text in choices(option)
        for problem in _of_others(config, option.name, text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("config", "changes", "own"),
    [
        (_CSV, {"output.format": "parquet"}, {"output.format": "parquet", "output.value.encoding": None}),
        (_CSV, {"output.layout": "headrace"}, {"output.layout": "headrace", "output.value.encoding": None}),
        (_CSV, {"output.layout": "confluent"}, {"output.format": None, "output.fields": None}),
        (_AVRO, {"output.format": "parquet"}, {"output.avro.codec": None}),
        (_PARQUET, {"output.format": "jsonl"}, {"file.compression.type": None}),
        (_HOURLY, {"rotate.together": "none"}, {"rotate.on.group.change": None, "rotate.span.ms": "60000"}),
        (
            _KEYS,
            {"sidecars": "none"},
            {"sidecars.keys.format": None, "sidecars.tombstones.template": None},
        ),
        (_LENSES, {"rotate.together": "none"}, {"rotate.age.from": None}),
        (_LENSES, {"file.name.values": "escaped"}, {"file.name.missing": None}),
        (_LENSES, {}, {"file.name.missing": "[missing]", "rotate.age.from": "closed"}),
        (_CSV, {}, {"output.value.encoding": "base64"}),
    ],
)
def test_defaults_that_mean_nothing_next_to_ours_are_left_out(
    config: Mapping[str, str], changes: Mapping[str, str], own: Mapping[str, str | None]
) -> None:
    """As if that vendor's connector had them not; what is printed runs by itself."""
    found = own_options(sink_settings({**config, **changes}))
    assert {name: found.get(name) for name in own} == own


@pytest.mark.parametrize(
    ("config", "changes", "problem"),
    [
        (
            {**_CSV, "format.output.fields.value.encoding": "none"},
            {"output.format": "parquet"},
            "format.output.fields.value.encoding (here output.value.encoding)",
        ),
        ({**_PARQUET, "parquet.codec": "snappy"}, {"output.format": "jsonl"}, "parquet.codec (here"),
        (_LENSES, {"rotate.together": "none", "rotate.age.from": "closed"}, "rotate.age.from"),
        (_CONFLUENT, {"rotate.records": "0"}, "rotate.records"),
        (_AIVEN, {"aws.s3.backoff.max.delay.ms": "1"}, "aws.s3.backoff.max.delay.ms"),
    ],
)
def test_what_was_written_is_refused_by_its_name(
    config: Mapping[str, str], changes: Mapping[str, str], problem: str
) -> None:
    """It was meant."""
    with pytest.raises(SettingsError) as caught:
        sink_settings({**config, **changes})
    assert any(str(each).startswith(problem) for each in caught.value.problems), caught.value.problems


def test_a_name_with_blanks_around_it_is_given() -> None:
    """Reading once more without a default of that name would give the same for ever."""
    with pytest.raises(SettingsError) as caught:
        sink_settings({**_CSV, "output.format": "parquet", "output.value.encoding ": "base64"})
    assert "means nothing without" in str(caught.value.problems[0])


def test_a_route_leaves_out_what_means_nothing_there() -> None:
    """And the rest of the sink has it."""
    settings = sink_settings(
        {**_CSV, "topics": "t,u", "route.r.topics": "u", "route.r.output.format": "parquet"}
    )
    assert settings.sink is not None
    route = settings.sink.route("u")
    assert route is not None
    assert (settings.sink.output.format, route.sink.output.format) == ("csv", "parquet")


@pytest.mark.parametrize(
    "changes", [{}, {"output.format": "parquet"}, {"output.layout": "confluent"}, {"output.layout": "quix"}]
)
def test_a_configuration_is_read_once(changes: Mapping[str, str]) -> None:
    """Whichever defaults give way, and however many: it is translated once."""
    translated: list[str] = []

    def translate(given: Translation) -> None:
        translated.append(given.text("aws.s3.bucket.name"))
        AIVEN.translate(given)

    settings = load(
        json.dumps({"name": "archive", "bootstrap.servers": "b:9092", **_CSV, **changes}),
        kind="json",
        environment={},
        read_file=no_file,
        vendors=(replace(AIVEN, translate=translate),),
    )
    assert (settings.s3.bucket, translated) == ("bucket", ["bucket"])
