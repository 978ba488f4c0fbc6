"""Where no region is given: the environment's, else the profile's, else the default."""

import json
from collections.abc import Mapping

import pytest

from headrace.options import SettingsError, describe
from headrace.vendors.load import load

_CONFIG = "[default]\nregion = eu-north-1\noutput\n[profile other]\nregion=eu-south-2\n[profile none]\n"
_FILES: Mapping[str, str] = {
    "/home/me/.aws/config": _CONFIG,
    "/elsewhere/config": "[default]\nregion = sa-east-1\n",
    "/elsewhere/credentials": "[default]\naws_access_key_id = a\nregion = me-south-1\n",
    "/broken": "no section = 1\n",
}


def _read(path: str) -> str:
    if path not in _FILES:
        raise FileNotFoundError(path)
    return _FILES[path]


def _text(changes: Mapping[str, str]) -> str:
    base = {"name": "a", "bootstrap.servers": "b:1", "aws.s3.bucket.name": "bucket", "topics": "t"}
    return json.dumps({**base, **changes})


def _region(environment: Mapping[str, str], changes: Mapping[str, str] | None = None) -> str:
    text = _text(changes or {})
    settings = load(text, kind="json", environment=environment, read_file=_read)
    assert describe(settings)["aws.s3.region"] == settings.s3.region
    assert ("aws.s3.region" in settings.given) is ("aws.s3.region" in text)
    return settings.s3.region


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({}, "us-east-1"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2", "HOME": "/home/me"}, "eu-west-2"),
        ({"HOME": "/home/me"}, "eu-north-1"),
        ({"HOME": "/home/me", "AWS_PROFILE": "other"}, "eu-south-2"),
        ({"HOME": "/home/me", "AWS_PROFILE": "none"}, "us-east-1"),
        ({"HOME": "/home/me", "AWS_PROFILE": "missing"}, "us-east-1"),
        ({"HOME": "/home/me", "AWS_CONFIG_FILE": "/elsewhere/config"}, "sa-east-1"),
        ({"HOME": "/home/me", "AWS_CONFIG_FILE": "~/.aws/config"}, "eu-north-1"),
        ({"HOME": "/home/me", "AWS_SHARED_CREDENTIALS_FILE": "/elsewhere/credentials"}, "me-south-1"),
        ({"AWS_CONFIG_FILE": "/broken"}, "us-east-1"),
    ],
)
def test_the_machines_region(environment: Mapping[str, str], region: str) -> None:
    """In the order of AWS's own clients."""
    assert _region(environment) == region


def test_what_is_given_wins() -> None:
    """And is all that counts as given."""
    assert _region({"AWS_REGION": "eu-west-1"}, {"aws.s3.region": "eu-west-3"}) == "eu-west-3"


def test_a_machine_without_a_good_region_is_told() -> None:
    """With the option that overrides it."""
    with pytest.raises(SettingsError) as caught:
        load(_text({}), kind="json", environment={"AWS_REGION": "Europe!"}, read_file=_read)
    (problem,) = caught.value.problems
    assert str(problem) == "aws.s3.region: is 'Europe!' on this machine; set it to a region such as us-east-1"
