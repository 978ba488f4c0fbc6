"""Everything that `check` promises to find (issue 7), each produced on real parts, with its remedy."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import AccessDenied, ResourceMissing
from tests.ingest.cli.cli_environment import Scene
from tests.support import aws, kafka
from tests.support.proxy import Answer, Proxy, Request

if TYPE_CHECKING:
    from mypy_boto3_sqs.literals import QueueAttributeNameType

pytestmark = pytest.mark.parts


@dataclass(slots=True, kw_only=True)
class Stand:
    """A scene, what undoes the changes to it, and a factory of topics."""

    scene: Scene
    closing: ExitStack
    topic: kafka.TopicFactory

    def proxy(self) -> Proxy:
        """A proxy in front of S3, which the scene asks from now on."""
        made = self.closing.enter_context(Proxy(aws.address()))
        self.scene.options["aws.s3.endpoint"] = made.url
        return made

    def queue(
        self, *, region: str = aws.REGION, attributes: "dict[QueueAttributeNameType, str] | None" = None
    ) -> str:
        """The URL of a new queue, which the scene names from now on."""
        client = aws.sqs(region=region)
        url = client.create_queue(QueueName=aws.unique("checked"), Attributes=attributes or {})["QueueUrl"]
        self.closing.callback(lambda: client.delete_queue(QueueUrl=url))
        self.scene.options["sqs.queue.url"] = url
        return url

    def notify(self, queue_url: str, *, prefix: str = "") -> None:
        """Have the bucket tell the queue of what begins so."""
        rules: Any = [{"Name": "prefix", "Value": prefix}]
        aws.s3().put_bucket_notification_configuration(
            Bucket=self.scene.bucket,
            NotificationConfiguration={
                "QueueConfigurations": [
                    {
                        "QueueArn": aws.queue_arn(queue_url),
                        "Events": ["s3:ObjectCreated:*"],
                        "Filter": {"Key": {"FilterRules": rules}},
                    }
                ]
            },
        )


@pytest.fixture
def stand(scene: Scene, topic: kafka.TopicFactory) -> Iterator[Stand]:
    """A scene that is in order, with one object."""
    scene.put("in/first")
    with ExitStack() as closing:
        yield Stand(scene=scene, closing=closing, topic=topic)


def _refused(code: str, *, date: str | None = None, status: int = 403) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>as S3 says it</Message></Error>".encode()
    return Answer(status=status, body=body, headers=() if date is None else (("Date", date),))


def _is_listing(request: Request) -> bool:
    return "list-type=2" in request.path


def _is_get(request: Request) -> bool:
    return request.method == "GET" and "/in/first" in request.path


def _another_region(stand: Stand) -> None:
    name = aws.unique("away")
    s3 = aws.s3()
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    stand.closing.callback(lambda: s3.delete_bucket(Bucket=name))
    stand.scene.bucket = name


def _another_bucket(stand: Stand) -> None:
    stand.scene.bucket = aws.unique("nowhere")


def _no_credentials(stand: Stand) -> None:
    stand.proxy().on(_refused("InvalidAccessKeyId"))


def _no_list(stand: Stand) -> None:
    stand.proxy().on(_refused("AccessDenied"), when=_is_listing)


def _no_get(stand: Stand) -> None:
    stand.proxy().on(_refused("AccessDenied"), when=_is_get)


def _no_version(stand: Stand) -> None:
    aws.s3().put_bucket_versioning(Bucket=stand.scene.bucket, VersioningConfiguration={"Status": "Enabled"})
    stand.scene.put("in/first")
    stand.proxy().on(
        _refused("AccessDenied"), when=lambda request: _is_get(request) and "versionId" in request.path
    )


def _archived(stand: Stand) -> None:
    stand.scene.put("in/cold", StorageClass="GLACIER")


def _skewed(stand: Stand) -> None:
    date = formatdate(time.time() - 300, usegmt=True)
    stand.proxy().on(
        Answer(status=200, body=b"", headers=(("Date", date),)), when=lambda request: request.method == "HEAD"
    )


def _skewed_too_far(stand: Stand) -> None:
    date = formatdate(time.time() + 7200, usegmt=True)
    stand.proxy().on(_refused("RequestTimeTooSkewed", date=date))


def _queue_of_another_region(stand: Stand) -> None:
    stand.queue(region="eu-west-1")


def _queue_unnotified(stand: Stand) -> None:
    stand.queue()


def _another_queue_notified(stand: Stand) -> None:
    stand.notify(stand.queue())
    stand.queue()


def _narrow_filter(stand: Stand) -> None:
    stand.notify(stand.queue(), prefix="in/orders/")


def _short_visibility(stand: Stand) -> None:
    stand.notify(stand.queue(attributes={"VisibilityTimeout": "5"}))


def _no_topic(stand: Stand) -> None:
    stand.scene.topic = aws.unique("no-topic")


def _few_partitions(stand: Stand) -> None:
    stand.scene.topic = stand.topic(partitions=2)
    stand.scene.options |= {"topic": None, "file.name.template": "{{topic}}:{{partition}}"}
    stand.scene.put(f"{stand.scene.topic}:2")


def _ledger_that_deletes(stand: Stand) -> None:
    stand.scene.options["offsets.storage.topic"] = stand.topic()


def _large_records(stand: Stand) -> None:
    stand.scene.options["record.max.bytes"] = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is wrong, and what `check` says of it: `words` in the sentence, `remedy` below it."""

    make: Callable[[Stand], None]
    finding: str
    code: int
    words: str
    remedy: str
    is_warning: bool = False


