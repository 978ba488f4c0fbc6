"""The proxy of the fault tests, against a small server whose answers are known."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support import aws
from tests.support.http_serving import QuietHandler, serving
from tests.support.proxy import Answer, Cut, Proxy, Refuse, Silent, Slow, Truncate

BODY = bytes(range(256)) * 400


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/chunked":
            self.answer(200, BODY)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index in range(0, len(BODY), 10_000):
            chunk = BODY[index : index + 10_000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def do_HEAD(self) -> None:
        self.answer(200, BODY)

    def do_PUT(self) -> None:
        self.answer(200, self.body())


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before a server of its own."""
    with serving(_Handler) as url, Proxy(url.removeprefix("http://")) as made:
        yield made


def _connection(proxy: Proxy, *, timeout: float = 60) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(proxy.address, timeout=timeout)


def _head(connection: http.client.HTTPConnection) -> bytes:
    connection.request("HEAD", "/")
    return connection.getresponse().read()


def _drain(client: socket.socket) -> None:
    while client.recv(100):
        pass


def _get(proxy: Proxy, path: str = "/", *, timeout: float = 60) -> tuple[int, bytes]:
    with closing(_connection(proxy, timeout=timeout)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize("path", ["/", "/chunked"])
def test_without_a_rule_everything_passes(proxy: Proxy, path: str) -> None:
    """Bodies of both framings, and several requests on one connection."""
    with closing(_connection(proxy)) as connection:
        for _ in range(3):
            connection.request("GET", path)
            assert connection.getresponse().read() == BODY
            connection.request("HEAD", path)
            assert connection.getresponse().read() == b""
            connection.request("PUT", path, body=b"sent")
            assert connection.getresponse().read() == b"sent"
    assert [request.method for request in proxy.requests] == ["GET", "HEAD", "PUT"] * 3


def test_a_client_that_waits_to_be_told_to_go_on(proxy: Proxy) -> None:
    """`Expect: 100-continue`, as the AWS clients send with every PUT."""
    with socket.create_connection(("127.0.0.1", int(proxy.address.split(":")[1])), timeout=60) as client:
        client.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        answer = b""
        while not answer.endswith(b"body"):
            answer += client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 200")


def test_an_answer_instead_of_the_real_one(proxy: Proxy) -> None:
    """For the requests chosen, as often as said."""
    proxy.on(Answer(status=503), when=lambda request: request.path == "/bad", times=2)
    assert [_get(proxy, path)[0] for path in ("/bad", "/good", "/bad", "/bad")] == [503, 200, 503, 200]


def test_a_truncated_body(proxy: Proxy) -> None:
    """The length is promised and not kept."""
    proxy.on(Truncate(1000), times=1)
    with pytest.raises(http.client.IncompleteRead) as caught:
        _get(proxy)
    assert caught.value.partial == BODY[:1000]
    assert _get(proxy) == (200, BODY)


@pytest.mark.parametrize("after", [0, 50_000])
def test_a_cut_connection(proxy: Proxy, after: int) -> None:
    """Reset instead of an answer, and in the middle of one."""
    proxy.on(Cut(after), times=1)
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        _get(proxy)
    assert _get(proxy) == (200, BODY)


def test_a_refused_connection_and_the_same_port_afterwards(proxy: Proxy) -> None:
    """The port is closed, open connections are cut; `off` opens the same port again."""
    with closing(_connection(proxy)) as before:
        assert _head(before) == b""
        proxy.on(Refuse())
        with pytest.raises(ConnectionRefusedError):
            _get(proxy)
        with pytest.raises((ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)):
            _head(before)
    proxy.off()
    assert _get(proxy) == (200, BODY)


def test_a_slow_answer(proxy: Proxy) -> None:
    """Late, and then at a rate."""
    proxy.on(Slow(0.2, bytes_per_second=len(BODY) * 5))
    began = time.monotonic()
    assert _get(proxy) == (200, BODY)
    assert time.monotonic() - began >= 0.35


def test_silence(proxy: Proxy) -> None:
    """No answer, however long one waits."""
    proxy.on(Silent())
    with pytest.raises(TimeoutError):
        _get(proxy, timeout=0.2)


def test_cutting_what_is_open(proxy: Proxy) -> None:
    """A slow answer under way is reset; the next request is not touched."""
    proxy.on(Slow(bytes_per_second=10_000), times=1)
    with closing(_connection(proxy)) as connection:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read(100)
        proxy.cut()
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            answer.read()
    assert _get(proxy) == (200, BODY)


def test_bytes_that_are_no_http() -> None:
    """Any protocol passes, is refused and is cut."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while piece := connection.recv(1000):
                        connection.sendall(piece)

        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        with Proxy(f"127.0.0.1:{server.getsockname()[1]}", is_http=False) as proxy:
            address = ("127.0.0.1", int(proxy.address.split(":")[1]))
            with socket.create_connection(address, timeout=60) as client:
                client.sendall(b"\x00\x01binary")
                assert client.recv(100) == b"\x00\x01binary"
            proxy.on(Cut(3), times=1)
            with socket.create_connection(address, timeout=60) as client:
                client.sendall(b"123456")
                with pytest.raises(ConnectionResetError):
                    _drain(client)
            proxy.on(Refuse())
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, timeout=60)
            proxy.off()
            with socket.create_connection(address, timeout=60) as client:
                client.sendall(b"again")
                assert client.recv(100) == b"again"


@pytest.mark.parts
def test_s3_through_the_proxy() -> None:
    """boto3 puts, lists and gets through it, and sees the 503 it is told."""
    bucket = aws.new_bucket()
    with Proxy(aws.address()) as proxy:
        client = aws.s3(proxy.url)
        client.put_object(Bucket=bucket, Key="a b", Body=BODY)
        assert client.get_object(Bucket=bucket, Key="a b")["Body"].read() == BODY
        proxy.on(Answer(status=503), when=lambda request: "list-type" in request.path, times=1)
        assert [found["Key"] for found in client.list_objects_v2(Bucket=bucket)["Contents"]] == ["a b"]
        assert sum("list-type" in request.path for request in proxy.requests) == 2
