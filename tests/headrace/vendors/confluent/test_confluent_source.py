"""What Confluent's source is told of names and rows: followed, or refused with what to write instead."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options import SettingsError
from tests.support.sink_archives import sink_settings

_S3: Final = "io.confluent.connect.s3."
_SOURCE: Final[Mapping[str, str]] = {
    "name": "reader",
    "connector.class": f"{_S3}source.S3SourceConnector",
    "s3.bucket.name": "bucket",
    "format.class": f"{_S3}format.json.JsonFormat",
}
_BYTES: Final = f"{_S3}format.bytearray.ByteArrayFormat"
_REGEX: Final = "filename.regex"
_SCHEMAS: Final = "format.json.schema.enable"
_ENDING: Final = "format.bytearray.extension"


def _refused(more: Mapping[str, str]) -> list[str]:
    """The options that are refused, and what is said of them."""
    try:
        sink_settings({**_SOURCE, **more})
    except SettingsError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("more", "is_refused"),
    [
        ({_REGEX: r"(.+)\+(\d+)\+.+$"}, False),
        ({_REGEX: r"([a-z]+)\+([0-9]+)\+(.*)"}, False),
        ({_REGEX: r"(.+)-(\d+)-.+$", "file.delim": "-"}, False),
        ({_REGEX: r"(.+)\+(\d+)\+.+$", "mode": "GENERIC", "topic.regex.list": "t:.*"}, False),
        ({_REGEX: r"(.+)-(\d+)-.+$", "mode": "GENERIC", "topic.regex.list": "t:.*"}, False),
        ({_REGEX: r"(.+)-(\d+)-.+$"}, True),
        ({_REGEX: r"(.+)\+(\d+)\+.+$", "file.delim": "-"}, True),
        ({_REGEX: r"(.+)_(\d+)_.+\.avro$"}, True),
        ({_REGEX: r"(.+)\+\d+\+(.+)$"}, True),
        ({_REGEX: r".+\+\d+\+.+$"}, True),
        ({_REGEX: r"(.+)\+(\d+)\+.+\.avro$"}, False),
        ({_REGEX: r"(.+)\+(\d+)\+.+\.json\.gz$"}, False),
        ({_REGEX: r"(.+)\+(\d+)\+.+\.snappy\.parquet$"}, False),
        ({_REGEX: r"(.+)\+(\d+)\+.+\.log\.gz$", _ENDING: ".log"}, False),
        ({_REGEX: r"(?<topic>.+)\+(?<partition>\d+)\+.+$"}, False),
        ({_REGEX: r"(\p{Alnum}+)\+(\d+)\+.+$"}, False),
    ],
)
def test_an_expression_for_names(more: Mapping[str, str], *, is_refused: bool) -> None:
    """It decides nothing where it finds what is found here, and else its archive would be quarantined."""
    found = _refused(more)

    assert bool(found) is is_refused
    assert all(each.startswith(_REGEX) and "set file.delim" in each for each in found)


@pytest.mark.parametrize(
    ("expression", "is_said"),
    [
        (r"(.+)\+(\d+)\+.+$", False),
        (r"(.+)\+(\d+)\+.+\.avro$", False),
        (r"(orders|users)\+(\d+)\+.+$", True),
        (r"(.+)\+(\d+)\+.+\.orc$", True),
        (r"([a-z&&[^b]]+)\+(\d+)\+.+$", True),
    ],
)
def test_an_expression_that_cannot_be_tried_is_told(expression: str, *, is_said: bool) -> None:
    """It may well find what is found here, so a warning says how that is."""
    warnings = sink_settings({**_SOURCE, _REGEX: expression}).warnings

    assert any(each.startswith(_REGEX) for each in warnings) is is_said


@pytest.mark.parametrize(
    ("more", "is_refused"),
    [
        ({"format.class": _BYTES, _ENDING: ".log_v1"}, False),
        ({"format.class": _BYTES, _ENDING: ".tar.my-log"}, False),
        ({"format.class": _BYTES, _ENDING: ""}, False),
        ({_ENDING: "log"}, False),
        ({"format.class": _BYTES, _ENDING: "log"}, True),
        ({"keys.format.class": _BYTES, _ENDING: ".a b"}, True),
    ],
)
def test_an_ending_of_bytes(more: Mapping[str, str], *, is_refused: bool) -> None:
    """Names with it can be read, or it is refused before an archive is quarantined."""
    found = _refused(more)

    assert bool(found) is is_refused
    assert all(each.startswith(_ENDING) for each in found)


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        ({}, "each row is a value as it is stored"),
        ({"mode": "GENERIC", "topic.regex.list": "t:.*"}, "set value.source=field:payload"),
        ({"format.class": f"{_S3}format.avro.AvroFormat"}, None),
        ({_SCHEMAS: "false"}, None),
    ],
)
def test_rows_with_their_schema_are_refused(more: Mapping[str, str], fix: str | None) -> None:
    """Values would be of schema and payload, where Confluent's source has the payload."""
    found = _refused({_SCHEMAS: "true", **more})

    assert [each.startswith(_SCHEMAS) and str(fix) in each for each in found] == (
        [] if fix is None else [True]
    )


