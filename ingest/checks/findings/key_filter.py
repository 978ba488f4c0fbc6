"""The filter of a bucket's notification: its values as S3 wants them, and which keys pass it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote_plus, unquote_plus

from headrace.options.aws_forms import is_amazons
from headrace.options.settings import S3Settings

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html: a space is `+`,
# and all but these is URL-encoded. As it is, `region=eu/` passes no key.
_SAFE: Final = "/!-_.*'()"


def filter_value(text: str, s3: S3Settings) -> str:
    """The value of a rule for keys that begin or end with `text`; of other stores than S3 it is that text."""
    return quote_plus(text, safe=_SAFE) if is_amazons(s3.endpoint) else text


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """What keys have to begin and end with. `unencoded` is a value that S3 takes and matches with no key."""

    prefix: str
    suffix: str
    unencoded: str | None

    @classmethod
    def of(cls, configuration: Mapping[str, Any], s3: S3Settings) -> Self:
        """The filter of one entry of a notification's configuration."""
        rules = configuration.get("Filter", {}).get("Key", {}).get("FilterRules", ())
        # AWS writes the names capitalised, LocalStack as they were given.
        values = {rule["Name"].lower(): str(rule["Value"]) for rule in rules}
        prefix, suffix = values.get("prefix", ""), values.get("suffix", "")
        if not is_amazons(s3.endpoint):
            return cls(prefix, suffix, None)
        wrong = (each for each in (prefix, suffix) if quote_plus(each, safe=f"{_SAFE}%+") != each)
        return cls(unquote_plus(prefix), unquote_plus(suffix), next(wrong, None))

    def shows(self, prefix: str, keys: Sequence[str] = ()) -> bool:
        """Whether everything under `prefix` is sent; a suffix is judged by the keys that are there."""
        return (
            self.unencoded is None
            and prefix.startswith(self.prefix)
            and all(key.endswith(self.suffix) for key in keys)
        )

    def __str__(self) -> str:
        begins = f"beginning with {self.prefix!r}" if self.prefix else ""
        ends = f"ending in {self.suffix!r}" if self.suffix else ""
        return " and ".join(part for part in (begins, ends) if part)
