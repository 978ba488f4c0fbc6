"""What tells a request of a web page of another site: the `Host` and the `Origin` that browsers send."""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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


def is_of_another_site(origin: str, host: str) -> bool:
    """Whether an `Origin` is not the site that the request's `Host` names; what is no address is not."""
    try:
        site = urlsplit(origin).netloc
    except ValueError:
        return True
    return site.lower() != host.lower()
