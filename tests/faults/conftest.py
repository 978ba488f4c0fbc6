"""The site of the campaigns, how long they are, and their report."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.faults import report
from tests.faults.fault_environment import Site, open_site

_TOP: Final = Path(__file__).resolve().parents[2]
_RESULTS: Final = _TOP / ".cache" / "faults"
_REPORT: Final = _TOP / "docs" / "faults.md"
_CAMPAIGNS: Final = frozenset({"test_campaigns.py", "test_sink_campaigns.py", "test_worker_campaign.py"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Known when this folder is asked for, as `make faults` does."""
    parser.addoption("--faults-share", type=float, default=1.0, help="so much of each campaign")
    parser.addoption(
        "--faults-most", type=int, default=None, help="at most so many faults of each of the sink's campaigns"
    )
    parser.addoption("--faults-seed", type=int, default=None, help="the seed of all campaigns")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns take an hour together: they run when their folder is asked for, not among all tests."""
    if any("faults" in argument for argument in config.args):
        return
    campaigns = [item for item in items if item.path.name in _CAMPAIGNS]
    config.hook.pytest_deselected(items=campaigns)
    items[:] = [item for item in items if item not in campaigns]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker and an S3 that may be killed."""
    with ExitStack() as stack:
        yield open_site(stack, tmp_path_factory.mktemp("site"), own_s3=True)


@pytest.fixture(scope="session")
def lasting_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker and an S3 that keep what they have when they are killed."""
    with ExitStack() as stack:
        yield open_site(stack, tmp_path_factory.mktemp("lasting"), own_s3=True, lasts=True)


@pytest.fixture(scope="session")
def results() -> Iterator[Path]:
    """The folder where results are kept; the report is written from all that are there, at the end."""
    yield _RESULTS
    found = report.pieces(_RESULTS)
    if found:
        report.show(found)
        _REPORT.write_text(report.with_source(_REPORT.read_text(), found))


@pytest.fixture(scope="session")
def sink_results() -> Iterator[Path]:
    """The same for the sink's campaigns: the report's second half is written from them."""
    folder = _RESULTS / "sink"
    yield folder
    found = report.pieces(folder)
    if found:
        report.show(found)
        _REPORT.write_text(report.with_sink(_REPORT.read_text(), found))
