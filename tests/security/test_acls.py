"""docs/security.md's ACLs are enough for every command, and each one is needed: taken away, it is missed."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AclOperation,
)
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from ingest.cli.app import app
from tests.security.listed import listed
from tests.security.tls_environment import Acl, Guarded, guarded_broker
from tests.support import aws

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own, and services by the dozen

HEADRACE: Final = str(Path(sys.executable).with_name("headrace"))
USER: Final = "ingester"
WORDS: Final = {
    AclOperation.READ: "Read",
    AclOperation.WRITE: "Write",
    AclOperation.DESCRIBE_CONFIGS: "DescribeConfigs",
}
NAMES: Final = {"NAME": "least", "TOPIC": "least-rows", "DEAD-LETTERS": "least-dead"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker with one user, and the output topics."""
    with guarded_broker(tmp_path_factory.mktemp("guarded"), {USER: "its-password"}) as made:
        yield made


@dataclass(slots=True, kw_only=True)
class Trial:
    """A configuration for that user, on a bucket of its own; everything is asked of `headrace` itself."""

    guarded: Guarded
    folder: Path
    bucket: str

    def file(self, **changes: object) -> Path:
        """The configuration, written."""
        options: dict[str, object] = self.guarded.options(USER) | {
            "name": NAMES["NAME"],
            "aws.s3.endpoint": aws.address(),
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "topic": NAMES["TOPIC"],
            "file.name.template": ".*",
            "input.format": "jsonl",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": NAMES["DEAD-LETTERS"],
            "state.dir": str(self.folder / "state"),
            "http.listen": "",
            "tasks.max": 1,
        }
        file = self.folder / "least.json"
        file.write_text(json.dumps(options | changes))
        return file

    def run(self, verb: str, *arguments: str, **changes: object) -> subprocess.CompletedProcess[str]:
        """A command in a process of its own, from its start to its end."""
        argv = [HEADRACE, verb, str(self.file(**changes)), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=170)

    def check(self) -> str:
        """What `check` prints as JSON, run in this process."""
        handlers = logging.getLogger().handlers[:]
        try:
            return CliRunner().invoke(app, ["check", str(self.file()), "--json"]).stdout
        finally:
            structlog.reset_defaults()
            logging.getLogger().handlers[:] = handlers

    def must(self, verb: str, *arguments: str, **changes: object) -> str:
        """What a command prints that ends well."""
        done = self.run(verb, *arguments, **changes)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def make_topics(self, *names: str) -> None:
        """Topics made by a super user."""
        for made in self.guarded.admin.create_topics([NewTopic(one, 1, 1) for one in names]).values():
            made.result(60)

    def drop_topics(self) -> None:
        """Away with all topics of these names."""
        there = self.guarded.admin.list_topics(timeout=60).topics.keys()
        gone = sorted({NAMES["TOPIC"], NAMES["DEAD-LETTERS"], f"{NAMES['NAME']}-offsets"} & there)
        if gone:
            for dropped in self.guarded.admin.delete_topics(gone).values():
                dropped.result(60)


@pytest.fixture
def trial(guarded: Guarded, tmp_path: Path, bucket: str) -> Iterator[Trial]:
    """A user without any right."""
    aws.s3().put_object(Bucket=bucket, Key="in/1", Body=b'{"row":1}\n{"bad":\n')
    made = Trial(guarded=guarded, folder=tmp_path, bucket=bucket)
    yield made
    guarded.forbid_all(USER)
    made.drop_topics()


def _acls() -> list[Acl]:
    return listed("ACLs", NAMES)


def _creates() -> list[Acl]:
    return listed("ACLs for what is missing", NAMES)


def test_every_command_works_with_the_listed_acls_and_no_other(trial: Trial) -> None:
    """From a first start that makes its ledger to a replay; topics are there."""
    trial.make_topics(NAMES["TOPIC"], NAMES["DEAD-LETTERS"])
    trial.guarded.allow(USER, [*_acls(), next(one for one in _creates() if "offsets" in one.name)])

    trial.must("setup")
    trial.must("check")
    trial.must("run", "--until-idle")
    trial.must("plan")
    assert json.loads(trial.must("status", "--json"))["objects"]["done"] == 1
    replayed = json.loads(trial.must("replay", "--from-start", "--key", "in/1", "--yes", "--json"))
    assert replayed["outcome"] == "applied_here"
    aws.s3().put_object(Bucket=trial.bucket, Key="in/2", Body=b"{}\n")
    assert json.loads(trial.must("mark", "--key", "in/2", "--yes", "--json"))["objects"] == 1
    trial.must("run", "--until-idle")
    assert json.loads(trial.must("status", "--json"))["objects"]["done"] == 2


def test_setup_and_run_make_topics_with_the_rights_to_create(trial: Trial) -> None:
    """Named one by one: no right on the cluster is needed."""
    trial.guarded.allow(USER, [*_acls(), *_creates()])

    assert trial.must("setup").count("create topic") == 2
    trial.must("run", "--until-idle")


@pytest.fixture
def ready(trial: Trial) -> Trial:
    """The trial with topics and a ledger, so that nothing has to be made."""
    trial.make_topics(NAMES["TOPIC"], NAMES["DEAD-LETTERS"])
    ledger = NewTopic(f"{NAMES['NAME']}-offsets", 1, 1, config={"cleanup.policy": "compact"})
    trial.guarded.admin.create_topics([ledger])[ledger.topic].result(60)
    return trial


def _case(acl: Acl) -> Any:
    return pytest.param(acl, id=f"{acl.operation.name} on {acl.kind.name} {acl.name}")


@pytest.mark.parametrize("acl", [_case(one) for one in _acls()])
def test_check_names_a_missing_acl(ready: Trial, acl: Acl) -> None:
    """The resource is in a finding that fails, and that finding says what to allow."""
    ready.guarded.allow(USER, [one for one in _acls() if one != acl])

    lines = ready.check().splitlines()

    [failed] = [one for one in map(json.loads, lines) if one["verdict"] == "fail"]
    assert repr(acl.name) in failed["remedy"]
    assert WORDS[acl.operation] in failed["remedy"]


@pytest.mark.parametrize("acl", [_case(one) for one in _acls()])
def test_run_does_not_start_without_an_acl_and_says_which(ready: Trial, acl: Acl) -> None:
    """With exit code 3 and a sentence that names the resource."""
    ready.guarded.allow(USER, [one for one in _acls() if one != acl])

    done = ready.run("run", "--until-idle", "--startup-timeout", "5")

    last = done.stderr.splitlines()[-1]
    assert done.returncode == 3
    assert acl.name in last