_CASES = {
    "wrong region": Case(
        make=_another_region,
        finding="region",
        code=2,
        words="is in eu-west-1, not in us-east-1",
        remedy="Set aws.s3.region=eu-west-1.",
    ),
    "wrong bucket": Case(
        make=_another_bucket,
        finding="bucket",
        code=2,
        words="NoSuchBucket",
        remedy="Create it, or correct aws.s3.bucket.name (aws.s3.endpoint when it is not Amazon's S3).",
    ),
    "wrong credentials": Case(
        make=_no_credentials,
        finding="bucket",
        code=3,
        words="the credentials are refused",
        remedy="Correct aws.access.key.id and aws.secret.access.key, the role or the provider",
    ),
    "no list permission": Case(
        make=_no_list,
        finding="list",
        code=3,
        words="may not be listed",
        remedy="Allow s3:ListBucket on arn:aws:s3:::{bucket}",
    ),
    "no get permission": Case(
        make=_no_get,
        finding="get",
        code=3,
        words="s3://{bucket}/in/first may not be read",
        remedy="Allow s3:GetObject on arn:aws:s3:::{bucket}/*, and kms:Decrypt",
    ),
    "no version permission": Case(
        make=_no_version,
        finding="get by version",
        code=0,
        words="the bucket has versions, and they may not be read",
        remedy="Allow s3:GetObjectVersion on arn:aws:s3:::{bucket}/*",
        is_warning=True,
    ),
    "archived objects": Case(
        make=_archived,
        finding="archives",
        code=0,
        words="1 lie in an archive storage class, such as s3://{bucket}/in/cold",
        remedy="Restore those that are wanted",
        is_warning=True,
    ),
    "clock skew": Case(
        make=_skewed,
        finding="clock",
        code=0,
        words="s ahead of S3's",
        remedy="Synchronise the clock (NTP)",
        is_warning=True,
    ),
    "clock skew that S3 refuses": Case(
        make=_skewed_too_far,
        finding="clock",
        code=3,
        words="s behind S3's",
        remedy="Synchronise the clock (NTP)",
    ),
    "queue of another region": Case(
        make=_queue_of_another_region,
        finding="queue region",
        code=3,
        words="the queue is in eu-west-1, the bucket in us-east-1",
        remedy="Use a queue in us-east-1",
    ),
    "queue without this bucket's notification": Case(
        make=_queue_unnotified,
        finding="notification",
        code=3,
        words="does not tell this queue of new objects",
        remedy="`headrace setup CONFIG` adds a notification",
    ),
    "queue, and the notification goes to another": Case(
        make=_another_queue_notified,
        finding="notification",
        code=3,
        words="does not tell this queue of new objects",
        remedy="`headrace setup CONFIG` adds a notification",
    ),
    "prefix filter that hides objects": Case(
        make=_narrow_filter,
        finding="notification filter",
        code=3,
        words="only of keys beginning with 'in/orders/', and aws.s3.prefix is ''",
        remedy="Widen the filter of the notification, or narrow aws.s3.prefix",
    ),
    "visibility timeout too short": Case(
        make=_short_visibility,
        finding="visibility timeout",
        code=0,
        words="VisibilityTimeout is 5 s",
        remedy="Set the queue's VisibilityTimeout to 30 s or more",
        is_warning=True,
    ),
    "topic missing": Case(
        make=_no_topic,
        finding="topic",
        code=2,
        words="does not exist",
        remedy="Create it (`headrace setup` does), or set topic.creation.default.partitions",
    ),
    "partitions too few": Case(
        make=_few_partitions,
        finding="partitions",
        code=2,
        words="has 2 partitions, and the key '{topic}:2' names partition 2",
        remedy="Give the topic 3 partitions",
    ),
    "ledger not compacted": Case(
        make=_ledger_that_deletes,
        finding="ledger",
        code=2,
        words="has cleanup.policy=delete",
        remedy="Set cleanup.policy=compact on it.",
    ),
    "message.max.bytes below record.max.bytes": Case(
        make=_large_records,
        finding="record size",
        code=0,
        words="takes 1,048,588 bytes at once, record.max.bytes is 2,000,000",
        remedy="Set max.message.bytes of the topic (message.max.bytes of the brokers) to 2065536 or more",
        is_warning=True,
    ),
}
# One of each kind is enough for every day: the bucket over the proxy, the queue, a topic.
_DAILY = {"no get permission", "prefix filter that hides objects", "partitions too few"}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[] if name in _DAILY else pytest.mark.long)
        for name, case in _CASES.items()
    ],
)
def test_what_is_wrong_is_found_and_nothing_else(stand: Stand, case: Case) -> None:
    """The finding, its sentence, its remedy, the exit code; the queue of these tests has no dead letters."""
    case.make(stand)

    lines = stand.scene.run("check", "--json", code=case.code).splitlines()

    bad = {one["name"]: one for one in map(json.loads, lines) if one["verdict"] != "ok"}
    names = {"bucket": stand.scene.bucket, "topic": stand.scene.topic}
    assert bad.keys() - {"dead letter queue", "keys"} - _beside(case) == {case.finding}
    found = bad[case.finding]
    assert found["verdict"] == ("warn" if case.is_warning else "fail")
    assert case.words.format(**names) in found["sentence"]
    assert found["remedy"].startswith(case.remedy.format(**names))


