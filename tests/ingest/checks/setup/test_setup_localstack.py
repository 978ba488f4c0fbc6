"""`headrace setup` on LocalStack: from nothing, onto what is there, and again."""

import json

import pytest

from headrace.model.errors import AccessDenied, Exit, exit_code
from headrace.options import Settings
from ingest.checks.probes.bucket_keys import own_account
from ingest.checks.setup import SetupError, Step, missing_steps
from ingest.checks.setup.steps import EVENTS
from tests.support import aws
from tests.support.configuration import settings_for

pytestmark = pytest.mark.parts


def _plan(settings: Settings) -> tuple[Step, ...]:
    return missing_steps(
        settings,
        s3=aws.s3(),
        sqs=aws.sqs(),
        account=lambda: own_account(settings),
        topics=lambda: (),
        refused={},
    )


def _settings(bucket: str, queue: str, *, prefix: str = "in/") -> Settings:
    url = f"{aws.address()}/queue/{aws.REGION}/{aws.ACCOUNT}/{queue}"
    return settings_for(bucket=bucket, queue_url=url, options={"aws.s3.prefix": prefix})


def _attributes(queue: str) -> dict[str, str]:
    client = aws.sqs()
    url = client.get_queue_url(QueueName=queue)["QueueUrl"]
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return {str(name): value for name, value in found.items()}


def test_from_nothing_and_again() -> None:
    """Asking changes nothing; applying makes an upload arrive in the queue; then there is nothing to do."""
    bucket, queue = aws.new_bucket(), aws.unique("events")
    settings = _settings(bucket, queue)
    steps = _plan(settings)
    assert [step.sentence.split()[0] for step in steps] == ["create", "create", "move", "allow", "let"]
    assert [step.sentence for step in _plan(settings)] == [step.sentence for step in steps]
    for step in steps:
        step.apply()
    assert _plan(settings) == ()

    main, dead = _attributes(queue), _attributes(f"{queue}-dead-letters")
    assert main["MessageRetentionPeriod"] == dead["MessageRetentionPeriod"] == "1209600"
    redrive = json.loads(main["RedrivePolicy"])
    assert (redrive["deadLetterTargetArn"], int(redrive["maxReceiveCount"])) == (dead["QueueArn"], 100)
    conditions = [one["Condition"] for one in json.loads(main["Policy"])["Statement"]]
    assert conditions == [{"ArnEquals": {"aws:SourceArn": f"arn:aws:s3:::{bucket}"}}]

    aws.s3().put_object(Bucket=bucket, Key="aside/a", Body=b"x")
    aws.s3().put_object(Bucket=bucket, Key="in/a", Body=b"x")
    client, bodies = aws.sqs(), ""
    assert settings.sqs is not None
    while "in/a" not in bodies:
        answer = client.receive_message(QueueUrl=settings.sqs.queue_url, WaitTimeSeconds=5)
        assert "Messages" in answer, "the event did not arrive"
        bodies += "".join(message["Body"] for message in answer["Messages"])
    assert "aside/a" not in bodies


def test_what_is_there_stays() -> None:
    """A queue with its own redrive policy and statements, a bucket with other notifications."""
    bucket, queue, own = aws.new_bucket(), aws.new_queue("theirs"), aws.new_queue("theirs-dead")
    team = {"Sid": "team", "Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    redrive = json.dumps({"deadLetterTargetArn": aws.queue_arn(own), "maxReceiveCount": 3})
    policy = json.dumps({"Version": "2012-10-17", "Statement": [team]})
    aws.sqs().set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive, "Policy": policy})
    aws.s3().put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "QueueConfigurations": [
                {"Id": "theirs", "QueueArn": aws.queue_arn(own), "Events": ["s3:ObjectRemoved:*"]}
            ],
            "EventBridgeConfiguration": {},
        },
    )
    name = queue.rsplit("/", 1)[1]
    settings = _settings(bucket, name)
    steps = _plan(settings)
    assert [step.sentence.split()[0] for step in steps] == ["keep", "allow", "let"]
    for step in steps:
        step.apply()
    assert _plan(settings) == ()
    after = _attributes(name)
    assert json.loads(after["RedrivePolicy"]) == json.loads(redrive)
    assert [one["Sid"] for one in json.loads(after["Policy"])["Statement"]] == ["team", f"headrace-{bucket}"]
    notification = aws.s3().get_bucket_notification_configuration(Bucket=bucket)
    assert [(one["Id"], one["Events"]) for one in notification["QueueConfigurations"]] == [
        ("theirs", ["s3:ObjectRemoved:*"]),
        (f"headrace-{settings.name}", list(EVENTS)),
    ]
    assert "EventBridgeConfiguration" in notification


