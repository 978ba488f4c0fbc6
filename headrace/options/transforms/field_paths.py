"""Paths of fields in Kafka's second syntax: names with dots between, in backticks where they hold dots."""


class FieldPathError(ValueError):
    """A path that cannot be read; the text says why."""


def nested_path(text: str) -> tuple[str, ...]:
    """The names of a path; within backticks a dot is part of a name, and a backtick has a backslash."""
    names: list[str] = []
    at = 0
    while True:
        if text.startswith("`", at):
            name, at = _quoted(text, at + 1)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            name, at = text[at:end], end
        names.append(name)
        if at == len(text):
            break
        at += 1
    if not all(names):
        raise FieldPathError("a part of the path is empty")
    return tuple(names)


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The name within backticks, and where it ends: at a dot, or at the end of the path."""
    name = ""
    while at < len(text):
        if text.startswith("\\`", at):
            name, at = name + "`", at + 2
        elif text[at] == "`" and text[at + 1 : at + 2] in {"", "."}:
            return name, at + 1
        else:
            name, at = name + text[at], at + 1
    raise FieldPathError("a backtick (`) is not closed")
