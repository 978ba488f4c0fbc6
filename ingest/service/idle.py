"""When `run --until-idle` is over, a source's and a sink's, and how long it bears what others can change.

A sink's is over when everything is read, then closed, committed and completed (docs/commands.md).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import structlog

from headrace.options.settings import Settings
from ingest.sink import SinkEffects
from ingest.sink.partitions import PartitionCondition, PartitionStatus


class Patience:
    """Runs out where something outside is waited for, so long that there is nothing more to hope for.

    What is left may take longer than that, as long as some of it comes to its end: S3 may complete for
    minutes what slots have sealed in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits_since: float | None = None
        self._progress: tuple[int, ...] = ()

    def is_over(self, now: float, *, waits: bool, progress: tuple[int, ...] = ()) -> bool:
        """True when it was waited for too long, by a monotonic clock, without a change of `progress`."""
        if not waits or progress != self._progress:
            self._waits_since, self._progress = None, progress
        if not waits:
            return False
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since >= self._seconds


# Two, because one receive may look at a few of SQS's servers only.
_EMPTY_ANSWERS = 2
# Long enough for SQS to ask all of its servers, as it does for any receive that waits.
_WAIT_SECONDS: Final = 2


def listening(settings: Settings) -> Settings:
    """The settings by which a run until idle receives: its end waits for two receives that find nothing."""
    if settings.sqs is None:
        return settings
    wait = min(settings.sqs.wait_time_seconds, _WAIT_SECONDS)
    return replace(settings, sqs=replace(settings.sqs, wait_time_seconds=wait))


@dataclass(slots=True, kw_only=True)
class UntilIdle:
    """Watches for: a full listing of each bucket since the start, an empty queue twice, nothing left.

    What is left but waits for something outside (a missing topic, a 403, a queue that fails) may do so as
    long as there is `patience`.
    """

    has_queue: bool
    patience: Patience
    buckets: int = 1
    _begun: dict[str, int] = field(default_factory=dict)
    _listed: set[str] = field(default_factory=set)
    _empty_answers: int = 0

    def begun(self, bucket: str, listing_id: int) -> None:
        """A full listing begins; the first of a bucket since the start, or since `list_again`, counts."""
        self._begun.setdefault(bucket, listing_id)

    def listed(self, bucket: str, listing_id: int, *, is_whole: bool = True) -> None:
        """This full listing of the bucket has reached its end; not `is_whole`: another one has to."""
        if not is_whole:
            self._begun.pop(bucket, None)
            self._listed.discard(bucket)
        elif self._begun.get(bucket) == listing_id:
            self._listed.add(bucket)

    def list_again(self) -> None:
        """Only full listings that begin from now on count."""
        self._begun.clear()
        self._listed.clear()

    @property
    def has_listed(self) -> bool:
        """True when all that is left to hear of comes from the queue."""
        return len(self._listed) == self.buckets

    def received(self, messages: int) -> None:
        """The queue answered with so many messages; with none only when no message was held."""
        self._empty_answers = 0 if messages else self._empty_answers + 1

    def is_over(self, *, is_idle: bool) -> bool:
        """True when everything there was has come to its end."""
        asked = not self.has_queue or self._empty_answers >= _EMPTY_ANSWERS
        return is_idle and self.has_listed and asked


_log = structlog.get_logger(__name__)

_QUIET_SECONDS: Final = 1.0
# Who keeps pace reads what was there at a moment within the first, again and again for the second. Writers of
# transactions that last longer are not kept pace with.
_BEHIND_SECONDS: Final = 60.0
_PACE_SECONDS: Final = 60.0
# Once may be a slot that was lost.
_AGAIN: Final = 2

_Ends = Mapping[tuple[str, int], int]


class AskedArchive(Protocol):
    """What of `archive.Archive` decides."""

    @property
    def is_idle(self) -> bool:
        """See `Archive.is_idle`."""

    @property
    def given_up(self) -> int:
        """See `Archive.given_up`."""

    def partitions(self) -> tuple[PartitionStatus, ...]:
        """See `Archive.partitions`."""

    def pause(self) -> SinkEffects:
        """See `Archive.pause`."""

    def resume(self) -> SinkEffects:
        """See `Archive.resume`."""


_UNREAD: Final = frozenset({PartitionCondition.MISSING, PartitionCondition.NOT_SELECTED})
_OPERATORS: Final = frozenset({PartitionCondition.STOPPED, PartitionCondition.REFUSED})


class _Pace:
    """Whether topics that are written to all the time are read as fast; they never let a second pass."""

    def __init__(self) -> None:
        self._goal: _Ends | None = None
        self._goal_at = 0.0
        self._since = 0.0

    def is_kept(self, now: float, partitions: Sequence[PartitionStatus], ends: _Ends) -> _Ends | None:
        """Ends of a moment ago that all is read to, once it has been like that for long enough.

        `ends` are those of now.
        """
        if any(one.end is None and not one.is_gone for one in partitions):
            return None
        reached = self._goal
        if reached is None:
            self._since = now
        elif not _is_read_to(partitions, reached):
            return None
        elif now - self._goal_at > _BEHIND_SECONDS:
            self._since = now
        self._goal, self._goal_at = ends, now
        return reached if now - self._since >= _PACE_SECONDS else None


def _ends_of(partitions: Iterable[PartitionStatus]) -> _Ends:
    return {(one.topic, one.partition): one.end or 0 for one in partitions}


