"""Workers of one group that have different files: what none of them runs is not passed over in silence."""

import pytest

from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess


@pytest.mark.parts
@pytest.mark.timeout(600)
def test_what_no_worker_runs_is_counted(workers: list[WorkerProcess]) -> None:
    """The leading worker gives one of its own to the other, which lacks it, and none of that one's."""
    for worker, names in zip(workers, (("a", "b"), ("c", "d")), strict=True):
        folder = worker.folder / f"connectors-{worker.port}"
        folder.mkdir()
        for name in names:
            # Without options they fail, which makes them no less one that a worker runs.
            (folder / f"{name}.json").write_text("{}")
        worker.arguments = ("--connectors", str(folder))
        worker.start()
        worker.await_ready()
    leading, other = workers

    def shows(worker: WorkerProcess, **connectors: int) -> bool:
        shown = worker.metrics().splitlines()
        return all(
            f'headrace_worker_connectors{{state="{state}"}} {float(number)}' in shown
            for state, number in connectors.items()
        )

    until_sync(lambda: shows(other, known=2, assigned=1, running=0, unplaced=3), what="three that none runs")
    until_sync(lambda: shows(leading, known=2, assigned=1, running=1, unplaced=0), what="one that runs")
    assert "headrace_worker_leader 1.0" in leading.metrics().splitlines()
    assert "headrace_worker_leader 0.0" in other.metrics().splitlines()
