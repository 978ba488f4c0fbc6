"""The steps that `replay` and `mark` share: select the objects, show, ask, submit, print the outcome.

`replay` selects from the ledger, `mark` from a listing.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, Final

import typer

from headrace.kafka.cache_files import CachedEntry
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_reader import LedgerReader
from headrace.model.clock import ms_since_1970, wall_ms
from headrace.model.errors import Exit, InvalidConfiguration
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.model.text_formatting import bytes_text, counted, printable
from headrace.options import Settings
from ingest.checks.probes.bucket_keys import list_pages
from ingest.cli.cli_options import Report
from ingest.cli.progress_bar import progress
from ingest.cli.submit import CommandMessage, SubmitOutcome, submit
from ingest.source.catalogue import ExclusionReason, Selection
from ingest.source.command_queue import Action, new_commands
from ingest.source.first_starts import baseline_of
from ingest.source.object_selection import object_filter_of, object_filters_of

# What goes on from its position without repeating anything, and waits for a person or for the next attempt.
WAITING: Final = frozenset({State.QUARANTINED, State.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedObject:
    """An object with what the ledger says of it (None: nothing).

    `records` of it are in Kafka already, and `bad` of its rows became none.
    """

    object: S3Object
    entry: LedgerEntry | None
    records: int
    bad: int = 0

    @property
    def state(self) -> State | None:
        """The state in the ledger."""
        return None if self.entry is None else self.entry.state


def objects_to_replay(
    cache: LedgerCache, buckets: Sequence[str], selection: Selection, *, from_start: bool
) -> Iterator[SelectedObject]:
    """The ledger's objects that a replay is for; none in `new`, which are asked for already.

    Without `states`: what is quarantined or failed, or, from its start, in any state.
    """
    states = selection.states or (frozenset(State) if from_start else WAITING)
    states -= {State.NEW}
    for known in _known(cache, buckets, selection, states):
        if known.id.bucket not in buckets or known.state not in states:
            continue
        # Decoded only now: most of a large ledger is passed over above.
        entry = known.entry
        if not selection.matches(known.id, entry.last_modified_ms, entry.state):
            continue
        if not from_start and entry.state in {State.DONE, State.PARTIAL}:
            continue
        s3_object = S3Object(
            id=known.id,
            size=entry.size,
            last_modified_ms=entry.last_modified_ms,
            version_id=entry.version_id,
        )
        records, bad = _counts(cache, known, entry)
        yield SelectedObject(object=s3_object, entry=entry, records=records, bad=bad)


def without_left_out(
    chosen: Iterable[SelectedObject], cache: LedgerCache, settings: Settings
) -> tuple[list[SelectedObject], Counter[str]]:
    """Those that the configuration of now reads, and how many others there are, by the reason.

    Such a one would be asked for and never be read, and nothing would show any more what became of it.
    """
    baselines = {place.s3.bucket: baseline_of(place, cache, 0) for place in settings.by_place()}
    filters = object_filters_of(settings, baselines)
    taken: list[SelectedObject] = []
    left_out: Counter[str] = Counter()
    for one in chosen:
        route = filters[one.object.id.bucket].route_or_reason(one.object.id.key)
        if isinstance(route, ExclusionReason):
            left_out[route.value] += 1
        else:
            taken.append(one)
    return taken, left_out


def objects_to_mark(
    client: Any, cache: LedgerCache | None, settings: Settings, selection: Selection
) -> Iterator[SelectedObject]:
    """The objects of one bucket that are not done, as a listing shows them, without what `run` leaves out.

    AccessDenied, SourceUnavailable; InvalidConfiguration when the selection lies outside `aws.s3.prefix`.
    """
    object_filter = object_filter_of(settings, baseline_of(settings, cache, 0))
    wanted = selection.prefix if selection.key is None else selection.key
    if not wanted.startswith(settings.s3.prefix) and not settings.s3.prefix.startswith(wanted):
        raise InvalidConfiguration(
            f"{wanted!r} does not begin with aws.s3.prefix {settings.s3.prefix!r}: no object there is ever "
            "ingested."
        )
    prefix = max(wanted, settings.s3.prefix, key=len)
    for page in list_pages(client, settings.s3, prefix=prefix):
        for s3_object in page.objects:
            entry = None if cache is None else cache.get(s3_object.id)
            state = None if entry is None else entry.state
            if (
                state is not State.DONE
                and selection.matches(s3_object.id, s3_object.last_modified_ms, state)
                and not isinstance(object_filter.route_or_reason(s3_object.id.key), ExclusionReason)
            ):
                yield SelectedObject(
                    object=s3_object, entry=entry, records=0 if entry is None else entry.records
                )


def chosen_buckets(settings: Settings, bucket: str | None) -> tuple[Settings, ...]:
    """The settings of each bucket that a command is for: all, or the one of `--bucket`.

    InvalidConfiguration for one that the configuration does not name.
    """
    places = [place for place in settings.by_place() if bucket in {None, place.s3.bucket}]
    if not places:
        raise InvalidConfiguration(
            f"--bucket {bucket}: aws.s3.bucket.name has {', '.join(settings.buckets)}, and not this one."
        )
    return tuple(places)


def moment_ms(text: str, option: str, *, is_end: bool = False) -> int:
    """A date or time in ISO 8601 as ms since 1970, in UTC unless it says otherwise.

    A date alone is its first millisecond, or its last when `is_end`. InvalidConfiguration names the option.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidConfiguration(
            f"{option} {text!r}: expected a date or time such as 2025-01-31 or 2025-01-31T08:30:00Z."
        ) from None
    if is_end and found.time() == time() and len(text.strip()) <= len("2025-01-31"):
        found += timedelta(days=1, milliseconds=-1)
    return ms_since_1970(found)


