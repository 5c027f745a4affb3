"""The service around an encoder, under concurrency and faults."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from embeddings.encoder import Encoder, encode_passages
from embeddings.encoder_service import EncoderService
from embeddings.encoder_settings import ServiceLimits
from embeddings.encoder_state import EncoderReading, Phase
from embeddings.errors import (
    EncoderClosed,
    EncoderNotReady,
    EncodingFailed,
    EncodingTimedOut,
    HubUnreachable,
    InvalidText,
    InvalidVectors,
    Overloaded,
    UnsuitableModel,
)
from embeddings.vectors import Vectors
from tests.embeddings.hash_encoder import HashEncoder, hash_fingerprint

pytestmark = pytest.mark.anyio
LIMITS = ServiceLimits(
    query_deadline_s=5.0,
    stuck_after_s=0.3,
    replace_after_s=0.6,
    retry_first_s=0.05,
    retry_longest_s=0.2,
    close_within_s=0.2,
)
PATIENT = replace(LIMITS, stuck_after_s=30.0, replace_after_s=60.0, close_within_s=5.0)


class Gate:
    """Holds the worker inside the encoder until it is opened, and records what was encoded together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, texts: Sequence[str]) -> None:
        self.batches.append(list(texts))
        self.entered.set()
        assert self.opened.wait(30)

    async def until_entered(self) -> None:
        """Wait, off the loop, until the worker is inside."""
        await asyncio.to_thread(self.entered.wait, 5)


@asynccontextmanager
async def serving(
    load: Callable[[], Encoder], limits: ServiceLimits = PATIENT, *, ready: bool = True
) -> AsyncIterator[EncoderService]:
    """A started service, by default with its model loaded."""
    service = EncoderService(load, limits)
    service.start()
    try:
        if ready:
            await service.wait_ready(5)
        yield service
    finally:
        await service.close()


def phase_of(service: EncoderService) -> Phase:
    """The phase now; a function, because it changes between two reads."""
    return service.state.phase


async def until(condition: Callable[[], bool]) -> None:
    """Wait up to five seconds for something to come true."""
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come true within five seconds")


async def test_queries_and_passages_are_those_of_the_encoder() -> None:
    """C24: the service returns exactly what its encoder makes of the text."""
    encoder = HashEncoder()
    texts = ["bottom roller", "word " * 60, ""]
    async with serving(lambda: encoder) as service:
        vector = await service.encode_query("which roller")
        np.testing.assert_array_equal(vector, encoder.encode_queries(["which roller"])[0])
        for got, expected in zip(
            await service.encode_passages(texts), encode_passages(encoder, texts), strict=True
        ):
            np.testing.assert_array_equal(got, expected)
        assert await service.encode_passages([]) == []
        assert service.fingerprint == encoder.fingerprint


async def test_start_returns_at_once_and_states_follow() -> None:
    """C27: a slow load keeps nobody: states go absent, loading, ready, closed; calls before are refused."""
    release = threading.Event()

    def load() -> Encoder:
        assert release.wait(10)
        return HashEncoder()

    service = EncoderService(load, PATIENT)
    assert phase_of(service) is Phase.ABSENT
    with pytest.raises(EncoderNotReady):
        await service.encode_query("a")
    started = time.monotonic()
    service.start()
    service.start()
    assert time.monotonic() - started < 0.5
    assert phase_of(service) is Phase.LOADING
    assert service.fingerprint is None
    with pytest.raises(EncoderNotReady, match="loading"):
        await service.encode_query("a")
    with pytest.raises(EncodingTimedOut):
        await service.wait_ready(0.05)
    release.set()
    await service.wait_ready(5)
    assert phase_of(service) is Phase.READY
    await service.close()
    await service.close()
    assert phase_of(service) is Phase.CLOSED
    with pytest.raises(EncoderClosed):
        await service.encode_query("a")
    with pytest.raises(EncoderClosed):
        await service.wait_ready(1)


