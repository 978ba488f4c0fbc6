"""The least policy of a configuration: what is in it, and what is only where an option asks for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration
from ingest.checks.findings.iam_policy import policies
from ingest.cli.app import app
from tests.ingest.checks.findings.configured import configured

_SINK: dict[str, str | None] = {
    "topic": None,
    "sqs.queue.url": None,
    "file.name.template": None,
    "topics": "orders",
    "aws.s3.prefix": "in/",
}


def _actions(document: dict[str, Any]) -> set[str]:
    return {action for statement in document["Statement"] for action in statement["Action"]}


def test_a_sink_puts_and_ends_uploads() -> None:
    """And nothing that deletes an object."""
    found = policies(configured(_SINK))

    assert _actions(found["run"]) == {
        "s3:ListBucket",
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
        "s3:GetObject",
        "s3:GetLifecycleConfiguration",
    }
    listing, lifecycle, uploads = found["run"]["Statement"]
    assert lifecycle["Resource"] == "arn:aws:s3:::bucket"
    assert listing["Resource"] == "arn:aws:s3:::bucket"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "in/*"}}
    assert uploads["Resource"] == "arn:aws:s3:::bucket/in/*"
    assert _actions(found["setup"]) == {"s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration"}
    assert found["check"]["Statement"] == []
    assert found["lifecycle"]["Rules"][0]["Filter"] == {"Prefix": "in/"}


def test_a_document_without_a_statement_is_none_for_iam(tmp_path: Path) -> None:
    """IAM refuses an empty one: the command says that there is nothing to allow."""
    config = {
        "name": "a",
        "bootstrap.servers": "b:1",
        "aws.s3.bucket.name": "bucket",
        "topics": "orders",
        "aws.s3.region": "eu-west-1",
    }
    (tmp_path / "sink.json").write_text(json.dumps(config))

    result = CliRunner().invoke(app, ["policy", str(tmp_path / "sink.json")])
    assert "# for `headrace check`, next to that of run: nothing\n" in result.output
    assert '"Statement": []' not in result.output


@pytest.mark.parametrize(
    ("options", "action"),
    [
        ({"aws.s3.object.tags": "offsets"}, "s3:PutObjectTagging"),
        ({"aws.s3.acl": "private"}, "s3:PutObjectAcl"),
        ({"aws.s3.sse": "aws:kms"}, "kms:GenerateDataKey"),
    ],
)
def test_an_option_brings_its_action(options: dict[str, str | None], action: str) -> None:
    """Not before."""
    assert action not in _actions(policies(configured(_SINK))["run"])
    assert action in _actions(policies(configured(_SINK | options))["run"])


def test_a_key_that_is_named_by_its_arn_is_the_only_one() -> None:
    """An alias or an id is no resource of a policy."""
    arn = "arn:aws:kms:eu-west-1:123456789012:key/k"
    named = policies(configured(_SINK | {"aws.s3.sse": "aws:kms", "aws.s3.sse.kms.key.id": arn}))
    alias = policies(configured(_SINK | {"aws.s3.sse": "aws:kms", "aws.s3.sse.kms.key.id": "alias/k"}))

    assert named["run"]["Statement"][-1]["Resource"] == arn
    assert alias["run"]["Statement"][-1]["Resource"] == "arn:aws:kms:*:*:key/*"


def test_going_on_behind_lenses_takes_its_locks() -> None:
    """Which stand outside the prefix, as its copies that were under way do."""
    found = policies(configured({**_SINK, "takeover.indexes": ".indexes"}))["run"]["Statement"]
    by_sid = {each["Sid"]: each for each in found}

    assert by_sid["takeoverLocks"]["Resource"] == "arn:aws:s3:::bucket/.indexes/*"
    assert set(by_sid["takeoverLocks"]["Action"]) == {"s3:GetObject", "s3:PutObject"}
    assert by_sid["takeoverCopies"]["Resource"] == "arn:aws:s3:::bucket/.temp-upload/*"
    assert by_sid["list"]["Condition"] == {
        "StringLike": {"s3:prefix": ["in/*", ".indexes/*", ".temp-upload/*"]}
    }
    assert not any(each.startswith("takeover") for each in _sids(policies(configured(_SINK))["run"]))


def _sids(document: dict[str, Any]) -> set[str]:
    return {each["Sid"] for each in document["Statement"]}


def test_a_source_reads_objects_and_its_queue() -> None:
    """As docs/security.md has it."""
    found = policies(configured())

    assert _actions(found["run"]) == {
        "s3:ListBucket",
        "s3:GetObject",
        "s3:GetObjectVersion",
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
    }
    assert found["run"]["Statement"][-1]["Resource"] == "arn:aws:sqs:us-east-1:123456789012:queue"
    assert "Condition" not in found["run"]["Statement"][0]
    assert "lifecycle" not in found


def test_a_source_without_a_queue_needs_none() -> None:
    """Listing only."""
    found = policies(configured({"sqs.queue.url": None}))

    assert not any(action.startswith("sqs:") for part in found.values() for action in _actions(part))


def test_a_move_to_another_bucket_needs_rights_there() -> None:
    """To put, and to see what is there already."""
    found = policies(configured({"post.action": "move:s3://cold/done/"}))["run"]["Statement"]
    by_sid = {each["Sid"]: each for each in found}

    assert by_sid["moveTo"]["Resource"] == "arn:aws:s3:::cold/done/*"
    assert {"s3:GetObject", "s3:PutObject"} <= set(by_sid["moveTo"]["Action"])
    assert (by_sid["moveToList"]["Resource"], by_sid["moveToList"]["Action"]) == (
        "arn:aws:s3:::cold",
        ["s3:ListBucket"],
    )
    assert by_sid["moveFrom"]["Resource"] == "arn:aws:s3:::bucket/*"


def test_uploads_under_way_are_listed_where_existing_objects_are_left_out() -> None:
    """Which ones are new is known from them."""
    assert "s3:ListBucketMultipartUploads" not in _actions(policies(configured())["run"])
    assert "s3:ListBucketMultipartUploads" in _actions(
        policies(configured({"include.existing": "false"}))["run"]
    )


def test_a_sink_that_reads_by_glue_looks_up_versions() -> None:
    """By the version's id alone."""
    converter = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"
    found = policies(configured(_SINK | {"value.converter": converter, "aws.s3.region": "eu-west-1"}))

    assert found["run"]["Statement"][-1] == {
        "Sid": "schemas",
        "Effect": "Allow",
        "Action": ["glue:GetSchemaVersion"],
        "Resource": "*",
    }


