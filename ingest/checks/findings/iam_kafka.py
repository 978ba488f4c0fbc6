"""What IAM has to allow on an MSK cluster that this configuration logs in to by IAM. Pure."""

import re
from typing import Any, Final

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import printable
from headrace.options import Settings
from headrace.options.token_logins import IamLogin, token_login
from headrace.options.transforms.routing import known_topics

Statement = dict[str, Any]

_CLUSTER: Final = re.compile(r"arn:aws[a-z-]*:kafka:[a-z0-9-]+:\d{12}:cluster/[^/\s*]+/[^/\s*]+")
_READ: Final = ("DescribeTopic", "ReadData")
_WRITE: Final = (*_READ, "WriteData", "DescribeTopicDynamicConfiguration")


def cluster_of(settings: Settings, given: str | None) -> str | None:
    """The ARN of the cluster, with words in capitals for what the configuration does not say.

    None where no client logs in by IAM. InvalidConfiguration for an ARN that is not a cluster's.
    """
    login = _login(settings)
    if given is None:
        return None if login is None else f"arn:aws:kafka:{login.region}:ACCOUNT:cluster/CLUSTER/UUID"
    if _CLUSTER.fullmatch(given) is None:
        raise InvalidConfiguration(
            f"--cluster-arn {printable(given)!r} is not the ARN of an MSK cluster. "
            "`aws kafka list-clusters-v2` prints it: arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID."
        )
    if login is None:
        raise InvalidConfiguration(
            "--cluster-arn is for a cluster with AWS IAM, and no client of this configuration logs in by it. "
            "Leave it out, or set sasl.mechanism=AWS_MSK_IAM."
        )
    return given


def _login(settings: Settings) -> IamLogin | None:
    """The first client's log-in by IAM; with `admin.override.*` and the like not every client has one."""
    kafka = settings.kafka
    logins = (token_login(kafka.client(role)) for role in ("producer", "consumer", "admin"))
    return next((each for each in logins if isinstance(each, IamLogin)), None)


def run_statements(settings: Settings, cluster: str) -> list[Statement]:
    """For `run`: the table of ACLs in docs/security.md in MSK's words."""
    name, sink = settings.name, settings.sink
    groups = [settings.identity.group_id, *([] if sink is None else [sink.group_id])]
    ledger = settings.kafka.ledger_topic
    found = [
        _allow("kafkaCluster", ["Connect", "WriteDataIdempotently"], [cluster]),
        _allow(
            "kafkaTransactions",
            ["DescribeTransactionalId", "AlterTransactionalId"],
            _named(cluster, "transactional-id", [f"{name}-*"]),
        ),
        _allow("kafkaGroups", ["DescribeGroup", "AlterGroup"], _named(cluster, "group", groups)),
        _allow("kafkaLedger", [*_WRITE, "CreateTopic"], _named(cluster, "topic", [ledger])),
    ]
    if sink is not None:
        read = _named(cluster, "topic", list(sink.topics.names) or ["*"])
        found.append(_allow("kafkaRead", list(_READ), read))
    if written := _written(settings):
        creates = ["CreateTopic"] if settings.kafka.topic_creation is not None else []
        found.append(_allow("kafkaWrite", [*_WRITE, *creates], _named(cluster, "topic", written)))
    return found


def setup_statements(settings: Settings, cluster: str) -> list[Statement]:
    """For `setup`: to make the topics that the configuration names, and the ledger."""
    topics = [settings.kafka.ledger_topic, *(each for each in _written(settings) if each != "*")]
    return [
        _allow("kafkaConnect", ["Connect"], [cluster]),
        _allow("kafkaTopics", ["DescribeTopic", "CreateTopic"], _named(cluster, "topic", topics)),
    ]


def _written(settings: Settings) -> list[str]:
    """The topics that records and dead letters go to; `*` where keys or records name them."""
    found: dict[str, None] = {}
    if settings.sink is None:
        topic = settings.routing.topic
        topics = frozenset[str]() if topic is None else known_topics(settings.transforms, topic)
        found |= dict.fromkeys(sorted(topics) or ["*"])
    if (dead := settings.errors.dead_letter) is not None:
        found[dead.topic] = None
    return ["*"] if "*" in found else list(found)


def _named(cluster: str, kind: str, names: list[str]) -> list[str]:
    """The ARNs of topics, groups or transactional ids, which begin as the cluster's does."""
    return [f"{cluster.replace(':cluster/', f':{kind}/')}/{name}" for name in dict.fromkeys(names)]


def _allow(sid: str, actions: list[str], places: list[str]) -> Statement:
    resource = places[0] if len(places) == 1 else places
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Action": [f"kafka-cluster:{each}" for each in actions],
        "Resource": resource,
    }
