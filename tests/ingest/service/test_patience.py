"""How long `--until-idle` waits for what only others can change."""

from ingest.service.idle import Patience


def test_it_lasts_for_as_long_as_something_comes_to_its_end() -> None:
    """Three thousand sealed objects are completed for longer than the patience, one after another."""
    patience = Patience(60.0)

    assert not any(patience.is_over(float(now), waits=True, progress=(9, now // 30)) for now in range(600))


def test_it_is_over_where_nothing_does() -> None:
    """Nobody but somebody outside can help: not before its time, and at once then."""
    patience = Patience(60.0)
    assert not patience.is_over(5.0, waits=False, progress=(9, 9))

    assert not patience.is_over(6.0, waits=True, progress=(9, 9))
    assert not patience.is_over(65.9, waits=True, progress=(9, 9))
    assert patience.is_over(66.0, waits=True, progress=(9, 9))


def test_it_begins_anew_when_nothing_was_waited_for_meanwhile() -> None:
    """Two short outages are no long one."""
    patience = Patience(60.0)

    assert not patience.is_over(0.0, waits=True)
    assert not patience.is_over(59.0, waits=False)
    assert not patience.is_over(61.0, waits=True)
    assert patience.is_over(121.0, waits=True)
