"""Connect's references to values kept elsewhere: `${env:NAME}`, `${file:PATH:KEY}`, `${dir:PATH:FILE}`.

They are found in a text, replaced within what a worker permits, and put back into sentences in place of what
they gave. Texts are of users, and of up to megabytes: each is walked once, whatever is in it. An expression
that tried again at every `${` would hold the whole worker.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from headrace.options.configuration_text import PropertiesError, parse_properties
from headrace.options.given import Problems
from headrace.options.record_forms import KINDS
from headrace.options.vendor import CLASSES, OTHER_SINKS, OTHER_SOURCES

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


PROVIDERS: Final = "config.providers"
"""The option of a worker's file that names what gives references their values."""


class NotAllowed(LookupError):
    """A reference to what the worker's file does not give to its connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLimits:
    """Which references are followed, by their kind (`file`, `dir`, `env`); None: all of a kind."""

    paths: Mapping[str, tuple[PurePosixPath, ...] | None] = field(default_factory=dict)
    variables: tuple[re.Pattern[str], ...] | None = None
    closed: frozenset[str] = frozenset()
    """Kinds of which there is no provider, next to one with a limit."""

    def path(self, kind: str, path: str) -> str:
        """Return the path to read. NotAllowed."""
        self._require_open(kind)
        allowed = self.paths.get(kind)
        if allowed is None:
            return path
        # What is judged is what is read: without `..`, whatever links would make of that.
        plain = plain_path(path)
        if not any(plain.is_relative_to(one) for one in allowed):
            raise NotAllowed(
                f"the worker's file does not let connectors read {path}: it is outside of allowed.paths of "
                f"its provider of {kind!r}"
            )
        return str(plain)

    def variable(self, name: str) -> str:
        """Return the variable to read. NotAllowed."""
        self._require_open("env")
        if self.variables is not None and not any(one.fullmatch(name) for one in self.variables):
            raise NotAllowed(
                f"the worker's file does not let connectors read the variable {name}: it is not of "
                "allowlist.pattern of its provider of 'env'"
            )
        return name

    def _require_open(self, kind: str) -> None:
        if kind in self.closed:
            raise NotAllowed(
                f"the worker's file limits what connectors may read and has no provider of {kind!r}: add one "
                f"to {PROVIDERS}"
            )


NO_REFERENCE_LIMITS: Final = ReferenceLimits()


def plain_path(path: str) -> PurePosixPath:
    """Return the path without `..` and repeated slashes; POSIX keeps two at the start, and Java does not."""
    found = posixpath.normpath(path)
    return PurePosixPath(f"/{found.lstrip('/')}" if found.startswith("/") else found)


_FORMS: Final = {"env": "${env:NAME}", "file": "${file:PATH:KEY}", "dir": "${dir:PATH:FILE}"}
# As shells and Compose write them, and most often a variable that was not replaced.
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class ReferenceMissing(LookupError):
    """What a reference points at is not there; the text says where it was looked for."""


class NoReference(ReferenceMissing):
    """A reference of another form than those that are known, wherever it is resolved."""


class ReferenceForbidden(NoReference):
    """A reference to what the worker's file keeps from its connectors."""


def has_reference(text: str) -> bool:
    """Whether a value holds references, all of a known form."""
    found = list(references_in(text))
    return bool(found) and all(_is_of_its_form(one) for one in found)


def _is_of_its_form(found: Reference) -> bool:
    form = _FORMS.get(found.provider)
    return form is not None and bool(found.key) and bool(found.path) == ("PATH" in form)


