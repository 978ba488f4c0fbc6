"""What a sink would take over from Lenses' locks, as `check` says it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.text_formatting import counted
from ingest.checks.findings.finding import Finding, misconfigured, ok, warn

_SHOWN: Final = 5


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
    shown = "; ".join(each.sentence for each in known[:_SHOWN])
    rest = f"; and {len(known) - _SHOWN} more (headrace plan)" if len(known) > _SHOWN else ""
    sentence = f"Lenses' locks under {root}: {shown}{rest}"
    if any(each.dropped for each in known):
        yield warn(
            "takeover",
            sentence,
            "What cannot be finished is on a disk of Connect's, or gone: its records are read again.",
        )
    else:
        yield ok("takeover", sentence)
