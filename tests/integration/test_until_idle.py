"""`run --until-idle` ends, too, when what is left waits for something outside, and names it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import aws
from tests.support.proxy import Answer, Proxy
from tests.support.run import start_run
from tests.support.service import Route, new_route, rows

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """A route with one object on it."""
    made = new_route(tmp_path)
    made.upload("a.jsonl", rows("a", 3))
    return made


def ended(route: Route, *arguments: str, **options: Any) -> tuple[int, str]:
    """Exit code and log of a run until idle."""
    run = start_run(route, "--until-idle", *arguments, **options)
    try:
        return run.process.wait(280), run.log.read_text()
    finally:
        run.end()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"sqs__queue__url": "http://127.0.0.1:{port}/queue/us-east-1/000000000000/gone"}, "does not exist"),
        ({"sqs__endpoint": "http://127.0.0.1:1", "events__fallback__after__ms": 1000}, "cannot be reached"),
    ],
    ids=["deleted", "away"],
)
def test_a_queue_that_fails(route: Route, options: dict[str, object], why: str) -> None:
    """What the listing found is in Kafka; then it waits for --startup-timeout, and no longer."""
    port = aws.address().rpartition(":")[2]
    filled = {
        name: value.format(port=port) if isinstance(value, str) else value for name, value in options.items()
    }
    code, log = ended(route, "--startup-timeout", "4", **filled)

    assert code == 3, log[-2000:]
    assert "--until-idle: what is left waits for something outside: sqs.queue.url: the queue fails: " in log
    assert why in log
    assert "Traceback" not in log
    assert route.account() == (0, 0)


@pytest.mark.long
def test_a_bucket_that_cannot_be_listed_to_its_end(route: Route) -> None:
    """Its first page came; the second never does."""
    for number in range(1000):
        aws.s3().put_object(Bucket=route.bucket, Key=f"b/{number:04}", Body=b"1\n")
    with Proxy(aws.address().removeprefix("http://")) as proxy:
        proxy.on(
            Answer(status=503),
            when=lambda request: "start-after" in request.path or "continuation-token" in request.path,
        )

        code, log = ended(
            route,
            "--startup-timeout",
            "4",
            aws__s3__endpoint=proxy.url,
            sqs__queue__url=None,
            aws__s3__backoff__max__retries=1,
        )

    assert code == 3, log[-2000:]
    assert f"waits for something outside: aws.s3.bucket.name = '{route.bucket}' cannot be listed" in log


def _restore(folder: Path) -> tuple[Route, dict[str, Any]]:
    """An archive of a sink with a delimiter of directories of its own, and a restore without it."""
    made = new_route(folder)
    name = f"{made.topic}+0+0000000000.json"
    made.upload(f"topics_{made.topic}_partition=0_{name}", rows("a", 3))
    made.upload("readme.txt", [b"none of it"], counts=False)
    return made, {
        "input__layout": "confluent",
        "input__format": None,
        "file__name__template": None,
        "topic": None,
        "sqs__queue__url": None,
        "restore__sidecars": "ignore",
    }


def test_a_restore_that_reads_no_key_is_no_success(tmp_path: Path) -> None:
    """It ended with 0."""
    made, restore = _restore(tmp_path)

    code, log = ended(made, **restore)

    assert code == 5, log[-2000:]
    assert "keys_unread" in log
    assert "input.layout=confluent reads none of 2 keys" in log
    assert "directory.delim" in log


def test_a_source_whose_template_takes_no_key_says_so(tmp_path: Path) -> None:
    """It ended in silence. Other keys may come, so it is no failure."""
    made = new_route(tmp_path)
    made.upload("readme.txt", [b"none of it"], counts=False)

    code, log = ended(made, file__name__template="orders-{{partition}}", sqs__queue__url=None)

    assert code == 0, log[-2000:]
    assert "keys_not_matched" in log
    assert "file.name.template takes none of 1 key below" in log


def test_with_the_sinks_own_delimiter_everything_comes_back(tmp_path: Path) -> None:
    """As the sentence of a restore without it says; the key that is none of the archive's is no failure."""
    made, restore = _restore(tmp_path)

    code, log = ended(made, **restore, directory__delim="_")

    assert code == 0, log[-2000:]
    assert made.account() == (0, 0)
