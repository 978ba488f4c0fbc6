"""Quix Streams' file sink by its own names, written by Headrace: the same objects, exactly once.

    from headrace.quix import FileSink, JSONFormat, S3Destination

    sink = FileSink(directory="archive", format=JSONFormat(), destination=S3Destination("bucket"))
    sink.run(topics=["orders"], bootstrap_servers="broker:9092", name="archive")

docs/moving-from-quix.md says what is the same and what is better on purpose.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from headrace.connector import Connector, settings_of
from headrace.connector import run as run_connector
from headrace.frames import as_recorded
from headrace.model.errors import Exit, HeadraceError, InvalidConfiguration
from headrace.vendors.quix.names import prefix_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FileSink", "JSONFormat", "ParquetFormat", "S3Destination"]

FormatName = Literal["json", "parquet"]
ParquetCompression = Literal["none", "snappy", "gzip", "lz4", "zstd", "brotli"]

_NAME: Final = "{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}"
_COMPRESSIONS: Final = ("none", "snappy", "gzip", "lz4", "zstd", "brotli")
_NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})
# What boto3's client takes, and the option that it is here.
_CLIENT: Final = {
    "aws_session_token": "aws.session.token",
    "endpoint_url": "aws.s3.endpoint",
    "verify": "aws.ca.bundle",
}
# Settings want a broker and a topic where nobody is asked: for a look at the bucket, and for frames of Spark.
_NOBODY: Final = {
    "connector.class": "HeadraceSink",
    "name": "quix-file-sink",
    "bootstrap.servers": "localhost:9092",
}


@dataclass(frozen=True)
class JSONFormat:
    """Lines of JSON. Values are copied as they are in Kafka, so there is no `dumps`."""

    file_extension: str = ".jsonl"
    compress: bool = False
    dumps: Callable[[Any], bytes] | None = None

    def __post_init__(self) -> None:
        _check_extension(self.file_extension)
        if self.dumps is not None:
            raise InvalidConfiguration(
                "JSONFormat(dumps=..) is not called here, where values are copied as they are in Kafka; "
                "leave it out, and change values with transforms."
            )

    def options(self) -> dict[str, str]:
        """The same as Headrace's options."""
        packed = ".gz" if self.compress else ""
        return {
            "output.format": "json",
            "file.compression.type": "gzip" if self.compress else "none",
            "file.name.template": f"{_NAME}{self.file_extension}{packed}",
        }


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet, compressed inside."""

    file_extension: str = ".parquet"
    compression: ParquetCompression = "snappy"

    def __post_init__(self) -> None:
        _check_extension(self.file_extension)
        if self.compression not in _COMPRESSIONS:
            raise InvalidConfiguration(
                f"ParquetFormat(compression={self.compression!r}): expected {', '.join(_COMPRESSIONS)}."
            )

    def options(self) -> dict[str, str]:
        """The same as Headrace's options."""
        return {
            "output.format": "parquet",
            "file.compression.type": self.compression,
            "file.name.template": f"{_NAME}{self.file_extension}",
        }


