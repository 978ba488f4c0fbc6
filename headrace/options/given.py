"""What a configuration gives: text of each option, where it came from, and how much of it may be shown."""

import re
from dataclasses import dataclass
from typing import Final

from headrace.options.declarations import BY_NAME, CANONICAL
from headrace.options.secret import MASK, is_secret_name, without_url_secrets

_SHOWN_MAX: Final = 200
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Entry:
    """One option as given: `raw` as it was written, `text` with references replaced."""

    option: str
    spelled: str
    raw: str
    text: str

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
    def shown_whole(self) -> str:
        """What may be shown of the value: a reference stays a reference, a secret is masked."""
        return MASK if self.is_hidden else without_url_secrets(self.raw)

    @property
    def shown(self) -> str:
        """The same, short enough for a sentence."""
        shown = self.shown_whole
        return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}.."


def canonical(spelled: str) -> str:
    """Return the name under which an option is known here; unknown names are their own."""
    return CANONICAL.get(spelled.strip(), spelled.strip())
