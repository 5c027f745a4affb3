"""Exact counts over live passages, kept beside the index because the engine's own count deleted documents."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from service.core.scoring import TermStatistics
from service.core.tokenize import INNER
from service.ports.store import IndexablePassage


@dataclass(slots=True)
class Counts:
    """Passages, their total body length, and per term the number of passages that have it in any field."""

    passages: int = 0
    length: int = 0
    frequency: dict[str, int] = field(default_factory=dict)

    def statistics(self, terms: Sequence[str]) -> TermStatistics:
        """The statistics of a query's terms, as values that later changes do not touch."""
        mean = self.length / self.passages if self.passages else 0.0
        return TermStatistics(self.passages, mean, {term: self.frequency.get(term, 0) for term in terms})

    def copy(self) -> "Counts":
        """Counts that later changes do not touch."""
        return Counts(self.passages, self.length, dict(self.frequency))

    def apply(self, delta: "Delta") -> None:
        """Add a delta. Terms that no passage has any more are forgotten."""
        self.passages += delta.passages
        self.length += delta.length
        frequency = self.frequency
        for term, change in delta.frequency.items():
            count = frequency.get(term, 0) + change
            if count:
                frequency[term] = count
            else:
                frequency.pop(term, None)


@dataclass(slots=True)
class Delta:
    """What a batch of changes does to the counts."""

    passages: int = 0
    length: int = 0
    frequency: Counter[str] = field(default_factory=Counter)

    def enter(self, passages: Iterable[IndexablePassage]) -> None:
        """Passages that became live."""
        for passage in passages:
            self.passages += 1
            self.length += passage.length
            self.frequency.update(distinct_terms(passage))

    def leave(self, passages: Iterable[IndexablePassage]) -> None:
        """Passages that turned stale."""
        for passage in passages:
            self.passages -= 1
            self.length -= passage.length
            self.frequency.subtract(distinct_terms(passage))


def distinct_terms(passage: IndexablePassage) -> set[str]:
    """The terms of all fields, without the marks of inner parts."""
    terms = set(passage.body.split())
    terms.update(passage.title.split(), passage.heading.split())
    if any(f" {INNER}" in part for part in (passage.body, passage.title, passage.heading)):
        return {term for term in terms if term[0] != INNER}
    return terms


def counts_of(stored: Mapping[str, object]) -> Counts:
    """Counts from their stored form. Raises ValueError when it is not one."""
    passages, length, frequency = stored.get("passages"), stored.get("length"), stored.get("frequency")
    if not (isinstance(passages, int) and isinstance(length, int) and isinstance(frequency, dict)):
        raise ValueError("not stored counts")  # noqa: TRY004 - one error for every damage
    return Counts(passages, length, frequency)
