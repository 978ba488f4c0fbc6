"""`headrace check` for a sink: bucket and uploads, topics and group, then ledger and transactions.

What a sink would take over from Lenses' sink, asked for `plan` and `check`: nothing is changed.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from headrace.kafka.topic_survey import SurveyedPartition
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import TopicPartition
from headrace.options import Settings
from ingest.checks.findings.finding import Finding, unusable
from ingest.checks.findings.sink_findings import (
    TakeoverFacts,
    takeover_findings,
    topics_findings,
    upload_findings,
)
from ingest.checks.probes.aws_clients import aws_clients
from ingest.checks.probes.ledger_reader import open_ledger_reader
from ingest.checks.probes.sink_topics import survey_topics, topics_facts
from ingest.checks.probes.sink_uploads import probe_uploads
from ingest.service.sink.earlier_archive import EarlierArchives
from ingest.service.sink.lenses_index import Foreseen, LensesIndex, new_lenses_index
from ingest.sink import EarlierArchive


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


def probe_takeover(settings: Settings, *, timeout: float) -> list[TakeoverFacts]:
    """The same from scratch, for `check`; nothing where brokers or ledger do not answer, which it says."""
    if settings.sink is None or settings.sink.takeover_indexes is None:
        return []
    try:
        reading = open_ledger_reader(settings, timeout=timeout)
        try:
            known = () if reading is None else reading.cache.controls()
            return takeover_facts(settings, survey_topics(settings).partitions, known)
        finally:
            if reading is not None:
                reading.close()
    except HeadraceError:
        return []


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


def sink_findings(settings: Settings) -> Iterator[Finding]:
    """The findings about bucket and topics. Blocks."""
    try:
        clients = aws_clients(settings)
    except HeadraceError as error:
        yield unusable("bucket", str(error), "Give credentials: see aws.credentials.provider.")
    else:
        try:
            for each in settings.by_place():
                yield from upload_findings(each, probe_uploads(each, clients))
        finally:
            clients.close()
    yield from topics_findings(settings, topics_facts(settings))
    root = None if settings.sink is None else settings.sink.takeover_indexes
    if root is not None:
        yield from takeover_findings(root, probe_takeover(settings, timeout=_LEDGER_SECONDS))
