"""What becomes of an object once all of its records are committed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.objects import ObjectId

_OTHER_BUCKET: Final = "s3://"


class PostActionKind(StrEnum):
    """What is done."""

    DELETE = "delete"
    MOVE = "move"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class PostAction:
    """One action; `target` is the prefix that objects move to, or the tag as `key=value`.

    The prefix has `s3://bucket/` before it where it is one of another bucket.
    `is_unconditional`: S3 is not asked to delete only the content that was read.
    """

    kind: PostActionKind
    target: str = ""
    is_unconditional: bool = False

    @property
    def moves_to(self) -> tuple[str | None, str]:
        """The bucket that objects move to, None for their own, and the prefix there."""
        if not self.target.startswith(_OTHER_BUCKET):
            return None, self.target
        bucket, _, prefix = self.target.removeprefix(_OTHER_BUCKET).partition("/")
        return bucket, prefix

    @property
    def text(self) -> str:
        """As the option spells it, and as the ledger notes that it is owed."""
        return f"{self.kind}:{self.target}" if self.target else str(self.kind)


@dataclass(frozen=True, slots=True)
class OwedAction:
    """An object that is done, and with it the objects it was read with: each as key, ETag and version id."""

    id: ObjectId
    contents: tuple[tuple[str, str, str | None], ...]