def _beside(case: Case) -> set[str]:
    """What follows from a condition besides: a queue elsewhere cannot be this bucket's either."""
    return {"notification"} if case.finding == "queue region" else set()


def _of_two(stand: Stand, make: Callable[[Stand], None]) -> str:
    """The bucket of which this is so, next to the scene's own, which the configuration names first."""
    whole = stand.scene.bucket
    make(stand)
    stand.scene.bucket, other = f"{whole},{stand.scene.bucket}", stand.scene.bucket
    return other


@pytest.mark.parametrize(
    ("make", "finding", "fix"),
    [
        (_another_bucket, "bucket", "Create it, or correct aws.s3.bucket.name"),
        (_another_region, "region", "Give it a source of its own, with aws.s3.region=eu-west-1"),
    ],
)
def test_one_of_several_buckets_is_a_warning(
    stand: Stand, make: Callable[[Stand], None], finding: str, fix: str
) -> None:
    """`run` starts with the others, and so says `check`; `plan` shows what of them it would take."""
    other = _of_two(stand, make)

    lines = [json.loads(line) for line in stand.scene.run("check", "--json").splitlines()]
    (found,) = [line for line in lines if line["name"] == f"{finding} {other}"]
    assert found["verdict"] == "warn"
    assert found["remedy"].startswith(fix)
    shown = stand.scene.asked("plan")
    assert shown["listed"]["objects"] == shown["total"]["pending"]["objects"] == 1
    is_missing = finding == "bucket"
    assert (shown["problem"] is not None) is is_missing
    assert not is_missing or all(words in shown["problem"] for words in (other, "NoSuchBucket"))
    assert not is_missing or shown["problem"] in stand.scene.run("plan")


