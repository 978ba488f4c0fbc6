"""The password file of a group of workers is away for a moment, and its password changes, while they run."""

from pathlib import Path

import pytest

from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess


def _members(worker: WorkerProcess) -> set[str]:
    """The addresses of the group's workers, as this one shows them."""
    return {one["url"] for one in worker.status()["workers"].values()}


@pytest.mark.parts
def test_a_group_outlives_a_missing_file_and_a_changed_password(
    workers: list[WorkerProcess], tmp_path: Path
) -> None:
    """Nobody ends, nobody drops out, and a request is passed on by one that has the new file already."""
    files = [tmp_path / f"accounts-{number}" for number in range(2)]
    for worker, file in zip(workers, files, strict=True):
        file.touch(mode=0o600)
        file.write_text("ann:one\n")
        worker.options = {"rest.auth.file": str(file)}
        worker.user = "ann:one"
        worker.start()
        worker.await_ready()
    leader, follower = workers
    group = {f"http://127.0.0.1:{worker.port}" for worker in workers}
    until_sync(lambda: _members(leader) == group, seconds=30, what="a group of two")

    files[1].rename(tmp_path / "away")
    follower.await_log("auth_file_not_read")
    assert follower.ask("GET", "/connectors") == (200, [])
    (tmp_path / "away").rename(files[1])

    files[1].write_text("ann:another\n")
    follower.await_log("auth_file_read")
    follower.user = "ann:another"
    # Passed on to the worker that leads, which has the former file.
    assert follower.ask("DELETE", "/connectors/none")[0] == 404

    files[0].write_text("ann:a third\n")
    leader.await_log("auth_file_read")
    assert [leader.ask("GET", "/")[0], follower.ask("DELETE", "/connectors/none")[0]] == [401, 401]
    assert follower.status()["problems"] == []
    files[0].write_text("ann:a fourth\n")
    until_sync(
        lambda: follower.status()["problems"] != [], seconds=30, what="a worker that says it is refused"
    )
    assert "rest.auth.file has to be the same" in follower.status()["problems"][0]

    files[1].write_text("ann:a fourth\n")
    until_sync(lambda: follower.status()["problems"] == [], seconds=30, what="a follower without a problem")
    until_sync(lambda: _members(leader) == group, seconds=30, what="a group of two again")
    assert [worker.process.poll() for worker in workers if worker.process is not None] == [None, None]
