"""What commands answer, and make, where the ledger is not there yet, gone, or made again."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.kafka_clients import client_properties
from headrace.model.errors import InvalidConfiguration, InvalidLedger
from ingest.cli.configuration import read_settings
from tests.ingest.cli.cli_environment import Scene
from tests.support import kafka
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


def _admin(scene: Scene) -> KafkaAdmin:
    return KafkaAdmin(client_properties(read_settings(scene.file, sets=(), worker_config=None)).admin)


@contextmanager
def _refused(scene: Scene, *arguments: str) -> Iterator[str]:
    result = scene.result(*arguments)
    assert isinstance(result.exception, InvalidLedger), result.output
    yield str(result.exception)


def test_mark_makes_nothing_before_the_answer(scene: Scene) -> None:
    """There is no terminal to answer at: the topic was there all the same."""
    scene.put("in/1")

    assert isinstance(scene.result("mark").exception, InvalidConfiguration)

    assert not _admin(scene).has_topic(scene.ledger)


def test_a_ledger_that_was_made_again_is_reported_by_all(scene: Scene) -> None:
    """Not as an empty one, of which everything is new; and marked over once that is accepted."""
    scene.put("in/1")
    scene.put("in/2")
    scene.asked("mark", "--key", "in/1", "--yes")
    admin = _admin(scene)
    kafka.delete_topic(scene.ledger)
    until_sync(lambda: not admin.has_topic(scene.ledger))
    assert "is gone" in scene.asked("plan")["problem"]
    admin.create_topic(
        scene.ledger, partitions=1, replication_factor=None, configuration={"cleanup.policy": "compact"}
    )
    until_sync(lambda: admin.has_topic(scene.ledger))

    sentence = scene.asked("plan")["problem"]

    assert "was deleted and made again" in sentence
    assert "not the one that the group remembers" in scene.run("plan")
    assert scene.asked("status")["problems"] == {"ledger": sentence}
    assert scene.asked("mark", "--dry-run")["problem"] == sentence
    for command in (("mark", "--yes"), ("replay", "--dry-run")):
        with _refused(scene, *command) as said:
            assert said == sentence
    shape = scene.asked("mark", "--key", "in/1", "--accept-new-ledger", "--yes")
    assert (shape["outcome"], shape["problem"]) == ("applied_here", None)
    # A command that died after its marks, before the acceptance, is given once more: it chooses them again.
    again = scene.asked("mark", "--key", "in/1", "--accept-new-ledger", "--yes")
    assert (again["outcome"], again["objects"]) == ("applied_here", 1)
    planned = scene.asked("plan")
    assert planned["problem"] is None
    assert planned["total"]["done"]["objects"] == 1
