"""What first starts leave to the past, as the documentation has it, from when processes and objects came."""

from collections.abc import Container, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from msgspec import UNSET

from headrace.kafka.control_records import FirstStart, decode_control, first_start_bucket
from headrace.model.ledger_entry import ControlKey
from headrace.model.objects import ObjectId
from tests.simulation.s3 import Bucket
from tests.simulation.scenario import Step

_SECOND_MS = 1000
"""S3 tells times to the second."""


class _Word(Enum):
    """What becomes of an object."""

    READ = auto()
    PERHAPS = auto()
    PAST = auto()


def first_starts(kept: Mapping[Any, bytes]) -> dict[str, FirstStart]:
    """What a ledger remembers of first starts, by bucket."""
    found = {}
    for key, value in kept.items():
        bucket = first_start_bucket(key) if isinstance(key, ControlKey) else None
        if bucket is not None:
            first = decode_control(key, value)
            assert isinstance(first, FirstStart)
            found[bucket] = first
    return found


class Past:
    """When processes began, and when objects came."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._starts: list[tuple[int, dict[str, str]]] = []
        """When processes began, by S3's clock, and their options."""
        self._put: dict[int, int] = {}
        """By number, when objects became visible."""
        self._begun: dict[int, int] = {}
        """By number, when multipart uploads began, which S3 gives to their objects."""

    def started(self, options: Mapping[str, str]) -> None:
        """A process begins."""
        self._starts.append((self._bucket.now_ms(), dict(options)))

    def put(self, number: int, begun_ms: int | None) -> int:
        """An object becomes visible, whose upload began at this time; its LastModified."""
        self._put[number] = now_ms = self._bucket.now_ms()
        if begun_ms is None:
            return now_ms
        self._begun[number] = begun_ms
        return begun_ms

    def misremembered(
        self, firsts: Mapping[str, FirstStart], written: Sequence[tuple[str, FirstStart]]
    ) -> Iterator[str]:
        """First starts that are remembered as no process made them, or not any more.

        `written` are those that the ledger had, by bucket, one after the other.
        """
        for bucket, first in firsts.items():
            starts = self._with(bucket)
            began_ms = min((at_ms for at_ms, _ in starts), default=0)
            for one in first.all:
                if one.at_ms < began_ms // _SECOND_MS * _SECOND_MS:
                    before = began_ms - one.at_ms
                    yield f"the first start with {bucket} is remembered as {before} ms before there was one"
                below = [options for _, options in starts if options.get("aws.s3.prefix", "") == one.below]
                if one.start_key not in {options.get("native.start.key") for options in below}:
                    yield f"the first start with {bucket} has the key {one.start_key!r}, as no process had"
            remembered = {(one.below, one.at_ms, one.start_key) for one in first.all}
            had = (one for name, each in written if name == bucket for one in each.all)
            for prefix, at_ms, _ in {(one.below, one.at_ms, one.start_key) for one in had} - remembered:
                yield f"the first start with {bucket}/{prefix}* at {at_ms} is not remembered"
            for number, one in enumerate(first.all):
                if any(one.below.startswith(each.below) for each in first.all[number + 1 :]):
                    yield f"{bucket}/{one.below}* had its first start before {one.at_ms}"

    def left_out(
        self,
        firsts: Mapping[str, FirstStart],
        ids: Mapping[int, ObjectId],
        steps: Sequence[Step],
        held: Container[tuple[str, str]],
    ) -> tuple[set[int], set[int]]:
        """Numbers of the objects that are left to the past, and of those that may be.

        `held` are the buckets and keys of messages that a killed process had received: they come later.
        """
        words = {
            number: self._word(number, one, firsts.get(one.bucket), steps, is_held=one.place in held)
            for number, one in ids.items()
        }
        return (
            {number for number, word in words.items() if word is _Word.PAST},
            {number for number, word in words.items() if word is _Word.PERHAPS},
        )

    def _with(self, bucket: str) -> list[tuple[int, dict[str, str]]]:
        return [one for one in self._starts if bucket in one[1]["aws.s3.bucket.name"].split(",")]

    def _word(
        self,
        number: int,
        one: ObjectId,
        first: FirstStart | None,
        steps: Sequence[Step],
        *,
        is_held: bool,
    ) -> _Word:
        options = [options for _, options in self._with(one.bucket)]
        includes = {each.get("include.existing") for each in options}
        keys = {each.get("native.start.key") for each in options}
        if includes <= {None} and keys <= {None}:
            return _Word.READ
        has_changed = len({each.get("aws.s3.prefix") for _, each in self._starts}) > 1
        if first is None or any(step.act in ("mark", "reset") for step in steps):
            return _Word.PERHAPS
        # The one that could see the key.
        first = next((each for each in reversed(first.all) if one.key.startswith(each.below)), None)
        if first is None or (has_changed and includes != {None}):
            return _Word.PERHAPS
        word = self._of_listing(number, one.key, first, options)
        told = {"sqs.queue.url" in each for _, each in self._starts}
        if word is _Word.READ or told == {False}:
            return word
        # Events are never filtered, but may come when all is over, or while the bucket is not configured.
        is_always_named = len(options) == len(self._starts)
        is_late = is_held or told != {True} or any(step.given.get("late") for step in steps)
        return _Word.PERHAPS if is_late or not is_always_named else _Word.READ

    def _of_listing(
        self, number: int, key: str, first: FirstStart, options: Sequence[Mapping[str, str]]
    ) -> _Word:
        """What becomes of an object that listings alone show."""
        if first.start_key is not None and key <= first.start_key:
            return _Word.PAST
        includes = {each.get("include.existing") for each in options}
        was_there = self._was_there(number, first)
        # What was left out is read once it may be, unless another bucket has come since.
        is_read_at_last = includes == {None} or (
            options[-1].get("include.existing") is None and self._starts[-1][1] is options[-1]
        )
        if was_there is False or is_read_at_last:
            return _Word.READ
        return _Word.PAST if was_there and includes == {"false"} else _Word.PERHAPS

    def _was_there(self, number: int, first: FirstStart) -> bool | None:
        """Whether an object was there at the first start; None: it is not known to the second."""
        put_ms, begun_ms = self._put[number], self._begun.get(number)
        if begun_ms is not None and begun_ms < first.at_ms <= put_ms + _SECOND_MS:
            # In parts, and completed after it: new, where uploads were looked for.
            return False if first.uploads is not UNSET and put_ms - _SECOND_MS > first.at_ms else None
        if put_ms // _SECOND_MS * _SECOND_MS >= first.at_ms:
            return False
        return True if put_ms + _SECOND_MS < first.at_ms else None
