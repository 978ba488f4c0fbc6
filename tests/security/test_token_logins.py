"""Log-ins by tokens at a real broker, whose validation is Kafka's own or a copy of what MSK does."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from bench.stage import Service
from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.kafka_clients import (
    new_admin,
    new_consumer,
    new_idempotent_producer,
    new_transactional_producer,
)
from headrace.kafka.tokens import login_problem
from headrace.model.errors import AccessDenied, Unavailable
from headrace.options import Settings
from tests.headrace.options.loading import load_with
from tests.security.token_broker import KEYS, REGION, TokenBroker, token_broker
from tests.support import aws, kafka
from tests.support.credential_service import CredentialService
from tests.support.http_serving import QuietHandler, serving
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

_IAM: Final = "software.amazon.msk.auth.iam"
_OIDC: Final = "org.apache.kafka.common.security.oauthbearer"
# How long a connection lives before it has to log in again.
_REAUTHENTICATE_MS: Final = 3_000
_LONG_LIVED: Final = {
    "aws.access.key.id": "AKIALONGLIVED",
    "aws.secret.access.key": KEYS["AKIALONGLIVED"],
    "aws.s3.region": REGION,
}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    """The broker of this file's tests."""
    with token_broker(tmp_path_factory.mktemp("tokens"), reauthenticate_ms=_REAUTHENTICATE_MS) as made:
        yield made


@pytest.fixture
def topic(tokens: TokenBroker) -> str:
    """A topic of a test's own."""
    name = aws.unique("rows")
    admin = new_admin({"bootstrap.servers": tokens.broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def _exchange(settings: Settings, topic: str) -> None:
    """Write a record with a producer of each kind, find the topic, and read the records."""
    transactional = new_transactional_producer(settings.kafka.client("producer"), aws.unique("writer"))
    transactional.init_transactions(60)
    transactional.begin_transaction()
    transactional.produce(topic, b"one")
    transactional.commit_transaction(60)
    idempotent = new_idempotent_producer(settings.kafka.client("producer"))
    idempotent.produce(topic, b"two")
    assert idempotent.flush(60) == 0
    assert KafkaAdmin(settings.kafka.client("admin")).has_topic(topic)
    consumer = new_consumer(
        settings.kafka.client("consumer"), {"group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []

    def read() -> bool:
        found.extend(one.value() for one in consumer.consume(10, 0.2) if one.error() is None)
        return len(found) >= 2

    until_sync(read, seconds=60, what="two records")
    consumer.close()
    assert found == [b"one", b"two"]


@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param({"sasl.mechanism": "AWS_MSK_IAM"}, id="mechanism"),
        pytest.param(
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f"{_IAM}.IAMLoginModule required;",
                "sasl.client.callback.handler.class": f"{_IAM}.IAMClientCallbackHandler",
            },
            id="Java's",
        ),
        pytest.param(
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{_OIDC}.OAuthBearerLoginModule required;",
                "sasl.login.callback.handler.class": f"{_IAM}.IAMOAuthBearerLoginCallbackHandler",
                "sasl.client.callback.handler.class": f"{_IAM}.IAMOAuthBearerLoginCallbackHandler",
            },
            id="Java's OAUTHBEARER",
        ),
    ],
)
def test_iam_signatures_are_believed_of_every_client(
    tokens: TokenBroker, topic: str, spelled: dict[str, str]
) -> None:
    """With the connector's own keys; the broker computes each signature again."""
    _exchange(load_with(tokens.options(tokens.iam, **spelled) | _LONG_LIVED), topic)


def test_a_role_is_assumed_and_its_keys_are_renewed(tokens: TokenBroker, topic: str) -> None:
    """That of the JAAS entry, at the STS of the connector; one that refuses is access denied at once."""
    with CredentialService() as service:
        role = "arn:aws:iam::123456789012:role/brokers"
        options = tokens.options(
            tokens.iam,
            **{
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f'{_IAM}.IAMLoginModule required awsRoleArn="{role}";',
                "aws.sts.config.endpoint": service.url,
            },
        )
        settings = load_with(options | _LONG_LIVED)

        with pytest.raises(AccessDenied, match=f"no token to log in with.*{role}"):
            new_admin(settings.kafka.client("admin"))
        assert "the role cannot be assumed" in login_problem(settings.kafka)["log-in"]

        service.grant(seconds=60)

        def has_it() -> bool:
            try:
                new_admin(settings.kafka.client("admin"))
            except AccessDenied:
                return False
            return True

        until_sync(has_it, what="the failure is asked again")
        assert login_problem(settings.kafka) == {}
        _exchange(settings, topic)
        assert service.asked["AssumeRole"] > 2


