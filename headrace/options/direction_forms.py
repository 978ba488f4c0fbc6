"""`connector.class`: which way the data goes."""

from enum import StrEnum
from typing import Final

from headrace.options.value_types import Form, FormError

AIVEN_SOURCE: Final = "io.aiven.kafka.connect.s3.source.S3SourceConnector"
AIVEN_SOURCES: Final = (AIVEN_SOURCE, "io.aiven.kafka.connect.s3.S3SourceConnector", "S3SourceConnector")
SOURCE_CLASS: Final = "HeadraceSource"
SOURCE_CLASSES: Final = (SOURCE_CLASS, *AIVEN_SOURCES)
SINK_CLASS: Final = "HeadraceSink"
CLASSES: Final = (*SOURCE_CLASSES, SINK_CLASS)
"""Our own classes, and those that mean one of them."""
OTHER_SINKS: Final = (
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "io.confluent.connect.s3.S3SinkConnector",
    "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
)
"""The sinks whose configurations `headrace.vendors` translates."""
CONFLUENT_SOURCE: Final = "io.confluent.connect.s3.source.S3SourceConnector"
LENSES_SOURCE: Final = "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector"
OTHER_SOURCES: Final = (CONFLUENT_SOURCE, LENSES_SOURCE)
"""The sources whose configurations it translates; Aiven's has our own options."""
_NAMED: Final = ("HeadraceSource", "HeadraceSink", AIVEN_SOURCE, *OTHER_SOURCES, *OTHER_SINKS)
SINK_CLASSES: Final = (SINK_CLASS, *OTHER_SINKS)


class Direction(StrEnum):
    """Which way the data goes."""

    SOURCE = "source"
    SINK = "sink"


def _direction(text: str) -> Direction:
    name = text.strip()
    if name in SOURCE_CLASSES:
        return Direction.SOURCE
    if name == SINK_CLASS:
        return Direction.SINK
    if name in OTHER_SINKS:
        # Those that run are translated before: headrace.vendors.
        raise FormError(
            f"configurations of this sink do not run here yet: set {SINK_CLASS} and Headrace's own options "
            "(docs/sink.md)"
        )
    if name in OTHER_SOURCES:
        raise FormError(
            f"configurations of this source do not run here yet: set {SOURCE_CLASS} and Headrace's own "
            "options (docs/restore.md)"
        )
    raise FormError


CONNECTOR: Final = Form(
    kind="CLASS",
    expected=f"{', '.join(_NAMED)}, or absent",
    parse=_direction,
    values=CLASSES,
)
