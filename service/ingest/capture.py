"""Capture: store documents, supersede what they replace, in one transaction a batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from service.core.capture_rules import ItemHead, Known, Stored, Unchanged, check_capture, decide_capture
from service.core.identity import content_hash, source_key_hash, tag_id
from service.errors import CitewellError
from service.model import (
    Capture,
    CaptureResult,
    FacetTag,
    ItemId,
    TagEvent,
    TagStatus,
    Workspace,
)
from service.ports.lexical import LexicalIndex
from service.ports.store import IngestMark, NewItem, Store, WriteTransaction

Clock = Callable[[], datetime]
Outcome = CaptureResult | CitewellError


@dataclass(frozen=True, slots=True)
class _Hashed:
    """A valid capture with its two hashes."""

    capture: Capture
    source: str
    content: str


class Capturing:
    """Stores captures and tells this process's index."""

    def __init__(self, store: Store, lexical: LexicalIndex, clock: Clock) -> None:
        self._store = store
        self._lexical = lexical
        self._clock = clock

    async def capture(self, workspace: Workspace, capture: Capture) -> CaptureResult:
        """Store one capture: durable and searchable when it returns. Raises what is wrong with it."""
        (outcome,) = await self.capture_batch(workspace, [capture])
        if isinstance(outcome, CitewellError):
            raise outcome
        return outcome

    async def capture_batch(
        self, workspace: Workspace, captures: Sequence[Capture], marks: Sequence[IngestMark] = ()
    ) -> list[Outcome]:
        """Store captures in order, all in one transaction with the marks of what was read.

        A capture that cannot be stored gives its error and leaves the others alone. Raises StoreUnavailable,
        and then nothing was stored.
        """
        hashed = [_checked(capture) for capture in captures]
        async with self._store.transaction(workspace) as transaction:
            batch = _Batch(transaction, self._clock())
            outcomes = await batch.run(hashed)
            for mark in marks:
                await transaction.mark_ingest(mark)
        if batch.new:
            await self._lexical.catch_up(workspace)
        return outcomes


class _Batch:
    """One batch inside its transaction. What it stored earlier counts as stored for what comes later."""

    def __init__(self, transaction: WriteTransaction, now: datetime) -> None:
        self._transaction = transaction
        self._now = now
        self._by_id: dict[ItemId, ItemHead] = {}
        self._live: dict[str, ItemHead] = {}
        self._captures: dict[str, int] = {}
        self._refreshed: dict[ItemId, datetime] = {}
        self.new: list[NewItem] = []

    async def run(self, hashed: Sequence[_Hashed | CitewellError]) -> list[Outcome]:
        valid = [entry for entry in hashed if isinstance(entry, _Hashed)]
        sources = sorted({entry.source for entry in valid})
        ids = sorted({entry.capture.item_id for entry in valid if entry.capture.item_id is not None})
        self._by_id = dict(await self._transaction.heads(ids)) if ids else {}
        self._live = dict(await self._transaction.live_heads(sources)) if sources else {}
        self._captures = dict(await self._transaction.capture_counts(sources)) if sources else {}
        outcomes = [entry if isinstance(entry, CitewellError) else self._decide(entry) for entry in hashed]
        await self._transaction.insert_items(self.new)
        await self._transaction.refresh(self._refreshed)
        await self._carry_tags()
        return outcomes

    def _decide(self, entry: _Hashed) -> Outcome:
        capture = entry.capture
        known = Known(
            same_id=None if capture.item_id is None else self._by_id.get(capture.item_id),
            live=self._live.get(entry.source),
            earlier_captures=self._captures.get(entry.source, 0),
        )
        try:
            decision = decide_capture(capture, entry.source, entry.content, known)
        except CitewellError as error:
            return error
        fetched_at = capture.fetched_at or self._now
        if isinstance(decision, Unchanged):
            if decision.refresh:
                self._refreshed[decision.item_id] = fetched_at
            return CaptureResult(decision.item_id, None, unchanged=True, passages=len(capture.passages))
        self._store(entry, decision, fetched_at)
        return CaptureResult(
            decision.item_id, decision.supersedes, unchanged=False, passages=len(capture.passages)
        )

    def _store(self, entry: _Hashed, decision: Stored, fetched_at: datetime) -> None:
        self.new.append(
            NewItem(
                item_id=decision.item_id,
                capture=entry.capture,
                source_key_hash=entry.source,
                content_hash=entry.content,
                fetched_at=fetched_at,
                supersedes=decision.supersedes,
            )
        )
        if decision.supersedes is not None and decision.supersedes in self._by_id:
            old = self._by_id[decision.supersedes]
            self._by_id[decision.supersedes] = replace(old, superseded_by=decision.item_id)
        head = ItemHead(decision.item_id, 0, entry.source, entry.content, None, None)
        self._by_id[decision.item_id] = self._live[entry.source] = head
        self._captures[entry.source] = self._captures.get(entry.source, 0) + 1

    async def _carry_tags(self) -> None:
        """A new version starts with its predecessor's accepted tags as proposals: a person decides again."""
        successors: Mapping[ItemId, ItemId] = {
            item.supersedes: item.item_id for item in self.new if item.supersedes is not None
        }
        if not successors:
            return
        for tag in await self._transaction.item_tags(sorted(successors)):
            if tag.status is not TagStatus.ACCEPTED:
                continue
            item_id = successors[tag.item_id]
            proposed = FacetTag(tag_id(item_id, tag.facet), item_id, tag.facet, TagStatus.PROPOSED)
            by = f"carried over from {tag.item_id}"
            await self._transaction.put_tag(proposed, TagEvent(None, TagStatus.PROPOSED, by, self._now))


def _checked(capture: Capture) -> _Hashed | CitewellError:
    try:
        check_capture(capture)
    except CitewellError as error:
        return error
    return _Hashed(capture, source_key_hash(capture.source), content_hash(capture))
