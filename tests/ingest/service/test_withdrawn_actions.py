"""An action that fails is tried again, but not for an object that a command has given another life."""

import queue
from dataclasses import replace
from typing import Final

from headrace.model.objects import ObjectId, OwedAction, PostAction, PostActionKind
from headrace.process.threads import ThreadFailures, collecting
from ingest.service.apply_effects import PROBLEM, PostActions
from ingest.service.service_events import ComponentProblem, OwnEvent
from tests.headrace.options.loading import load_with

_ID: Final = ObjectId("bucket", "k", "1")


def test_a_withdrawn_action_is_not_tried_again_and_is_no_problem_any_more() -> None:
    """Nobody answers at the endpoint: the action fails until it is withdrawn."""
    settings = load_with(
        {
            "aws.s3.endpoint": "http://127.0.0.1:9",
            "aws.s3.backoff.max.retries": "1",
            "aws.s3.backoff.delay.ms": "1",
        }
    )
    told: queue.SimpleQueue[OwnEvent] = queue.SimpleQueue()
    actions = PostActions(settings.s3, PostAction(PostActionKind.DELETE), told.put, count=lambda _: None)
    actions.request(OwedAction(_ID, (("k", "1", None),)))
    failed = told.get(timeout=60)
    assert isinstance(failed, ComponentProblem)
    assert (failed.component, failed.sentence is None) == (PROBLEM, False)
    assert not actions.is_idle

    actions.withdraw(_ID)

    # It may have failed once more before that.
    while (said := told.get(timeout=60)) == failed:
        pass
    assert said == ComponentProblem(PROBLEM, None)
    assert actions.is_idle
    actions.close()


def test_a_request_that_is_not_sent_is_a_problem_of_its_object() -> None:
    """Botocore refuses this bucket's name with an error of its own, which ended the service."""
    failures, told = ThreadFailures(), queue.SimpleQueue[OwnEvent]()
    with collecting(failures):
        actions = PostActions(
            load_with().s3, PostAction(PostActionKind.DELETE), told.put, count=lambda _: None
        )
        actions.request(OwedAction(replace(_ID, bucket="no bucket"), (("k", "1", None),)))

        failed = told.get(timeout=60)

    assert isinstance(failed, ComponentProblem)
    assert "s3://no bucket/k" in str(failed.sentence)
    assert failures.first is None
    actions.close()
