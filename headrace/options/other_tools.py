"""Configurations of tools that have files of their own: which tool it is, and which page is about it.

Their options are no connector's, and nothing of them is translated.
"""

import re
from collections.abc import Iterable
from typing import Final

_TOOLS: Final = (
    ("Redpanda Connect", frozenset({"input", "output"}), "docs/moving-from-redpanda-connect.md"),
    ("Vector", frozenset({"sources", "sinks"}), "docs/moving-from-vector.md"),
)
# A name at the beginning of a line that has no value next to it.
_MAPPING: Final = re.compile(r"^([\"']?)(\w+)\1[ \t]*:[ \t]*(?:#.*)?$", re.MULTILINE)
_KNOWN: Final = frozenset().union(*(known for _, known, _ in _TOOLS))
# `[sources.NAME]`, and `sources.NAME.type = ..`; further in it may be the text of a value of YAML.
_TABLE: Final = re.compile(r"^(\[{1,2}[ \t]*)?(sources|sinks)[ \t]*\.[^\n=:]*(?(1)\]|=)", re.MULTILINE)
# What a member is looked for in: comments and blank lines may come before it.
_LOOKED_AT: Final = 10_000


def other_tool(sections: Iterable[str]) -> str | None:
    """Return what to say of a configuration with these mappings in it; None where it may be ours."""
    given = frozenset(sections)
    for tool, known, page in _TOOLS:
        if found := sorted(known & given):
            return (
                f"this is a configuration of {tool} ({' and '.join(found)}), which is not read here: {page} "
                "has what each of its options becomes, and how to take over"
            )
    return None


def other_tool_of_text(text: str) -> str | None:
    """Return the same for a text that is no JSON: YAML, however deep and whatever is in it, or TOML."""
    sections = [
        name[2]
        for name in _MAPPING.finditer(text)
        if name[2] in _KNOWN and _is_indented(text[name.end() : name.end() + _LOOKED_AT])
    ]
    return other_tool(sections) or other_tool(table[2] for table in _TABLE.finditer(text))


def _is_indented(rest: str) -> bool:
    """Whether what follows begins with a member further in, which no list is."""
    lines = (line for line in rest.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    following = next(lines, "")
    return following[:1] in {" ", "\t"} and not following.lstrip().startswith("-")