@pytest.mark.parametrize("error", [HubUnreachable("no hub"), RuntimeError("surprise"), MemoryError()])
async def test_a_failed_load_is_told_and_retried_by_itself(error: Exception) -> None:
    """C27: a failed load becomes a state with a reason, is retried with growing pauses, and recovers."""
    times: list[float] = []

    def load() -> Encoder:
        times.append(time.monotonic())
        if len(times) < 4:
            raise error
        return HashEncoder()

    async with serving(load, LIMITS, ready=False) as service:
        await until(lambda: phase_of(service) is Phase.FAILED)
        state = service.state
        assert state.reason
        assert state.code == ("hub_unreachable" if isinstance(error, HubUnreachable) else "encoding_failed")
        assert state.retry_in_s is not None
        assert 0 <= state.retry_in_s <= LIMITS.retry_longest_s
        with pytest.raises(EncoderNotReady, match="failed"):
            await service.encode_query("a")
        await service.wait_ready(5)
        assert service.state.loads == 4
        assert service.state.reason is None
        pauses = np.diff(times)
        assert pauses[0] >= 0.05
        assert pauses[1] >= 0.1
        assert pauses[2] >= 0.2
        await service.encode_query("a")


async def test_concurrent_queries_share_a_batch() -> None:
    """Queries that wait while a batch runs are encoded together in the next one, each once."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate)) as service:
        first = asyncio.create_task(service.encode_query("first"))
        await gate.until_entered()
        texts = ["one", "two", "three", "two"]
        others = [asyncio.create_task(service.encode_query(text)) for text in texts]
        await until(lambda: service.counters.waiting_queries == 4)
        gate.opened.set()
        vectors = await asyncio.gather(first, *others)
        assert gate.batches == [["first"], ["one", "two", "three"]]
        np.testing.assert_array_equal(vectors[2], vectors[4])
        assert service.counters.largest_query_batch == 4


async def test_a_query_waits_for_at_most_one_passage_batch() -> None:
    """A query is encoded before the next batch of passages, however many wait."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate), replace(PATIENT, passage_tokens=24)) as service:
        passages = asyncio.create_task(service.encode_passages(["word " * 20 + str(n) for n in range(10)]))
        await gate.until_entered()
        query = asyncio.create_task(service.encode_query("urgent"))
        await until(lambda: service.counters.waiting_queries == 1)
        gate.opened.set()
        await query
        await passages
        assert gate.batches[1] == ["urgent"]
        assert len(gate.batches) == 11
        assert service.counters.passage_batches == 10
        assert service.counters.windows == 10


async def test_a_full_queue_refuses_at_once() -> None:
    """C27: beyond its bound the queue says Overloaded at once, and those accepted are still answered."""
    gate = Gate()
    limits = replace(PATIENT, waiting_queries=2, waiting_passages=3)
    async with serving(lambda: HashEncoder(before=gate), limits) as service:
        running = asyncio.create_task(service.encode_query("running"))
        await gate.until_entered()
        waiting = [asyncio.create_task(service.encode_query(text)) for text in "ab"]
        passages = asyncio.create_task(service.encode_passages(["p", "q"]))
        await until(lambda: service.counters.waiting_queries + service.counters.waiting_passages == 4)
        with pytest.raises(Overloaded):
            await service.encode_query("c")
        with pytest.raises(Overloaded):
            await service.encode_passages(["r", "s"])
        assert service.counters.overloads == 2
        gate.opened.set()
        await asyncio.gather(running, *waiting, passages)


async def test_a_caller_that_gives_up_harms_nobody() -> None:
    """C27: cancelled and timed-out callers leave the others' answers whole, and their own work undone."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate)) as service:
        running = asyncio.create_task(service.encode_query("running"))
        await gate.until_entered()
        cancelled = asyncio.create_task(service.encode_query("cancelled"))
        stays = asyncio.create_task(service.encode_query("stays"))
        passages = asyncio.create_task(service.encode_passages(["never encoded"]))
        await until(lambda: service.counters.waiting_passages == 1)
        cancelled.cancel()
        running.cancel()
        passages.cancel()
        with pytest.raises(EncodingTimedOut):
            await service.encode_query("late", deadline_s=0.05)
        gate.opened.set()
        np.testing.assert_array_equal(await stays, HashEncoder().encode_queries(["stays"])[0])
        for task in (cancelled, running, passages):
            with pytest.raises(asyncio.CancelledError):
                await task
        await service.encode_query("after")
        encoded = [text for batch in gate.batches for text in batch]
        assert encoded == ["running", "stays", "after"]
        assert service.counters.timeouts == 1


async def test_giving_up_on_passages_ends_them_between_batches() -> None:
    """A passage job whose caller left is dropped at its next step."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate), replace(PATIENT, passage_tokens=1)) as service:
        passages = asyncio.create_task(service.encode_passages([f"text {n}" for n in range(50)]))
        await gate.until_entered()
        passages.cancel()
        with pytest.raises(asyncio.CancelledError):
            await passages
        gate.opened.set()
        await service.encode_query("after")
        assert len(gate.batches) == 2


