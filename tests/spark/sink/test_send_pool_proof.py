"""A proof that calls in other threads wait for: given by the slot's thread, after they have asked."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.model.errors import Fenced
from headrace.s3.client import UploadEnded
from spark.sink.send_pool import Proof
from tests.support.until import until_sync


def test_who_waits_goes_on_once_the_slots_thread_has_proved() -> None:
    """Not by a proof that was given before: it says nothing of what happened since."""
    given: list[int] = []
    proof = Proof(lambda: given.append(1))
    proof.serve()
    assert not given
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(proof.wait) for _ in range(2)]

        def all_are_served() -> bool:
            proof.serve()
            return all(one.done() for one in waiting)

        until_sync(all_are_served)
        assert 1 <= len(given) <= len(waiting)
        later = pool.submit(proof.wait)
        before = len(given)

        def is_served_again() -> bool:
            proof.serve()
            return later.done()

        until_sync(is_served_again)
        assert len(given) == before + 1


def test_a_slot_that_is_refused_lets_nobody_go_on() -> None:
    """The refusal is the slot's to end with; who waits is told when the slot closes."""

    def refuse() -> None:
        raise Fenced("given up")

    proof = Proof(refuse)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(proof.wait)

        def is_refused() -> bool:
            try:
                proof.serve()
            except Fenced:
                return True
            return False

        until_sync(is_refused)
        assert not waiting.done()
        proof.close()
        with pytest.raises(UploadEnded):
            waiting.result(60)
