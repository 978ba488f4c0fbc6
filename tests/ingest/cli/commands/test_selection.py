import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.kafka.cache_files import CacheDirectory, collect_rows
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidConfiguration
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State, encode_entry, encode_key
from headrace.model.objects import ObjectId, S3Object
from ingest.cli.cli_options import states_of
from ingest.cli.object_command import (
    CommandRequest,
    SelectedObject,
    chosen_buckets,
    lines_of,
    moment_ms,
    objects_to_replay,
    shape_of,
    without_left_out,
)
from ingest.cli.replay_and_mark import replay
from ingest.source.catalogue import Selection
from ingest.source.object_selection import unfinished_left_out
from tests.headrace.options.loading import load_with

OLD_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
NEW_MS = 1_800_000_000_000


def _id(key: str) -> ObjectId:
    return ObjectId("bucket", key, "e")


SPLIT = _id("split")
ENTRIES: dict[LedgerKey, LedgerEntry] = {
    _id("in/bad"): LedgerEntry(state=State.QUARANTINED, records=3, last_modified_ms=OLD_MS),
    _id("in/done"): LedgerEntry(state=State.DONE, records=10, bad=990, last_modified_ms=NEW_MS),
    _id("in/new"): LedgerEntry(state=State.NEW, last_modified_ms=NEW_MS),
    _id("out/done"): LedgerEntry(state=State.DONE, records=10, last_modified_ms=NEW_MS),
    _id("out/failed"): LedgerEntry(state=State.FAILED, last_modified_ms=NEW_MS),
    _id("out/skipped"): LedgerEntry(state=State.SKIPPED, reason="missing", last_modified_ms=NEW_MS),
    SPLIT: LedgerEntry(state=State.PARTIAL, cuts=(0, 5, 9), last_modified_ms=NEW_MS),
    SplitKey(SPLIT, 0, 5): LedgerEntry(state=State.DONE, records=4, bad=2),
    SplitKey(SPLIT, 5, 9): LedgerEntry(state=State.PARTIAL, records=1, bad=1),
    ObjectId("other", "in/bad", "e"): LedgerEntry(state=State.QUARANTINED, last_modified_ms=OLD_MS),
}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[LedgerCache]:
    """A ledger's cache with the entries above."""
    home = CacheDirectory(path=tmp_path / "cache", is_shared=False)
    with LedgerCache(home, LedgerIdentity(cluster_id="c", topic="t", topic_id="i")) as made:
        records = [(encode_key(key), encode_entry(entry)) for key, entry in ENTRIES.items()]
        made.apply(collect_rows(records), len(records))
        yield made


def _keys(cache: LedgerCache, selection: Selection, *, from_start: bool) -> list[str]:
    found = objects_to_replay(cache, ["bucket"], selection, from_start=from_start)
    return sorted(one.object.id.key for one in found)


@pytest.mark.parametrize(
    ("selection", "keys"),
    [
        pytest.param(Selection(), ["in/bad", "out/failed"], id="nothing said: what waits for a person"),
        pytest.param(Selection(prefix="in/"), ["in/bad"], id="prefix"),
        pytest.param(Selection(key="in/done"), [], id="done is never repeated by itself"),
        pytest.param(Selection(states=frozenset({State.SKIPPED})), ["out/skipped"], id="skipped if named"),
        pytest.param(Selection(states=frozenset({State.PARTIAL})), [], id="partial goes on anyway"),
        pytest.param(Selection(states=frozenset({State.NEW})), [], id="asked for already"),
    ],
)
def test_a_replay_from_where_it_stopped(cache: LedgerCache, selection: Selection, keys: list[str]) -> None:
    """Only what goes on without repeating anything, and would not go on by itself."""
    assert _keys(cache, selection, from_start=False) == keys


