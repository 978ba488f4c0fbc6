from dataclasses import replace
from typing import Any

import pytest

from headrace.kafka.control_records import TargetState
from headrace.model.errors import Exit
from ingest.checks.findings.bucket_findings import TopicSample
from ingest.checks.findings.finding import Cause, Finding, Refused, Verdict, exit_of
from ingest.checks.findings.kafka_findings import KafkaFacts, TopicFacts, held_back
from ingest.cli.check import kafka_findings
from tests.ingest.checks.findings.configured import configured

TOPIC = TopicFacts(
    partitions=4, max_message_bytes=1_048_588, cleanup_policy="delete", may_read=True, may_write=True
)
LEDGER = replace(TOPIC, partitions=1, cleanup_policy="compact")
MISSING = Refused(Cause.MISSING, "unknown topic")


def _facts(**changes: Any) -> KafkaFacts:
    facts: dict[str, Any] = {
        "cluster": "id",
        "wanted": {"events": TopicSample(partition=3, key="k-3")},
        "topics": {"events": TOPIC},
        "ledger": LEDGER,
        "memory": None,
        "transactions": True,
        "group": True,
    }
    return KafkaFacts(**{**facts, **changes})


def _found(facts: KafkaFacts, options: dict[str, str] | None = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in kafka_findings(configured(options), facts)}


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
@pytest.mark.parametrize("listen", [{}, {"rest.listen": "127.0.0.1:8083"}])
def test_one_that_was_paused_does_nothing(target: TargetState, listen: dict[str, str]) -> None:
    """`run` warns of it and waits; `plan` has it in the same words. A service may not have the interface."""
    found = _found(_facts(target=target), listen)["target"]

    assert found.verdict is Verdict.WARN
    assert f"'uploads' is {target}" in found.sentence
    assert found.remedy is not None
    assert "PUT /connectors/uploads/resume" in found.remedy
    assert ("with rest.listen" in found.remedy) is not bool(listen)
    problem = held_back(configured(listen), target)
    assert problem is not None
    assert problem.endswith(found.remedy)
    assert held_back(configured(), TargetState.RUNNING) is None


def test_all_is_well() -> None:
    """Each finding says so."""
    found = _found(_facts())

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert set(found) == {"brokers", "topic", "partitions", "record size", "group", "ledger", "transactions"}


