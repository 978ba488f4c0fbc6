"""`aws.s3.proxy.*`: requests go to the proxy, with what it asks for, and nobody sees that."""

import asyncio
import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from headrace.options.settings import Settings
from headrace.s3.client import new_s3_client
from ingest.checks.probes.bucket_keys import aws_clients
from listeners.async_clients import s3_client
from tests.headrace.options.loading import load_with, problems_with


class _Proxy(BaseHTTPRequestHandler):
    """Answers each request itself, and keeps what it was asked."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_HEAD(self) -> None:
        self.asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
        self.send_response(200)
        self.send_header("ETag", '"an-etag"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def proxy() -> Iterator[str]:
    """The address of a proxy."""
    _Proxy.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _settings(**given: str) -> Settings:
    options = {name.replace("_", "."): text for name, text in given.items()}
    return load_with(
        {
            "aws.s3.endpoint": "http://s3.example",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            **options,
        }
    )


_WANTED = ("http://s3.example/bucket/k", f"Basic {base64.b64encode(b'us er:p@ss').decode()}")


@pytest.mark.parametrize("way", ["tasks", "uploads", "probes"])
def test_each_client_goes_through_the_proxy(proxy: str, way: str) -> None:
    """With user and password, whatever signs are in them."""
    settings = _settings(
        aws_s3_proxy_url=f"http://{proxy}", aws_s3_proxy_user="us er", aws_s3_proxy_password="p@ss"
    )
    clients = {
        "tasks": lambda: new_s3_client(settings.s3).client,
        "uploads": lambda: new_s3_client(settings.s3, uploads=True).client,
        "probes": lambda: aws_clients(settings).s3,
    }
    clients[way]().head_object(Bucket="bucket", Key="k")

    assert _Proxy.asked == [_WANTED]
    assert "p@ss" not in repr(settings)
    assert "p@ss" not in str(settings.shown)


def test_listeners_go_through_the_proxy(proxy: str) -> None:
    """With a user in the URL itself."""
    settings = _settings(aws_s3_proxy_url=f"http://us%20er:p%40ss@{proxy}")

    async def ask() -> None:
        async with s3_client(settings.s3) as client:
            await client.head_object(Bucket="bucket", Key="k")

    asyncio.run(ask())

    assert _Proxy.asked == [_WANTED]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"aws.s3.proxy.url": "ftp://proxy"}, "expected a URL such as http://proxy:3128"),
        ({"aws.s3.proxy.url": "ftp://me:s3cret@proxy"}, "expected a URL such as http://proxy:3128"),
        ({"aws.s3.proxy.url": "http://proxy/path"}, "expected a URL such as http://proxy:3128"),
        ({"aws.s3.proxy.user": "me"}, "means nothing without aws.s3.proxy.url"),
        (
            {"aws.s3.proxy.url": "proxy:3128", "aws.s3.proxy.password": "x"},
            "means nothing without aws.s3.proxy.user",
        ),
    ],
)
def test_what_is_no_proxy_is_refused(given: dict[str, str], problem: str) -> None:
    """In a sentence without the password that the value may hold."""
    (found,) = problems_with(dict(given))

    assert found.message.startswith(problem)
    assert "s3cret" not in f"{found.value} {found}"
