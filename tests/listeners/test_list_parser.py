"""Pages of a listing: read quickly, they are what botocore makes of them; what is unusual is left to it."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import botocore.session
import pytest
from botocore.handlers import decode_list_object_v2
from botocore.model import Shape
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.objects import ListingPage, S3Object
from listeners.async_clients import _AT_ONCE, _before_parse, _UsualForm, s3_client
from listeners.discovery_events import ListingKind
from listeners.listing import Bucket, Lister
from tests.support import aws
from tests.support.configuration import settings_for
from tests.support.listening import Inbox

_LIST: Final = botocore.session.get_session().get_service_model("s3").operation_model("ListObjectsV2")
_SHAPE: Final = cast("Shape", _LIST.output_shape)
_FIELDS: Final = ("Key", "ETag", "Size", "LastModified", "StorageClass", "RestoreStatus")
_XMLNS: Final = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def _botocore(body: bytes) -> dict[str, Any]:
    """The page as botocore alone gives it, of objects only the fields that are looked at."""
    answer = {"status_code": 200, "headers": {}, "body": body}
    page: dict[str, Any] = create_parser("rest-xml").parse(answer, _SHAPE)
    return _decoded(page)


def _quickly(body: bytes) -> dict[str, Any]:
    """The page as a client gives it; fails if the objects were left to botocore."""
    answer = {"status_code": 200, "headers": {}, "body": body}
    found: dict[str, Any] = {}
    _before_parse(answer, found)
    page: dict[str, Any] = create_parser("rest-xml").parse(answer, _SHAPE)
    assert "Contents" not in page
    page.update(found)
    return _decoded(page)


def _decoded(page: dict[str, Any]) -> dict[str, Any]:
    decode_list_object_v2(page, {"encoding_type_auto_set": True})
    for entry in page.get("Contents", ()):
        for other in entry.keys() - set(_FIELDS):
            del entry[other]
    return page


def _is_left(body: bytes, *, status: int = 200) -> bool:
    answer = {"status_code": status, "headers": {}, "body": body}
    found: dict[str, Any] = {}
    _before_parse(answer, found)
    assert found == {} or answer["body"] != body
    return answer["body"] is body and found == {}


_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_KEY: Final = "<Key>k</Key>"
_REST: Final = (
    "<LastModified>2026-01-31T12:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>3</Size>"
    "<StorageClass>STANDARD</StorageClass>"
)
_ENTRY: Final = f"<Contents>{_KEY}{_REST}</Contents>"


def _answer(inner: str, *, xmlns: str = _XMLNS, start: str = _DECLARATION) -> bytes:
    return (
        f"{start}<ListBucketResult{xmlns}><Name>b</Name><Prefix/><MaxKeys>1000</MaxKeys>"
        f"<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{inner}</ListBucketResult>"
    ).encode()


def _changed(old: str, new: str) -> bytes:
    assert old in _ENTRY
    return _answer(_ENTRY.replace(old, new))


_S3: Final = _answer(
    "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>"
    "<Contents><Key>a/b+c%2Bd%25%20e%C3%A9%0D</Key><LastModified>2026-01-31T12:00:00.999Z</LastModified>"
    "<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e-2&quot;</ETag>"
    "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
    "<Owner><ID>0123</ID><DisplayName>o</DisplayName></Owner>"
    "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress></RestoreStatus>"
    "<Size>0</Size><StorageClass>GLACIER</StorageClass></Contents>"
    f"{_ENTRY}<CommonPrefixes><Prefix>p%2B/</Prefix></CommonPrefixes>"
)
_RESTORED: Final = _answer(
    _ENTRY
    + _ENTRY.replace(
        "</Contents>",
        "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>"
        "<RestoreExpiryDate>2026-02-07T00:00:00.000Z</RestoreExpiryDate></RestoreStatus></Contents>",
    )
    + _ENTRY.replace(
        "</Contents>",
        "<RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress></RestoreStatus></Contents>",
    )
)
_MINIO: Final = _answer(
    "<KeyCount>1</KeyCount><Contents><Key>in/a</Key><LastModified>2026-01-31T12:00:00.123Z</LastModified>"
    "<ETag>&#34;0a&#34;</ETag><Size>9007199254740993</Size><Owner><ID></ID><DisplayName></DisplayName>"
    "</Owner><StorageClass>STANDARD</StorageClass><UserMetadata/><UserTags></UserTags></Contents>"
)
_LOCALSTACK: Final = (
    b"<?xml version='1.0' encoding='utf-8'?>\n"
    b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>true</IsTruncated>'
    b"<Contents><Key>in%2Fa%2520</Key><LastModified>2026-01-31T12:00:00.000Z</LastModified>"
    b'<ETag>"0a"</ETag><Size>1</Size></Contents>\n<Contents><Key>in/\xc3\xa9</Key>'
    b"<LastModified>2026-01-31T12:00:00+00:00</LastModified><ETag/><Size>1</Size><StorageClass/></Contents>"
    b"<Name>b</Name><EncodingType>url</EncodingType><NextContinuationToken>aW4v</NextContinuationToken>"
    b"</ListBucketResult>"
)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_S3, id="S3"),
        pytest.param(_RESTORED, id="S3, with restores"),
        pytest.param(_MINIO, id="MinIO"),
        pytest.param(_LOCALSTACK, id="LocalStack, with empty elements and some left out"),
        pytest.param(_answer(_ENTRY, xmlns="", start=""), id="no namespace"),
        pytest.param(_answer(_ENTRY).replace(b"<EncodingType>url</EncodingType>", b""), id="not encoded"),
        pytest.param(
            _changed("<Key>k", "<Key>a%2Bb+c").replace(b"<EncodingType>url</EncodingType>", b""),
            id="not encoded, with what looks like it",
        ),
        pytest.param(_answer("\n  " + _ENTRY.replace("><", ">\r\n<") + "\n"), id="in lines"),
        pytest.param(_answer(_ENTRY).replace(b"<Prefix/>", b"<Prefix>a&#13;b</Prefix>"), id="references"),
        pytest.param(
            _answer(_ENTRY.replace("<Key>k", "<Key>é"), start='<?xml version="1.0" encoding="x-other"?>'),
            id="said to be in another encoding",
        ),
        pytest.param(_answer(_ENTRY * (2 * _AT_ONCE + 1)), id="many"),
    ],
)
def test_an_answer_is_read_as_botocore_reads_it(body: bytes) -> None:
    """Of S3 and of those that speak as it does: keys, ETags, times, classes, and all that is no object."""
    assert _quickly(body) == _botocore(body)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_ENTRY.replace("&quot;e&quot;", '"e"'), id="quotes as they are"),
        pytest.param(_ENTRY.replace("&quot;e&quot;", "&#34;e&#34;"), id="quotes by number"),
        pytest.param(_ENTRY.replace("&quot;e&quot;", "&amp;quot;e&quot;"), id="a reference said twice"),
        pytest.param(_ENTRY.replace("&quot;e&quot;", "&quot;&lt;&quot;"), id="another reference"),
        pytest.param(_ENTRY.replace("&quot;e&quot;", "e"), id="no quotes"),
        pytest.param(_ENTRY.replace("<Key>k", "<Key>a&amp;b"), id="a reference in a key"),
        pytest.param(_ENTRY.replace("<Key>k", "<Key>é"), id="a key that is not ASCII"),
        pytest.param(_ENTRY.replace("<Key>k", "<Key>a\r\nb"), id="a line's end in a key"),
        pytest.param(_ENTRY.replace("<Key>k</Key>", "<Key></Key>"), id="an empty key"),
        pytest.param(_ENTRY.replace("<Key>k", "<Key x='1'>k"), id="an attribute"),
        pytest.param(_ENTRY.replace("<Size>", "<Owner><ID>o</ID></Owner><Size>"), id="an element more"),
        pytest.param(_ENTRY.replace("<StorageClass>STANDARD</StorageClass>", ""), id="an element less"),
        pytest.param(_ENTRY.replace(_KEY, "").replace("<Size>", f"{_KEY}<Size>"), id="another order"),
        pytest.param(_ENTRY.replace("><", ">\n<"), id="in lines"),
        pytest.param(f"\n{_ENTRY}", id="something before it"),
    ],
)
@pytest.mark.parametrize("is_last", [False, True], ids=["among others", "last"])
def test_one_of_another_form_is_read_as_botocore_reads_it(other: str, *, is_last: bool) -> None:
    """Among objects that all have one form, which are read without a parser of XML."""
    body = _answer(_ENTRY * 3 + other + ("" if is_last else _ENTRY * 2))
    assert _quickly(body) == _botocore(body)


def test_the_usual_form_needs_no_parser() -> None:
    """That of S3 with its checksums, and LocalStack's with plain quotes."""
    checked = "<Key>a%2Fb</Key><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"
    for entry in (_ENTRY.replace(_KEY, checked), _ENTRY.replace("&quot;", '"')):
        some = (entry * 3).encode()
        found = _UsualForm(some.split(b"<Contents>")[1]).objects(some, 3)
        assert found is not None
        assert [one["ETag"] for one in found] == ['"e"'] * 3


