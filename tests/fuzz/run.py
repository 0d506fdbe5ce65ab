"""A fuzz run: healthy and hostile records into a real job, all accounted for in the end."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from tests.deciding import decided_op
from tests.fuzz.altering import Altering
from tests.fuzz.audit import Written, faults
from tests.fuzz.halves import HalfMaker
from tests.fuzz.ops import OpMaker
from tests.fuzz.places import HALF_PARTITIONS, HEALTHY_GROUP, create_places, fuzz_settings
from tests.fuzz.records import (
    NOWHERE,
    OP_AT_MOST_REFUSED,
    Expected,
    Fate,
    Moment,
    Place,
    Record,
    Said,
    Transaction,
)
from tests.fuzz.talks import COMMIT, OP_OF_NO_HALF
from tests.fuzz.transacting import Transacting
from tests.fuzz.witness import Origin, Witness
from tests.fuzz.writing import Writer, writer_of
from tests.integration.relay.relaying import relay_process
from tests.integration.running import Pipeline, Topics, wait_until

VISIBLE_WITHIN_S: Final = 120.0
"""The first two batches of a JVM took 73 s where two other test processes had the cores as well."""
LONG_RECORDS: Final = 100_000
"""A run of a million had batches of up to 29 s. Four fifths of the sink's time were look-ups of
halves that stand far apart: for checks, which have 2 s of a batch, and for discards."""
LONG_VISIBLE_WITHIN_S: Final = 180.0
VERDICT_RETENTION_MS: Final = 20_000
"""Every run waits for so long, until ops without a half are refused."""
LONG_VERDICT_RETENTION_MS: Final = 60_000
"""Longer than a batch: after one of 28 s the pipeline had forgotten the verdict that the next
batch's ops said again, and refused them. So it should, but the audit does not know it."""
ACCOUNTED_WITHIN_S: Final = 120.0
ABORTED_SHARE: Final = 0.2
"""Of the rounds: some halves before the others are written in a transaction, mostly aborted."""
ROUND: Final = 250
"""Transactions that are written together."""
OUTSTANDING_MAX: Final = 2_000
"""Healthy transactions that may be under way: the job is asked for no more than it can do."""
HEALTHY_SHARE: Final = 0.4


