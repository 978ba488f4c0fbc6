"""The forms of `key.source`, `value.source`, `record.headers`, `record.timestamp`, `post.action`."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from headrace.model.post_action import PostAction, PostActionKind
from headrace.options import record_sources
from headrace.options.value_types import Form, FormError

S = TypeVar("S")


def _path(text: str) -> tuple[str, ...]:
    names = tuple(text.split("."))
    if not all(names) or text != text.strip():
        raise FormError("each name between the dots of a path has a character at least")
    return names


def _field(text: str) -> record_sources.FieldSource:
    return record_sources.FieldSource(_path(text))


def _fields(text: str) -> record_sources.FieldHeaders:
    return record_sources.FieldHeaders(_path(text))


def _template(text: str) -> record_sources.TemplateSource:
    if not text:
        raise FormError("the text after template: is missing")
    return record_sources.TemplateSource(text)


def _source(words: Mapping[str, S], tags: Mapping[str, Callable[[str], S]], expected: str) -> Form[S]:
    def parse(text: str) -> S:
        word, colon, rest = text.partition(":")
        if not colon and word.strip().lower() in words:
            return words[word.strip().lower()]
        if colon and word.strip().lower() in tags:
            return tags[word.strip().lower()](rest)
        raise FormError

    return Form(kind="STRING", expected=expected, parse=parse, values=tuple(words))


KEY_SOURCE: Final[Form[record_sources.KeySource]] = _source(
    {"object_key": record_sources.ObjectKeySource(), "none": record_sources.NoSource()},
    {"field": _field, "template": _template},
    "object_key, none, field:PATH (dots for nesting) or template:TEXT",
)
VALUE_SOURCE: Final[Form[record_sources.ValueSource]] = _source(
    {"row": record_sources.RowSource()}, {"field": _field}, "row or field:PATH (dots for nesting)"
)
HEADER_SOURCE: Final[Form[record_sources.HeaderSource]] = _source(
    {"none": record_sources.NoSource(), "source": record_sources.ObjectHeaders()},
    {"fields": _fields},
    "none, source or fields:PATH (dots for nesting)",
)
TIMESTAMP_SOURCE: Final[Form[record_sources.TimestampSource]] = _source(
    {
        "produce": record_sources.ProduceTime(),
        "object": record_sources.ObjectTime(),
        "template": record_sources.TemplateTime(),
    },
    {"field": _field},
    "produce, object, template or field:PATH (dots for nesting)",
)


_TAG: Final = re.compile(r"([\w .:/+@-]{1,128})=([\w .:/=+@-]{0,256})")


def _post_action(text: str) -> PostAction | None:
    kind, _, target = text.strip().partition(":")
    if kind.lower() == "none" and not target:
        return None
    try:
        action = PostAction(PostActionKind(kind.lower()), target)
    except ValueError:
        raise FormError from None
    match action.kind:
        case PostActionKind.DELETE if target:
            raise FormError("delete takes nothing behind it")
        case PostActionKind.MOVE if not target or target.startswith("/"):
            raise FormError("move needs a prefix that does not begin with /")
        case PostActionKind.TAG if not _TAG.fullmatch(target) or target.lower().startswith("aws:"):
            raise FormError("tag needs KEY=VALUE of letters, digits, blanks and _ . : / = + - @")
    return action


POST_ACTION_FORM: Final = Form(
    kind="STRING", expected="none, delete, move:PREFIX or tag:KEY=VALUE", parse=_post_action
)
