"""What must never be shown: the type that hides it, and the names and texts that call for it."""

import re
from typing import Final

MASK: Final = "***"
HIDDEN: Final = "[hidden]"
"""What workers show in place of a secret, and are brought back to keep it."""
NO_VALUE: Final = "is a mask, and there is no value to keep; give the secret itself, or a reference to it"
"""The problem of an option that was given what is shown in place of a secret."""
NOT_FOR_CLIENTS: Final = f"{NO_VALUE}: all that contacts S3, Kafka or a registry refuses it"
"""The warning, where nothing is contacted."""

# Spark redacts by secret|password|token|access key (spark.redaction.regex); clients of Kafka and of the
# schema registry add key material, JAAS entries and user:password pairs; Hadoop's own list adds keys that
# encrypt, an account's, and stores' `pass`; Confluent a license. The id of AWS's access key
# (`aws.access.key.id`, Lenses' `connect.s3.aws.access.key`) is a name, as a client's id is.
_SECRET_NAME: Final = re.compile(
    r"secret|passw|passphrase|token(?!\.endpoint)|credential(?!s\.(?:provider|source|client\.id))|jaas"
    r"|(?<!s3\.aws\.)(?<!^aws\.)access[._]?key(?![._]?id)"
    r"|key\.pem|keystore\.(?:key|pass)|private\.?key|user\.info|api\.?key|oauthbearer\.(?:config|extensions)"
    r"|(?:customer|account)[._]?key|encryption\.key(?![a-z]|\.id)|confluent[._]license",
    re.IGNORECASE,
)
# Only these say nothing to a thief; others are token=.., and headers for a proxy in front of the server.
_OPEN_PARAMETER: Final = re.compile(r"(?:use_ssl|user_id|user_agent|session_id)=", re.IGNORECASE)
_BLANK: Final = re.compile(r"\s")
# Ours, and longer ones: of Confluent Cloud's answers, and of Spark's pages (`*********(redacted)`).
_MASKED: Final = re.compile(r"\*{3,}(\(redacted\))?")
# A password that ends in asterisks is none.
_MASKED_USER: Final = re.compile(r"(?:^|//|:)\*{3,}@")
_MASKED_PARAMETER: Final = re.compile(r";[^=;]*=\s*\*{3,}\s*(?:;|$)")


class Secret:
    """A text that shows as `***` wherever it is printed; `reveal` is the only way to it.

    Not a dataclass on purpose: `dataclasses.asdict` would take a dataclass apart and show the text.
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the client that needs it."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (self._text,)


Property = tuple[str, str | Secret]
"""One property for a client or for Spark: its name, and its value, hidden where the name calls for it."""


def is_secret_name(name: str) -> bool:
    """Whether the value of an option or property of this name must not be shown."""
    return _SECRET_NAME.search(name) is not None


def without_url_secrets(text: str) -> str:
    """Return a text with what is before the @ of a URL masked, and parameters of one of Spark Connect."""
    shown = _without_user_info(text)
    return _without_parameters(shown) if shown.lstrip().startswith("sc://") else shown


def _without_user_info(text: str) -> str:
    """As far as the last @: a password not quoted for a URL may hold any sign, and a scheme may be missing.

    No expression: it would try again from every colon of a text of megabytes.
    """
    last = text.rfind("@")
    if last < 0:
        return text
    begin = _end_of_bare_user(text)
    head = f"{MASK}@" if begin else ""
    mark = text.find("://", begin)
    if 0 <= mark <= last - 3:
        return f"{head}{text[begin : mark + 3]}{MASK}@{text[last + 1 :]}"
    return head + text[begin:]


def _end_of_bare_user(text: str) -> int:
    """Where a `user:password@` without a scheme ends with which the text begins; 0 where none does."""
    user = text[: text.index("@")]
    name = user.partition("/")[0]
    colon = name.rfind(":")
    if colon >= 0 and text.startswith("//", colon + 1):
        colon = name.rfind(":", 0, colon)
    return len(user) + 1 if colon > 0 and _BLANK.search(user) is None else 0


def _without_parameters(text: str) -> str:
    """A text with the parameters of Spark Connect masked that may tell something."""
    first, *parameters = text.split(";")
    shown = (
        f"{one.partition('=')[0]}={MASK}" if "=" in one and _OPEN_PARAMETER.match(one) is None else one
        for one in parameters
    )
    return ";".join((first, *shown))


def is_mask(text: str, *, is_secret: bool) -> bool:
    """Whether this is what is shown of a secret, or of a URL with one, here or by others, and not a value."""
    bare = text.strip()
    if is_secret and (bare == HIDDEN or _MASKED.fullmatch(bare) is not None):
        return True
    if bare.startswith("sc://") and _MASKED_PARAMETER.search(bare) is not None:
        return True
    return _MASKED_USER.search(bare) is not None


def properties(pairs: dict[str, str]) -> tuple[Property, ...]:
    """Return pairs sorted by name, the values of secret names wrapped."""
    return tuple(
        (name, Secret(text) if is_secret_name(name) else text) for name, text in sorted(pairs.items())
    )


def revealed(pairs: tuple[Property, ...]) -> dict[str, str]:
    """Return plain names and values, secrets included: for the constructor of a client and nothing else."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in pairs}
