"""Whether a 403 is one object's or everybody's, and which topics are missing: what reading has shown so far.

S3 answers 403 for both: a policy about one key, and rights that are gone for all. Only other objects of
the same bucket distinguish them (docs/errors.md): an attempt counts against an object when something else was
read there since the attempt before it. In a quiet bucket nothing is, so a byte of what was read last is read
again: a HEAD would not do, as it decrypts nothing and needs no right to. Where that is forbidden, a few more
are tried: a policy may be about them, too. Where all of that is gone (`post.action`), a 404 has to do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from operator import attrgetter
from typing import Final

from headrace.model.clock import Instant
from headrace.model.error_policy import policy_of
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import Failure
from ingest.source.catalogue.effects import EffectsBuilder, FinishedObject, HeadRequest
from ingest.source.catalogue.ledger_view import KnownEntry
from ingest.source.catalogue.pending import PendingObject, Phase

# A template can name any number of topics that are not there.
_MAX_TOPICS: Final = 100
# What is not answered for longer is a problem, however often it is tried again.
_SILENT_MS: Final = 60_000
# A HEAD that is not answered says something, too.
_MAX_DOUBTS: Final = 10
# So many are tried after one that is forbidden as well, from all that was read.
_MAX_OTHERS: Final = 10
# So many of the ledger's entries are met to find the newest of them, of objects that were read.
_MET, _WITNESSES = 500, 50
# What a commit to a topic shows to be over; another of its partitions, or subjects, may still be refused.
_OVER: Final = {policy_of(kind).reason for kind in ("TopicMissing", "TopicForbidden")}

Count = Callable[[PendingObject, Failure, Instant, EffectsBuilder], None]


class MissingTopics:
    """Topics that objects could not be written to."""

    def __init__(self) -> None:
        self._sentences: dict[str, str] = {}
        self._waiting: dict[str, dict[PendingObject, str | None]] = {}
        """By topic, the objects that failed for it, and what their trouble was then."""
        self._not_created: dict[str, str] = {}

    @property
    def sentences(self) -> Mapping[str, str]:
        """A sentence for each topic that was missing when it was written to last, while an object waits."""
        for topic, waiting in list(self._waiting.items()):
            while waiting and not _waits(*next(reversed(waiting.items()))):
                waiting.popitem()
            if not waiting:
                self._forget(topic)
        return dict(self._sentences)

    def miss(self, topic: str, sentence: str, pending: PendingObject) -> None:
        """The topic is not there; that it cannot be created says more than a task can.

        The object waits for it alone now, whichever it failed for before.
        """
        for waiting in self._waiting.values():
            waiting.pop(pending, None)
        if topic in self._sentences or len(self._sentences) < _MAX_TOPICS:
            self._sentences[topic] = self._not_created.get(topic, sentence)
            self._waiting.setdefault(topic, {})[pending] = pending.trouble

    def answered(self, topic: str, refusal: str | None) -> None:
        """The topic is there (None), or could not be created."""
        if refusal is None:
            self.has_written(topic)
        elif topic in self._not_created or len(self._not_created) < _MAX_TOPICS:
            self._not_created[topic] = refusal
            if topic in self._sentences:
                self._sentences[topic] = refusal

    def has_written(self, topic: str) -> None:
        """Records were committed to the topic: dead letters, and what transforms sent there, too."""
        self._not_created.pop(topic, None)
        waiting = self._waiting.get(topic, {})
        for pending, trouble in [*waiting.items()]:
            if trouble in _OVER:
                del waiting[pending]
        if not waiting:
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        self._sentences.pop(topic, None)
        self._waiting.pop(topic, None)


def _waits(pending: PendingObject, trouble: str | None) -> bool:
    """Whether the object has neither ended nor come further since it failed so."""
    return pending.phase is not Phase.GONE and pending.trouble == trouble


class Access:
    """Of one catalogue and its planner: what is so of each bucket by itself, and of the topics.

    `witnesses` gives what was read of a bucket, the last one last.
    """

    def __init__(self, buckets: Iterable[str], witnesses: Callable[[str], Iterable[ObjectId]]) -> None:
        numbers = count(1)
        self.topics = MissingTopics()
        self._of = {bucket: PermissionCheck(partial(witnesses, bucket), numbers) for bucket in buckets}

    def of(self, bucket: str) -> "PermissionCheck":
        """What reading has shown of this bucket."""
        return self._of[bucket]

    def asked(self, token: str) -> "PermissionCheck | None":
        """Who waits for the answer to this HEAD; None where none here does."""
        return next((one for one in self._of.values() if one.has_asked(token)), None)

    def count_by(self, counting: Count) -> None:
        """How the planner counts an attempt; it says so when it is made."""
        for one in self._of.values():
            one.count = counting


def read_before(bucket: str, recent: Iterable[FinishedObject], known: Iterable[KnownEntry]) -> list[ObjectId]:
    """Objects of the bucket that were read, the last one last: what ended last, else some of `known`."""
    if ended := [
        each.id
        for each in recent
        if each.id.bucket == bucket and each.entry.state is State.DONE and each.entry.size
    ]:
        return ended
    done = sorted((one for one in islice(known, _MET) if one.is_done), key=attrgetter("changed_ms"))
    read = (one.id for one in reversed(done) if one.entry.size and one.entry.records)
    return [*islice(read, _WITNESSES)][::-1]


class PermissionCheck:
    """Of one bucket. `witnesses` gives what was read of it, the last one last; `numbers` are for HEADs."""

    count: Count

    def __init__(self, witnesses: Callable[[], Iterable[ObjectId]], numbers: Iterator[int]) -> None:
        self.reads = 0
        """How often something was read."""
        self.denied: str | None = None
        """A sentence while no object of the bucket can be read at all."""
        self.silent: str | None = None
        """A sentence while nothing has been read for a minute, though objects were tried."""
        self._silent_since: int | None = None
        self._witnesses = witnesses
        self._numbers = numbers
        self._asked: HeadRequest | None = None
        self._said = ""
        self._left: list[ObjectId] = []
        self._in_doubt: dict[PendingObject, Failure] = {}
        self._doubts = 0
        self._is_gone = False
        self._is_refused = False
        self._doubted: set[ObjectId] = set()
        """Objects that counted on the word of a 404 alone, since anything was read."""

    def has_read(self) -> None:
        """An object was read: whatever is forbidden, it is not all."""
        self.reads += 1
        self.denied = None
        self.has_answered()
        self._doubts = 0
        self._doubted.clear()

    def has_answered(self) -> None:
        """Objects can be fetched and decoded, whatever was wrong with one."""
        self.silent = self._silent_since = None

    def is_silent(self, sentence: str, now: Instant) -> None:
        """An object was not read since S3, or a registry, did not answer, or not as itself."""
        if self._silent_since is None:
            self._silent_since = now.steady_ms
        silent_ms = now.steady_ms - self._silent_since
        if silent_ms >= _SILENT_MS:
            self.silent = f"No object could be read for {silent_ms / 1000:.0f} s: {sentence}"

    def deny(self, sentence: str) -> None:
        """No object can be read, for this reason."""
        self.denied = sentence

    def doubt(self, pending: PendingObject, failure: Failure, now: Instant, effects: EffectsBuilder) -> None:
        """An object is forbidden and nothing else was read meanwhile: ask for what was, or believe it."""
        self._said = failure.message
        if self.denied is None:
            self._in_doubt[pending] = failure
            self._doubts += 1
            if self._doubts > _MAX_DOUBTS:
                self._believe()
                return
        if self._asked is None:  # also once it was believed: rights that are back show in nothing else
            self._left = list(self._witnesses())
            self._is_gone = self._is_refused = False
            self._ask(now, effects)

    def has_asked(self, token: str) -> bool:
        """True when this HEAD was asked here, and its answer is waited for."""
        return self._asked is not None and token == self._asked.token

    def headed(self, now: Instant, effects: EffectsBuilder, *, is_found: bool, is_forbidden: bool) -> None:
        """Take the answer to the HEAD: attempts count after all when others can be read."""
        self._asked = None
        if is_found:
            self.has_read()
            self._count_all(now, effects)
            return
        if not is_forbidden:
            self._is_gone = True
        elif not self._is_refused:
            self._is_refused = True
            self._left = self._left[:: max(1, -(-len(self._left) // _MAX_OTHERS))]
        self._ask(now, effects)

    def _count_all(self, now: Instant, effects: EffectsBuilder) -> None:
        counted, self._in_doubt = self._in_doubt, {}
        for pending, failure in counted.items():
            self.count(pending, failure, now, effects)

    def _believe(self) -> None:
        self.denied = self._said
        self._in_doubt.clear()

    def _ask(self, now: Instant, effects: EffectsBuilder) -> None:
        if not self._left:
            # Whoever may not read gets a 403 for what is gone, too. It says nothing of a key that decrypts,
            # so that it counts for a few objects only.
            self._doubted.update(pending.object.id for pending in self._in_doubt)
            is_gone = self._is_gone and not self._is_refused
            if is_gone and len(self._doubted) <= _MAX_DOUBTS:
                self._doubts = 0
                self._count_all(now, effects)
            else:
                self._believe()
            return
        known = self._left.pop()
        self._asked = HeadRequest(
            token=f"access-{next(self._numbers)}", bucket=known.bucket, key=known.key, reads=True
        )
        effects.heads.append(self._asked)
