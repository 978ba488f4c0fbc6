"""Who lives, who is gone, and what is joined for before a gone leader is replaced."""

import socket
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest

from headrace.kafka.control_records import WorkerRecord, WorkersRecord
from headrace.model.errors import Unavailable
from ingest.connect.other_workers import BrokerContact, Liveness, refusal_of, refuses_connections

SESSION = 10.0


@dataclass
class Group:
    """A clock, and addresses that refuse."""

    now: float = 100.0
    refusing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def refuses(self, url: str) -> bool:
        """As the machine of the address answers."""
        self.asked.append(url)
        return url in self.refusing

    def liveness(self, own_id: str = "me") -> Liveness:
        """Of a worker in this group."""
        return Liveness(own_id, session_seconds=SESSION, clock=lambda: self.now, refuses=self.refuses)


def workers(leader: str, **connectors: tuple[str, ...]) -> WorkersRecord:
    """Workers at addresses of their names."""
    return WorkersRecord(
        leader=leader,
        workers={
            name: WorkerRecord(url=f"http://{name}", connectors=mine) for name, mine in connectors.items()
        },
    )


def test_a_silent_worker_is_missed_after_its_session() -> None:
    """Not before, as long as its address does not refuse."""
    group = Group()
    liveness = group.liveness()
    liveness.on_heartbeat("a", "http://a")

    group.now += SESSION - 0.1
    liveness.probe()
    assert liveness.others() == {"a": "http://a"}
    group.now += 0.2
    assert liveness.others() == {}


def test_a_worker_whose_address_refuses_is_missed_at_once() -> None:
    """Once its heartbeat is late: one that is heard of lives, whatever its address says."""
    group = Group(refusing={"http://a"})
    liveness = group.liveness()
    liveness.on_heartbeat("a", "http://a")
    liveness.on_heartbeat("b", "http://b")

    liveness.probe()
    assert group.asked == []
    group.now += 2
    liveness.probe()

    assert liveness.others() == {"b": "http://b"}


def test_a_new_worker_at_an_address_takes_the_place_of_the_one_before() -> None:
    """A process that was restarted at once is another worker."""
    group = Group()
    liveness = group.liveness()
    liveness.on_heartbeat("a", "http://same")
    liveness.on_heartbeat("b", "http://same")

    assert liveness.others() == {"b": "http://same"}


def test_workers_that_live_at_one_address_do_not_take_each_others_place() -> None:
    """A load balancer's, or a name that all of them were given: which is said until one has another."""
    group = Group()
    liveness = group.liveness()
    for name in "bcbcbc":
        group.now += 0.5
        liveness.on_heartbeat(name, "http://same")
    for name in "bcb":
        group.now += 0.5
        liveness.on_heartbeat(name, "http://same")
        assert set(liveness.others()) == {"b", "c"}
    assert "several workers have the address http://same: give each a rest.advertised.host.name" in str(
        liveness.problem
    )
    liveness.on_heartbeat("d", "http://other")
    group.now += SESSION - 0.1
    liveness.on_heartbeat("b", "http://same")
    group.now += 0.2
    assert (set(liveness.others()), liveness.problem) == ({"b"}, None)


def test_workers_without_an_address_do_not_take_each_others_place() -> None:
    """They have no REST interface."""
    liveness = Group().liveness()
    liveness.on_heartbeat("a", None)
    liveness.on_heartbeat("b", None)

    assert set(liveness.others()) == {"a", "b"}


def test_a_new_leader_waits_for_the_others_but_shortly_for_the_one_before() -> None:
    """And not at all for one that it has seen go."""
    group = Group()
    liveness = group.liveness()
    liveness.on_refused("gone")
    liveness.expect(workers("old", me=(), old=(), other=(), gone=()))

    assert set(liveness.others()) == {"old", "other"}
    group.now += 3.1
    assert set(liveness.others()) == {"other"}
    group.now += SESSION
    assert liveness.others() == {}


def test_who_leads_again_waits_for_the_others_as_a_new_leader_does() -> None:
    """What it heard of them while it led the last time is old: their heartbeats were another's since."""
    group = Group()
    liveness = group.liveness()
    for name in ("other", "old"):
        liveness.on_heartbeat(name, f"http://{name}")
    group.now += SESSION + 2
    liveness.expect(workers("old", me=(), old=(), other=()))

    assert set(liveness.others()) == {"old", "other"}
    liveness.on_heartbeat("old", "http://old")
    group.now += 3.1
    liveness.expect(workers("old", me=(), old=(), other=()))
    group.now += SESSION - 3.2
    assert set(liveness.others()) == {"old", "other"}
    group.now += 3.2
    assert liveness.others() == {}


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_a_dead_worker_is_missed_though_the_lead_changes_faster_than_a_session(turns: int) -> None:
    """One that takes it again knows how long it was silent before, and one that lives has time to say so."""
    group = Group()
    names = [f"l{number}" for number in range(turns)]
    living = {name: group.liveness(name) for name in names}
    before, leads = workers("old", **dict.fromkeys([*names, "dead", "alive"], ())), 0
    while "dead" in before.workers:
        leads += 1
        assert leads <= 3 * turns
        leader = names[leads % turns]
        living[leader].expect(before)
        for second in range(7):
            group.now += 1
            if second == 1:
                living[leader].on_heartbeat("alive", "http://alive")
            others = living[leader].others()
            assert "alive" in others
            before = workers(leader, **dict.fromkeys({*names, *others}, ()))
    assert leads > turns


