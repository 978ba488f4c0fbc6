"""`headrace explain`: what the configuration makes of a key, without contacting anything."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Final

import typer

from headrace.model.errors import InvalidConfiguration
from headrace.model.objects import moved_below
from headrace.model.text_formatting import printable
from headrace.names import Explanation
from headrace.names.archive_names import any_of, is_bookkeeping, is_topic_name
from headrace.options import Settings
from headrace.options.choices import RestorePartition
from headrace.options.transforms import TransformChain
from headrace.options.transforms.read_chain import known_topics
from headrace.vendors.key_names import ArchiveNames, left_out_because, name_in
from ingest.cli.cli_options import AsJson, AskedFormat, AskedLevel, Config, Report, Sets, WorkerConfig, log_as
from ingest.cli.configuration import read_apart, read_settings

Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY...]",
        help="Object keys, prefix included; for a sink records as JSON. `-` reads them from stdin.",
    ),
]
TopicOption = Annotated[
    str | None, typer.Option("--topic", help="For a sink: a record of this topic, read from Kafka.")
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", min=0, help="With --topic: its partition, 0 without this.")
]
OffsetOption = Annotated[
    int | None, typer.Option("--offset", min=0, help="With --topic: its offset, 0 without this.")
]


# Who decides the partition in place of the archive's.
_DECIDES: Final = {
    RestorePartition.MODULO: "restore.partition=modulo: the number of the topic's partitions decides",
    RestorePartition.PARTITIONER: "restore.partition=partitioner: the key of each record decides",
}


def explain(
    config: Config,
    keys: Keys = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    *,
    log_level: AskedLevel = None,
    log_format: AskedFormat = None,
) -> None:
    """Say what becomes of each key: match, topic, partition, start offset, or why not. Contacts nothing.

    For a sink: the key of the object that a record would be in. The record is given as JSON, as the headrace
    layout writes it, or is read from Kafka with --topic, --partition and --offset.
    """
    log_as(log_level, log_format, by_default=topic is not None)
    if str(config) == "-" and "-" in (keys or ()):
        raise InvalidConfiguration(
            "Standard input is the configuration: name its file, or give keys as words."
        )
    if topic is None and (partition is not None or offset is not None):
        raise InvalidConfiguration("--partition and --offset choose a record of --topic: give that, too.")
    if topic is not None and not is_topic_name(topic):
        raise InvalidConfiguration(f"--topic {topic!r}: Kafka has no topic of such a name.")
    read = read_apart if topic is None else read_settings
    settings = read(config, sets=sets or (), worker_config=worker_config)
    if not keys and topic is None:
        raise InvalidConfiguration("Nothing to explain: give a key (of a sink a record, or --topic).")
    if settings.sink is not None:
        # Converters take a second to import, and a source has no use for them.
        from ingest.cli.sink_explain import sink_explain

        place = None if topic is None else (topic, partition or 0, offset or 0)
        sink_explain(settings, _keys(keys or []), place, as_json=as_json)
        return
    if topic is not None:
        raise InvalidConfiguration("--topic is for a sink; a source is given keys.")
    read_key = _reader(settings)
    for key in _keys(keys or []):
        explanation = explained(read_key, settings, key)
        Report(explanation.as_dict(), [as_text(explanation)]).show(as_json=as_json)


def _reader(settings: Settings) -> Callable[[str], Explanation]:
    restore = settings.format.restore
    if restore is None:
        return settings.key_template().explain
    names = ArchiveNames(restore.layout, restore.names, restore.template)
    topics = dict(restore.topic_map)

    def read(key: str) -> Explanation:
        found = names.read(key)
        name = name_in(found)
        if name is None:
            return Explanation(key=key, matched=False, reason=found.reason)
        if why := left_out_because(name, settings.joining):
            return Explanation(key=key, matched=False, reason=why)
        reasons = [found.reason, *(doubt.why for doubt in name.inexact)]
        decides = _DECIDES.get(restore.partition)
        if decides is not None and name.partition is not None:
            reasons.append(f"{decides}, not partition {name.partition} of the archive")
        return Explanation(
            key=key,
            matched=True,
            topic=None if name.topic is None else topics.get(name.topic, name.topic),
            partition=name.partition if decides is None else None,
            start_offset=name.start_offset,
            reason="; ".join(reasons),
        )

    return read


def explained(read: Callable[[str], Explanation], settings: Settings, key: str) -> Explanation:
    """What template or layout say of a key; prefix, `topic` and transforms are applied as `run` does."""
    if not key.startswith(settings.s3.prefix):
        reason = f"the key does not begin with aws.s3.prefix {settings.s3.prefix!r}, so it is never listed"
        return Explanation(key=key, matched=False, reason=reason)
    if why := _left_out(settings, key):
        return Explanation(key=key, matched=False, reason=why)
    explanation = read(key)
    if not explanation.matched:
        return explanation
    topic = settings.routing.topic or explanation.topic
    if topic is None:
        return Explanation(key=key, matched=False, reason="the key names no topic; set topic")
    return _doubted(_routed(settings.transforms, replace(explanation, topic=topic)), settings)


def _doubted(explanation: Explanation, settings: Settings) -> Explanation:
    """The explanation, with why no record comes to its topic where that is so of any cluster."""
    topic = explanation.topic
    if topic is None:
        return explanation
    if not is_topic_name(topic):
        return _with_reason(explanation, f"Kafka takes no topic of the name {topic!r}, so none is written")
    if topic == settings.kafka.ledger_topic:
        return _with_reason(explanation, f"{topic} is the ledger, into which no record is written")
    return explanation


def _with_reason(explanation: Explanation, why: str) -> Explanation:
    return replace(explanation, reason="; ".join(each for each in (explanation.reason, why) if each))


def _routed(transforms: TransformChain, explanation: Explanation) -> Explanation:
    """The explanation with the topic that records come to; without one, and with why, where they differ."""
    topic = explanation.topic
    if topic is None or not transforms.routes:
        return explanation
    found = sorted(known_topics(transforms, topic))
    if len(found) == 1:
        return replace(explanation, topic=found[0])
    why = f"transforms name the topic from {topic}, and it is known only with a record"
    if found:
        why = f"transforms send each record to one of {', '.join(found)}"
    return _with_reason(replace(explanation, topic=None), why)


def _left_out(settings: Settings, key: str) -> str | None:
    """Why `run` passes over the key, whatever template or layout make of it."""
    if key.endswith("/"):
        return "a key that ends in / is a folder, and is skipped"
    if is_bookkeeping(key):
        return "other tools keep their own files under such keys, which are skipped"
    target = moved_below(settings.post_action)
    if target is not None and key.startswith(target):
        return "post.action=move brings objects there once they were read, so they are left out"
    include, exclude = any_of(settings.discovery.include), any_of(settings.discovery.exclude)
    if include is not None and not include(key):
        return "object.include leaves it out"
    if exclude is not None and exclude(key):
        return "object.exclude leaves it out"
    return None


def as_text(explanation: Explanation) -> str:
    """One line for people."""
    key = printable(explanation.key)
    if not explanation.matched:
        return f"{key}: no match: {printable(explanation.reason or '')}"
    fields = {
        "topic": explanation.topic,
        "partition": explanation.partition,
        "start offset": explanation.start_offset,
        "timestamp": explanation.timestamp,
    }
    said = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
    remark = f" ({printable(explanation.reason)})" if explanation.reason else ""
    return f"{key}: {said or 'matches, and says nothing else'}{remark}"


def _keys(given: list[str]) -> Iterator[str]:
    for key in given:
        if key == "-":
            # What is no UTF-8 is no key of S3; it is shown as such rather than ending the command.
            for line in sys.stdin.buffer:
                if text := line.rstrip(b"\r\n"):
                    yield text.decode(errors="surrogateescape")
        else:
            yield key