def test_the_fields() -> None:
    """As they are in the answer of S3 above, and not only the same as botocore's."""
    assert _quickly(_S3)["Contents"][0] == {
        "Key": "a/b c+d% eé\r",
        "ETag": '"d41d8cd98f00b204e9800998ecf8427e-2"',
        "Size": 0,
        "LastModified": datetime(2026, 1, 31, 12, 0, 0, 999_000, tzinfo=UTC),
        "StorageClass": "GLACIER",
        "RestoreStatus": {"IsRestoreInProgress": False},
    }


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_answer(""), id="no objects"),
        pytest.param(b"", id="nothing"),
        pytest.param(_answer(_ENTRY)[:-40], id="cut in the rest"),
        pytest.param(_answer(_ENTRY * 3)[:-300], id="cut in an object"),
        pytest.param(b"<html><body>hello<br></body></html>", id="no XML"),
        pytest.param(
            _answer(_ENTRY).replace(b"ListBucketResult", b"ListVersionsResult"),
            id="not this operation's answer",
        ),
        pytest.param(_answer(_ENTRY, start='<!DOCTYPE ListBucketResult [<!ENTITY e "x">]>'), id="a DOCTYPE"),
        pytest.param(_answer(f"<!--{_ENTRY}-->{_ENTRY}"), id="a comment"),
        pytest.param(_changed("<Key>k", "<Key><![CDATA[<Contents>]]>"), id="CDATA"),
        pytest.param(_answer(f"<Contents/><?say {_ENTRY}?>"), id="an instruction"),
        pytest.param(_changed("<Key>k", "<Key>&e;"), id="an unknown entity"),
        pytest.param(_changed("<Key>k", "<Key>\x01"), id="what XML cannot hold"),
        pytest.param(_changed("<Key>k</Key>", ""), id="no key"),
        pytest.param(_changed("<ETag>&quot;e&quot;</ETag>", ""), id="no ETag"),
        pytest.param(_changed("<Size>3</Size>", ""), id="no size"),
        pytest.param(_changed("<Size>3", "<Size>"), id="an empty size"),
        pytest.param(_changed("<Size>3", "<Size>3 MB"), id="a size that is no number"),
        pytest.param(
            _changed("2026-01-31T12:00:00.000Z", "Sat, 31 Jan 2026 12:00:00 GMT"), id="another time"
        ),
        pytest.param(_changed("2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00"), id="a time without a zone"),
        pytest.param(_changed(_KEY, _KEY + _KEY), id="two keys"),
        pytest.param(_changed("<Key>", '<Key xmlns="urn:other">'), id="a key of another namespace"),
        pytest.param(
            _changed("<StorageClass>", '<StorageClass xmlns="urn:other">'), id="a class of another namespace"
        ),
        pytest.param(
            _answer(_ENTRY + _ENTRY.replace("Contents", "Others") + _ENTRY), id="others among the objects"
        ),
        pytest.param(
            _answer(_ENTRY + _ENTRY.replace("<Contents>", '<Contents xmlns="urn:other">') + _ENTRY),
            id="objects of another namespace among them",
        ),
        pytest.param(_answer(_ENTRY.replace("<Contents>", "<Contents >") + _ENTRY), id="objects before them"),
        pytest.param(
            _answer(_ENTRY + "<Name/>" + _ENTRY.replace("</Contents>", "</Contents >")),
            id="objects after them",
        ),
        pytest.param(
            _answer(f"{_ENTRY * 2}<NextContinuationToken>t</NextContinuationToken>{_ENTRY}"),
            id="a token among objects of one form",
        ),
        pytest.param(_answer(f"<More>{_ENTRY}</More>"), id="objects further inside"),
        pytest.param(_answer(f"<More>{_ENTRY}</More><Contents/>"), id="objects not only further inside"),
        pytest.param(
            b"<p:ListBucketResult xmlns:p='urn:s3'><p:Name/></p:ListBucketResult>", id="another prefix"
        ),
    ],
)
def test_what_is_unusual_is_left_to_botocore(body: bytes) -> None:
    """Which gives a page as before, or says what is wrong."""
    assert _is_left(body)


