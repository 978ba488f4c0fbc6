"""Which members of an archive are read, why others are not, and one of them as a decoder's source."""

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from itertools import chain
from typing import Final

from headrace.model.errors import InvalidObject, ObjectCorrupt, ObjectError
from headrace.model.objects import ByteSource
from headrace.model.text_formatting import printable
from headrace.options.row_settings import PackingSettings

# What is kept of the beginning of a member that is not held whole: enough for all that look what it is.
_HEAD_BYTES: Final = 64 * 1024


class MemberSource:
    """See `headrace.model.objects.ByteSource`. A member of up to `hold` bytes is held whole.

    `first` is read once, from the member's beginning; `again` opens it at any byte, where something is read a
    second time. `read` is there where any range can be fetched by itself.
    """

    def __init__(
        self,
        outer: ByteSource,
        name: str,
        size: int,
        *,
        hold: int,
        first: Iterator[bytes],
        again: Callable[[int], Iterator[bytes]],
        read: Callable[[int, int], bytes] | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.is_seekable = read is not None or size <= hold
        self._outer = outer
        self._keep = size if size <= hold else _HEAD_BYTES
        self._first: Iterator[bytes] | None = first
        self._again = again
        self._read = read
        self._head: bytes | None = None
        self._is_torn = False

    @property
    def fetched_bytes(self) -> int:
        """Those of the archive."""
        return self._outer.fetched_bytes

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `begin` to `end`, in chunks."""
        if end is None:
            return self._from(begin)  # to its own end, where its checksum is
        return bounded(self._from(begin), max(0, min(end, self.size) - begin))

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly [offset, offset + length), or fewer only at the end of the member."""
        length = max(0, min(length, self.size - offset))
        head = self._held()
        if offset + length <= len(head) or self._is_torn:
            return head[offset : offset + length]
        if self._read is not None:
            return self._read(offset, length)
        return b"".join(bounded(self._from(offset, is_whole=False), length))

    def _from(self, begin: int, *, is_whole: bool = True) -> Iterator[bytes]:
        """The bytes from `begin` on: of what is held, of the first reading, or of another one."""
        head, first = self._held(), self._first
        if self.size <= len(head):
            return iter([head[begin:]]) if begin < len(head) else iter(())
        is_near = begin <= len(head) or self._read is None
        if first is None or not is_whole or not is_near:
            return self._again(begin)
        self._first = None
        return dropped(chain([head], first), begin)

    def _held(self) -> bytes:
        """The beginning that is kept; damage in it comes after it, as in any stream."""
        if self._head is None:
            assert self._first is not None, "nothing takes it before"
            parts, have = [], 0
            rest: Iterator[bytes] = iter(())
            try:
                while have < self._keep and (chunk := next(self._first, None)) is not None:
                    parts.append(chunk)
                    have += len(chunk)
            except ObjectError as error:
                rest, self._is_torn = _raised(error), True
            content = b"".join(parts)
            self._head = content[: self._keep]
            self._first = chain([content[self._keep :]], rest, self._first)
        return self._head


def _raised(error: ObjectError) -> Iterator[bytes]:
    """An iterator that raises when it is asked."""
    yield from ()
    raise error


def bounded(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The first `size` bytes of the chunks, which are not asked for more."""
    while size > 0 and (chunk := next(chunks, None)) is not None:
        yield chunk[:size]
        size -= len(chunk)


def dropped(chunks: Iterator[bytes], begin: int) -> Iterator[bytes]:
    """The chunks from byte `begin` on."""
    for chunk in chunks:
        if begin < len(chunk):
            yield chunk[begin:] if begin else chunk
        begin = max(0, begin - len(chunk))


# Below it no ratio is suspicious: what expands to this much harms nothing.
_UNSUSPICIOUS_BYTES: Final = 64 * 1024 * 1024
# As long as a path may be on most systems.
_NAME_BYTES: Final = 4096
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_SEPARATOR: Final = re.compile(r"[\\/]")
# What macOS puts next to files.
_MAC_FOLDER: Final = "__MACOSX/"
_MAC_FILE: Final = ".DS_Store"


class ArchiveRules:
    """The rules of `input.archive.*` for one object, called `name`, that has `stored` bytes."""

    def __init__(self, name: str, stored: int, packing: PackingSettings) -> None:
        self.name = name
        self._stored = stored
        self._packing = packing
        self._globs = [re.compile(translate(glob)) for glob in packing.members]

    def member(self, name: str) -> str:
        """What a member is called in messages: `s3://bucket/key!/member`."""
        return f"{self.name}!/{printable(name)}"

    def wants(self, name: str) -> bool:
        """True for the name of a file that is to be read."""
        if not name or name.endswith("/") or name.startswith(_MAC_FOLDER):
            return False
        if name.rpartition("/")[2] == _MAC_FILE:
            return False
        return not self._globs or any(glob.match(name) for glob in self._globs)

    def check_name(self, name: str) -> None:
        """InvalidObject for a name that leads out of the archive, or is too long to be passed on."""
        if name.startswith(("/", "\\")) or _DRIVE.match(name):
            raise self.refused(name, "has an absolute path", "Write the archive with relative ones")
        if ".." in _SEPARATOR.split(name):
            raise self.refused(name, "has a path with ..", "Write the archive without")
        if len(name.encode()) > _NAME_BYTES:
            raise self.refused(
                name[:100], f"has a name of more than {_NAME_BYTES:,} bytes", "Give it a shorter one"
            )

    def refused(self, name: str, what: str, fix: str) -> InvalidObject:
        """The sentence about a member that cannot be read."""
        return InvalidObject(
            f"{self.member(name)}: the member {what}. {fix}, or have input.archive.members name the others.",
            reason="member_refused",
        )

    def check_entries(self, count: int) -> None:
        """InvalidObject for more entries than an archive may have."""
        limit = self._packing.max_members
        if count > limit:
            raise self._too_large(
                f"has more than {limit:,} entries (input.archive.max.members)", "the option"
            )

    def check_size(self, size: int, stored: int | None = None, *, name: str | None = None) -> None:
        """InvalidObject where what is `stored` (None: the object) expands to more than is allowed."""
        stored = self._stored if stored is None else stored
        if size > self._packing.max_bytes:
            raise self._too_large(
                f"holds more than {self._packing.max_bytes:,} bytes (input.archive.max.bytes)",
                "the option",
                name,
            )
        if size > max(_UNSUSPICIOUS_BYTES, stored * self._packing.max_ratio):
            raise self._too_large(
                f"expands to more than {self._packing.max_ratio:,} times its {stored:,} bytes "
                "(input.archive.max.ratio)",
                "the option, if it is not made to harm",
                name,
            )

    def _too_large(self, what: str, option: str, member: str | None = None) -> InvalidObject:
        whose = f"{self.name}: the archive" if member is None else f"{self.member(member)}: the member"
        return InvalidObject(f"{whose} {what}. Raise {option}.", reason="archive_too_large")

    def torn(self, kind: str) -> ObjectCorrupt:
        """The archive ends before its end."""
        return ObjectCorrupt(f"{self.name}: the {kind} archive is cut short. Upload the object again.")

    def damaged(self, kind: str, at: int, why: str) -> ObjectCorrupt:
        """The archive is not what it says."""
        return ObjectCorrupt(
            f"{self.name}: the {kind} archive is damaged at byte {at:,}: {why}. Upload the object again."
        )


def relative(name: str) -> str:
    """The name without `./` before it."""
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return "" if name == "." else name
