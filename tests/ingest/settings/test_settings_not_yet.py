"""What is known and checked, but not served yet. The list is empty in the first release."""

from ingest.settings import NOT_YET
from ingest.settings.options import BY_NAME
from tests.ingest.settings.loading import problems_with


def test_what_is_not_yet_served() -> None:
    """The whole list: who serves one of them removes it there and here."""
    assert [(refusal.option, refusal.text) for refusal in NOT_YET] == [
        ("spark.remote", "not yet supported: Spark Connect comes with a later release; use spark.master"),
    ]
    assert all(refusal.option in BY_NAME for refusal in NOT_YET)


def test_a_value_that_is_not_yet_served_is_refused() -> None:
    """A value that is not yet served is refused; its absence is not."""
    (problem,) = problems_with({"spark.remote": "sc://spark:15002"})

    assert str(problem) == (
        "spark.remote = 'sc://spark:15002': not yet supported: Spark Connect comes with a later release; "
        "use spark.master"
    )
    assert problems_with({"spark.remote": None}) == ()
