"""Steps that change the topic: by a regular expression, or by the record's time."""

import re
from dataclasses import replace
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.transforms.refused_rows import RefusedRows
from headrace.options.transforms.chain import RegexRouter, TimestampRouter
from headrace.options.transforms.routing import replaced

_UTC: Final = ZoneInfo("UTC")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def regex_router(
    step: RegexRouter, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """The topic that the expression makes of one that it matches as a whole."""
    topic = replaced(step.pattern, step.replacement, records.records.topic)
    return [records] if topic is None else [to_topic(records, topic, refused)]


def timestamp_router(
    step: TimestampRouter, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """The topic of the record's own time; one without a time is refused."""
    times = records.records.timestamps_ms
    for row in np.flatnonzero(times < 0).tolist():
        refused.add(records.records.offsets[row], "it has no timestamp")
    unit = step.dates.step_ms
    moments, inverse = np.unique(np.maximum(times, 0) // unit, return_inverse=True)
    texts: dict[str, int] = {}
    codes = np.array(
        [texts.setdefault(_text(step, int(each) * unit), len(texts)) for each in moments.tolist()]
    )
    pieces = []
    for code, text in enumerate(texts):
        rows = np.flatnonzero(codes[inverse] == code)
        topic = step.format.replace("${topic}", records.records.topic).replace("${timestamp}", text)
        pieces.append(to_topic(records.take(rows), topic, refused))
    return pieces


def _text(step: TimestampRouter, moment_ms: int) -> str:
    try:
        return step.dates.text(moment_ms, _UTC)
    except ValueError:
        # No topic may be empty: it is refused for its name.
        return "\0"


def to_topic(records: ConvertedRecords, topic: str, refused: RefusedRows) -> ConvertedRecords:
    """The records with another topic; all are refused where Kafka does not allow its name."""
    if _TOPIC.fullmatch(topic) is None:
        refused.add_all(records, "the topic that it would go to has a name that Kafka does not allow")
        return records
    return replace(records, records=replace(records.records, topic=topic))
