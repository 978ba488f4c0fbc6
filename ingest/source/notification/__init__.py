"""Message bodies turned into the objects they name: every envelope in which S3 events reach a queue.

| envelope | how it is known | its key is |
|---|---|---|
| S3 to SQS, and S3 to SNS with raw delivery | `Records` | form-encoded |
| S3 to SNS to SQS | `Type` and `Message`, which holds one of the others as text | as in what it holds |
| S3 to EventBridge to SQS | `detail-type` and `detail` | raw |
| the test event | `Event` | none |

Keys are decoded here, once; past this room a key is the real key. Reading never raises: a body that is not
understood is `Unreadable`, and stays on the queue for its own redrive policy. A message with one record that
is not understood is unreadable as a whole, for acknowledging it would lose that object.
"""

from ingest.source.notification.parse import (
    EventKind,
    Ignored,
    Notification,
    ObjectEvent,
    ObjectEvents,
    TestEvent,
    Unreadable,
    parse_notification,
)

__all__ = [
    "EventKind",
    "Ignored",
    "Notification",
    "ObjectEvent",
    "ObjectEvents",
    "TestEvent",
    "Unreadable",
    "parse_notification",
]
