"""`headrace replay` ingests objects again; `headrace mark` counts them as done without reading them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Annotated, Final

import typer

from headrace.kafka.admin import CALL_SECONDS
from headrace.kafka.driver_ledger import prepare_ledger
from headrace.kafka.kafka_clients import client_properties
from headrace.kafka.ledger_reader import LedgerReader, lost_ledger, open_ledger_reader
from headrace.model.errors import HeadraceError, InvalidConfiguration, TopicMissing
from headrace.model.ledger_entry import State
from headrace.options import Settings
from headrace.process import logs
from ingest.checks.probes.bucket_keys import aws_clients, of_each_bucket, unlisted
from ingest.cli import cli_options as cli
from ingest.cli.configuration import read_settings, refuse_sink
from ingest.cli.object_command import (
    CommandRequest,
    SelectedObject,
    carry_out,
    chosen_buckets,
    moment_ms,
    objects_to_mark,
    objects_to_replay,
    without_left_out,
)
from ingest.source.catalogue import Selection

ByKey = Annotated[str | None, typer.Option("--key", metavar="KEY", help="This object only.")]
ByPrefix = Annotated[
    str, typer.Option("--prefix", metavar="PREFIX", help="Objects whose keys begin so (the full key).")
]
OfBucket = Annotated[
    str | None,
    typer.Option(
        "--bucket", metavar="BUCKET", help="Objects of this bucket alone, of those that are configured."
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="LastModified at or after this: 2025-01-31[T08:30:00Z]."),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="LastModified at or before this; a date is its whole day."),
]
MarkUntil = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="LastModified at or before this; a date is its whole day. S3 dates a multipart upload back to "
        "when it began: name a time before the earliest upload that was under way when the other tool "
        "stopped (aws s3api list-multipart-uploads).",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the objects and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
InStates = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="In this state; may be repeated. Without it: quarantined and failed, with --from-start any.",
    ),
]
FromStart = Annotated[
    bool,
    typer.Option(
        "--from-start",
        help="Produce the objects whole again. Records that are in Kafka already come a second time.",
    ),
]
AcceptNewLedger = Annotated[
    bool,
    typer.Option(
        "--accept-new-ledger",
        help="Begin an empty ledger, or another one, where the ingester's own is lost.",
    ),
]


_NEEDS_FROM_START: Final = {
    State.DONE: "has been produced whole",
    State.PARTIAL: "continues by itself from where it stopped",
}


def replay(
    config: cli.Config,
    *,
    key: ByKey = None,
    bucket: OfBucket = None,
    prefix: ByPrefix = "",
    since: Since = None,
    until: Until = None,
    state: InStates = None,
    from_start: FromStart = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: cli.AsJson = False,
    startup_timeout: cli.StartupTimeout = 60.0,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: cli.Level = cli.LogLevel.WARNING,
    log_format: cli.Format = cli.LogFormat.CONSOLE,
) -> None:
    """Ingest objects again: those in quarantine continue from where they stopped, and nothing is repeated.

    Shows the objects and asks. Repair the cause first: set errors.tolerance=all, say, and replay the
    quarantined objects; each then continues after its last good record. Objects that are done need
    --from-start, which repeats their records. Works next to a running service, which applies it in its own
    transaction, and without one.
    """
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    refuse_sink(settings, "this command is about the objects that a source reads")
    logs.configure(level=log_level.value, style=log_format.value)
    selection = Selection(
        key=key,
        prefix=prefix,
        since_ms=None if since is None else moment_ms(since, "--since"),
        until_ms=None if until is None else moment_ms(until, "--until", is_end=True),
        states=cli.states_of(state or ()),
    )
    first, last = selection.since_ms, selection.until_ms
    if first is not None and last is not None and first > last:
        raise InvalidConfiguration(f"--since {since} is later than --until {until}: no object fits.")
    if from_start and selection == Selection() and bucket is None:
        raise InvalidConfiguration(
            "--from-start repeats records: say of which objects, by --key, --prefix, --since, --until, "
            "--state or --bucket."
        )
    for each, why in _NEEDS_FROM_START.items():
        if each in selection.states and not from_start:
            raise InvalidConfiguration(
                f"--state {each} needs --from-start: such an object {why}, and doing it again repeats its "
                "records."
            )
    if selection.states == {State.NEW}:
        raise InvalidConfiguration(
            "--state new: such an object was asked for already, and `headrace run` reads it by itself: there "
            "is nothing to replay. Where it stays in `new`, `headrace explain CONFIG KEY` says why."
        )
    if (lost := lost_ledger(settings, timeout=startup_timeout)) is not None:
        raise lost
    opened = open_ledger_reader(settings, timeout=startup_timeout)
    if opened is None:
        raise InvalidConfiguration(
            f"There is no ledger {settings.kafka.ledger_topic!r}, so nothing was ingested under the name "
            f"{settings.name!r} yet. Check name, bootstrap.servers and offsets.storage.topic."
        )
    with opened as reading:
        buckets = [place.s3.bucket for place in chosen_buckets(settings, bucket)]
        found = objects_to_replay(reading.cache, buckets, selection, from_start=from_start)
        chosen, left_out = without_left_out(found, reading.cache, settings)
        carry_out(
            CommandRequest(
                settings=settings,
                action="replay",
                chosen=chosen,
                left_out=left_out,
                from_start=from_start,
                dry_run=dry_run,
                yes=yes,
                as_json=as_json,
                timeout=startup_timeout,
            ),
            lambda: reading,
        )


def mark(
    config: cli.Config,
    *,
    key: ByKey = None,
    bucket: OfBucket = None,
    prefix: ByPrefix = "",
    until: MarkUntil = None,
    accept_new_ledger: AcceptNewLedger = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: cli.AsJson = False,
    startup_timeout: cli.StartupTimeout = 60.0,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: cli.Level = cli.LogLevel.WARNING,
    log_format: cli.Format = cli.LogFormat.CONSOLE,
) -> None:
    """Mark objects as done without reading them, when Headrace replaces another tool.

    Lists the bucket, shows the objects that are not done yet, and asks. Before the first start: stop the
    other tool, mark what it has brought to Kafka (--until its last object's time, say), then `headrace run`
    picks up the rest. `headrace replay --from-start` undoes it. Works next to a running service too.
    Where the ledger is lost, --accept-new-ledger begins another one with what is marked.
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
    lost = None if accept_new_ledger else lost_ledger(settings, timeout=startup_timeout)
    if lost is not None and not dry_run:
        raise lost
    reading = open_ledger_reader(settings, timeout=startup_timeout)
    with ExitStack() as opened:
        if reading is not None:
            opened.enter_context(reading)

        def begin() -> LedgerReader:
            made = begun(settings, reading, startup_timeout, accept_new_ledger=accept_new_ledger)
            return made if made is reading else opened.enter_context(made)

        # What a command that died has marked is chosen once more: the acceptance comes after all marks.
        chosen, refused = _chosen(places, None if accept_new_ledger else reading, selection)
        problems = [*([] if lost is None else [str(lost)]), *unlisted(refused)]
        request = CommandRequest(
            settings=settings,
            action="mark",
            chosen=chosen,
            problem=" ".join(problems) or None,
            accept_new_ledger=accept_new_ledger,
            until_ms=selection.until_ms,
            from_start=False,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            timeout=startup_timeout,
        )
        carry_out(request, begin)


def _chosen(
    places: Sequence[Settings], reading: LedgerReader | None, selection: Selection
) -> tuple[list[SelectedObject], dict[str, HeadraceError]]:
    """The objects of all buckets that can be listed, and why others cannot."""
    clients = aws_clients(places[0])
    cache = None if reading is None else reading.cache

    def read(place: Settings) -> Iterator[SelectedObject]:
        return objects_to_mark(clients.s3, cache, place, selection)

    refused: dict[str, HeadraceError] = {}
    try:
        return list(of_each_bucket(places, read, refused)), refused
    finally:
        clients.close()


def begun(
    settings: Settings, reading: LedgerReader | None, timeout: float, *, accept_new_ledger: bool = False
) -> LedgerReader:
    """The reading, or one of the ledger, which is made before the first start. Blocks.

    InvalidLedger where it is lost, or another one, unless that is accepted.
    """
    creation = settings.kafka.topic_creation
    prepare_ledger(
        client_properties(settings),
        name=settings.name,
        topic=settings.kafka.ledger_topic,
        replication_factor=None if creation is None else creation.replication_factor,
        accept_new_ledger=accept_new_ledger,
        timeout=min(CALL_SECONDS, timeout),
    )
    made = reading or open_ledger_reader(settings, timeout=timeout)
    if made is None:
        raise TopicMissing(
            f"The ledger {settings.kafka.ledger_topic!r} was deleted while this command began. Give it again."
        )
    return made
