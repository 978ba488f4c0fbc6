"""One option: its name and everything that is said about it, once."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, TypeVar

from headrace.options.value_types import Form

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Importance = Literal["HIGH", "MEDIUM", "LOW"]


class Group(StrEnum):
    """The heading under which an option is in the docs."""

    IDENTITY = "Identity"
    KAFKA = "Kafka"
    S3 = "S3"
    SQS = "SQS"
    DISCOVERY = "Discovery"
    ROUTING = "Routing"
    RECORDS = "Formats and records"
    RESTORE = "Archives"
    TRANSFORMS = "Transforms"
    DELIVERY = "Transactions and work"
    ERRORS = "Errors"
    SPARK = "Spark"
    SERVICE = "Service"
    SINK = "Sink"
    OUTPUT = "Sink: objects"
    ROTATION = "Sink: when objects close"
    UPLOADS = "Sink: uploads"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option(Generic[T_co]):
    """An option of the configuration; `default` is written as a user would write it, and parsed the same way.

    `default_says` describes a default that depends on other options or on the surroundings.
    """

    name: str
    form: Form[T_co]
    group: Group
    doc: str
    default: str | None = None
    default_says: str = ""
    required: bool = False
    importance: Importance = "MEDIUM"
    aliases: tuple[str, ...] = ()

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return self.form.kind == "PASSWORD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """An open set of options that share a prefix and are handed on to a client or to Spark."""

    prefix: str
    group: Group
    doc: str


def required(name: str, form: Form[T], group: Group, doc: str, *, aliases: tuple[str, ...] = ()) -> Option[T]:
    """Return an option that has to be given."""
    return Option(
        name=name, form=form, group=group, doc=doc, required=True, importance="HIGH", aliases=aliases
    )


def option(
    name: str,
    form: Form[T],
    default: str,
    group: Group,
    doc: str,
    *,
    importance: Importance = "MEDIUM",
    aliases: tuple[str, ...] = (),
) -> Option[T]:
    """Return an option with a default."""
    return Option(
        name=name,
        form=form,
        default=default,
        group=group,
        doc=doc,
        importance=importance,
        aliases=aliases,
    )


def optional(
    name: str,
    form: Form[T],
    group: Group,
    doc: str,
    *,
    default_says: str = "",
    importance: Importance = "MEDIUM",
    aliases: tuple[str, ...] = (),
) -> Option[T | None]:
    """Return an option that is None when it is not given."""
    return Option(
        name=name,
        form=form,
        default_says=default_says,
        group=group,
        doc=doc,
        importance=importance,
        aliases=aliases,
    )