async def test_an_encoder_that_raises_once_recovers() -> None:
    """C27: one failed encoding is that caller's error; the next call succeeds without a restart."""
    calls: list[int] = []

    def once(texts: Sequence[str]) -> None:
        calls.append(len(texts))
        if len(calls) == 1:
            raise RuntimeError("out of memory, perhaps")

    async with serving(lambda: HashEncoder(before=once)) as service:
        with pytest.raises(EncodingFailed) as failed:
            await service.encode_query("a")
        assert isinstance(failed.value.__cause__, RuntimeError)
        assert "memory" not in failed.value.detail
        await service.encode_query("a")
        assert phase_of(service) is Phase.READY
        assert service.counters.failures == 1


async def test_an_encoder_that_always_raises_answers_every_caller() -> None:
    """C27: when every encoding fails, every caller gets the error, promptly, and the worker lives on."""

    def always(texts: Sequence[str]) -> None:
        raise ValueError("no")

    async with serving(lambda: HashEncoder(before=always)) as service:
        answers = await asyncio.gather(
            *(service.encode_query(f"q{n}") for n in range(20)),
            service.encode_passages(["p"]),
            return_exceptions=True,
        )
        assert all(isinstance(answer, EncodingFailed) for answer in answers)
        assert phase_of(service) is Phase.READY


async def test_one_bad_text_does_not_spoil_its_batch() -> None:
    """C27: a text the model chokes on fails alone; those that shared its batch are answered."""
    gate = Gate()

    def poison(texts: Sequence[str]) -> None:
        gate(texts)
        if "poison" in texts:
            raise IndexError("poison")

    async with serving(lambda: HashEncoder(before=poison)) as service:
        first = asyncio.create_task(service.encode_query("first"))
        await gate.until_entered()
        texts = ["one", "poison", "two"]
        others = [asyncio.create_task(service.encode_query(text)) for text in texts]
        await until(lambda: service.counters.waiting_queries == 3)
        gate.opened.set()
        await first
        one, bad, two = await asyncio.gather(*others, return_exceptions=True)
        assert isinstance(bad, EncodingFailed)
        assert isinstance(one, np.ndarray)
        assert isinstance(two, np.ndarray)


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: np.full_like(rows, np.nan),
        lambda rows: np.zeros_like(rows),
        lambda rows: rows * np.float32(np.inf),
        lambda rows: rows[:, :-1],
        lambda rows: rows[:0],
        lambda rows: rows * 2,
    ],
)
async def test_bad_vectors_are_errors(damage: Callable[[Vectors], Vectors]) -> None:
    """C27: non-finite, zero, missing, wrong-dimension and unscaled vectors reach no caller and no cache."""
    async with serving(lambda: HashEncoder(damage=damage)) as service:
        for _ in range(2):
            with pytest.raises(InvalidVectors):
                await service.encode_query("a")
        with pytest.raises(InvalidVectors):
            await service.encode_passages(["a"])
        assert service.counters.cached == 0


async def test_a_hanging_encoder_is_reported_replaced_and_recovered_from() -> None:
    """C27: a hung batch fails its callers within the deadline, shows as stuck, and a new worker takes over."""
    release = threading.Event()
    loads: list[int] = []

    def hang_forever(texts: Sequence[str]) -> None:
        if "hang" in texts:
            release.wait(30)

    def load() -> Encoder:
        loads.append(1)
        return HashEncoder(before=hang_forever)

    async with serving(load, LIMITS) as service:
        known = await service.encode_query("known before")
        started = time.monotonic()
        with pytest.raises(EncodingTimedOut):
            await service.encode_query("hang")
        assert time.monotonic() - started < 2
        assert phase_of(service) is Phase.STUCK
        assert service.state.reason is not None
        assert (await service.encode_query("known before")) is known
        with pytest.raises(EncoderNotReady):
            await service.encode_query("b")
        await asyncio.sleep(LIMITS.replace_after_s)
        with contextlib.suppress(EncoderNotReady):
            await service.encode_query("b")  # this call notices, and a new worker begins to load
        await service.wait_ready(5)
        await service.encode_query("b")
        assert len(loads) == 2
        assert service.counters.abandoned_workers == 1
        release.set()
        await until(lambda: service.counters.abandoned_workers == 0)


