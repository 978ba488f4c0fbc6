"""`headrace check` and `headrace plan` for a sink: bucket, topics and group, and what is not archived yet."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from typing import Any, Final

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import TargetState, target_of
from headrace.kafka.data_topics import Survey, SurveyedPartition
from headrace.kafka.ledger_reader import LedgerReader, lost_ledger, open_ledger_reader
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import TopicPartition
from headrace.options import Settings
from headrace.options.choices import OffsetReset
from ingest.checks.findings.finding import Finding, Refused, warn, without_credentials
from ingest.checks.findings.kafka_findings import held_back
from ingest.checks.findings.sink_findings import (
    TakeoverFacts,
    offsets_problem,
    takeover_findings,
    topics_findings,
    upload_findings,
)
from ingest.checks.probes.bucket_keys import aws_clients, unreached_buckets
from ingest.checks.probes.probe_calls import probe_uploads
from ingest.checks.probes.sink_topics import (
    Backlog,
    backlog_of,
    checkpoints_of,
    read_facts,
    survey_topics,
    surveyed,
    topics_facts,
)
from ingest.cli.cli_options import Report
from ingest.service.sink.earlier_archive import EarlierArchives, Foreseen, LensesIndex, new_lenses_index
from ingest.service.sink.topic_watch import found_partition
from ingest.sink import EarlierArchive, committed_further


def takeover_facts(
    settings: Settings, partitions: Iterable[SurveyedPartition], known: Collection[ControlKey]
) -> list[TakeoverFacts]:
    """What the locks of each partition say that is new to the ledger, whose keys are `known`. Blocks."""
    indexes: dict[str, LensesIndex] = {}

    def index(bucket: str) -> LensesIndex:
        return indexes.setdefault(bucket, new_lenses_index(settings.s3, bucket, is_preview=True))

    earlier = EarlierArchives(settings, lambda: known, new_index=index)
    facts: list[TakeoverFacts] = []
    for one in sorted(partitions, key=lambda one: (one.topic, one.partition)):
        found = earlier.of([one]).get(TopicPartition(one.topic, one.partition))
        foreseen = [each for made in indexes.values() for each in made.foreseen]
        for made in indexes.values():
            made.foreseen.clear()
        if found is not None and (found != EarlierArchive() or foreseen):
            facts.append(_facts(one, found, foreseen))
    return facts


def _facts(one: SurveyedPartition, found: EarlierArchive, foreseen: list[Foreseen]) -> TakeoverFacts:
    return TakeoverFacts(
        topic=one.topic,
        partition=one.partition,
        offset=found.offset,
        group_offset=one.group_offset,
        groups=len(found.done),
        finished=tuple(each.lock for each in foreseen if each.is_finished),
        dropped=tuple(each.lock for each in foreseen if not each.is_finished),
        problem=found.problem,
    )


_LEDGER_SECONDS: Final = 30.0
_HIDDEN_SECONDS: Final = 5.0
_TOLD: Final = 3
_DISASTER: Final = 'See docs/operations.md, "Disaster", before it is started.'


def sink_findings(settings: Settings) -> Generator[Finding, None, TargetState | None]:
    """The findings about bucket and topics; what the ledger says is wanted, where it was read. Blocks."""
    try:
        clients = aws_clients(settings)
    except HeadraceError as error:
        yield without_credentials(error)
    else:
        try:
            for each in settings.by_place():
                yield from upload_findings(each, probe_uploads(each, clients))
        finally:
            clients.close()
    found = surveyed(settings)
    yield from topics_findings(settings, topics_facts(settings, found))
    if isinstance(found, Refused):
        return None
    findings, target = ledger_findings(settings, found)
    yield from findings
    return target


def lost_ledger_end(settings: Settings, found: Survey, reading: LedgerReader) -> list[str]:
    """What to say of the first partitions where this sink has committed more than its ledger has. Blocks."""
    if not _further(settings, found, reading):
        return []
    # What the group has may be of a moment ago, and an open transaction hides the ledger's end of then.
    _, end = KafkaAdmin(settings.kafka.client("admin")).ends(settings.kafka.ledger_topic)
    if not reading.reads_to(end, _HIDDEN_SECONDS):
        return []
    told = _further(settings, found, reading)
    more = [f"So it is with {len(told) - _TOLD} partitions more."] if len(told) > _TOLD else []
    return [*told[:_TOLD], *more]


def ledger_findings(
    settings: Settings,
    found: Survey,
    *,
    open_ledger: Callable[..., LedgerReader | None] = open_ledger_reader,
) -> tuple[list[Finding], TargetState | None]:
    """What the ledger adds to the survey, and says is wanted, read once.

    Nothing where it does not answer, which `check` says, or need not be read for the survey.
    """
    assert settings.sink is not None, "a source reads no topics"
    root = settings.sink.takeover_indexes
    findings: list[Finding] = []
    target: TargetState | None = None
    if root is None and not any(one.group_mark for one in found.partitions):
        return findings, target
    try:
        with ExitStack() as closing:
            reading = open_ledger(settings, timeout=_LEDGER_SECONDS)
            if reading is not None:
                closing.enter_context(reading)
                with suppress(HeadraceError):
                    lost = lost_ledger_end(settings, found, reading)
                    findings += (warn("ledger", sentence, _DISASTER) for sentence in lost)
            if root is not None:
                known = () if reading is None else reading.cache.controls()
                findings += takeover_findings(root, takeover_facts(settings, found.partitions, known))
            if reading is not None:
                target = target_of(reading.cache.controls())
    except HeadraceError:
        pass
    return findings, target


def _further(settings: Settings, found: Survey, reading: LedgerReader) -> list[str]:
    assert settings.sink is not None, "a source reads no topics"
    ledger, group = settings.kafka.ledger_topic, settings.sink.group_id
    checkpoints = checkpoints_of(reading.cache)
    told = []
    for one in sorted(found.partitions, key=lambda one: (one.topic, one.partition)):
        partition = found_partition(one)
        checkpoint = checkpoints.get(partition.partition_of)
        told.append(committed_further(partition, checkpoint, ledger=ledger, group=group))
    return [sentence for sentence in told if sentence is not None]


_MAX_PLACES: Final = 40
_HEADINGS: Final = ("topic", "partition", "archived to", "end", "lag", "pending", "quarantined")


def sink_plan(settings: Settings, *, as_json: bool, startup_timeout: float) -> None:
    """Print what `run` would read. Blocks; reads the ledger if there is one, and no record."""
    unreached = unreached_buckets(settings)
    reading = open_ledger_reader(settings, timeout=startup_timeout)
    try:
        cache = None if reading is None else reading.cache
        target = target_of({} if cache is None else cache.controls())
        survey = survey_topics(settings)
        taken = takeover_facts(settings, survey.partitions, () if cache is None else cache.controls())
        earlier = {
            TopicPartition(each.topic, each.partition): each.offset
            for each in taken
            if each.offset is not None
        }
        backlog = backlog_of(survey, cache, earlier=earlier)
        gone = lost_ledger(settings, timeout=startup_timeout)
        if gone is not None:
            lost = [str(gone)]
        else:
            lost = [] if reading is None else lost_ledger_end(settings, survey, reading)
    finally:
        if reading is not None:
            reading.close()
    has_ledger = reading is not None
    told = [
        held_back(settings, target),
        *unreached,
        offsets_problem(settings, read_facts(survey, backlog)),
        *lost,
    ]
    problem = " ".join(filter(None, told)) or None
    Report(
        shape_of(settings, backlog, taken, has_ledger=has_ledger, missing=survey.missing, problem=problem),
        chain(
            lines_of(settings, backlog, taken, has_ledger=has_ledger),
            _missing(settings, survey.missing, has_some=bool(survey.partitions)),
            () if problem is None else ("", f"problem   {problem}"),
        ),
    ).show(as_json=as_json)


def shape_of(
    settings: Settings,
    backlog: Sequence[Backlog],
    taken: Sequence[TakeoverFacts] = (),
    *,
    has_ledger: bool,
    missing: Sequence[str] = (),
    problem: str | None = None,
) -> dict[str, Any]:
    """The JSON shape (docs/commands.md)."""
    return {
        "bucket": settings.s3.bucket,
        "prefix": settings.s3.prefix,
        "group": "" if settings.sink is None else settings.sink.group_id,
        "ledger": settings.kafka.ledger_topic if has_ledger else None,
        "lag": sum(partition.lag for partition in backlog),
        "missing_topics": list(missing),
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "begin": partition.begin,
                "archived": partition.archived,
                "end": partition.end,
                "lag": partition.lag,
                "pending": partition.pending,
                "quarantined": partition.quarantined,
            }
            for partition in backlog
        ],
        "takeover": [_taken_shape(each) for each in taken],
        "problem": problem,
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
    yield f"ledger {settings.kafka.ledger_topic}: {'read' if has_ledger else _first_start(settings)}"
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


def _first_start(settings: Settings) -> str:
    """Where partitions begin of which there is no ledger."""
    sink = settings.sink
    assert sink is not None, "a source archives nothing"
    place = "beginning" if sink.reading.reset is OffsetReset.EARLIEST else "end"
    return (
        f"not there yet, so each partition begins at the offset of group {sink.group_id!r}, and where there "
        f"is none at its {place} (auto.offset.reset)"
    )


def _missing(settings: Settings, missing: Sequence[str], *, has_some: bool) -> Iterator[str]:
    """What people are shown of topics that are not there, which is not the same as nothing to do."""
    if missing:
        yield ""
        yield f"topics that are not there: {', '.join(missing)}; create them, or correct topics"
    elif not has_some and settings.sink is not None and settings.sink.topics.pattern is not None:
        yield ""
        yield "no topic matches topics.regex; create one, or correct it"


def _row(partition: Backlog) -> tuple[str, ...]:
    archived = "-" if partition.archived is None else f"{partition.archived:,}"
    return (
        partition.topic,
        str(partition.partition),
        archived,
        f"{partition.end:,}",
        *map(_number, (partition.lag, partition.pending, partition.quarantined)),
    )


def _total(backlog: Sequence[Backlog]) -> tuple[str, ...]:
    sums = (
        sum(partition.lag for partition in backlog),
        sum(partition.pending for partition in backlog),
        sum(partition.quarantined for partition in backlog),
    )
    return ("total", "", "", "", *map(_number, sums))


def _number(number: int) -> str:
    return f"{number:,}" if number else "-"
