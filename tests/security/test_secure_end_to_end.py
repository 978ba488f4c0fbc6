"""One service that knows many secrets, on a broker that trusts nobody, fed with hostile keys."""

import contextlib
import json
import logging
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import structlog
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from bench.stage import Service
from ingest.cli.app import app
from tests.security.leaks import family, leaked, listening, steering
from tests.security.listed import listed
from tests.security.tls_environment import Guarded, guarded_broker
from tests.support import aws, kafka
from tests.support.log_lines import written_lines
from tests.support.service import announce, send_event
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

# Letters and digits only, so that no encoding of JSON, URLs or shells changes them.
SECRETS: Final = {
    "aws.access.key.id": "AKIAq7HeadraceKeyIdQ",
    "aws.secret.access.key": "q7SecretAccessKeyOfAws",
    "aws.session.token": "q7SessionTokenOfAws",
    "the password of sasl.jaas.config": "q7PasswordOfEveryClient",
    "the password of producer.override.sasl.jaas.config": "q7PasswordOfTheProducer",
    "ssl.key.password": "q7PasswordOfTheClientsKey",
    "the password in schema.registry.url": "q7PasswordInTheUrl",
    "schema.registry.basic.auth.user.info": "q7PasswordOfTheRegistry",
    "spark.hadoop.fs.s3a.secret.key": "q7SecretOfSpark",
    "spark.executorEnv.SOME_TOKEN": "q7TokenOfExecutors",
}
HOSTILE: Final = [
    "in/new\nline 2026-01-01 ERROR forged",
    "in/\x1b[2J\x1b[31mred",
    "in/bell\x07\x08",
    "in/\x9b31m eight bits",
    "in/\u202egnp.exe",
    "in/a\u2028b\u2029c",
    "in/tab\there",
    'in/{"event":"forged"}',
    "in/" + "x" * 1021,
    "in/" + "é" * 510,
    "in/emoji \U0001f600 \u00a0",
]
GOOD, BAD = b'{"good":1}', b'{"bad":'


@dataclass(slots=True, kw_only=True)
class House:
    """The service, and everything that it can write to."""

    folder: Path
    guarded: Guarded
    service: Service
    bucket: str
    queue_url: str
    topic: str
    dead: str
    ledger: str
    printed: list[str] = field(default_factory=list)
    """What commands said."""

    def command(self, verb: str, *arguments: str, file: Path | None = None, code: int = 0) -> str:
        """All that a command prints, run in this process."""
        handlers = logging.getLogger().handlers[:]
        try:
            result = CliRunner().invoke(app, [verb, str(file or self.service.file), *arguments])
        finally:
            structlog.reset_defaults()
            logging.getLogger().handlers[:] = handlers
        assert result.exit_code == code, (result.exit_code, result.output, result.exception)
        said = result.output + ("" if result.exception is None else str(result.exception))
        self.printed.append(said)
        return said

    def page(self, path: str) -> str:
        """What an endpoint says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.service.port}{path}", timeout=60) as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker, which knows two users."""
    users = {
        "everyone": SECRETS["the password of sasl.jaas.config"],
        "producer": SECRETS["the password of producer.override.sasl.jaas.config"],
    }
    with guarded_broker(tmp_path_factory.mktemp("guarded"), users) as made:
        yield made


