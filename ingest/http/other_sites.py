"""What tells a request of a web page of another site: the `Host` and the `Origin` that browsers send."""

import ipaddress
import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def origin_form(target: str) -> tuple[str, str | None]:
    """The path and query of a request's target, and the host that the target itself names, if it does.

    Every server takes a target with scheme and host (RFC 9112, 3.2.2); those of proxies have them. Slashes at
    the beginning of the path are one, as `http.server` has them in other targets.
    """
    found = _ABSOLUTE.match(target)
    return (target, None) if found is None else (f"/{target[found.end() :]}", found[1])


def is_local(header: str, names: Collection[str]) -> bool:
    """Whether a `Host` is an address, localhost or one of these names.

    A web page reaches loopback under a name of its own once that name is bound to it (DNS rebinding): for the
    browser it is the page's own site then. An address cannot be bound to another.
    """
    host = header.strip().lower()
    bracketed = host.startswith("[") and "]" in host
    name = host[1 : host.index("]")] if bracketed else host.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost") or name in {one.lower() for one in names}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


ORIGINS: Final = "access.control.allow.origin"
"""The option of a worker's file with the sites of others whose pages may change something."""
_USUAL_PORTS: Final = {"http": 80, "https": 443}
_ABSOLUTE: Final = re.compile(r"https?://([^/?#]*)/*", re.IGNORECASE)
_HOST: Final = re.compile(r"[^\s*,]+")


def is_of_another_site(origin: str, host: str, origins: Collection[str] = ()) -> bool:
    """Whether an `Origin` is neither the site that the request's `Host` names nor one of these.

    `origins` are as `site_of` names them. What is no address is of another site.
    """
    if site_of(origin) in origins:
        return False
    try:
        site = urlsplit(origin).netloc
    except ValueError:
        return True
    return site.lower() != host.lower()


def site_of(origin: str) -> str | None:
    """An origin as browsers name it, in small letters and without a usual port; None for what is not one."""
    try:
        url = urlsplit(origin.strip())
        host, port = url.hostname or "", url.port
    except ValueError:
        return None
    if not _HOST.fullmatch(host) or "@" in url.netloc or not url.scheme:
        return None
    if url.path not in {"", "/"} or url.query or url.fragment:
        return None
    try:
        named = f"[{ipaddress.ip_address(host).compressed}]" if ":" in host else host.encode("idna").decode()
    except ValueError:
        return None
    return f"{url.scheme}://{named}" + ("" if port in {None, _USUAL_PORTS.get(url.scheme)} else f":{port}")
