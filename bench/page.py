"""What `bench/results.json` says, as the tables of docs/performance.md that lie between its two marks.

`python -m bench.page` writes them into the page; tests/bench says when they are not the file's.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.results import ratios
from bench.tables import BESIDE, LABELS, ratio_text, us_text

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN: Final = "<!-- made from bench/results.json by `python -m bench.page` -->\n"
END: Final = "<!-- until here -->\n"

Shape = Mapping[str, Any]


def with_tables(page: str, results: Shape) -> str:
    """The page with the tables of these results between its marks. ValueError where it has none."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page has no {BEGIN.strip()} with {END.strip()} behind it")
    return before + BEGIN + "\n".join(_lines(results)) + "\n" + END + after


def _lines(results: Shape) -> Iterator[str]:
    machine = results["machine"]
    yield ""
    yield (
        f"{results['at'][:10]}, {machine['cores']} cores of {machine['processor']}, "
        f"{results['rounds']} rounds: medians, and from the least to the most of all rounds."
    )
    yield ""
    yield from _table(
        ("", "who", "rate", "rounds", "Headrace is", "CPU us each", "broker", "S3"),
        (row for name in results["workloads"] for row in _rates(results["workloads"][name])),
        left=2,
    )
    if results["latency"]["rounds"]:
        yield ""
        yield from _table(
            ("upload to readable", "p50", "p99", "p99 of the rounds"), _delays(results["latency"]), left=1
        )
    yield ""
    yield from _table(("", "aim", "reached", "rounds", ""), (_aim(one) for one in results["aims"]), left=1)
    yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * left + ["---:"] * (len(head) - left))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rates(workload: Shape) -> Iterator[Sequence[str]]:
    title, ours = workload["title"], workload["contestants"]["headrace"]["rounds"]
    for name, one in workload["contestants"].items():
        rounds, beside = one["rounds"], one["beside_us"]
        yield (
            title,
            f"**{LABELS[name]}**" if name == "headrace" else LABELS[name],
            f"{one['median']:,} {workload['unit']}",
            f"{min(rounds):,} to {max(rounds):,}" if len(rounds) > 1 else "",
            "" if name == "headrace" else ratio_text(ratios(ours, rounds), "to"),
            us_text(sum(one["cpu_us"].values())),
            *(us_text(beside[kind]) if kind in beside else "" for kind in ("broker", "S3")),
        )
        title = ""


def _delays(latency: Shape) -> Iterator[Sequence[str]]:
    for beside, rounds in latency["rounds"].items():
        p99 = [one["p99_ms"] for one in rounds]
        yield (
            BESIDE[beside],
            f"{latency[f'{beside}_p50_ms']:.0f} ms",
            f"{latency[f'{beside}_p99_ms']:.0f} ms",
            f"{min(p99):.0f} to {max(p99):.0f} ms",
        )


def _figure(value: float) -> str:
    return f"{value:,}" if value < 100 else f"{value:,.0f}"


def _aim(one: Shape) -> Sequence[str]:
    unit = "" if one["unit"] == "ratio" else f" {one['unit']}"
    low, high = one["rounds"]
    return (
        f"{one['workload']}: {one['what']}",
        f"{_figure(one['aim'])}{unit}",
        f"{_figure(one['reached'])}{unit}",
        f"{_figure(low)} to {_figure(high)}" if low != high else "",
        "met" if one["is_met"] else "**missed**",
    )


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(with_tables(PAGE.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
