"""`headrace setup`: queue, bucket notification and topics, made where they are missing."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from headrace.kafka.admin import KafkaAdmin
from headrace.model.errors import HeadraceError, InvalidConfiguration
from headrace.model.text_formatting import counted, printable
from headrace.options import Settings
from headrace.options.transforms.read_chain import known_topics
from headrace.process import logs
from ingest.checks.findings.bucket_lifecycle import InvalidTransitions, Transition, parse_transitions
from ingest.checks.probes.bucket_keys import aws_clients, own_account
from ingest.checks.setup import Step, missing_steps
from ingest.checks.setup.sink_steps import sink_steps
from ingest.cli import cli_options as cli
from ingest.cli.configuration import read_settings

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what is missing and change nothing.")]

Transitions = Annotated[
    str | None,
    typer.Option(
        "--transition",
        metavar="DAYS:CLASS,..",
        help="For a sink: have S3 move its objects to colder storage, such as 90:GLACIER,365:DEEP_ARCHIVE.",
    ),
]


def setup(
    config: cli.Config,
    dry_run: DryRun = False,
    transition: Transitions = None,
    as_json: cli.AsJson = False,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: cli.Level = cli.LogLevel.WARNING,
    log_format: cli.Format = cli.LogFormat.CONSOLE,
) -> None:
    """Make queue, dead letter queue, bucket notification and topics; what is there already stays as it is.

    For a sink: the dead letter topic, the ledger, and a rule of the bucket's lifecycle that ends uploads
    which were never finished, and with `--transition` one that moves its objects to colder storage classes.
    """
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    transitions = _transitions(transition, settings)
    logs.configure(level=log_level.value, style=log_format.value)
    clients = aws_clients(settings)
    refused: dict[str, HeadraceError] = {}
    try:
        admin = KafkaAdmin(settings.kafka.client("admin"))
        steps = missing_steps(
            settings,
            s3=clients.s3,
            sqs=clients.sqs,
            account=lambda: own_account(settings),
            topics=lambda: topic_steps(settings, admin),
            refused=refused,
        )
        for bucket, error in refused.items():
            problem = f"{str(error).removesuffix('.')}. The other buckets are set up."
            cli.Report(refused_shape(bucket, problem), [f"problem   {printable(problem)}"]).show(
                as_json=as_json
            )
        if settings.sink is not None:
            steps += sink_steps(settings, clients.s3, admin, transitions)
        for step in steps:
            if not dry_run:
                step.apply()
            line = f"{'would' if dry_run else 'done'}: {printable(step.sentence)}"
            cli.Report(shape_of(step, done=not dry_run), [line]).show(as_json=as_json)
    finally:
        clients.close()
    if not steps and not refused and not as_json:
        typer.echo("Everything is there already.")


def _transitions(text: str | None, settings: Settings) -> tuple[Transition, ...]:
    if text is None:
        return ()
    if settings.sink is None:
        raise InvalidConfiguration(
            "--transition moves what a sink writes, and this configuration is a source's."
        )
    try:
        return parse_transitions(text)
    except InvalidTransitions as error:
        raise InvalidConfiguration(f"--transition {printable(text)}: {error}.") from None


def shape_of(step: Step, *, done: bool) -> dict[str, Any]:
    """The JSON shape of a step (docs/commands.md)."""
    return {"step": step.sentence, "done": done, "problem": None}


def refused_shape(bucket: str, problem: str) -> dict[str, Any]:
    """The same of a bucket, of several, that cannot be set up."""
    return {"step": f"set up s3://{bucket}", "done": False, "problem": problem}


def topic_steps(settings: Settings, admin: KafkaAdmin) -> Sequence[Step]:
    """A step for each output topic that `run` requires and the cluster does not have.

    Without `topic.creation.default.*` the brokers' own defaults are used: setup was asked to make things.
    """
    creation = settings.kafka.topic_creation
    partitions = -1 if creation is None else creation.partitions
    replication = None if creation is None else creation.replication_factor
    dead = settings.errors.dead_letter
    named = sorted(known_topics(settings.transforms, settings.routing.topic))
    wanted = [(topic, replication) for topic in named]
    if dead is not None:
        wanted.append((dead.topic, dead.replication_factor or replication))
    return [
        Step(
            sentence=f"create topic {topic!r}"
            + ("" if partitions < 0 else f" with {counted(partitions, 'partition')}"),
            apply=_creation(admin, topic, partitions, factor),
        )
        for topic, factor in wanted
        if not admin.has_topic(topic)
    ]


def _creation(admin: KafkaAdmin, topic: str, partitions: int, factor: int | None) -> Callable[[], None]:
    def create() -> None:
        admin.create_topic(topic, partitions=partitions, replication_factor=factor)

    return create
