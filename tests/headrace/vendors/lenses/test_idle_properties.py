"""Properties of Lenses' statements that decide nothing: said at start, as of lines that do not."""

from typing import Final

import pytest

from tests.support.sink_archives import sink_settings

_GIVEN: Final = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "t",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
_STATEMENT: Final = "INSERT INTO bucket:p SELECT * FROM t"
_DECIDE_NOTHING: Final = "properties that decide nothing"


def _said(clauses: str) -> list[str]:
    settings = sink_settings({**_GIVEN, "connect.s3.kcql": f"{_STATEMENT} {clauses}"})
    return [each for each in settings.warnings if _DECIDE_NOTHING in each]


@pytest.mark.parametrize(
    ("clauses", "names"),
    [
        ("PROPERTIES('store.envelope.fields.key'=true)", ["store.envelope.fields.key"]),
        (
            "STOREAS CSV PROPERTIES('store.envelope'=false,'store.envelope.fields.metadata'=false)",
            ["store.envelope.fields.metadata"],
        ),
        (
            "PROPERTIES('padding.type'='NoOp','padding.length.offset'=20,'padding.char'='x')",
            ["padding.length.offset", "padding.char"],
        ),
        ("NOPARTITION PROPERTIES('partition.include.keys'=true)", ["partition.include.keys"]),
    ],
)
def test_a_property_that_decides_nothing_is_named(clauses: str, names: list[str]) -> None:
    """Once, with what it would need."""
    (warning,) = _said(clauses)
    assert all(f"'{name}' without " in warning for name in names)


@pytest.mark.parametrize(
    "clauses",
    [
        "PROPERTIES('store.envelope'=true,'store.envelope.fields.key'=false)",
        "PROPERTIES('padding.type'='RightPad','padding.length.offset'=20,'padding.char'='x')",
        "PARTITIONBY a PROPERTIES('partition.include.keys'=false)",
        "NOPARTITION PROPERTIES('padding.length.partition'=4)",
    ],
)
def test_one_that_decides_something_is_not(clauses: str) -> None:
    """The same next to what they belong to."""
    assert _said(clauses) == []
