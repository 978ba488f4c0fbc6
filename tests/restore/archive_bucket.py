"""An archive as a client of S3 answers for it, so far as plan and check ask."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.model.objects import ObjectId, S3Object
from headrace.options import Settings
from tests.headrace.vendors.archive import Archive
from tests.ingest.checks.findings.configured import configured
from tests.restore.archive_options import restore_config


@dataclass
class ArchiveBucket:
    """Answers ranged GETs and questions for tags from memory, and counts them."""

    objects: dict[str, bytes]
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    fetched_bytes: int = 0

    @classmethod
    def of(cls, archive: Archive) -> "ArchiveBucket":
        """The objects and tags of an archive."""
        return cls(archive.objects, archive.tags)

    def listed(self) -> Iterator[S3Object]:
        """The objects as a listing gives them."""
        for key, content in sorted(self.objects.items()):
            yield S3Object(id=ObjectId("archive", key, "e"), size=len(content), last_modified_ms=1)

    def get_object(self, *, Bucket: str, Key: str, Range: str) -> dict[str, Any]:  # noqa: N803  # boto3's names
        """A range of an object."""
        assert Bucket == "archive"
        self.asked.append(Key)
        first, last = map(int, Range.removeprefix("bytes=").split("-"))
        found = self.objects[Key][first : last + 1]
        self.fetched_bytes += len(found)
        return {"Body": io.BytesIO(found)}

    def get_object_tagging(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803  # boto3's names
        """The tags of an object."""
        assert Bucket == "archive"
        return {"TagSet": [{"Key": name, "Value": text} for name, text in self.tags.get(Key, {}).items()]}


def settings_of(archive: Archive, **changes: str | None) -> Settings:
    """The settings that restore the archive, some options changed (`__` in a name for a dot)."""
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    place = {"aws.s3.bucket.name": "archive", "sqs.queue.url": None}
    return configured({**restore_config(archive), **place, **changed})
