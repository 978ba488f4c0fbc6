"""Credentials that are taken away while running, and given back."""

from pathlib import Path
from typing import Any

import pytest

from tests.errors.harness import ATTEMPTS, counted, json_lines, stand
from tests.support import aws
from tests.support.credential_service import CredentialService
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_a_role_that_is_refused_for_a_while_costs_no_object(tmp_path: Path) -> None:
    """Not ready, with a sentence that names the option and the role; granted again, all rows come once.

    The credentials are short-lived, so that each request renews them: refused is refused at once.
    """
    arn = f"arn:aws:iam::{aws.ACCOUNT}:role/reader"
    with CredentialService() as sts:
        sts.grant(seconds=60)
        options: dict[str, Any] = {"aws__sts__role__arn": arn, "aws__sts__config__endpoint": sts.url}
        with stand(tmp_path, "roles", **options) as on:
            topic = on.topic()
            keys = [f"{topic}/{number}" for number in range(12)]
            bodies = {key: json_lines(*counted(500, key)) for key in keys}
            for key in keys[:4]:
                on.put(key, bodies[key])
            on.await_end(keys[0])

            sts.refuse("AccessDenied", 403, "not authorized to perform: sts:AssumeRole")
            for key in keys[4:]:
                on.put(key, bodies[key])
            words = on.await_ready(ready=False)
            assert "aws.sts.role.arn" in words
            assert arn in words
            assert "not authorized to perform: sts:AssumeRole" in words
            # Some of them were announced before the queue could not be asked any more, or are listed never.
            waiting = on.service.status()["pending_objects"]
            before = sts.asked["AssumeRole"]
            until_sync(
                lambda: sts.asked["AssumeRole"] > before + ATTEMPTS * 5, seconds=60, what="many more attempts"
            )
            assert on.service.status()["pending_objects"] >= waiting
            assert on.service.status()["objects"]["quarantined"] == 0
            assert on.service.status()["slots"]["recovering"] == 0

            sts.grant()
            on.await_ready(ready=True, seconds=60)
            for key in keys:
                end = on.await_end(key, seconds=60)
                assert (end["outcome"], end["attempts"], end["records"]) == ("done", 0, 500)
            expected = [line for body in bodies.values() for line in body.splitlines()]
            assert sorted(on.values(topic)) == sorted(expected)


def test_a_service_that_starts_without_credentials_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver waits for its own; a worker whose first call of the metadata service fails asks again."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with CredentialService() as metadata:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url)
        metadata.grant(seconds=60)
        nothing: dict[str, Any] = {"aws__access__key__id": None, "aws__secret__access__key": None}
        with stand(tmp_path, "metadata", **nothing) as on:
            topic = on.topic()
            metadata.refuse()
            on.put(f"{topic}/early", json_lines(*counted(100)))
            words = on.await_ready(ready=False)
            assert "aws.credentials.provider" in words
            metadata.grant()
            assert on.await_end(f"{topic}/early", seconds=60)["outcome"] == "done"
            on.await_ready(ready=True)
            unsigned = [one for one in on.proxy.requests if "authorization" not in one.headers]
            assert unsigned == []
