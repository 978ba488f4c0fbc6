"""Paths of fields in names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.names.name_template import path_text, read_path


@pytest.mark.parametrize(
    ("text", "path"),
    [("a", ("a",)), ("a.b", ("a", "b")), ("`a.b`.c", ("a.b", "c")), ("a.`b``c`", ("a", "b`c"))],
)
def test_a_field_in_backticks_is_one(text: str, path: tuple[str, ...]) -> None:
    """Whatever it holds."""
    assert read_path(text) == path


@pytest.mark.parametrize("text", ["", "a.", ".a", "a..b", "`a", "``", "`a`b", "a`b`"])
def test_what_is_no_path_is_refused(text: str) -> None:
    """Empty parts, and backticks that are not closed or stand within a part."""
    with pytest.raises(ValueError, match="path"):
        read_path(text)


@given(st.lists(st.text("ab.`é", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_path_is_written_and_read_back(path: list[str]) -> None:
    """It stands so in the options that the ledger keeps."""
    assert read_path(path_text(path)) == tuple(path)
