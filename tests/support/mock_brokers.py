"""librdkafka's own mock of a cluster, offering the requests that a broker of some age offers."""

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Producer

from headrace.kafka.librdkafka import handle_of, library

_POINTER: Final = ctypes.c_void_p
_SIGNATURES: Final[Mapping[str, tuple[Any, list[Any]]]] = {
    "rd_kafka_mock_cluster_new": (_POINTER, [_POINTER, ctypes.c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [_POINTER]),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [_POINTER]),
    "rd_kafka_mock_set_controller_id": (ctypes.c_int, [_POINTER, ctypes.c_int32]),
    "rd_kafka_mock_broker_set_rtt": (ctypes.c_int, [_POINTER, ctypes.c_int32, ctypes.c_int]),
    "rd_kafka_mock_set_apiversion": (ctypes.c_int, [_POINTER, *[ctypes.c_int16] * 3]),
}


@contextmanager
def mock_brokers(highest: Mapping[int, int], *, answers_after_ms: int = 0) -> Iterator[str]:
    """The address of a broker with these highest versions, by API key; -1: it has no such request."""
    loaded = library()
    assert loaded is not None, "the wheel's librdkafka is loaded"
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    # The mock lives in a client; this one asks nobody anything.
    owner = Producer({"log_level": 0})
    cluster = loaded.rd_kafka_mock_cluster_new(handle_of(owner), 1)
    try:
        loaded.rd_kafka_mock_set_controller_id(cluster, 1)
        loaded.rd_kafka_mock_broker_set_rtt(cluster, 1, answers_after_ms)
        for key, version in highest.items():
            least = -1 if version < 0 else 0
            assert loaded.rd_kafka_mock_set_apiversion(cluster, key, least, version) == 0
        yield loaded.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    finally:
        loaded.rd_kafka_mock_cluster_destroy(cluster)
        owner.flush(0)
