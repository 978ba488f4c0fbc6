import json
import threading
from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaException

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import encode_control
from headrace.kafka.driver_ledger import prepare_ledger
from headrace.kafka.fencing import command_id, driver_id
from headrace.kafka.kafka_clients import ClientProperties, client_properties, new_transactional_producer
from headrace.kafka.ledger_reader import LedgerReader
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import BytePosition
from ingest.cli.configuration import read_settings
from ingest.cli.submit import SubmitOutcome, write_commands
from ingest.source.command_queue import new_commands
from tests.ingest.cli.cli_environment import Scene
from tests.ingest.cli.leading import leading
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

BAD = LedgerEntry(
    state=State.QUARANTINED,
    reason="not_json",
    records=3,
    position=BytePosition(24),
    options="h",
    topic="t",
    size=40,
    last_modified_ms=1_700_000_000_000,
    error="line 4",
    updated_ms=5,
)
DONE = LedgerEntry(state=State.DONE, records=10, topic="t", size=50, last_modified_ms=1_800_000_000_000)


def _entries(scene: Scene) -> Mapping[ObjectId, LedgerEntry]:
    return {
        ObjectId(scene.bucket, "in/bad", "e1"): BAD,
        ObjectId(scene.bucket, "in/done", "e2"): DONE,
        ObjectId(scene.bucket, "out/done", "e3"): DONE,
    }


def _filled(scene: Scene) -> None:
    """A ledger as a driver of the past left it."""
    clients = _clients(scene)
    prepare_ledger(clients, name=scene.name, topic=scene.ledger)
    producer = new_transactional_producer(clients.producer, driver_id(scene.name))
    producer.init_transactions(60)
    producer.begin_transaction()
    for key, entry in _entries(scene).items():
        producer.produce(scene.ledger, key=encode_key(key), value=encode_entry(entry), partition=0)
    producer.commit_transaction(60)


def _clients(scene: Scene) -> ClientProperties:
    return client_properties(read_settings(scene.file, sets=(), worker_config=None))


def _states(scene: Scene) -> dict[str, str]:
    shape = scene.asked("status", *(f"--state={state}" for state in State))
    return {entry["key"]: entry["state"] for entry in shape["entries"]}


def _reading(scene: Scene) -> LedgerReader:
    return LedgerReader(_clients(scene), name=scene.name, topic=scene.ledger, timeout=60)


def test_status_of_a_ledger_that_nobody_leads(scene: Scene) -> None:
    """Counts, the objects asked for with all that is known of them, and the last error."""
    _filled(scene)

    shape = scene.asked("status", "--state", "quarantined")

    assert (shape["source"], shape["role"]) == ("ledger", "stopped")
    assert (shape["objects"]["done"], shape["objects"]["quarantined"]) == (2, 1)
    assert shape["last_error"] == "line 4"
    [shown] = shape["quarantined"]
    assert (shown["key"], shown["reason"], shown["error"]) == ("in/bad", "not_json", "line 4")
    [entry] = shape["entries"]
    assert entry["key"] == "in/bad"
    assert (entry["reason"], entry["records"], entry["position"]) == ("not_json", 3, {"byte": 24})
    assert entry["stopped_at"] == "byte 24"
    said = scene.run("status", "--key", "in/bad")
    assert "quarantined (not_json)  in/bad" in said
    assert "    stopped at byte 24\n" in said


def test_status_before_the_first_start_and_while_another_process_leads(scene: Scene) -> None:
    """No ledger is no error; a leader is seen by its membership, though its address does not answer here."""
    assert scene.asked("status")["role"] == "stopped"

    with leading(scene):
        assert scene.asked("status")["role"] == "leader"


def test_a_dry_run_changes_nothing_and_a_refusal_to_ask_neither(scene: Scene) -> None:
    """Without a terminal `--yes` has to be said."""
    _filled(scene)

    shape = scene.asked("replay", "--dry-run")

    assert [chosen["key"] for chosen in shape["chosen"]] == ["in/bad"]
    assert shape["outcome"] == "nothing"
    refused = scene.result("replay")
    assert refused.exit_code == 1
    assert "--yes" in str(refused.exception)
    assert _states(scene)["in/bad"] == "quarantined"


def test_replay_with_nobody_leading_takes_the_lead_and_leaves(scene: Scene) -> None:
    """From where the object stopped, and the next one leads at once."""
    _filled(scene)

    shape = scene.asked("replay", "--yes")

    assert shape["outcome"] == SubmitOutcome.APPLIED_HERE
    assert shape["records_repeated"] == 0
    entry = scene.asked("status", "--key", "in/bad")["entries"][0]
    assert (entry["state"], entry["records"], entry["position"]) == ("new", 3, {"byte": 24})
    with leading(scene):
        assert scene.asked("replay", "--yes")["objects"] == 0, "it is asked for already"


def test_replay_from_the_start_says_how_many_records_repeat(scene: Scene) -> None:
    """What is done needs it; a selection has to be given."""
    _filled(scene)

    assert scene.result("replay", "--from-start", "--yes").exit_code == 1
    assert scene.result("replay", "--state", "done", "--yes").exit_code == 1
    shape = scene.asked("replay", "--from-start", "--prefix", "in/", "--yes")

    assert (shape["objects"], shape["records_repeated"]) == (2, 13)
    assert _states(scene) == {"in/bad": "new", "in/done": "new", "out/done": "done"}
    entry = scene.asked("status", "--key", "in/bad")["entries"][0]
    assert (entry["records"], entry["position"]) == (0, None)


