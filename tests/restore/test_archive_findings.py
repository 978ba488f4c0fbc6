"""What `check` says of an archive: whose it is, and what of it will not come back."""

from typing import Final

import pytest

from headrace.model.errors import Exit
from headrace.options import Settings
from ingest.checks.findings.archive_findings import archive_findings
from ingest.checks.findings.bucket_findings import Survey
from ingest.checks.findings.finding import Finding, Verdict
from ingest.checks.probes.archive_samples import read_archive_samples
from ingest.source.object_selection import object_filter_of
from tests.headrace.vendors.archive import NAMES, Archive, archive
from tests.restore.archive_bucket import ArchiveBucket, settings_of

_LAYOUTS: Final = ("aiven", "confluent", "lenses", "quix", "headrace")
# Keys of no sink's own form: without its template, or its delimiter, nobody reads them.
_OWN_NAMES: Final = {
    "aiven-jsonl_all_bytes",
    "aiven-key_only",
    "aiven-key_topic_partition",
    "aiven-template_event_out_of_order",
}


def _findings(bucket: ArchiveBucket, settings: Settings) -> dict[str, Finding]:
    restore = settings.format.restore
    assert restore is not None
    keys = list(bucket.objects)
    survey = Survey()
    survey.add(bucket.listed(), object_filter_of(settings))
    samples = list(read_archive_samples(bucket, settings, survey.to_sample, keys, survey.keys))
    return {finding.name: finding for finding in archive_findings(restore, keys, samples)}


def _told(source: Archive, layout: str) -> dict[str, Finding]:
    """The findings where somebody wrote this layout and nothing else."""
    changes: dict[str, str | None] = {
        "file__name__template": None,
        "input__format": None,
        "csv__header": None,
    }
    settings = settings_of(source, input__layout=layout, csv__columns=None, **changes)
    return _findings(ArchiveBucket.of(source), settings)


def test_the_keys_of_one_topic_are_not_those_of_another() -> None:
    """Nor those of some objects those of all."""
    row, key = b'{"a":1}\n', b'"k"\n'
    names = [f"topics/{topic}/partition=0/{topic}+0+{at:010}" for topic in "ab" for at in range(4)]
    objects = dict.fromkeys([f"{name}.json" for name in names], row)
    settings = settings_of(archive("confluent-kvh_json"))
    with_keys = {f"{name}.keys.json": key for name in names}
    of_one = {f"{name}.keys.json": key for name in names if "/a/" in name}
    of_some = {f"{name}.keys.json": key for name in (*names[:2], *names[4:6])}

    def said(sides: dict[str, bytes]) -> list[str]:
        sentence = _findings(ArchiveBucket(objects | sides), settings)["restore"].sentence
        return [line for line in sentence.splitlines() if line.startswith("key:")]

    assert said(with_keys) == []
    assert said(of_one) == ["key: does not come back: it is not stored"]
    assert said(of_some) == ["key: 2 of 4 objects have no object of it"]


@pytest.mark.parametrize("name", NAMES)
def test_the_right_layout_is_found_to_fit(name: str) -> None:
    """With what the archive's configuration asks for, no finding stands in the way."""
    source = archive(name)
    found = _findings(ArchiveBucket.of(source), settings_of(source))

    if not [key for key in source.objects if ".indexes/" not in key]:
        assert found["layout"].verdict is Verdict.WARN
    else:
        assert found["layout"].verdict is Verdict.OK, found["layout"].sentence
        assert all(finding.verdict is not Verdict.FAIL for finding in found.values())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in _OWN_NAMES])
def test_a_wrong_layout_is_named_with_the_one_that_fits(name: str) -> None:
    """Whichever of the others was written."""
    source = archive(name)
    if not [key for key in source.objects if ".indexes/" not in key and not key.endswith(".lock")]:
        return
    for layout in _LAYOUTS:
        finding = _told(source, layout)["layout"]
        if layout == source.vendor:
            assert finding.verdict is Verdict.OK
        else:
            assert (finding.verdict, finding.exit) == (Verdict.FAIL, Exit.CONFIGURATION), layout
            assert f"Set input.layout={source.vendor}" in str(finding.remedy)


@pytest.mark.parametrize("name", sorted(_OWN_NAMES))
def test_names_that_nobody_writes_by_default_ask_for_the_sinks_options(name: str) -> None:
    """No layout is guessed at, and the options that say how keys are read are named."""
    for layout in _LAYOUTS:
        finding = _told(archive(name), layout)["layout"]
        assert finding.verdict is not Verdict.OK
        assert "Set input.layout" in str(finding.remedy) or "file.name.template" in str(finding.remedy)