@pytest.mark.parametrize(
    ("selection", "keys"),
    [
        pytest.param(Selection(key="in/done"), ["in/done"], id="key"),
        pytest.param(Selection(prefix="in/"), ["in/bad", "in/done"], id="prefix, without what is new"),
        pytest.param(Selection(prefix="out/d"), ["out/done"], id="prefix inside a name"),
        pytest.param(Selection(states=frozenset({State.DONE})), ["in/done", "out/done"], id="state"),
        pytest.param(Selection(until_ms=OLD_MS), ["in/bad"], id="until, inclusive"),
        pytest.param(Selection(until_ms=OLD_MS - 1), [], id="until a millisecond before"),
        pytest.param(
            Selection(since_ms=NEW_MS, states=frozenset({State.DONE, State.QUARANTINED})),
            ["in/done", "out/done"],
            id="since and states",
        ),
    ],
)
def test_a_replay_from_the_start(cache: LedgerCache, selection: Selection, keys: list[str]) -> None:
    """Everything that fits, in whatever state, of this bucket."""
    assert _keys(cache, selection, from_start=True) == keys


def test_records_of_a_split_object_are_those_of_its_slices(cache: LedgerCache) -> None:
    """Its own entry counts them only in the end; a person is told what will repeat."""
    [found] = objects_to_replay(cache, ["bucket"], Selection(key="split"), from_start=True)

    assert (found.records, found.bad) == (5, 3)


@pytest.mark.parametrize(
    ("from_start", "has_topic", "expected", "said"),
    [
        (
            True,
            True,
            990,
            "10 records of theirs, and up to 990 dead letters, will be in Kafka a second time.",
        ),
        (True, False, 0, "10 records of theirs will be in Kafka a second time."),
        (False, True, 0, "Nothing that is in Kafka already will be repeated."),
    ],
)
def test_dead_letters_come_again_as_well(
    cache: LedgerCache, from_start: bool, has_topic: bool, expected: int, said: str
) -> None:
    """Where there is a topic of them: their number says more than that of the records here."""
    topic = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"} if has_topic else {}
    request = CommandRequest(
        settings=load_with(topic),
        action="replay",
        chosen=list(objects_to_replay(cache, ["bucket"], Selection(key="in/done"), from_start=True)),
        from_start=from_start,
        dry_run=True,
        yes=False,
        as_json=False,
        timeout=1,
    )
    assert list(lines_of(request))[-1] == said
    assert shape_of(request, None)["dead_letters_repeated"] == expected


@pytest.mark.parametrize(
    ("text", "is_end", "expected"),
    [
        ("2023-11-14T22:13:20Z", False, OLD_MS),
        ("2023-11-14T22:13:20", True, OLD_MS),
        ("2023-11-15T00:13:20+02:00", False, OLD_MS),
        ("2023-11-14", False, 1_699_920_000_000),
        ("2023-11-14", True, 1_700_006_399_999),
        ("2023-11-14T00:00:00Z", True, 1_699_920_000_000),
    ],
)
def test_moments(text: str, *, is_end: bool, expected: int) -> None:
    """UTC unless it says otherwise; a date alone as an end is its whole day."""
    assert moment_ms(text, "--until", is_end=is_end) == expected


def test_what_is_no_moment_or_no_state_is_refused_with_the_form_expected() -> None:
    """Exit code 2."""
    with pytest.raises(InvalidConfiguration, match=r"--since 'yesterday': expected a date"):
        moment_ms("yesterday", "--since")
    with pytest.raises(InvalidConfiguration, match="expected one of partial, done"):
        states_of(["finished"])
    assert states_of(["DONE "]) == {State.DONE}


@pytest.mark.parametrize("from_start", [True, False])
def test_what_is_asked_for_already_is_no_state_to_replay(tmp_path: Path, *, from_start: bool) -> None:
    """It is said before the ledger is asked, with what reads it; next to other states it is passed over."""
    options = {"name": "n", "bootstrap.servers": "b:1", "aws.s3.bucket.name": "b12", "topic": "t"}
    file = tmp_path / "source.json"
    file.write_text(json.dumps({**options, "file.name.template": ".*"}))

    with pytest.raises(InvalidConfiguration, match="asked for already, and `headrace run` reads it"):
        replay(file, state=["new"], from_start=from_start)


