"""KCQL read: by recursive descent, one function for each rule of the grammar.

text       = [statement] (";" [statement])*
statement  = INSERT INTO target SELECT "*" FROM topic clause*
clause     = PARTITIONBY ["("] field ("," field)* [","] [")"] | NOPARTITION | STOREAS name | LIMIT number
           | PROPERTIES "(" [name "=" value ("," name "=" value)* [","]] ")"

of a source:
statement  = INSERT INTO topic SELECT "*" FROM target clause*
clause     = BATCH ["="] number | STOREAS name | LIMIT number | PROPERTIES ..
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.names.archive_names import is_topic_name
from headrace.vendors.lenses.kcql.statements import (
    EVERY_TOPIC,
    FieldSource,
    KcqlError,
    PartitionField,
    Property,
    Statement,
)

# -- A text of KCQL cut into tokens, each with its place -----------------------------------------------------


class TokenKind(StrEnum):
    """What a token is. `END` is after the last one."""

    WORD = "word"
    QUOTED = "quoted"
    """Between backticks."""
    TEXT = "text"
    """Between single quotes."""
    SIGN = "sign"
    END = "end"


_TOKEN: Final = re.compile(
    r"(?P<blank>\s+)"
    r"|`(?P<quoted>[^`]*)`"
    r"|'(?P<text>[^'\r\n]*)'"
    r"|(?P<word>[A-Za-z0-9_@.+/{}:$\[\]|#^?-]+)"
    r"|(?P<sign>[(),=;*])"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token's text without its quotes, and its place with them."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """As a person is shown it."""
        if self.kind is TokenKind.END:
            return "the end"
        marks = {TokenKind.QUOTED: "`", TokenKind.TEXT: "'"}.get(self.kind, "")
        return f"{marks}{self.text}{marks}"


def tokens_of(source: str) -> tuple[Token, ...]:
    """The tokens in order, and one END; KcqlError where something is no token."""
    return (*_tokens(source), Token(TokenKind.END, "", len(source), len(source)))


def _tokens(source: str) -> Iterator[Token]:
    position = 0
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            raise _no_token(source, position)
        kind = str(found.lastgroup)
        if kind != "blank":
            yield Token(TokenKind(kind), found[kind], found.start(), found.end())
        position = found.end()


def _no_token(source: str, position: int) -> KcqlError:
    char = source[position]
    if char in "`'":
        problem = f"This {char} is not closed"
        return KcqlError(problem, source=source, start=position, end=len(source))
    problem = f"{char!r} cannot be here; put names with such characters between backticks"
    return KcqlError(problem, source=source, start=position, end=position + 1)


# -- KCQL read: by recursive descent, one function for each rule of the grammar ------------------------------

_CLAUSES: Final = ("PARTITIONBY", "NOPARTITION", "STOREAS", "LIMIT", "PROPERTIES")
_FORMATS: Final = ("JSON", "AVRO", "PARQUET", "CSV", "CSV_WITHHEADERS", "TEXT", "BYTES")
_NAMES: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED, TokenKind.TEXT})
# Their sink refuses these itself, and names what took their place.
# Clauses of older versions, which Lenses' sink refuses as well.
_REPLACED: Final = {
    "WITH_FLUSH_COUNT": "flush.count",
    "WITH_FLUSH_SIZE": "flush.size",
    "WITH_FLUSH_INTERVAL": "flush.interval",
    "WITHPARTITIONER": "partition.include.keys",
}
_OF_SINK: Final = frozenset({*_REPLACED, "PARTITIONBY", "NOPARTITION"})
_PARTITIONERS: Final = {"VALUES": "false", "KEYSANDVALUES": "true"}
_SOURCES: Final = {**{str(source): source for source in FieldSource}, "_headers": FieldSource.HEADER}
_ALONE: Final = frozenset({FieldSource.TOPIC, FieldSource.PARTITION})


def read_kcql(source: str) -> tuple[Statement, ...]:
    """The statements of a text, one at least; KcqlError for the first mistake."""
    return _Parser(source).text()


def read_source_kcql(source: str) -> tuple[Statement, ...]:
    """The same of a source, whose statements read a bucket and name the topic to write."""
    return _SourceParser(source).text()


class _Parser:
    """One pass over the tokens of a text."""

    clauses: tuple[str, ...] = _CLAUSES
    form = "INSERT INTO bucket:prefix SELECT * FROM topic"

    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = tokens_of(source)
        self._at = 0

    # -- rules -----------------------------------------------------------------------------------------------

    def text(self) -> tuple[Statement, ...]:
        """The whole text."""
        statements: list[Statement] = []
        while self._next.kind is not TokenKind.END:
            if self._skip(";"):
                continue
            statements.append(self._statement())
            if not self._is_at_end:
                raise self._expected("; or one of " + ", ".join(self.clauses))
        if not statements:
            raise self._expected(self.form)
        return tuple(statements)

    def _statement(self) -> Statement:
        statement = self._head()
        clauses: set[str] = set()
        while (clause := self._clause_word()) is not None:
            opening = self._take()
            if clause in clauses or {clause, *clauses} >= {"PARTITIONBY", "NOPARTITION"}:
                other = clause if clause in clauses else "PARTITIONBY or NOPARTITION"
                raise self._wrong(f"{other} is here already; keep one of them", opening)
            clauses.add(clause)
            statement = self._clause(clause, statement)
        return replace(statement, end=self._tokens[self._at - 1].end)

    def _head(self) -> Statement:
        start = self._next.start
        self._keyword("INSERT")
        self._keyword("INTO")
        bucket, prefix = self._target()
        self._keyword("SELECT")
        self._everything()
        self._keyword("FROM")
        topic = self._topic()
        return Statement(bucket=bucket, prefix=prefix, topic=topic, start=start)

    def _target(self) -> tuple[str, str]:
        # Prefixes such as year=2022/ are written without quotes as well.
        name, tokens = self._name("a bucket, or bucket:prefix", has_equals=True)
        self._check_placeholder(name, tokens)
        bucket, *rest = name.split(":")
        if len(rest) > 1 or not bucket:
            raise self._wrong("This is no bucket:prefix", *tokens)
        return bucket, rest[0] if rest else ""

    def _everything(self) -> None:
        token = self._next
        if not self._skip("*"):
            raise self._wrong(
                f"Only SELECT * is written, not {token.shown}; choose and rename fields with the transform "
                "org.apache.kafka.connect.transforms.ReplaceField$Value",
                token,
            )
        if self._next.text == ",":
            raise self._wrong(
                "Only SELECT * is written; add fields with the transform "
                "org.apache.kafka.connect.transforms.InsertField$Value, drop them with ReplaceField$Value",
                self._next,
            )

    def _topic(self) -> str:
        if self._skip("*"):
            return EVERY_TOPIC
        name, tokens = self._name("a topic, or `*`")
        self._check_placeholder(name, tokens)
        if name != EVERY_TOPIC and not is_topic_name(name):
            raise self._wrong(
                f"{name!r} is no topic's name; for many topics write FROM `*` and set topics.regex", *tokens
            )
        return name

    def _clause(self, clause: str, statement: Statement) -> Statement:
        match clause:
            case "PARTITIONBY":
                return replace(statement, partition_by=self._partition_by())
            case "STOREAS":
                return replace(statement, store_as=self._format())
            case "LIMIT":
                return replace(statement, limit=self._number())
            case "PROPERTIES":
                return replace(statement, properties=self._properties())
            case _:
                return replace(statement, no_partition=True)

    def _partition_by(self) -> tuple[PartitionField, ...]:
        in_parentheses = self._skip("(")
        fields = [self._field()]
        while self._skip(","):
            if self._next.text == ")" or self._clause_word() is not None or self._is_at_end:
                break
            fields.append(self._field())
        if in_parentheses:
            self._sign(")")
        return tuple(fields)

    def _field(self) -> PartitionField:
        first = self._next
        path: list[str] = []
        for token in self._adjacent(
            "a field, such as region, _key.id, _header.h, _topic or _date.`yyyy-MM-dd`"
        ):
            path += [token.text] if token.kind is not TokenKind.WORD else _dotted(token.text)
        last = self._tokens[self._at - 1]
        if not path or not all(path):
            raise self._wrong("A part of this field's name is missing", first, last)
        source = _SOURCES.get(path[0])
        if source is None:
            return PartitionField(FieldSource.VALUE, tuple(path))
        found = PartitionField(source, tuple(path[1:]))
        if problem := _problem_of(found):
            raise self._wrong(problem, first, last)
        return found

    def _format(self) -> str:
        name, tokens = self._name("a format: " + ", ".join(_FORMATS))
        if name.upper() not in _FORMATS:
            raise self._wrong(f"{name!r} is no format; expected one of {', '.join(_FORMATS)}", *tokens)
        return name.upper()

    def _number(self) -> int:
        token = self._take()
        if token.kind is not TokenKind.WORD or not (token.text.isascii() and token.text.isdigit()):
            raise self._wrong(f"Expected a number, not {token.shown}", token)
        return int(token.text)

    def _properties(self) -> tuple[Property, ...]:
        self._sign("(")
        found: list[Property] = []
        while not self._skip(")"):
            name, tokens = self._name("a property's name, such as 'flush.count', or )")
            self._sign("=")
            value, values = self._name(f"the value of {name!r}", empty=True)
            if any(each.name == name for each in found):
                raise self._wrong(f"{name!r} appears twice; keep one of them", *tokens)
            found.append(Property(name, value, tokens[0].start, values[-1].end))
            if not self._skip(",") and self._next.text != ")":
                raise self._expected(", or )")
        return tuple(found)

    # -- tokens ----------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    @property
    def _is_at_end(self) -> bool:
        return self._next.kind is TokenKind.END or self._next.text == ";"

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind is not TokenKind.END
        return token

    def _skip(self, sign: str) -> bool:
        is_next = self._next.kind is TokenKind.SIGN and self._next.text == sign
        self._at += is_next
        return is_next

    def _sign(self, sign: str) -> None:
        if not self._skip(sign):
            raise self._expected(sign)

    def _keyword(self, word: str) -> None:
        if self._next.kind is not TokenKind.WORD or self._next.text.upper() != word:
            raise self._expected(word)
        self._at += 1

    def _clause_word(self) -> str | None:
        """The clause that begins here, None where none does."""
        if self._next.kind is not TokenKind.WORD:
            return None
        word = self._next.text.upper()
        if word in _REPLACED:
            raise self._replaced()
        return word if word in self.clauses else None

    def _replaced(self) -> KcqlError:
        """What to write in the place of this clause, and of those like it after it."""
        clauses: list[Token] = []
        properties = []
        while (word := self._next.text.upper()) in _REPLACED:
            clauses.append(self._take())
            self._skip("=")
            value = self._take().text if self._next.kind is TokenKind.WORD else ".."
            properties.append(f"'{_REPLACED[word]}'={_PARTITIONERS.get(value.upper(), value)}")
        names = " and ".join(token.text for token in clauses)
        verb = "have" if len(clauses) > 1 else "has"
        return self._wrong(
            f"{names} {verb} been replaced; write PROPERTIES({', '.join(properties)})", clauses[0]
        )

    def _adjacent(self, what: str, *, empty: bool = False, has_equals: bool = False) -> list[Token]:
        """The tokens of one name, which are side by side without blanks."""
        if self._next.kind not in _NAMES:
            raise self._expected(what)
        found = [self._take()]
        while self._next.start == found[-1].end and (
            self._next.kind in _NAMES or (has_equals and self._next.text == "=")
        ):
            found.append(self._take())
        if not empty and not any(token.text for token in found):
            raise self._wrong(f"Expected {what}, not an empty name", *found)
        return found

    def _name(self, what: str, *, empty: bool = False, has_equals: bool = False) -> tuple[str, list[Token]]:
        found = self._adjacent(what, empty=empty, has_equals=has_equals)
        return "".join(token.text for token in found), found

    # -- mistakes --------------------------------------------------------------------------------------------

    def _check_placeholder(self, name: str, tokens: list[Token]) -> None:
        if "$" in name:
            raise self._wrong(
                f"{name!r} is a placeholder of an example that has not been filled in; write the name itself",
                *tokens,
            )

    def _expected(self, what: str) -> KcqlError:
        return self._wrong(f"Expected {what}, not {self._next.shown}", self._next)

    def _wrong(self, problem: str, *tokens: Token) -> KcqlError:
        return KcqlError(problem, source=self._source, start=tokens[0].start, end=tokens[-1].end)


class _SourceParser(_Parser):
    """The same for statements of a source."""

    clauses = ("BATCH", "STOREAS", "LIMIT", "PROPERTIES")
    form = "INSERT INTO topic SELECT * FROM bucket:prefix"

    def _head(self) -> Statement:
        start = self._next.start
        self._keyword("INSERT")
        self._keyword("INTO")
        first = self._next
        topic = self._topic()
        if topic == EVERY_TOPIC:
            raise self._wrong("Records go to one topic; write its name in the place of *", first)
        self._keyword("SELECT")
        self._everything()
        self._keyword("FROM")
        bucket, prefix = self._target()
        return Statement(bucket=bucket, prefix=prefix, topic=topic, start=start)

    def _clause_word(self) -> str | None:
        if self._next.kind is TokenKind.WORD and self._next.text.upper() in _OF_SINK:
            raise self._wrong(
                f"{self._next.text} is of Lenses' sink and decides nothing in a source; remove it with its "
                "value",
                self._next,
            )
        return super()._clause_word()

    def _clause(self, clause: str, statement: Statement) -> Statement:
        if clause == "BATCH":
            self._skip("=")
            # How many names a listing returns at once decides nothing here.
            self._number()
            return statement
        return super()._clause(clause, statement)

    def _number(self) -> int:
        self._skip("=")
        return super()._number()


def _dotted(text: str) -> list[str]:
    """The parts of a bare word; dots at its ends are next to parts between backticks."""
    return text.strip(".").split(".") if text.strip(".") else []


def _problem_of(field: PartitionField) -> str:
    source, path = field.source, field.path
    if source in _ALONE:
        return f"{source} has no fields; write it alone" if path else ""
    if source is FieldSource.KEY:
        return ""
    if not path:
        needs = {
            FieldSource.HEADER: "a header's name",
            FieldSource.DATE: "a pattern",
            FieldSource.VALUE: "a field",
        }
        return f"{source} needs {needs[source]} after a dot"
    if source is FieldSource.DATE and len(path) > 1:
        return "_date takes one pattern; put one with dots between backticks"
    return ""