def test_how_long_one_was_silent_before_a_lead_was_lost_counts_and_what_came_then_does_not() -> None:
    """But it has a few seconds at least: it may still tell the one that led."""
    group = Group()
    liveness = group.liveness()
    for name in ("a", "b"):
        liveness.on_heartbeat(name, f"http://{name}")
    group.now += SESSION - 1
    liveness.on_heartbeat("b", "http://b")
    assert set(liveness.others()) == {"a", "b"}
    group.now += SESSION - 1
    liveness.expect(workers("me", me=(), a=(), b=()))
    group.now += 2.9
    assert set(liveness.others()) == {"a", "b"}
    group.now += 0.2
    assert set(liveness.others()) == {"b"}
    group.now += SESSION - 3.2
    assert set(liveness.others()) == {"b"}


def test_whom_another_leader_has_missed_is_not_given_work_again() -> None:
    """One that leads again would still count it as living, for as long as its own session lasts."""
    group = Group()
    liveness = group.liveness()
    for name in ("a", "b"):
        liveness.on_heartbeat(name, f"http://{name}")
    assert set(liveness.others()) == {"a", "b"}
    group.now += 4
    liveness.expect(workers("b", me=(), b=()))
    assert set(liveness.others()) == {"b"}


def test_what_was_long_ago_is_no_reason_to_wait_less() -> None:
    """It lived with others in between."""
    group = Group()
    liveness = group.liveness()
    liveness.on_heartbeat("a", "http://a")
    group.now += SESSION - 1
    assert set(liveness.others()) == {"a"}
    group.now += 3 * SESSION + 1
    liveness.expect(workers("b", me=(), a=()))
    group.now += SESSION - 1
    assert set(liveness.others()) == {"a"}


def test_a_worker_that_refused_once_and_lives_again_is_waited_for() -> None:
    """Its heartbeat tells; until then it is gone."""
    liveness = Group().liveness()
    before = workers("me", me=(), other=())
    liveness.on_refused("other")
    liveness.expect(before)
    assert liveness.others() == {}

    liveness.on_heartbeat("other", "http://other")
    liveness.on_leaving("other")
    liveness.expect(before)
    assert set(liveness.others()) == {"other"}


def test_what_a_gone_leader_had_is_joined_for_before_there_is_a_new_one() -> None:
    """By each worker what will be its own: all of it together, nothing twice, what each has among it."""
    group = Group()
    before = workers("l", l=("a", "b", "c"), m=("d", "e"), n=("f", "g"))
    records = set("abcdefg")
    found = {}
    for name in ("m", "n"):
        liveness = group.liveness(name)
        assert liveness.adopted(before, records) == ()
        liveness.on_refused("l")
        found[name] = set(liveness.adopted(before, records))

    assert found["m"] | found["n"] == records
    assert not found["m"] & found["n"]
    assert found["m"] >= {"d", "e"}
    assert found["n"] >= {"f", "g"}


def test_nothing_is_joined_for_once_the_leader_answers_or_another_leads() -> None:
    """What was refused once may have been a mistake."""
    liveness = Group().liveness("m")
    before = workers("l", l=("a",), m=("b",))
    liveness.on_refused("l")
    assert liveness.adopted(before, {"a", "b"}) == ("a", "b")

    assert liveness.adopted(workers("m", m=("b",)), {"a", "b"}) == ()
    liveness.on_answered("l")
    assert liveness.adopted(before, {"a", "b"}) == ()
    assert liveness.adopted(None, {"a"}) == ()


def test_only_a_refused_connection_says_that_nobody_is_there() -> None:
    """A listener does not."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert not refuses_connections(f"http://127.0.0.1:{port}")
    assert refuses_connections(f"http://127.0.0.1:{port}")


@dataclass
class Brokers:
    """A clock, and brokers that answer or do not."""

    now: float = 100.0
    answer: bool = True
    asked: int = 0

    def ask(self) -> None:
        """As `KafkaAdmin` does."""
        self.asked += 1
        if not self.answer:
            raise Unavailable("the brokers did not answer.")

    def contact(self) -> BrokerContact:
        """Of a worker with these brokers."""
        return BrokerContact(self.ask, session_seconds=SESSION, clock=lambda: self.now)

    def pass_by(self, contact: BrokerContact, seconds: int) -> None:
        """Look every second."""
        for _ in range(seconds):
            self.now += 1
            contact.look()


def test_brokers_that_are_silent_for_a_session_are_a_problem() -> None:
    """Not before, and no more once they answer; they are asked every other second."""
    brokers = Brokers()
    contact = brokers.contact()
    brokers.pass_by(contact, 10)
    assert (brokers.asked, contact.problem) == (5, None)
    brokers.answer = False
    brokers.pass_by(contact, 9)
    assert contact.problem is None
    brokers.pass_by(contact, 1)
    assert "the brokers did not answer" in str(contact.problem)
    brokers.answer = True
    brokers.pass_by(contact, 2)
    assert contact.problem is None


def test_after_a_lead_is_lost_the_first_answer_tells() -> None:
    """Its session is over already: without an answer there is nothing more to wait for."""
    for answer in (True, False):
        brokers = Brokers(answer=answer)
        contact = brokers.contact()
        contact.on_heard()
        contact.on_lost()
        assert contact.problem is None
        contact.look()
        assert (contact.problem is None) is answer


def test_a_worker_is_told_why_the_leading_one_refuses_it() -> None:
    """Passwords are one reason; what a proxy does to a request is another."""
    said = {status: refusal_of("http://a:1", status) for status in HTTPStatus}
    assert {status for status, sentence in said.items() if sentence} == {401, 403}
    assert "rest.auth.file has to be the same" in str(said[HTTPStatus.UNAUTHORIZED])
    assert "has to keep Host, and may add no Origin" in str(said[HTTPStatus.FORBIDDEN])
