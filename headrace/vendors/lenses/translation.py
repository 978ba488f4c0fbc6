"""Lenses' S3 sink (stream-reactor): its options and KCQL in ours.

A record has the statement of the topic that transforms have given it.
"""

from collections.abc import Mapping
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.declarations.option import PREDICATE_ALIASES, TRANSFORM_ALIASES
from headrace.options.given import Problems, as_written
from headrace.options.sink_forms import topic_pattern
from headrace.options.topic_expressions import matches
from headrace.options.transforms.chain import TransformChain
from headrace.options.transforms.read_chain import reachable_topics, read_chain, routes_by_record
from headrace.options.value_types import FormError, listed
from headrace.options.vendor import Fate, Vendor
from headrace.options.vendor_translation import Translation
from headrace.vendors.connect.options import translate_connect
from headrace.vendors.lenses.kcql import FieldSource, KcqlError, Statement, read_kcql
from headrace.vendors.lenses.kcql.statements import EVERY_TOPIC
from headrace.vendors.lenses.options import OPTIONS
from headrace.vendors.lenses.translated_statements import Side, StatementOptions, unwritten_codec

_KCQL: Final = "connect.s3.kcql"
_CODEC: Final = "connect.s3.compression.codec"
_LEVEL: Final = "connect.s3.compression.level"
_PADDING: Final = "connect.s3.padding.strategy"
_PADDING_LENGTH: Final = "connect.s3.padding.length"
_INDEXES: Final = "connect.s3.indexes.name"
_EXACTLY_ONCE: Final = "connect.s3.exactly.once.enable"
_MODE: Final = "connect.s3.aws.auth.mode"
_OLDER_MODE: Final = "aws.auth.mode"
_KEYS: Final = {
    "connect.s3.aws.access.key": ("aws.access.key", "aws.access.key.id"),
    "connect.s3.aws.secret.key": ("aws.secret.key", "aws.secret.access.key"),
}
_CONNECTION: Final = (
    ("aws.region", "connect.s3.aws.region", "aws.s3.region"),
    ("aws.custom.endpoint", "connect.s3.custom.endpoint", "aws.s3.endpoint"),
)
_CODECS: Final = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ0", "LZ4", "BROTLI", "BZIP2", "ZSTD", "DEFLATE", "XZ")
_NEED_LEVELS: Final = frozenset({"DEFLATE", "XZ", "ZSTD"})
_HAVE_LEVELS: Final = frozenset({"DEFLATE", "XZ", "ZSTD", "GZIP", "BZIP2"})
_POOL: Final = 8
_CALLS: Final = (
    ("connect.s3.http.max.retries", "aws.s3.backoff.max.retries", "5"),
    ("connect.s3.http.retry.interval", "aws.s3.backoff.delay.ms", "50"),
)
_PATH_STYLE: Final = ("connect.s3.path.style.access", "connect.s3.vhost.bucket", "aws.vhost.bucket")


def translate(given: Translation) -> None:
    """Write the whole configuration in our options."""
    given.own("output.layout", "lenses")
    translate_connect(given)
    _translate_storage(given)
    _translate_errors(given)
    _translate_schemas(given)
    _translate_statements(given)
    _translate_indexes(given)
    for own, value in _ALWAYS.items():
        given.own(own, value)
    given.warn(
        "no index objects are written (.indexes/ of Lenses' sink): the ledger topic keeps what is archived; "
        "those that are there say where this sink begins, and can be deleted when there is no way back to it"
    )


_ALWAYS: Final = {
    "rotate.age.from": "closed",
    "rotate.together": "first",
    "open.object.max.age.ms": "0",
    "file.name.values": "lenses",
    "file.name.missing": "[missing]",
    "file.name.null.keys": "fail",
}


def _translate_storage(given: Translation) -> None:
    translate_connection(given)
    given.rename("connect.s3.local.tmp.directory", "buffer.dir")
    connections = given.integer("connect.s3.pool.max.connections", -1, low=-1, high=256)
    given.own(
        "aws.s3.max.connections",
        connections if connections > 0 else _POOL,
        by="connect.s3.pool.max.connections",
    )


def translate_connection(given: Translation) -> None:
    """Write where S3 is, with whose keys it is called, and how often a call is repeated."""
    for older, newer, own in _CONNECTION:
        given.rename(older, own)
        given.rename(newer, own)
        given.older(older, newer)
    for theirs, own, default in _CALLS:
        given.own(own, given.text(theirs, default), by=theirs)
    _translate_keys(given)
    _translate_addresses(given)


