"""What is asked of the group while the broker goes and comes: answers and errors, never the end of us."""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from headrace.kafka.fencing import parse_group_metadata
from headrace.kafka.leadership import Role
from tests.faults.fault_environment import open_site
from tests.headrace.kafka.ingester import Ingester
from tests.support.kafka import new_topic
from tests.support.proxy import Refuse, Silent
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

_SECONDS: Final = 40

# In a process of its own: what fails here ends it (an assertion of librdkafka's), and would end the tests.
_ASKING: Final = """
import logging, sys, time
from headrace.model.errors import HeadraceError
from headrace.kafka.admin import KafkaAdmin
logging.disable(logging.CRITICAL)
admin = KafkaAdmin({"bootstrap.servers": sys.argv[1]}, timeout=2)
topic = sys.argv[2]
asked, answered, until = 0, 0, time.monotonic() + float(sys.argv[3])
while time.monotonic() < until:
    for ask in (lambda: admin.group_topics("g"), lambda: admin.ends(topic), lambda: admin.topic_id(topic),
                lambda: admin.topic_configuration(topic), lambda: admin.group_offsets("g")):
        asked += 1
        try:
            ask()
            answered += 1
        except HeadraceError:
            time.sleep(0.02)
print(asked, answered)
"""


def test_members_are_told_by_what_they_hold(ingester: Ingester) -> None:
    """The leader holds the ledger, a standby nothing; a group that nobody is in has no members."""
    lead, group = ingester.lead(), f"headrace-{ingester.name}"
    before, standby = lead.metadata(), ingester.member()
    # While it joins nobody holds anything: the group is asked once all have heard of each other.
    until_sync(lambda: standby.role is Role.STANDBY and lead.metadata() != before, what="a group of two")
    assert ingester.admin.holders(group, ingester.topic) == {parse_group_metadata(lead.metadata()).member}
    assert ingester.admin.group_topics(group) == {ingester.topic}
    assert ingester.admin.holders(group, "another") == set()
    assert ingester.admin.group_topics("nobody-is-in-it") == set()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_questions_outlive_a_broker_that_comes_and_goes(tmp_path: Path) -> None:
    """The watch over the ledger asks every minute, whatever the broker does.

    Red with describe_consumer_groups: `rd_kafka_enq_once_del_source_return: Assertion eonce->refcnt > 0`.
    """
    with ExitStack() as stack:
        site = open_site(stack, tmp_path, own_s3=False)
        proxy = site.kafka_proxy
        topic = new_topic("asked", bootstrap=site.bootstrap)
        argv = [sys.executable, "-c", _ASKING, proxy.address, topic, str(_SECONDS)]
        asking = stack.enter_context(
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        until, number = time.monotonic() + _SECONDS - 5, 0
        while time.monotonic() < until and asking.poll() is None:
            # Each for as long as it takes a question to time out, or not quite.
            proxy.on(Refuse() if number % 2 else Silent())
            proxy.cut()
            time.sleep(0.3 + number % 7 * 0.4)
            proxy.off()
            proxy.cut()
            time.sleep(0.5)
            number += 1
        out, errors = asking.communicate(timeout=60)
    assert asking.returncode == 0, errors[-500:]
    asked, answered = (int(word) for word in out.split())
    assert 0 < answered < asked, "the broker went, and came"
