"""`headrace setup`: queue, notification, topics, and what a sink needs, made where they are missing."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from botocore.exceptions import ClientError

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.ledger_topic import prepare_ledger_topic
from headrace.model.errors import HeadraceError, InvalidConfiguration
from headrace.model.text_formatting import counted, printable
from headrace.options import Settings
from headrace.options.transforms.read_chain import known_topics
from headrace.process import logs
from ingest.checks.findings.bucket_lifecycle import (
    OUR_DAYS,
    InvalidTransitions,
    Rule,
    TooManyRules,
    Transition,
    parse_transitions,
    with_our_rule,
    with_our_transitions,
)
from ingest.checks.probes.bucket_keys import aws_clients, own_account
from ingest.checks.setup import SetupError, Step, missing_steps
from ingest.cli import cli_options as cli
from ingest.cli.configuration import read_settings
from listeners.discovery_events import error_code, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

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


_NO_RULES: Final = "NoSuchLifecycleConfiguration"


def sink_steps(
    settings: Settings, s3: "S3Client", admin: KafkaAdmin, transitions: Sequence[Transition] = ()
) -> tuple[Step, ...]:
    """What is missing of it; nothing is changed by asking. Blocks; SetupError, AccessDenied and the like.

    With `transitions` objects of the sink's prefixes are to move to these storage classes.
    """
    prefixes: dict[str, list[str]] = {}
    for each in settings.by_place():
        prefixes.setdefault(each.s3.bucket, []).append(each.s3.prefix)
    rules = (
        step for bucket, under in prefixes.items() for step in _rule_steps(s3, bucket, under, transitions)
    )
    return (*rules, *_ledger_steps(settings, admin))


def _rule_steps(
    s3: "S3Client", bucket: str, prefixes: Sequence[str], transitions: Sequence[Transition]
) -> Sequence[Step]:
    """One step at the most: S3 takes all rules of a bucket at once."""
    rules, more = _rules(s3, bucket)
    wanted, missing, moved = rules, [], []
    for prefix in prefixes:
        try:
            widened = with_our_rule(wanted, prefix)
        except TooManyRules:
            raise SetupError(
                f"s3://{bucket} has as many lifecycle rules as S3 takes: give one of them "
                f"AbortIncompleteMultipartUpload for the prefix {prefix!r}, or remove one."
            ) from None
        if widened is not None:
            wanted = widened
            missing.append(prefix)
        colder = with_our_transitions(wanted, prefix, transitions) if transitions else None
        if colder is not None:
            wanted = colder
            moved.append(prefix)
    if not (missing or moved):
        return ()
    rules_wanted: Any = {"Rules": wanted}

    def put() -> None:
        with translated_errors(f"the lifecycle configuration of s3://{bucket}"):
            s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules_wanted, **more)

    parts = []
    if missing:
        parts.append(f"end unfinished uploads in s3://{bucket}{_under(missing)} after {OUR_DAYS} days")
    if moved:
        colder_classes = ", then to ".join(map(str, transitions))
        parts.append(f"move objects in s3://{bucket}{_under(moved)} to {colder_classes}")
    what = "; ".join(parts)
    return (Step(sentence=f"{what} (lifecycle rules next to the {len(rules)} there)", apply=put),)


def _under(prefixes: Sequence[str]) -> str:
    return f" under {', '.join(map(repr, prefixes))}" if all(prefixes) else ""


def _rules(s3: "S3Client", bucket: str) -> tuple[Sequence[Rule], dict[str, Any]]:
    """The bucket's rules, and what else of its configuration has to be given back to keep it."""
    with translated_errors(f"the lifecycle configuration of s3://{bucket}"):
        try:
            found: Any = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
        except ClientError as error:
            if error_code(error) == _NO_RULES:
                return (), {}
            raise
    size = "TransitionDefaultMinimumObjectSize"
    return found.get("Rules", ()), {size: found[size]} if size in found else {}


def _ledger_steps(settings: Settings, admin: KafkaAdmin) -> Sequence[Step]:
    topic = settings.kafka.ledger_topic
    if admin.has_topic(topic):
        return ()

    def make() -> None:
        prepare_ledger_topic(admin, topic)

    return (Step(sentence=f"create topic {topic!r}, the ledger, compacted, with one partition", apply=make),)