def _known(
    cache: LedgerCache, buckets: Sequence[str], selection: Selection, states: frozenset[State]
) -> Iterator[CachedEntry]:
    if selection.key is not None:
        for bucket in buckets:
            yield from cache.of_key(bucket, selection.key)
    elif State.DONE not in states:
        # Kept by state in the cache: a million objects that are done are not walked for three that are not.
        for state in sorted(states):
            yield from sorted(cache.by_state(state, -1), key=lambda known: known.id)
    else:
        for bucket in buckets:
            yield from _below(cache, bucket, selection.prefix)


def _below(cache: LedgerCache, bucket: str, prefix: str) -> Iterator[CachedEntry]:
    for known in cache.scan(bucket):
        if known.id.key.startswith(prefix):
            yield known
        elif known.id.key > prefix:
            return


def _counts(cache: LedgerCache, known: CachedEntry, entry: LedgerEntry) -> tuple[int, int]:
    """How many records of the object were committed, and bad ones; of a split one they are its splits'."""
    if entry.cuts is None:
        return entry.records, entry.bad
    splits = cache.splits(known.id).values()
    records, bad = sum(split.records for split in splits), sum(split.bad for split in splits)
    return max(entry.records, records), max(entry.bad, bad)


_MAX_SHOWN = 20
_MAX_EXAMPLES: Final = 5
_LONG_UPLOAD_MS: Final = 24 * 3600 * 1000
# The ETag of what was uploaded in several calls ends with their number.
_MULTIPART: Final = re.compile(r'-[0-9]+"?$').search