@pytest.mark.parametrize("status", [204, 301, 404, 500])
def test_only_an_answer_with_200_is_a_page(status: int) -> None:
    """Whatever its body looks like."""
    assert not _is_left(_answer(_ENTRY))
    assert _is_left(_answer(_ENTRY), status=status)


_TEXT: Final = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"], include_characters="\t\n\r", exclude_characters="\ufffe\uffff"
    ),
    max_size=6,
)
_KEYS: Final = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" +%/&<>\"'\r"), max_size=8)
_TAGS: Final = st.sampled_from(["", "e", "e-2", '"e"', '""', 'W/"e"']) | _TEXT
_ZONES: Final = st.just(UTC) | st.builds(
    timezone, st.integers(-840, 840).map(lambda minutes: timedelta(minutes=minutes))
)
_BOUNDS: Final = (datetime(1970, 1, 2), datetime(2100, 1, 1))  # noqa: DTZ001 - of any zone
_TIMES: Final = st.datetimes(*_BOUNDS, timezones=_ZONES).flatmap(
    lambda when: st.sampled_from(
        [
            when.isoformat(),
            when.isoformat(timespec="milliseconds"),
            when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z",
            when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        ]
    )
)
_OTHERS: Final = (
    "<Owner><ID>1</ID><DisplayName>Key</DisplayName></Owner>",
    "<ChecksumAlgorithm>SHA256</ChecksumAlgorithm>",
    "<ChecksumType>COMPOSITE</ChecksumType>",
    "<RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress></RestoreStatus>",
    "<Key2>x</Key2>",
)


