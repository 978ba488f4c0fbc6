from pathlib import Path

from tests.faults.account import Account
from tests.faults.campaign import Result
from tests.faults.faults import Harm
from tests.faults.load import Upload, number_of, row
from tests.faults.report import campaign_rows, fault_rows, markdown, pieces, with_sink, with_source


def test_runs_of_a_campaign_add_up(tmp_path: Path) -> None:
    """What was saved comes back, by fault and by campaign, and what was lost is shown."""
    for seed, lost in ((1, 0), (2, 3)):
        Result(
            campaign="worker",
            title="JSONL",
            seed=seed,
            date="2026-01-31",
            objects=2,
            rows=1000,
            lost=lost,
            times={Harm.WORKER.value: 4},
            kills=4,
            recovered={Harm.WORKER.value: [float(seed), 2.0]},
        ).save(tmp_path)
    found = pieces(tmp_path)
    assert fault_rows(found) == [["Python worker killed", "8", "3", "0", "2.0", "2.0"]]
    assert campaign_rows(found) == [["worker", "JSONL", "8", "8", "2,000", "3", "0", "0.0", "1, 2"]]
    assert "**8 kills, 8 faults in all; 2,000 rows in 4 objects: 3 lost, 0\nduplicated**" in markdown(found)


def test_rows_and_bodies_are_known_by_their_numbers() -> None:
    """A row is told from any other bytes, and an object has the same bytes whenever it is made."""
    assert [number_of(row(number)) for number in (0, 7, 123_456)] == [0, 7, 123_456]
    for form in ("jsonl", "gzip", "parquet", "avro"):
        upload = Upload("key", form, 10, 50)
        assert upload.body() == upload.body()
    assert Account(lost=0, duplicated=0).first_lost == ()


def test_each_half_of_the_report_leaves_the_other_as_it_is(tmp_path: Path) -> None:
    """Campaigns of the source and of the sink are run apart; what was written by hand stays."""
    Result(campaign="sink-records", title="by records", seed=7, date="2026-01-31", rows=500).save(tmp_path)
    found = pieces(tmp_path)
    report = "of the source\n\n## The sink\n\nold\n\n## Other runs of the sink\n\nby hand\n"

    of_sink = with_sink(report, found)
    assert of_sink.startswith("of the source\n\n## The sink\n\nWritten by")
    assert of_sink.endswith("\n\n## Other runs of the sink\n\nby hand\n")
    assert "old" not in of_sink
    assert with_sink(of_sink, found) == of_sink

    of_source = with_source(report, found)
    assert of_source.startswith("# The fault suite")
    assert of_source.endswith("\n\n## The sink\n\nold\n\n## Other runs of the sink\n\nby hand\n")
