"""`headrace mark`: count objects as done without reading them."""

from collections.abc import Sequence
from itertools import chain

from headrace.kafka.driver_ledger import prepare_ledger
from headrace.options import Settings
from headrace.process import logs
from ingest.checks.probes.aws_clients import aws_clients
from ingest.checks.probes.ledger_reader import LedgerReader, client_properties, open_ledger_reader
from ingest.cli.cli_options import (
    AsJson,
    Config,
    Format,
    Level,
    LogFormat,
    LogLevel,
    Sets,
    StartupTimeout,
    WorkerConfig,
)
from ingest.cli.configuration import read_settings, refuse_sink
from ingest.cli.object_command import ByKey, ByPrefix, CommandRequest, DryRun, OfBucket, Until, Yes, carry_out
from ingest.cli.selection import SelectedObject, chosen_buckets, moment_ms, objects_to_mark
from ingest.source.catalogue import Selection


def mark(
    config: Config,
    *,
    key: ByKey = None,
    bucket: OfBucket = None,
    prefix: ByPrefix = "",
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    startup_timeout: StartupTimeout = 60.0,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    log_level: Level = LogLevel.WARNING,
    log_format: Format = LogFormat.CONSOLE,
) -> None:
    """Mark objects as done without reading them, when Headrace replaces another tool.

    Lists the bucket, shows the objects that are not done yet, and asks. Before the first start: stop the
    other tool, mark what it has brought to Kafka (--until its last object's time, say), then `headrace run`
    picks up the rest. `headrace replay --from-start` undoes it. Works next to a running service too.
    """
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    refuse_sink(settings, "this command is about the objects that a source reads")
    logs.configure(level=log_level.value, style=log_format.value)
    selection = Selection(
        key=key,
        prefix=prefix,
        until_ms=None if until is None else moment_ms(until, "--until", is_end=True),
    )
    places = chosen_buckets(settings, bucket)
    reading = _reading(settings, startup_timeout, creates=not dry_run)
    try:
        request = CommandRequest(
            settings=settings,
            action="mark",
            chosen=_chosen(places, reading, selection),
            from_start=False,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            timeout=startup_timeout,
        )
        carry_out(request, reading)
    finally:
        if reading is not None:
            reading.close()


def _chosen(
    places: Sequence[Settings], reading: LedgerReader | None, selection: Selection
) -> list[SelectedObject]:
    clients = aws_clients(places[0])
    try:
        cache = None if reading is None else reading.cache
        each = (objects_to_mark(clients.s3, cache, place, selection) for place in places)
        return list(chain.from_iterable(each))
    finally:
        clients.close()


def _reading(settings: Settings, timeout: float, *, creates: bool) -> LedgerReader | None:
    """The ledger; before the first start it is made, unless for a dry run, which gets None."""
    if creates:
        creation = settings.kafka.topic_creation
        prepare_ledger(
            client_properties(settings),
            name=settings.name,
            topic=settings.kafka.ledger_topic,
            replication_factor=None if creation is None else creation.replication_factor,
        )
    return open_ledger_reader(settings, timeout=timeout)
