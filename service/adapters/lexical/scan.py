"""Candidates without an index: every row of a snapshot is read. The same answers, slower."""

from collections.abc import Sequence

from service.adapters.lexical.statistics import Delta
from service.core.scoring import TermStatistics, WeightedTerm
from service.model import ContentType, Workspace
from service.ports.lexical import CandidatePool, CandidateSource
from service.ports.store import PassageKey, ReadSnapshot

PAGE = 2_000


class ScanView:
    """A view made by reading every live passage once. Implements LexicalView."""

    def __init__(
        self,
        snapshot: ReadSnapshot,
        statistics: TermStatistics,
        keys: Sequence[int],
        source: CandidateSource = CandidateSource.SCAN,
    ) -> None:
        self.seq = snapshot.seq
        self.nonce = snapshot.nonce
        self.statistics = statistics
        self.source = source
        self._keys = keys

    async def candidates(
        self, terms: Sequence[WeightedTerm], content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        """Every passage that holds any of the view's terms, whatever the depth."""
        return CandidatePool(self._keys if terms else (), 0.0)


async def scan_view(workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> ScanView:
    """Read the whole snapshot. Meant for corpora small enough to answer from without an index."""
    delta, keys = Delta(), []
    after: PassageKey | None = None
    needles = [f" {term} " for term in terms]
    while page := await snapshot.scan(workspace, after, PAGE):
        after = page[-1].key
        delta.enter(page)
        keys += [
            passage.key
            for passage in page
            if any(n in passage.body or n in passage.title or n in passage.heading for n in needles)
        ]
    mean = delta.length / delta.passages if delta.passages else 0.0
    frequency = {term: delta.frequency[term] for term in terms}
    return ScanView(snapshot, TermStatistics(delta.passages, mean, frequency), keys)


def nothing_view(snapshot: ReadSnapshot, terms: Sequence[str]) -> ScanView:
    """What an index of no passages would say."""
    return ScanView(snapshot, TermStatistics(0, 0.0, dict.fromkeys(terms, 0)), (), CandidateSource.INDEX)
