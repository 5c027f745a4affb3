"""The flag flips in its row while a whole server is asked over HTTP, its vectors in a real store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from service.adapters.sql.engine import database_url, open_engines
from service.adapters.sql.rollout import SqlFlagLedger
from service.ports.flag import FlagChange
from tests.vector_faults.conftest import Stored
from tests.vector_faults.orders import House
from tests.vector_faults.servers import QUERIES, VECTORS_ON, Answered, served, until

pytestmark = pytest.mark.anyio

FLIPS = 100
STATES = ["on", "off", "shadow", "100%", "0%"]
CLIENTS = 3


@asynccontextmanager
async def flag_of(house: House) -> AsyncIterator[SqlFlagLedger]:
    """The flag's rows, from another process than the server's."""
    engines = open_engines(database_url(house.database_url))
    try:
        yield SqlFlagLedger(engines)
    finally:
        await engines.close()


async def flip(ledger: SqlFlagLedger, state: str) -> None:
    """Set the default."""
    async with ledger.changing(None) as write:
        now = datetime.now(UTC)
        await write.record(
            FlagChange(None, now, "test", write.before, state, "a flip", evidence=None, forced=True)
        )


async def test_a_hundred_flips_over_http(stored: Stored, house: House) -> None:
    """E12: while the flag flips 100 times under load every answer is a 200, wholly that of one state, and each
    state is seen after its flip.
    """
    async with served(house, VECTORS_ON, flag_fresh_s=0.0) as server, flag_of(house) as ledger:
        await server.settled()
        await flip(ledger, "on")
        hybrid = await server.ask_all()
        answers: list[tuple[str, Answered]] = []
        done = asyncio.Event()

        async def ask_on(number: int) -> None:
            while not done.is_set():
                query = QUERIES[number % len(QUERIES)]
                answers.append((query, await server.ask(query)))
                number += 1

        clients = [asyncio.create_task(ask_on(first)) for first in range(CLIENTS)]
        for number in range(FLIPS):
            await flip(ledger, STATES[number % len(STATES)])
            enough = len(answers) + CLIENTS + 1  # of so many, one at least was asked after the flip

            async def asked(enough: int = enough) -> bool:
                return len(answers) >= enough or any(client.done() for client in clients)

            await until(asked)
        done.set()
        await asyncio.gather(*clients)

        assert {(answer.state, answer.reason) for _, answer in answers} == {
            ("ran", "ran"),
            ("off", "off"),
            ("off", "shadow"),
            ("off", "not_in_rollout"),
        }
        for query, answer in answers:
            assert answer.kept == (hybrid[query] if answer.ran else stored.lexical[query]).kept
        assert len(await ledger.changes(FLIPS + 2)) == FLIPS + 1
