"""What every test may ask for: the real parts by address and client, and a bucket, queue or topic of its own.

Support that is imported rather than asked for is in `tests/support/` (`from tests.support.kafka import ...`);
the tree's top is on the path, and the folder is a namespace package as all test folders are.
"""

import gc
import http.client
import json
import locale
import logging
import os
import signal
import socket
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hypothesis
import pytest
import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests import long_cases
from tests.support import aws, by_group, groups, kafka, source_tree, worker_reports
from tests.support.worker_process import WorkerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef
    from mypy_boto3_sqs import SQSClient

_TESTS: Final = Path(__file__).parent

# Cores are shared with a broker, with LocalStack and with Spark: a slow example says nothing.
_SLOW: Final[dict[str, Any]] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
# The same examples each time: what a run says is of the tree alone. New ones are drawn by `make test-all`.
hypothesis.settings.register_profile("default", max_examples=12, derandomize=True, **_SLOW)
hypothesis.settings.register_profile("long", max_examples=100, **_SLOW)
hypothesis.settings.load_profile("default")


# What is collected stays: looking through it again and again takes a fifth of the CPU of a collection.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Let garbage be collected from now on, that of the tests alone.

    And less often than Python does, which takes a twentieth of their CPU.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a worker of xdist alone."""
    worker_reports.tell_less(session.config)


# Of the process when a test begins.
_handlers: Final[list[logging.Handler]] = []


def pytest_runtest_logstart() -> None:
    """Keep where it logs to, see `_own_logging`."""
    _handlers[:] = logging.getLogger().handlers


def _own_logging() -> None:
    """Undo what a command has set up: its stream is this test's, and is closed when the next one logs.

    No fixture, which takes a sixth of a test that does nothing.
    """
    if structlog.is_configured():
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = _handlers


@cache
def _kafka_problem() -> str | None:
    """Why no test can use the broker, found once; None when it answers."""
    host, _, port = kafka.address().partition(",")[0].rpartition(":")
    try:
        # Where nobody listens it is known at once; a busy broker takes its time.
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
        admin = AdminClient({"bootstrap.servers": kafka.address(), "log_level": 0})
        admin.list_topics(timeout=_ANSWER_SECONDS)
    except (OSError, KafkaException):
        return f"no Kafka broker answers at {kafka.address()}; run `make up`, or set HEADRACE_TEST_KAFKA"
    return None


@cache
def _localstack_problem() -> str | None:
    """Why no test can use LocalStack, found once; None when it answers."""
    address = urllib.parse.urlsplit(aws.address()).netloc
    connection = http.client.HTTPConnection(address, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/_localstack/health")
        json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return f"no LocalStack answers at {aws.address()}; run `make up`, or set HEADRACE_TEST_S3"
    finally:
        connection.close()
    return None


def _has_locale() -> bool:
    """Whether the machine has the locale that the environment names."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        return False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return True


# Every bash that is started would say so: one that came by ssh, and is installed elsewhere only.
if not _has_locale():
    os.environ["LC_ALL"] = "C.UTF-8"  # noqa: TID251  # of what tests start
