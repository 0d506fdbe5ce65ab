"""Direct delivery, exhaustively: the protocol holds in every order of events, and needs all of it.

Small systems, but every interleaving: an owner that may stop, lose answers and wake up again, the
coordinator with its epochs and markers, a process that answers for it, the pipeline with replays.
The pipeline judges by the one table of transitions (state/transitions.py).
"""

from __future__ import annotations

import pytest
from tests.model.explore import explore, has_cycle
from tests.model.world import Rules

TWO = Rules(halves=2, crashes=0, coarse=True, due_half=1)
HOLDS = {
    "first protocol of Kafka": Rules(),
    "second protocol of Kafka": Rules(second_protocol=True),
    "the half is read after its op": Rules(late_half=True, crashes=0),
    "two halves": TWO,
    "two halves, second protocol": TWO._replace(second_protocol=True),
    "an old client answers, and is not believed": Rules(fences=False, old_answerer=True),
}
MUTATIONS = {
    "nobody fences": Rules(fences=False),
    "nobody fences, second protocol": Rules(fences=False, second_protocol=True),
    "the fence follows the answer": Rules(fences_first=False),
    "an old client is believed": Rules(fences=False, old_answerer=True, guards=False),
    "the answer passes the ops before it": Rules(answers_on_topic=False),
    "concurrent is taken for fenced": Rules(waits_for_fence=False),
    "the commit does not wait for the records": Rules(waits_for_acks=False),
    "fenced, so once more": Rules(gives_up_for_good=False),
    "the op follows the transaction": Rules(op_in_transaction=False),
    "the delivered op is not kept": Rules(late_half=True, keeps_delivered_ops=False),
    "a discard without a fence": Rules(fences_before_discard=False),
    "ops are read before they are committed": Rules(reads_committed=False),
    "a session goes on after a retried commit": TWO._replace(drops_retried_sessions=False),
}


@pytest.mark.parametrize("name", HOLDS)
def test_the_protocol_holds(name: str) -> None:
    found = explore(HOLDS[name])

    assert found.said == "", found.way
    # All that can become of a half is in the model.
    assert found.ends == {"delivered", "by the sink", "discarded", "not visible"}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_left_out_is_missed(name: str) -> None:
    found = explore(MUTATIONS[name])

    assert found.said != ""


def test_nothing_goes_on_for_ever() -> None:
    assert not has_cycle(Rules(crashes=0))