def _translate_keys(given: Translation) -> None:
    """Write the keys, where the mode is theirs; both have names of older versions."""
    modes = {"Default": False, "Credentials": True}
    older = given.choice(_OLDER_MODE, modes, default=False)
    if given.choice(_MODE, modes, default=older):
        for theirs, (before, own) in _KEYS.items():
            if not given.is_given(theirs) and not given.is_given(before):
                given.refuse(theirs, f"is missing; {_MODE}=Credentials needs it")
            given.rename(before, own)
            given.rename(theirs, own)
            given.older(before, theirs)
    else:
        names = (*_KEYS, *(before for before, _ in _KEYS.values()))
        ignored = [theirs for theirs in names if given.is_given(theirs)]
        for theirs in ignored:
            given.note(theirs, Fate.NEEDLESS, f"ignored without {_MODE}=Credentials, as by Lenses")
        if ignored:
            given.warn(f"without {_MODE}=Credentials these are ignored: {', '.join(ignored)}")


def _translate_addresses(given: Translation) -> None:
    """Write where the bucket is in addresses; `vhost.bucket` says path style, whatever its name says."""
    named = [name for name in _PATH_STYLE if given.is_given(name)]
    styles = {given.flag(name, default=False) for name in named}
    if len(styles) > 1:
        given.refuse(named[0], f"says otherwise than {named[1]}; keep one of them")
    elif named:
        given.own("aws.s3.path.style.access", styles.pop(), by=named[0])


def check_error_policy(given: Translation) -> None:
    """Refuse the one policy that loses records."""
    policy = given.choice(
        "connect.s3.error.policy", {"THROW": "THROW", "RETRY": "RETRY", "NOOP": "NOOP"}, "THROW"
    )
    if policy == "NOOP":
        given.refuse(
            "connect.s3.error.policy",
            "loses records; set errors.tolerance=all (and errors.deadletterqueue.topic.name) to continue at "
            "bad records, and leave it out",
        )


def _translate_errors(given: Translation) -> None:
    check_error_policy(given)
    ignores = given.flag("connect.s3.skip.null.values", default=False)
    given.own("behavior.on.null.values", "ignore" if ignores else "write", by="connect.s3.skip.null.values")


def _translate_schemas(given: Translation) -> None:
    detector = "connect.s3.schema.change.detector"
    compatibility = given.choice(
        detector, {"default": "none", "version": "backward", "compatibility": "forward"}, "none"
    )
    latest = "connect.s3.latest.schema.optimization.enabled"
    if given.flag(latest, default=False):
        if compatibility == "forward":
            given.refuse(latest, f"and {detector}=compatibility cannot both be; keep one of them")
        compatibility, detector = "backward", latest
    given.own("schema.compatibility", compatibility, by=detector)
    rollover = "connect.s3.schema.change.rollover"
    if not given.flag(rollover, default=True):
        given.refuse(
            rollover, "a record of another schema could not be written into the same object; remove it"
        )


def _translate_indexes(given: Translation) -> None:
    keeps = given.flag(_EXACTLY_ONCE, default=True)
    indexes = given.text(_INDEXES, ".indexes")
    given.own("takeover.indexes", indexes if keeps else "none", by=_INDEXES if keeps else _EXACTLY_ONCE)


# -- statements ----------------------------------------------------------------------------------------------


