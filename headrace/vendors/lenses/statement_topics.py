"""Which topics Lenses' statements are of: a record has that of the topic which transforms have given it."""

from collections.abc import Mapping
from typing import Final

from headrace.options.declarations.named_options import PREDICATE_ALIASES, TRANSFORM_ALIASES
from headrace.options.given import Problems, as_written
from headrace.options.sink_forms import topic_pattern
from headrace.options.topic_expressions import matches
from headrace.options.transforms.chain import TransformChain
from headrace.options.transforms.read_chain import reachable_topics, read_chain, routes_by_record
from headrace.options.value_types import FormError, listed
from headrace.options.vendor_translation import Translation
from headrace.vendors.lenses.kcql import Statement
from headrace.vendors.lenses.kcql.statements import EVERY_TOPIC

_KCQL: Final = "connect.s3.kcql"
_BY_KAFKAS_NAME: Final = (
    f"{_KCQL}: Lenses chooses a statement by the topic that transforms give, which is not known before a "
    f"record shows it: here it is chosen by the topic in Kafka. Keep one statement, of `{EVERY_TOPIC}`, "
    "where transforms rename topics that have one"
)


def translate_topics(given: Translation, statements: tuple[Statement, ...]) -> Mapping[str, list[str]]:
    """Write the topics that are archived; those of each statement that has any, as Kafka has them."""
    named = [each.topic for each in statements]
    for topic in sorted({each for each in named if named.count(each) > 1}):
        given.refuse(_KCQL, f"{topic} is in two statements; keep one of them")
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
        _translate_pattern(given, own, has_all=has_all)
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
            given.warn(
                f"{_KCQL}: transforms call {topic} {name}, which has no statement, so that Lenses' task "
                f"fails at its records; that of {topic} is taken: write FROM {name}"
            )
        elif not has_all:
            without.append(topic if topic == name else f"{topic} ({name} after transforms)")
    if without:
        given.refuse("topics", f"{', '.join(without)}: has no statement in {_KCQL}; add one, or one of `*`")
    strange = [topic for topic in own if topic not in found]
    if strange:
        renamed = [called[topic] for topic in strange if topic in called]
        where = "is no topic's name after transforms" if renamed else "is not among topics"
        fix = f"write FROM {renamed[0]} instead, or " if renamed else "add it there, or "
        given.refuse(_KCQL, f"{', '.join(strange)}: {where}; {fix}remove the statement")
    return found


def _translate_pattern(given: Translation, own: list[str], *, has_all: bool) -> None:
    try:
        pattern = topic_pattern(given.text("topics.regex"))
    except FormError as error:
        given.refuse("topics.regex", f"is no regular expression of Python's: {error}")
        return
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
