import io
import json
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from bench.aims import AIMS, outcomes
from bench.board import contestants
from bench.chart import bar_chart
from bench.contestants import Run
from bench.decode import Memory
from bench.delays import Delays
from bench.plain_formats import LOOPS
from bench.restore import restored
from bench.results import Results
from bench.sink import SinkFigures, SinkRun
from bench.tables import aims_table, groups, rates_table, trust
from bench.workloads import MORE_WORKLOADS, RESTORES, WORKLOADS, Workload

BY_NAME = {one.name: one for one in (*WORKLOADS, *MORE_WORKLOADS)}


@pytest.fixture
def results() -> Results:
    """Three rounds of JSON Lines and of latency, without the ceiling with two processes."""
    made = Results(rounds=3, scale=1.0)
    jsonl = WORKLOADS[0]
    for rate, cpu in ((900.0, 1.0), (1000.0, 1.4), (800.0, 1.2)):
        made.add(
            jsonl,
            "headrace",
            Run(
                rate=rate,
                cpu_us={"driver": 0.1, "workers": cpu},
                beside_us={"broker": 0.4},
                peak_mib={"jvm": 1.0},
            ),
        )
        made.add(jsonl, "plain_script", Run(rate=600.0, cpu_us={"script": 2.0}))
    made.delays["idle"] = [Delays(ms=[20.0, 30.0, float(worst)]) for worst in (40, 300, 50)]
    return made


def test_medians_ratios_and_aims(results: Results) -> None:
    """Only aims whose figures were measured are spoken of; each has its own direction."""
    found = {
        (one.aim.workload, one.aim.what): (one.reached, one.is_met)
        for one in outcomes(results.medians(), results.by_round())
    }

    assert found == {
        ("jsonl", "of the plain script"): (1.5, True),
        ("latency", "p50, one object a second"): (30.0, True),
        ("latency", "p99, one object a second"): (50.0, True),
        ("jsonl", "CPU a record, all our processes"): (pytest.approx(1.3), False),
        ("memory", "the JVM"): (1.0, True),
    }


def test_figures_of_the_sink() -> None:
    """Ratios are those of each round; what was not measured has no aim."""

    def runs(*rates: float) -> list[SinkRun]:
        return [SinkRun(rate=one, cpu_us=2.0, broker_us=0.5, s3_us=1.0, requests=3.0) for one in rates]

    found = SinkFigures(
        runs={"Headrace": runs(300, 100, 200), "plain script": runs(100, 100, 100)}, delays_ms=[90, 160, 170]
    )
    made = Results(rounds=3, scale=1.0, sink=found.figures())
    reached = {one.aim.what: (one.reached, one.is_met) for one in outcomes(made.medians(), made.by_round())}
    assert reached["JSON Lines of 200 bytes, of the plain script"] == (2.0, True)
    assert reached["CPU a record, all our processes"] == (2.0, False)
    assert reached["p50, produced to visible, rotate.records=1"] == (160, False)
    assert "a worker with 1,000 open groups" not in reached
    assert made.as_dict()["sink"]["plain_script_cpu_us"] == 2.0


def test_the_file_that_is_written(results: Results) -> None:
    """Medians with every round beside them, and a failure is not hidden."""
    results.failures.append("round 2: no")

    shape = json.loads(json.dumps(results.as_dict()))

    assert shape["workloads"]["jsonl"]["contestants"]["headrace"] == {
        "median": 900,
        "rounds": [900, 1000, 800],
        "cpu_us": {"driver": 0.1, "workers": 1.2},
        "beside_us": {"broker": 0.4},
        "peak_mib": {"jvm": 1},
    }
    assert shape["latency"]["idle_p99_ms"] == 50.0
    assert shape["failures"] == ["round 2: no"]
    assert {"cores", "processor", "python"} == shape["machine"].keys()


