"""A second broker in the cluster of a first one, so that topics can have two replicas and lose one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import HOST, free_port
from tests.support.aws import unique
from tests.support.until import until_sync


@contextmanager
def second_broker(first: Broker, folder: Path) -> Iterator[Broker]:
    """Broker number 2 of the first one's cluster, running; it can be killed and started again.

    What is to stay available while it is away (groups, transactions) has to have been used before.
    """
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    cluster_id = admin.list_topics(timeout=60).cluster_id
    port = free_port()
    controller_port = int(first.bootstrap.rpartition(":")[2]) + 1
    broker = Broker(
        folder=folder,
        jar_folder=JAR_FOLDER,
        port=port,
        properties={
            "process.roles": "broker",
            "node.id": "2",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        },
        # The last one given counts.
        format_options=[f"--cluster-id={cluster_id}"],
    )
    try:
        broker.start()
        until_sync(lambda: len(admin.list_topics(timeout=60).brokers) == 2, seconds=60, what="two brokers")
        yield broker
    finally:
        broker.kill()


def topic_of_two(stem: str, bootstrap: str) -> str:
    """The name of a new topic whose one partition is on both brokers, which both have to acknowledge."""
    name = unique(stem)
    wanted = NewTopic(
        name, num_partitions=1, replica_assignment=[[1, 2]], config={"min.insync.replicas": "2"}
    )
    # Held by a name: a client that is collected takes its unanswered questions with it.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([wanted])[name].result(60)
    await_in_sync(name, {1, 2}, bootstrap)
    return name


def await_in_sync(topic: str, brokers: set[int], bootstrap: str) -> None:
    """Wait until just these brokers have all of the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def in_sync() -> set[int]:
        return {
            broker
            for partition in admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
            for broker in partition.isrs
        }

    until_sync(lambda: in_sync() == brokers, seconds=60, what=f"{topic} in sync on {brokers}")