@pytest.mark.parametrize(
    ("changes", "options", "name", "verdict", "exit_code", "remedy"),
    [
        pytest.param(
            {"cluster": Refused(Cause.UNREACHED, "no answer")},
            {},
            "brokers",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "bootstrap.servers",
            id="no broker",
        ),
        pytest.param(
            {"topics": {"events": MISSING}},
            {},
            "topic",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "topic.creation.default",
            id="topic missing",
        ),
        pytest.param(
            {"topics": {"events": MISSING}, "wanted": {"events": TopicSample(partition=0, key="k-4")}},
            {"topic": None, "file.name.template": "{{topic}}"},
            "topic",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "correct how keys are read (file.name.template",
            id="a key names a topic that is missing",
        ),
        pytest.param(
            {"topics": {"events": MISSING}, "wanted": {"events": None}},
            {"topic": None, "sqs.queue.url": None, "file.name.template": None, "topics": "orders"},
            "topic",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "Create it (`headrace setup` does).",
            id="a topic that a sink needs",
        ),
        pytest.param(
            {"topics": {"events": Refused(Cause.DENIED, "no")}},
            {},
            "topic",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "Describe",
            id="topic not to be described",
        ),
        pytest.param(
            {"wanted": {"events": TopicSample(partition=4, key="k-4")}},
            {},
            "partitions",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "5 partitions",
            id="partitions too few",
        ),
        pytest.param(
            {"topics": {"events": MISSING}, "wanted": {"events": TopicSample(partition=4, key="k-4")}},
            {"topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "1"},
            "partitions",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "5 partitions",
            id="partitions too few in a topic to be made",
        ),
        pytest.param(
            {},
            {"record.max.bytes": "2000000"},
            "record size",
            Verdict.WARN,
            Exit.DONE,
            "max.message.bytes",
            id="the broker's limit below record.max.bytes",
        ),
        pytest.param(
            {"topics": {"events": replace(TOPIC, cleanup_policy="compact")}},
            {"key.source": "none"},
            "keys",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "key.source",
            id="a compacted topic and no keys",
        ),
        pytest.param(
            {
                "topics": {"events": TOPIC, "dead": replace(TOPIC, cleanup_policy="compact,delete")},
                "wanted": {"events": None, "dead": None},
            },
            {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"},
            "keys",
            Verdict.WARN,
            Exit.DONE,
            "cleanup.policy=delete on it",
            id="a compacted topic of dead letters",
        ),
        pytest.param(
            {"topics": {"events": replace(TOPIC, refused_before_ms=3_600_000)}},
            {"record.timestamp": "object"},
            "record times",
            Verdict.WARN,
            Exit.DONE,
            "message.timestamp.before.max.ms",
            id="times that the topic refuses",
        ),
        pytest.param(
            {"topics": {"events": replace(TOPIC, retention_ms=604_800_000)}},
            {"file.name.template": None, "topic": None, "input.layout": "auto"},
            "record times",
            Verdict.WARN,
            Exit.DONE,
            "retention.ms=-1",
            id="times that the topic deletes, of a restore",
        ),
        pytest.param(
            {"topics": {"events": replace(TOPIC, may_write=False)}},
            {},
            "write",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "Allow Write",
            id="no write permission",
        ),
        pytest.param(
            {"topics": {"events": replace(TOPIC, may_read=False)}},
            {},
            "read",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "Allow Read on topic 'events'",
            id="no read permission",
        ),
        pytest.param(
            {"group": False},
            {},
            "group",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "Allow Read on group 'headrace-uploads'",
            id="no right to lead",
        ),
        pytest.param(
            {"group": Refused(Cause.UNREACHED, "no coordinator")},
            {},
            "group",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "offsets.topic",
            id="no coordinator",
        ),
        pytest.param(
            {"ledger": replace(LEDGER, cleanup_policy="delete")},
            {},
            "ledger",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "cleanup.policy=compact",
            id="ledger not compacted",
        ),
        pytest.param(
            {"ledger": replace(LEDGER, partitions=3)},
            {},
            "ledger",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "offsets.storage.topic",
            id="ledger with partitions",
        ),
        pytest.param(
            {"ledger": replace(LEDGER, may_read=False)},
            {},
            "ledger",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "Allow Read and Write",
            id="ledger not to be read",
        ),
        pytest.param(
            {"ledger": Refused(Cause.DENIED, "no")},
            {},
            "ledger",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "Describe",
            id="ledger not to be described",
        ),
        pytest.param(
            {"memory": "The group keeps its checkpoints elsewhere."},
            {},
            "ledger",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "names both",
            id="a foreign ledger",
        ),
        pytest.param(
            {"transactions": Refused(Cause.DENIED, "no")},
            {},
            "transactions",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "prefix 'uploads-'",
            id="transactions not allowed",
        ),
        pytest.param(
            {"transactions": Refused(Cause.UNREACHED, "timed out")},
            {},
            "transactions",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "transaction.state.log",
            id="transactions not possible",
        ),
        pytest.param(
            {"transactions": None},
            {},
            "transactions",
            Verdict.WARN,
            Exit.DONE,
            "exactly.once.support",
            id="transactions switched off",
        ),
    ],
)
def test_what_is_wrong_is_found_with_its_remedy(
    changes: dict[str, Any],
    options: dict[str, str],
    name: str,
    verdict: Verdict,
    exit_code: Exit,
    remedy: str,
) -> None:
    """One finding each, and no other turns bad with it."""
    found = _found(_facts(**changes), options)

    assert found[name].verdict is verdict
    assert remedy in (found[name].remedy or "")
    assert exit_of(found.values()) is exit_code
    assert [one.name for one in found.values() if one.verdict is not Verdict.OK] == [name]


def test_what_run_makes_by_itself_is_no_fault() -> None:
    """A ledger before the first start, and a topic that is created when it is missing."""
    creation = {"topic.creation.default.partitions": "4", "topic.creation.default.replication.factor": "1"}

    found = _found(_facts(ledger=MISSING, topics={"events": MISSING}), creation)

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}


@pytest.mark.parametrize("partition", ["original", "modulo", "partitioner"])
def test_partitions_of_a_restore_may_fold(partition: str) -> None:
    """Only `original` needs as many as the names say, and is told of the others."""
    options = {"input.layout": "aiven", "restore.partition": partition}
    seen = _facts(wanted={"events": TopicSample(partition=4, key="k-4")})
    found = _found(seen, options).get("partitions")

    if partition != "original":
        assert found is None
    else:
        assert found is not None
        assert found.remedy is not None
        assert found.remedy.startswith("Give the topic 5 partitions, or set restore.partition to modulo")


def test_a_wrong_configuration_counts_for_more_than_what_is_not_usable() -> None:
    """`run` looks at the configuration first, too."""
    found = _found(_facts(topics={"events": MISSING}, transactions=Refused(Cause.DENIED, "no")))

    assert exit_of(found.values()) is Exit.CONFIGURATION


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        pytest.param(replace(TOPIC, cleanup_policy="compact"), {}, id="keys of objects"),
        pytest.param(replace(TOPIC, retention_ms=1, refused_before_ms=1), {}, id="times of producing"),
        pytest.param(
            replace(TOPIC, cleanup_policy="compact", retention_ms=1),
            {
                "file.name.template": None,
                "topic": None,
                "input.layout": "auto",
                "restore.timestamp": "produce",
            },
            id="a restore with its keys and without its times",
        ),
    ],
)
def test_what_a_topic_takes_is_nothing_to_look_at(topic: TopicFacts, options: dict[str, str]) -> None:
    """Neither keys nor times are a finding where they fit."""
    assert not {"keys", "record times"} & set(_found(_facts(topics={"events": topic}), options))


def test_nothing_is_said_of_a_limit_that_brokers_do_not_report() -> None:
    """Brokers of other makers may leave max.message.bytes out."""
    silent = replace(TOPIC, max_message_bytes=None)

    assert "record size" not in _found(_facts(topics={"events": silent}))
