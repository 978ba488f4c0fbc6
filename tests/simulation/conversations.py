"""Conversations with Kafka, S3 and SQS, the same with the real and the simulated ones: their answers.

`python -m tests.simulation.conversations kafka s3 sqs` holds them with the simulated services. Names that are
other ones in each run are left out of the answers, and so is what no client may rely on (ids, times).
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, KafkaException, TopicPartition

_PART: Final = b"x" * (5 * 1024 * 1024)
_SECONDS: Final = 20.0
Ask = Callable[..., Any]


def _kafka_answer(act: Callable[[], Any]) -> str:
    """What it came to: `ok`, or the error's name and kind."""
    try:
        act()
    except KafkaException as error:
        inner = error.args[0]
        kind = "fatal" if inner.fatal() else "abort" if inner.txn_requires_abort() else "plain"
        return f"{inner.name()} {kind}"
    return "ok"


def _read(consumer: Any, place: TopicPartition) -> list[Any]:
    """Offsets and values from the beginning to the end of what a reader gets, and where the end is."""
    consumer.assign([place])
    found: list[Any] = []
    for _ in range(5):
        for message in consumer.consume(100, 1.0):
            error = message.error()
            if error is None:
                found.append([message.offset(), (message.value() or b"").decode()])
            elif error.code() == KafkaError._PARTITION_EOF:  # the library's name
                return [*found, ["end", message.offset()]]
            else:
                return [*found, error.name()]
    return [*found, "no end"]


def _passed(consumer: Any, place: TopicPartition) -> list[Any]:
    """Where a reader is, as the client knows it: an offset, and the leader epoch of what lies before it."""
    return [[one.offset, one.leader_epoch] for one in consumer.position([place])]


def _talk_positions(name: str, producer: Ask, readers: tuple[Any, Any], one: Any) -> Iterator[Any]:
    """What readers know who get no record: the first partition ends with one that was aborted at 3."""
    committed, _ = readers
    for offset in (0, 3, 5):
        place = TopicPartition(name, 0, offset)
        yield "read from", offset, [(_read(each, place), _passed(each, place)) for each in readers]
    other = producer({"transactional.id": f"{name}-other"})
    other.init_transactions(_SECONDS)
    for who in (other, one):
        who.begin_transaction()
        who.produce(name, value=b"e", partition=1)
        who.flush(_SECONDS)
    other.abort_transaction(_SECONDS)
    place = TopicPartition(name, 1, 0)
    yield "aborted before an open one", _read(committed, place), _passed(committed, place)
    one.abort_transaction(_SECONDS)
    yield "aborted", _read(committed, place), _passed(committed, place)


