"""`plan` and `check` on archives that real sinks wrote, in a real bucket, with their tags."""

import pytest

from tests.cli.cli_environment import Scene
from tests.layouts.archive import Archive, archive
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
