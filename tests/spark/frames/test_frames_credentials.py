"""The log of a query in a bucket, while the keys of a shared credentials file are rotated."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.model.errors import FrameRefused
from headrace.options.choices import CredentialsProvider
from headrace.options.settings import ProviderCredentials
from spark.frames.frame_options import reading_settings
from spark.frames.log_store import LogStore, log_store
from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, error, said, settings

EXPIRED = Say(error("ExpiredToken", 400))


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.create("log/1", b"x"),
        lambda store: store.replace("log/1", b"x"),
        lambda store: store.read("log/1"),
        lambda store: store.remove(["log/1"]),
    ],
    ids=["create", "replace", "read", "remove"],
)
def test_the_log_of_a_query_survives_rotated_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: Callable[[LogStore], object]
) -> None:
    """The call that is refused for the old keys is made with the new; refused again, it ends the query."""
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    keys = "[default]\naws_access_key_id = {}\naws_secret_access_key = x\n"
    file.write_text(keys.format("OLD"))
    with ScriptedS3(lambda _: Say(said(b"<DeleteResult/>"))) as server:
        given = settings(server.url, credentials=ProviderCredentials(provider=CredentialsProvider.PROFILE))
        store = log_store("s3://bucket/state", given)
        store.replace("log/0", b"x")
        file.write_text(keys.format("RENEWED"))
        server.asked.clear()

        server.says(EXPIRED, Say(said(b"<DeleteResult/>")), Say(error("PreconditionFailed", 412)))
        call(store)
        first, second = [one.headers["authorization"] for one in server.asked if one.headers][:2]
        assert "OLD" in first
        assert "RENEWED" in second

    with ScriptedS3(lambda _: EXPIRED) as server:
        given = settings(server.url, credentials=ProviderCredentials(provider=CredentialsProvider.PROFILE))
        with pytest.raises(FrameRefused, match="Renew them"):
            call(log_store("s3://bucket/state", given))
        # What follows the head of a request is taken for another one.
        assert len([one for one in server.asked if one.headers]) == 2


def test_a_secret_that_a_reference_names_is_read_by_each_query(tmp_path: Path) -> None:
    """One process of Spark's plans many: it knew the options, and had the secret that was replaced."""
    file = tmp_path / "secret.properties"
    options = {
        "path": "s3://bucket/in/",
        "aws.access.key.id": "AKIA",
        "aws.secret.access.key": f"${{file:{file}:secret}}",
    }
    file.write_text("secret=old\n")
    old = reading_settings(options).shared.s3
    assert reading_settings(options).shared.s3 == old

    file.write_text("secret=new\n")
    assert reading_settings(options).shared.s3 != old
