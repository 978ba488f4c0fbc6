"""What a configuration gives: text of each option, its origin, how much may be shown; all problems.

Connect's references in a text, `${provider:path:key}`, are found here, and what came in their place. Texts
are of users, and of up to megabytes: each is walked once, whatever is in it. An expression that tried again
at every `${` would hold the whole worker.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.errors import HeadraceError
from headrace.options.declarations import BY_NAME, CANONICAL
from headrace.options.record_forms import KINDS
from headrace.options.secret import HIDDEN, MASK, is_mask, is_secret_name, without_url_secrets
from headrace.options.vendor import CLASSES, OTHER_SINKS, OTHER_SOURCES

_SHOWN_MAX: Final = 200
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")
_FREE_TEXTS: Final = ("transforms.", "predicates.")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Entry:
    """One option as given: `raw` as it was written, `text` with references replaced.

    `is_vendors`: `spelled` is another vendor's option, and not an old name of ours. `is_default`: it is
    not written anywhere, and that vendor's connector has it so.
    """

    option: str
    spelled: str
    raw: str
    text: str
    is_vendors: bool = False
    is_default: bool = False

    @property
    def is_hidden(self) -> bool:
        """Whether what was written is a secret, or is taken for one; a reference to one is not."""
        if _REFERENCE.fullmatch(self.raw.strip()) is not None:
            return False
        return self.is_secret

    @property
    def is_secret(self) -> bool:
        """Whether the value is a secret, or is taken for one, wherever it comes from."""
        known = BY_NAME.get(self.option)
        if known is not None:
            return known.is_secret
        # A whole property line for a JVM may carry a password; Spark masks by name and by value as well.
        return is_secret_name(self.option) or (self.option.startswith("spark.") and is_secret_name(self.text))

    @property
    def is_mask(self) -> bool:
        """Whether what was written is what is shown in place of a secret.

        `[hidden]` counts for any option: others may show a secret so that is not known as one here. A
        transform may write what looks like one, and its user calls it as they like.
        """
        return self._is_mask(self.raw)

    @property
    def leads_to_mask(self) -> bool:
        """Whether a reference leads to what looks like a mask: a value, as answers show the reference."""
        return self._is_mask(self.text) and not self.is_mask

    def _is_mask(self, text: str) -> bool:
        if self.option.startswith(_FREE_TEXTS):
            return False
        is_hidden = text.strip() == HIDDEN or self.option.startswith("spark.")
        return is_mask(text, is_secret=self.is_secret or is_hidden)

    @property
    def shown_whole(self) -> str:
        """What may be shown of the value: a reference stays a reference, a secret is masked."""
        return MASK if self.is_hidden else without_url_secrets(self.raw)

    @property
    def shown(self) -> str:
        """The same, short enough for a sentence."""
        shown = self.shown_whole
        return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}.."


def as_written(spelled: str, raw: str) -> Entry:
    """Return an entry for an option as a configuration has it, its references not replaced: to show it."""
    return Entry(option=canonical(spelled), spelled=spelled, raw=raw, text=raw)


def canonical(spelled: str) -> str:
    """Return the name under which an option is known here; unknown names are their own."""
    return CANONICAL.get(spelled.strip(), spelled.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One sentence about one option; `value` is what was given as it may be shown, None when it may not.

    `is_missing`: what its reference points at is not there, on this machine and at this time.
    `is_forbidden`: it may not be read, wherever it leads.
    """

    option: str
    message: str
    value: str | None = None
    is_missing: bool = False
    is_forbidden: bool = False

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value!r}"
        return f"{self.option}{shown}: {self.message}" if self.option else self.message


class SettingsError(HeadraceError):
    """The configuration cannot be used; `problems` holds all that was found, none of them with a secret."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"The configuration has a problem: {self.problems[0]}"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        return f"The configuration has {len(self.problems)} problems:{lines}"


class Problems:
    """Collects problems; the same one found twice (a TLS option serves three clients) counts once."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(
        self,
        option: str,
        message: str,
        value: str | None = None,
        *,
        is_missing: bool = False,
        is_forbidden: bool = False,
    ) -> None:
        """Note a problem of an option; the value only as it may be shown."""
        problem = Problem(
            option=option, message=message, value=value, is_missing=is_missing, is_forbidden=is_forbidden
        )
        self._found[problem] = None

    def include(self, others: "Problems") -> None:
        """Note what others have found, too."""
        self._found |= dict.fromkeys(others)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise SettingsError with all of them, if there are any."""
        if self._found:
            raise SettingsError(tuple(self._found))


_BEGIN: Final = "${"
# As pages of Kafka's and of Strimzi's name the provider that is `dir` in others.
_KIND_OF: Final = {"directory": "dir"}


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference as it was written, and from where to where; `path` is None where it has one colon.

    `provider` is the kind that its name stands for, of the names that are usual for one.

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


def kind_of(provider: str) -> str:
    """Return the kind of a provider of references by its name: the name itself, but for usual other ones."""
    return _KIND_OF.get(provider, provider)


def _next(text: str, start: int) -> Reference | None:
    begin = text.find(_BEGIN, start)
    while begin >= 0:
        close = text.find("}", begin)
        if close < 0:
            return None
        named, colon, rest = text[begin + len(_BEGIN) : close].partition(":")
        if colon:
            provider = kind_of(named)
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
