"""What configuration leaves out: such keys get no ledger entry and are judged again at each listing."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import translate
from typing import Final

from headrace.model.objects import Route, S3Object

# Bookkeeping that other tools keep beside the objects they write.
_INTERNAL: Final = ("/.indexes/", "/.temp-upload/")


class ExclusionReason(StrEnum):
    """Why an object is not ours, as the counters name it."""

    OUTSIDE_PREFIX = "outside_prefix"
    FOLDER = "folder"
    INTERNAL = "internal"
    EXCLUDED = "excluded"
    UNMATCHED = "unmatched"
    START_KEY = "start_key"
    EXISTING = "existing"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What the first start left to the past; of listings only, events are never filtered.

    `existing_before_ms` is S3's clock at the first start with `include.existing=false`; `start_key` is
    `native.start.key`, itself left out. `uploads` are the multipart uploads that were under way at the first
    start, by key, with the ms they began at: completed later they are new, though S3 dates them back to then.
    `moved_to` are prefixes that `post.action` has moved objects to, now or under an earlier configuration:
    what lies there was read before, whatever announces it. All but this is of keys below `prefix`; `earlier`
    are those of prefixes that had their first start before, the last of these first.
    """

    existing_before_ms: int | None = None
    start_key: str | None = None
    uploads: Mapping[str, int] = field(default_factory=dict)
    moved_to: tuple[str, ...] = ()
    prefix: str = ""
    earlier: tuple["Baseline", ...] = ()

    def of_key(self, key: str) -> "Baseline | None":
        """The one that counts for a key: that of the first start which could see it."""
        return next((one for one in (*reversed(self.earlier), self) if key.startswith(one.prefix)), None)

    def leaves_out(self, listed: S3Object) -> ExclusionReason | None:
        """Why an object that only a listing knows is left to the past, None where it is not."""
        past = self if not self.earlier else self.of_key(listed.id.key)
        if past is None:
            return None
        if past.start_key is not None and listed.id.key <= past.start_key:
            return ExclusionReason.START_KEY
        return ExclusionReason.EXISTING if past.is_existing(listed) else None

    def is_existing(self, listed: S3Object) -> bool:
        """True for what was there at the first start, and is to be left out for that."""
        if self.existing_before_ms is None or listed.last_modified_ms >= self.existing_before_ms:
            return False
        begun_ms = self.uploads.get(listed.id.key)
        # Listings know whole seconds. What was under the key before is older than the upload.
        return begun_ms is None or listed.last_modified_ms < begun_ms // 1000 * 1000


class ObjectFilter:
    """Says where an object's records go, or why it is left out. `route` gives None for an unmatched key.

    `is_internal` knows the bookkeeping of the archive's layout; objects under `moved_to` were read before.
    """

    def __init__(
        self,
        *,
        route: Callable[[str], Route | None],
        is_internal: Callable[[str], bool] | None = None,
        prefix: str = "",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        baseline: Baseline = Baseline(),
        min_age_ms: int = 0,
        moved_to: str | None = None,
    ) -> None:
        self.prefix = prefix
        self.min_age_ms = min_age_ms
        self._moved_to = baseline.moved_to if moved_to is None else (*baseline.moved_to, moved_to)
        self._route = route
        self._is_internal = is_internal
        self._include = _any_of(include)
        self._exclude = _any_of(exclude)
        self._baseline = baseline

    def route_or_reason(self, key: str) -> Route | ExclusionReason:
        """The route of an announced key, or why it is left out."""
        if not key.startswith(self.prefix):
            return ExclusionReason.OUTSIDE_PREFIX
        if key.endswith("/"):
            return ExclusionReason.FOLDER
        if self._moved_to and key.startswith(self._moved_to):
            return ExclusionReason.MOVED
        is_internal = any(segment in f"/{key}" for segment in _INTERNAL)
        if is_internal or (self._is_internal is not None and self._is_internal(key)):
            return ExclusionReason.INTERNAL
        if (self._include and not self._include(key)) or (self._exclude and self._exclude(key)):
            return ExclusionReason.EXCLUDED
        return self._route(key) or ExclusionReason.UNMATCHED

    def listed_route_or_reason(self, listed: S3Object) -> Route | ExclusionReason:
        """The same for an object that only a listing knows: the baseline counts too."""
        return self._baseline.leaves_out(listed) or self.route_or_reason(listed.id.key)


def _any_of(globs: Sequence[str]) -> Callable[[str], object] | None:
    """A predicate on keys; `*` takes `/` too, as in the AWS tools, and case counts."""
    if not globs:
        return None
    return re.compile("|".join(translate(glob) for glob in globs)).match
