"""`headrace policy`: what credentials have to allow for this configuration."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.options.aws_forms import TO_FILL_IN
from ingest.checks.findings.iam_policy import cluster_of, policies
from ingest.cli.cli_options import AsJson, Config, Report, Sets, WorkerConfig
from ingest.cli.configuration import read_settings

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
_TITLES = {
    Purpose.RUN: "for `headrace run`",
    Purpose.CHECK: "for `headrace check`, next to that of run",
    Purpose.SETUP: "for `headrace setup`, once",
    Purpose.LIFECYCLE: "the bucket's lifecycle, which `headrace setup` puts next to other rules",
}


def policy(
    config: Config,
    purpose: For = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
) -> None:
    """Print the least IAM policy of this configuration, and a sink's lifecycle rule. Contacts nothing.

    With AWS IAM on MSK it has Kafka's actions, too. Kafka's ACLs are in docs/security.md.
    """
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    found: dict[str, Any] = policies(settings, cluster=cluster)
    if cluster is None and cluster_of(settings, None) is not None:
        typer.echo(_TO_FILL_IN, err=True)
    if TO_FILL_IN in json.dumps(found):
        typer.echo(_POINTS_TO_FILL_IN, err=True)
    if purpose is not None:
        found = {purpose.value: found.get(purpose.value, {})}
        typer.echo(json.dumps(found[purpose.value], indent=2))
    else:
        Report(found, _lines(found)).show(as_json=as_json)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for name, document in found.items():
        if document.get("Statement") == []:
            yield f"# {_TITLES[Purpose(name)]}: nothing"
        else:
            yield f"# {_TITLES[Purpose(name)]}\n{json.dumps(document, indent=2)}"
