"""The proxy between this machine and S3."""

from typing import Final
from urllib.parse import quote, urlsplit

from headrace.options.secret import Secret
from headrace.options.value_types import Form, FormError

_EXPECTED: Final = "a URL such as http://proxy:3128, or http://user:password@proxy:3128"


def _proxy_url(text: str) -> Secret:
    stripped = text.strip()
    if "://" not in stripped:
        stripped = f"http://{stripped}"
    try:
        parts = urlsplit(stripped)
        port = parts.port
    except ValueError:
        raise FormError from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise FormError
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise FormError
    return Secret(stripped.rstrip("/"))


PROXY_URL: Final = Form(kind="STRING", expected=_EXPECTED, parse=_proxy_url)


def proxy_of(url: Secret | None, user: str | None, password: Secret | None) -> Secret | None:
    """The URL with user and password in it, where they are given apart."""
    if url is None or user is None:
        return url
    scheme, _, address = url.reveal().partition("://")
    secret = "" if password is None else f":{quote(password.reveal(), safe='')}"
    return Secret(f"{scheme}://{quote(user, safe='')}{secret}@{address.rpartition('@')[2]}")


def proxy_config(proxy: Secret | None) -> dict[str, str] | None:
    """What AWS clients are given; None leaves the proxy to the environment."""
    if proxy is None:
        return None
    return {"http": proxy.reveal(), "https": proxy.reveal()}
