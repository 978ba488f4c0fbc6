"""Where campaigns happen: a broker and a LocalStack that may be killed, and proxies before both."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localstack.broker import Broker
from localstack.emulator import Emulator
from localstack.parts import EMULATOR_VENV, JAR_FOLDER
from localstack.ports import HOST, free_port
from tests.faults.lasting_s3 import LastingS3
from tests.support import aws, kafka
from tests.support.proxy import Proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The parts. `emulator` None: S3 and SQS are the shared ones, and must live."""

    folder: Path
    broker: Broker
    emulator: Emulator | LastingS3 | None
    kafka_proxy: Proxy
    s3_proxy: Proxy
    sqs_proxy: Proxy

    @property
    def endpoint(self) -> str:
        """Where S3 and SQS answer."""
        return aws.address() if self.emulator is None else self.emulator.endpoint

    @property
    def bootstrap(self) -> str:
        """The broker, directly."""
        return self.broker.bootstrap


def open_site(stack: ExitStack, folder: Path, *, own_s3: bool, lasts: bool = False) -> Site:
    """A site with an empty broker, closed with the stack; 5 s, and 10 more with a LocalStack of its own.

    An own S3 that `lasts` keeps its objects and uploads when it is killed; it has no queues.
    """
    emulator: Emulator | LastingS3 | None = None
    if own_s3:
        emulator = (
            LastingS3(folder=folder / "s3", port=free_port())
            if lasts
            else Emulator(folder=folder / "localstack", venv=EMULATOR_VENV, port=free_port())
        )
        stack.callback(emulator.stop)
        emulator.start()
    endpoint = aws.address() if emulator is None else emulator.endpoint
    behind = free_port()
    # What the broker tells its clients of this listener is the proxy's address, so that all they do is seen.
    kafka_proxy = stack.enter_context(Proxy(f"{HOST}:{behind}", is_http=False))
    port = free_port()
    broker = Broker(
        folder=folder / "broker",
        jar_folder=JAR_FOLDER,
        port=port,
        controller_port=free_port(),
        listeners={f"PROXIED://{HOST}:{behind}": "PLAINTEXT"},
        properties={"advertised.listeners": f"PLAINTEXT://{HOST}:{port},PROXIED://{kafka_proxy.address}"},
    )
    stack.callback(broker.kill)
    broker.start()
    return Site(
        folder=folder,
        broker=broker,
        emulator=emulator,
        kafka_proxy=kafka_proxy,
        s3_proxy=stack.enter_context(Proxy(endpoint)),
        sqs_proxy=stack.enter_context(Proxy(endpoint)),
    )


@dataclass(frozen=True, slots=True)
class Route:
    """A bucket, the queue that it notifies, and the topic, all of a campaign's own."""

    site: Site
    bucket: str
    queue: str
    topic: str

    @property
    def queue_url(self) -> str:
        """Where the queue is; it keeps its address when it is made again."""
        return f"{self.site.endpoint}/{aws.ACCOUNT}/{self.queue}"

    def furnish(self) -> None:
        """Make the bucket, the queue, and the bucket's notification, or make them again."""
        s3, sqs = aws.s3(self.site.endpoint), aws.sqs(self.site.endpoint)
        s3.create_bucket(Bucket=self.bucket)
        sqs.create_queue(QueueName=self.queue)
        queues: Any = [{"QueueArn": aws.queue_arn(self.queue_url), "Events": ["s3:ObjectCreated:*"]}]
        s3.put_bucket_notification_configuration(
            Bucket=self.bucket, NotificationConfiguration={"QueueConfigurations": queues}
        )
        s3.close()
        sqs.close()

    def options(self, *, name: str, through_proxies: bool, **changes: object) -> dict[str, object]:
        """A configuration, `__` in a name for a dot."""
        site = self.site
        options: dict[str, object] = {
            "bootstrap.servers": site.kafka_proxy.address if through_proxies else site.bootstrap,
            "aws.s3.endpoint": site.s3_proxy.url if through_proxies else site.endpoint,
            "sqs.endpoint": site.sqs_proxy.url if through_proxies else site.endpoint,
            "sqs.queue.url": self.queue_url,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "topic": self.topic,
            "file.name.template": ".*",
            "input.format": "jsonl",
            "tasks.max": 2,
            "state.dir": str(site.folder / "state" / name),
        }
        return options | {key.replace("__", "."): value for key, value in changes.items()}


def new_route(site: Site, *, partitions: int = 3) -> Route:
    """An empty route."""
    topic = kafka.new_topic("faults", partitions=partitions, bootstrap=site.bootstrap)
    made = Route(site, aws.unique("bucket"), aws.unique("queue"), topic)
    made.furnish()
    return made


def without_secrets(options: dict[str, object]) -> str:
    """Options for a message."""
    return json.dumps({name: value for name, value in options.items() if "key" not in name})