def _translate_statements(given: Translation) -> None:
    source = given.text(_KCQL)
    if not source:
        given.refuse(_KCQL, "is missing; expected INSERT INTO bucket:prefix SELECT * FROM topic ..")
        return
    try:
        statements = read_kcql(source)
    except KcqlError as error:
        given.refuse(_KCQL, given.marked(_KCQL, error))
        # One problem is enough: what a statement would have said is not missing besides.
        given.own("aws.s3.bucket.name", "unread", by=_KCQL)
        given.rename("topics", "topics")
        given.rename("topics.regex", "topics.regex")
        return
    first = next((each for each in statements if each.topic == EVERY_TOPIC), statements[0])
    others = [each for each in statements if each is not first]
    topics = translate_topics(given, statements)
    codec, padding = _codec(given, statements), _padding(given)
    read = {
        id(each): StatementOptions(
            each, source, lambda error: given.refuse(_KCQL, given.marked(_KCQL, error))
        )
        for each in statements
    }
    base = read[id(first)].own(padding, codec)
    for own, value in base.items():
        given.own(own, value, by=_KCQL)
    for number, each in enumerate(others, 1):
        options = read[id(each)].own(padding, codec)
        if each.topic not in topics:
            continue  # Said already: a route's own problem would name the topic, which a reference may hold.
        route = f"route.kcql{number}."
        given.own(f"{route}topics", ",".join(topics[each.topic]), by=_KCQL)
        for own, value in options.items():
            if value != base.get(own):
                given.own(f"{route}{own}", value, by=_KCQL)
    _warn_of_idle(given, [read[id(each)] for each in statements])
    pads_right = (padding is not None and padding[0] is Side.RIGHT) or any(
        each.pads_on_the_right for each in read.values()
    )
    if pads_right:
        given.own("file.name.unique", "assumed", by=_KCQL)
    _warn_of_statements(given, statements)


def _codec(given: Translation, statements: tuple[Statement, ...]) -> str:
    codec = given.choice(_CODEC, {name: name for name in _CODECS}, "UNCOMPRESSED")
    for problem in filter(None, (unwritten_codec(each, codec) for each in statements)):
        given.refuse(_CODEC, problem)
        return "UNCOMPRESSED"
    level = given.integer(_LEVEL, -1, low=-1, high=22)
    has_avro = any(each.store_as == "AVRO" for each in statements)
    if level < 0 and codec in _NEED_LEVELS and has_avro:
        given.refuse(_LEVEL, f"is missing; Lenses needs one for {codec} in AVRO")
    elif level >= 0 and codec in _HAVE_LEVELS:
        given.own("file.compression.level", level, by=_LEVEL)
    elif level >= 0:
        given.note(_LEVEL, Fate.NEEDLESS, f"{codec} has no levels")
    return codec


def _padding(given: Translation) -> tuple[Side, int] | None:
    sides = {"LeftPad": Side.LEFT, "RightPad": Side.RIGHT, "NoOp": Side.NONE}
    side = given.choice(_PADDING, sides, None)
    length = given.integer(_PADDING_LENGTH, 12, low=-1, high=100)
    if side is None:
        if given.is_given(_PADDING_LENGTH):
            given.note(_PADDING_LENGTH, Fate.NEEDLESS, f"means nothing without {_PADDING}, as for Lenses")
        return None
    return side, 12 if length < 0 else length


def _warn_of_idle(given: Translation, statements: list[StatementOptions]) -> None:
    idle = {name: without for each in statements for name, without in each.idle.items()}
    if idle:
        found = ", ".join(f"'{name}' without {without}" for name, without in sorted(idle.items()))
        given.warn(f"{_KCQL} has properties that decide nothing, as in Lenses: {found}")


def _warn_of_statements(given: Translation, statements: tuple[Statement, ...]) -> None:
    if any(each.limit is not None for each in statements):
        given.warn("LIMIT means nothing for a sink; it is ignored, as by Lenses")
    fields = [field for each in statements for field in each.partition_by]
    if any(field.source is FieldSource.HEADER and len(field.path) > 1 for field in fields):
        given.refuse(_KCQL, "_header takes a header's name; put one with dots between backticks")
    if any(field.source is FieldSource.DATE for field in fields):
        given.own("file.name.timestamp.source", "event")
        given.warn(
            "_date in PARTITIONBY is in UTC; set file.name.timestamp.timezone where Connect's worker has "
            "another zone"
        )


CLASS: Final = "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector"
LENSES: Final = Vendor(
    name="Lenses' S3 sink",
    layout=LayoutName.LENSES,
    classes=(CLASS,),
    options=OPTIONS,
    translate=translate,
)


_BY_KAFKAS_NAME: Final = (
    f"{_KCQL}: Lenses chooses a statement by the topic that transforms give, which is not known before a "
    f"record shows it: here it is chosen by the topic in Kafka. Keep one statement, of `{EVERY_TOPIC}`, "
    "where transforms rename topics that have one"
)


