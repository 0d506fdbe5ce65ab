"""The pipeline and a process that answers for another one: what either may do next."""

from __future__ import annotations

from tests.model.session import Steps, init_producer_id
from tests.model.world import Batch, Entry, Rules, World, put

from checkback.state.transitions import TRANSITIONS, Effect, Event, Phase


def answerer_steps(world: World, rules: Rules) -> Steps:
    """Yield what another process of the group may do about a check request."""
    if world.answering is None:
        for half, number in enumerate(world.requests):
            if number:
                yield from _take_request(world, rules, half)
        return
    half, verdict, stage = world.answering
    if stage == "fence":
        coordinator, is_done = init_producer_id(world.coordinator)
        then = (half, verdict, "say") if rules.fences_first else None
        if coordinator is not None:
            goes_on = is_done or not rules.waits_for_fence
            answering = then if goes_on else world.answering
            yield "fence", world._replace(coordinator=coordinator, answering=answering)
        elif not rules.waits_for_fence:
            yield "concurrent, taken for fenced", world._replace(answering=then)
    else:
        entry = (verdict, int(not rules.old_answerer), (half,), "other")
        late = rules.fences and not rules.fences_first
        answering = (half, verdict, "fence") if late else None
        yield f"answer {verdict}", world._replace(ops=(*world.ops, entry), answering=answering)
    if not rules.coarse:
        yield "answerer dies", world._replace(answering=None)


def _take_request(world: World, rules: Rules, half: int) -> Steps:
    taken = world._replace(requests=put(world.requests, half, world.requests[half] - 1))
    truth = world.truths[half]
    if truth == "?":
        yield f"check of {half}: unknown", taken
        return
    stage = "fence" if rules.fences and rules.fences_first else "say"
    verdict = "commit" if truth == "c" else "rollback"
    yield f"check of {half}: {verdict}", taken._replace(answering=(half, verdict, stage))


def pipeline_steps(world: World, rules: Rules) -> Steps:
    """Yield what the pipeline may do: read, run a batch, die in it and replay it."""
    if world.batch is not None:
        yield from _in_batch(world, rules, world.batch)
        return
    for half, seen in enumerate(world.seen):
        if not seen:
            read = world._replace(seen=put(world.seen, half, True))
            yield f"half {half} read", _apply(read, half, Event.DELIVERED, world.waits[half])
    if not rules.answers_on_topic:
        for entry in world.ops[world.read :]:
            if entry[3] == "other":  # left out: that answers are read in their place
                yield "answer believed at once", _judged(world, rules, entry)
    limit = readable(world) if rules.reads_committed else len(world.ops)
    for end in (limit,) if rules.coarse else range(world.read, limit + 1):
        yield from _batches(world, rules, end)


def readable(world: World) -> int:
    """Return up to where a reader of committed records gets."""
    marks = [entry[3] for entry in world.ops]
    return marks.index("?") if "?" in marks else len(marks)


def _batches(world: World, rules: Rules, end: int) -> Steps:
    after = _read(world, rules, end)
    if end > world.read:
        yield f"batch to {end}", after
    for half, phase in enumerate(after.phases):
        is_due = phase == Phase.PENDING and after.seen[half] and not after.fencing[half]
        if not is_due or rules.due_half not in (None, half):
            continue
        if after.asked[half] < rules.checks:
            yield f"batch to {end}, check of {half}", _asked(after, half)
        elif rules.fences_before_discard:
            planned = Batch(end, half, fenced=False)
            yield f"batch to {end}, fence for {half}", world._replace(batch=planned)
        else:
            gone = put(after.phases, half, Phase.DISCARDED)
            yield f"batch to {end}, discard of {half}", after._replace(phases=gone)


def _asked(world: World, half: int) -> World:
    asked = put(world.asked, half, world.asked[half] + 1)
    return world._replace(asked=asked, requests=put(world.requests, half, world.requests[half] + 1))


def _in_batch(world: World, rules: Rules, batch: Batch) -> Steps:
    if not batch.fenced:
        coordinator, is_done = init_producer_id(world.coordinator)
        if coordinator is not None:
            fencing = batch._replace(fenced=is_done)
            yield "sink fences", world._replace(coordinator=coordinator, batch=fencing)
    elif batch.due is not None:
        after = _read(world, rules, batch.end)
        told = (*after.ops, ("fenced", 0, (batch.due,), "sink"))
        fencing_now = put(after.fencing, batch.due, True)
        yield "batch ends, fence told", after._replace(ops=told, fencing=fencing_now, batch=None)
    if world.crashes:
        again = batch._replace(fenced=False)
        yield "pipeline dies", world._replace(crashes=world.crashes - 1, batch=again)


def _read(world: World, rules: Rules, end: int) -> World:
    """Return the world with the ops read up to there, judged by the table of the pipeline."""
    for entry in world.ops[world.read : end]:
        world = _judged(world, rules, entry)
    return world._replace(read=max(world.read, end))


def _judged(world: World, rules: Rules, entry: Entry) -> World:
    kind, closed, halves, mark = entry
    if mark == "a":
        return world
    for half in halves:
        if kind == "delivered" and not world.seen[half]:
            keeps = rules.keeps_delivered_ops or world.waits[half]
            world = world._replace(waits=put(world.waits, half, keeps))
        elif world.seen[half]:
            is_open = rules.guards and not closed and kind in ("commit", "rollback")
            world = _apply(world, half, Event.UNKNOWN if is_open else Event[kind.upper()])
    return world


def _apply(world: World, half: int, event: Event, happens: bool = True) -> World:
    if not happens:
        return world
    phase, effect, _ = TRANSITIONS[world.phases[half], event]
    if effect == Effect.COMMIT:
        world = world._replace(written=put(world.written, half, world.written[half] + 1))
    if effect == Effect.REFUSE_DELIVERED:
        return world._replace(alarm="a delivered op meets another verdict")
    return world._replace(phases=put(world.phases, half, phase))
