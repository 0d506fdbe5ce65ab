"""Times from commit to visible message."""

from __future__ import annotations

import numpy as np
import pytest
from bench.runs.probe import Visibility

from checkback.protocol.errors import OperationalError


def test_a_quantile_counts_only_what_was_committed_in_the_span() -> None:
    seen = Visibility(np.array([1_000.0, 2_000, 3_000]), np.array([1_100.0, 2_300, 9_000]))
    assert seen.between(1_000, 3_000).quantile_ms(0.5) == 200
    assert seen.between(2_000, 2_500).quantile_ms(0.99) == 300


@pytest.mark.parametrize(("sent_ms", "seen_ms"), [([], []), ([1_000.0, 2_000], [1_100, np.nan])])
def test_without_every_message_there_is_no_quantile(
    sent_ms: list[float], seen_ms: list[float]
) -> None:
    with pytest.raises(OperationalError, match="did not become visible"):
        Visibility(np.array(sent_ms), np.array(seen_ms)).quantile_ms(0.5)