def test_a_queue_reaches_the_bucket_of_its_own_region(stand: Stand) -> None:
    """What S3 cannot send from another region is no failure either, and `setup` sees to the others."""
    url = stand.queue()
    other = _of_two(stand, _another_region)

    steps = [json.loads(line) for line in stand.scene.run("setup", "--json").splitlines()]

    (left_out,) = [step for step in steps if step["problem"] is not None]
    assert left_out["step"] == f"set up s3://{other}"
    assert "give it a source of its own, with aws.s3.region=eu-west-1" in left_out["problem"]
    assert any(url.rsplit("/", 1)[1] in step["step"] and step["done"] for step in steps)
    lines = [json.loads(line) for line in stand.scene.run("check", "--json").splitlines()]
    warned = {line["name"]: line["remedy"] for line in lines if line["verdict"] == "warn"}
    assert warned.keys() == {f"{name} {other}" for name in ("region", "queue region", "notification")}
    assert set(warned.values()) == {
        "Give it a source of its own, with aws.s3.region=eu-west-1: buckets of one source are in one region."
    }


def test_a_bucket_elsewhere_is_read_where_the_other_is_missing(stand: Stand) -> None:
    """`run` starts with it; a region that is wrong for all is an option that is wrong."""
    _another_region(stand)
    away = stand.scene.bucket
    stand.scene.bucket = f"{aws.unique('nowhere')},{away}"
    lines = [json.loads(line) for line in stand.scene.run("check", "--json").splitlines()]
    (region,) = [line for line in lines if line["name"] == f"region {away}"]
    assert region["verdict"] == "warn"
    assert region["sentence"] == f"s3://{away} is in eu-west-1, not in us-east-1."

    _another_region(stand)
    stand.scene.bucket = f"{stand.scene.bucket},{away}"
    assert "Set aws.s3.region=eu-west-1." in stand.scene.run("check", code=2)


def test_mark_and_setup_do_without_a_missing_bucket(stand: Stand) -> None:
    """In the words of `plan`; the one bucket that `--bucket` names is none of several."""
    stand.queue()
    missing = _of_two(stand, _another_bucket)
    problem = stand.scene.asked("plan")["problem"]

    shape = stand.scene.asked("mark", "--dry-run")

    assert (shape["problem"], shape["objects"]) == (problem, 1)
    assert f"problem   {problem}" in stand.scene.run("mark", "--yes")
    assert stand.scene.asked("plan")["total"]["done"]["objects"] == 1
    one = stand.scene.result("mark", "--dry-run", "--bucket", missing)
    assert isinstance(one.exception, ResourceMissing)
    said = stand.scene.run("setup")
    assert "NoSuchBucket" in said.splitlines()[0]
    assert missing in said.splitlines()[0]
    assert said.splitlines()[0].endswith(" The other buckets are set up.")
    assert "done: let s3://" in said
    assert "is there already" not in stand.scene.run("setup")


_OF_BUCKETS = ("check", "plan", "mark", "setup")


@pytest.mark.parametrize("command", _OF_BUCKETS)
def test_several_buckets_of_which_none_is_there(stand: Stand, command: str) -> None:
    """End as `run` does: at once, by a wrong configuration."""
    stand.scene.bucket = f"{aws.unique('nowhere')},{aws.unique('nowhere')}"
    gone = stand.scene.result(command)
    assert gone.exit_code == 2 or isinstance(gone.exception, ResourceMissing)


@pytest.mark.parametrize("command", _OF_BUCKETS)
def test_several_buckets_of_which_one_is_missing_and_one_refused(stand: Stand, command: str) -> None:
    """`run` waits for the refused one, and ends with 3: a missing one alone is no reason to end before."""
    bucket = stand.scene.bucket
    stand.proxy().on(_refused("AccessDenied"), when=lambda request: bucket in request.path)
    _of_two(stand, _another_bucket)
    gone = stand.scene.result(command)
    assert gone.exit_code == 3 or type(gone.exception) is AccessDenied