def translate_topics(given: Translation, statements: tuple[Statement, ...]) -> Mapping[str, list[str]]:
    """Write the topics that are archived; those of each statement that has any, as Kafka has them."""
    named = [each.topic for each in statements]
    for topic in sorted({each for each in named if named.count(each) > 1}):
        given.refuse(_KCQL, f"{given.quoted(_KCQL, topic)} is in two statements; keep one of them")
    own = [topic for topic in dict.fromkeys(named) if topic != EVERY_TOPIC]
    has_all = EVERY_TOPIC in named
    found: dict[str, list[str]] = {}
    chain = _chain(given)
    if given.is_given("topics"):
        topics = listed(given.text("topics"))
        found = _named(given, _called(given, chain, topics, own), own, has_all=has_all)
        given.rename("topics", "topics")
    if given.is_given("topics.regex"):
        if own and chain.routes:
            given.warn(_BY_KAFKAS_NAME)
        found |= _matching(given, own, has_all=has_all)
    return found


def _chain(given: Translation) -> TransformChain:
    """The transforms; what is wrong with them is reported where all options are read."""
    texts = {
        name: text
        for option in (TRANSFORM_ALIASES, PREDICATE_ALIASES)
        for name, text in given.own_family(option.name).items()
    }
    entries = {name: as_written(name, text) for name, text in texts.items()}
    return read_chain(entries, Problems(), is_sink=True)


def _called(
    given: Translation, chain: TransformChain, topics: tuple[str, ...], own: list[str]
) -> dict[str, str]:
    """What transforms call each topic; its own name, and a warning, where only a record shows it."""
    if not chain.routes:
        return {topic: topic for topic in topics}
    reached = {topic: reachable_topics(chain, topic) for topic in topics}
    if not routes_by_record(chain) and all(len(each) == 1 for each in reached.values()):
        return {topic: next(iter(each)) for topic, each in reached.items()}
    if own:
        given.warn(_BY_KAFKAS_NAME)
    return {topic: topic for topic in topics}


def _named(
    given: Translation, called: Mapping[str, str], own: list[str], *, has_all: bool
) -> dict[str, list[str]]:
    """The topics of each statement of one; problems of topics without one, and of those without topics."""
    found: dict[str, list[str]] = {}
    without = []
    for topic, name in called.items():
        if name in own:
            found.setdefault(name, []).append(topic)
        elif not has_all and topic in own:
            found.setdefault(topic, []).append(topic)
            shown, meant = given.quoted("topics", topic), given.quoted("topics", name)
            given.warn(
                f"{_KCQL}: transforms call {shown} {meant}, which has no statement, so that Lenses' task "
                f"fails at its records; that of {shown} is taken: write FROM {meant}"
            )
        elif not has_all:
            without.append(topic if topic == name else f"{topic} ({name} after transforms)")
    if without:
        shown = given.quoted("topics", ", ".join(without))
        given.refuse("topics", f"{shown}: has no statement in {_KCQL}; add one, or one of `*`")
    strange = [topic for topic in own if topic not in found]
    if strange:
        shown = given.quoted(_KCQL, ", ".join(strange))
        renamed = [given.quoted("topics", called[topic]) for topic in strange if topic in called]
        where = "is no topic's name after transforms" if renamed else "is not among topics"
        fix = f"write FROM {renamed[0]} instead, or " if renamed else "add it there, or "
        given.refuse(_KCQL, f"{shown}: {where}; {fix}remove the statement")
    return found


def _matching(given: Translation, own: list[str], *, has_all: bool) -> dict[str, list[str]]:
    """Write `topics.regex`; the topics of each statement of one that it matches."""
    try:
        pattern = topic_pattern(given.text("topics.regex"))
    except FormError as error:
        given.refuse("topics.regex", f"is no regular expression of Python's: {error}")
        return {}
    matching = [topic for topic in own if matches(pattern, topic)]
    if has_all:
        given.rename("topics.regex", "topics.regex")
    elif matching:
        given.own("topics", ",".join(matching), by="topics.regex")
        given.warn(
            "topics.regex: only topics with a statement are archived; Lenses' task fails at a topic that "
            "matches without one"
        )
    else:
        given.refuse("topics.regex", f"matches no topic of a statement in {_KCQL}; add a statement of `*`")
    strange = [topic for topic in own if topic not in matching]
    if strange and (matching or has_all):
        shown = given.quoted(_KCQL, ", ".join(strange))
        given.refuse(_KCQL, f"{shown}: is matched by no topics.regex; change that, or remove the statement")
    return {topic: [topic] for topic in matching}