@dataclass
class FuzzRun:
    """One run; `go` says what was seen.

    Args:
        bootstrap_servers: the broker.
        prefix: of the topics.
        folder: of checkpoint and logs.
        seed: decides what is written. With an even one the job keeps a ledger.
        records: how many.
        relay: whether a relay runs beside the job.
    """

    bootstrap_servers: str
    prefix: str
    folder: Path
    seed: int
    records: int
    relay: bool = False
    written: dict[Origin, Written] = field(default_factory=dict)
    healthy: dict[Origin, float] = field(default_factory=dict)
    _unseen: set[Origin] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.topics = Topics(self.bootstrap_servers, self.prefix)
        ledger = None if self.seed % 2 else self.folder / "ledger"
        retention_ms = LONG_VERDICT_RETENTION_MS if self._is_long else VERDICT_RETENTION_MS
        folder = self.folder / "checkpoint"
        made = fuzz_settings(self.topics, folder, ledger, retention_ms)
        self.settings = replace(made, relay=self.relay, application_id=self.prefix)
        self.places = create_places(self.topics, self.settings)
        chance = Random(self.seed)
        self.chance = chance
        self.half_maker = HalfMaker(chance, self.places, self.topics.names)
        self.op_maker = OpMaker(chance)
        self.writer = Writer(self.topics, self._stored)
        self.transacting = Transacting(self.topics, self._stored)
        self.altering = Altering(self.settings, self.places, chance)
        self.next_offset: Counter[int] = Counter()

    def go(self) -> str:
        """Write all records beside the running job, and audit what became of each.

        Raises:
            AssertionError: something is lost, twice, late or in the wrong place, or the job ended.
        """
        try:
            return self._go()
        except BaseException as error:
            again = f"python -m tests.fuzz {self.seed} --records {self.records}"
            again += " --relay" if self.relay else ""
            error.add_note(f"Repeat it by: {again}")
            raise
        finally:
            self.writer.close()
            self.transacting.close()

    def _go(self) -> str:
        began_s = time.monotonic()
        with Pipeline(self.settings, self.folder) as pipeline:
            pipeline.wait_for("started")
            pid = pipeline.pid
            with ExitStack() as stack, Witness(self.topics, self.places) as witness:
                relay = self._start_relay(stack)
                wrote_s = self._write_all(pipeline, witness)
                self._await_all(pipeline, witness)
                assert relay is None or relay.terminate() == 0, relay.errors()
                assert pipeline.terminate() == 0, pipeline.errors()
            assert pipeline.pid == pid
            events = Counter(event["event"] for event in pipeline.drain())
        assert (events["started"], events["stopped"]) == (1, 1), events
        slowest_s = self._audit(witness)
        return self._summary(witness, wrote_s, time.monotonic() - began_s, slowest_s)

    def _start_relay(self, stack: ExitStack) -> Pipeline | None:
        if not self.relay:
            return None
        relay = stack.enter_context(relay_process(self.settings, self.folder / "relay"))
        relay.wait_for("started")
        return relay

    @property
    def _is_long(self) -> bool:
        return self.records >= LONG_RECORDS

    def _write_all(self, pipeline: Pipeline, witness: Witness) -> float:
        began_s = time.monotonic()
        while len(self.written) < self.records:
            self._write_round()
            assert pipeline.is_alive, pipeline.errors()
            wait_until(
                lambda: self._outstanding(witness) < OUTSTANDING_MAX or not pipeline.is_alive,
                timeout_s=ACCOUNTED_WITHIN_S,
                what="healthy transactions to become visible",
            )
        return time.monotonic() - began_s

    def _outstanding(self, witness: Witness) -> int:
        for origin in [one for one in self._unseen if one in witness.seen]:
            self._unseen.discard(origin)
        return len(self._unseen)

    def _write_round(self) -> None:
        self.altering.perhaps()
        others = self._halves_in_transactions() if self.chance.random() < ABORTED_SHARE else []
        made = [self._make() for _ in range(ROUND)]
        made.sort(key=lambda one: writer_of(one.half))
        offsets = [self._take_offset(one.half.partition) for one in made]
        others += self._strays()
        early = self._ops(made, offsets, Moment.BEFORE_HALF)
        self.writer.write(early + others)
        self.writer.write([one.half for one in made])
        self._expect_offsets(made, offsets)
        self.transacting.write_ops(self._ops(made, offsets, Moment.TAKEN_BACK), is_kept=False)
        self.transacting.write_ops(self._ops(made, offsets, Moment.COMMITTED), is_kept=True)
        self.writer.write(self._ops(made, offsets, Moment.AFTER))

    def _strays(self) -> list[Record]:
        """Return what belongs to no half."""
        made = [self.op_maker.op() for _ in range(ROUND // 3)]
        made += [self.op_maker.feedback() for _ in range(ROUND // 20)]
        made += [self.op_maker.stranger() for _ in range(ROUND // 50)]
        return made

    def _make(self) -> Transaction:
        is_healthy = self.chance.random() < HEALTHY_SHARE
        made = self.half_maker.healthy() if is_healthy else self.half_maker.wild()
        if self.relay and any(b"\0" in name for name, _ in made.half.headers):
            # librdkafka hides it: a relay delivers what the job refuses (decisions/relay.md).
            return self._make()
        if self.relay and any(said.moment is Moment.BEFORE_HALF for said in made.said):
            # A relay makes such an op early, which is refused, unless it reads it late.
            made.half.expected = Expected(frozenset(Fate))
            made.said = [replace(said, expected=OP_AT_MOST_REFUSED) for said in made.said]
        return made

    def _halves_in_transactions(self) -> list[Record]:
        """Write halves that are aborted, or committed; return ops that commit them all."""
        partition, is_kept = self.chance.randrange(HALF_PARTITIONS), self.chance.random() < 0.4
        kind = "in a transaction" if is_kept else "aborted"
        made = [self.half_maker.plain(kind, b"wild") for _ in range(self.chance.randint(1, 5))]
        first = self.next_offset[partition]
        halves = [one.half for one in made]
        self.next_offset[partition] += self.transacting.write_halves(
            halves, partition, is_kept=is_kept
        )
        said = Said(COMMIT, NOWHERE if is_kept else OP_OF_NO_HALF)
        for offset, one in enumerate(made, first):
            if is_kept:
                self._stored(one.half, offset)
        ops = [one.op(said, offset) for offset, one in enumerate(made, first)]
        # Where no record stands, only the end of a transaction.
        return [*ops, made[0].op(Said(COMMIT, OP_OF_NO_HALF), self.next_offset[partition] - 1)]

    def _take_offset(self, partition: int) -> int:
        self.next_offset[partition] += 1
        return self.next_offset[partition] - 1

    def _ops(self, made: list[Transaction], offsets: list[int], moment: Moment) -> list[Record]:
        pairs = zip(made, offsets, strict=True)
        return [
            self.op_maker.decorated(one.op(said, offset))
            for one, offset in pairs
            for said in one.said
            if said.moment is moment
        ]

    def _expect_offsets(self, made: list[Transaction], offsets: list[int]) -> None:
        now_s = time.monotonic()
        for one, offset in zip(made, offsets, strict=True):
            origin = (self.topics.names.half, one.half.partition, offset)
            assert self.written[origin].kind == one.half.kind, origin
            if one.is_healthy:
                self.healthy[origin] = now_s
                self._unseen.add(origin)

    def _stored(self, record: Record, offset: int) -> None:
        origin = (self.writer.topics[record.place], record.partition, offset)
        expected = record.expected
        if self.relay and record.place is Place.OP:
            # A relay can't pass names on that are no text, and finds first that an op is early.
            expected = replace(expected, reasons=frozenset())
        self.written[origin] = Written(record.kind, expected, time.monotonic())

    def _await_all(self, pipeline: Pipeline, witness: Witness) -> None:
        """Wait until everything that has to show has shown; the audit says what did not."""
        until_s = time.monotonic() + ACCOUNTED_WITHIN_S
        missing = [one for one, record in self.written.items() if record.expected.must_show]
        while missing and time.monotonic() < until_s:
            assert pipeline.is_alive, pipeline.errors()
            time.sleep(0.5)
            missing = [origin for origin in missing if origin not in witness.seen]

    def _audit(self, witness: Witness) -> float:
        """Return how long the slowest healthy transaction took, in seconds."""
        wrong = faults(self.written, witness)
        kinds = dict(Counter(one.partition(" at ")[0] for one in wrong))
        assert not wrong, f"{len(wrong)} wrong, {kinds}, the first: " + "\n".join(wrong[:20])
        healthy = {origin: witness.seen[origin][0] for origin in self.healthy}
        assert {one.topic for one in healthy.values()} == {self.places.healthy}
        slowest_s = max(one.at_s - self.healthy[origin] for origin, one in healthy.items())
        within_s = LONG_VISIBLE_WITHIN_S if self._is_long else VISIBLE_WITHIN_S
        assert slowest_s < within_s, f"{HEALTHY_GROUP}: visible after {slowest_s:.1f} s"
        return slowest_s

    def _summary(self, witness: Witness, wrote_s: float, all_s: float, slowest_s: float) -> str:
        fates = Counter(one.fate.value for sights in witness.seen.values() for one in sights)
        places = Counter(origin[0].removeprefix(self.prefix) for origin in self.written)
        decided = self.topics.read(self.topics.names.decided) if self.relay else []
        kinds = Counter(op.kind for one in decided if (op := decided_op(one.headers() or [])))
        return (
            f"{len(self.written)} records {dict(places)}, {len(self.healthy)} healthy transactions;"
            f" {dict(fates)}; written in {wrote_s:.1f} s, {all_s:.1f} s in all;"
            f" the slowest healthy transaction was visible after {slowest_s:.1f} s;"
            f" a relay made of the ops {dict(kinds)}"
        )