class S3Destination:
    """A bucket, which is looked at once here: HeadraceError when it is not there, or may not be used.

    Without keys AWS's default chain gives credentials. Of boto3's own arguments `endpoint_url`,
    `aws_session_token` and `verify` (a file of certificates) mean something here.
    """

    def __init__(
        self,
        bucket: str,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        region_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        unknown = sorted(set(kwargs) - set(_CLIENT))
        if unknown:
            raise InvalidConfiguration(
                f"S3Destination({unknown[0]}=..) means nothing here; only {', '.join(sorted(_CLIENT))} do. "
                "All of Headrace's options may be given to FileSink.run as options={..}."
            )
        if not isinstance(kwargs.get("verify", ""), str):
            raise InvalidConfiguration(
                "S3Destination(verify=..) takes a file of certificates: they are always verified."
            )
        given = {
            "aws.s3.bucket.name": bucket,
            "aws.access.key.id": aws_access_key_id,
            "aws.secret.access.key": aws_secret_access_key,
            "aws.s3.region": region_name,
            **{_CLIENT[name]: value for name, value in kwargs.items()},
        }
        self._options = {name: value for name, value in given.items() if value is not None}
        _look_at_bucket(self._options)

    def __repr__(self) -> str:
        return f"S3Destination({self._options['aws.s3.bucket.name']!r})"

    def options(self) -> dict[str, str]:
        """The same as Headrace's options, secrets included."""
        return dict(self._options)


@dataclass(frozen=True)
class FileSink:
    """What Quix's sink of this name writes into S3: names, lines and columns."""

    directory: str = ""
    format: FormatName | JSONFormat | ParquetFormat = "json"
    destination: S3Destination | None = None
    _formed: JSONFormat | ParquetFormat = field(init=False, repr=False)
    _topics: set[str] = field(init=False, repr=False, compare=False, default_factory=set)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_formed", _format(self.format))
        if not isinstance(self.destination, S3Destination):
            raise InvalidConfiguration(
                "FileSink(destination=..) has to be a headrace.quix.S3Destination: Headrace writes to S3."
            )
        if not isinstance(self.directory, str):
            raise InvalidConfiguration("FileSink(directory=..) has to be text, such as 'archive/orders'.")

    def configuration(
        self,
        *,
        topics: str | Sequence[str],
        bootstrap_servers: str,
        name: str,
        options: Mapping[str, Any] = _NO_OPTIONS,
    ) -> dict[str, Any]:
        """The configuration that `run` runs, secrets included; `options` win over all others."""
        names: list[Any] = [topics] if isinstance(topics, str) else list(topics or ())
        if not names:
            raise InvalidConfiguration("FileSink.run(topics=..) is empty: name one topic or more.")
        others = [name for name in names if not isinstance(name, str)]
        if others:
            raise InvalidConfiguration(f"FileSink.run(topics=..) has {others[0]!r}: give names, as texts.")
        return {
            "connector.class": "HeadraceSink",
            "name": name,
            "bootstrap.servers": bootstrap_servers,
            "topics": ",".join(names),
            **self._output(),
            **options,
        }

    def run(
        self,
        topics: str | Sequence[str],
        bootstrap_servers: str,
        name: str,
        *,
        commit_interval: float = 5.0,
        commit_every: int = 0,
        options: Mapping[str, Any] = _NO_OPTIONS,
        until_idle: bool = False,
    ) -> Exit:
        """How it ended: archives the topics until SIGTERM or SIGINT, exactly once. See `headrace.run`.

        `commit_interval` (seconds; 0 or less: after each record, as there) and `commit_every` (records of a
        partition; 0: off) close objects.
        """
        rotation = rotation_of(commit_interval, commit_every)
        config = self.configuration(
            topics=topics, bootstrap_servers=bootstrap_servers, name=name, options={**rotation, **options}
        )
        return run_connector(config, until_idle=until_idle)

    def foreach_batch(self, frame: "DataFrame", batch_id: int) -> None:
        """Write a batch of Spark's Kafka source, for `foreachBatch`: see `Connector.foreach_batch`."""
        frame = as_recorded(frame)
        # Names have _ for each - of a topic: two that would meet are refused, with those of earlier batches.
        self._topics.update(row.topic for row in frame.select("topic").distinct().collect())
        config = {**_NOBODY, "topics": ",".join(sorted(self._topics)), **self._output()}
        if self._topics:
            Connector(config).foreach_batch(frame, batch_id)

    def _output(self) -> dict[str, str]:
        assert self.destination is not None, "it was looked at when this was made"
        prefix = prefix_of(self.directory)
        return {
            "output.layout": "quix",
            **({"aws.s3.prefix": prefix} if prefix else {}),
            **self._formed.options(),
            **self.destination.options(),
        }


def _format(given: Any) -> JSONFormat | ParquetFormat:
    match given:
        case JSONFormat() | ParquetFormat():
            return given
        case "json":
            return JSONFormat()
        case "parquet":
            return ParquetFormat()
    raise InvalidConfiguration(
        f"FileSink(format={given!r}): expected 'json', 'parquet', or a JSONFormat or ParquetFormat of "
        "headrace.quix."
    )


def rotation_of(interval: float, every: int) -> dict[str, int]:
    """`commit_interval` and `commit_every` as options; of 0 or less, an interval ends with each record."""
    try:
        milliseconds = round(interval * 1000)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidConfiguration(
            f"FileSink.run(commit_interval={interval!r}): expected seconds, such as 5.0; 0 closes an object "
            "after each record."
        ) from error
    if interval <= 0:
        return {"rotate.records": 1}
    # An age of 0 would be none.
    return {"rotate.age.ms": max(1, milliseconds), "rotate.records": every}


def _check_extension(text: Any) -> None:
    if not isinstance(text, str) or not text.startswith(".") or "/" in text or "{{" in text:
        raise InvalidConfiguration(
            f"file_extension={text!r}: expected the end of a name, such as '.jsonl', without a slash."
        )


def _look_at_bucket(options: Mapping[str, str]) -> None:
    settings = settings_of({**_NOBODY, "topics.regex": ".*", **options})
    from ingest.checks.probes.bucket_keys import aws_clients
    from listeners.discovery_events import translated_errors

    clients = aws_clients(settings)
    try:
        with translated_errors(f"the bucket {settings.s3.bucket}"):
            clients.s3.head_bucket(Bucket=settings.s3.bucket)
    except HeadraceError as error:
        raise type(error)(f"S3Destination({settings.s3.bucket!r}): {error}") from error
    finally:
        clients.close()
