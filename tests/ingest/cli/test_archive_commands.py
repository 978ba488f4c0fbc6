"""`plan` and `check` on archives that real sinks wrote, in a real bucket, with their tags."""

import pytest

from tests.headrace.vendors.archive import Archive, archive
from tests.ingest.cli.cli_environment import Scene
from tests.restore.archive_options import restore_config
from tests.support import aws

pytestmark = pytest.mark.parts


def _archived(scene: Scene, name: str) -> Archive:
    """The scene's bucket with the archive in it, and the configuration that restores it."""
    source = archive(name)
    for key, content in source.objects.items():
        scene.put(key, content)
        tags = [{"Key": tag, "Value": text} for tag, text in source.tags.get(key, {}).items()]
        if tags:
            aws.s3().put_object_tagging(Bucket=scene.bucket, Key=key, Tagging={"TagSet": tags})  # type: ignore[typeddict-item]  # plain texts
    scene.options = {**restore_config(source), "topic": scene.topic, "restore.partition": "modulo"}
    return source


def test_plan_of_an_archive_reads_its_tags(scene: Scene) -> None:
    """Records, offsets and what comes back of each topic, for programs and for people."""
    source = _archived(scene, "confluent-tags")
    scene.put("readme.txt")

    (topic,) = scene.asked("plan")["archive"]
    text = scene.run("plan")

    assert (topic["layout"], topic["objects"], topic["problems"]) == ("confluent", len(source.objects), [])
    assert sum(each["records"] for each in topic["partitions"]) == 24
    assert {each["part"]: each["grade"] for each in topic["comes_back"]}["timestamp"] == "absent"
    assert "not: key: it is not stored" in text
    assert "as the tags say" in text
    assert "are not of input.layout's form, such as" in text


def test_plan_of_an_archive_of_which_no_key_is_read(scene: Scene) -> None:
    """It is a problem, for people and for programs, and no success."""
    _archived(scene, "confluent-tags")
    scene.options["input.layout"] = "quix"

    found = scene.asked("plan", code=5)
    text = scene.run("plan", code=5)

    assert found["problem"].startswith("input.layout=quix reads none of")
    assert f"problem   {found['problem']}" in text


def test_plan_and_check_say_that_an_envelope_is_not_decided(scene: Scene) -> None:
    """Rows of Lenses with key and value alone: `store.envelope` says what they are."""
    scene.put("backups/t/0/000000000002_0_2.json", b'{"key": "k", "value": {"a": 1}}\n')
    scene.options = {
        "input.layout": "lenses",
        "input.format": None,
        "file.name.template": None,
        "aws.s3.prefix": "backups/",
    }

    (topic,) = scene.asked("plan")["archive"]
    text = scene.run("check")

    assert "Set store.envelope to true or false" in " ".join(topic["problems"])
    assert "warn  format: " in text
    assert "Set store.envelope to true or false" in text
    scene.options["store.envelope"] = "true"
    (topic,) = scene.asked("plan")["archive"]
    assert topic["problems"] == []
    assert "store.envelope" not in scene.run("check")


def test_plan_grades_the_order_that_is_asked_for(scene: Scene) -> None:
    """`partition` is the default; another ordering loses it, and `plan` and `check` say so."""
    _archived(scene, "confluent-tags")

    def order() -> str:
        (topic,) = scene.asked("plan")["archive"]
        return str({each["part"]: each["grade"] for each in topic["comes_back"]}["order"])

    assert order() == "exact"
    assert "set ordering=partition" not in scene.run("check")
    scene.options["ordering"] = "object"
    assert order() == "partly"
    assert "set ordering=partition" in scene.run("check")


def test_check_of_an_archive_says_whose_it_is(scene: Scene) -> None:
    """The right layout is warned of what it lacks; a wrong one ends with 2 and is told the right one."""
    _archived(scene, "lenses-json_default")

    text = scene.run("check")
    assert "ok    layout: input.layout=lenses reads all of" in text
    assert "warn  restore: " in text
    assert "records of aborted transactions were archived like others" in text

    scene.options["input.layout"] = "quix"
    text = scene.run("check", code=2)
    assert "fail  layout: input.layout=quix reads none of" in text
    assert "-> Set input.layout=lenses." in text