_SENTENCES = {
    SubmitOutcome.APPLIED_BY_LEADER: "Done: the running service has applied it.",
    SubmitOutcome.APPLIED_HERE: "Done: there was no leader, so this command led, wrote it, and left.",
    SubmitOutcome.HANDED_OVER: (
        "Handed over: it is in the ledger, and the leader has not applied all of it yet (objects that are "
        "worked on now follow when they rest). If it ends before, the next one applies the rest."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """What a person asked for, and how."""

    settings: Settings
    action: Action
    chosen: Sequence[SelectedObject]
    from_start: bool
    dry_run: bool
    yes: bool
    as_json: bool
    timeout: float
    problem: str | None = None
    """Of several buckets: which could not be listed, so that not all that fits was chosen; a lost ledger."""
    accept_new_ledger: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many objects fit that the configuration does not read, by the reason."""
    until_ms: int | None = None
    """`--until` of `mark`."""

    @property
    def doubtful(self) -> list[SelectedObject]:
        """Those that may have been completed after `until_ms`, though S3 dates them before it.

        Multipart uploads have the time at which they began; few take a day.
        """
        until_ms = self.until_ms
        if until_ms is None:
            return []
        return [
            one
            for one in self.chosen
            if _MULTIPART(one.object.id.etag) and until_ms - one.object.last_modified_ms < _LONG_UPLOAD_MS
        ]


def carry_out(request: CommandRequest, begin: Callable[[], LedgerReader]) -> None:
    """Show what was chosen, ask, submit, and print what became of it. Blocks.

    `begin` gives the ledger, made where it is missing, after the answer. typer.Exit with 1 when it was no.
    """
    if not request.as_json:
        typer.echo("\n".join(lines_of(request)))
    if not request.chosen or request.dry_run:
        _print_outcome(request, None)
        return
    if not (request.yes or _agrees(request)):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(int(Exit.FAILED))
    reading = begin()
    messages = commands_for(request)
    with progress(request.action, unit="objects", total=len(request.chosen)) as report_progress:
        outcome = submit(
            request.settings,
            reading,
            messages,
            report_progress=report_progress,
            timeout=request.timeout,
            accept_new_ledger=request.accept_new_ledger,
        )
    _print_outcome(request, outcome)


def commands_for(request: CommandRequest) -> list[CommandMessage]:
    """The commands. A replayed object is changed only if it is still in the state in which it was shown."""
    at_ms = wall_ms()
    if request.action == "mark":
        return new_commands("mark", (one.object for one in request.chosen), at_ms=at_ms)
    by_state: dict[State | None, list[S3Object]] = {}
    for one in request.chosen:
        by_state.setdefault(one.state, []).append(one.object)
    return [
        command
        for state, objects in by_state.items()
        for command in new_commands(
            "replay",
            objects,
            states=() if state is None else (state,),
            from_start=request.from_start,
            at_ms=at_ms,
        )
    ]


def lines_of(request: CommandRequest) -> Iterator[str]:
    """The lines shown before the question."""
    chosen = request.chosen
    size = bytes_text(sum(one.object.size for one in chosen))
    if request.problem is not None:
        yield f"problem   {printable(request.problem)}"
    if request.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(request.left_out.items()))
        yield (
            f"{counted(sum(request.left_out.values()), 'object')} would never be read and stay as they are, "
            f"because this configuration leaves their keys out ({reasons}; `headrace explain CONFIG KEY` "
            "says why): set aws.s3.prefix, object.include, object.exclude, file.name.template as they were."
        )
    if not chosen:
        yield f"There is nothing to {request.action}: no object fits."
        return
    what = {
        "replay": "produced whole again" if request.from_start else "tried again, from where it stopped",
        "mark": "marked as done without being read",
    }[request.action]
    yield f"{counted(len(chosen), 'object')} ({size}) will be {what}:"
    for one in chosen[:_MAX_SHOWN]:
        reason = "" if one.entry is None or one.entry.reason is None else f" ({printable(one.entry.reason)})"
        yield (
            f"    {one.state or 'unknown'}{reason}  {printable(named(one.object.id, request.settings))}  "
            f"{bytes_text(one.object.size)}, {counted(one.records, 'record')} in Kafka"
        )
    if len(chosen) > _MAX_SHOWN:
        yield f"    .. and {len(chosen) - _MAX_SHOWN:,} more (--json shows all)"
    if request.action == "replay" and not request.from_start:
        yield "Nothing that is in Kafka already will be repeated."
    elif request.action == "replay":
        dead_letters = _dead_letters_repeated(request)
        more = f", and up to {counted(dead_letters, 'dead letter')}," if dead_letters else ""
        yield f"{counted(_repeated(request), 'record')} of theirs{more} will be in Kafka a second time."
    else:
        yield "Their records will not come to Kafka; those that are there already stay."
        yield from _doubts(request)


def _doubts(request: CommandRequest) -> Iterator[str]:
    """What may be marked that nothing has read."""
    doubtful = request.doubtful
    if not doubtful:
        return
    names = ", ".join(printable(named(one.object.id, request.settings)) for one in doubtful[:_MAX_EXAMPLES])
    more = ", .." if len(doubtful) > _MAX_EXAMPLES else ""
    yield (
        f"{counted(len(doubtful), 'object')} of multipart uploads that began within a day before --until may "
        f"have been completed after it, unread, as S3 dates them back to their beginning: {names}{more}. If "
        "uploads were under way when the other tool stopped, name a time before the earliest of them."
    )


def named(object_id: ObjectId, settings: Settings) -> str:
    """An object as people are shown it: its key, after its bucket where there are several."""
    return object_id.key if len(settings.buckets) == 1 else f"{object_id.bucket}/{object_id.key}"


def shape_of(request: CommandRequest, outcome: SubmitOutcome | None) -> dict[str, Any]:
    """The JSON shape (docs/commands.md)."""
    states = Counter(str(one.state or "unknown") for one in request.chosen)
    return {
        "command": request.action,
        "dry_run": request.dry_run,
        "from_start": request.from_start,
        "objects": len(request.chosen),
        "bytes": sum(one.object.size for one in request.chosen),
        "states": dict(sorted(states.items())),
        "records_repeated": _repeated(request),
        "dead_letters_repeated": _dead_letters_repeated(request),
        "chosen": [
            {
                "bucket": one.object.id.bucket,
                "key": one.object.id.key,
                "etag": one.object.id.etag,
                "state": None if one.state is None else str(one.state),
                "reason": None if one.entry is None else one.entry.reason,
                "size": one.object.size,
                "records": one.records,
                "last_modified_ms": one.object.last_modified_ms,
            }
            for one in request.chosen
        ],
        "left_out": dict(sorted(request.left_out.items())),
        "doubtful": len(request.doubtful),
        "problem": request.problem,
        "outcome": "nothing" if outcome is None else str(outcome),
    }


def _repeated(request: CommandRequest) -> int:
    if request.action != "replay" or not request.from_start:
        return 0
    return sum(one.records for one in request.chosen)


def _dead_letters_repeated(request: CommandRequest) -> int:
    """How many dead letters come again, if the same rows are bad; none without a topic of them."""
    if request.action != "replay" or not request.from_start or request.settings.errors.dead_letter is None:
        return 0
    return sum(one.bad for one in request.chosen)


def _agrees(request: CommandRequest) -> bool:
    if not sys.stdin.isatty():
        raise InvalidConfiguration(
            f"`headrace {request.action}` asks before it changes anything, and there is no terminal. "
            "Look with --dry-run, then give --yes."
        )
    return typer.confirm("Continue?", err=True)


def _print_outcome(request: CommandRequest, outcome: SubmitOutcome | None) -> None:
    lines = [] if outcome is None else [_SENTENCES[outcome]]
    if outcome is None and request.chosen:
        lines = ["A dry run: nothing was changed."]
    Report(shape_of(request, outcome), lines).show(as_json=request.as_json)