def talk_kafka(name: str, producer: Ask, consumer: Ask, admin: Any, new_topic: Ask) -> Iterator[Any]:
    """Transactions, fencing, limits and what readers get."""
    committed = consumer({"isolation.level": "read_committed"})
    uncommitted = consumer({"isolation.level": "read_uncommitted"})
    place = TopicPartition(name, 0, 0)
    for topic in (name, name):
        (made,) = admin.create_topics([new_topic(topic, 2)]).values()
        yield "create", _kafka_answer(partial(made.result, _SECONDS))
    (limited,) = admin.create_topics([new_topic(f"{name}-small", 1, {"max.message.bytes": "1000"})]).values()
    limited.result(_SECONDS)
    one = producer({"transactional.id": name})
    one.init_transactions(_SECONDS)
    one.begin_transaction()
    for text in ("a", "b"):
        one.produce(name, value=text.encode(), key=b"k", partition=0)
    yield "flush", one.flush(_SECONDS)
    yield "open", _read(committed, place), _read(uncommitted, place)
    yield "commit", _kafka_answer(lambda: one.commit_transaction(_SECONDS)), _read(committed, place)
    one.begin_transaction()
    one.produce(name, value=b"c", partition=0)
    one.flush(_SECONDS)
    yield "abort", _kafka_answer(lambda: one.abort_transaction(_SECONDS)), _read(committed, place)
    yield from _talk_positions(name, producer, (committed, uncommitted), one)
    group = consumer({"group.id": f"{name}-group"})
    one.begin_transaction()
    one.send_offsets_to_transaction([TopicPartition(name, 0, 2)], group.consumer_group_metadata(), _SECONDS)
    one.commit_transaction(_SECONDS)
    yield "offsets", [each.offset for each in group.committed([TopicPartition(name, 0)], _SECONDS)]
    one.begin_transaction()
    one.produce(f"{name}-small", value=b"x" * 5000, partition=0)
    one.flush(_SECONDS)
    yield "after it", _kafka_answer(lambda: one.produce(name, value=b"y", partition=0))
    yield "another transaction", _kafka_answer(one.begin_transaction)
    yield "too large for the topic", _kafka_answer(lambda: one.commit_transaction(_SECONDS))
    yield "abort", _kafka_answer(lambda: one.abort_transaction(_SECONDS))
    one.begin_transaction()
    yield "too large", _kafka_answer(lambda: one.produce(name, value=b"x" * 2_000_000, partition=0))
    one.abort_transaction(_SECONDS)
    two = producer({"transactional.id": name})
    one.begin_transaction()
    one.produce(name, value=b"late", partition=0)
    one.flush(_SECONDS)
    two.init_transactions(_SECONDS)
    yield "fenced", _kafka_answer(lambda: one.commit_transaction(_SECONDS))
    yield "fenced for good", _kafka_answer(one.begin_transaction)
    yield "a record of it", _kafka_answer(lambda: one.produce(name, value=b"y", partition=0))
    two.begin_transaction()
    two.produce(name, value=b"d", partition=0)
    yield "its heir", _kafka_answer(lambda: two.commit_transaction(_SECONDS)), _read(committed, place)
    low, high = committed.get_watermark_offsets(TopicPartition(name, 0), _SECONDS)
    yield "bounds", low, high
    yield "behind the end", _read(committed, TopicPartition(name, 0, high + 10))
    yield "no topic", _read(committed, TopicPartition(f"{name}-none", 0, 0))


# -- S3 ------------------------------------------------------------------------------------------------------


def talk_s3(bucket: str, client: Any) -> Iterator[Any]:
    """Conditions, ranges, uploads in parts, listings, copies and tags."""

    def ask(operation: str, *shown: str, **given: Any) -> Any:
        try:
            answer = getattr(client, operation)(**{"Bucket": bucket, **given})
        except ClientError as error:
            response: Any = error.response
            return [response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]]
        return [answer.get(name) for name in shown]

    yield ask("put_object", "ETag", Key="a", Body=b"0123456789", Metadata={"m": "1"})
    yield ask("head_object", "ETag", "ContentLength", "Metadata", Key="a")
    yield ask("put_object", Key="a", Body=b"1", IfNoneMatch="*")
    yield ask("put_object", Key="a", Body=b"1", IfMatch='"other"')
    yield ask("put_object", Key="none", Body=b"1", IfMatch='"other"')
    whose = client.head_object(Bucket=bucket, Key="a")["ETag"]
    yield ask("put_object", "ETag", Key="a", Body=b"0123456789", Metadata={"m": "2"}, IfMatch=whose)
    yield ask("head_object", Key="none")
    yield ask("get_object", Key="none")
    yield ask("get_object", "ContentRange", "ContentLength", Key="a", Range="bytes=3-5")
    yield ask("get_object", "ContentRange", "ContentLength", Key="a", Range="bytes=7-")
    yield ask("get_object", Key="a", Range="bytes=10-")
    yield ask("get_object", Key="a", IfMatch='"other"')
    yield client.get_object(Bucket=bucket, Key="a", Range="bytes=0-2")["Body"].read().decode()
    yield ask("list_objects_v2", Bucket=f"{bucket}-none")
    for key in ("b/1", "b/2", "b/3", "b/4", "c"):
        ask("put_object", Key=key, Body=key.encode())
    page = client.list_objects_v2(Bucket=bucket, Prefix="b/", MaxKeys=2)
    yield [each["Key"] for each in page["Contents"]], page["IsTruncated"]
    after = client.list_objects_v2(
        Bucket=bucket, Prefix="b/", ContinuationToken=page["NextContinuationToken"]
    )
    yield [[each["Key"], each["Size"]] for each in after["Contents"]], after["IsTruncated"]
    started = client.list_objects_v2(Bucket=bucket, Prefix="b/", StartAfter="b/2")
    yield [each["Key"] for each in started["Contents"]]
    yield from _uploads(client, bucket, ask)
    yield ask("copy_object", Key="d", CopySource={"Bucket": bucket, "Key": "none"})
    yield ask("copy_object", Key="d", CopySource={"Bucket": bucket, "Key": "a"}, CopySourceIfMatch='"other"')
    yield ask("copy_object", Key="d", CopySource={"Bucket": bucket, "Key": "a"})
    yield ask("put_object_tagging", Key="d", Tagging={"TagSet": [{"Key": "t", "Value": "1"}]})
    yield ask("get_object_tagging", "TagSet", Key="d")
    yield ask("get_object_tagging", Key="none")
    yield ask("delete_object", Key="d")
    yield ask("delete_object", Key="d")
    yield ask("get_bucket_lifecycle_configuration")


