"""What cuts objects of bytes under `input.format=auto` is no part of the hash of all objects."""

import pytest

from tests.ingest.connect.test_worker_changes import SOURCE, Worker

_AUTO = {**SOURCE, "input.format": "auto"}


@pytest.mark.parametrize(
    "change", [{"transformer.max.buffer.size": "1000"}, {"file.compression.type": "none"}]
)
@pytest.mark.parametrize(
    ("key", "is_taken"), [("in/x.bin", False), ("in/x.bytes.gz", False), ("in/x.jsonl", True), (None, True)]
)
def test_another_cut_is_refused_while_bytes_are_begun(
    change: dict[str, str], key: str | None, *, is_taken: bool
) -> None:
    """They would be quarantined; nothing of lines depends on it."""
    worker = Worker()
    assert worker.ask("POST", "/connectors", {"name": "uploads", "config": _AUTO})[0] == 201
    worker.in_hand = [] if key is None else [key]

    status, shown = worker.ask("PATCH", "/connectors/uploads/config", change)

    assert status == (200 if is_taken else 400)
    if not is_taken:
        assert (
            f"{next(iter(change))} would give the position in each object that is begun" in shown["message"]
        )