_IAM: dict[str, str | None] = {
    "sasl.mechanism": "AWS_MSK_IAM",
    "security.protocol": "SASL_SSL",
    "bootstrap.servers": "b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098",
    "aws.s3.region": "eu-west-1",
}
_ARN = "arn:aws:kafka:eu-west-1:123456789012:{}/orders/1a2b-3"
_PLACEHOLDER = "arn:aws:kafka:eu-west-1:ACCOUNT:{}/CLUSTER/UUID"
_WRITING = {"DescribeTopic", "ReadData", "WriteData", "DescribeTopicDynamicConfiguration"}


def _kafka(options: dict[str, str | None], part: str = "run", **given: str) -> dict[str, Any]:
    statements = policies(configured(_IAM | options), **given)[part]["Statement"]
    return {each["Sid"]: each for each in statements if each["Sid"].startswith("kafka")}


def _words(statement: dict[str, Any]) -> set[str]:
    return {each.removeprefix("kafka-cluster:") for each in statement["Action"]}


def test_a_source_on_msk_needs_its_names_in_the_cluster() -> None:
    """As the ACLs of docs/security.md, in MSK's words."""
    found = _kafka(
        {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"},
        cluster=_ARN.format("cluster"),
    )

    assert found["kafkaCluster"]["Resource"] == _ARN.format("cluster")
    assert _words(found["kafkaCluster"]) == {"Connect", "WriteDataIdempotently"}
    assert found["kafkaTransactions"]["Resource"] == f"{_ARN.format('transactional-id')}/uploads-*"
    assert _words(found["kafkaTransactions"]) == {"DescribeTransactionalId", "AlterTransactionalId"}
    assert found["kafkaGroups"]["Resource"] == f"{_ARN.format('group')}/headrace-uploads"
    assert _words(found["kafkaGroups"]) == {"DescribeGroup", "AlterGroup"}
    assert found["kafkaLedger"]["Resource"] == f"{_ARN.format('topic')}/uploads-offsets"
    assert _words(found["kafkaLedger"]) == _WRITING | {"CreateTopic"}
    assert found["kafkaWrite"]["Resource"] == [f"{_ARN.format('topic')}/{each}" for each in ("events", "bad")]
    assert _words(found["kafkaWrite"]) == _WRITING
    assert "kafkaRead" not in found


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({"topic": None, "file.name.template": "{{topic}}/.*"}, ["*"]),
        ({"topic": None, "file.name.template": None, "input.layout": "confluent"}, ["*"]),
        (
            {
                "transforms": "r",
                "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
                "transforms.r.regex": "(.*)",
                "transforms.r.replacement": "x-$1",
            },
            ["x-events"],
        ),
        (
            {
                "transforms": "r",
                "transforms.r.type": "org.apache.kafka.connect.transforms.TimestampRouter",
            },
            ["*"],
        ),
    ],
)
def test_topics_are_those_that_records_come_to(options: dict[str, str | None], topics: list[str]) -> None:
    """All, where keys or records name them; of a cluster that is to be filled in without its ARN."""
    found = _kafka(options)["kafkaWrite"]["Resource"]
    assert found == f"{_PLACEHOLDER.format('topic')}/{topics[0]}"


