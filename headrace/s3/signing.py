"""AWS Signature Version 4 for requests to S3 without a body.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


class Keys(NamedTuple):
    """The credentials of one moment; `token` is what temporary ones have in addition."""

    access_key: str
    secret_key: str
    token: str | None = None


class Signer:
    """Signs GETs for one region; thread-safe, and blocks for nothing."""

    def __init__(self, region: str) -> None:
        self._region = region
        # The key of a day and a secret, whose making costs as much as the rest. One reference is replaced at
        # once, so threads need no lock.
        self._made: tuple[str, str, bytes] = ("", "", b"")

    def signed(
        self, headers: Mapping[str, str], *, path: str, query: str, keys: Keys, at: str
    ) -> dict[str, str]:
        """`headers` (names in lower case, with `host`) and those that sign them and the request.

        `path` and `query` are as they will be sent, escaped; `at` is the time as `20260102T030405Z`.
        """
        signed = {**headers, "x-amz-content-sha256": _NO_BODY, "x-amz-date": at}
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        canonical = "".join(f"{name}:{signed[name]}\n" for name in names)
        signed_names = ";".join(names)
        # S3 takes the path as it is: "." and ".." are parts of keys.
        request = f"GET\n{path}\n{query}\n{canonical}\n{signed_names}\n{_NO_BODY}"
        scope = f"{at[:8]}/{self._region}/s3/aws4_request"
        text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._key(keys.secret_key, at[:8]), text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={signed_names}, Signature={signature}"
        )
        return signed

    def _key(self, secret: str, day: str) -> bytes:
        made = self._made
        if made[:2] == (secret, day):
            return made[2]
        key = f"AWS4{secret}".encode()
        for part in (day, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._made = (secret, day, key)
        return key
