"""The benchmark's results as people read them: two tables, and the groups of the chart."""

import statistics
from collections.abc import Mapping, Sequence

from rich.table import Table

from bench.aims import Outcome
from bench.chart import Bar, Group
from bench.results import Results, middle

LABELS = {
    "headrace": "Headrace",
    "headrace_cluster": "on two Spark workers",
    "plain_script": "plain script",
    "produce_only_1": "produce(), 1 process",
    "produce_only_2": "produce(), 2 processes",
    "bare_gets": "bare GETs",
    "without_layout": "the same, no layout",
}

BESIDE = {
    "idle": "one a second",
    "load": "under load",
    "large": "while 1 GiB is read",
}
"""What goes on besides while latency is measured."""


def rates_table(results: Results) -> Table:
    """Each workload and contestant: median, spread, ratio, CPU."""
    table = Table(title=f"Medians of {results.rounds}")
    table.add_column("workload")
    table.add_column("who")
    for heading in ("median", "spread", "Headrace is", "CPU us each", "broker", "S3"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, contestants in results.runs.items():
        workload = results.workloads[name]
        title = workload.title
        for contestant, runs in contestants.items():
            rates = results.rates(name, contestant)
            median = statistics.median(rates)
            is_other = contestant != "headrace" and "headrace" in contestants
            cpu, beside = middle(runs, "cpu_us"), middle(runs, "beside_us")
            table.add_row(
                title,
                LABELS[contestant],
                f"{median:,.0f} {workload.unit}",
                f"{min(rates):,.0f} .. {max(rates):,.0f}",
                ratio_text(results.ratios(name, contestant)) if is_other else "",
                us_text(sum(cpu.values())) if cpu else "",
                *(us_text(beside[kind]) if kind in beside else "" for kind in ("broker", "S3")),
            )
            if len(cpu) > 1:
                for kind, us in cpu.items():
                    table.add_row("", f"  {kind}", "", "", "", us_text(us))
            title = ""
        table.add_section()
    for goes_on, rounds in results.delays.items():
        for number, one in enumerate(rounds):
            table.add_row(
                "" if number else f"upload to readable, {BESIDE[goes_on]}",
                f"round {number + 1}, {len(one.ms)} uploads",
                f"p50 {one.p50:.0f} ms",
                f"{one.ms[0]:.0f} .. {one.ms[-1]:.0f} ms",
            )
        table.add_section()
    return table


def ratio_text(ratios: Sequence[float], between: str = "..") -> str:
    """The median of the rounds' ratios with the least and the most of them."""
    median = f"{statistics.median(ratios):.2f} of it"
    return median if len(ratios) == 1 else f"{median} ({min(ratios):.2f} {between} {max(ratios):.2f})"


def us_text(cpu: float) -> str:
    """CPU microseconds, as precise as they are large."""
    # Records take one or two, objects some thousand.
    return f"{cpu:,.2f}" if cpu < 100 else f"{cpu:,.0f}"


def aims_table(outcomes: list[Outcome]) -> Table:
    """Each aim beside what was reached."""
    table = Table(title="Aims")
    table.add_column("workload")
    table.add_column("what")
    table.add_column("aim", justify="right")
    table.add_column("reached", justify="right")
    table.add_column("rounds", justify="right")
    table.add_column("")
    for one in outcomes:
        aim = one.aim
        places = 2 if not aim.unit or aim.unit == "us" else 0
        unit = f" {aim.unit}" if aim.unit else ""
        table.add_row(
            aim.workload,
            aim.what,
            f"{'at most ' if aim.at_most else ''}{aim.aim:,.{places}f}{unit}",
            f"{one.reached:,.{places}f}{unit}",
            f"{one.low:,.{places}f} .. {one.high:,.{places}f}" if one.low != one.high else "",
            ("[green]met[/]" if one.is_met else "[red]missed[/]")
            + ("" if one.is_sure else ", not each round"),
        )
    return table


def trust(results: Results) -> str:
    """How far these figures can be trusted: how much rounds differ, and how long the shortest was."""
    swings = {
        (name, contestant): max(rates) / min(rates)
        for name, contestants in results.runs.items()
        for contestant in contestants
        for rates in (results.rates(name, contestant),)
    }
    ratios = {
        (name, contestant): max(found) / min(found)
        for name, contestant in swings
        if contestant != "headrace" and "headrace" in results.runs[name]
        for found in (results.ratios(name, contestant),)
    }
    if not ratios:
        return "Nothing was compared."
    seconds, workload = min(
        (results.workloads[name].amount / max(results.rates(name, contestant)), name)
        for name, contestant in swings
        if contestant == "headrace"
    )
    said = f"The shortest measurement of Headrace took {seconds:.1f} s ({results.workloads[workload].title})"
    if results.rounds == 1:
        return f"{said}, in one round: how much it swings is not known, so ask for three (--rounds 3)."
    return (
        f"{said}. Between rounds the same contestant differed by a factor of up to {_most(swings, results)}, "
        f"the ratio of two by up to {_most(ratios, results)}: a difference that is smaller says nothing."
    )


def _most(factors: Mapping[tuple[str, str], float], results: Results) -> str:
    name, contestant = max(factors, key=lambda one: factors[one])
    return f"{factors[name, contestant]:.2f} ({results.workloads[name].title}, {LABELS[contestant]})"


def groups(results: Results) -> list[Group]:
    """What the chart shows."""
    found = [
        Group(
            heading=results.workloads[name].title,
            unit=results.workloads[name].unit,
            bars=[
                Bar(
                    label=LABELS[contestant],
                    value=statistics.median(rates),
                    low=min(rates),
                    high=max(rates),
                    is_ours=contestant == "headrace",
                )
                for contestant in contestants
                for rates in (results.rates(name, contestant),)
            ],
        )
        for name, contestants in results.runs.items()
    ]
    for goes_on, rounds in results.delays.items():
        found.append(
            Group(
                heading=f"Upload to readable, {BESIDE[goes_on]} (less is better)",
                unit="ms",
                bars=[
                    Bar(label=label, value=statistics.median(ms), low=min(ms), high=max(ms), is_ours=True)
                    for label, ms in (
                        ("Headrace, p50", [one.p50 for one in rounds]),
                        ("Headrace, p99", [one.p99 for one in rounds]),
                    )
                ],
            )
        )
    return found
