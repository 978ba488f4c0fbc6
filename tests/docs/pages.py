"""What the pages for people say: their commands, links and option names, with the line each stands on."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = tuple(sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]))

_FENCE: Final = re.compile(r"^ *(```+) *(\w*)")
# Indented code comes after an empty line or goes on; list items indent their text less than this.
_INDENTED: Final = re.compile(r"^ {4,}(?=\S)")
_ITEM: Final = re.compile(r"^ *([-*]|\d+\.) ")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND: Final = re.compile(
    r"^(headrace|make|python -m|\.venv/bin/|pip|curl|docker|kubectl|source|printf)\b(?!\.)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A piece of a page."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        """As pytest names it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code: its language (empty if it is only indented), and its lines without the indent."""

    page: Path
    line: int
    language: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"


def blocks(page: Path) -> list[Block]:
    """The fenced and the indented blocks of a page, in order."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text().splitlines()
    at = 0
    is_item = False
    while at < len(lines):
        begin, line = at, lines[at]
        if fence := _FENCE.match(line):
            at += 1
            while not lines[at].strip().startswith(fence[1]):
                at += 1
            yield Block(page=page, line=begin + 1, language=fence[2], lines=tuple(lines[begin + 1 : at]))
            at += 1
            continue
        is_item = bool(_ITEM.match(line)) or (is_item and (not line or line.startswith(" ")))
        # In a list, code is indented by four more than the item's text.
        indent = 7 if is_item else 4
        if line.startswith(" " * indent) and (begin == 0 or not lines[begin - 1].strip()):
            while at < len(lines) and (lines[at].startswith(" " * indent) or not lines[at].strip()):
                at += 1
            code = tuple(one[indent:] for one in lines[begin:at])
            yield Block(page=page, line=begin + 1, language="", lines=code)
            continue
        at += 1


def commands(page: Path) -> list[Found]:
    """The command lines of a page's blocks, in order; comments behind two blanks and a # are taken off."""
    return [
        Found(page=page, line=block.line + number, text=re.sub(r"\s{2,}#.*", "", line).strip())
        for block in blocks(page)
        if block.language in {"", "sh", "bash", "shell", "console"}
        for number, line in enumerate(block.lines)
        if _COMMAND.match(line.strip())
    ]


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not code, with their numbers from 1."""
    code = {
        number
        for block in blocks(page)
        for number in range(block.line, block.line + len(block.lines) + bool(block.language) * 2)
    }
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if number not in code:
            yield number, line


def spans(page: Path) -> list[Found]:
    """What stands in backticks within the text."""
    return [
        Found(page=page, line=number, text=found[1])
        for number, line in prose(page)
        for found in _CODE.finditer(line)
    ]


def links(page: Path) -> list[Found]:
    """The targets of links and pictures; a link's text may run over a line's end."""
    text = "\n".join(line for _, line in prose(page))
    return [
        Found(page=page, line=text.count("\n", 0, found.start()) + 1, text=found[1] or found[2])
        for found in _LINK.finditer(re.sub(_CODE, "", text))
    ]


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    found = set()
    for _, line in prose(page):
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower().replace("`", ""))
            found.add(words.replace(" ", "-"))
    return found
