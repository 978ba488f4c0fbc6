"""`post.action` of a running ingester: after the commit, after a crash too, never without having read."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import aws
from tests.support.proxy import Answer, Proxy
from tests.support.run import start_run
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

# The large object is read in splits, whose end the driver writes.
OPTIONS: Final[dict[str, Any]] = {
    "aws__s3__prefix": "in/",
    "ordering": "none",
    "job__max__bytes": 300_000,
    "job__linger__ms": 0,
    "lead__session__timeout__ms": 6000,
}


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """A route with three objects, one of them large enough to be split."""
    made = new_route(tmp_path)
    for name in ("a", "b"):
        made.upload(f"in/{name}.jsonl", rows(name, 3))
    made.upload("in/large.jsonl", rows("large", 40_000))
    return made


def _keys(route: Route) -> list[str]:
    return [each["Key"] for each in aws.s3().list_objects_v2(Bucket=route.bucket).get("Contents", ())]


def _run_until_idle(route: Route, **options: object) -> tuple[int, str]:
    given: dict[str, Any] = {**OPTIONS, **options}
    if str(options.get("post__action")).partition(":")[0] in {"delete", "move"}:
        given["post__action__unconditional"] = "true"
    run = start_run(route, "--until-idle", name="acting", **given)
    try:
        return run.process.wait(280), run.log.read_text()
    finally:
        run.end()


@pytest.mark.long
def test_objects_move_once_they_are_in_kafka(route: Route) -> None:
    """What was moved is not read again, though it lies under the prefix that is read."""
    code, log = _run_until_idle(route, post__action="move:in/done/")

    assert code == 0, log[-2000:]
    assert _keys(route) == ["in/done/a.jsonl", "in/done/b.jsonl", "in/done/large.jsonl"]
    assert route.account() == (0, 0)

    code, log = _run_until_idle(route, post__action="move:in/done/")
    assert code == 0, log[-2000:]
    assert route.account() == (0, 0)


def test_what_a_crash_has_left_is_done_by_the_next_start(route: Route) -> None:
    """The ledger says what is owed; S3 refuses every tag until the process is killed with -9."""
    with Proxy(aws.address().removeprefix("http://")) as proxy:
        proxy.on(Answer(status=403), when=lambda asked: asked.method == "PUT" and "tagging" in asked.path)
        options: dict[str, Any] = OPTIONS | {
            "aws__s3__endpoint": proxy.url,
            "post__action": "tag:ingested=yes",
        }
        run = start_run(route, name="acting", **options)
        try:
            until_sync(
                lambda: run.events().count("post_action_failed") >= 3, seconds=120, what="three failures"
            )
        finally:
            run.end()
    assert all(not _tags(route, key) for key in _keys(route))

    code, log = _run_until_idle(route, post__action="tag:ingested=yes")

    assert code == 0, log[-2000:]
    assert all(_tags(route, key) == {"ingested": "yes"} for key in _keys(route))
    assert route.account() == (0, 0)


@pytest.mark.long
def test_objects_that_ended_before_the_option_was_set_stay(route: Route) -> None:
    """And those with bad records, which somebody may want to repair."""
    assert _run_until_idle(route)[0] == 0
    aws.s3().put_object(Bucket=route.bucket, Key="in/bad.jsonl", Body=b'{"from":"bad"}\nno json\n')
    route.upload("in/late.jsonl", rows("late", 3))

    code, log = _run_until_idle(route, post__action="delete", errors__tolerance="all")

    assert code == 0, log[-2000:]
    assert _keys(route) == ["in/a.jsonl", "in/b.jsonl", "in/bad.jsonl", "in/large.jsonl"]


def test_what_was_moved_is_not_ingested_again_without_the_option(tmp_path: Path) -> None:
    """It lies below the prefix that is read: the ledger remembers where objects were moved to."""
    route = new_route(tmp_path)
    route.upload("in/a.jsonl", rows("a", 3))
    assert _run_until_idle(route, post__action="move:in/done/")[0] == 0
    route.upload("in/b.jsonl", rows("b", 3))

    code, log = _run_until_idle(route)

    assert code == 0, log[-2000:]
    assert _keys(route) == ["in/b.jsonl", "in/done/a.jsonl"]
    assert route.account() == (0, 0)


def test_another_bucket_is_another_first_start(tmp_path: Path) -> None:
    """The start key of the first one leaves nothing of the second one out."""
    route = new_route(tmp_path)
    route.upload("in/a.jsonl", rows("a", 3), counts=False)
    route.upload("in/d.jsonl", rows("d", 3))
    assert _run_until_idle(route, native__start__key="in/c", sqs__queue__url=None)[0] == 0
    route.bucket = aws.new_bucket()
    route.upload("in/a.jsonl", rows("other", 3))

    code, log = _run_until_idle(route, sqs__queue__url=None)

    assert code == 0, log[-2000:]
    assert route.account() == (0, 0)
    assert "bucket_changed" in log


def _tags(route: Route, key: str) -> dict[str, str]:
    answer = aws.s3().get_object_tagging(Bucket=route.bucket, Key=key)
    return {each["Key"]: each["Value"] for each in answer["TagSet"]}


def test_another_prefix_is_another_first_start(tmp_path: Path) -> None:
    """The start key of the first one leaves nothing of the second one out; listings began there."""
    route = new_route(tmp_path)
    route.upload("z/5.jsonl", rows("left", 3), counts=False)
    route.upload("z/6.jsonl", rows("z", 3))
    route.upload("a/1.jsonl", rows("a", 3))
    first = {"native__start__key": "z/5.jsonl", "aws__s3__prefix": "z/", "sqs__queue__url": None}
    assert _run_until_idle(route, **first)[0] == 0

    code, log = _run_until_idle(route, aws__s3__prefix="a/", sqs__queue__url=None)

    assert code == 0, log[-2000:]
    assert route.account() == (0, 0)
    assert "prefix_changed" in log
