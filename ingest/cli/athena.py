"""`headrace athena`: the external table over what a sink writes."""

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.kafka.data_topics import Survey
from headrace.model.columns import KafkaRecords
from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings
from ingest.checks.athena import Table, crawler_input, ddl, file_form, partitions_of, table_input
from ingest.checks.probes.sample_object import no_records, read_newest, registered_records, sample_object
from ingest.checks.probes.sink_topics import survey_topics
from ingest.cli.cli_options import AskedFormat, AskedLevel, Config, Sets, WorkerConfig, log_as
from ingest.cli.configuration import read_apart, read_settings
from ingest.cli.sink_explain import sample_record


class Glue(StrEnum):
    """What is made in Glue's catalogue."""

    TABLE = "table"
    CRAWLER = "crawler"


Topic = Annotated[str | None, typer.Option(help="One of the sink's topics; all of them unless given.")]
Database = Annotated[str, typer.Option(help="The database of the table.")]
Name = Annotated[str | None, typer.Option("--table", help="The table's name; the topic's unless given.")]
Records = Annotated[
    list[str] | None,
    typer.Option(
        "--record",
        metavar="JSON",
        help="A record as `explain` takes it, to derive columns from; nothing is contacted. May be repeated.",
    ),
]
Repair = Annotated[
    bool, typer.Option("--repair", help="Partitions for MSCK REPAIR TABLE instead of projection.")
]
InGlue = Annotated[
    Glue | None, typer.Option("--glue", help="JSON for `aws glue create-table` or `create-crawler`.")
]
Role = Annotated[str | None, typer.Option(help="The role of the crawler, by its name or ARN.")]


def athena(  # noqa: PLR0917  # typer's parameters
    config: Config,
    topic: Topic = None,
    database: Database = "default",
    table: Name = None,
    record: Records = None,
    repair: Repair = False,
    glue: InGlue = None,
    role: Role = None,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    *,
    log_level: AskedLevel = None,
    log_format: AskedFormat = None,
) -> None:
    """Print the DDL of Athena's external table over what a sink writes, one for each topic.

    Columns are those of the objects that the newest records of a topic make, or, where it has none, of its
    newest schema in the registry. Partitions are worked out from the name template.
    """
    log_as(log_level, log_format, by_default=True)
    read = read_apart if record else read_settings
    settings = read(config, sets=sets or (), worker_config=worker_config)
    if settings.sink is None:
        raise InvalidConfiguration(f"{settings.name!r} is a source: a sink writes what Athena could read.")
    if glue is Glue.CRAWLER and role is None:
        raise InvalidConfiguration("--glue crawler needs --role: that by which the crawler reads the bucket.")
    if glue is not Glue.CRAWLER and role is not None:
        raise InvalidConfiguration("--role is of --glue crawler, which is not asked for: leave it out.")
    topics = _topics(settings, topic, record or ())
    if table is not None and len(topics) > 1:
        raise InvalidConfiguration("--table names one table, and there are several topics: add --topic.")
    for name, (records, partitions) in topics.items():
        made = table_of(
            settings,
            name,
            records,
            database=database,
            table=table or table_name(name),
            partition_count=partitions,
            is_repaired=repair,
        )
        _print(made, glue, role)


def table_of(
    settings: Settings,
    topic: str,
    records: Sequence[KafkaRecords],
    *,
    database: str,
    table: str,
    partition_count: int | None = None,
    is_repaired: bool = False,
) -> Table:
    """The table over a topic's objects; NotQueryable where Athena cannot read them."""
    own = settings.for_topic(topic)
    assert own.sink is not None, "a source writes no objects"
    form = file_form(own.sink.output, sample_object(own, records))
    # Directories of a field have its name, by which MSCK REPAIR finds them: they are the column then.
    are_columns = is_repaired and form.finds_by_name
    partitions = partitions_of(
        own.sink.names,
        bucket=own.s3.bucket,
        topic=topic,
        has_other_topics=own.sink.topics.pattern is not None or _shares(settings, topic),
        partition_count=partition_count,
        taken=() if are_columns else [column.name for column in form.columns],
        in_directories=is_repaired,
    )
    if are_columns:
        form = form.without([column.name for column in partitions.columns])
    return Table(database=database, name=table, form=form, partitions=partitions, is_repaired=is_repaired)


def table_name(topic: str) -> str:
    """The name that a table has unless it is given."""
    return re.sub(r"[^a-z0-9_]+", "_", topic.lower())


def _shares(settings: Settings, topic: str) -> bool:
    """Whether topics next to this one go to the same place."""
    assert settings.sink is not None, "a source writes no objects"
    route = settings.sink.route(topic)
    names = settings.sink.topics.names if route is None else route.topics
    return any(other != topic and settings.sink.route(other) is route for other in names)


def _topics(
    settings: Settings, topic: str | None, texts: Sequence[str]
) -> dict[str, tuple[list[KafkaRecords], int | None]]:
    """The sample of each topic, and how many partitions it has."""
    assert settings.sink is not None, "a source reads no topics"
    if topic is not None and not settings.sink.topics.has(topic):
        raise InvalidConfiguration(f"--topic {topic} is not one of the sink's topics.")
    if texts:
        found: dict[str, tuple[list[KafkaRecords], int | None]] = {}
        for text in texts:
            each = sample_record(settings, text)
            if topic is None or each.topic == topic:
                found.setdefault(each.topic, ([], None))[0].append(each)
        return found
    survey: Survey = survey_topics(settings)
    wanted = [topic] if topic is not None else sorted({part.topic for part in survey.partitions})
    if not wanted:
        raise InvalidConfiguration("None of the sink's topics is there: create one, or give --record.")
    counts = {name: sum(part.topic == name for part in survey.partitions) for name in wanted}
    return {name: (_sample(settings, name, count), count) for name, count in counts.items()}


def _sample(settings: Settings, topic: str, partitions: int) -> list[KafkaRecords]:
    found = read_newest(settings, topic, partitions) or registered_records(settings, topic)
    if not found:
        raise no_records(topic)
    return found


def _print(table: Table, glue: Glue | None, role: str | None) -> None:
    shown: Any
    match glue:
        case Glue.TABLE:
            shown = json.dumps(table_input(table), indent=2)
        case Glue.CRAWLER:
            shown = json.dumps(crawler_input(table, role=role or ""), indent=2)
        case None:
            notes = [f"-- {note}" for note in table.notes()]
            shown = "\n".join([*notes, *(f"{statement};" for statement in ddl(table))])
    typer.echo(shown)
