"""`headrace policy`: what credentials have to allow for this configuration."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.model.errors import InvalidConfiguration
from headrace.options.aws_forms import TO_FILL_IN
from ingest.checks.findings.iam_policy import cluster_of, policies, worker_policies
from ingest.cli.cli_options import AsJson, AskedFormat, AskedLevel, Config, Report, Sets, WorkerConfig, log_as
from ingest.cli.configuration import read_apart

_TO_FILL_IN = (
    "ACCOUNT, CLUSTER and UUID of the kafka-cluster actions are to be filled in: --cluster-arn does it, with "
    "what `aws kafka list-clusters-v2` prints."
)


_POINTS_TO_FILL_IN = (
    "ACCOUNT and NAME-OF-ALIAS are to be filled in, as no policy may name an alias: `aws s3control "
    "list-access-points --account-id ACCOUNT` prints the access points with theirs. The bucket has to allow "
    "the same, or its policy leaves it to its access points."
)


class Purpose(StrEnum):
    """Which document."""

    RUN = "run"
    CHECK = "check"
    SETUP = "setup"
    LIFECYCLE = "lifecycle"
    WORKER = "worker"


For = Annotated[
    Purpose | None,
    typer.Option("--for", help="One document alone, ready for the tools of AWS."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster-arn",
        metavar="ARN",
        help="The MSK cluster that is logged in to by IAM; without it, capitals are to be filled in.",
    ),
]
OfWorker = Annotated[
    bool,
    typer.Option("--worker", help="CONFIG is a worker's file: print what the worker itself needs."),
]
_TITLES = {
    Purpose.RUN: "for `headrace run`",
    Purpose.CHECK: "for `headrace check`, next to that of run",
    Purpose.SETUP: "for `headrace setup`, once",
    Purpose.WORKER: "for `headrace worker`, next to those of its connectors",
    Purpose.LIFECYCLE: "the bucket's lifecycle, which `headrace setup` puts next to other rules",
}

_NOTHING = {
    **_TITLES,
    Purpose.LIFECYCLE: "of the lifecycle of a source's bucket",
}


def policy(
    config: Config,
    purpose: For = None,
    cluster: Cluster = None,
    worker: OfWorker = False,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    *,
    log_level: AskedLevel = None,
    log_format: AskedFormat = None,
) -> None:
    """Print the least IAM policy of this configuration, and a sink's lifecycle rule. Contacts nothing.

    With AWS IAM on MSK it has Kafka's actions, too, which are all that a worker needs next to its connectors.
    Kafka's ACLs are in docs/security.md.
    """
    log_as(log_level, log_format)
    if worker or purpose is Purpose.WORKER:
        if sets or worker_config is not None or purpose not in {None, Purpose.WORKER}:
            raise InvalidConfiguration(
                "--set, --worker-config and the rest of --for are for a connector's own file."
            )
        # It loads what logs, which a connector's policy has no use for.
        from ingest.cli.run import worker_settings

        of_worker = worker_settings(config)
        settings = of_worker.frame
        found = worker_policies(settings, name=of_worker.name, topic=of_worker.topic, cluster=cluster)
    else:
        settings = read_apart(config, sets=sets or (), worker_config=worker_config)
        found = policies(settings, cluster=cluster)
    if cluster is None and cluster_of(settings, None) is not None:
        typer.echo(_TO_FILL_IN, err=True)
    if TO_FILL_IN in json.dumps(found):
        typer.echo(_POINTS_TO_FILL_IN, err=True)
    if purpose is not None:
        document = found.get(purpose.value, {})
        if document.get("Statement", document.get("Rules")):
            typer.echo(json.dumps(document, indent=2))
        else:
            # AWS takes no document without a statement.
            typer.echo(f"Nothing is needed {_NOTHING[purpose]}: there is no document to print.", err=True)
    else:
        Report(found, _lines(found)).show(as_json=as_json)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for name, document in found.items():
        if document.get("Statement") == []:
            yield f"# {_TITLES[Purpose(name)]}: nothing"
        else:
            yield f"# {_TITLES[Purpose(name)]}\n{json.dumps(document, indent=2)}"
