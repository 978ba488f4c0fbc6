"""JSON without a schema, of more shapes than are kept: which values come into an object of a kind."""

import json
import random
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from headrace.formats.converters.inferred_column import InferredColumn, inferred_column
from headrace.formats.converters.json_inference import read, settled
from headrace.formats.converters.typed_columns import RowFaults
from headrace.model.columns import column_of

_OPTIONAL: Final = [f"option_{index}" for index in range(16)]
_ROWS: Final = 10_000
_FIRST_NEW: Final = 9_950


def _values(seed: int) -> InferredColumn:
    """Values of nearly as many shapes as there are; from one on they have a member more."""
    chance = random.Random(seed)
    texts = []
    for row in range(_ROWS):
        members = {name: 1 for name in _OPTIONAL if chance.random() < 0.5}
        if row >= _FIRST_NEW:
            members["new_member"] = row
        texts.append(json.dumps({"id": row, "members": members or {"option_0": 1}}).encode())
    rows, values = inferred_column(column_of(texts), pa.null(), RowFaults())
    assert np.array_equal(rows, np.arange(_ROWS))
    return values


@pytest.mark.parametrize("seed", [0, 2])
def test_values_with_a_new_member_do_not_fit_whatever_was_forgotten_before(seed: int) -> None:
    """A shape that is read again may get the place in memory of another one, which did fit."""
    whole = {"id": 1, "members": dict.fromkeys(_OPTIONAL, 1)}
    kind = settled(read(json.dumps(whole).encode())[1])
    values = _values(seed)

    fit = values.fit(kind, 0)

    assert fit.rows == _FIRST_NEW
    assert len(values.take(slice(0, fit.rows)).arrow_as(kind)) == _FIRST_NEW
