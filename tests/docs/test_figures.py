"""The figures of docs/architecture.md are those of the tree, within five in a hundred."""

import pytest

from tests.docs.figures import PAGE, figures, on_page, with_figures


def test_the_figures_of_the_page_are_not_stale() -> None:
    """`python -m tests.docs.figures --write` renews them."""
    shown, found = on_page(PAGE.read_text()), figures()
    assert list(shown) == list(found)
    for name, number in found.items():
        assert shown[name] == pytest.approx(number, rel=0.05, abs=2), name


def test_figures_are_written_where_they_are_read() -> None:
    """And nothing else of the page changes."""
    page = "before\n\n| figure | |\n| --- | ---: |\n| levels | 9 |\n\nafter\n\nmore\n"
    written = with_figures(page, {"levels": 1100})
    assert written == page.replace("| 9 |", "| 1,100 |")
    assert on_page(written) == {"levels": 1100}