def test_what_will_not_come_back_is_warned_of() -> None:
    """Records of aborted transactions, and keys that lie nowhere."""
    plain = archive("confluent-json_default")
    found = _findings(ArchiveBucket.of(plain), settings_of(plain))["restore"]

    assert found.verdict is Verdict.WARN
    assert "records of aborted transactions were archived like others" in found.sentence
    assert "\nkey: does not come back: it is not stored" in found.sentence

    joined = archive("confluent-kvh_json")
    found = _findings(ArchiveBucket.of(joined), settings_of(joined))["restore"]
    assert "\nkey: " not in found.sentence
    assert "\ntombstones: they are objects of their own" in found.sentence


def test_our_own_layout_has_nothing_to_warn_of() -> None:
    """All fields are there."""
    row = b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"key":"k","value":1,"headers":[]}\n'
    bucket = ArchiveBucket({"t/0/00000000000000000001.headrace.jsonl": row})
    settings = settings_of(archive("aiven-jsonl_all"), input__layout="headrace", file__name__template=None)

    assert {finding.verdict for finding in _findings(bucket, settings).values()} == {Verdict.OK}


def test_no_option_is_promised_for_what_is_not_stored() -> None:
    """Only what the sink is told to store comes back, and only of later records."""
    row = b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"value":1}\n'
    bucket = ArchiveBucket({"t/0/00000000000000000001.headrace.jsonl": row})
    settings = settings_of(archive("aiven-jsonl_all"), input__layout="headrace", file__name__template=None)

    found = _findings(bucket, settings)["restore"]

    assert found.verdict is Verdict.WARN
    assert "\nkey: does not come back" in found.sentence
    assert "no option brings back" in str(found.remedy)


def test_two_archives_in_one_bucket_are_told_apart() -> None:
    """What the layout does not read is named, with whose it looks like."""
    one, other = archive("confluent-json_default"), archive("quix-new_jsonl")
    bucket = ArchiveBucket({**one.objects, **other.objects})
    found = _findings(bucket, settings_of(one))["layout"]

    assert found.verdict is Verdict.WARN
    assert f"{len(other.objects)} of the others are of quix's form" in found.sentence
    assert "configuration of its own" in str(found.remedy)


@pytest.mark.parametrize(("told", "shown"), [("aiven", "lenses"), ("quix", "aiven")])
def test_content_of_another_layout_is_found(told: str, shown: str) -> None:
    """Where a renamed object has a key that the layout reads."""
    sources = {"lenses": "lenses-envelope_json", "aiven": "aiven-jsonl_all"}
    rows = next(content for key, content in archive(sources[shown]).objects.items() if ".indexes/" not in key)
    key = {"aiven": "t-0-0", "quix": "t/0/0000000000000000000.jsonl"}[told]
    settings = settings_of(archive("quix-new_jsonl"), input__layout=told, restore__value=None)
    found = _findings(ArchiveBucket({key: rows}), settings)["layout"]

    assert (found.verdict, found.remedy) == (Verdict.FAIL, f"Set input.layout={shown}.")


def test_a_missing_option_is_told_before_anything_is_quarantined() -> None:
    """The sentence of the quarantine, with the option's name."""
    found = _told(archive("lenses-csv"), "lenses")

    assert "Set csv.header to true" in found["format"].sentence


@pytest.mark.parametrize("objects", [{}, {".indexes/c/.locks/t/0.lock": b"{}"}, {"t/": b""}])
def test_where_there_is_no_data_nothing_is_judged(objects: dict[str, bytes]) -> None:
    """Neither well nor badly."""
    (found,) = _findings(ArchiveBucket(objects), settings_of(archive("quix-new_jsonl"))).values()

    assert found.verdict is Verdict.WARN


def test_a_beginning_of_bad_rows_is_fetched_once() -> None:
    """Layout, format and members are three questions, each of which looks for the first good row."""
    source = archive("lenses-envelope_json")
    key, rows = next((key, each) for key, each in source.objects.items() if ".indexes/" not in key)
    bad = b'{"key":"' + b"x" * 1_000_000 + b"\n"
    bucket = ArchiveBucket({key: bad * 3 + rows})
    found = _findings(bucket, settings_of(source))

    assert found["layout"].verdict is Verdict.OK, found["layout"].sentence
    assert bucket.fetched_bytes <= len(bucket.objects[key]) + 64 * 1024