def test_topics_that_run_makes_may_be_created() -> None:
    """And `setup` may create those that are named, in any case."""
    created: dict[str, str | None] = {
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "3",
    }
    assert _words(_kafka(created)["kafkaWrite"]) == _WRITING | {"CreateTopic"}

    setup = _kafka({}, "setup")
    assert _words(setup["kafkaTopics"]) == {"DescribeTopic", "CreateTopic"}
    assert setup["kafkaTopics"]["Resource"] == [
        f"{_PLACEHOLDER.format('topic')}/uploads-offsets",
        f"{_PLACEHOLDER.format('topic')}/events",
    ]


@pytest.mark.parametrize(
    ("options", "topics"), [({}, "orders"), ({"topics": None, "topics.regex": "a.*"}, "*")]
)
def test_a_sink_on_msk_reads_its_topics(options: dict[str, str | None], topics: str) -> None:
    """And has the group of its offsets beside that of its lead."""
    found = _kafka(_SINK | options)

    assert found["kafkaRead"]["Resource"] == f"{_PLACEHOLDER.format('topic')}/{topics}"
    assert _words(found["kafkaRead"]) == {"DescribeTopic", "ReadData"}
    assert "kafkaWrite" not in found
    assert found["kafkaGroups"]["Resource"] == [
        f"{_PLACEHOLDER.format('group')}/headrace-uploads",
        f"{_PLACEHOLDER.format('group')}/uploads",
    ]


def test_without_iam_nothing_of_kafka_is_in_the_policy() -> None:
    """Kafka's own ACLs are no policy's."""
    for options in ({}, _SINK):
        text = json.dumps(policies(configured(options)))
        assert "kafka-cluster" not in text


@pytest.mark.parametrize(
    ("options", "arn"),
    [(_IAM, "arn:aws:kafka:eu-west-1:1:cluster/a"), (_IAM, "*"), ({}, _ARN.format("cluster"))],
)
def test_an_arn_that_names_no_cluster_is_refused(options: dict[str, str | None], arn: str) -> None:
    """Or one where no client logs in by IAM."""
    with pytest.raises(InvalidConfiguration, match="--cluster-arn"):
        policies(configured(options), cluster=arn)


