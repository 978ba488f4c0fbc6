"""Java's regular expressions as Python's, for what both can say; the rest is named."""

import re
import sys
from typing import Final

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "Blank": r" \t",
    "Space": r" \t\n\x0b\f\r",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7f",
    "Cntrl": r"\x00-\x1f\x7f",
}
_POSIX["Graph"] = _POSIX["Alnum"] + _POSIX["Punct"]
_POSIX["Print"] = _POSIX["Graph"] + " "
# What means the same in both behind a backslash; other letters are told.
_SAME: Final = frozenset("dDwWsSbBAtnrfax123456789u")
_OUTSIDE: Final = {
    "z": r"\Z",
    "Z": r"(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)",
    "e": r"\x1b",
    "R": r"(?:\r\n|[\n\x0b\x0c\r\x85\u2028\u2029])",
    "h": r"[ \t\xa0]",
}
_OCTAL: Final = re.compile(r"\\0([0-3][0-7]{2}|[0-7]{1,2})")
_INLINE: Final = re.compile(r"\(\?([a-zA-Z-]+)([:)])")
_LEADING: Final = re.compile(r"\(\?([ims]+)\)")
_FLAGS: Final = frozenset("ims")


class JavaRegexError(ValueError):
    """A pattern that is none, or that Python cannot say; the text says which part."""


def java_regex(pattern: str) -> str:
    """The pattern for Python's `re` with `re.ASCII`, matching what Java's matches."""
    found = _Reader(pattern).read()
    try:
        re.compile(found, re.ASCII)
    except re.error as error:
        raise JavaRegexError(f"it is no regular expression: {error.msg}") from None
    return for_this_python(found)


_TOKEN: Final = re.compile(
    r"""\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|\(\?\#[^)]*\)
    |(?P<open>\()
    |\)(?P<possessive>(?:[*+?]|\{[0-9]+\}|\{[0-9]*,[0-9]*\})\+)
    |(?P<close>\))
    |[^\\\[()]+|.""",
    re.DOTALL | re.VERBOSE,
)


def for_this_python(pattern: str) -> str:
    """A pattern of Python's without what this Python may match wrongly: before 3.11.5 possessive groups.

    As it is on a later one: hashes of what positions mean have it.
    """
    return pattern if sys.version_info >= (3, 11, 5) else without_possessive_groups(pattern)


def without_possessive_groups(pattern: str) -> str:
    """The same with an atomic group around a greedy one, `(?>(..)*)`, in place of each possessive one.

    Each turn of a counted one is atomic, too: what it took is not given back for the next.
    """
    written: list[str] = []
    opened: list[int] = []
    for token in _TOKEN.finditer(pattern):
        possessive, text = token["possessive"], token[0]
        if token["open"]:
            opened.append(len(written))
        elif possessive or token["close"]:
            if not opened:
                return pattern  # A comment of verbose patterns has it.
            begin = opened.pop()
            if possessive:
                is_counted = possessive.startswith("{")
                written[begin] = f"(?>(?>{written[begin]}" if is_counted else f"(?>{written[begin]}"
                text = f"{')' * (1 + is_counted)}{possessive[:-1]})"
        written.append(text)
    return "".join(written)


def java_line(pattern: str) -> str:
    """The pattern of `text.start.pattern` that is found in the lines which Java's matches as a whole."""
    found = java_regex(pattern)
    leading = _LEADING.match(found)
    flags, rest = (leading[1], found[leading.end() :]) if leading else ("", found)
    return rf"(?u)^(?a{flags}:{rest})\r?\n?$"


def java_replacement(replacement: str, pattern: str) -> str:
    """What Java's `replaceFirst` is given, for `re.Match.expand` of this (Python) pattern."""
    compiled = re.compile(pattern, re.ASCII)
    written: list[str] = []
    at = 0
    while at < len(replacement):
        sign = replacement[at]
        if sign == "\\":
            if at + 1 == len(replacement):
                raise JavaRegexError("the replacement ends with a single \\")
            written.append(_literal(replacement[at + 1]))
            at += 2
        elif sign == "$":
            group, at = _group(replacement, at + 1, compiled)
            written.append(rf"\g<{group}>")
        else:
            written.append(_literal(sign))
            at += 1
    return "".join(written)


def _literal(sign: str) -> str:
    return "\\\\" if sign == "\\" else sign


