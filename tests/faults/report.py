"""The report: what every campaign of the folder came to, as docs/faults.md and as a table to look at."""

import json
import os
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.faults.faults import Harm
from tests.faults.sink_faults import SinkHarm

_GIB: Final = 1024**3

_HEAD: Final = """# The fault suite, as it was last run

Written by `make faults`: {dates}, {machine}, broker, S3 and Spark on the same machine.

A campaign uploads objects of mixed kinds and sizes while Headrace runs, and harms it at random moments
(`kill -9` where something is "killed"). At the end every uploaded row, each with a number of its own, is
counted in a read-committed read of the topic. A fifth of the kills are not waited for: the next harm comes
into the recovery.

**{kills} kills, {harms} faults in all; {rows:,} rows in {objects:,} objects: {lost} lost, {duplicated}
duplicated** (exactly once; at least once is a campaign of its own below). The service ended by itself
{ended}.

"Time to recover" runs from the fault to the next newly committed row: for a fault that lasts, from its end;
for a killed broker or S3 with the time that it takes to start again; for a killed driver with Spark's start.
"""

_SINK_MARK: Final = "## The sink\n"
_KEPT_MARK: Final = "## Other runs of the sink\n"

_SINK_HEAD: Final = """
Written by `make faults PYTEST_ARGS='-k sink_campaign'`: {dates}, {machine}, everything on the same machine.

Some 600 records a second are archived while a sink is harmed at random moments, and at the points of its
protocol: a proxy before S3 sees parts and completions, so that kills come between seal and commit (the broker
is stopped meanwhile), between commit and completion, and when S3 has completed and its answer is lost. In the
end every object is read and held against the topic; the bucket keeps versions, and the proxy counts
completions: an object that was written twice, completed twice, or is not whole fails the campaign, as does a
sink that ends by itself.

**{kills} kills, {harms} faults in all; {rows:,} records in {objects:,} objects: {lost} in no object,
{duplicated} in two.** The sink ended by itself {ended}. The time to recover runs from the fault (one that
lasts: from its end) to the next completed object; with two instances the one that was killed or stopped is
started again within it, and Spark with it.
"""


def pieces(folder: Path) -> list[dict[str, Any]]:
    """The results kept in a folder, by name."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def machine() -> str:
    """The kind of this machine: its cores and its memory."""
    cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    words = {1: "one core", 2: "two cores", 4: "four cores", 8: "eight cores"}
    return f"{words.get(cores, f'{cores} cores')}, {memory:.0f} GiB"


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _summed(head: str, results: list[dict[str, Any]]) -> str:
    """The head with what all results come to; what at least once may duplicate is not counted."""
    dates = sorted({result["date"] for result in results})
    return head.format(
        dates=dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        machine=machine(),
        kills=sum(result["kills"] for result in results),
        harms=sum(sum(result["times"].values()) for result in results),
        rows=sum(result["rows"] for result in results),
        objects=sum(result["objects"] for result in results),
        lost=sum(result["lost"] for result in results),
        duplicated=sum(result["duplicated"] for result in results if not result["may_duplicate"]),
        ended=_times(sum(len(result["ended"]) for result in results)),
    )


def markdown(results: list[dict[str, Any]]) -> str:
    """The whole report."""
    strict = [result for result in results if not result["may_duplicate"]]
    parts = [_summed(_HEAD, results), "## By fault\n", _table(_FAULT_HEAD, fault_rows(strict))]
    parts += ["\n## By campaign\n", _table(_CAMPAIGN_HEAD, campaign_rows(results))]
    return "\n".join(parts) + "\n"


_FAULT_HEAD: Final = ("fault", "times", "lost", "duplicated", "recovery, median s", "worst s")
_CAMPAIGN_HEAD: Final = (
    "campaign",
    "configuration",
    "faults",
    "kills",
    "rows",
    "lost",
    "duplicated",
    "minutes",
    "seeds",
)


def with_source(report: str, results: list[dict[str, Any]]) -> str:
    """The report with these results of the source; what it says of the sink, and by hand, is unchanged."""
    _, mark, rest = report.partition(_SINK_MARK)
    return f"{markdown(results)}\n{mark}{rest}" if mark else markdown(results)


def with_sink(report: str, results: list[dict[str, Any]]) -> str:
    """The report with these results of the sink; what it says of the source, and by hand, is unchanged."""
    source, _, rest = report.partition(_SINK_MARK)
    _, mark, kept = rest.partition(_KEPT_MARK)
    text = source.rstrip("\n") + f"\n\n{_SINK_MARK}{_sink_section(results)}"
    return f"{text}\n{mark}{kept}" if mark else text


def _sink_section(results: list[dict[str, Any]]) -> str:
    parts = [_summed(_SINK_HEAD, results), "### By fault\n", _table(_FAULT_HEAD, fault_rows(results))]
    parts += ["\n### By campaign\n", _table(_CAMPAIGN_HEAD, campaign_rows(results))]
    return "\n".join(parts) + "\n"


def fault_rows(results: Iterable[dict[str, Any]]) -> list[list[str]]:
    """One row for each fault; what a campaign lost or duplicated is charged to each fault in it."""
    times: defaultdict[str, int] = defaultdict(int)
    recovered: defaultdict[str, list[float]] = defaultdict(list)
    lost: defaultdict[str, int] = defaultdict(int)
    duplicated: defaultdict[str, int] = defaultdict(int)
    for result in results:
        for harm, count in result["times"].items():
            times[harm] += count
            lost[harm] += result["lost"]
            duplicated[harm] += result["duplicated"]
            recovered[harm] += result["recovered"].get(harm, [])
    return [
        [
            harm.value,
            str(times[harm.value]),
            str(lost[harm.value]),
            str(duplicated[harm.value]),
            *_seconds(recovered[harm.value]),
        ]
        for harm in (*Harm, *SinkHarm)
        if times[harm.value]
    ]


def campaign_rows(results: Iterable[dict[str, Any]]) -> list[list[str]]:
    """One row for each campaign, all of its runs together."""
    runs: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        runs[result["campaign"], result["title"]].append(result)
    return [
        [
            campaign,
            title,
            str(sum(sum(run["times"].values()) for run in found)),
            str(sum(run["kills"] for run in found)),
            f"{sum(run['rows'] for run in found):,}",
            str(sum(run["lost"] for run in found)),
            str(sum(run["duplicated"] for run in found)),
            f"{sum(run['seconds'] for run in found) / 60:.1f}",
            ", ".join(str(run["seed"]) for run in found),
        ]
        for (campaign, title), found in runs.items()
    ]


def show(results: list[dict[str, Any]]) -> None:
    """Print the table by fault."""
    table = Table(*_FAULT_HEAD)
    for row in fault_rows(results):
        table.add_row(*row)
    Console().print(table)


def _seconds(found: list[float]) -> list[str]:
    if not found:
        return ["", ""]
    return [f"{statistics.median(found):.1f}", f"{max(found):.1f}"]


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [head, ["---", *(["---"] if len(head) > len(_FAULT_HEAD) else []), *["---:"] * (len(head) - 1)]]
    lines[1] = lines[1][: len(head)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, *rows])