# Under nohup a hang-up is ignored, by children as well; tests send some.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
# A run that is ended tears its fixtures down, as after Ctrl-C: brokers and services would go on without it.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# What is found is kept for all tests of a worker: one slow answer must not be taken for a part that is away.
_ANSWER_SECONDS: Final = 120.0
# What is wrong in these tables; the test fails for it, as xdist swallows what a worker's collection raises.
_PROBLEM: Final = pytest.StashKey[str]()
# What deals groups out to workers of xdist.
_DEALER: Final = pytest.StashKey[Any]()
# What closes what a group shares.
_OPEN: Final = pytest.StashKey[ExitStack]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler of groups for `--dist loadscope`."""
    if config.getoption("dist") != "loadscope":
        return None
    dealer = config.stash[_DEALER] = groups.scheduler(config, log)
    return dealer


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that passed without all of its groups.

    A worker that ends in the middle of a group (a file that leaves Python when it is imported) is an internal
    error of xdist, which prints it and forgets what the worker had to run.
    """
    dealer = session.config.stash.get(_DEALER, None)
    judged = {pytest.ExitCode.OK, pytest.ExitCode.INTERNAL_ERROR}
    if dealer is None or exitstatus not in judged or not (left := dealer.left()):
        return
    session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f"\nNot run to its end, so the run fails: {', '.join(left)}", red=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """The name of a value where the value itself would be another one at each collection."""
    return long_cases.case_name(val, argname)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker whether it collects each group when it runs it."""
    node.workerinput["by_group"] = by_group.is_possible(node.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect groups in place of tests where they are dealt out to workers."""
    if getattr(session.config, "workerinput", {}).get("by_group"):
        session.genitems = partial(by_group.files, session)  # type: ignore[method-assign]  # the one way in
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run the tests of a group."""
    if not isinstance(item, by_group.Group):
        return None
    by_group.run(item, nextitem)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the long cases, and put the tests in groups, the longest first of services and of units."""
    if dealt := [item for item in items if isinstance(item, by_group.Group)]:
        items[:] = by_group.joined(dealt)
        return
    tests = []
    for item in items:
        test, _, case = item.nodeid.removeprefix(f"{_TESTS.name}/").partition("[")
        tests.append((test, case.removesuffix("]")))
        if long_cases.is_long(*tests[-1]):
            item.add_marker("long")
        shared = set(groups.SHARING).intersection(getattr(item, "fixturenames", ()))
        if used := shared - {groups.group_of(item.nodeid)}:
            where = "tests/support/groups.py"
            item.stash[_PROBLEM] = f"{where}: {test} uses {used.pop()}, add its file to SHARING"
    if items and not any("::" in one for one in config.args) and (found := long_cases.stale(tests)):
        # Of one that is not long, if there is any: long ones are left out by `make test`.
        shows = min(items, key=lambda item: item.get_closest_marker("long") is not None)
        shows.stash[_PROBLEM] = "tests/long_cases.py: " + "; ".join(found)

    place = {group: groups.turn(group) for group in {groups.group_of(item.nodeid) for item in items}}
    items.sort(key=lambda item: (place[groups.group_of(item.nodeid)], groups.place_within(item.nodeid)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Say in a sentence why a run that picked nothing is no success."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.write_line(
            "No test was picked, so nothing was tried (exit code 5): correct PYTEST_ARGS or the path; a test "
            "that is long runs with `make test-all`, or with -m long."
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, not skip, a test that needs a part that does not answer: a skipped one would look like a pass."""
    if (problem := item.stash.get(_PROBLEM, None)) is not None:
        pytest.fail(problem, pytrace=False)
    if item.get_closest_marker("parts") is not None:
        for problem in (_kafka_problem(), _localstack_problem()):
            if problem is not None:
                pytest.fail(problem, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close what the tests of a group share behind the last of them."""
    try:
        yield
    finally:
        _own_logging()
    is_last = nextitem is None or groups.group_of(nextitem.nodeid) != groups.group_of(item.nodeid)
    if is_last:
        source_tree.forget()
    if is_last and (opened := item.config.stash.get(_OPEN, None)) is not None:
        opened.close()


@pytest.fixture(scope="session")
def kafka_bootstrap() -> str:
    """`host:port` of the shared broker."""
    if (problem := _kafka_problem()) is not None:
        pytest.fail(problem, pytrace=False)
    return kafka.address()


@pytest.fixture(scope="session")
def s3_endpoint() -> str:
    """The URL of LocalStack: S3, SQS, SNS and EventBridge."""
    if (problem := _localstack_problem()) is not None:
        pytest.fail(problem, pytrace=False)
    return aws.address()


@pytest.fixture(scope="session")
def s3(s3_endpoint: str) -> "Iterator[S3Client]":
    """A boto3 client of S3."""
    client = aws.s3(s3_endpoint)
    yield client
    client.close()


@pytest.fixture(scope="session")
def sqs(s3_endpoint: str) -> "Iterator[SQSClient]":
    """A boto3 client of SQS."""
    client = aws.sqs(s3_endpoint)
    yield client
    client.close()


@pytest.fixture
def bucket(s3: "S3Client") -> Iterator[str]:
    """The name of a new bucket, which is emptied of all versions and removed afterwards."""
    name = aws.unique("bucket")
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
        versions = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if versions:
            # In one request: one for each takes LocalStack and us 5 ms of CPU.
            gone: list[ObjectIdentifierTypeDef] = [
                {"Key": one["Key"], "VersionId": one["VersionId"]} for one in versions
            ]
            s3.delete_objects(Bucket=name, Delete={"Objects": gone, "Quiet": True})
    s3.delete_bucket(Bucket=name)


@pytest.fixture
def queue(sqs: "SQSClient") -> Iterator[str]:
    """The URL of a new queue, which is removed afterwards."""
    url = sqs.create_queue(QueueName=aws.unique("queue"))["QueueUrl"]
    yield url
    sqs.delete_queue(QueueUrl=url)


@pytest.fixture
def topic(kafka_bootstrap: str) -> Iterator[kafka.TopicFactory]:
    """A factory of topics: `topic()`, `topic("flights", partitions=4, config={...})`."""
    made: list[str] = []

    def make(stem: str = "topic", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        made.append(kafka.new_topic(stem, partitions=partitions, config=config, bootstrap=kafka_bootstrap))
        return made[-1]

    yield make
    for name in made:
        kafka.delete_topic(name, bootstrap=kafka_bootstrap)


@pytest.fixture(scope="session")
def for_the_group(pytestconfig: pytest.Config) -> Iterator[ExitStack]:
    """What closes what a group of tests shares behind the last of them: idle, it uses CPU as well."""
    with ExitStack() as stack:
        pytestconfig.stash[_OPEN] = stack
        yield stack


@pytest.fixture(scope="session")
def shared_worker(
    tmp_path_factory: pytest.TempPathFactory, kafka_bootstrap: str, for_the_group: ExitStack
) -> WorkerProcess:
    """A `headrace worker` for connectors of many tests, see `tests.support.hosted`; killed at the end."""
    worker = WorkerProcess(
        folder=tmp_path_factory.mktemp("worker"),
        group=aws.unique("group"),
        options={
            "bootstrap.servers": kafka_bootstrap,
            "session.timeout.ms": "45000",
            # What Connect's worker says of flushing, and Aiven's sink closes its objects by.
            "offset.flush.interval.ms": "5000",
            # Two connectors of two slots run side by side, each slot on a core of Spark's.
            "spark.master": "local[4]",
        },
    )
    for_the_group.callback(worker.kill)
    worker.start()
    worker.await_ready()
    return worker


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.BrokerFactory]:
    """A factory of brokers that a test may configure, kill and restart; starting one takes 3 s."""
    with ExitStack() as stack:

        def make(
            *,
            properties: Mapping[str, str] | None = None,
            listeners: Mapping[str, str] | None = None,
            port: int | None = None,
        ) -> Broker:
            broker = Broker(
                folder=tmp_path_factory.mktemp("broker"),
                jar_folder=JAR_FOLDER,
                port=port or free_port(),
                properties=properties,
                listeners=listeners,
            )
            # Its data is thrown away: an end in good order takes 2 s, 0.4 of it of CPU.
            stack.callback(broker.kill)
            broker.start()
            return broker

        yield make