def test_a_comma_in_a_repetition_has_a_fix_of_its_own() -> None:
    """An escaped one makes none. What is said to be written instead reads the same keys."""
    values = "org.apache.kafka.connect.storage.StringConverter"
    files = {
        **_SOURCE,
        "value.converter": values,
        "mode": "GENERIC",
        "topic.regex.list": r"orders:.*[0-9]{1,3}\.json",
    }
    with pytest.raises(SettingsError, match="has a comma in a repetition"):
        sink_settings(files)

    ours = {"topic": "orders", "file.name.template": r"[0-9]{1,3}\.json$"}
    settings = sink_settings({"name": "n", **files, "topic.regex.list": "", **ours})

    assert settings.routing.topic == "orders"
    assert settings.key_template().match("topics/a/12.json") is not None
    assert not any("wins over" in warning for warning in settings.warnings)


_ALL: Final = {"errors.tolerance": "all"}
_IGNORED: Final = {"behavior.on.error": "ignore"}
_LENSES: Final = {
    "name": "reader",
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
    "connect.s3.kcql": "insert into t select * from bkt:p STOREAS `JSON`",
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (_SOURCE, None),
        ({**_SOURCE, **_ALL}, "errors.tolerance=all is of rows"),
        ({**_SOURCE, "error.tolerance": "all"}, "errors.tolerance=all is of rows"),
        ({**_SOURCE, "error.tolerance": "none"}, None),
        ({**_SOURCE, **_ALL, "behavior.on.error": "fail"}, "errors.tolerance=all is of rows"),
        ({**_SOURCE, **_ALL, **_IGNORED}, "behavior.on.error: what cannot be read is only in the log"),
        ({**_SOURCE, **_IGNORED}, "behavior.on.error: what cannot be read is only in the log"),
        ({**_SOURCE, **_IGNORED, "errors.tolerance": "none"}, None),
        ({**_SOURCE, **_IGNORED, "errors.deadletterqueue.topic.name": "dead"}, None),
        ({**_SOURCE, **_IGNORED, "parse.error.topic.prefix": "dead"}, None),
        (_LENSES, None),
        ({**_LENSES, **_ALL}, "errors.tolerance=all is of rows"),
        ({**_LENSES, "error.tolerance": "ALL"}, "errors.tolerance=all is of rows"),
        ({**_LENSES, **_ALL, "connect.s3.error.policy": "THROW"}, "errors.tolerance=all is of rows"),
    ],
)
def test_where_bad_rows_go_is_said(given: Mapping[str, str], said: str | None) -> None:
    """Connect's tolerance is of converters and transforms; here it is of rows, which both sources stop at."""
    warnings = sink_settings(given).warnings

    found = [each for each in warnings if "is of rows" in each or "only in the log" in each]
    assert [each[: len(said or "")] for each in found] == ([] if said is None else [said])
