"""`aws.s3.bucket.name` with several buckets: what it means, and where one alone can be meant."""

import json

import pytest

from headrace.model.errors import FrameRefused
from headrace.options import SettingsError
from headrace.vendors.load import load
from spark.frames.frame_options import reading_settings
from tests.headrace.options.loading import load_with

TWO = {"aws.s3.bucket.name": "one-bucket, two-bucket"}


def _refused(given: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as refused:
        load(json.dumps(given), kind="json", environment={}, read_file=str)
    return str(refused.value)


def test_a_source_reads_each_bucket_of_the_list_alike() -> None:
    """In the order of the list, with blanks around the names."""
    settings = load_with({**TWO, "aws.s3.prefix": "in/"})
    assert settings.buckets == ("one-bucket", "two-bucket")
    places = settings.by_place()
    assert [(place.buckets, place.s3.prefix) for place in places] == [
        (("one-bucket",), "in/"),
        (("two-bucket",), "in/"),
    ]


def test_one_bucket_is_what_it_was() -> None:
    """No list, no more places."""
    settings = load_with({})
    assert settings.by_place() == (settings,)
    assert settings.buckets == (settings.s3.bucket,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param(
            {"aws.s3.bucket.name": "one-bucket,one-bucket"}, "; one-bucket is there twice", id="twice"
        ),
        pytest.param({"aws.s3.bucket.name": "one-bucket,,two-bucket"}, "the bare name of a bucket", id="gap"),
        pytest.param({"aws.s3.bucket.name": "one-bucket,s3://two"}, "the bare name of a bucket", id="a URL"),
        pytest.param(
            {**TWO, "input.layout": "aiven", "file.name.template": None},
            "names several buckets, and an archive (input.layout) is in one",
            id="an archive",
        ),
        pytest.param(
            {**TWO, "post.action": "move:s3://cold-bucket/done/"},
            "would bring objects of several buckets (aws.s3.bucket.name) to one place",
            id="moved to one bucket",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str | None], sentence: str) -> None:
    """In a sentence with what to do."""
    with pytest.raises(SettingsError) as refused:
        load_with(given)
    assert sentence in str(refused.value)


def test_a_sink_writes_to_one_bucket() -> None:
    """And so does each of its routes."""
    sink = {"name": "n", "bootstrap.servers": "b:1", "topics": "t,u", "connector.class": "HeadraceSink"}
    sentence = "names several buckets, and a sink writes to one; a route.NAME.* has another"
    assert sentence in _refused({**sink, **TWO})
    route = {"route.r.topics": "u", "route.r.aws.s3.bucket.name": "one-bucket,two-bucket"}
    assert sentence in _refused({**sink, "aws.s3.bucket.name": "one-bucket", **route})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            {
                "name": "n",
                "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
                "mode": "GENERIC",
                "s3.bucket.name": "one-bucket,two-bucket",
                "topic.regex.list": "t:.*",
                "format.class": "io.confluent.connect.cloud.storage.source.format.CloudStorageJsonFormat",
                "bootstrap.servers": "b:1",
            },
            id="Confluent",
        ),
        pytest.param(
            {
                "name": "n",
                "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
                "connect.s3.kcql": "INSERT INTO t SELECT * FROM `one-bucket,two-bucket`:in STOREAS `JSON`",
                "bootstrap.servers": "b:1",
            },
            id="Lenses",
        ),
    ],
)
def test_another_vendors_source_reads_one_bucket(given: dict[str, str]) -> None:
    """Its own configuration has no list."""
    assert "names several buckets, and this connector reads one; `headrace translate`" in _refused(given)


def test_a_query_of_spark_reads_one_bucket() -> None:
    """Two are two queries."""
    with pytest.raises(FrameRefused, match=r"a query reads one bucket. Give each a query of its own"):
        reading_settings({**TWO, "input.format": "jsonl"})