async def test_a_batch_that_was_only_slow_makes_the_worker_ready_again() -> None:
    """C27: a worker that was stuck and comes back serves on; nothing was replaced."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate), replace(LIMITS, replace_after_s=60)) as service:
        slow = asyncio.create_task(service.encode_passages(["slow"]))
        await gate.until_entered()
        with pytest.raises(EncodingTimedOut):
            await slow
        assert phase_of(service) is Phase.STUCK
        gate.opened.set()
        await until(lambda: phase_of(service) is Phase.READY)
        await service.encode_query("a")
        assert service.state.loads == 1


async def test_workers_that_hang_for_ever_are_not_piled_up() -> None:
    """C27: after two abandoned workers no more are started, so a broken library cannot eat the memory."""
    release = threading.Event()
    loads: list[int] = []

    def load() -> Encoder:
        loads.append(1)
        return HashEncoder(before=lambda _: assert_none(release.wait(30)))

    async with serving(load, LIMITS) as service:
        for attempt in range(4):
            with contextlib.suppress(EncoderNotReady, EncodingTimedOut):
                await service.encode_query(f"hang {attempt}")
            await asyncio.sleep(LIMITS.replace_after_s)
            await until(lambda: phase_of(service) is not Phase.LOADING)
            with contextlib.suppress(EncoderNotReady, EncodingTimedOut):
                await service.encode_query("next")
        assert len(loads) == 3
        assert service.counters.abandoned_workers == 2
        release.set()


def assert_none(_: object) -> None:
    """Turns a wait's result into no result."""


async def test_closing_answers_those_who_wait_and_does_not_wait_for_a_hang() -> None:
    """C27: close refuses what waits, and gives up a hung batch after its bound."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate), replace(PATIENT, close_within_s=0.2)) as service:
        running = asyncio.create_task(service.encode_query("running"))
        await gate.until_entered()
        waiting = asyncio.create_task(service.encode_query("waiting"))
        passages = asyncio.create_task(service.encode_passages(["p"]))
        await until(lambda: service.counters.waiting_passages == 1)
        started = time.monotonic()
        await service.close()
        assert time.monotonic() - started < 2
        for task in (waiting, passages):
            with pytest.raises(EncoderClosed):
                await task
        gate.opened.set()
        assert (await running).shape == (64,)


async def test_the_cache_answers_repeated_queries() -> None:
    """The same text is encoded once; the vector is shared and read-only; other texts are not confused."""
    gate = Gate()
    gate.opened.set()
    async with serving(lambda: HashEncoder(before=gate), replace(PATIENT, cached_queries=2)) as service:
        first = await service.encode_query("a")
        assert (await service.encode_query("a")) is first
        assert not first.flags.writeable
        await service.encode_query("A")
        await service.encode_query("b")
        await service.encode_query("a")
        counters = service.counters
        assert (counters.cache_hits, counters.cache_misses, counters.cached) == (1, 4, 2)
        assert len(gate.batches) == 4


async def test_no_partition_is_served_from_the_cache_of_another() -> None:
    """U18: the same text is encoded anew for each partition, whatever others asked; the reading counts it."""
    gate = Gate()
    gate.opened.set()
    async with serving(lambda: HashEncoder(before=gate)) as service:
        first = await service.encode_query("a", partition="acme")
        assert (await service.encode_query("a", partition="acme")) is first
        second = await service.encode_query("a", partition="zeta")
        np.testing.assert_array_equal(first, second)
        assert second is not first
        assert gate.batches == [["a"], ["a"]]
        assert service.reading == EncoderReading(cache_hits=1, cache_misses=2, waiting=0)


async def test_waiting_together_two_partitions_are_encoded_apart() -> None:
    """U18: in one batch a text is shared within a partition and never between two."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate)) as service:
        running = asyncio.create_task(service.encode_query("running"))
        await gate.until_entered()
        waiting = [asyncio.create_task(service.encode_query("a", partition=name)) for name in ("x", "y", "x")]
        await until(lambda: service.reading.waiting == 3)
        gate.opened.set()
        answers = await asyncio.gather(*waiting)
        await running
        assert gate.batches[1] == ["a", "a"]
        np.testing.assert_array_equal(answers[0], answers[1])


