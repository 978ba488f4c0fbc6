"""Objects that a worker's source brings to a topic, which its sink archives, and their account."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.sink.archive_account import Archive
from tests.support import aws, kafka
from tests.support.service import rows
from tests.support.until import until_sync
from tests.support.worker_process import sink_config, source_config


@dataclass(frozen=True, slots=True)
class BothWays:
    """A bucket, a topic and the bucket of its archive; the connectors between them are the test's."""

    folder: Path
    bucket: str = field(default_factory=aws.new_bucket)
    archive_bucket: str = field(default_factory=aws.new_bucket)
    topic: str = field(default_factory=lambda: kafka.new_topic("worker", partitions=2))
    uploaded: Counter[bytes] = field(default_factory=Counter)
    bootstrap: str = field(default_factory=kafka.address)
    """Where the topic's brokers answer."""

    @property
    def archive(self) -> Archive:
        """Where the sink writes to."""
        return Archive(
            folder=self.folder, bucket=self.archive_bucket, topic=self.topic, bootstrap=self.bootstrap
        )

    @property
    def source(self) -> dict[str, str]:
        """The configuration of a source from the bucket to the topic."""
        return source_config(self.bucket, self.topic)

    @property
    def sink(self) -> dict[str, str]:
        """The configuration of a sink from the topic to the archive."""
        return sink_config(self.archive_bucket, self.topic)

    def upload(self, stem: str) -> None:
        """Put an object of 300 rows."""
        lines = rows(stem, 300)
        body = b"".join(one + b"\n" for one in lines)
        aws.s3().put_object(Bucket=self.bucket, Key=f"{stem}.jsonl", Body=body)
        self.uploaded.update(lines)

    def await_archived(self, seconds: float = 120) -> None:
        """Return when the archive has as many records as were uploaded."""
        until_sync(self._is_archived, seconds=seconds, what="what was uploaded, archived")

    def _is_archived(self) -> bool:
        return sum(self.archive.archived().values()) >= sum(self.uploaded.values())