def test_what_people_see(results: Results) -> None:
    """Both tables, and a chart whose longest bar is as wide as there is room."""
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(rates_table(results))
    console.print(aims_table(outcomes(results.medians(), results.by_round())))
    text = console.export_text()
    assert "800 .. 1,000" in text
    assert "1.50 of it (1.33 .. 1.67)" in text
    assert "missed" in text
    assert "met, not each round" in text

    drawn = ET.fromstring(bar_chart("a < b", groups(results)))  # noqa: S314 - our own
    widths = [float(bar.attrib["width"]) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    # Headrace's median of 900 beside its own best of 1,000, which a whisker shows.
    assert widths[0] / widths[1] == pytest.approx(1.5)
    assert widths[0] == pytest.approx(0.9 * 440)
    title = drawn.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == "a < b"


def test_what_is_said_of_trust(results: Results) -> None:
    """How much rounds differ, the ratios too; of one round nothing is known."""
    assert trust(results) == (
        "The shortest measurement of Headrace took 2000.0 s (JSON Lines). Between rounds the same contestant "
        "differed by a factor of up to 1.25 (JSON Lines, Headrace), the ratio of two by up to 1.25 (JSON "
        "Lines, plain script): a difference that is smaller says nothing."
    )
    once = Results(rounds=1, scale=1.0)
    for name in ("headrace", "plain_script"):
        once.add(WORKLOADS[0], name, Run(rate=1_000_000.0))
    assert trust(once) == (
        "The shortest measurement of Headrace took 2.0 s (JSON Lines), in one round: how much it swings is "
        "not known, so ask for three (--rounds 3)."
    )
    assert trust(Results(rounds=3, scale=1.0)) == "Nothing was compared."


def test_a_ratio_belongs_to_its_round() -> None:
    """A machine that is half as fast in one round changes no ratio; a failed one leaves the medians."""
    made = Results(rounds=2, scale=1.0)
    for speed in (1.0, 0.5):
        made.add(WORKLOADS[0], "headrace", Run(rate=900.0 * speed))
        made.add(WORKLOADS[0], "plain_script", Run(rate=600.0 * speed))
    found = {
        one.aim.what: (one.reached, one.low, one.high) for one in outcomes(made.medians(), made.by_round())
    }
    assert found["of the plain script"] == (1.5, 1.5, 1.5)

    made.add(WORKLOADS[0], "headrace", Run(rate=900.0))
    assert made.ratios("jsonl", "plain_script") == [2.0]
    found = {
        one.aim.what: (one.reached, one.low, one.high) for one in outcomes(made.medians(), made.by_round())
    }
    assert found["of the plain script"] == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("workload", BY_NAME.values(), ids=lambda workload: workload.name)
def test_a_steady_run(workload: Workload) -> None:
    """As many objects or more, of which the script reads no more than there are, scaled down too."""
    steady = workload.steady()

    assert steady.records >= workload.records
    assert steady.of_script().records <= steady.records
    assert steady.scaled(0.01).of_script().objects <= steady.scaled(0.01).objects
    assert workload.of_script() == workload
    assert "headrace_cluster" not in contestants(workload)
    assert ("headrace_cluster" in contestants(steady)) == (workload.name == "jsonl")


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_the_plain_loops_find_the_rows_that_are_there(name: str) -> None:
    """All of them, each different, so that a ratio compares the same work."""
    rows = list(LOOPS[name](BY_NAME[name].body(0, 50)))

    assert len(rows) == len(set(rows)) == 50


def test_every_aim_has_a_workload_or_a_group() -> None:
    """A misspelt one would silently never be spoken of."""
    assert {aim.workload for aim in AIMS} <= BY_NAME.keys() | {"latency", "memory", "sink"}


@pytest.mark.parametrize("workload", RESTORES, ids=lambda workload: workload.name)
def test_an_archive_is_restored_beside_its_rows_as_they_stand(workload: Workload) -> None:
    """All of its records come back, and the others are the same objects without a layout."""
    assert restored(workload, Memory(workload.body(0, 50)))() == 50
    assert contestants(workload).keys() == {"headrace", "without_layout"}
    plain = workload.without_layout()
    assert (plain.options, plain.bucket, plain.records) == ({}, workload.bucket, workload.records)
