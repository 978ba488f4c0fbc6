"""`python -m tests.simulation`: seeds one after the other, what they covered, and what they found."""

import argparse
import gc
import itertools
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final, TextIO

# Before what is large is imported, which would be imported twice: two seconds.
if __name__ == "__main__" and os.environ.get("PYTHONHASHSEED") != "0":  # noqa: TID251  # the order of sets is part of a run
    # Threads of native libraries gain nothing with so few rows, and cost their turns.
    alone = dict.fromkeys(("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    os.environ.update(alone, PYTHONHASHSEED="0")  # noqa: TID251  # as above
    os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])  # noqa: S606  # this very program

from headrace.options import SettingsError
from tests.simulation.branches import measured
from tests.simulation.check import check, digest, scenario_of, shrink
from tests.simulation.coverage import DIMENSIONS, HEAD, Coverage
from tests.simulation.laws import Finding
from tests.simulation.scenario import Scenario, UnknownScenario, dumps, loads

_HERE: Final = Path(__file__).parent
_clock: Final = time.perf_counter
_PROGRESS_SECONDS: Final = 10.0


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 when a law was broken, 2 for a call that means nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--direction", choices=sorted(DIMENSIONS), help="one of them; without it all in turn")
    parser.add_argument("--seeds", default="", help="a seed, or BEGIN:END, or several with commas")
    parser.add_argument(
        "--only",
        metavar="DIRECTION=SEEDS",
        action="append",
        default=[],
        help="of these no others of a direction",
    )
    parser.add_argument("--minutes", type=float, help="fresh seeds for so long")
    parser.add_argument(
        "--file", type=Path, nargs="+", help="scenarios that were written down; before seeds, if any"
    )
    parser.add_argument("--show", metavar="SEED", help="write a seed's scenario down, the first of a range's")
    parser.add_argument("--no-shrink", action="store_true", help="print failing scenarios as they are")
    parser.add_argument("--first", action="store_true", help="end with the first that fails")
    parser.add_argument("--branches", action="store_true", help="measure the branches of the code reached")
    parser.add_argument("--unreached", type=Path, metavar="FILE", help="with --branches: what was not")
    parser.add_argument("--digest", action="store_true", help="show what each run came to, unjudged")
    parser.add_argument(
        "--digested",
        metavar="DIRECTION=SEEDS",
        action="append",
        default=[],
        help="after all others, what these come to",
    )
    given = parser.parse_args(arguments)
    found = 0
    # Loops of processes that were killed are cleared away with tasks in them, which asyncio reports.
    logging.getLogger("asyncio").disabled = True
    try:
        if given.show is not None:
            seed = next(_seeds(given.show, None))
            _say(dumps(scenario_of(given.direction or "sink", seed)))
            return 0
        if given.file is not None:
            found = max([_report(file.stem, loads(_text_of(file)), shrinks=False) for file in given.file])
            if not given.seeds:
                return found
        seeds = _seeds(given.seeds, given.minutes)
        with measured(given.unreached) if given.branches else nullcontext():
            return max(found, _run(seeds, given))
    except UnknownScenario as error:
        _say(str(error), sys.stderr)
        return 2


def _text_of(file: Path) -> str:
    try:
        # What is no text is no scenario either.
        return file.read_text(errors="replace")
    except OSError as error:
        raise UnknownScenario(f"{file} cannot be read ({error.strerror}): give a scenario's file.") from None


def _seeds(text: str, minutes: float | None) -> Iterator[int]:
    if text:
        return itertools.chain.from_iterable([_range_of(each) for each in text.split(",")])
    if minutes is not None and minutes <= 0:
        raise UnknownScenario(f"--minutes {minutes:g} is no time: give a number above 0.")
    until = _clock() + 60 * (0.5 if minutes is None else minutes)
    first = int.from_bytes(os.urandom(4), "big") * 1000 + 1000
    return itertools.takewhile(lambda _: _clock() < until, itertools.count(first))


def _range_of(text: str) -> range:
    begin, _, end = text.partition(":")
    if not begin.isdecimal() or (end and not end.isdecimal()):
        raise UnknownScenario(f"{text!r} names no seeds: give a whole number, or BEGIN:END.")
    found = range(int(begin), int(end) if end else int(begin) + 1)
    if not found:
        raise UnknownScenario(f"{text!r} names no seeds: END is the first that is not run.")
    return found


def _only(texts: list[str]) -> dict[str, set[int]]:
    """The seeds of the directions that have some of all."""
    found = {}
    for text in texts:
        direction, _, seeds = text.partition("=")
        if direction not in DIMENSIONS:
            raise UnknownScenario(f"{direction!r} is no direction: give {', '.join(sorted(DIMENSIONS))}.")
        found[direction] = {seed for each in seeds.split(",") for seed in _range_of(each)}
    return found


def _run(seeds: Iterator[int], given: argparse.Namespace) -> int:
    directions = [given.direction] if given.direction else sorted(DIMENSIONS)
    only = _only(given.only)
    coverage = {direction: Coverage(direction) for direction in directions}
    # What was imported lives as long as the run: no collection of garbage need look at it.
    gc.freeze()
    began, shown, count, failed, cpu = _clock(), _clock(), 0, 0, time.process_time()
    # Not itertools.product: it would take all seeds before the first is run.
    for seed, direction in ((seed, direction) for seed in seeds for direction in directions):
        if seed not in only.get(direction, {seed}):
            continue
        scenario = scenario_of(direction, seed)
        coverage[direction].add(scenario)
        count += 1
        if given.digest:
            _say(digest(scenario))
            continue
        failed += _report(f"{direction} seed {seed}", scenario, shrinks=not given.no_shrink)
        if failed and given.first:
            break
        if _clock() - shown > _PROGRESS_SECONDS:
            shown = _clock()
            _say(f"{count} scenarios, {count / (shown - began):.1f} a second, {failed} failed", sys.stderr)
    for direction, digested in _only(given.digested).items():
        for seed in sorted(digested):
            _say(digest(scenario_of(direction, seed)))
    seconds = max(_clock() - began, 0.001)
    _say(f"{count} scenarios in {seconds:.0f} s, {count / seconds:.1f} a second, {failed} failed")
    _say(f"  {count / max(time.process_time() - cpu, 0.001):.1f} a second of CPU")
    _say("Pairs that came together, of all (some values of options exclude each other):")
    _say("\n".join([HEAD, *(one.line() for one in coverage.values() if one.count)]))
    return 1 if failed else 0


def _report(name: str, scenario: Scenario, *, shrinks: bool) -> int:
    """Run one scenario; 1, with what it shows printed, where it breaks a law."""
    try:
        findings = check(scenario)
    except SettingsError as error:
        _say(f"{name}: its configuration is refused now: {error}", sys.stderr)
        return 0
    if not findings:
        return 0
    for one in findings[:3]:
        _say(f"{name}: {one.law}: {one.sentence}")
    _print_as_test(shrink(scenario, findings[0]) if shrinks else scenario, findings[0])
    return 1


def _print_as_test(scenario: Scenario, finding: Finding) -> None:
    _say(f"# {finding.law}: {finding.sentence}")
    _say(f"# Put it into {_HERE.name}/failed/NAME.json, where `make test` runs it for good:")
    _say(dumps(scenario))


def _say(line: str, out: TextIO = sys.stdout) -> None:
    out.write(f"{line}\n")
    out.flush()


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    # Not by `sys.exit`: threads of native libraries that killed processes have left may abort at its end.
    os._exit(ended)
