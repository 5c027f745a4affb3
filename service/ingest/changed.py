"""The passages that the change log speaks of."""

from collections.abc import AsyncIterator, Sequence

from service.ports.embedding import Embeddable, VectorLedger

PAGE = 512
CHANGES = 200


async def passages_changed(ledger: VectorLedger, seq: int) -> AsyncIterator[Sequence[Embeddable]]:
    """The scorable passages, live or not, of every item in the log after an entry."""
    while True:
        item_keys, last = await ledger.item_changes(seq, CHANGES)
        if last == seq:
            return
        seq, after = last, None
        while item_keys and (page := await ledger.embeddable(item_keys, after, PAGE)):
            after = page[-1].passage_key
            yield page
