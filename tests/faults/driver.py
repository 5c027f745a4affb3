"""A process that writes until it is killed: captures, re-captures, retirements, upkeep of its index."""

import asyncio
import json
import os
import random
from pathlib import Path

from service.bootstrap import Application, application
from service.model import DEFAULT_WORKSPACE, ItemId
from tests.faults.corpus import document, settings_in, upkeep


def write_until_killed(home: str, seed: int) -> None:
    """Never returns. What was acknowledged stands in `acknowledged`, a JSON line each."""
    asyncio.run(_write(Path(home), random.Random(seed)))  # noqa: S311 - what to write, not a secret


async def _write(home: Path, chance: random.Random) -> None:
    log = os.open(home / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with application(settings_in(home)) as app:
        os.write(log, b'{"started": true}\n')
        while True:
            done = await _step(app, chance)
            os.write(log, json.dumps(done).encode() + b"\n")


async def _step(app: Application, chance: random.Random) -> dict[str, str | None]:
    if chance.random() < 0.2:
        await upkeep(app)
    number = chance.randrange(1_000)
    item_id = ItemId(f"item{number:04}")
    if chance.random() < 0.2:
        async with app.store.snapshot() as snapshot:
            known = await snapshot.item(DEFAULT_WORKSPACE, item_id)
        if known is not None:
            await app.lifecycle.retire(DEFAULT_WORKSPACE, item_id)
            return {"retired": item_id}
    result = await app.capturing.capture(DEFAULT_WORKSPACE, document(number))
    return {"stored": result.item_id, "superseded": result.superseded}
