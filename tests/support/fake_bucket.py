"""A bucket in memory that lists as S3 does, and fails on request."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_WHEN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@dataclass(slots=True)
class FakeBucket:
    """Keys in order of their UTF-8 bytes, in pages of at most `page` keys.

    `fails` is asked before each call with its number (from 0): an exception it returns is raised. With
    `gaps` every second page is empty and yet not the last, as S3 answers where many keys were deleted. Tokens
    are forgotten after a failure. `ignores` are parameters that a server leaves out, or a cache before it.
    `shown` is what entries have next to the usual, by key.
    """

    keys: Iterable[str]
    page: int = 1000
    fails: Callable[[int], Exception | None] = lambda _number: None
    gaps: bool = False
    ignores: frozenset[str] = frozenset()
    shown: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    _tokens: dict[str, str] = field(default_factory=dict)

    async def head_object(self, **arguments: Any) -> Mapping[str, Any]:
        """What a listing shows of the key, and its ETag."""
        key = arguments["Key"]
        self.heads.append(key)
        found = {**_entry(key), **self.shown.get(key, {})}
        return {
            "ContentLength": found["Size"],
            "ETag": f'"etag-{key}"',
            "LastModified": found["LastModified"],
        }

    async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        """One page."""
        number = len(self.calls)
        self.calls.append(arguments)
        arguments = {name: value for name, value in arguments.items() if name not in self.ignores}
        if (error := self.fails(number)) is not None:
            self._tokens.clear()
            raise error
        token = arguments.get("ContinuationToken")
        after = arguments.get("StartAfter", "") if token is None else self._tokens[token]
        prefix = arguments.get("Prefix", "")
        left = sorted(
            (key for key in self.keys if key.startswith(prefix) and key.encode() > after.encode()),
            key=str.encode,
        )
        is_gap = self.gaps and number % 2 == 1
        page = [] if is_gap else left[: min(self.page, arguments["MaxKeys"])]
        answer: dict[str, Any] = {
            "IsTruncated": len(page) < len(left),
            "Contents": [{**_entry(key), **self.shown.get(key, {})} for key in page],
            "ResponseMetadata": {"HTTPHeaders": {"date": "Sat, 31 Jan 2026 12:00:00 GMT"}},
        }
        if answer["IsTruncated"]:
            token = f"token of {page[-1]}" if page else f"token {number}"
            answer["NextContinuationToken"] = token
            self._tokens[token] = page[-1] if page else after
        return answer


def _entry(key: str) -> Mapping[str, Any]:
    return {"Key": key, "ETag": f'"etag-{key}"', "Size": 3, "LastModified": _WHEN, "StorageClass": "STANDARD"}
