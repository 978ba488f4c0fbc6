"""What the catalogue and the planner decide, carried out: ledger writes, settled messages, HEADs, counts."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from headrace.model.clock import Clock
from headrace.model.objects import ObjectId, OwedAction
from headrace.process.log_levels import is_debug
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.statistics import Statistics
from ingest.source.catalogue import Effects
from listeners.listeners import Listeners

_log = structlog.get_logger(__name__)

# Why a key is none of ours, in the words of whoever can change it.
_DETAILS: Final[Mapping[str, str]] = {
    "outside_prefix": "it lies outside aws.s3.prefix",
    "folder": "a key that ends in / is a folder",
    "internal": "other tools keep their own files under such keys",
    "excluded": "object.include or object.exclude leaves it out",
    "unmatched": "file.name.template does not match; `headrace explain CONFIG KEY` says why",
    "start_key": "it is not above native.start.key",
    "moved": "it lies under the prefix that post.action moves objects to",
    "existing": "it was there before the first start, and include.existing is false",
    "known": "the ledger has its end, by this ETag; see `headrace status CONFIG --key KEY`",
    "missing": "it was deleted since",
    "outdated": "other content has taken its place since",
    "forbidden": "a HEAD of it is refused: grant s3:GetObject",
    "removed": "the event tells of a deletion",
    "other": "the event tells of no content",
    "restored": "nothing waited for this restore",
    "other_bucket": "the event is about another bucket than aws.s3.bucket.name",
}


class EffectsApplier:
    """Carries effects out, in the service's thread; nothing here blocks."""

    def __init__(
        self,
        *,
        writes: LedgerWrites,
        listeners: Listeners,
        statistics: Statistics,
        clock: Clock,
        search: Callable[[str], None],
        act: Callable[[OwedAction], None],
        withdraw: Callable[[ObjectId], None],
    ) -> None:
        self._writes = writes
        self._listeners = listeners
        self._statistics = statistics
        self._clock = clock
        self._search = search
        self._act = act
        self._withdraw = withdraw

    def apply(self, effects: Effects) -> None:
        """Hand everything in `effects` to the component that does it."""
        if effects.writes:
            self._writes.submit(effects.writes)
        if effects.settled:
            self._listeners.settle(effects.settled)
        for message_id in effects.abandoned:
            self._listeners.abandon(message_id)
        for head in effects.heads:
            self._listeners.request_head(
                head.token,
                bucket=head.bucket,
                key=head.key,
                version_id=head.version_id,
                reads=head.reads,
            )
        for folder in effects.searches:
            self._search(folder)
        self._apply_actions(effects)
        self._count(effects)
        for warning in effects.warnings:
            _log.warning("listing_warned", warning=warning)
        if effects.decisions and is_debug(__name__):
            _explain(effects.decisions)
        if effects.finished:
            self._statistics.ended(effects.finished, self._clock())

    def _apply_actions(self, effects: Effects) -> None:
        for object_id in effects.withdrawn:
            self._withdraw(object_id)
        for owed in effects.actions:
            self._act(owed)

    def _count(self, effects: Effects) -> None:
        for reason, count in effects.ignored.items():
            self._statistics.ignored(reason, count)
        for what, count in effects.inexact.items():
            self._statistics.inexact(what, count)


def _explain(decisions: Iterable[tuple[str, str, str | None]]) -> None:
    """A line for each object that was decided on: why it does not arrive begins here."""
    for bucket, key, reason in decisions:
        if reason is None:
            _log.debug("object_pending", bucket=bucket, key=key)
        else:
            _log.debug("object_ignored", bucket=bucket, key=key, reason=reason, detail=_DETAILS.get(reason))