def test_other_keys_are_refused_in_one_sentence(tokens: TokenBroker) -> None:
    """By the broker, and quickly."""
    wrong = _LONG_LIVED | {"aws.secret.access.key": "another"}
    settings = load_with(tokens.options(tokens.iam, **{"sasl.mechanism": "AWS_MSK_IAM"}) | wrong)

    with pytest.raises(AccessDenied, match=r"Correct security\.protocol, sasl\.\*"):
        KafkaAdmin(settings.kafka.client("admin")).cluster_id()


class _Renewing:
    """A file whose token is replaced, by one that lives so long, until it is held."""

    def __init__(self, tokens: TokenBroker, file: Path, *, seconds: float) -> None:
        self._tokens, self.file, self._seconds = tokens, file, seconds
        self._held, self._over = threading.Event(), threading.Event()
        self.renew()
        self._thread = threading.Thread(target=self._run)

    def renew(self, *, seconds: float | None = None) -> None:
        """Write another token."""
        made = self.file.with_suffix(".new")
        made.write_text(self._tokens.issuer.token(seconds=seconds or self._seconds))
        made.replace(self.file)

    def hold(self) -> None:
        """Renew it no more."""
        self._held.set()

    def resume(self) -> None:
        """Renew it again."""
        self._held.clear()

    def _run(self) -> None:
        while not self._over.wait(self._seconds / 4):
            if not self._held.is_set():
                self.renew()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Renew it meanwhile."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