def test_what_is_to_be_filled_in_is_said(tmp_path: Path) -> None:
    """Beside the document, which stays JSON."""
    result = _policy(tmp_path, _IAM, "--for", "run")
    assert "CLUSTER and UUID" in result.stderr
    assert json.loads(result.stdout)["Version"]
    assert _policy(tmp_path, _IAM, "--cluster-arn", _ARN.format("cluster")).stderr == ""


def test_a_worker_on_msk_needs_its_own_names(tmp_path: Path) -> None:
    """As the ACLs of a worker in docs/security.md; it calls nothing else."""
    file = tmp_path / "worker.properties"
    options = {**_IAM, "group.id": "crew", "config.storage.topic": "kept"}
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))

    result = CliRunner().invoke(app, ["policy", str(file), "--for", "worker"])
    assert "CLUSTER and UUID" in result.stderr
    statements = json.loads(result.stdout)["Statement"]
    found = {each["Sid"]: each for each in statements}
    assert (
        found["kafkaTransactions"]["Resource"] == f"{_PLACEHOLDER.format('transactional-id')}/worker-crew-*"
    )
    assert found["kafkaGroups"]["Resource"] == f"{_PLACEHOLDER.format('group')}/headrace-worker-crew"
    assert found["kafkaLedger"]["Resource"] == f"{_PLACEHOLDER.format('topic')}/kept"
    assert _words(found["kafkaLedger"]) == _WRITING | {"CreateTopic"}
    assert set(found) == {"kafkaCluster", "kafkaTransactions", "kafkaGroups", "kafkaLedger"}

    arn = _ARN.format("cluster")
    filled = CliRunner().invoke(app, ["policy", str(file), "--worker", "--cluster-arn", arn, "--json"])
    assert json.loads(filled.stdout)["worker"]["Statement"][0]["Resource"] == arn
    assert filled.stderr == ""


def test_a_worker_without_iam_needs_nothing_of_a_policy(tmp_path: Path) -> None:
    """And what is of a connector's file is refused next to a worker's."""
    file = tmp_path / "worker.json"
    file.write_text('{"bootstrap.servers": "b:1"}')

    result = CliRunner().invoke(app, ["policy", str(file), "--worker"])
    assert result.output == "# for `headrace worker`, next to those of its connectors: nothing\n"
    alone = CliRunner().invoke(app, ["policy", str(file), "--for", "worker"])
    assert (alone.exit_code, alone.stdout) == (0, "")
    assert alone.stderr.startswith(
        "Nothing is needed for `headrace worker`, next to those of its connectors:"
    )
    for arguments in (["--for", "run"], ["--set", "a=b"], ["--worker-config", str(file)]):
        refused = CliRunner().invoke(app, ["policy", str(file), "--worker", *arguments])
        assert refused.exception is not None
        assert "connector's own file" in str(refused.exception)


def test_a_document_without_a_statement_is_a_sentence(tmp_path: Path) -> None:
    """AWS refuses one."""
    check = _policy(tmp_path, {}, "--for", "check")
    source = {"topics": None, "topic": "a", "file.name.template": ".*", "input.format": "jsonl"}
    rule = _policy(tmp_path, source, "--for", "lifecycle")

    assert (check.exit_code, check.stdout, rule.exit_code, rule.stdout) == (0, "", 0, "")
    assert check.stderr.startswith("Nothing is needed for `headrace check`, next to that of run: ")
    assert rule.stderr.startswith("Nothing is needed of the lifecycle of a source's bucket: ")
    assert json.loads(_policy(tmp_path, {}, "--for", "lifecycle").stdout)["Rules"]


