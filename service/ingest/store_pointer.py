"""The store's own pointer (an alias of a Qdrant server): kept equal to the pointer in SQL, which decides.

Whoever reads the store past this service finds by it the collection that serves. It is written after SQL, so
it may lag behind: it is put right at the next start, at every reconcile, and now and then.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from service.errors import CitewellError
from service.ports.embedding import CollectionRole, KnownCollection, VectorLedger
from service.ports.vectors import CollectionMissing, CollectionPointer, VectorIndex

CALL_S = 30.0
TURNS = 4  # somebody who switches meanwhile is followed so often
KEEP_EVERY_S = 600.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


async def repair_pointer(ledger: VectorLedger, index: VectorIndex) -> bool:
    """Point the store where SQL points; whether it had to be moved.

    SQL is read again after each move, so of two processes the one that knows less does not have the last word.

    Raises CollectionMissing while the serving collection was not begun, VectorStoreError, Unavailable.
    """
    if not isinstance(index, CollectionPointer):
        return False
    moved = False
    for _ in range(TURNS):
        serving = await _serving(ledger)
        if serving is None or await index.active(_soon()) == serving.name:
            break
        await index.activate(serving.name, _soon())
        moved = True
    return moved


@dataclass(slots=True)
class PointerKeeper:
    """Repairs the pointer at the start and then now and then; `tell` hears why it could not."""

    ledger: VectorLedger
    index: VectorIndex
    tell: Callable[[str], None]
    every: float = KEEP_EVERY_S
    first_pause: float = FIRST_PAUSE_S

    async def run(self) -> None:
        """Until cancelled; returns where the store keeps no pointer. Never raises."""
        pause = self.first_pause
        while isinstance(self.index, CollectionPointer):
            if await self._is_right():
                pause = self.first_pause
                await asyncio.sleep(self.every)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2.0, LONGEST_PAUSE_S)

    async def _is_right(self) -> bool:
        try:
            await repair_pointer(self.ledger, self.index)
            return await _serving(self.ledger) is not None
        except CollectionMissing:
            return False  # the worker is about to begin it
        except CitewellError as error:
            self.tell(error.detail)
        except Exception as error:  # noqa: BLE001 - the seam: whatever it is, it is tried again
            self.tell(f"unexpected {type(error).__name__}")
        return False


async def _serving(ledger: VectorLedger) -> KnownCollection | None:
    known = await ledger.collections()
    return next((one for one in reversed(known) if one.role is CollectionRole.ACTIVE), None)


def _soon() -> float:
    return time.monotonic() + CALL_S
