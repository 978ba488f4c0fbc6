"""The words that what people read goes without: pages, the status pages, and every text of the product."""

import ast
import re
from collections import Counter
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


DEPLOYED: Final = [
    path
    for path in (ROOT / "compose.yaml", *sorted((ROOT / "deploy").rglob("*")))
    if path.is_file() and path != ROOT / "deploy/helm/headrace/files/alerts.yaml"
]


@pytest.mark.parametrize("file", DEPLOYED, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_deployed_is_in_plain_english(file: Path) -> None:
    """Nor have alerts, dashboard and manifests, in texts and comments; the chart's alerts are a copy."""
    assert _faults(file.read_text(), file.name) == []


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


# Words that mean one thing (docs/architecture.md), and how often identifiers of the product use them at most:
# a part is what an upload has, a piece, something seen or a unit what has no better word. Lower them.
_USES: Final = {"part": 448, "seen": 57, "piece": 239, "unit": 201, "desk": 0, "scene": 0, "world": 0}
# Letters of patterns and texts; all others are dead letters.
_OF_LETTERS: Final = ("date_letters.py", "date_pattern.py", "configuration_text.py", "partition_columns.py")


def _identifiers(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def _words(name: str) -> list[str]:
    """The words of an identifier, small and in the singular."""
    return [word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]


def test_identifiers_use_words_for_what_they_mean() -> None:
    """No more of them than there are."""
    uses = Counter(word for path in PRODUCT for name in _identifiers(path) for word in _words(name))
    assert {word: uses[word] for word, most in _USES.items() if uses[word] > most} == {}


def test_a_letter_is_a_dead_letter() -> None:
    """The copy of a bad record has its two words everywhere."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PRODUCT
        if path.name not in _OF_LETTERS
        for name in _identifiers(path)
        if "letter" in (words := _words(name)) and "dead" not in words
    }
    assert found == set()


def test_the_words_of_an_identifier() -> None:
    """Of all three spellings."""
    assert _words("_OF_PARTS") == ["of", "part"]
    assert _words("SentPart") == ["sent", "part"]
    assert _words("dead_letters") == ["dead", "letter"]


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
