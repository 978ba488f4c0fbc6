"""`headrace plan` for a sink: what of its topics is not archived yet, by topic and partition."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from headrace.model.sink_entries import TopicPartition
from headrace.options import Settings
from ingest.checks.findings.sink_findings import TakeoverFacts
from ingest.checks.probes.ledger_reader import open_ledger_reader
from ingest.checks.probes.sink_topics import Backlog, backlog_of, survey_topics
from ingest.cli.cli_options import Report
from ingest.cli.sink_check import takeover_facts

_MAX_PLACES: Final = 40
_HEADINGS: Final = ("topic", "partition", "archived to", "end", "lag", "pending", "quarantined")


def sink_plan(settings: Settings, *, as_json: bool, startup_timeout: float) -> None:
    """Print what `run` would read. Blocks; reads the ledger if there is one, and no record."""
    reading = open_ledger_reader(settings, timeout=startup_timeout)
    try:
        cache = None if reading is None else reading.cache
        survey = survey_topics(settings)
        taken = takeover_facts(settings, survey.partitions, () if cache is None else cache.controls())
        earlier = {
            TopicPartition(each.topic, each.partition): each.offset
            for each in taken
            if each.offset is not None
        }
        backlog = backlog_of(survey, cache, earlier=earlier)
    finally:
        if reading is not None:
            reading.close()
    has_ledger = reading is not None
    Report(
        shape_of(settings, backlog, taken, has_ledger=has_ledger, missing=survey.missing),
        chain(
            lines_of(settings, backlog, taken, has_ledger=has_ledger),
            _missing(settings, survey.missing, has_some=bool(survey.partitions)),
        ),
    ).show(as_json=as_json)


def shape_of(
    settings: Settings,
    backlog: Sequence[Backlog],
    taken: Sequence[TakeoverFacts] = (),
    *,
    has_ledger: bool,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """The JSON shape (docs/commands.md)."""
    return {
        "bucket": settings.s3.bucket,
        "prefix": settings.s3.prefix,
        "group": "" if settings.sink is None else settings.sink.group_id,
        "ledger": settings.kafka.ledger_topic if has_ledger else None,
        "lag": sum(part.lag for part in backlog),
        "missing_topics": list(missing),
        "partitions": [
            {
                "topic": part.topic,
                "partition": part.partition,
                "begin": part.begin,
                "archived": part.archived,
                "end": part.end,
                "lag": part.lag,
                "pending": part.pending,
                "quarantined": part.quarantined,
            }
            for part in backlog
        ],
        "takeover": [_taken_shape(each) for each in taken],
    }


def _taken_shape(each: TakeoverFacts) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "lock": each.offset,
        "group": each.group_offset,
        "begin": None if each.problem is not None else each.begin,
        "values": each.groups,
        "to_finish": list(each.finished),
        "to_drop": list(each.dropped),
        "problem": each.problem,
    }


def lines_of(
    settings: Settings, backlog: Sequence[Backlog], taken: Sequence[TakeoverFacts] = (), *, has_ledger: bool
) -> Iterator[str]:
    """What people are shown."""
    yield (
        f"ledger {settings.kafka.ledger_topic}: "
        + ("read" if has_ledger else "not there yet, so all that the topics hold is to be archived")
    )
    yield ""
    rows: list[tuple[str, ...]] = [_HEADINGS, *map(_row, backlog[:_MAX_PLACES]), _total(backlog)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if len(backlog) > _MAX_PLACES:
        yield f".. {len(backlog) - _MAX_PLACES} more partitions are in the total; --json shows all"
    if taken:
        yield ""
        yield "taken over by the locks of Lenses' sink, at the first start; nothing was changed now:"
        yield from (f"  {each.sentence}" for each in taken[:_MAX_PLACES])
    if len(taken) > _MAX_PLACES:
        yield f"  .. and {len(taken) - _MAX_PLACES} more; --json shows all"


def _missing(settings: Settings, missing: Sequence[str], *, has_some: bool) -> Iterator[str]:
    """What people are shown of topics that are not there, which is not the same as nothing to do."""
    if missing:
        yield ""
        yield f"topics that are not there: {', '.join(missing)}; create them, or correct topics"
    elif not has_some and settings.sink is not None and settings.sink.topics.pattern is not None:
        yield ""
        yield "no topic matches topics.regex; create one, or correct it"


def _row(part: Backlog) -> tuple[str, ...]:
    archived = "-" if part.archived is None else f"{part.archived:,}"
    return (
        part.topic,
        str(part.partition),
        archived,
        f"{part.end:,}",
        *map(_number, (part.lag, part.pending, part.quarantined)),
    )


def _total(backlog: Sequence[Backlog]) -> tuple[str, ...]:
    sums = (
        sum(part.lag for part in backlog),
        sum(part.pending for part in backlog),
        sum(part.quarantined for part in backlog),
    )
    return ("total", "", "", "", *map(_number, sums))


def _number(number: int) -> str:
    return f"{number:,}" if number else "-"
