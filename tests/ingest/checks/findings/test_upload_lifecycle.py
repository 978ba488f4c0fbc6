"""Which rules of a bucket's lifecycle end a sink's unfinished uploads, and ours beside them."""

from typing import Any

import pytest

from ingest.checks.findings.bucket_lifecycle import TooManyRules, days_to_expiry, shortest_days, with_our_rule


def _rule(prefix: str | None, days: int | None = 7, **more: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"ID": "theirs", "Status": "Enabled"}
    if prefix is not None:
        rule["Filter"] = {"Prefix": prefix}
    if days is not None:
        rule["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": days}
    return rule | more


@pytest.mark.parametrize(
    ("rules", "expiry", "shortest"),
    [
        ([], None, None),
        ([_rule("")], 7, 7),
        ([_rule(None)], 7, 7),
        ([_rule("in/")], 7, 7),
        ([_rule("in/", 7), _rule("", 2)], 2, 2),
        ([_rule("in/deep/", 1)], None, 1),
        ([_rule("other/", 1)], None, None),
        ([_rule("", Status="Disabled")], None, None),
        ([_rule("", None, Expiration={"Days": 1})], None, None),
        ([_rule(None, Prefix="in/")], 7, 7),
        ([_rule(None, Filter={"And": {"Prefix": "other/"}})], None, None),
    ],
)
def test_rules_count_by_their_prefix(
    rules: list[dict[str, Any]], expiry: int | None, shortest: int | None
) -> None:
    """One that is for all our keys ends all; one for some of them may end what is wanted."""
    assert days_to_expiry(rules, "in/") == expiry
    assert shortest_days(rules, "in/") == shortest


def test_our_rule_stands_beside_the_others() -> None:
    """Those that are there stay as they are, and asking again changes nothing."""
    theirs = _rule("logs/", None, Expiration={"Days": 30}, ID="headrace-unfinished-uploads")

    wanted = with_our_rule([theirs], "in/")

    assert wanted is not None
    assert wanted[0] is theirs
    assert wanted[1] == {
        "ID": "headrace-unfinished-uploads-1",
        "Status": "Enabled",
        "Filter": {"Prefix": "in/"},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
    }
    assert with_our_rule(wanted, "in/") is None


def test_a_full_configuration_is_told() -> None:
    """S3 takes a thousand."""
    with pytest.raises(TooManyRules):
        with_our_rule([_rule("x/", ID=str(number)) for number in range(1000)], "in/")