def test_of_several_buckets_all_or_one_are_chosen(cache: LedgerCache) -> None:
    """In the order of the list; one that it does not have is a sentence."""
    found = objects_to_replay(cache, ["other", "bucket"], Selection(key="in/bad"), from_start=True)
    assert [one.object.id.bucket for one in found] == ["other", "bucket"]
    found = objects_to_replay(cache, ["other", "bucket"], Selection(prefix="in/"), from_start=True)
    assert [one.object.id.url for one in found] == [
        "s3://other/in/bad",
        "s3://bucket/in/bad",
        "s3://bucket/in/done",
    ]
    settings = load_with({"aws.s3.bucket.name": "one,two"})
    assert [place.s3.bucket for place in chosen_buckets(settings, None)] == ["one", "two"]
    assert [place.buckets for place in chosen_buckets(settings, "two")] == [("two",)]
    with pytest.raises(InvalidConfiguration, match=r"aws\.s3\.bucket\.name has one, two, and not this one"):
        chosen_buckets(settings, "three")


@pytest.mark.parametrize(
    ("options", "taken", "left_out"),
    [
        pytest.param({}, ["in/bad", "out/failed"], {}, id="all are read"),
        pytest.param({"aws.s3.prefix": "out/"}, ["out/failed"], {"outside_prefix": 1}, id="prefix"),
        pytest.param({"object.exclude": "*/bad"}, ["out/failed"], {"excluded": 1}, id="exclude"),
        pytest.param({"object.include": "new/*"}, [], {"excluded": 2}, id="include"),
        pytest.param(
            {"file.name.template": "in/{{topic}}", "file.name.match": "exact"},
            ["in/bad"],
            {"unmatched": 1},
            id="template",
        ),
    ],
)
def test_a_replay_leaves_alone_what_the_configuration_leaves_out(
    cache: LedgerCache, options: dict[str, str], taken: list[str], left_out: dict[str, int]
) -> None:
    """Asked for again it would be in `new` for ever, with nothing that shows why it had stopped."""
    settings = load_with({"aws.s3.bucket.name": "bucket", **options})
    found = objects_to_replay(cache, settings.buckets, Selection(), from_start=False)
    chosen, others = without_left_out(found, cache, settings)
    request = CommandRequest(
        settings=settings,
        action="replay",
        chosen=chosen,
        left_out=others,
        from_start=False,
        dry_run=True,
        yes=False,
        as_json=False,
        timeout=1,
    )
    assert sorted(one.object.id.key for one in chosen) == taken
    assert shape_of(request, None)["left_out"] == left_out
    text = "\n".join(lines_of(request))
    assert ("would never be read" in text) is bool(left_out)
    assert all(f"{count} {reason}" in text for reason, count in left_out.items())


def test_unfinished_objects_that_are_left_out_are_counted(cache: LedgerCache) -> None:
    """Those that are begun, failed, or asked for; of the buckets that are read."""
    settings = load_with({"aws.s3.bucket.name": "bucket", "aws.s3.prefix": "in/"})
    assert unfinished_left_out(settings, cache) == {"bucket": {"outside_prefix": 2}}
    assert unfinished_left_out(load_with({"aws.s3.bucket.name": "bucket"}), cache) == {}


@pytest.mark.parametrize(
    ("etag", "hours", "is_doubtful"),
    [
        ("0123456789abcdef0123456789abcdef-2", 1, True),
        ("0123456789abcdef0123456789abcdef-10000", 23, True),
        ("0123456789abcdef0123456789abcdef-2", 25, False),
        ("0123456789abcdef0123456789abcdef", 1, False),
    ],
)
def test_mark_names_uploads_that_may_have_ended_after_its_time(
    etag: str, hours: int, *, is_doubtful: bool
) -> None:
    """S3 dates a multipart upload back to when it began: completed later, it was marked in silence."""
    uploaded = S3Object(
        id=ObjectId("bucket", "in/late", etag), size=1, last_modified_ms=NEW_MS - hours * 3_600_000
    )
    request = CommandRequest(
        settings=load_with({}),
        action="mark",
        chosen=[SelectedObject(object=uploaded, entry=None, records=0)],
        from_start=False,
        dry_run=True,
        yes=False,
        as_json=False,
        timeout=1.0,
        until_ms=NEW_MS,
    )
    assert shape_of(request, None)["doubtful"] == int(is_doubtful)
    said = [line for line in lines_of(request) if "name a time before the earliest of them" in line]
    assert ["in/late" in line for line in said] == [True] * is_doubtful
    assert shape_of(replace(request, until_ms=None), None)["doubtful"] == 0
