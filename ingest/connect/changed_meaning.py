"""Why a changed configuration would give another meaning to what its connector has stored, and what to do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

from headrace.model.sanitize import printable
from headrace.model.sink_entries import GroupingOptions
from headrace.options import Settings
from headrace.options.options_hash import options_hash
from ingest.checks.probes.ledger_reader import open_ledger_reader
from spark.sink.task_settings import can_group_by, grouping_hash, grouping_options

InHand = Callable[[Settings, str], Sequence[str]]
"""The keys of objects that a connector has begun and not finished, but for those begun under this hash."""

_LEDGER_SECONDS: Final = 30.0
_SHOWN: Final = 3
_ANOTHER: Final = "delete this connector, and create one with another name"


def changed_meaning(
    new: Settings, old: Settings, in_hand: InHand, *, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """What would be lost or mistaken, a sentence each, with the fix; `before` and `after` are the options."""
    found = list(_left_behind(new, old))
    if found:
        return found
    changed = ", ".join(sorted(name for name in {*before, *after} if before.get(name) != after.get(name)))
    if new.sink is None:
        return list(_begun_objects(new, old, in_hand, changed))
    return list(_open_objects(new, old, changed))


def _left_behind(new: Settings, old: Settings) -> Iterator[str]:
    if (new.sink is None) is not (old.sink is None):
        yield f"connector.class would turn a source into a sink, or a sink into a source: {_ANOTHER}"
    if new.kafka.ledger_topic != old.kafka.ledger_topic:
        yield f"offsets.storage.topic is where this connector's ledger is, so it cannot change: {_ANOTHER}"
    if new.kafka.bootstrap_servers != old.kafka.bootstrap_servers:
        yield f"bootstrap.servers is where this connector's ledger is, so it cannot change: {_ANOTHER}"
    if new.sink is not None and old.sink is not None and new.sink.group_id != old.sink.group_id:
        groups = f"from group {old.sink.group_id!r} to {new.sink.group_id!r}"
        yield f"this would move the offsets {groups}: {_ANOTHER}"


def _begun_objects(new: Settings, old: Settings, in_hand: InHand, changed: str) -> Iterator[str]:
    """A position would be another row's: what is begun would be quarantined."""
    meaning = _hash(new)
    if meaning == _hash(old):
        return
    keys = in_hand(new, meaning)
    if not keys:
        return
    shown = ", ".join(repr(printable(key)) for key in keys[:_SHOWN])
    more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
    yield (
        f"{changed} would give the position in each object that is begun another meaning, and it would be "
        f"quarantined: {shown}{more}. Send this again once none is in progress; or stop the connector (PUT "
        f"/connectors/{old.name}/stop) and decide about each with PATCH /connectors/{old.name}/offsets: "
        'null reads it again from its start, which repeats its records, {"state": "done"} leaves the rest'
    )


def _open_objects(new: Settings, old: Settings, changed: str) -> Iterator[str]:
    """What a stop leaves open is known by what is archived under the converters and transforms of before."""
    if old.sink is None or new.sink is None or old.sink.rotation.on_stop:
        return
    earlier = GroupingOptions(hash=grouping_hash(old.sink), options=grouping_options(old.sink))
    if not can_group_by(earlier, new.sink):
        yield (
            f"{changed} would change how records are read while rotate.on.stop=false leaves objects open, "
            "and their partitions would stop (grouping_changed): set rotate.on.stop=true alone first, and "
            "change the rest with the next request, which then closes what is open"
        )


def _hash(settings: Settings) -> str:
    return options_hash(settings.format, settings.routing, settings.transforms)


def begun_in_ledger(settings: Settings, meaning: str) -> list[str]:
    """The keys of objects that the ledger has a position or splits of, under another hash than this.

    What lies in another bucket, or outside the prefix, these settings do not read, however long it stays
    so. Blocks while the ledger is read. Unavailable.
    """
    reader = open_ledger_reader(settings, timeout=_LEDGER_SECONDS)
    if reader is None:
        return []
    with closing(reader):
        return [
            cached.id.key
            for cached in reader.cache.unfinished()
            if cached.id.bucket in settings.buckets
            and cached.id.key.startswith(settings.s3.prefix)
            and (cached.entry.position is not None or cached.entry.cuts is not None)
            and cached.entry.options != meaning
        ]