def _is_read_to(partitions: Iterable[PartitionStatus], ends: _Ends) -> bool:
    """Whether every partition is read to its end of these, or was archived to it before.

    One that waits for an operator is not, wherever its log ends: it may have been cut off. Nor is one
    that is archived beyond its end: its start will find that out.
    Of what only the ledger knows, a topic that is gone or not asked for any more, nothing is to come.
    One that a broker does not know for the moment is waited for.
    """
    return all(
        (one.condition in _UNREAD and one.is_gone)
        or (
            one.condition not in _OPERATORS
            and one.end is not None
            and (one.offset or 0) <= one.end
            and ends.get((one.topic, one.partition), 0) <= max(one.position or 0, one.offset or 0)
        )
        for one in partitions
    )


class UntilArchived:
    """Asked a few times a second; `closes_on_stop`: what is open is written when slots end."""

    def __init__(self, archive: AskedArchive, *, closes_on_stop: bool) -> None:
        self._archive = archive
        self._closes_on_stop = closes_on_stop
        self._surveys = 0
        self._knows_topics = False
        self._read_since: float | None = None
        self._pace = _Pace()
        self._ends: _Ends | None = None
        self._given_up = 0
        self._times_again = 0
        self._furthest: dict[tuple[str, int], tuple[int, int]] = {}
        self.is_over = False
        """True once all that was there is in visible objects, or stays unwritten by configuration."""

    def surveyed(self, missing: Collection[str], *, is_whole: bool = True) -> None:
        """The topics were described, and these were not there; of some nothing is known unless `is_whole`.

        A broker that has just become the controller may not know one for a moment: it is asked twice.
        """
        self._surveys += 1
        self._knows_topics = is_whole and (self._surveys > 1 or not missing)

    def advance(self, now: float) -> SinkEffects | None:
        """What is to be done next, at a monotonic time; nothing before the topics are known."""
        if self._ends is not None:
            return self._closing()
        if not self._knows_topics:
            return None
        self._ends = self._read_ends(now)
        if self._ends is None:
            return None
        self._given_up = self._archive.given_up
        # However long it takes to send and complete it: nothing more is granted meanwhile.
        return self._archive.pause()

    def _read_ends(self, now: float) -> _Ends | None:
        """The ends that all is read to, after a second without news or while writers never give one."""
        partitions = self._archive.partitions()
        ends = _ends_of(partitions)
        kept = self._pace.is_kept(now, partitions, ends)
        if not _is_read_to(partitions, ends):
            self._read_since = None
        elif self._read_since is None:
            self._read_since = now
        elif now - self._read_since >= _QUIET_SECONDS:
            return ends
        if kept is not None:
            _log.info(
                "still_written",
                detail="all that was there is read, and more is written all the time: what came last is left "
                "to the next run.",
            )
        return kept

    def read_so_far(self) -> int:
        """How many offsets have been read of all partitions, those read again counted once more at most.

        A slot that was lost for once gets further so; one that is refused reads the same for ever.
        """
        for one in self._archive.partitions():
            name, position = (one.topic, one.partition), one.position or 0
            first, again = self._furthest.get(name, (0, 0))
            if position >= first:
                self._furthest[name] = position, again
            else:
                self._furthest[name] = first, max(again, position)
        return sum(map(sum, self._furthest.values()))

    def _closing(self) -> SinkEffects | None:
        assert self._ends is not None
        if not self._archive.is_idle:
            return None
        unwritten = self._unwritten(self._ends)
        if not unwritten or not (self._closes_on_stop or self._is_cut_short()):
            self.is_over = True
            if unwritten:
                _log.warning(
                    "tail_unwritten",
                    records=unwritten,
                    detail="rotate.on.stop=false, and no other trigger has closed the objects that these "
                    "records are in: they are in no object, and are read again by the next run. Markers of "
                    "transactions are counted among them.",
                )
            return None
        # A slot was lost, or an upload failed on the way: what it had is read again.
        self._ends = self._read_since = None
        self._pace = _Pace()
        self._times_again += 1
        return self._archive.resume()

    def given_up(self) -> str | None:
        """What it waits for where slots have given up what they had closed; None: they have not, or once."""
        if self._times_again < _AGAIN:
            return None
        return "slots gave up objects that S3 does not take, or were lost, and read their records again"

    def _is_cut_short(self) -> bool:
        """Whether more than what is to stay open may be unwritten: closed objects, or all above a record."""
        return self._archive.given_up != self._given_up or any(
            one.condition in _OPERATORS for one in self._archive.partitions()
        )

    def _unwritten(self, ends: _Ends) -> int:
        """How many offsets lie between what is committed and these ends."""
        return sum(
            max(0, ends.get((one.topic, one.partition), 0) - (one.offset or 0))
            for one in self._archive.partitions()
        )

    def held_back(self) -> str | None:
        """What is read as far as it can be and not to its end, for want of a transaction's end."""
        if self._ends is not None:
            return None
        sentences = [
            f"{one.topic}-{one.partition} is read up to offset {one.position} of {one.end}, and nothing more "
            "comes: an open transaction there holds back what is after it. End its producer, or abort "
            "it (kafka-transactions.sh find-hanging shows it)"
            for one in self._archive.partitions()
            if one.condition is PartitionCondition.GRANTED
            and one.end is not None
            and one.position is not None
            and max(one.position, one.offset or 0) < one.end
        ]
        return "; ".join(sentences) or None


def waits_sentence(waits_for: Sequence[str], last_error: str | None) -> str:
    """What ends `--until-idle` when its patience is over: all that is waited for, and the last error."""
    waits = "; ".join(each.removesuffix(".") for each in waits_for)
    # Of a queue or a bucket it is among what is waited for.
    is_news = last_error is not None and not any(last_error in each for each in waits_for)
    said = f" The last error: {last_error}" if is_news else ""
    return f"--until-idle: what is left waits for something outside: {waits}.{said}"
