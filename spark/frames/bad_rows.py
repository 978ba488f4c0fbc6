"""What is noted at `state.path` of the bad rows that the task of a partition met."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from spark.frames.log_store import LogStore

BAD: Final = "bad"


def note_bad_rows(store: LogStore, name: str, rows: Sequence[dict[str, Any]], *, is_whole: bool) -> None:
    """Have these rows noted, all of those before them included.

    `is_whole`: the partition was read to its end. The file is written again as a repeated task has it, and
    what reads that took less have noted goes. These have a file of their own, for what no other one has: a
    frame is read again for each look at it, and no look may take away what is noted.
    """
    lines = [msgspec.json.encode(row) + b"\n" for row in rows]
    whole, begun = f"{BAD}/{name}.jsonl", f"{BAD}/{name}.part.jsonl"
    if is_whole:
        store.replace(whole, b"".join(lines))
        store.remove([begun])
        return
    if not _lines(store, whole).keys() >= {*lines}:
        more = dict.fromkeys([*lines, *_lines(store, begun)])
        store.replace(begun, b"".join(more))


def _lines(store: LogStore, name: str) -> dict[bytes, None]:
    return dict.fromkeys((store.read(name) or b"").splitlines(keepends=True))
