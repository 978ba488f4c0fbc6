"""What a start finds, as far as it is pure."""

import msgspec
import structlog.testing

from ingest.source.first_starts import newest_uploads


def test_all_uploads_that_fit_are_remembered() -> None:
    """A warning is for what does not."""
    begun = {f"key-{number}": number for number in range(1000)}
    with structlog.testing.capture_logs() as logged:
        assert newest_uploads([begun]) == [begun]
    assert logged == []


def test_of_too_many_uploads_the_newest_are_remembered() -> None:
    """One record of the ledger holds them, keys of any length; what is left out is said."""
    begun = {"é" * 500 + f"{number:04}": number for number in range(1000)}
    with structlog.testing.capture_logs() as logged:
        (kept,) = newest_uploads([begun])
    assert set(kept.values()) == set(range(1000 - len(kept), 1000))
    assert 300_000 < len(msgspec.json.encode(kept)) <= 500_000
    assert [(entry["event"], entry["uploads"]) for entry in logged] == [
        ("uploads_left_out", 1000 - len(kept))
    ]
