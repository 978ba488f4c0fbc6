"""Decoding in a process of its own, whose peak of memory is that of the decoder and nothing before it."""

import math
import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.formats import DecodeOptions
from headrace.formats.packed.members import decoder_of
from headrace.model.errors import HeadraceError
from headrace.model.objects import ByteSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came out: rows, bad rows by reason, the error's class and reason, and the peak in MiB."""

    rows: int
    bad: dict[str, int]
    error: str | None
    grown_mib: float


def measure(
    make: Callable[[], ByteSource], options: DecodeOptions, *, enough_mib: float = math.inf
) -> Measured:
    """Decode what `make` gives (called in the process; it has to be importable there); blocks.

    Again, four times at most, where it took `enough_mib` or more: on a busy machine Arrow's threads may give
    pages back late. What decodes without a bound takes too much each time.
    """
    for _ in range(3):
        found = _measured(make, options)
        if found.grown_mib < enough_mib:
            return found
    return _measured(make, options)


def _measured(make: Callable[[], ByteSource], options: DecodeOptions) -> Measured:
    # A server that has imported what decodes, and has decoded nothing, is forked: importing takes a second.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    answers = context.SimpleQueue()
    process = context.Process(target=_decode, args=(make, options, answers))
    process.start()
    process.join()
    assert process.exitcode == 0
    found: Measured = answers.get()
    return found


def _decode(make: Callable[[], ByteSource], options: DecodeOptions, answers: Any) -> None:
    source = make()
    before = _peak_mib()
    rows, error = 0, None
    bad: Counter[str] = Counter()
    try:
        for batch in decoder_of(options.format)(source, None, options=options):
            rows += len(batch)
            bad.update(row.reason for row in batch.bad)
    except HeadraceError as raised:
        error = getattr(raised, "reason", type(raised).__name__)
    answers.put(Measured(rows=rows, bad=dict(bad), error=error, grown_mib=_peak_mib() - before))


def _peak_mib() -> float:
    # getrusage() would begin with what the parent took when it started this process.
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024
