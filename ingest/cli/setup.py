"""`headrace setup`: queue, bucket notification and topics, made where they are missing."""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from botocore.config import Config as ClientConfig

from ingest.cli.configuration import read_settings
from ingest.cli.options import AsJson, Config, Sets, WorkerConfig
from ingest.kafka.admin import Admin
from ingest.printable import printable
from ingest.settings import Settings
from ingest.setup import Step, plan
from spark.s3.credentials import session_with

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what is missing and change nothing.")]


def setup(
    config: Config,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
) -> None:
    """Make queue, dead letter queue, bucket notification and topics; what is there already stays as it is."""
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    steps = plan(
        settings,
        s3=_client("s3", settings),
        sqs=_client("sqs", settings),
        topics=lambda: topic_steps(settings, Admin(settings.kafka.client("admin"))),
    )
    for step in steps:
        if not dry_run:
            step.apply()
        if as_json:
            typer.echo(json.dumps({"step": step.sentence, "done": not dry_run}, ensure_ascii=False))
        else:
            typer.echo(f"{'would' if dry_run else 'done'}: {printable(step.sentence)}")
    if not steps and not as_json:
        typer.echo("Everything is there already.")


def topic_steps(settings: Settings, admin: Admin) -> Sequence[Step]:
    """A step for each output topic that the configuration names and the cluster does not have.

    Without `topic.creation.default.*` the brokers' own defaults are used: setup was asked to make things.
    """
    creation = settings.kafka.topic_creation
    partitions = -1 if creation is None else creation.partitions
    replication = None if creation is None else creation.replication_factor
    dead = settings.errors.dead_letter
    wanted = [(settings.routing.topic, replication)]
    if dead is not None:
        wanted.append((dead.topic, dead.replication_factor or replication))
    return [
        Step(
            sentence=f"create topic {topic!r}" + ("" if partitions < 0 else f" with {partitions} partitions"),
            apply=_creation(admin, topic, partitions, factor),
        )
        for topic, factor in wanted
        if topic is not None and not admin.has_topic(topic)
    ]


def _creation(admin: Admin, topic: str, partitions: int, factor: int | None) -> Callable[[], None]:
    def create() -> None:
        admin.create_topic(topic, partitions=partitions, replication_factor=factor)

    return create


def _client(service: str, settings: Settings) -> Any:
    """A client of S3, or of the queue's SQS, with the bucket's credentials."""
    s3, sqs = settings.s3, settings.sqs
    session = session_with(s3.credentials, region=s3.region)
    is_queue = service == "sqs" and sqs is not None
    return session.create_client(
        service,
        region_name=sqs.region if is_queue and sqs else s3.region,
        endpoint_url=sqs.endpoint if is_queue and sqs else s3.endpoint,
        verify=s3.ca_bundle,
        config=ClientConfig(s3={"addressing_style": "path" if s3.endpoint else "auto"}),
    )