def _group(text: str, at: int, compiled: re.Pattern[str]) -> tuple[str, int]:
    named = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at)
    if named is not None:
        if named[1] not in compiled.groupindex:
            raise JavaRegexError(f"the replacement names the group {named[1]}, which the regex does not have")
        return named[1], named.end()
    if not text[at : at + 1].isdigit():
        raise JavaRegexError(r"the replacement has a $ without a group; write \$ for the sign itself")
    # Further digits belong to the number as long as there is such a group, as Java reads them.
    number, end = int(text[at]), at + 1
    if number > compiled.groups:
        raise JavaRegexError(f"the replacement names the group {number}, which the regex does not have")
    while text[end : end + 1].isdigit() and number * 10 + int(text[end]) <= compiled.groups:
        number, end = number * 10 + int(text[end]), end + 1
    return str(number), end


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> str:
        written: list[str] = []
        while self._at < len(self._pattern):
            sign = self._pattern[self._at]
            if sign == "\\":
                written.append(self._escape(in_class=False))
            elif sign == "[":
                written.append(self._class())
            elif sign == "(":
                written.append(self._opening(is_first=not written))
            else:
                written.append(sign)
                self._at += 1
        return "".join(written)

    def _opening(self, *, is_first: bool) -> str:
        rest = self._pattern[self._at :]
        named = re.match(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", rest)
        if named is not None:
            self._at += named.end()
            return f"(?P<{named[1]}>"
        inline = _INLINE.match(rest)
        if inline is not None:
            unknown = sorted(set(inline[1]) - _FLAGS - {"-"})
            if unknown:
                raise JavaRegexError(f"the flag (?{unknown[0]}) has no counterpart here")
            if inline[2] == ")" and not is_first:
                raise JavaRegexError(f"{inline[0]} is after the beginning; write (?{inline[1]}:..) instead")
            if inline[2] == ")" and "-" in inline[1]:
                raise JavaRegexError(f"{inline[0]} turns flags off for everything; leave it out")
        self._at += 1
        return "("

    def _escape(self, *, in_class: bool) -> str:
        following = self._pattern[self._at + 1 : self._at + 2]
        if not following:
            raise JavaRegexError("it ends with a single \\")
        if following == "Q":
            return self._quoted()
        if following in "pP":
            return self._property(in_class=in_class)
        if following == "k":
            return self._back_reference()
        if following == "0":
            return self._octal()
        self._at += 2
        if following in _SAME or not following.isalpha():
            return f"\\{following}"
        if following in _OUTSIDE and not in_class:
            return _OUTSIDE[following]
        raise JavaRegexError(f"\\{following} has no counterpart here")

    def _octal(self) -> str:
        """The character of an octal number after a zero, which for Python has two digits more at most."""
        found = _OCTAL.match(self._pattern, self._at)
        if found is None:
            raise JavaRegexError(r"\0 needs an octal number, such as \0101")
        self._at = found.end()
        return rf"\x{int(found[1], 8):02x}"

    def _quoted(self) -> str:
        start = self._at + 2
        end = self._pattern.find("\\E", start)
        self._at = len(self._pattern) if end < 0 else end + 2
        return re.escape(self._pattern[start : len(self._pattern) if end < 0 else end])

    def _property(self, *, in_class: bool) -> str:
        found = re.compile(r"\\([pP])\{([A-Za-z_]+)\}").match(self._pattern, self._at)
        if found is None or found[2] not in _POSIX:
            named = self._pattern[self._at : self._at + 2] if found is None else found[0]
            raise JavaRegexError(f"{named} has no counterpart here; write the characters, such as [A-Za-z]")
        if in_class and found[1] == "P":
            raise JavaRegexError(f"{found[0]} within [..] has no counterpart here; write the characters")
        self._at = found.end()
        if in_class:
            return _POSIX[found[2]]
        return f"[{'^' if found[1] == 'P' else ''}{_POSIX[found[2]]}]"

    def _back_reference(self) -> str:
        found = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>").match(self._pattern, self._at)
        if found is None:
            raise JavaRegexError(r"\k needs the name of a group, such as \k<name>")
        self._at = found.end()
        return f"(?P={found[1]})"

    def _class(self) -> str:
        """A class of characters; Java's unions and intersections of them have no counterpart."""
        self._at += 1
        written = ["["]
        if self._pattern[self._at : self._at + 1] == "^":
            written.append("^")
            self._at += 1
        while self._at < len(self._pattern):
            sign = self._pattern[self._at]
            if sign == "]" and written not in (["["], ["[", "^"]):
                self._at += 1
                return "".join([*written, "]"])
            if sign == "[":
                raise JavaRegexError(
                    "a class within a class, such as [a[bc]], has no counterpart; write [abc]"
                )
            if self._pattern.startswith("&&", self._at):
                raise JavaRegexError(
                    "&& within [..] has no counterpart here; write the characters that remain"
                )
            if sign == "\\":
                written.append(self._escape(in_class=True))
                continue
            # Python means to give a doubled sign of these a meaning some day; hashes have single ones.
            is_doubled = sign in "|~" and sign * 2 in self._pattern[self._at - 1 : self._at + 2]
            written.append(f"\\{sign}" if is_doubled else sign)
            self._at += 1
        raise JavaRegexError("a [ is not closed")
