"""The status page: one self-contained HTML file next to this module, which polls `/status`."""

import hashlib
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Final

_POLICY: Final = "{{content-security-policy}}"
PAGE_HEADERS: Final = (
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""What a page's own policy cannot say of itself."""

_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@cache
def worker_page() -> bytes:
    """The page of a worker with all its connectors, made as `status_page` is."""
    return _page("worker.html")


@cache
def status_page() -> bytes:
    """The page as UTF-8 HTML, the same each time; its policy lets nothing run but the page's own script.

    The policy names script and style by their hashes, taken from the very text that is served, so that a
    change of the page cannot forget it. An object's key that came to be read as markup would do nothing.
    """
    return _page("status.html")


def _page(name: str) -> bytes:
    text = (files(__package__) / name).read_text(encoding="utf-8")
    return text.replace(_POLICY, policy(text)).encode()


def policy(text: str) -> str:
    """The Content-Security-Policy for a page with these inline scripts and styles and nothing else inline."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for element, content in _INLINE.findall(text):
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[element].append(f"'sha256-{digest}'")
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(hashes['script'])}",
            f"style-src {' '.join(hashes['style'])}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
