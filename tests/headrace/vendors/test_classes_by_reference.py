"""`connector.class` by reference: the class that it leads to decides, as one that is written."""

import json

import pytest

from headrace.options import Problem, SettingsError
from headrace.options.vendor import CLASSES, NAMED
from headrace.vendors.load import load
from tests.headrace.options.loading import COMPLETE, no_file


def _found(named: str, **environment: str) -> tuple[object, tuple[Problem, ...]]:
    """What is made of a configuration with this class; which options are wrong depends on it."""
    try:
        settings = load(
            json.dumps({**COMPLETE, "connector.class": named, "topics.dir": "archive", "flush.size": "10"}),
            kind="json",
            environment=environment,
            read_file=no_file,
        )
    except SettingsError as error:
        return None, error.problems
    return (settings.sink is None, settings.translated, settings.warnings), ()


@pytest.mark.parametrize("named", sorted({*NAMED, *CLASSES}))
def test_a_class_that_a_reference_leads_to_is_the_one_that_counts(named: str) -> None:
    """Which options there are is decided by it."""
    written = _found(named)

    assert _found("${env:CLASS}", CLASS=f" {named} ") == written
    assert "connector.class" not in {problem.option for problem in written[1]}


def test_a_reference_that_leads_nowhere_is_a_problem_of_the_class() -> None:
    """So that the machine that has it can be told."""
    _, problems = _found("${env:CLASS}")

    assert "connector.class: the environment variable CLASS is not set" in map(str, problems)


def test_a_class_that_is_misspelled_in_its_variable_is_told_as_one() -> None:
    """As what it was written: who may see the sentence may not see what a variable holds."""
    _, problems = _found("${env:CLASS}", CLASS="io.confluent.connect.s3.S3SinkConector")

    (problem,) = problems
    assert "did you mean io.confluent.connect.s3.S3SinkConnector?" in str(problem)
    assert "S3SinkConector" not in str(problem)


@pytest.mark.parametrize("held", ["ab12", " a-secret ", "a\\b'c", "s3-sink", "x"])
def test_what_a_reference_leads_to_is_not_shown_where_it_is_no_class(held: str) -> None:
    """It may be a secret, however short, and with blanks around it."""
    _, problems = _found("${env:CLASS}", CLASS=held)

    (problem,) = problems
    assert problem.value == "${env:CLASS}"
