"""Connect's references in a text, `${provider:path:key}`: where they are, and what came in their place.

Texts are of users, and of up to megabytes: each is walked once, whatever is in it. An expression that tried
again at every `${` would hold the whole worker.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.options.record_forms import KINDS
from headrace.options.vendor import CLASSES, OTHER_SINKS, OTHER_SOURCES

_BEGIN: Final = "${"


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference as it was written, and from where to where; `path` is None where it has one colon.

    As in Connect, the path ends at the first colon, and the key may have others.
    """

    begin: int
    end: int
    text: str
    provider: str
    path: str | None
    key: str


def references_in(text: str) -> Iterator[Reference]:
    """Yield the references of a text in order, of known forms and of others."""
    found = _next(text, 0)
    while found is not None:
        yield found
        found = _next(text, found.end)


def _next(text: str, start: int) -> Reference | None:
    begin = text.find(_BEGIN, start)
    while begin >= 0:
        close = text.find("}", begin)
        if close < 0:
            return None
        provider, colon, rest = text[begin + len(_BEGIN) : close].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            whole = text[begin : close + 1]
            if second:
                return Reference(begin, close + 1, whole, provider, path, key)
            return Reference(begin, close + 1, whole, provider, None, rest)
        # None that begins further on, before this end, has a colon either.
        begin = text.find(_BEGIN, close)
    return None


def with_replaced(text: str, new: Callable[[Reference], str]) -> str:
    """Return the text with what `new` gives in place of each reference."""
    out, end = list[str](), 0
    for one in references_in(text):
        out += (text[end : one.begin], new(one))
        end = one.end
    return "".join((*out, text[end:]))


# Shorter ones are numbers and words, in which a sentence would lose its sense.
_TELLING: Final = 6
_BETWEEN_WORDS: Final = (re.compile(r"[\s,]+"), re.compile(r"\W+"))
_CLASSES: Final = frozenset({*CLASSES, *OTHER_SOURCES, *OTHER_SINKS, *KINDS})


def led_to(raw: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield each reference of a value as it was written, with the text that came in its place."""
    found = list(references_in(raw))
    ends = [0, *(one.end for one in found)]
    between = [raw[end : one.begin] for end, one in zip(ends, found, strict=False)]
    values = _values(text, between, raw[ends[-1] :]) if found else None
    if values is not None:
        yield from zip((one.text for one in found), values, strict=True)


def _values(text: str, between: Sequence[str], last: str) -> list[str] | None:
    """What is after each of these texts, the first of them longest where there is a choice."""
    begin, end = len(between[0]), len(text) - len(last)
    if end < begin or not text.startswith(between[0]) or not text.endswith(last):
        return None
    values = list[str]()
    # From the end, each as late as it can be: that leaves most for those before it.
    for one in reversed(between[1:]):
        at = text.rfind(one, begin, end)
        if at < 0:
            return None
        values.append(text[at + len(one) : end])
        end = at
    return [text[begin:end], *reversed(values)]


def with_references(sentence: str, led: Iterable[tuple[str, str]]) -> str:
    """Return a sentence with what references `led` to replaced by them, whole words and from 6 signs on.

    Who may see the sentence may not see what a machine's variables and files hold. An item of a list, and a
    word with other signs than letters, counts by itself: sentences name those. The whole name of a class
    that is known here is no secret, and is advice.
    """
    replaced = {
        one: reference
        for reference, text in led
        for one in _texts_of(text)
        if len(one) >= _TELLING and one in sentence and one not in _CLASSES
    }
    if not replaced:
        return sentence
    longest_first = sorted({*replaced, *(one for one in _CLASSES if one in sentence)}, key=len, reverse=True)
    words = re.compile("|".join(map(_word, longest_first)))
    out, end = list[str](), 0
    reference, word = _next(sentence, 0), words.search(sentence)
    while word is not None:
        if reference is not None and reference.begin <= word.start():
            # What is a reference in it already stays one.
            out.append(sentence[end : reference.end])
            end = reference.end
        else:
            out += (sentence[end : word.start()], replaced.get(word[0], word[0]))
            end = word.end()
        if reference is not None and reference.begin < end:
            reference = _next(sentence, end)
        if word.start() < end:
            word = words.search(sentence, end)
    return "".join((*out, sentence[end:]))


def _word(one: str) -> str:
    before, after = (r"(?<!\w)" if one[0].isalnum() else ""), (r"(?!\w)" if one[-1].isalnum() else "")
    return f"{before}{re.escape(one)}{after}"


def _texts_of(text: str) -> Iterator[str]:
    whole = text.strip()
    words = (word for between in _BETWEEN_WORDS for word in between.split(whole) if not word.isalpha())
    for one in (whole, *(item.strip() for item in whole.split(",")), *words):
        yield one
        # As sentences quote it.
        yield repr(one)[1:-1]
