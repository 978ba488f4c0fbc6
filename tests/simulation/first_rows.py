"""What stands before the rows of an archive's objects: how those are read must not depend on it."""

import gzip
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.archive_rows import plain
from tests.simulation.scenario import Step

_MARK: Final = b"\xef\xbb\xbf"
_MAX_BYTES: Final = 1000
# Above six times the limit and 64 KiB no row is held.
_ROWS: Final = {
    "blank": b"",
    "spaces": b" \t ",
    "cut off": b'{"value":',
    "cut off in a text": b'{"key":"k0","value":"{',
    "cut off and long": b'{"value":"' + 3 * _MAX_BYTES * b"x",
    "too long to be held": b'{"value":"' + 80 * _MAX_BYTES * b"x",
}
_SHARE: Final = 0.4
_TEXTS: Final = ("jsonl", "json")
_PLAIN: Final = {"aiven": "none", "quix": "none"}
"""What says that objects are not compressed, where that is not the default."""

OPTIONS: Final = {"errors.tolerance": "all", "record.max.bytes": str(_MAX_BYTES)}
"""Those of a restore that passes over bad rows, of which some are too long."""


def drawn(seed: int, layout: str, written: dict[str, str | None]) -> str | None:
    """What stands before the rows of this scenario's objects; None: nothing.

    `written`, the options of the archive's sink, is changed so that rows stand alone. Drawn apart, so that
    what else a seed draws stays as it is.
    """
    rng = random.Random(f"archives-first-rows-{seed}")
    if rng.random() >= _SHARE or written.get("output.format") not in _TEXTS:
        return None
    # What is next to values, and offsets that are told, count rows.
    for name in [one for one in written if one.startswith("sidecars") or one == "aws.s3.object.tags"]:
        written[name] = None
    if written.get("file.compression.type") != "gzip":
        written["file.compression.type"] = _PLAIN.get(layout)
    # Rows are lines.
    written["output.separator"] = None
    return rng.choice(("mark", *_ROWS))


def shows_its_form(seed: int) -> bool:
    """Whether rows are to show by themselves what they are, and the operator says nothing."""
    return random.Random(f"archives-first-forms-{seed}").random() < 0.7


def with_first(steps: Iterator[Step], first: str | None) -> Iterator[Step]:
    """The steps, of which those that bring objects put this before their rows."""
    for step in steps:
        is_changed = first is not None and step.act == "arrive"
        yield replace(step, given={**step.given, "head": first}) if is_changed else step


def put_first(first: str, body: bytes) -> bytes:
    """An object of JSON that begins with it."""
    text = plain(body)
    if first == "mark":
        changed = _MARK + text
    elif text.startswith(b"[\n"):
        row = _ROWS[first]
        # Between the elements of an array stand commas, as between its lines.
        changed = b"[\n" + row + b",\n" * bool(row.strip()) + text[2:]
    else:
        changed = _ROWS[first] + b"\n" + text
    return changed if text is body else gzip.compress(changed, mtime=0)


def is_first_row(value: bytes | None, options: Mapping[str, str]) -> bool:
    """Whether a restored value is such a row, which a value in a line of its own is that needs no form."""
    return value is not None and "errors.tolerance" in options and value in _ROWS.values()