def test_topics_come_last_and_without_a_queue_they_are_all() -> None:
    """The steps for topics are the caller's."""
    topic = Step(sentence="create the topic events", apply=lambda: None)
    settings = settings_for(bucket=aws.new_bucket(), queue_url=None)
    found = missing_steps(
        settings, s3=aws.s3(), sqs=aws.sqs(), account=lambda: None, topics=lambda: [topic], refused={}
    )
    assert found == (topic,)


def test_a_missing_bucket_is_named() -> None:
    """Not as a stack trace."""
    with pytest.raises(AccessDenied, match=r"aws\.s3\.bucket\.name = 'no-such-bucket-at-all'.*NoSuchBucket"):
        _plan(_settings("no-such-bucket-at-all", aws.unique("q")))


def test_a_missing_bucket_is_named_without_a_queue() -> None:
    """Instead of saying that everything is there."""
    settings = settings_for(bucket="no-such-bucket-at-all", queue_url=None)
    with pytest.raises(AccessDenied, match="does not exist"):
        _plan(settings)


def test_a_queue_of_another_region_than_the_buckets_is_refused() -> None:
    """S3 would refuse to send to it, after it had been made."""
    bucket = aws.unique("far")
    aws.s3().create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-3"})
    with pytest.raises(SetupError, match=rf"s3://{bucket} is in eu-west-3.*name a queue in eu-west-3"):
        _plan(_settings(bucket, aws.unique("q")))


def test_a_queue_that_would_be_made_in_another_region_than_its_url_says_is_refused() -> None:
    """It would be looked for where it is not."""
    url = f"{aws.address()}/queue/eu-west-3/{aws.ACCOUNT}/{aws.unique('q')}"
    settings = settings_for(bucket=aws.new_bucket(), queue_url=url, options={"sqs.region": aws.REGION})
    with pytest.raises(SetupError, match=r"is in eu-west-3, and sqs\.region is"):
        _plan(settings)


def test_a_fifo_queue_cannot_be_set_up() -> None:
    """S3 does not send to them."""
    with pytest.raises(SetupError, match="FIFO"):
        _plan(_settings(aws.new_bucket(), aws.unique("q") + ".fifo"))


@pytest.mark.parametrize("is_there", [True, False])
def test_the_url_of_another_account_is_refused_before_anything_is_made(*, is_there: bool) -> None:
    """Our own queue of that name would be changed, or made, and the other be listened to."""
    name = aws.new_queue("q").rsplit("/", 1)[1] if is_there else aws.unique("q")
    with pytest.raises(SetupError, match=f"is of account 111122223333, .* are of {aws.ACCOUNT}") as raised:
        _plan(_of_another_account(name))
    assert exit_code(raised.value) is Exit.CONFIGURATION


def test_where_no_account_is_known_the_queue_that_is_made_is_compared() -> None:
    """STS may not be reached."""
    settings = _of_another_account(aws.unique("q"))
    steps = missing_steps(
        settings, s3=aws.s3(), sqs=aws.sqs(), account=lambda: None, topics=lambda: (), refused={}
    )
    steps[0].apply()  # the dead letter queue
    with pytest.raises(SetupError, match="not this account's"):
        steps[1].apply()


def _of_another_account(name: str) -> Settings:
    url = f"{aws.address()}/queue/{aws.REGION}/111122223333/{name}"
    return settings_for(bucket=aws.new_bucket(), queue_url=url)


def test_a_name_without_room_for_the_dead_letter_queues_is_refused() -> None:
    """SQS would refuse that at the first step, which a dry run does not try."""
    bucket = aws.new_bucket()
    assert _plan(_settings(bucket, "q" * 67))
    for length in (68, 80, 81):
        with pytest.raises(SetupError, match="longer than the 80 characters"):
            _plan(_settings(bucket, "q" * length))


def test_two_buckets_share_a_queue() -> None:
    """Each is allowed and notified by itself; a third one joins what is there."""
    buckets, queue = [aws.new_bucket() for _ in range(3)], aws.unique("events")
    for count, words in (
        (2, ["create", "create", "move", "allow", "let", "allow", "let"]),
        (3, ["allow", "let"]),
    ):
        settings = _settings(",".join(buckets[:count]), queue)
        steps = _plan(settings)
        assert [step.sentence.split()[0] for step in steps] == words
        for step in steps:
            step.apply()
        assert _plan(settings) == ()
    policy = json.loads(_attributes(queue)["Policy"])
    allowed = {one["Condition"]["ArnEquals"]["aws:SourceArn"] for one in policy["Statement"]}
    assert allowed == {f"arn:aws:s3:::{bucket}" for bucket in buckets}
    for bucket in buckets:
        (found,) = aws.s3().get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
        assert found["QueueArn"] == aws.queue_arn(_settings(bucket, queue).sqs.queue_url)  # type: ignore[union-attr]