class References:
    """Replaces references in values, within limits; files are read once."""

    __slots__ = ("_environment", "_files", "_led", "_limits", "_meant", "_read_file", "options")

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        read_file: Callable[[str], str],
        limits: ReferenceLimits = NO_REFERENCE_LIMITS,
        meant: Callable[[str, str], str] = lambda _option, text: text,
    ) -> None:
        """`meant` is asked with an option and what its references gave for the value that this is."""
        self._meant = meant
        self._environment = environment
        self._read_file = read_file
        self._limits = limits
        self._files: dict[str, Mapping[str, str]] = {}
        self._led: dict[tuple[str, str], None] = {}
        self.options: set[str] = set()
        """Those whose values were asked for."""

    def hidden(self, sentence: str) -> str:
        """Return a sentence with what has been replaced until now as it was written."""
        return with_references(sentence, self._led)

    def replaced(self, option: str, raw: str) -> str:
        """Return the value with its references replaced, once: what comes in is not looked at again.

        Raises ReferenceMissing. Blocks for reading files. Other references are an error too, but for
        `spark.*`, where `${system:..}` and the like are Spark's own.
        """
        self.options.add(option)
        if "$" not in raw:
            return raw
        for found in references_in(raw):
            # Before one that leads nowhere: that may be so on this machine alone.
            if _is_of_its_form(found):
                self._place(found)

        def one(found: Reference) -> str:
            text = self._one(option, found)
            self._led[found.text, text] = None
            return text

        text = with_replaced(raw, one)
        return text if text == raw else self._meant(option, text)

    def _one(self, option: str, found: Reference) -> str:
        provider, key = found.provider, found.key
        form = _FORMS.get(provider)
        if form is not None and not _is_of_its_form(found):
            raise NoReference(f"{found.text} is no reference; expected {form}")
        if provider == "env":
            return self._variable(self._place(found))
        if provider == "file":
            return self._entry(self._place(found), key)
        if provider == "dir":
            return self._whole(self._place(found))
        if option.startswith("spark."):
            return found.text
        raise NoReference(
            f"knows the references {_FORMS['env']}, {_FORMS['file']} and {_FORMS['dir']}, not those of "
            f"{provider!r}"
        )

    def _place(self, found: Reference) -> str:
        """The variable or path to read. ReferenceForbidden."""
        provider, path, key = found.provider, found.path or "", found.key
        try:
            if provider == "env":
                return self._limits.variable(key)
            return self._limits.path(provider, path if provider == "file" else f"{path.rstrip('/')}/{key}")
        except NotAllowed as error:
            raise ReferenceForbidden(str(error)) from error

    def _variable(self, name: str) -> str:
        if name not in self._environment:
            raise ReferenceMissing(f"the environment variable {name} is not set")
        return self._environment[name]

    def _whole(self, path: str) -> str:
        """The content of a file, as Kubernetes mounts secrets."""
        try:
            return self._read_file(path)
        except OSError as error:
            raise ReferenceMissing(f"the file {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ReferenceMissing(f"the file {path} cannot be read as text") from error

    def _entry(self, path: str, key: str) -> str:
        if path not in self._files:
            try:
                self._files[path] = dict(parse_properties(self._read_file(path)))
            except OSError as error:
                raise ReferenceMissing(f"the file {path} cannot be read: {error.strerror}") from error
            except PropertiesError as error:
                raise ReferenceMissing(f"the file {path} is no .properties file: {error}") from error
            except ValueError as error:
                # Bytes that are no text, or a path that the system refuses outright.
                raise ReferenceMissing(f"the file {path} cannot be read as text") from error
        if key not in self._files[path]:
            raise ReferenceMissing(f"the file {path} has no entry {key!r}")
        return self._files[path][key]


def is_unreplaced(text: str) -> bool:
    """Whether a value is `${NAME}` and nothing else, which is no reference of Connect's."""
    return _VARIABLE.fullmatch(text.strip()) is not None


def note_missing(problems: Problems, option: str, error: ReferenceMissing) -> None:
    """Note that a reference of an option leads nowhere."""
    problems.add(
        option,
        str(error),
        is_missing=not isinstance(error, NoReference),
        is_forbidden=isinstance(error, ReferenceForbidden),
    )