def _uploads(client: Any, bucket: str, ask: Ask) -> Iterator[Any]:
    def begin(key: str, *bodies: bytes) -> tuple[Any, list[Any]]:
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        parts = [
            {
                "PartNumber": number,
                "ETag": client.upload_part(
                    Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body
                )["ETag"],
            }
            for number, body in enumerate(bodies, 1)
        ]
        return upload, parts

    upload, parts = begin("up", _PART, b"end")
    found = client.list_parts(Bucket=bucket, Key="up", UploadId=upload)["Parts"]
    yield [[one["PartNumber"], one["ETag"], one["Size"]] for one in found]
    wrong = [{**parts[0], "ETag": '"00000000000000000000000000000000"'}, parts[1]]
    end: Any = {"Key": "up", "UploadId": upload}
    yield ask("complete_multipart_upload", MultipartUpload={"Parts": wrong}, **end)
    whole = {"Parts": parts}
    yield ask("complete_multipart_upload", "ETag", MultipartUpload=whole, IfNoneMatch="*", **end)
    yield ask("head_object", "ContentLength", "ETag", Key="up")
    small, parts = begin("small", b"1", b"2")
    given: Any = {"Key": "small", "UploadId": small}
    yield ask("complete_multipart_upload", MultipartUpload={"Parts": parts}, **given)
    yield ask("abort_multipart_upload", **given)
    yield ask("complete_multipart_upload", MultipartUpload={"Parts": parts}, **given)
    yield ask("list_parts", **given)
    again, parts = begin("up", b"other")
    taken: Any = {"Key": "up", "UploadId": again}
    yield ask("complete_multipart_upload", MultipartUpload={"Parts": parts}, IfNoneMatch="*", **taken)
    yield ask("complete_multipart_upload", MultipartUpload={"Parts": parts}, IfMatch='"other"', **taken)
    whose = client.head_object(Bucket=bucket, Key="up")["ETag"]
    yield ask("complete_multipart_upload", "ETag", MultipartUpload={"Parts": parts}, IfMatch=whose, **taken)
    gone, parts = begin("gone", b"other")
    late: Any = {"Key": "gone", "UploadId": gone, "IfMatch": whose}
    yield ask("complete_multipart_upload", MultipartUpload={"Parts": parts}, **late)
    client.delete_object(Bucket=bucket, Key="up")
    freed, parts = begin("up", b"other")
    free: Any = {"Key": "up", "UploadId": freed, "MultipartUpload": {"Parts": parts}, "IfNoneMatch": "*"}
    yield ask("complete_multipart_upload", "ETag", **free)
    taken_first, parts = begin("up", b"later")
    client.delete_object(Bucket=bucket, Key="up")
    conflict: Any = {"Key": "up", "UploadId": taken_first, "MultipartUpload": {"Parts": parts}}
    yield ask("complete_multipart_upload", IfNoneMatch="*", **conflict)
    yield ask("complete_multipart_upload", "ETag", **conflict)
    pending = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    yield [one["Key"] for one in pending]


