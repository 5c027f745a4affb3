"""Vectors that nobody needs any more leave the cache: those of superseded texts and of dropped models.

It is done after a comparison of rows and points, which reads every live text anyway, and a bounded number at a
time. What is removed by mistake, because a text was captured again at that very moment, is encoded again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from service.ingest.changed import passages_changed
from service.ports.embedding import Embeddable, VectorLedger

READ_AT_ONCE = 5_000  # hashes
REMOVED_AT_ONCE = 500  # rows a transaction: of several kilobytes each
MOST_REMOVED = 5_000  # rows a turn: the worker follows the log in between
_DIGITS = 16


@dataclass(slots=True)
class TextsInUse:
    """The live texts of a moment, and the log entry that was the newest in the index before they were read.

    Of a hash 64 bits are kept: of a billion texts some thirty are taken for in use that are not.
    """

    since: int = 0
    _known: set[int] = field(default_factory=set)

    def add(self, passages: Sequence[Embeddable]) -> None:
        """These are in use."""
        self._known.update(_short(passage.text_hash) for passage in passages)

    def unused(self, text_hashes: Sequence[str]) -> list[str]:
        """Those of the hashes that are in nobody's use."""
        return [one for one in text_hashes if _short(one) not in self._known]


async def trim_cache(
    ledger: VectorLedger, fingerprint: str, in_use: TextsInUse, most: int = MOST_REMOVED
) -> int:
    """Remove up to `most` cached texts that no live passage has, and those of models without a collection.

    Passages that the log speaks of since the comparison are left alone: live ones are in use, and of stale
    ones the number of windows is still needed to remove their points. Returns how many were removed.
    """
    unused: list[str] = []
    after = ""
    while len(unused) < most and (page := await _hashes(ledger, fingerprint, after)):
        after = page[-1]
        unused += in_use.unused(page)
    if unused:
        async for passages in passages_changed(ledger, in_use.since):
            in_use.add(passages)
        unused = in_use.unused(unused)[:most]
    await _remove(ledger, fingerprint, unused)
    return len(unused) + await _trim_dropped(ledger, most - len(unused))


async def _trim_dropped(ledger: VectorLedger, most: int) -> int:
    removed = 0
    for fingerprint in await ledger.cached_fingerprints():
        known = {one.fingerprint for one in await ledger.collections()}
        if fingerprint in known or removed >= most:
            continue
        page = (await _hashes(ledger, fingerprint, ""))[: most - removed]
        await _remove(ledger, fingerprint, page)
        removed += len(page)
    return removed


async def _hashes(ledger: VectorLedger, fingerprint: str, after: str) -> Sequence[str]:
    return await ledger.cached_hashes(fingerprint, after, READ_AT_ONCE)


async def _remove(ledger: VectorLedger, fingerprint: str, text_hashes: Sequence[str]) -> None:
    for part in _parts(text_hashes):
        await ledger.uncache(fingerprint, part)


def _parts(text_hashes: Sequence[str]) -> Iterator[Sequence[str]]:
    return (text_hashes[at : at + REMOVED_AT_ONCE] for at in range(0, len(text_hashes), REMOVED_AT_ONCE))


def _short(text_hash: str) -> int:
    return int(text_hash[:_DIGITS], 16)
