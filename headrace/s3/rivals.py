"""What has an object's name already: whether it is replaced, on what grounds, or left.

Only at least once: exactly once nothing is replaced but what recurs by design.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import structlog

from headrace.model.errors import ObjectError, SourceUnavailable
from headrace.s3.client import ConditionsUnknown, NameTaken, WriteConflict
from headrace.s3.completion import OBJECT_ID

_log = structlog.get_logger(__name__)

WHERE_FREE: Final[Mapping[str, str]] = {"IfNoneMatch": "*"}
"""The condition that no object has the name."""


class Beginning(NamedTuple):
    """Where an object begins whose name shows only where it ends; `grouping` hashes what its group is by."""

    topic_id: str
    partition: int
    grouping: str
    offset: int

    @property
    def text(self) -> str:
        """As the metadata `headrace-begins` has it."""
        return ":".join(map(str, self))

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> Self | None:
        """What an object's metadata say; None where they say nothing."""
        match metadata.get(BEGINS, "").split(":"):
            case [topic_id, partition, grouping, offset] if partition.isdecimal() and offset.isdecimal():
                return cls(topic_id, int(partition), grouping, int(offset))
        return None


BEGINS: Final = "headrace-begins"
"""The user metadata that holds the `Beginning`, where there is one."""

Prove = Callable[[], None]
"""Blocks until the caller has shown that it may replace objects; raises where it may not."""

Head = Callable[[str], Mapping[str, Any] | None]
"""What S3 has under a key, as HeadObject answers; None: nothing. Blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """On what grounds an object may take another one's place.

    With `begins` one of the same end that begins earlier is left: it has the same records and more.
    `main_key` is the object by which this is decided: what is next to values goes with them.
    """

    prove: Prove
    begins: Beginning | None = None
    main_key: str = ""

    def covers(self, main: Mapping[str, Any] | None) -> bool:
        """Whether the object of the main key (None: there is none) has all records of the one to come.

        WriteConflict where that cannot be known: its records were grouped by other options.
        """
        there = None if main is None else Beginning.read(main.get("Metadata", {}))
        ours = self.begins
        if there is None or ours is None or (there.topic_id, there.partition) != ours[:2]:
            return False
        if there.offset >= ours.offset:
            return False
        if there.grouping != ours.grouping:
            raise WriteConflict(
                f"The object {self.main_key} has records from offset {there.offset} on, grouped by other "
                f"options, and one from offset {ours.offset} on gets the same name: move it away, and show "
                "{{start_offset}} in file.name.template."
            )
        return True


# Each is another program's write between two requests of ours.
_MOST_RIVALS: Final = 5


class Rivals:
    """Replaces objects of other slots, each only after a proof. For one client's calls; thread-safe.

    The proof is asked for when the other object has been seen, and exactly that one is replaced: a slot that
    hung and resumes cannot replace what its successor has put, whose name has the same first offset.
    """

    def __init__(self) -> None:
        self.knows_conditions = True
        """False once the store has answered that it knows none."""

    def send(
        self,
        send: Callable[[Mapping[str, str]], None],
        head: Head,
        claim: Claim,
        *,
        key: str,
        object_id: str,
    ) -> bool:
        """Have `send` write under a condition. What it, `head` and the claim's proof raise is raised.

        False, and nothing was written, when the one that is there has the same records and more.
        SourceUnavailable while other programs write the name again and again. A store that knows no
        conditions is looked at before each write: a slot that hangs just then may be late.
        """

        def is_covered(found: Mapping[str, Any] | None) -> bool:
            return claim.covers(found if claim.main_key == key else head(claim.main_key))

        condition: Mapping[str, str] | None = WHERE_FREE if self.knows_conditions else None
        for _ in range(_MOST_RIVALS):
            # What is replaced unseen is looked at, where that may lose: a 403 is raised here.
            is_unseen = condition is not None and not condition
            if is_unseen and claim.begins is not None and is_covered(head(key)):
                return False
            refusal = None if condition is None else self._refusal(send, condition)
            if refusal is None and condition is not None:
                return True
            is_conflict = isinstance(refusal, WriteConflict)
            found, is_known = (None, False) if is_conflict else _found(head, key)
            if found is not None and found.get("Metadata", {}).get(OBJECT_ID) == object_id:
                return True
            if claim.begins is not None and found is not None and is_covered(found):
                return False
            if is_known and found is None:
                condition = WHERE_FREE if self.knows_conditions else {}
                continue
            claim.prove()
            condition = {}
            if found is not None and self.knows_conditions:
                condition = {"IfMatch": found["ETag"]}
        raise SourceUnavailable("Other programs write an object of the same name again and again.")

    def _refusal(
        self, send: Callable[[Mapping[str, str]], None], condition: Mapping[str, str]
    ) -> ConditionsUnknown | WriteConflict | NameTaken | None:
        """Why S3 does not write under the condition; None: it has written."""
        try:
            send(condition)
        except ConditionsUnknown as error:
            if not condition:
                raise
            self.note_unknown(error)
            return error
        except (WriteConflict, NameTaken) as error:
            return error
        return None

    def note_unknown(self, error: ConditionsUnknown) -> None:
        """Give no conditions any more, and log it once."""
        was_known, self.knows_conditions = self.knows_conditions, False
        if was_known:
            _log.warning(
                "conditions_unsupported", error=str(error), effect="names are looked at before a write"
            )


def _found(head: Head, key: str) -> tuple[Mapping[str, Any] | None, bool]:
    """What has the name, and whether that is known: it may be the caller's own, whose answer was lost."""
    try:
        return head(key), True
    except ObjectError:
        # A 403, or a 400 of what was written with a key of another life (SSE-C).
        return None, False
