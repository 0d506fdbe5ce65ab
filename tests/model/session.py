"""The owner of a direct session, and Kafka's coordinator: what either may do next."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.world import Coordinator, Request, Rules, World, put

Steps = Iterator[tuple[str, World]]

ENDED = ("empty", "done")
RECORDS = {"F": "final", "O": "delivered op"}


def owner_steps(world: World, rules: Rules) -> Steps:
    """Yield what the owner may do; it may stop anywhere, for ever or for a while."""
    if not world.alive:
        for half, truth in enumerate(world.truths):
            if truth == "?":  # the database rolls back what its client left open
                yield f"rolled back {half}", world._replace(truths=put(world.truths, half, "r"))
        return
    for half in range(rules.halves):
        yield from _with_one_half(world, rules, half)
    yield from _with_the_transaction(world, rules)
    yield "owner dies", world._replace(alive=False)


def _with_one_half(world: World, rules: Rules, half: int) -> Steps:
    step, truth = world.steps[half], world.truths[half]
    if step == "run" and not (rules.coarse and "run" in world.steps[:half]):
        done = world._replace(truths=put(world.truths, half, "c"))
        then = "plain" if world.stage == "over" else "queue"
        yield f"local commit {half}", done._replace(steps=put(world.steps, half, then))
        if not rules.coarse:
            yield f"commit, UNKNOW {half}", done._replace(steps=put(world.steps, half, "done"))
        undone = world._replace(truths=put(world.truths, half, "r"))
        yield f"local rollback {half}", undone._replace(steps=put(world.steps, half, "plain"))
    if step == "plain":
        if not rules.coarse:
            lost = put(world.steps, half, "done")
            yield f"plain op of {half} is lost", world._replace(steps=lost)
        yield f"plain op of {half}", _said(world, half)
    if world.requests[half] and truth != "?" and step != "deliver":
        taken = put(world.requests, half, world.requests[half] - 1)
        yield f"owner answers for {half}", _said(world._replace(requests=taken), half)


def _said(world: World, half: int) -> World:
    verdict = "commit" if world.truths[half] == "c" else "rollback"
    entry = (verdict, 1, (half,), "owner")
    return world._replace(steps=put(world.steps, half, "done"), ops=(*world.ops, entry))


def _with_the_transaction(world: World, rules: Rules) -> Steps:
    number = world.number - 1
    queue = tuple(half for half, step in enumerate(world.steps) if step == "queue")
    if world.stage == "idle" and queue:
        steps = tuple("deliver" if half in queue else one for half, one in enumerate(world.steps))
        begun = world._replace(
            steps=steps, group=queue, number=number + 2, groups=(*world.groups, queue)
        )
        yield f"owner begins {queue}", _sent_first(begun, rules)
    if world.stage == "producing" and len(world.acked) == 2:
        ending = world._replace(stage="ending")
        yield "owner commits", _sent(ending, "end") if rules.waits_for_acks else ending
    if world.stage == "ending" and not world.resent and rules.waits_for_acks:
        yield "owner commits again", _sent(world._replace(resent=True), "end")
    if world.stage in ("adding", "producing", "ending") and rules.gives_up_for_good:
        yield "owner gives up", given_up(world)
    if world.stage == "starting":
        coordinator, is_done = init_producer_id(world.coordinator)
        if coordinator is not None:
            stage, epoch = ("idle", coordinator.epoch) if is_done else ("starting", world.epoch)
            yield (
                "owner starts again",
                world._replace(coordinator=coordinator, stage=stage, epoch=epoch),
            )


def _sent_first(world: World, rules: Rules) -> World:
    if rules.second_protocol:
        return _produced(world, rules)
    return _sent(world._replace(stage="adding"), "add")


def _produced(world: World, rules: Rules) -> World:
    world = _sent(world._replace(stage="producing"), "F")
    world = _sent(world, "O") if rules.op_in_transaction else world._replace(acked="O")
    # Left out: to wait for the acknowledgements. The commit is queued behind the records.
    return world if rules.waits_for_acks else _sent(world, "end")


def _sent(world: World, kind: str) -> World:
    request = (kind, world.epoch, world.number - 1)
    return world._replace(wire=tuple(sorted((*world.wire, request))))


def given_up(world: World) -> World:
    """Return the owner without its session: what it had takes the plain way."""
    steps = tuple("plain" if one in ("deliver", "queue") else one for one in world.steps)
    return world._replace(steps=steps, stage="over", group=(), acked="", resent=False)


def init_producer_id(coordinator: Coordinator) -> tuple[Coordinator | None, bool]:
    """Return what one InitProducerId makes of the coordinator, and whether it succeeded.

    None where the answer is to come back later.
    """
    if coordinator.state in ENDED:
        return Coordinator(epoch=coordinator.epoch + 1), True
    if coordinator.state == "ongoing":
        epoch = coordinator.epoch + 1
        return coordinator._replace(epoch=epoch, state="aborting", due="FO"), False
    return None, False


def kafka_steps(world: World, rules: Rules) -> Steps:
    """Yield what the brokers may do: take a request, write a marker, time out."""
    for request in dict.fromkeys(world.wire):
        at = world.wire.index(request)
        left = world._replace(wire=world.wire[:at] + world.wire[at + 1 :])
        if request[0] == "add":
            yield from _add(left, rules, request)
        elif request[0] == "end":
            yield from _end(left, rules, request)
        else:
            yield from _store(left, rules, request)
    coordinator = world.coordinator
    if coordinator.state in ("committing", "aborting"):
        for places in (coordinator.due,) if rules.coarse else coordinator.due:
            yield f"marker on {places}", _marked(world, places)
    if coordinator.state == "adding":
        added = world._replace(coordinator=coordinator._replace(state="ongoing"))
        yield "added, answer lost", added
        if _waits(world, ("add", coordinator.epoch, coordinator.number), "adding"):
            yield "added", _produced(added, rules)
    if coordinator.state == "ongoing":
        aborting = coordinator._replace(epoch=coordinator.epoch + 1, state="aborting", due="FO")
        yield "timeout", world._replace(coordinator=aborting)


def _waits(world: World, request: Request, *stages: str) -> bool:
    """Tell whether the owner still waits for the answer to that request."""
    return world.alive and world.stage in stages and request[2] == world.number - 1


def _add(left: World, rules: Rules, request: Request) -> Steps:
    _, epoch, number = request
    coordinator = left.coordinator
    if epoch != coordinator.epoch:
        yield "adding refused", _refused(left, rules, request, "adding")
    elif coordinator.state in ENDED:
        # Meanwhile the coordinator tells everybody to come back later, and forgets that they came.
        yield "adding", left._replace(coordinator=Coordinator(epoch, "adding", number))
    else:  # concurrent: it is sent again
        return


def _refused(left: World, rules: Rules, request: Request, *stages: str) -> World:
    if not _waits(left, request, *stages):
        return left
    if rules.gives_up_for_good:
        return given_up(left)
    # Left out: that a session is over once it is fenced. "So it was not delivered: once more."
    steps = tuple("queue" if one == "deliver" else one for one in left.steps)
    return left._replace(steps=steps, stage="starting", group=(), acked="", resent=False)


def _store(left: World, rules: Rules, request: Request) -> Steps:
    kind, epoch, number = request
    coordinator = left.coordinator
    is_own = coordinator.state == "ongoing" and coordinator.number == number
    if epoch == coordinator.epoch and rules.second_protocol and coordinator.state in ENDED:
        coordinator, is_own = Coordinator(epoch, "ongoing", number), True
    if epoch != coordinator.epoch or not is_own:
        yield f"{RECORDS[kind]} refused", _refused(left, rules, request, "producing")
        return
    halves = left.groups[number]
    stored = left._replace(coordinator=coordinator)
    if kind == "F":
        stored = stored._replace(finals=(*left.finals, (number, halves, "?")))
    else:
        stored = stored._replace(ops=(*left.ops, ("delivered", number, halves, "?")))
    if _waits(left, request, "producing"):
        stored = stored._replace(acked="".join(sorted(left.acked + kind)))
    yield f"{RECORDS[kind]} stored", stored


def _end(left: World, rules: Rules, request: Request) -> Steps:
    if not rules.waits_for_acks and any(one[2] == request[2] for one in left.wire):
        return  # the client's own order
    coordinator = left.coordinator
    own = request[1]
    if rules.second_protocol and coordinator.state not in ("ongoing", "empty"):
        own += 1  # each end has raised the epoch: one that is sent again is known by that
    if own != coordinator.epoch:
        answer = "fenced"
    elif coordinator.state == "ongoing":
        epoch = coordinator.epoch + rules.second_protocol
        ending = coordinator._replace(epoch=epoch, state="committing", due="FO", committed=True)
        left, answer = left._replace(coordinator=ending), "ok"
    elif coordinator.state in ("adding", "committing", "aborting"):
        return  # concurrent: it is sent again
    else:
        answer = "ok" if coordinator.state == "done" and coordinator.committed else "invalid"
    yield f"commit {answer}, answer lost", left
    if _waits(left, request, "ending"):
        yield f"commit {answer}", _told(left, rules, request, answer)


def _told(left: World, rules: Rules, request: Request, answer: str) -> World:
    if answer != "ok":
        return _refused(left, rules, request, "ending")
    # Left out: the op inside the transaction. Then it follows the commit.
    then = "done" if rules.op_in_transaction else "plain"
    steps = tuple(then if one == "deliver" else one for one in left.steps)
    told = left._replace(steps=steps, group=(), acked="", resent=False)
    if left.resent and rules.drops_retried_sessions:
        return given_up(told)
    return told._replace(stage="idle", epoch=left.coordinator.epoch)


def _marked(world: World, places: str) -> World:
    coordinator = world.coordinator
    mark = "c" if coordinator.state == "committing" else "a"
    if "F" in places:
        finals = tuple((*one[:2], mark) if one[2] == "?" else one for one in world.finals)
        world = world._replace(finals=finals)
    if "O" in places:
        ops = tuple((*one[:3], mark) if one[3] == "?" else one for one in world.ops)
        world = world._replace(ops=ops)
    due = "".join(one for one in coordinator.due if one not in places)
    state = coordinator.state if due else "done"
    return world._replace(coordinator=coordinator._replace(state=state, due=due))
