"""Findings about a sink's bucket: whether it takes uploads, what ends them, what Lenses left. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.model.text_formatting import counted, span_text
from headrace.options import Settings
from headrace.options.aws_forms import rights_on
from headrace.options.settings import S3Settings
from headrace.options.sink_settings import SinkSettings
from ingest.checks.findings.bucket_lifecycle import MINIMUM_DAYS, Rule, days_to_expiry, shortest_days
from ingest.checks.findings.finding import (
    Cause,
    Finding,
    Refused,
    kafka_fix,
    misconfigured,
    ok,
    unusable,
    warn,
)

# -- Findings about a sink's topics: whether they are there, and who reads them ------------------------------

_SHOWN: Final = 5


def _first(told: Sequence[str], *, between: str = ", ", rest: str = "..") -> str:
    """The first few of these, and `rest` where there are more."""
    return between.join([*told[:_SHOWN], *([rest] if len(told) > _SHOWN else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """One partition of a topic that the sink reads; `archived` is where reading would begin, if anywhere.

    `mark` is what its group's offset says of who committed it: `headrace`, the ledger, the topic's id.
    `topic_id` is that of the topic which Kafka has now.
    """

    topic: str
    partition: int
    begin: int
    end: int
    archived: int | None
    mark: str = ""
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsFacts:
    """The topics of the sink: those that are named and not there, the partitions of the others, and members.

    `members` are those of the connector's own group. `retention_ms` is how long a topic keeps its records;
    topics that keep them for good, or that need not be asked (`may_outlive`), are not among them.
    """

    missing: Sequence[str]
    partitions: Sequence[ReadFacts]
    members: Sequence[str]
    retention_ms: Mapping[str, int] = field(default_factory=dict)


def topics_findings(settings: Settings, facts: TopicsFacts | Refused) -> Iterator[Finding]:
    """Whether there is something to read, and no other consumer reads it as this sink."""
    if isinstance(facts, Refused):
        rights = "Allow Describe and Read on them, and Read on the group (docs/security.md)."
        yield unusable("topics", f"the topics cannot be described: {facts.words}", kafka_fix(facts, rights))
        return
    yield from _found_topics(settings, facts)
    sink = settings.sink
    if facts.members and sink is not None:
        yield misconfigured(
            "group",
            f"group {sink.group_id!r} has {counted(len(facts.members), 'active member')}: another consumer "
            "reads as this sink.",
            "Stop it, or give this sink another name; its offsets are kept.",
        )
    yield from offset_findings(settings, facts.partitions)
    yield from _outlived(settings, facts.retention_ms)


def offsets_problem(settings: Settings, partitions: Sequence[ReadFacts]) -> str | None:
    """The same in one text, for `plan`: the first few, and what to do; None where all continue."""
    found = list(offset_findings(settings, partitions))
    told = _first([each.sentence for each in found], between=" ", rest=f"And {len(found) - _SHOWN} more.")
    remedies = dict.fromkeys(each.remedy for each in found if each.remedy is not None)
    return " ".join([told, *remedies]) or None


def _found_topics(settings: Settings, facts: TopicsFacts) -> Iterator[Finding]:
    for topic in facts.missing:
        yield warn(
            "topic",
            f"topic {topic!r} does not exist; it is read from its beginning once it does.",
            "Create it, or correct topics.",
        )
    found = dict.fromkeys(one.topic for one in facts.partitions)
    if not found:
        pattern = "" if settings.sink is None else settings.sink.topics.pattern
        if pattern:
            yield warn("topic", f"no topic matches {pattern!r} yet.", "Create one, or correct topics.regex.")
        return
    partitions = counted(len(facts.partitions), "partition")
    yield ok("topic", f"{counted(len(found), 'topic')} with {partitions} to read: {_first(list(found))}")


def offset_findings(settings: Settings, partitions: Sequence[ReadFacts]) -> Iterator[Finding]:
    """Where a partition does not continue as it was archived."""
    yield from _marks(settings, partitions)
    yield from _positions(partitions)


def _marks(settings: Settings, partitions: Sequence[ReadFacts]) -> Iterator[Finding]:
    """Offsets of another Headrace, at which `run` stops, or of another topic of this name."""
    for one in partitions:
        maker, _, rest = one.mark.partition(" ")
        ledger, _, topic_id = rest.partition(" ")
        if maker != "headrace":
            continue
        if ledger != settings.kafka.ledger_topic:
            yield misconfigured(
                "offsets",
                f"the offset of {one.topic}-{one.partition} was committed by a Headrace with the ledger "
                f"{ledger!r}; this one has {settings.kafka.ledger_topic!r}.",
                "Run the configuration that has that ledger, or continue with this one as docs/sink.md "
                '("Another configuration") describes. Deleting the group\'s offsets archives all again.',
            )
        elif topic_id != one.topic_id:
            yield warn(
                "offsets",
                f"the offset of {one.topic}-{one.partition} was committed for another topic of this name: it "
                "was deleted and made again, or this is another cluster. What the ledger knows begins at its "
                "first record, and the rest is refused (`other_topic_id`).",
                'On another cluster: docs/operations.md, "Moving to another Kafka cluster".',
            )


def _positions(partitions: Sequence[ReadFacts]) -> Iterator[Finding]:
    for one in partitions:
        if one.archived is None:
            continue
        place = f"{one.topic}-{one.partition}"
        if one.archived > one.end:
            yield misconfigured(
                "offsets",
                f"{place} ends at offset {one.end}, and was archived to {one.archived}: it was cut, or "
                "it is another cluster's.",
                "Correct bootstrap.servers, or give the sink another name to archive it from the beginning.",
            )
        elif one.archived < one.begin:
            yield warn(
                "offsets",
                f"{place} begins at offset {one.begin}, and was archived to {one.archived}: Kafka has "
                f"deleted {counted(one.begin - one.archived, 'offset')} in between.",
                "Give the topic a longer retention.ms (or retention.bytes).",
            )


_LONG_MS: Final = 3_600_000


def may_outlive(sink: SinkSettings, topic: str, retention_ms: int = _LONG_MS) -> bool:
    """Whether an object of the topic may be open for longer than its records are kept, an hour by default."""
    route = sink.route(topic)
    longest = (sink if route is None else route.sink).rotation.longest_open_ms
    return longest is None or longest >= retention_ms


def _outlived(settings: Settings, retention_ms: Mapping[str, int]) -> Iterator[Finding]:
    """What an open object has is not committed: a start reads it again, as long as Kafka has it."""
    sink = settings.sink
    if sink is None:
        return
    found = {topic: kept for topic, kept in retention_ms.items() if may_outlive(sink, topic, kept)}
    if not found:
        return
    shown = _first([f"{topic!r} ({span_text(kept)})" for topic, kept in found.items()])
    yield warn(
        "record retention",
        "an object may stay open for longer than Kafka keeps its records (retention.ms): a restart then "
        f"finds them deleted, and they are lost. So it is with {shown}.",
        "Set open.object.max.age.ms, or another rotate option of time, to less than half of retention.ms, "
        "or give the topic a longer retention.ms.",
    )


# -- Findings about a sink's bucket: whether it takes uploads, and what ends those that nobody finishes ------


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFacts:
    """What the bucket answered to an upload that was begun, given a part and ended, and was never visible.

    None for a call that made no sense after an earlier answer. `missing` is True when the HEAD of a key that
    is not there said so. `rules` are those of the bucket's lifecycle.
    """

    begin: bool | Refused
    part: bool | Refused | None
    abort: bool | Refused | None
    missing: bool | Refused | None
    rules: Sequence[Rule] | Refused


def upload_findings(settings: Settings, facts: UploadFacts) -> Iterator[Finding]:
    """Whether the bucket takes uploads, and what becomes of those that stay unfinished."""
    for one in (_begins, _takes_parts, _ends, _tells_missing, _expires):
        if (finding := one(settings, facts)) is not None:
            yield finding


def _begins(settings: Settings, facts: UploadFacts) -> Finding | None:
    if not isinstance(facts.begin, Refused):
        return None
    return _refused(settings, facts.begin, "no upload can be begun")


def _takes_parts(settings: Settings, facts: UploadFacts) -> Finding | None:
    name, url = "bucket", _url(settings)
    if facts.part is None:
        return None
    if isinstance(facts.part, Refused):
        return _refused(settings, facts.part, "no part can be uploaded")
    return ok(name, f"{url} takes uploads (one was begun and ended; nothing was visible)")


def _refused(settings: Settings, refused: Refused, what: str) -> Finding:
    sentence = f"{_url(settings)}: {what}: {refused.words}"
    match refused.cause:
        case Cause.MISSING:
            return misconfigured("bucket", sentence, "Create the bucket, or correct aws.s3.bucket.name.")
        case Cause.DENIED:
            kms = ", and kms:GenerateDataKey and kms:Decrypt on the key where objects are encrypted with one"
            return unusable(
                "bucket", sentence, f"Allow {rights_on(settings.s3.objects_arn, 's3:PutObject')}{kms}."
            )
        case Cause.KEY | Cause.QUOTA:
            return unusable("bucket", sentence, "See the sentence: it says what helps.")
        case Cause.OPTION:
            return misconfigured("bucket", sentence, "See the sentence: it names the option.")
        case _:
            return unusable("bucket", sentence, "Check aws.s3.endpoint, aws.s3.region and the credentials.")


def _ends(settings: Settings, facts: UploadFacts) -> Finding | None:
    if facts.abort is None or facts.abort is True:
        return None
    action = rights_on(settings.s3.objects_arn, "s3:AbortMultipartUpload")
    return warn(
        "abort",
        "uploads cannot be ended: those of records that are read again stay until the bucket's lifecycle "
        "ends them.",
        f"Allow {action}, or leave it to the lifecycle rule.",
    )


def _tells_missing(settings: Settings, facts: UploadFacts) -> Finding | None:
    if not isinstance(facts.missing, Refused) or facts.missing.cause is not Cause.DENIED:
        return None
    return warn(
        "list",
        "S3 does not say whether an object is missing or forbidden (403), so a lost upload cannot be told "
        "from a completed one.",
        f"Allow {' and '.join(_seeing(settings.s3))}.",
    )


def _expires(settings: Settings, facts: UploadFacts) -> Finding | None:
    name, remedy = "lifecycle", "Run `headrace setup`: it puts a rule next to those that are there."
    if isinstance(facts.rules, Refused):
        if facts.rules.cause is Cause.MISSING:
            return None  # the bucket, of which there is a finding
        is_denied = facts.rules.cause is Cause.DENIED
        action = rights_on(settings.s3.arn, "s3:GetLifecycleConfiguration")
        return warn(
            name,
            f"the bucket's lifecycle cannot be read: {facts.rules.words}",
            f"{f'Allow {action}, and see' if is_denied else 'See'} that a rule ends "
            f"unfinished uploads after {MINIMUM_DAYS} days or more.",
        )
    shortest = shortest_days(facts.rules, settings.s3.prefix)
    if shortest is not None and shortest < MINIMUM_DAYS:
        return warn(
            name,
            f"a lifecycle rule ends unfinished uploads after {counted(shortest, 'day')}: uploads that wait "
            "for their completion may be lost with it.",
            f"Set DaysAfterInitiation of that rule to {MINIMUM_DAYS} or more.",
        )
    days = days_to_expiry(facts.rules, settings.s3.prefix)
    if days is None:
        return warn(
            name, "no lifecycle rule ends unfinished uploads; their parts cost as objects do.", remedy
        )
    return ok(name, f"unfinished uploads are ended after {counted(days, 'day')}")


def _url(settings: Settings) -> str:
    return f"s3://{settings.s3.bucket}/{settings.s3.prefix}"


def _seeing(s3: S3Settings) -> Iterable[str]:
    """What tells a missing object from a forbidden one, each once."""
    return dict.fromkeys((rights_on(s3.arn, "s3:ListBucket"), rights_on(s3.objects_arn, "s3:GetObject")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverFacts:
    """What the locks of one partition say, were it begun now.

    `offset` is the next record by them (None: they say nothing), `group_offset` that of the group; `begin` is
    the higher one. `groups` counts values of PARTITIONBY that are archived beyond. `finished` are the locks
    whose pending commit would be finished, `dropped` those whose cannot be. `problem` is why the partition
    would not begin.
    """

    topic: str
    partition: int
    offset: int | None
    group_offset: int | None
    groups: int = 0
    finished: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def begin(self) -> int | None:
        """Where the partition begins; None where neither says."""
        known = [each for each in (self.offset, self.group_offset) if each is not None]
        return max(known, default=None)

    @property
    def sentence(self) -> str:
        """The same in words."""
        place = f"{self.topic}-{self.partition}"
        if self.problem is not None:
            return f"{place} does not begin: {self.problem}"
        if self.offset is None:
            begins = "has no lock of its own"
        elif self.begin == self.offset:
            begins = f"begins at offset {self.offset}, after its lock"
        else:
            begins = f"begins at the group's offset {self.group_offset}, which is above its lock's"
        more = [
            f"{counted(self.groups, 'value')} of PARTITIONBY archived beyond" if self.groups else "",
            f"{counted(len(self.finished), 'pending commit')} to finish" if self.finished else "",
            f"{counted(len(self.dropped), 'pending commit')} that cannot be finished" if self.dropped else "",
        ]
        return ", ".join([f"{place} {begins}", *filter(None, more)])


def takeover_findings(root: str, facts: Sequence[TakeoverFacts]) -> Iterator[Finding]:
    """One of each partition that would not begin, and one of all others."""
    for each in facts:
        if each.problem is not None:
            yield misconfigured(
                "takeover",
                each.sentence,
                "Repair what it names, or set takeover.indexes=none to begin at the group's offsets.",
            )
    known = [each for each in facts if each.problem is None]
    if not known:
        return
    rest = f"and {len(known) - _SHOWN} more (headrace plan)"
    shown = _first([each.sentence for each in known], between="; ", rest=rest)
    sentence = f"Lenses' locks under {root}: {shown}"
    if any(each.dropped for each in known):
        yield warn(
            "takeover",
            sentence,
            "What cannot be finished is on a disk of Connect's, or gone: its records are read again.",
        )
    else:
        yield ok("takeover", sentence)
