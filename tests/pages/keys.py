"""API keys for a service that was never started."""

import asyncio
from dataclasses import dataclass

from service.bootstrap import keyring
from service.core.access import KeyScope
from service.ingest.keys import KeyOrder
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Keys:
    """The texts of three keys: a reader of two workspaces, an operator, and one that may only operate."""

    settings: Settings
    reader: str
    operator: str
    watcher: str


def keys_made(settings: Settings) -> Keys:
    """Make them where no event loop runs."""
    return asyncio.run(make_keys(settings))


async def make_keys(settings: Settings) -> Keys:
    """Make them in the database of the settings."""
    everything, two = frozenset({"default"}), frozenset({"north", "south"})
    async with keyring(settings) as control:
        reader = await control.create(KeyOrder("rita <b>", two, frozenset({KeyScope.READ})))
        both = frozenset({KeyScope.READ, KeyScope.OPERATE})
        operator = await control.create(KeyOrder("olga", everything, both))
        watcher = await control.create(KeyOrder("wanda", everything, frozenset({KeyScope.OPERATE})))
    return Keys(settings, reader.text, operator.text, watcher.text)
