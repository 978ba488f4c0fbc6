"""`headrace plan`: what `run` would do with the bucket as it is; writes nothing."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from typing import Any, Final

import typer

from headrace.kafka.control_records import TargetState, target_of
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_reader import lost_ledger, open_ledger_reader
from headrace.model.clock import wall_ms
from headrace.model.errors import Exit, InvalidLedger
from headrace.model.ledger_entry import LedgerEntry
from headrace.model.objects import ObjectId, S3Object
from headrace.model.text_formatting import bytes_text, counted, printable
from headrace.options import Settings
from headrace.options.choices import RestorePartition
from headrace.process import logs
from headrace.vendors.exactness import Grade
from headrace.vendors.key_names import ArchiveNames
from ingest.checks.findings.kafka_findings import held_back
from ingest.checks.probes.archive_preview import ArchivePreview, PartitionOffsets, TopicArchive, offsets_of
from ingest.checks.probes.bucket_keys import (
    AwsClients,
    InventoryFacts,
    KeysPage,
    aws_clients,
    list_pages,
    of_each_bucket,
    probe_inventories,
    unlisted,
)
from ingest.checks.probes.preview import Amount, Preview, TopicPartition
from ingest.cli import cli_options as cli
from ingest.cli.configuration import read_settings
from ingest.cli.progress_bar import progress
from ingest.cli.query_commands import frames_options, frames_plan
from ingest.source.catalogue import ExclusionReason, Unread
from ingest.source.catalogue.ledger_view import Overlay
from ingest.source.first_starts import awaited_inventories, baseline_of
from ingest.source.object_selection import is_unread_restore, object_filters_of, unread_problem

# -- What `plan` shows people of an archive ------------------------------------------------------------------

_MAX_TOPICS: Final = 20
_MAX_PARTITIONS: Final = 8


def archive_lines(preview: ArchivePreview) -> Iterator[str]:
    """Each topic in a paragraph: what is there, what comes back, and where offsets do not continue."""
    topics = list(preview.topics())
    for topic in topics[:_MAX_TOPICS]:
        yield ""
        yield from _topic_lines(topic)
    if len(topics) > _MAX_TOPICS:
        yield ""
        yield f".. {len(topics) - _MAX_TOPICS} more topics are in the archive; --json shows all"


def _topic_lines(topic: TopicArchive) -> Iterator[str]:
    name = "a topic that the names do not say" if topic.topic is None else printable(topic.topic)
    kinds = ", ".join(f"{count:,} of {kind}" for kind, count in sorted(topic.kinds.items()))
    amount = counted(topic.amount.objects, "object")
    size = bytes_text(topic.amount.bytes)
    yield f"archive of {name} in {topic.layout}'s layout: {amount} ({kinds}), {size}"
    parts = topic.exactness
    exact = [each.aspect.value for each in parts if each.grade is Grade.EXACT]
    if exact:
        yield f"    comes back exactly: {', '.join(exact)}"
    for each in parts:
        if each.grade is not Grade.EXACT:
            word = "not" if each.grade is Grade.ABSENT else "not exactly"
            yield f"    {word}: {each.aspect}: {'; '.join(each.why)}"
    yield from (f"    cannot be restored: {printable(problem)}" for problem in topic.problems)
    if not topic.samples:
        yield "    nothing could be looked into: all of it is empty, lies in an archive, or is no values"
    yield from _offset_lines(topic)


def _offset_lines(topic: TopicArchive) -> Iterator[str]:
    partitions = sorted(topic.extents, key=lambda partition: -1 if partition is None else partition)
    for partition in partitions[:_MAX_PARTITIONS]:
        found = offsets_of(topic.extents[partition])
        where = "no partition" if partition is None else f"partition {partition}"
        yield f"    {where}: {'; '.join(_offset_parts(found))}"
    if len(partitions) > _MAX_PARTITIONS:
        yield f"    .. {len(partitions) - _MAX_PARTITIONS} more partitions; --json shows all"


def _offset_parts(found: PartitionOffsets) -> Iterator[str]:
    yield counted(found.objects, "object")
    if found.counted_objects:
        within = "" if found.counted_objects == found.objects else f" in {found.counted_objects:,} of them"
        yield f"{counted(found.records, 'record')}{within}, as the tags say"
    if found.last is not None and found.last >= 0:
        first = "" if found.first is None else f"from {found.first:,} "
        last = "" if found.is_compared or found.first is None else " or more"
        yield f"offsets {first}to {found.last:,}{last}"
    if found.missing:
        yield f"{counted(found.missing, 'offset')} within objects without a record"
    for what, between in (("gap", found.gaps), ("overlap", found.overlaps)):
        if between.count:
            yield f"{counted(between.count, what)}, such as {_example(between.examples[0])}"
    if not found.is_compared:
        yield "gaps cannot be told: not both ends of each object are known"
    elif not found.gaps.count and not found.overlaps.count:
        yield "no gap and no overlap"


def _example(example: dict[str, object]) -> str:
    if "after" in example:
        return f"between {example['after']} and {example['before']}"
    return f"{printable(str(example['key']))} and {printable(str(example['other']))}"


# -- `headrace plan`: what `run` would do with the bucket as it is; writes nothing ---------------------------

_MAX_PLACES = 40
_HEADINGS = ("topic", "partition", "pending", "of it begun", "done", "skipped", "quarantined")
REASONS = {
    "unmatched": "do not match file.name.template",
    "excluded": "are left out by object.include or object.exclude",
    "start_key": "come before native.start.key",
    "existing": "were there before the first start (include.existing=false)",
    "folder": "are folder markers (their keys end in /)",
    "internal": "are other tools' bookkeeping",
    "outside_prefix": "do not begin with aws.s3.prefix",
    "moved": "lie where post.action moves objects to, now or before",
}
_REASONS_OF_ARCHIVES = {
    "unmatched": "are not of input.layout's form",
    "internal": "are below layout.indexes, or are read with the objects that they belong to",
}


def plan(
    config: cli.Config,
    *,
    as_json: cli.AsJson = False,
    startup_timeout: cli.StartupTimeout = 60.0,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: cli.Level = cli.LogLevel.WARNING,
    log_format: cli.Format = cli.LogFormat.CONSOLE,
) -> None:
    """Show what `run` would do now: objects and bytes by topic-partition, done, pending, and left out.

    Lists the bucket and reads the ledger, if there is one. Writes nothing, so it is safe at any time, also
    next to a running service. Use it before the first start: a key under "left out" is one that `run` will
    never touch. Opens no object, unless it is an archive (input.layout): then the beginnings of a few objects
    of each topic say what comes back exactly and what does not, and names and tags where offsets are missing.
    Of a sink: what of its topics is not archived yet, by topic and partition. Of a query of Spark (its
    options, with state.path): the objects that are in none of its batches.
    """
    options = frames_options(config, sets or ())
    if options is not None:
        logs.configure(level=log_level.value, style=log_format.value)
        frames_plan(options, as_json=as_json)
        return
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    logs.configure(level=log_level.value, style=log_format.value)
    if settings.sink is not None:
        # A source has no use for it.
        from ingest.cli.sink_check_and_plan import sink_plan

        sink_plan(settings, as_json=as_json, startup_timeout=startup_timeout)
        return
    reading = open_ledger_reader(settings, timeout=startup_timeout)
    try:
        clients = aws_clients(settings)
        cache = None if reading is None else reading.cache
        target = target_of({} if cache is None else cache.controls())
        try:
            forecast, archive = forecasts_of(settings, clients, cache)
            inventories = probe_inventories(clients.s3, settings, awaited_inventories(settings, cache))
        finally:
            clients.close()
        lost = lost_ledger(settings, timeout=startup_timeout)
    finally:
        if reading is not None:
            reading.close()
    has_ledger = reading is not None
    lines = lines_of(settings, forecast, archive, has_ledger=has_ledger, target=target, lost=lost)
    cli.Report(
        shape_of(settings, forecast, archive, inventories, has_ledger=has_ledger, target=target, lost=lost),
        chain(lines, *(("", one.line) for one in inventories)),
    ).show(as_json=as_json)
    if is_unread_restore(settings, _unread(settings, forecast)):
        raise typer.Exit(int(Exit.QUARANTINED))


def forecasts_of(
    settings: Settings, clients: AwsClients, cache: LedgerCache | None
) -> tuple[Preview, ArchivePreview | None]:
    """What becomes of the listed objects, and of an archive what is in it.

    Blocks until all of the listing has come, with a progress bar, and on a few GETs of an archive. Of several
    buckets one that can be listed is enough, as for `run`; else raises what holds up its start.
    """
    now_ms = wall_ms()
    baselines = {place.s3.bucket: baseline_of(place, cache, now_ms) for place in settings.by_place()}
    filters = object_filters_of(settings, baselines)
    restore, archive = settings.format.restore, None
    restored = RestorePartition.ORIGINAL if restore is None else restore.partition
    forecast = Preview(filters, now_ms=now_ms, transforms=settings.transforms, restored=restored)
    if restore is not None:
        names = ArchiveNames(restore.layout, restore.names, restore.template)
        room = settings.discovery.max_pending_objects
        archive = ArchivePreview(names, filters[settings.s3.bucket], room=room)

    def pages(place: Settings) -> Iterator[tuple[str, KeysPage]]:
        return zip(repeat(place.s3.bucket), list_pages(clients.s3, place.s3, prefix=place.s3.prefix))

    # The ledger's size is the best guess at the bucket's; without one the bar only says that it lives.
    known = None if cache is None else sum(cache.counts().values()) or None
    with progress("listing", unit="objects", total=known) as report_progress:
        for bucket, page in of_each_bucket(settings.by_place(), pages, forecast.refused):
            forecast.add(_beside_ledger(bucket, page, cache))
            if archive is not None:
                archive.add(page.objects)
            report_progress(forecast.listed.objects, known)
    forecast.was_read = forecast.was_read or _has_read(settings, cache)
    if archive is not None:
        # All decoders are loaded with it.
        from ingest.checks.probes.archive_samples import ArchiveSampler

        sampler = ArchiveSampler(clients.s3, settings)
        archive.look_into(sampler.sample, sampler.tags)
    return forecast, archive


def shape_of(
    settings: Settings,
    forecast: Preview,
    archive: ArchivePreview | None,
    inventories: Sequence[InventoryFacts],
    *,
    has_ledger: bool,
    target: TargetState = TargetState.RUNNING,
    lost: InvalidLedger | None = None,
) -> dict[str, Any]:
    """The JSON shape (docs/commands.md)."""
    return {
        "bucket": ",".join(settings.buckets),
        "prefix": settings.s3.prefix,
        "ledger": settings.kafka.ledger_topic if has_ledger else None,
        **forecast.as_dict(),
        "archive": None if archive is None else archive.as_list(),
        "inventories": [one.as_dict() for one in inventories],
        "problem": _problem(settings, forecast, target, lost),
    }


def lines_of(
    settings: Settings,
    forecast: Preview,
    archive: ArchivePreview | None,
    *,
    has_ledger: bool,
    target: TargetState = TargetState.RUNNING,
    lost: InvalidLedger | None = None,
) -> Iterator[str]:
    """What people are shown."""
    total = forecast.total()
    for bucket in settings.buckets:
        yield f"s3://{bucket}/{printable(settings.s3.prefix)}: {_amount(forecast.of_bucket[bucket])}"
    if has_ledger:
        found = "read" if lost is None else "read, but it is not the one that the group remembers"
    else:
        found = ("not there yet" if lost is None else "lost") + ", so nothing counts as done"
    yield f"ledger {settings.kafka.ledger_topic}: {found}"
    yield ""
    rows: list[tuple[str, ...]] = [
        ("topic", "partition", "pending", "of it begun", "done", "skipped", "quarantined")
    ]
    restore = settings.format.restore
    is_modulo = restore is not None and restore.partition is RestorePartition.MODULO
    unknown = "modulo" if is_modulo else "by key"
    rows += [_row(place, forecast, unknown) for place in forecast.places()[:_MAX_PLACES]]
    rows.append(
        (
            "total",
            "",
            *map(_amount, (total.pending, total.begun, total.done, total.skipped, total.quarantined)),
        )
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if len(forecast.shares) > _MAX_PLACES:
        more = len(forecast.shares) - _MAX_PLACES
        yield f".. {more} more topic-partitions are in the total; --json shows all"
    yield from _left_out_lines(forecast, is_archive=archive is not None)
    if forecast.archived.objects:
        yield ""
        yield f"skipped until they are restored from an archive: {_amount(forecast.archived)}, such as"
        yield from (f"    {printable(key)}" for key in forecast.archived.examples)
    if archive is not None:
        yield from archive_lines(archive)
    if (problem := _problem(settings, forecast, target, lost)) is not None:
        yield ""
        yield f"problem   {problem}"


def _left_out_lines(forecast: Preview, *, is_archive: bool) -> Iterator[str]:
    for reason, found in sorted(forecast.left_out.items()):
        yield ""
        words = REASONS.get(reason, reason)
        if is_archive:
            words = _REASONS_OF_ARCHIVES.get(reason, words)
        yield f"left out: {_amount(found)} {words}, such as"
        yield from (f"    {printable(key)}" for key in found.examples)
        if reason == ExclusionReason.FOLDER and found.bytes:
            yield "    (not all of them are empty: what a key that ends with / holds is never read)"
    if "unmatched" in forecast.left_out:
        yield "    (`headrace explain CONFIG KEY` says why)"


def _problem(
    settings: Settings, forecast: Preview, target: TargetState, lost: InvalidLedger | None
) -> str | None:
    """What `run` would report as problems at once, or would not start for."""
    found = [
        None if lost is None else str(lost),
        held_back(settings, target),
        *unlisted(forecast.refused),
        unread_problem(settings, _unread(settings, forecast)),
    ]
    return " ".join(filter(None, found)) or None


def _unread(settings: Settings, forecast: Preview) -> Unread | None:
    """What `run` would find where it reads none of the keys, none of which was read before."""
    reasons = (ExclusionReason.UNMATCHED, ExclusionReason.EXCLUDED)
    left_out = forecast.left_out
    reason = next((each for each in reasons if each in left_out), None)
    is_read = forecast.was_read or bool(forecast.shares)
    if reason is None or is_read or {"start_key", "existing", "moved"} & left_out.keys():
        return None
    found = left_out[reason]
    return Unread(",".join(settings.buckets), found.objects, found.examples[0], reason)


def _has_read(settings: Settings, cache: LedgerCache | None) -> bool:
    """Whether objects of these buckets were read that may be there no more, as `post.action` deletes."""
    if cache is None:
        return False
    ledger = Overlay(CacheLedgerView(cache))
    places = (place.s3 for place in settings.by_place())
    return any(True for place in places for _ in ledger.below(place.bucket, place.prefix))


def _beside_ledger(
    bucket: str, page: KeysPage, cache: LedgerCache | None
) -> Iterator[tuple[S3Object, LedgerEntry | None]]:
    """Each listed object with its entry: one scan of the same stretch of keys, not a look-up for each.

    A directory bucket lists in no order, so that a page of it is no stretch.
    """
    found: dict[ObjectId, LedgerEntry] = {}
    keys = [page.after_key or "", *(s3_object.id.key for s3_object in page.objects)]
    if cache is not None and all(before < key for before, key in pairwise(keys)):
        wanted = {s3_object.id for s3_object in page.objects}
        known = cache.scan(bucket, keys[0], keys[-1])
        found = {each.id: each.entry for each in known if each.id in wanted}
    elif cache is not None:
        there = ((s3_object.id, cache.get(s3_object.id)) for s3_object in page.objects)
        found = {object_id: entry for object_id, entry in there if entry is not None}
    for s3_object in page.objects:
        yield s3_object, found.get(s3_object.id)


def _row(place: TopicPartition, forecast: Preview, unknown: str) -> tuple[str, ...]:
    topic, partition = place
    share = forecast.shares[place]
    amounts = (share.pending, share.begun, share.done, share.skipped, share.quarantined)
    return (topic, unknown if partition is None else str(partition), *map(_amount, amounts))


def _amount(amount: Amount) -> str:
    return f"{amount.objects:,} ({bytes_text(amount.bytes)})" if amount.objects else "-"