@pytest.fixture(scope="module")
def house(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The service with every object read, as it stands."""
    folder = tmp_path_factory.mktemp("house")
    name, topic, dead = aws.unique("secure"), aws.unique("rows"), aws.unique("dead")
    for made in guarded.admin.create_topics([NewTopic(one, 2, 1) for one in (topic, dead)]).values():
        made.result(60)
    acls = listed("ACLs", {"NAME": name, "TOPIC": topic, "DEAD-LETTERS": dead})
    creates = listed("ACLs for what is missing", {"NAME": name, "TOPIC": topic, "DEAD-LETTERS": dead})
    for user in guarded.users:
        guarded.allow(user, [*acls, *(one for one in creates if one.name == f"{name}-offsets")])
    bucket, queue_url = aws.new_bucket(), aws.new_queue()
    announce(bucket, queue_url)
    for key in HOSTILE:
        aws.s3().put_object(Bucket=bucket, Key=key, Body=b"\n".join([GOOD, BAD, GOOD]))
    (folder / "events").mkdir()
    options = guarded.options("everyone") | {
        "producer.override.sasl.jaas.config": guarded.options("producer")["sasl.jaas.config"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(guarded.authority.sign("client", password=SECRETS["ssl.key.password"])),
        "ssl.key.password": SECRETS["ssl.key.password"],
        "aws.s3.endpoint": aws.address(),
        "aws.access.key.id": SECRETS["aws.access.key.id"],
        "aws.secret.access.key": SECRETS["aws.secret.access.key"],
        "aws.session.token": SECRETS["aws.session.token"],
        "aws.s3.bucket.name": bucket,
        "sqs.queue.url": queue_url,
        "topic": topic,
        "file.name.template": ".*",
        "input.format": "jsonl",
        "record.headers": "source",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "schema.registry.url": f"http://user:{SECRETS['the password in schema.registry.url']}@127.0.0.1:1",
        "schema.registry.basic.auth.credentials.source": "USER_INFO",
        "schema.registry.basic.auth.user.info": (f"user:{SECRETS['schema.registry.basic.auth.user.info']}"),
        "spark.hadoop.fs.s3a.secret.key": SECRETS["spark.hadoop.fs.s3a.secret.key"],
        "spark.executorEnv.SOME_TOKEN": SECRETS["spark.executorEnv.SOME_TOKEN"],
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.local.dir": str(folder / "spark"),
        "state.dir": str(folder / "state"),
        "tasks.max": 2,
    }
    made_house = House(
        folder=folder,
        guarded=guarded,
        service=Service(folder, name, options),
        bucket=bucket,
        queue_url=queue_url,
        topic=topic,
        dead=dead,
        ledger=f"{name}-offsets",
    )
    with pytest.MonkeyPatch.context() as patched:
        # Temporary files are looked at as well.
        (folder / "temporary").mkdir()
        patched.setenv("TMPDIR", str(folder / "temporary"))
        made_house.service.start("--log-level", "debug", ready_seconds=300)
    # No UTF-8 at all: nothing can be fetched by such a name, and nothing may break over it.
    send_event(queue_url, bucket, [("in/%ff%fe%1b%5B31m", "0" * 32, 1)])
    try:
        until_sync(
            lambda: made_house.service.status()["objects"].get("done", 0) == len(HOSTILE),
            seconds=120,
            what=f"{len(HOSTILE)} objects done",
        )
        yield made_house
    finally:
        assert made_house.service.stop() == 0


def test_rows_and_dead_letters_arrive_over_tls_with_the_listed_rights(house: House) -> None:
    """Every good row once, every bad one in the dead letter topic, with the keys byte for byte."""
    bootstrap = house.guarded.broker.bootstrap
    rows = kafka.read_committed(house.topic, bootstrap=bootstrap)
    letters = kafka.read_committed(house.dead, bootstrap=bootstrap)

    assert sorted(row.key or b"" for row in rows) == sorted(key.encode() for key in HOSTILE for _ in range(2))
    assert {row.value for row in rows} == {GOOD}
    assert {dict(row.headers)["headrace.key"] for row in rows} == {key.encode() for key in HOSTILE}
    assert sorted(dict(one.headers)["headrace.key"] or b"" for one in letters) == sorted(
        key.encode() for key in HOSTILE
    )
    assert {one.value for one in letters} == {BAD}


def test_no_key_reaches_a_log_or_a_page_raw(house: House) -> None:
    """Each line of the log is one JSON document, and a terminal that shows log or pages stays as it is."""
    log = house.service.log.read_text()
    events = [json.loads(line) for line in written_lines(house.service.log)]

    assert sum("forged" in str(one) for one in events) >= 2, "the keys were spoken of"
    assert not [one for one in events if one.get("event") == "forged"]
    for where, text in {
        "log": log,
        "/status": house.page("/status"),
        "/metrics": house.page("/metrics"),
        "/health/ready": house.page("/health/ready"),
    }.items():
        assert steering(text) == [], where


def test_no_key_reaches_a_terminal_raw(house: House) -> None:
    """Neither as text nor as JSON, which gives every key back as it is."""
    for verb, *arguments in (
        ("status", "--state", "done"),
        ("plan",),
        ("replay", "--from-start", "--prefix", "in/", "--dry-run"),
        ("explain", *HOSTILE),
    ):
        assert steering(house.command(verb, *arguments)) == [], verb
        assert steering(house.command(verb, *arguments, "--json")) == [], verb

    shape = json.loads(house.command("replay", "--from-start", "--prefix", "in/", "--dry-run", "--json"))
    assert sorted(one["key"] for one in shape["chosen"]) == sorted(HOSTILE)
    lines = house.command("explain", *HOSTILE, "--json").splitlines()
    assert [json.loads(line)["key"] for line in lines] == HOSTILE


def test_check_passes_with_the_listed_rights(house: House) -> None:
    """And says nothing of the secrets it was given."""
    said = house.command("check")

    assert "fail" not in said
    assert "transactions are allowed" in said


@pytest.mark.long  # a client that is refused takes its time
def test_a_wrong_password_is_told_without_either(house: House) -> None:
    """The sentence names what to correct."""
    wrong = dict(json.loads(house.service.file.read_text()))
    wrong["sasl.jaas.config"] = str(wrong["sasl.jaas.config"]).replace("q7", "q7Wrong")
    file = house.folder / "wrong.json"
    file.write_text(json.dumps(wrong))

    said = house.command("check", file=file, code=3)
    file.unlink()

    assert "sasl.*" in said
    assert "q7Wrong" not in said


def test_secrets_are_nowhere(house: House) -> None:
    """Logs, pages, what commands printed, command lines, environments, files, topics, Spark's event log."""
    found = []
    for page in ("/status", "/metrics", "/health/ready", "/nowhere"):
        with contextlib.suppress(urllib.error.HTTPError):
            found += leaked(SECRETS, page, house.page(page))
    for text in (house.command("check"), house.command("status", "--json"), *house.printed):
        found += leaked(SECRETS, "what a command printed", text)
    for pid in family(house.service.pid):
        # One that has ended by now shows nothing.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            for name in ("cmdline", "environ"):
                found += leaked(SECRETS, f"{name} of process {pid}", Path(f"/proc/{pid}/{name}").read_bytes())
    # Wanted there: this option is for the environment of executors.
    found = [one for one in found if not one.startswith("spark.executorEnv.SOME_TOKEN in environ of ")]
    for topic in (house.ledger, house.topic, house.dead):
        for record in kafka.committed(topic, bootstrap=house.guarded.broker.bootstrap):
            found += leaked(SECRETS, topic, repr(record))
    # The service and Spark go on making and removing some of them.
    names = (Path(above, name) for above, _, inside in os.walk(house.folder) for name in inside)
    files = [one for one in names if one.is_file() and one != house.service.file]
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            found += leaked(SECRETS, str(file.relative_to(house.folder)), file.read_bytes())

    assert found == []
    [log] = (house.folder / "events").iterdir()
    assert "spark.hadoop.fs.s3a.secret.key" in log.read_text(), "what is hidden is named"
    looked_at = {one.relative_to(house.folder).parts[0] for one in files}
    assert {"events", "state", house.service.log.name} <= looked_at


def test_a_replay_beside_the_service_repeats_the_object_once(house: House) -> None:
    """With the same rights: the leader applies it, and the rows come a second time, not a third."""
    key = HOSTILE[0]

    shape = json.loads(house.command("replay", "--from-start", "--key", key, "--yes", "--json"))

    assert (shape["outcome"], shape["records_repeated"]) == ("applied_by_leader", 2)
    bootstrap = house.guarded.broker.bootstrap

    def count() -> int:
        return sum(row.key == key.encode() for row in kafka.committed(house.topic, bootstrap=bootstrap))

    until_sync(lambda: count() >= 4, seconds=60, what="the rows again")
    until_sync(
        lambda: house.service.status()["objects"].get("done", 0) == len(HOSTILE), seconds=60, what="done"
    )
    assert count() == 4


def test_all_that_listens_listens_on_loopback(house: House) -> None:
    """Endpoints, Spark's driver and its helpers; a port for everybody has to be asked for."""
    loopback = {"0100007F", "0" * 24 + "0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}

    found = listening(family(house.service.pid))

    assert found
    assert found <= loopback
