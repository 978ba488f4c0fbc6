import json
from typing import Any

import pytest

from bench.contestants import Run
from bench.delays import Delays
from bench.page import BEGIN, END, PAGE, RESULTS, with_tables
from bench.results import Results
from bench.workloads import WORKLOADS

JSONL = WORKLOADS[0]


def _results(**delays: Any) -> dict[str, Any]:
    made = Results(rounds=2, scale=1.0)
    for rate in (900.0, 1000.0):
        made.add(
            JSONL, "headrace", Run(rate=rate, cpu_us={"workers": 0.9, "driver": 0.05}, beside_us={"S3": 2100})
        )
        made.add(JSONL, "plain_script", Run(rate=500.0, cpu_us={"script": 1.5}))
    made.delays |= delays
    # As it stands in the file.
    found: dict[str, Any] = json.loads(json.dumps(made.as_dict()))
    return found


def _between(page: str) -> list[str]:
    return page.partition(BEGIN)[2].partition(END)[0].splitlines()


def test_the_page_has_the_tables_of_the_file() -> None:
    """`python -m bench.page` has been run since the benchmark."""
    page = PAGE.read_text()
    assert with_tables(page, json.loads(RESULTS.read_text())) == page


def test_rates_with_their_ratios_and_their_cpu() -> None:
    """Ratios are those within a round, with the spread of them."""
    found = _between(with_tables(f"# Speed\n{BEGIN}old\n{END}more\n", _results()))

    assert "| JSON Lines | **Headrace** | 950 records/s | 900 to 1,000 |  | 0.95 |  | 2,100 |" in found
    assert (
        "|  | plain script | 500 records/s | 500 to 500 | 1.90 of it (1.80 to 2.00) | 1.50 |  |  |" in found
    )
    assert not [line for line in found if "old" in line or line.startswith("| upload to readable")]


def test_what_lies_around_the_marks_is_kept() -> None:
    """And a second time changes nothing."""
    results = _results(idle=[Delays(ms=[20.0, 30.0]), Delays(ms=[25.0, 50.0])])
    once = with_tables(f"# Speed\n{BEGIN}{END}more\n", results)

    assert once.startswith(f"# Speed\n{BEGIN}")
    assert once.endswith(f"{END}more\n")
    assert "| one a second | 31 ms | 40 ms | 30 to 50 ms |" in _between(once)
    assert with_tables(once, results) == once


def test_a_page_without_marks_is_left_alone() -> None:
    """Nothing is put anywhere else."""
    with pytest.raises(ValueError, match="has no"):
        with_tables("# Speed\n", _results())
