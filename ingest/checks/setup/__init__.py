"""What `headrace setup` does: queue, dead letter queue, policy and bucket notification, and the topics.

Nothing here is needed by a running service; boto3 is at home here, unlike in the pure rooms of `ingest`.
"""

from ingest.checks.setup.steps import SetupError, Step, missing_steps

__all__ = ["SetupError", "Step", "missing_steps"]
