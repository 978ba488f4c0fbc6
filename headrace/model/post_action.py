"""What becomes of an object once all of its records are committed."""

from dataclasses import dataclass
from enum import StrEnum

from headrace.model.objects import ObjectId


class PostActionKind(StrEnum):
    """What is done."""

    DELETE = "delete"
    MOVE = "move"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class PostAction:
    """One action; `target` is the prefix that objects move to, or the tag as `key=value`.

    `is_unconditional`: S3 is not asked to delete only the content that was read.
    """

    kind: PostActionKind
    target: str = ""
    is_unconditional: bool = False

    @property
    def text(self) -> str:
        """As the option spells it, and as the ledger notes that it is owed."""
        return f"{self.kind}:{self.target}" if self.target else str(self.kind)


@dataclass(frozen=True, slots=True)
class OwedAction:
    """An object that is done, and with it the objects it was read with: each as key, ETag and version id."""

    id: ObjectId
    contents: tuple[tuple[str, str, str | None], ...]