def _escaped(text: str) -> str:
    return escape(text, {"\r": "&#13;", '"': "&quot;"})


@st.composite
def _pages(draw: st.DrawFn) -> bytes:
    """Any answer that a server could give, in any order of its elements."""
    is_encoded = draw(st.booleans())
    blank = draw(st.sampled_from(["", "\n", "\r\n    "]))
    name = st.builds(lambda key, way: way(key), _KEYS, st.sampled_from([quote, quote_plus])) | _TEXT

    def entry() -> str:
        fields = [
            f"<Key>{_escaped(draw(name if is_encoded else _TEXT))}</Key>",
            f"<LastModified>{draw(_TIMES)}</LastModified>",
            f"<ETag>{_escaped(draw(_TAGS))}</ETag>",
            f"<Size>{draw(st.integers(0, 2**63))}</Size>",
            *draw(st.sampled_from([[], ["<StorageClass/>"], ["<StorageClass>GLACIER_IR</StorageClass>"]])),
            *draw(st.lists(st.sampled_from(_OTHERS), unique=True)),
        ]
        return f"<Contents>{blank}{blank.join(draw(st.permutations(fields)))}{blank}</Contents>"

    objects = [entry() for _ in range(draw(st.integers(1, 4)))] * draw(st.sampled_from([1, _AT_ONCE // 2]))
    outside = draw(
        st.permutations(
            [
                blank.join(objects),
                f"<Prefix>{_escaped(draw(_TEXT))}</Prefix>",
                f"<Name>{_escaped(draw(_TEXT))}</Name>",
                f"<IsTruncated>{draw(st.sampled_from(['true', 'false']))}</IsTruncated>",
                f"<NextContinuationToken>{_escaped(draw(_TEXT))}</NextContinuationToken>",
                "<EncodingType>url</EncodingType>" if is_encoded else "",
                "<CommonPrefixes><Prefix>p%2B</Prefix></CommonPrefixes>",
            ]
        )
    )
    start = draw(st.sampled_from(["", _DECLARATION]))
    inside = blank.join(outside)
    return (
        f"{start}<ListBucketResult{draw(st.sampled_from(['', _XMLNS]))}>{inside}</ListBucketResult>".encode()
    )


@given(_pages())
def test_any_page_is_read_as_botocore_reads_it(body: bytes) -> None:
    """Any keys, encoded or not, any times and ETags, whatever else an object has."""
    assert _quickly(body) == _botocore(body)


class _Watched(dict[str, Any]):
    """An answer that notes the length of each body that is asked for."""

    lengths: list[int]

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if name == "body":
            self.lengths.append(len(found))
        return found


def _emitted(body: bytes, *, status: int = 200) -> tuple[_Watched, Mapping[str, Any]]:
    """What a client of ours makes of an answer before botocore parses it, all handlers together."""
    answer = _Watched(status_code=status, headers={}, body=body)
    answer.lengths = []
    found: dict[str, Any] = {}

    async def scenario() -> None:
        async with s3_client(settings_for(bucket="listed", queue_url=None).s3) as client:
            await client.meta.events.emit(
                "before-parse.s3.ListObjectsV2",
                operation_model=_LIST,
                response_dict=answer,
                customized_response_dict=found,
            )

    asyncio.run(scenario())
    return answer, found


def test_a_client_reads_quickly_and_botocore_looks_for_errors_in_the_rest() -> None:
    """Of a long body that botocore's own handler parses in search of an error, nothing would be gained."""
    answer, found = _emitted(_answer(_ENTRY))
    assert [entry["Key"] for entry in found["Contents"]] == ["k"]
    assert answer["status_code"] == 200
    assert answer.lengths[0] == len(_answer(_ENTRY))
    assert answer.lengths[1:]
    assert max(answer.lengths[1:]) == len(_answer(""))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<Error><Code>InternalError</Code></Error>", id="an error"),
        pytest.param(_answer(_ENTRY)[:-5], id="cut in the rest"),
        pytest.param(_answer(_ENTRY * 9)[:-300], id="cut in an object"),
    ],
)
def test_an_error_with_status_200_is_one(body: bytes) -> None:
    """As before: botocore makes it a 500, and the call is repeated."""
    answer, found = _emitted(body)
    assert (answer["status_code"], found) == (500, {})


def _listed(client: Any, bucket: str) -> tuple[S3Object, ...]:
    async def scenario(inbox: Inbox) -> None:
        async with client as opened:
            lister = Lister(
                client=opened, bucket=Bucket(name=bucket), post=inbox.post, counters=inbox.counters
            )
            await lister.list(ListingKind.FULL, after=None)

    inbox = Inbox()
    asyncio.run(scenario(inbox))
    (page,) = inbox.of(ListingPage)
    return tuple(page.objects)


@pytest.mark.parts
def test_a_bucket_is_listed_as_by_botocore() -> None:
    """From LocalStack, with keys of every kind and more objects than are parsed at once."""
    bucket = aws.new_bucket()
    odd = [
        "a b",
        "a+b",
        "a%2Bb",
        "a=b&c",
        "é/ü",
        "\x01\x1f\x7f",
        "a\rb\nc",
        "<&>\"'",
        "\U0001f600",
        "d//e",
        "f/",
    ]
    keys = [*odd, *(f"{number:03}" for number in range(2 * _AT_ONCE + 5))]
    client = aws.s3()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=key.encode()), keys))
    found = _listed(s3_client(settings_for(bucket=bucket, queue_url=None).s3), bucket)
    assert found == _listed(aws.aio_client("s3"), bucket)
    assert [listed.id.key for listed in found] == sorted(keys, key=str.encode)
