from typing import Any

import pytest

from headrace.model.errors import Exit
from headrace.model.objects import ObjectId, S3Object
from headrace.options import Settings
from ingest.checks.findings.bucket_findings import (
    BUCKET_CHECKS,
    BucketFacts,
    Survey,
    keys_match,
    move_target,
    start_key_fits,
)
from ingest.checks.findings.finding import Cause, Finding, Refused, Verdict, exit_of
from ingest.source.object_selection import object_filter_of
from tests.ingest.checks.findings.configured import configured

SETTINGS = configured({"file.name.template": "{{topic}}-{{partition}}", "topic": None})


def _object(key: str, *, size: int = 1, storage_class: str | None = None) -> S3Object:
    return S3Object(
        id=ObjectId("bucket", key, "e"), size=size, last_modified_ms=1, storage_class=storage_class
    )


def _survey(*objects: S3Object, settings: Settings = SETTINGS) -> Survey:
    survey = Survey()
    survey.add(objects, object_filter_of(settings))
    return survey


def _facts(**changes: Any) -> BucketFacts:
    facts: dict[str, Any] = {
        "region": "us-east-1",
        "survey": _survey(_object("orders-3"), _object("orders-7"), _object("orders-0")),
        "skew_ms": 300,
        "get": True,
        "get_version": True,
    }
    return BucketFacts(**{**facts, **changes})


def _found(facts: BucketFacts) -> dict[str, Finding]:
    found = [check(SETTINGS.s3, facts) for check in BUCKET_CHECKS]
    return {finding.name: finding for finding in found if finding is not None}


def test_all_is_well() -> None:
    """Each finding says so, and nothing needs a remedy."""
    found = _found(_facts())

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert set(found) == {"bucket", "region", "list", "get", "get by version", "keys", "clock"}
    assert exit_of(found.values()) is Exit.DONE


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "exit_code", "remedy"),
    [
        pytest.param(
            {"survey": Refused(Cause.MISSING, "NoSuchBucket"), "region": None, "get": None},
            "bucket",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "aws.s3.bucket.name",
            id="wrong bucket",
        ),
        pytest.param(
            {"survey": Refused(Cause.CREDENTIALS, "ExpiredToken"), "get": None},
            "bucket",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "aws.access.key.id",
            id="refused credentials",
        ),
        pytest.param(
            {"survey": Refused(Cause.UNREACHED, "refused"), "region": None, "skew_ms": None, "get": None},
            "bucket",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "aws.s3.endpoint",
            id="no answer",
        ),
        pytest.param(
            {"region": "eu-west-1"},
            "region",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "aws.s3.region=eu-west-1",
            id="wrong region, told",
        ),
        pytest.param(
            {"region": None, "survey": Refused(Cause.ELSEWHERE, "301"), "get": None},
            "region",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "get-bucket-location",
            id="wrong region, not told which",
        ),
        pytest.param(
            {"survey": Refused(Cause.DENIED, "AccessDenied"), "get": None},
            "list",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "s3:ListBucket",
            id="no list permission",
        ),
        pytest.param(
            {"get": Refused(Cause.DENIED, "AccessDenied"), "get_version": None},
            "get",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "s3:GetObject",
            id="no get permission",
        ),
        pytest.param(
            {"get": Refused(Cause.OTHER, "InternalError"), "get_version": None},
            "get",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "this object",
            id="an object that cannot be read",
        ),
        pytest.param(
            {"get": Refused(Cause.KEY, "KMS.DisabledException"), "get_version": None},
            "get",
            Verdict.FAIL,
            Exit.UNUSABLE,
            "See the sentence",
            id="a key of KMS that cannot be used",
        ),
        pytest.param(
            {"get_version": Refused(Cause.DENIED, "AccessDenied")},
            "get by version",
            Verdict.WARN,
            Exit.DONE,
            "s3:GetObjectVersion",
            id="no version permission",
        ),
        pytest.param(
            {"survey": _survey(_object("a-1", storage_class="GLACIER"), _object("a-2"))},
            "archives",
            Verdict.WARN,
            Exit.DONE,
            "Restore",
            id="archived objects",
        ),
        pytest.param(
            {"survey": _survey(_object("nothing"))},
            "keys",
            Verdict.FAIL,
            Exit.CONFIGURATION,
            "headrace explain CONFIG 'nothing'",
            id="no key matches",
        ),
        pytest.param(
            {"survey": _survey(_object("nothing"), _object("a-1"))},
            "keys",
            Verdict.WARN,
            Exit.DONE,
            "headrace plan",
            id="some keys do not match",
        ),
        pytest.param(
            {"survey": _survey(_object("folder/", size=0))},
            "keys",
            Verdict.WARN,
            Exit.DONE,
            "object.include",
            id="all keys left out",
        ),
        pytest.param({"skew_ms": 61_000}, "clock", Verdict.WARN, Exit.DONE, "NTP", id="a minute ahead"),
        pytest.param(
            {"skew_ms": -901_000}, "clock", Verdict.FAIL, Exit.UNUSABLE, "NTP", id="a quarter behind"
        ),
    ],
)
def test_what_is_wrong_is_found_with_its_remedy(
    changes: dict[str, Any], name: str, verdict: Verdict, exit_code: Exit, remedy: str
) -> None:
    """One finding each, and no other turns bad with it."""
    found = _found(_facts(**changes))

    assert found[name].verdict is verdict
    assert remedy in (found[name].remedy or "")
    assert exit_of(found.values()) is exit_code
    assert [one.name for one in found.values() if one.verdict is not Verdict.OK] == [name]