async def test_texts_that_cannot_be_encoded_are_refused_at_the_door() -> None:
    """A blank query and a lone surrogate never reach the queue."""
    async with serving(HashEncoder) as service:
        for text in ("", " \n", "\ud800"):
            with pytest.raises(InvalidText):
                await service.encode_query(text)
        with pytest.raises(InvalidText):
            await service.encode_passages(["ok", "\udfff"])


async def test_another_model_than_the_first_is_refused() -> None:
    """C24: all vectors of one service share one fingerprint: files that changed under it are not loaded."""
    release = threading.Event()
    names = iter(["one", "two", "one"])

    def load() -> Encoder:
        return HashEncoder(
            hash_fingerprint(next(names)),
            before=lambda texts: assert_none("hang" in texts and release.wait(30)),
        )

    async with serving(load, LIMITS) as service:
        with pytest.raises(EncodingTimedOut):
            await service.encode_query("hang")
        await asyncio.sleep(LIMITS.replace_after_s)
        with contextlib.suppress(EncoderNotReady):
            await service.encode_query("b")
        await until(lambda: service.state.code == UnsuitableModel.code)
        fingerprint = await service.wait_ready(5)
        assert fingerprint.name == "one"
        release.set()


async def test_the_event_loop_runs_while_the_encoder_works() -> None:
    """Encoding happens off the loop: it keeps turning while a batch blocks the worker."""
    gate = Gate()
    async with serving(lambda: HashEncoder(before=gate)) as service:
        task = asyncio.create_task(service.encode_query("a"))
        await gate.until_entered()
        started = time.monotonic()
        for _ in range(20):
            await asyncio.sleep(0)
        assert time.monotonic() - started < 1
        assert not task.done()
        gate.opened.set()
        await task


async def test_many_callers_who_come_and_go() -> None:
    """C27: under hundreds of callers, some of whom give up, everyone else gets the right vector."""
    encoder = HashEncoder(before=lambda _: time.sleep(0.001))
    expected = HashEncoder()
    limits = replace(PATIENT, waiting_queries=64, cached_queries=16)
    async with serving(lambda: encoder, limits) as service:

        async def caller(number: int) -> str:
            deadline = 0.0005 if number % 7 == 0 else 5.0
            text = f"query {number % 90}"
            try:
                vector = await service.encode_query(text, deadline_s=deadline)
            except (Overloaded, EncodingTimedOut) as error:
                return error.code
            np.testing.assert_array_equal(vector, expected.encode_queries([text])[0])
            return "ok"

        waves = [
            await asyncio.gather(*(caller(n) for n in range(start, start + 60)))
            for start in range(0, 600, 60)
        ]
        outcomes = [outcome for wave in waves for outcome in wave]
        assert outcomes.count("ok") > 400
        assert service.counters.waiting_queries == 0
        assert phase_of(service) is Phase.READY


async def test_failed_loads_are_logged_with_their_cause(caplog: pytest.LogCaptureFixture) -> None:
    """An operator finds each reason of failed loads once in the log; a stack only where nobody expected it."""
    reasons = iter((HubUnreachable("the hub does not answer"),) * 3 + (RuntimeError("odd"),) * 2)

    def load() -> Encoder:
        for reason in reasons:
            raise reason
        return HashEncoder()

    with caplog.at_level(logging.WARNING, "embeddings"):
        async with serving(load, LIMITS, ready=False) as service:
            await service.wait_ready(30)
    expected, odd = caplog.records
    assert "the hub does not answer" in expected.getMessage()
    assert not expected.exc_info
    assert "could not be loaded" in odd.getMessage()
    assert odd.exc_info
