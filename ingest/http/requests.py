"""A request, before anything answers it: whether it is one of another site's page, and where its body ends.

Where two servers disagree about where a body ends, what is in it can pass for a request of its own (request
smuggling). So all that may be read in two ways is refused, and the connection closed.
"""

import ipaddress
import re
from collections.abc import Collection
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from email.message import Message
from http import HTTPStatus
from io import BufferedIOBase
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


# Size, and extensions that mean nothing here.
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[^\r\n]*)?\r\n")
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n")
_LONGEST_LINE: Final = 1024
# What extensions and trailers of one body may be in all.
_MOST_AROUND: Final = 16_384
_END: Final = b"\r\n"
_BLANK: Final = " \t"
# Ten digits are more than any limit; what is longer need not be made a number.
_MOST_DIGITS: Final = 10


class HeadLines(BufferedIOBase):
    """The lines of a request's head, and whether one has a return that does not end it.

    Python's parser ends lines and the head there, most servers do not: they may see other lengths, or none.
    """

    def __init__(self, first: bytes, stream: BufferedIOBase) -> None:
        self._stream = stream
        self.is_ambiguous = _has_return(first)

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line."""
        line = self._stream.readline(size)
        self.is_ambiguous |= _has_return(line)
        return line


def _has_return(line: bytes) -> bool:
    return b"\r" in line.removesuffix(b"\r\n")


def body_length(headers: Message, *, most: int, is_current: bool) -> int | HTTPStatus | None:
    """How many bytes follow the headers, None where they come in chunks, or why they are not read.

    `is_current`: the request is of HTTP/1.1, the first version that has chunks.
    """
    if any(isinstance(one, _DEFECTS) for one in headers.defects):
        # What comes after a line that is no header would be passed over, its lengths included.
        return HTTPStatus.BAD_REQUEST
    codings, given = headers.get_all("Transfer-Encoding"), headers.get_all("Content-Length")
    if codings is not None:
        if given is not None or not is_current:
            return HTTPStatus.BAD_REQUEST
        is_chunked = [str(coding).strip(_BLANK).lower() for coding in codings] == ["chunked"]
        return None if is_chunked else HTTPStatus.LENGTH_REQUIRED
    lengths = {str(length).strip(_BLANK) for length in given or ["0"]}
    length = lengths.pop()
    # Two lengths that differ would let a body hold a request of its own.
    if lengths or not (length.isascii() and length.isdigit()):
        return HTTPStatus.BAD_REQUEST
    if len(length) > _MOST_DIGITS or int(length) > most:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return int(length)


_DEFECTS: Final = (FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect)


def read_body(stream: BufferedIOBase, length: int | None, *, most: int) -> bytes | HTTPStatus:
    """A body of this length, or in chunks (None), of `most` bytes in all; else why it cannot be read."""
    if length is None:
        return _read_chunks(stream, most)
    body = stream.read(length)
    # Half of what was meant is not carried out.
    return body if len(body) == length else HTTPStatus.BAD_REQUEST


def _read_chunks(stream: BufferedIOBase, most: int) -> bytes | HTTPStatus:
    body, left = bytearray(), _MOST_AROUND
    while True:
        line = stream.readline(_LONGEST_LINE)
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            return HTTPStatus.BAD_REQUEST
        left -= len(line) - len(found[1]) - len(_END)
        size = int(found[1], 16)
        if left < 0 or len(body) + size > most:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if size == 0:
            return bytes(body) if _ends(stream, left) else HTTPStatus.BAD_REQUEST
        body += stream.read(size)
        # At the end of what was sent, too: half a body is refused.
        if stream.read(len(_END)) != _END:
            return HTTPStatus.BAD_REQUEST


def _ends(stream: BufferedIOBase, left: int) -> bool:
    """Whether what follows the last chunk is trailers, which are dropped, and the end."""
    while (line := stream.readline(_LONGEST_LINE)) != _END:
        left -= len(line)
        if left < 0 or _TRAILER.fullmatch(line) is None:
            return False
    return True
