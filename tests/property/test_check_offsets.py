"""A commit never passes a request that is still in work."""

from hypothesis import given
from hypothesis import strategies as st

from checkback.client.checks.service import CheckOffsets


def test_an_offset_of_somebody_else_is_ignored() -> None:
    offsets = CheckOffsets()
    offsets.finished(3)
    assert offsets.committable() is None


@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.data())
def test_it_is_the_least_unfinished_or_the_end(started: list[int], data: st.DataObject) -> None:
    offsets = CheckOffsets()
    started.sort()
    for offset in started:
        offsets.started(offset)
    finished = data.draw(st.sets(st.sampled_from(started)))
    for offset in finished:
        offsets.finished(offset)
        offsets.committable()
    unfinished = [offset for offset in started if offset not in finished]
    assert offsets.committable() == (min(unfinished) if unfinished else started[-1] + 1)
