"""The words that what people read goes without: pages, the status pages, and every text of the product."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.support.source_tree import nodes

# What is written instead. Decisions are left as they were made.
BANNED: Final = {
    r"(is|are) told( of| at once)?": "receives, is notified of, is reported",
    r"takes? up|took up": "picks up, starts",
    r"nobody|somebody|whoever": "the component, or the passive",
    r"anew": "again",
    r"as (it|they) stands?": "unchanged",
    r"(stands?|stood)(?! (by|for)\b)": "is, appears, is stored",
    r"(goes|go|went) on(?! to)": "continues, resumes, recovers",
    r"(an)?other makers?'?": "another vendor",
    r"needs? a person": "needs an operator",
    r"is none(?= (of|for)\b)|or is none|it is none": "is not one of, is invalid",
    r"habits of the house|what is promised": "conventions, guarantees",
    r"besides?": "next to, with, in addition",
    # Of amounts, as in offsets behind, of proxies, and of what is left, it is English.
    r"(?<!left )(?<!offset )(?<!offsets )(?<!far )behind(?! (an?|one) (reverse )?(proxy|address)\b)": "after",
    r"remedy|remedies": "fix",
}
PRODUCT: Final = tuple(
    path
    for room in ("headrace", "ingest", "listeners", "spark")
    for path in sorted((ROOT / room).rglob("*.py"))
)
_BANNED: Final = [
    (re.compile(rf"(?<![\w.`\"-])(?:{words})(?![\w-])", re.IGNORECASE), ours)
    for words, ours in BANNED.items()
]
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`|^ {4,}[^\n]*$", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->|/\*.*?\*/|^[ \t]*//[^\n]*$", re.DOTALL | re.MULTILINE)


def _faults(text: str, where: str) -> list[str]:
    return [
        f"{where}: {found[0]!r}; write: {ours}"
        for pattern, ours in _BANNED
        for found in pattern.finditer(text)
    ]


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Each docstring of a module, without code, doctests included."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "lineno", 1), _CODE.sub("", text)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each text of a module that has a space, so that it is for people, without docstrings."""
    silent = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        if not isinstance(node, ast.Constant) or id(node) in silent:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


PROSE: Final = [
    page for page in (*PAGES, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md") if page.parent.name != "decisions"
]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_a_page_is_in_plain_english(page: Path) -> None:
    """No page has a banned word outside code."""
    text = _CODE.sub("", page.read_text())
    assert _faults(text, page.name) == []


@pytest.mark.parametrize("page", sorted((ROOT / "ingest").rglob("*.html")), ids=lambda page: page.name)
def test_a_status_page_is_in_plain_english(page: Path) -> None:
    """Nor has what a browser shows; its comments may."""
    assert _faults(_COMMENT.sub("", page.read_text()), page.name) == []


def test_what_the_product_prints_is_in_plain_english() -> None:
    """Errors, problems, help, options and log texts."""
    found = [
        fault
        for path in PRODUCT
        for line, text in _texts(path)
        for fault in _faults(text, f"{path.relative_to(ROOT)}:{line}")
    ]
    assert found == []


def test_docstrings_are_in_plain_english() -> None:
    """Of the product; what stands in backticks and doctests is code."""
    found = [
        fault
        for path in PRODUCT
        for line, text in _docstrings(path)
        for fault in _faults(text, f"{path.relative_to(ROOT)}:{line}")
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "nobody leads",
        "It goes on",
        "stands in a header",
        "The value is none of its type",
        "read anew",
        "behind the last row",
    ],
)
def test_a_banned_word_is_found(text: str) -> None:
    """The list finds what it is for."""
    assert _faults(text, "here")


@pytest.mark.parametrize(
    "text",
    [
        "the process stands by",
        "`anew`",
        "3 offsets behind",
        "behind a proxy",
        "errors.tolerance is none: a bad record",
        "`remedy`",
    ],
)
def test_a_good_sentence_is_left_alone(text: str) -> None:
    """And nothing else: values of options, code, and what English has."""
    assert _faults(text, "here") == []
