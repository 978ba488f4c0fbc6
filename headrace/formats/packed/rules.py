"""Which members of an archive are read, and the sentences about what is not."""

import re
from fnmatch import translate
from typing import Final

from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.text_formatting import printable
from headrace.options.row_settings import PackingSettings

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
