"""The syntax of the product's modules, parsed once for all tests of a process that look at it.

Parsing and walking all of them takes two seconds. The tests that do are one group (`tests/conftest.py`), and
what they share is forgotten behind the last of them: it is a million objects.
"""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file; shared, so that no test may change it."""
    return ast.parse(path.read_bytes())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, each before those within it."""
    return _nodes(parsed(path), of_types=True)


@cache
def nodes_that_run(path: Path) -> tuple[ast.AST, ...]:
    """The same without what only a type checker reads."""
    return _nodes(parsed(path), of_types=False)


def _nodes(tree: ast.Module, *, of_types: bool) -> tuple[ast.AST, ...]:
    found: list[ast.AST] = [tree]
    # The list grows while it is gone through; ast.walk does the same by three generators a node.
    for node in found:
        skipped = None if of_types or not _is_of_types(node) else "body"
        for name in node._fields:
            value = None if name == skipped else getattr(node, name, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return tuple(found)


def _is_of_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def forget() -> None:
    """Free what is shared."""
    for shared in (parsed, nodes, nodes_that_run):
        shared.cache_clear()
