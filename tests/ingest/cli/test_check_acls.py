import json

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.ingest.cli.cli_environment import Scene
from tests.support import kafka

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own


def test_transactions_and_writes_that_the_broker_forbids(
    scene: Scene, own_broker: kafka.BrokerFactory
) -> None:
    """Each is found by itself, with the ACL that is missing."""
    broker = own_broker(
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
    )
    address = broker.bootstrap
    scene.topic = kafka.new_topic("acl", bootstrap=address)
    scene.options["bootstrap.servers"] = address
    admin = AdminClient({"bootstrap.servers": address})
    denied = [
        (ResourceType.TRANSACTIONAL_ID, scene.name, ResourcePatternType.PREFIXED),
        (ResourceType.TOPIC, scene.topic, ResourcePatternType.LITERAL),
    ]
    for kind, name, pattern in denied:
        for operation, permission in (
            (AclOperation.WRITE, AclPermissionType.DENY),
            (AclOperation.DESCRIBE, AclPermissionType.ALLOW),
            (AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW),
            (AclOperation.READ, AclPermissionType.ALLOW),
        ):
            of_topics_only = operation in {AclOperation.DESCRIBE_CONFIGS, AclOperation.READ}
            if kind is ResourceType.TRANSACTIONAL_ID and of_topics_only:
                continue
            binding = AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)
            for future in admin.create_acls([binding]).values():
                future.result(60)

    lines = scene.run("check", "--json", code=3).splitlines()

    failed = {one["name"]: one["remedy"] for one in map(json.loads, lines) if one["verdict"] == "fail"}
    assert failed.keys() == {"transactions", "write"}
    assert scene.name in failed["transactions"]
    assert scene.topic in failed["write"]
