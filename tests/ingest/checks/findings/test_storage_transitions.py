"""Which transitions S3 takes, and our rule beside those of others."""

import pytest

from ingest.checks.findings.bucket_lifecycle import (
    InvalidTransitions,
    Transition,
    parse_transitions,
    with_our_transitions,
)

WANTED = (Transition(90, "GLACIER"), Transition(365, "DEEP_ARCHIVE"))
THEIRS = {"ID": "logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}}


def test_the_documented_form() -> None:
    """Blanks and small letters are no matter."""
    assert parse_transitions("90:GLACIER,365:DEEP_ARCHIVE") == WANTED
    assert parse_transitions(" 90 : glacier , 365:Deep_Archive") == WANTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no DAYS:CLASS"),
        ("90", "no DAYS:CLASS"),
        ("GLACIER:90", "no DAYS:CLASS"),
        ("-1:GLACIER", "no DAYS:CLASS"),
        ("90:GLACIER,", "no DAYS:CLASS"),
        ("90:ICE", "ICE is no class to move to; known are STANDARD_IA"),
        ("90:STANDARD", "STANDARD is no class to move to"),
        ("29:STANDARD_IA", "after 30 days at the earliest"),
        ("365:GLACIER,90:DEEP_ARCHIVE", "does not come after GLACIER after 365 days"),
        ("90:GLACIER,90:DEEP_ARCHIVE", "does not come after"),
        ("90:DEEP_ARCHIVE,365:GLACIER", "S3 moves no object from DEEP_ARCHIVE to GLACIER"),
        ("90:GLACIER,365:GLACIER", "S3 moves no object from GLACIER to GLACIER"),
    ],
)
def test_what_s3_would_not_take_is_refused(text: str, words: str) -> None:
    """Before anything is changed, with the remedy."""
    with pytest.raises(InvalidTransitions, match=words):
        parse_transitions(text)


def test_it_stands_beside_the_rules_of_others_and_once() -> None:
    """Ours of the same prefix is replaced; ours of another prefix stays."""
    once = with_our_transitions([THEIRS], "in/", WANTED)
    assert once is not None
    assert once[0] == THEIRS
    assert with_our_transitions(once, "in/", WANTED) is None

    changed = with_our_transitions(once, "in/", WANTED[:1])
    assert changed is not None
    assert len(changed) == 2
    both = with_our_transitions(changed, "out/", WANTED)
    assert both is not None
    assert len(both) == 3