# -- SQS -----------------------------------------------------------------------------------------------------


async def talk_sqs(
    ask: Callable[..., Awaitable[Any]], send: Callable[[str], None], delete: Callable[[], None]
) -> list[Any]:
    """Visibility, receipts, deletions, and a queue that is gone."""
    said: list[Any] = []
    for number in range(3):
        send(f"message {number}")

    async def receive(seconds: int = 30) -> list[Any]:
        found: list[Any] = []
        while answer := (
            await ask(
                "receive_message",
                MaxNumberOfMessages=10,
                WaitTimeSeconds=1,
                VisibilityTimeout=seconds,
                AttributeNames=["All"],
            )
        ).get("Messages"):
            found += answer
        return sorted(found, key=lambda one: one["Body"])

    def shown(messages: list[Any]) -> list[Any]:
        return [[one["Body"], one["Attributes"]["ApproximateReceiveCount"]] for one in messages]

    found = await receive()
    said += [shown(found), shown(await receive())]
    entries = [
        {"Id": str(number), "ReceiptHandle": one["ReceiptHandle"], "VisibilityTimeout": 0}
        for number, one in enumerate(found[:2])
    ]
    changed = await ask("change_message_visibility_batch", Entries=entries)
    said.append([len(changed["Successful"]), len(changed.get("Failed", []))])
    again = await receive()
    said.append(shown(again))
    handles = [one["ReceiptHandle"] for one in (again[0], again[1], found[2])]
    done = await ask(
        "delete_message_batch",
        Entries=[{"Id": str(number), "ReceiptHandle": one} for number, one in enumerate(handles)],
    )
    said.append(len(done["Successful"]))
    attributes = await ask("get_queue_attributes", AttributeNames=["VisibilityTimeout"])
    said.append(attributes["Attributes"]["VisibilityTimeout"])
    said.append(shown(await receive()))
    delete()
    try:
        await ask("receive_message", MaxNumberOfMessages=1, WaitTimeSeconds=0)
    except ClientError as error:
        said.append(error.response["Error"]["Code"])
    return said


# -- with the simulated ones ---------------------------------------------------------------------------------


def _simulated(service: str) -> list[Any]:
    from confluent_kafka.cimpl import NewTopic

    from tests.simulation.environment import environment
    from tests.simulation.kafka_admin import SimulatedAdmin
    from tests.simulation.kafka_consumer import SimulatedConsumer
    from tests.simulation.kafka_producer import SimulatedProducer
    from tests.simulation.s3 import SimulatedS3
    from tests.simulation.sqs import SimulatedSqs

    said: list[Any] = []
    with environment(1) as made:
        network = made.network

        def kafka() -> None:
            said.extend(
                talk_kafka(
                    "topic",
                    lambda given: SimulatedProducer(network, given),
                    lambda given: SimulatedConsumer(network, {"enable.partition.eof": True, **given}),
                    SimulatedAdmin(network, {}),
                    lambda name, count, config=None: NewTopic(name, count, config=config or {}),
                )
            )

        def s3() -> None:
            made.bucket.make("bucket")
            said.extend(talk_s3("bucket", SimulatedS3(made.bucket)))

        def sqs() -> None:
            client = SimulatedSqs(made.queue)

            async def ask(operation: str, **given: Any) -> Any:
                return await getattr(client, operation)(**given)

            def delete() -> None:
                made.queue.is_deleted = True

            # Not asyncio.run, which makes a loop of its own kind.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                said.extend(runner.run(talk_sqs(ask, made.queue.send, delete)))

        body = {"kafka": kafka, "s3": s3, "sqs": sqs}[service]
        made.operate(body, seconds=100_000.0)
    return said


if __name__ == "__main__":
    sys.stdout.write(json.dumps({service: _simulated(service) for service in sys.argv[1:]}))