def _policy(folder: Path, options: dict[str, str | None], *arguments: str) -> Any:
    base = {"name": "a", "bootstrap.servers": "b:1", "aws.s3.bucket.name": "bucket", "topics": "orders"}
    given = {**base, "aws.s3.region": "eu-west-1", **options}
    there = {name: text for name, text in given.items() if text is not None}
    (folder / "sink.json").write_text(json.dumps(there))
    return CliRunner().invoke(app, ["policy", str(folder / "sink.json"), *arguments])


def test_each_bucket_of_a_list_is_in_each_statement() -> None:
    """A move within the buckets goes to a prefix of each."""
    changes = {"aws.s3.bucket.name": "one,two", "aws.s3.prefix": "in/", "post.action": "move:done/"}
    found = policies(configured(changes))
    resources = {one["Sid"]: one["Resource"] for each in found.values() for one in each["Statement"]}

    for sid in ("list", "check", "setup"):
        assert resources[sid] == ["arn:aws:s3:::one", "arn:aws:s3:::two"]
    for sid in ("objects", "moveFrom"):
        assert resources[sid] == ["arn:aws:s3:::one/in/*", "arn:aws:s3:::two/in/*"]
    assert resources["moveTo"] == ["arn:aws:s3:::one/done/*", "arn:aws:s3:::two/done/*"]


def test_an_inventory_is_read_from_its_own_folder() -> None:
    """That of the manifests and of the files, each once."""
    urls = ("s3://inv/a/bucket/all/2026-01-31T01-00Z/manifest.json", "s3://inv/a/bucket/all/x/manifest.json")
    found = policies(configured({"initial.inventory": ",".join(urls)}))["run"]["Statement"]
    (inventory,) = [each for each in found if each["Sid"] == "inventory"]

    assert (inventory["Action"], inventory["Resource"]) == (
        ["s3:GetObject"],
        "arn:aws:s3:::inv/a/bucket/all/*",
    )
    found = policies(configured({"initial.inventory": "s3://inv/manifest.json"}))["run"]["Statement"]
    assert "arn:aws:s3:::inv/*" in [each["Resource"] for each in found]


def _resources(options: dict[str, str | None]) -> list[str]:
    """All ARNs that the documents of a configuration name."""
    statements = [
        each for part in policies(configured(options)).values() for each in part.get("Statement", [])
    ]
    named = [each["Resource"] for each in statements]
    return [arn for each in named for arn in ([each] if isinstance(each, str) else each) if arn != "*"]


_GLUE: dict[str, str | None] = {
    "value.converter": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
    "input.format": "avro",
}


@pytest.mark.parametrize(
    ("region", "host", "partition"),
    [
        ("eu-west-1", "amazonaws.com", "aws"),
        ("cn-north-1", "amazonaws.com.cn", "aws-cn"),
        ("us-gov-west-1", "amazonaws.com", "aws-us-gov"),
        ("us-iso-east-1", "c2s.ic.gov", "aws-iso"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {"post.action": "delete", "include.existing": "false"},
        {"post.action": "move:s3://cold/done/", "initial.inventory": "s3://inv/a/bucket/all/1/manifest.json"},
        {"post.action": "tag:a=b", "input.layout": "confluent", "file.name.template": None},
        _IAM,
        _GLUE,
        _SINK | _IAM | {"sqs.queue.url": None},
        _SINK | {"aws.s3.sse": "aws:kms", "takeover.indexes": ".indexes"},
    ],
)
def test_arns_are_of_the_regions_partition(
    options: dict[str, str | None], region: str, host: str, partition: str
) -> None:
    """China and GovCloud have ARNs of their own, and IAM there refuses others."""
    queue = {"sqs.queue.url": f"https://sqs.{region}.{host}/123456789012/queue"}
    brokers = {"bootstrap.servers": f"b-1.orders.abc.c2.kafka.{region}.{host}:9098"}
    found = _resources(queue | options | brokers | {"aws.s3.region": region})

    assert {arn.split(":")[1] for arn in found} == {partition}
    assert any(arn.startswith(f"arn:{partition}:s3:::bucket") for arn in found)