class _Writing:
    """Writes a number in a transaction of its own, and another .., until it is stopped; from a thread."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self.committed = 0
        self.seconds: list[float] = []
        self.failed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self._producer.init_transactions(60)
        while not self._over.is_set():
            begun = time.monotonic()
            self._producer.begin_transaction()
            self._producer.produce(self._topic, str(self.committed).encode())
            self._repeat(self._producer.commit_transaction)
            self.committed += 1
            self.seconds.append(time.monotonic() - begun)

    def _repeat(self, call: Callable[[float], None]) -> None:
        while True:
            try:
                return call(1.0)
            except Exception as error:
                if not error.args[0].retriable():
                    self.failed.append(str(error))
                    raise

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write meanwhile."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


def _file_options(tokens: TokenBroker, file: Path) -> dict[str, Any]:
    return tokens.options(
        tokens.jwt,
        **{
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{_OIDC}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        },
    )


def test_producing_does_not_pause_while_tokens_end(tokens: TokenBroker, topic: str, tmp_path: Path) -> None:
    """Tokens of eight seconds, connections that log in again each three; and a client that rests has one.

    Shorter ones would make sessions of less than a second, after which no broker lets clients log in again.
    """
    token = _Renewing(tokens, tmp_path / "token", seconds=8)
    settings = load_with(_file_options(tokens, token.file))
    writing = _Writing(
        new_transactional_producer(settings.kafka.client("producer"), aws.unique("writer")), topic
    )
    resting = new_idempotent_producer(settings.kafka.client("producer"))
    begun = time.monotonic()

    with token.running(), writing.running():
        until_sync(lambda: time.monotonic() - begun > 18, seconds=30, what="two tokens' life")
        # Not polled since it was made: its first token is long over.
        resting.produce(topic, b"rested")
        # Less than the ten seconds after which librdkafka asks again for a token.
        assert resting.flush(8) == 0

    assert writing.failed == []
    # Waiting for a token lasts until connections log in again, which is each three seconds, and would come
    # with each token; a busy machine may hold one transaction up.
    assert sorted(writing.seconds)[-2] < 3.0, "no transaction waited for a token"
    rows = [row.value for row in kafka.read_committed(topic, bootstrap=tokens.broker.bootstrap)]
    rows.remove(b"rested")
    assert rows == [str(number).encode() for number in range(writing.committed)]


def test_a_renewal_that_fails_is_a_problem_until_one_works(tokens: TokenBroker, tmp_path: Path) -> None:
    """A client asks again by itself; meanwhile nobody believes it, and a new one says why."""
    token = _Renewing(tokens, tmp_path / "token", seconds=8)
    settings = load_with(_file_options(tokens, token.file))
    admin = KafkaAdmin(settings.kafka.client("admin"), timeout=6)
    cluster = admin.cluster_id()

    until_sync(lambda: login_problem(settings.kafka), seconds=60, what="a renewal that fails")
    assert "whose token has ended" in login_problem(settings.kafka)["log-in"]
    with pytest.raises(AccessDenied, match="whose token has ended"):
        new_idempotent_producer(settings.kafka.client("producer"))
    # librdkafka asks again ten seconds after it was refused.
    token.renew(seconds=60)

    def is_answered() -> bool:
        with contextlib.suppress(AccessDenied, Unavailable):
            return admin.cluster_id() == cluster
        return False

    until_sync(lambda: not login_problem(settings.kafka), seconds=60, what="the problem is over")
    until_sync(is_answered, seconds=60, what="an answer to the same client")


def _run_through_refusal(
    tokens: TokenBroker,
    folder: Path,
    options: dict[str, Any],
    *,
    refuse: Callable[[], None],
    grant: Callable[[], None],
) -> None:
    """Ingest by a real service before, while and after log-ins fail: each row once, a problem between."""
    name, topic, bucket = aws.unique("tokens"), aws.unique("rows"), aws.new_bucket()
    admin = new_admin({"bootstrap.servers": tokens.broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    rest = {
        "aws.s3.endpoint": aws.address(),
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "aws.s3.bucket.name": bucket,
        "include.existing": "true",
        "poll.interval.ms": "1000",
        "topic": topic,
        "file.name.template": ".*",
        "input.format": "jsonl",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "state.dir": str(folder / "state"),
        "tasks.max": 1,
    }
    service = Service(folder, name, options | rest)

    def ingest(number: int) -> None:
        aws.s3().put_object(Bucket=bucket, Key=f"{number}", Body=b'{"a":%d}' % number)

    def rows() -> list[bytes | None]:
        return [one.value for one in kafka.read_committed(topic, bootstrap=tokens.broker.bootstrap)]

    ingest(1)
    service.start(ready_seconds=300)
    try:
        until_sync(lambda: len(rows()) == 1, seconds=60, what="a row")
        refuse()
        until_sync(lambda: "log-in" in service.status()["problems"], seconds=60, what="the problem")
        assert not service.is_ready()
        ingest(2)
        grant()
        until_sync(service.is_ready, seconds=180, what="ready again")
        ingest(3)
        until_sync(lambda: len(rows()) >= 3, seconds=180, what="all rows")
        assert "log-in" not in service.status()["problems"]
    finally:
        assert service.stop() == 0
    assert rows() == [b'{"a":1}', b'{"a":2}', b'{"a":3}']
    assert "renew the file" in service.log.read_text()


@pytest.mark.long  # two services, and tokens that end
def test_a_service_survives_tokens_that_are_not_renewed(tokens: TokenBroker, tmp_path: Path) -> None:
    """Driver, tasks and administration in all their processes."""
    token = _Renewing(tokens, tmp_path / "token", seconds=8)
    with token.running():
        _run_through_refusal(
            tokens, tmp_path, _file_options(tokens, token.file), refuse=token.hold, grant=token.resume
        )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "which cannot be read: No such file or directory"),
        ("a.b", "which holds no JSON Web Token with an end"),
        ("e30.e30.e30", "which holds no JSON Web Token with an end"),
        ("e30.eyJleHAiOjF9.e30", "whose token has ended .* s ago: renew the file"),
        (b"\xff", "which cannot be read: it is no text"),
    ],
)
def test_a_file_without_a_good_token_is_named(
    tokens: TokenBroker, tmp_path: Path, text: str | bytes | None, sentence: str
) -> None:
    """Before anybody is asked."""
    file = tmp_path / "token"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    settings = load_with(_file_options(tokens, file))

    with pytest.raises(AccessDenied, match=sentence):
        new_consumer(settings.kafka.client("consumer"), {"group.id": "g"})


def test_client_credentials_at_a_token_endpoint(tokens: TokenBroker, topic: str) -> None:
    """OIDC as librdkafka has it, in Java's words; the endpoint sees id and secret."""
    asked: list[str] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            asked.append(str(self.headers["authorization"]))
            token = tokens.issuer.token(seconds=8)
            body = f'{{"access_token": "{token}", "token_type": "bearer", "expires_in": 8}}'
            self.answer(200, body.encode(), {"content-type": "application/json"})

    with serving(Handler) as url:
        options = tokens.options(
            tokens.jwt,
            **{
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{_OIDC}.OAuthBearerLoginModule required clientId=me clientSecret=s;",
                "sasl.login.callback.handler.class": f"{_OIDC}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
            },
        )
        _exchange(load_with(options), topic)
    assert set(asked) == {"Basic bWU6cw=="}
