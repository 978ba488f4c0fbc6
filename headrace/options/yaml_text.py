"""A configuration in YAML: scalars stay as they are written, so that 1e3, yes and 0777 mean what they say."""

import re
from collections.abc import Callable
from typing import Final, TypeVar

import yaml

Members = TypeVar("Members", bound=list[tuple[str, object]])

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_DEPTH: Final = 5
# Of types that YAML has itself. Any other tag has a program of its own put something else in that place.
_OF_YAML: Final = "tag:yaml.org,2002:"
_BINARY: Final = f"{_OF_YAML}binary"
_MERGE: Final = f"{_OF_YAML}merge"
# Tags that programs are known for. Any other may be the text itself, which may be a secret.
_OF_PROGRAMS: Final = r"!(Ref|Sub|GetAtt|Join|ImportValue|ENV|env|env_var|include|reference|secret|vault)"
_QUOTES: Final = "put a text that begins with it between quotes"
# How PyYAML's sentences begin that have a text of the file in them, and what is said in their place.
_WITHOUT_TEXT: Final = (
    ("found undefined alias", f"found an alias (*) of nothing; {_QUOTES}"),
    ("found undefined tag handle", f"found a tag (!) of nothing; {_QUOTES}"),
)


class YamlError(ValueError):
    """The text is no configuration. `is_shape`: it is YAML, but no mapping of options."""

    def __init__(self, message: str, *, is_shape: bool = False) -> None:
        super().__init__(message)
        self.is_shape = is_shape


def yaml_members(text: str, members: Callable[[list[tuple[str, object]]], Members]) -> Members:
    """The members of the one mapping that the text is, names that occur twice twice.

    Values are texts, None, or mappings made by `members`; a list of texts is their text with commas. Raises
    YamlError.
    """
    try:
        documents = [each for each in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_empty(each)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise YamlError(f"the YAML is broken{place}: {_told(error.problem or '')}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise YamlError(f"the text is not YAML: {str(error).splitlines()[0]}") from None
    if len(documents) > 1:
        line = documents[1].start_mark.line
        raise YamlError(
            f"the YAML has a second document at line {line + 1}; keep one connector in a file, and no more"
        )
    if not documents or not isinstance(documents[0], yaml.MappingNode):
        raise YamlError("the YAML is not a mapping", is_shape=True)
    return _members(documents[0], members, 0)


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and not node.value


def _told(problem: str) -> str:
    """What PyYAML says, but for the text that it found: a password may begin with * or !."""
    return next((told for found, told in _WITHOUT_TEXT if problem.startswith(found)), problem)


def _members(
    node: yaml.MappingNode, members: Callable[[list[tuple[str, object]]], Members], depth: int
) -> Members:
    if depth > _DEPTH:
        raise YamlError("the YAML is nested too deeply", is_shape=True)
    _refuse_tag(node)
    pairs: list[tuple[str, object]] = []
    for name, value in node.value:
        if not isinstance(name, yaml.ScalarNode):
            raise YamlError(f"line {name.start_mark.line + 1} of the YAML has no name", is_shape=True)
        _refuse_tag(name)
        if name.tag == _MERGE:
            raise YamlError(
                f"line {name.start_mark.line + 1} of the YAML has a merge key (<<), which is not followed; "
                "write its options out"
            )
        pairs.append((name.value, _value(value, members, depth)))
    return members(pairs)


def _value(node: yaml.Node, members: Callable[[list[tuple[str, object]]], Members], depth: int) -> object:
    for each in (node, *(node.value if isinstance(node, yaml.SequenceNode) else ())):
        _refuse_tag(each)
    match node:
        case yaml.ScalarNode():
            return None if node.style is None and node.value in _NULLS else str(node.value)
        case yaml.MappingNode():
            return _members(node, members, depth + 1)
        case yaml.SequenceNode() if all(isinstance(each, yaml.ScalarNode) for each in node.value):
            return ",".join(each.value for each in node.value)
    return []


def _refuse_tag(node: yaml.Node) -> None:
    """YamlError for a value that another program would have replaced: without it the text is another one."""
    if node.tag.startswith(_OF_YAML) and node.tag != _BINARY:
        return
    named, fix = "a tag (!)", f"{_QUOTES}, or "
    if node.tag == _BINARY or re.fullmatch(_OF_PROGRAMS, node.tag) is not None:
        named, fix = f"the tag {node.tag.replace(_OF_YAML, '!!')}", ""
    raise YamlError(
        f"line {node.start_mark.line + 1} of the YAML has {named}, which nothing here replaces; {fix}write "
        "the value itself, or a reference to it such as ${env:NAME}"
    )