def test_a_leader_applies_what_it_is_handed_once(scene: Scene) -> None:
    """The command's record is gone afterwards, and a second leader finds nothing to repeat."""
    _filled(scene)
    with leading(scene) as leader, leader.applying():
        shape = scene.asked("replay", "--from-start", "--key", "in/done", "--yes")
        assert shape["outcome"] == SubmitOutcome.APPLIED_BY_LEADER

    assert leader.written == [ObjectId(scene.bucket, "in/done", "e2")]
    with leading(scene) as second, second.applying():
        assert _states(scene)["in/done"] == "new"
    assert second.written == []
    with _reading(scene) as reading:
        assert not any(key.name.startswith("command:") for key in reading.cache.controls())


def test_a_leader_that_goes_before_it_applied_leaves_the_command_to_us(scene: Scene) -> None:
    """The command sees that nobody leads any more, leads itself, and finds its own order in the ledger."""
    _filled(scene)
    answers: list[str] = []
    with leading(scene) as leader:
        command = threading.Thread(
            target=lambda: answers.append(scene.run("replay", "--key", "in/bad", "--yes", "--json"))
        )
        command.start()
        # It never applies anything, and goes once it has seen that it was asked.
        cache = leader.ledger.cache
        until_sync(
            lambda: any(key.name.startswith("command:") for key in cache.controls()),
            seconds=60,
            what="the order in the ledger",
        )
    command.join()

    assert json.loads(answers[0])["outcome"] == SubmitOutcome.APPLIED_HERE
    assert _states(scene)["in/bad"] == "new"


def test_what_a_sender_that_died_left_open_is_ended_by_the_next(scene: Scene) -> None:
    """And never applied: it was not committed. Readers are held back no longer than until then."""
    _filled(scene)
    lost = S3Object(id=ObjectId(scene.bucket, "out/done", "e3"), size=1, last_modified_ms=1)
    [(key, order)] = new_commands("replay", [lost], states=[State.DONE], from_start=True, at_ms=1)
    with leading(scene) as leader, leader.applying():
        dead = new_transactional_producer(_clients(scene).producer, command_id(scene.name))
        dead.init_transactions(60)
        dead.begin_transaction()
        dead.produce(scene.ledger, key=encode_key(key), value=encode_control(order), partition=0)
        dead.flush(60)

        shape = scene.asked("replay", "--key", "in/bad", "--yes")

        with pytest.raises(KafkaException):
            dead.commit_transaction(60)
    assert shape["outcome"] == SubmitOutcome.APPLIED_BY_LEADER
    assert leader.written == [ObjectId(scene.bucket, "in/bad", "e1")]


def test_orders_are_sent_all_or_none_and_seen_by_a_live_reading(scene: Scene) -> None:
    """Two at once are one transaction: their offsets follow each other, with one marker behind."""
    clients = _clients(scene)
    prepare_ledger(clients, name=scene.name, topic=scene.ledger)
    objects = [
        S3Object(id=ObjectId(scene.bucket, f"k{n:04}", "e"), size=1, last_modified_ms=1) for n in range(1500)
    ]
    letters = new_commands("mark", objects, at_ms=1)
    assert len(letters) == 2
    with _reading(scene) as reading:
        _, before = KafkaAdmin(clients.admin).ends(scene.ledger)

        write_commands(clients, reading, letters, name=scene.name, topic=scene.ledger, timeout=60)

        # Seen means that the marker is written: the broker answers a commit before it has.
        assert reading.wait_for(lambda: all(reading.has_seen(key) for key, _ in letters), 60)
        _, after = KafkaAdmin(clients.admin).ends(scene.ledger)
        assert after - before == 3


def test_mark_before_the_first_start_makes_the_ledger(scene: Scene) -> None:
    """Then `plan` counts the objects as done; folder markers are left out as `run` leaves them out."""
    for key in ("in/1", "in/2", "later/1", "in/"):
        scene.put(key)
    assert scene.asked("mark", "--prefix", "in/", "--dry-run")["objects"] == 2
    assert scene.asked("plan")["ledger"] is None

    shape = scene.asked("mark", "--prefix", "in/", "--yes")

    assert (shape["objects"], shape["states"]) == (2, {"unknown": 2})
    planned = scene.asked("plan")
    assert planned["ledger"] == scene.ledger
    assert planned["total"]["done"] == {"objects": 2, "bytes": 16}
    assert planned["total"]["pending"]["objects"] == 1
    assert planned["left_out"]["folder"]["examples"] == ["in/"]
    assert scene.asked("mark", "--prefix", "in/", "--yes")["objects"] == 0, "they are done already"


def test_mark_outside_the_prefix_is_refused(scene: Scene) -> None:
    """No object there is ever ingested."""
    scene.options["aws.s3.prefix"] = "in/"

    assert "aws.s3.prefix" in str(scene.result("mark", "--key", "out/1", "--yes").exception)


def test_plan_by_topic_partition(scene: Scene) -> None:
    """Objects and bytes of each, archived and empty ones apart, examples of what does not match."""
    scene.options |= {"topic": None, "file.name.template": "{{topic}}-{{partition}}"}
    for key in ("orders-0", "orders-0/second", "orders-1", "strange"):
        scene.put(key)
    scene.put("orders-2", b"")
    scene.put("orders-3", StorageClass="GLACIER")

    shape = scene.asked("plan")

    pending = {(p["topic"], p["partition"]): p["pending"]["objects"] for p in shape["partitions"]}
    assert pending == {("orders", 0): 2, ("orders", 1): 1, ("orders", 2): 0, ("orders", 3): 0}
    assert shape["total"]["skipped"]["objects"] == 2
    assert shape["archived"]["examples"] == ["orders-3"]
    assert shape["left_out"]["unmatched"]["examples"] == ["strange"]
    text = scene.run("plan")
    assert "left out: 1 (8 B) do not match file.name.template" in text
    assert "skipped until they are restored" in text
