"""Keys in memory: what looking them up costs, how soon changes count, and that no use of a key is forgotten."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from service.adapters.sql.keys import SqlKeyLedger
from service.bootstrap import keyring, open_store
from service.core.access import EVERY_WORKSPACE, ApiKey, KeyScope, key_text
from service.errors import StoreUnavailable, Unauthenticated
from service.ingest import key_ring, key_uses
from service.ingest.key_ring import FRESH_S, STRANGERS, KeyRing
from service.ingest.key_uses import KeyUses
from service.ingest.keys import Gatekeeper, KeyControl, KeyOrder
from service.model import DEFAULT_WORKSPACE
from service.ports.keys import KeyCensus
from service.settings import Settings
from tests.access.conftest import bearing
from tests.http.listening import PATIENCE_S, listening

pytestmark = pytest.mark.anyio

ORDER = KeyOrder("a key", frozenset({EVERY_WORKSPACE}), frozenset(KeyScope))
MANY = 180  # keys that nobody made
AT_ONCE = 60


class Watched(SqlKeyLedger):
    """A ledger that counts what it is asked, holds its writes back until `go_on`, and refuses while `is_away`."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type] # as the real one's
        self.asked = Counter[str]()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.is_away = False

    async def census(self) -> KeyCensus:
        """As the real one."""
        self.asked["census"] += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return await super().census()

    async def all(self) -> Sequence[ApiKey]:
        """As the real one."""
        self.asked["all"] += 1
        return await super().all()

    async def note_use(self, used: Mapping[str, datetime]) -> None:
        """As the real one, in its time."""
        self.asked["note_use"] += 1
        await self.go_on.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        await super().note_use(used)


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Watched]:
    """A ledger on each kind of database."""
    async with open_store(settings) as store:
        yield Watched(store.engines)


def now() -> datetime:
    """The clock."""
    return datetime.now(UTC)


def made_up() -> str:
    """A key that nobody made."""
    return key_text(secrets.token_hex(8), secrets.token_urlsafe(32))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)