def test_an_empty_bucket_is_no_fault() -> None:
    """Nothing can be tried to be read, and nothing is said of it."""
    found = _found(_facts(survey=_survey(), get=None, get_version=None))

    assert found["keys"].verdict is Verdict.OK
    assert "get" not in found


def test_a_prefix_below_which_nothing_lies_may_be_a_wrong_one() -> None:
    """All may be well, as before the first upload; a prefix with a comment in it was `ok`."""
    settings = configured({"aws.s3.prefix": "orders/ # prefix"})
    finding = keys_match(settings.s3, _facts(survey=_survey(settings=settings)))

    assert finding is not None
    assert finding.verdict is Verdict.WARN
    assert "aws.s3.prefix" in (finding.remedy or "")


@pytest.mark.parametrize("others", [[], ["a-0"], ["nothing"], ["a-0", "nothing"]])
def test_a_key_that_ends_with_a_slash_and_holds_something_is_told_of(others: list[str]) -> None:
    """It is taken for a folder's mark, which is empty: that of a record key may end so."""
    there = [_object(key) for key in others]
    plain = _found(_facts(survey=_survey(*there, _object("a/", size=0))))
    filled = _found(_facts(survey=_survey(*there, _object("pages/https://example.org/"))))["folders"]

    assert "folders" not in plain
    assert filled.verdict is Verdict.WARN
    assert "'pages/https://example.org/'" in filled.sentence


@pytest.mark.parametrize("globs", [{"object.exclude": "**/pages/**,pages/**"}, {"object.include": "a-*"}])
def test_one_that_globs_leave_out_is_not(globs: dict[str, str]) -> None:
    """Who left it out knows of it."""
    settings = configured({"file.name.template": "{{topic}}-{{partition}}", "topic": None, **globs})
    survey = _survey(_object("a-0"), _object("pages/x/"), settings=settings)

    assert "folders" not in _found(_facts(survey=survey))


def test_a_survey_keeps_the_highest_partition_and_an_object_that_can_be_tried() -> None:
    """Partition 0 is one too, and neither an empty object nor an archived one can be read."""
    survey = _survey(
        _object("a-0", size=0), _object("a-2", storage_class="GLACIER"), _object("a-1"), _object("b-0")
    )

    assert {topic: seen.partition for topic, seen in survey.topics.items()} == {"a": 2, "b": 0}
    assert survey.topics["a"].key == "a-2"
    assert survey.sample is not None
    assert survey.sample.id.key == "a-1"


def test_the_bucket_that_objects_move_to_is_looked_at() -> None:
    """Only where it is another one."""
    here, there = (
        configured({"post.action": f"move:{to}"}).post_action for to in ("done/", "s3://cold/done/")
    )
    denied = _facts(move_target=Refused(Cause.DENIED, "AccessDenied"))

    assert move_target(None, _facts()) is None
    assert move_target(here, denied) is None
    fine, refused = move_target(there, _facts()), move_target(there, denied)
    assert fine is not None
    assert (fine.verdict, fine.sentence) == (Verdict.OK, "s3://cold, which objects move to, is there")
    assert refused is not None
    assert refused.verdict is Verdict.FAIL
    assert refused.sentence == "s3://cold, which objects move to: AccessDenied"


def test_what_to_allow_is_in_the_regions_partition() -> None:
    """As `headrace policy` has it: China and GovCloud have ARNs of their own."""
    denied = Refused(Cause.DENIED, "AccessDenied")
    facts = (_facts(survey=denied, get=None), _facts(get=denied, get_version=denied))
    place = configured({"aws.s3.region": "cn-north-1", "sqs.queue.url": None}).s3
    found = [check(place, each) for each in facts for check in BUCKET_CHECKS]
    remedies = [each.remedy or "" for each in found if each is not None]

    assert sum("arn:aws-cn:s3:::bucket" in each for each in remedies) == 3
    assert not any("arn:aws:" in each for each in remedies)


def test_a_start_key_above_all_keys_is_named() -> None:
    """No listing brings one of them, and nothing but the plan showed it."""
    found = start_key_fits("orders-7", _facts())
    assert found is not None
    assert (found.name, found.verdict) == ("start key", Verdict.WARN)
    assert found.sentence == "native.start.key = 'orders-7': none of 3 keys comes after it."
    assert start_key_fits(None, _facts()) is None
    assert start_key_fits("orders-5", _facts()) is None
    assert start_key_fits("orders-7", _facts(survey=Survey())) is None
    survey = _survey(_object("orders-3"))
    survey.is_whole = False
    assert start_key_fits("orders-7", _facts(survey=survey)) is None