async def test_a_flood_of_made_up_keys_costs_no_statements(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U20: keys that nobody made cost a handful of statements together, at /metrics too, which has no queue."""
    async with keyring(sqlite_settings) as control:
        good = await control.create(ORDER)
    monkeypatch.setattr(key_ring, "FRESH_S", 3_600.0)
    async with listening(sqlite_settings.model_copy(update={"max_waiting": 200})) as server:
        ring = server.application.gatekeeper._ring
        ring._ledger = watched = Watched(server.application.store.engines)
        ring._strangers.rate = 1e-9  # so that it does not matter how long the flood takes
        for path in ("/metrics", "/v1/vocabulary", "/health/ready"):
            for _ in range(MANY // AT_ONCE):
                asking = (server.client.get(path, headers=bearing(made_up())) for _ in range(AT_ONCE))
                answers = {answer.status_code for answer in await asyncio.gather(*asking)}
                assert answers == ({200} if path == "/health/ready" else {401})
            assert (await server.client.get(path, headers=bearing(good.text))).status_code == 200
        assert watched.asked["census"] <= 2 * STRANGERS + 1
        assert watched.asked["all"] <= 1


async def test_everybody_shares_one_look(ledger: Watched) -> None:
    """U20: requests that come at the same time wait for one look and for no more than that."""
    control, ring = KeyControl(ledger, now), KeyRing(ledger)
    made = await control.create(ORDER)
    found = await asyncio.gather(*(ring.find(made.key.key_id) for _ in range(50)))
    assert set(found) == {made.key}
    assert ledger.asked == {"census": 1, "all": 1}


async def test_a_new_key_counts_at_once(ledger: Watched) -> None:
    """U17: a key that was just made gets in at once where no flood of made-up keys is on."""
    control, ring = KeyControl(ledger, now), KeyRing(ledger)
    assert await ring.is_empty()
    for _ in range(5):
        made = await control.create(ORDER)
        assert await ring.find(made.key.key_id) == made.key
    assert not await ring.is_empty()


async def test_a_new_key_counts_soon_in_a_flood(ledger: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """U17: among made-up keys a new one counts with the next look, which FRESH_S bounds."""
    control, ring = KeyControl(ledger, now), KeyRing(ledger)
    await control.create(ORDER)
    monkeypatch.setattr(key_ring, "FRESH_S", 3_600.0)
    for _ in range(200):
        assert await ring.find(secrets.token_hex(8)) is None
    made = await control.create(ORDER)
    ring._strangers.rate = 1e-9  # the flood goes on
    assert await ring.find(made.key.key_id) is None
    monkeypatch.setattr(key_ring, "FRESH_S", 0.0)
    assert await ring.find(made.key.key_id) == made.key


async def test_a_revocation_counts_within_two_seconds(ledger: Watched) -> None:
    """U17: a revoked key is refused when the look that it was believed by is FRESH_S old, whoever revoked it."""
    control, keeper = KeyControl(ledger, now), Gatekeeper(ledger, now, DEFAULT_WORKSPACE)
    made = await control.create(ORDER)
    await keeper.admit(made.text, None)
    await control.revoke(made.key.key_id)
    await asyncio.sleep(FRESH_S)
    with pytest.raises(Unauthenticated):
        await keeper.admit(made.text, None)
    await keeper.close()


async def test_without_its_store_nobody_is_believed_for_longer(
    ledger: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U17: keys that cannot be looked up are not believed past FRESH_S, and are again when the store is back."""
    control, ring = KeyControl(ledger, now), KeyRing(ledger)
    made = await control.create(ORDER)
    assert await ring.find(made.key.key_id) == made.key
    monkeypatch.setattr(key_ring, "FRESH_S", 0.0)
    ledger.is_away = True
    failed = await asyncio.gather(*(ring.find(made.key.key_id) for _ in range(5)), return_exceptions=True)
    assert {type(one) for one in failed} == {StoreUnavailable}
    ledger.is_away = False
    assert await ring.find(made.key.key_id) == made.key


async def test_a_store_that_hangs_is_given_up(ledger: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """U20: a look has a time limit of its own, for everybody waits for the same one."""

    class Hanging(Watched):
        async def census(self) -> KeyCensus:
            await asyncio.Event().wait()
            return await super().census()

    monkeypatch.setattr(key_ring, "LOOK_S", 0.1)
    with pytest.raises(StoreUnavailable):
        await KeyRing(Hanging(ledger._engines)).find("0" * 16)


async def test_who_goes_away_does_not_end_the_look_of_others(ledger: Watched) -> None:
    """U20: a request that is cancelled while keys are looked up takes nobody along."""
    control, ring = KeyControl(ledger, now), KeyRing(ledger)
    made = await control.create(ORDER)
    first = asyncio.create_task(ring.find(made.key.key_id))
    second = asyncio.create_task(ring.find(made.key.key_id))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == made.key
    assert ledger.asked["census"] == 1


async def test_uses_during_a_write_are_written_too(ledger: Watched) -> None:
    """U17: a key that is used while another's use is being written is noted without being used again."""
    control, uses = KeyControl(ledger, now), KeyUses(ledger)
    first, second = await control.create(ORDER), await control.create(ORDER)
    ledger.go_on.clear()
    uses.note(first.key, now())
    await until(lambda: ledger.asked["note_use"] == 1)
    uses.note(second.key, now())
    ledger.go_on.set()
    await until(lambda: ledger.asked["note_use"] == 2)
    await until(lambda: uses._writing is not None and uses._writing.done())
    assert all(key.last_used_at is not None for key in await control.list())


async def test_a_use_that_could_not_be_written_is_written_later(
    ledger: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U17: a use is kept through a failed write and goes with the next one, whichever key that is for."""
    control, uses = KeyControl(ledger, now), KeyUses(ledger)
    first, second = await control.create(ORDER), await control.create(ORDER)
    ledger.is_away = True
    at = now()
    uses.note(first.key, at)
    await until(lambda: uses._writing is not None and uses._writing.done())
    for _ in range(20):
        uses.note(first.key, at + timedelta(hours=1))
    assert ledger.asked["note_use"] == 1, "a store that is away is not asked for every request"
    ledger.is_away = False
    monkeypatch.setattr(uses, "_not_before", 0.0)
    uses.note(second.key, at)
    await uses.close()
    found = {key.key_id: key.last_used_at for key in await control.list()}
    assert found == {first.key.key_id: at + timedelta(hours=1), second.key.key_id: at}


async def test_last_use_is_written_once_a_minute(ledger: Watched) -> None:
    """U17: a key that is used all the time costs one write in USE_NOTED_S."""
    control, uses = KeyControl(ledger, now), KeyUses(ledger)
    made = await control.create(ORDER)
    at = now()
    for second in range(59):
        uses.note(made.key, at + timedelta(seconds=second))
    await uses.close()
    uses.note(replace(made.key, last_used_at=at), at + timedelta(seconds=key_uses.USE_NOTED_S))
    await uses.close()
    assert ledger.asked["note_use"] == 2
