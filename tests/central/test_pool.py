"""How the pool grows, against an index that is as bad as an honest one can be."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.facets import TAG_BOOST
from service.core.order import rank_key
from service.core.retrieval import CorpusItem, corpus_statistics, retrieve_passages, scorable_passage
from service.core.scoring import Ranked, ScorablePassage, TermStatistics, WeightedTerm, score_passage
from service.core.tokenize import query_terms
from service.model import ContentType, ItemId, PassageText, Workspace
from service.ports.lexical import CandidatePool, CandidateSource
from service.ports.store import Candidate, PassageKey
from service.search import lexical_ranking
from service.search.lexical_ranking import Reach, Scope, rank_lexical
from service.search.request import ResolvedQuery
from tests.central.model import EVERYTHING

pytestmark = pytest.mark.anyio

SCOPE = Scope(Workspace("w"), None)
GHOSTS = 10  # keys that no row has


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one moment, by passage key. Has what a ranking asks of a ReadSnapshot."""

    passages: Mapping[int, ScorablePassage]

    async def candidates(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Sequence[Candidate]:
        """Those of the keys that exist."""
        assert len(set(keys)) == len(keys), "asked twice in one breath"
        return [Candidate(PassageKey(key), self.passages[key]) for key in keys if key in self.passages]

    async def item_candidates(
        self, workspace: Workspace, item_ids: Sequence[ItemId], content_type: ContentType | None, bound: int
    ) -> Sequence[Candidate]:
        """The items' passages in order, at most `bound`."""
        found = [
            Candidate(PassageKey(key), passage)
            for item_id in item_ids
            for key, passage in self.passages.items()
            if passage.item_id == item_id
        ]
        return found[:bound]


@dataclass(slots=True)
class Honest:
    """Proposes any `depth` keys it likes, ghosts and repeats among them, and says truly what it left out,
    mostly for every beginning of its list too.
    """

    rows: Rows
    statistics: TermStatistics
    chance: random.Random
    seq: int = 1
    source: CandidateSource = CandidateSource.INDEX

    async def candidates(
        self, terms: Sequence[WeightedTerm], content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        """Random passages that match; the ceiling is the best score among the others, or somewhat more."""
        mean = self.statistics.mean_length
        scores = {key: score_passage(passage, terms, mean) for key, passage in self.rows.passages.items()}
        matching = sorted(
            (key for key, score in scores.items() if score), key=lambda key: (-scores[key], key)
        )
        swapped = [key for key in matching if self.chance.random() < 0.9]
        keys = (swapped + [key for key in matching if key not in swapped])[:depth]
        proposed = [*keys, *keys[:2], *(-ghost for ghost in range(1, GHOSTS))]
        slack = self.chance.choice([1.0, 1.0, 1.2])
        bounds = [
            max((scores[key] for key in matching if key not in proposed[: n + 1]), default=0.0) * slack
            for n in range(len(proposed))
        ]
        return CandidatePool(proposed, bounds[-1], bounds if self.chance.random() < 0.7 else ())


@dataclass(frozen=True, slots=True)
class Case:
    """A corpus, a request and what tags lift."""

    items: list[CorpusItem]
    boosts: dict[ItemId, float]
    query: str
    seed: int


def case(texts: list[list[str]], lifts: list[int], query: str, seed: int) -> Case:
    """Items named in order, lifted by so many tags each."""
    items = [
        CorpusItem(
            ItemId(f"i{n:02}"),
            "",
            ContentType.BLOG,
            tuple(PassageText(k, None, t) for k, t in enumerate(one)),
        )
        for n, one in enumerate(texts)
    ]
    boosts = {item.item_id: TAG_BOOST * lift for item, lift in zip(items, lifts, strict=False) if lift}
    return Case(items, boosts, query, seed)


bodies = st.lists(st.sampled_from(["sill", "sill", "door", "water"]), min_size=1, max_size=6).map(" ".join)
cases = st.builds(
    case,
    st.lists(st.lists(bodies, min_size=1, max_size=5), min_size=1, max_size=15),
    st.lists(st.integers(0, 2), max_size=15),
    st.sampled_from(["sill", "sill door", "door water", ""]),
    st.integers(0, 10),
)


async def rank(drawn: Case, reach: Reach) -> lexical_ranking.LexicalRanking:
    """Rank with tiny first pools."""
    everything = [scorable_passage(item, passage) for item in drawn.items for passage in item.passages]
    rows = Rows(dict(enumerate(everything)))
    terms = query_terms(drawn.query)
    view = Honest(rows, corpus_statistics(everything, terms), random.Random(drawn.seed))  # noqa: S311
    query = ResolvedQuery(terms, drawn.query, drawn.boosts, {})
    return await rank_lexical(rows, view, query, SCOPE, reach)  # type: ignore[arg-type]


def pure(drawn: Case) -> list[Ranked]:
    """The whole ranking by the pure function."""
    return retrieve_passages(drawn.items, query_terms(drawn.query), EVERYTHING, item_boosts=drawn.boosts)


@pytest.fixture(autouse=True, scope="module")
def tiny() -> Iterator[None]:
    """Pools that have to grow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical_ranking, "FIRST_DEPTH", 1)
        patch.setattr(lexical_ranking, "TAGGED_BOUND", 2)
        patch.setattr(lexical_ranking, "GROWTH", 2)
        patch.setattr(lexical_ranking, "LOOP_BOUND", 3)
        yield


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases, st.integers(1, 30))
async def test_exact_down_to_the_rank_asked_for(drawn: Case, needed: int) -> None:
    """C15: whatever an honest index proposes, the first ranks are the pure function's, boosts included."""
    ranking = await rank(drawn, Reach(needed))
    expected = pure(drawn)
    assert ranking.exhaustive
    assert ranking.ranked[:needed] == expected[:needed]
    assert (len(ranking.ranked) >= needed) == (len(expected) >= needed)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases, st.integers(0, 40), st.integers(1, 6), st.integers(-1, 1))
async def test_exact_behind_a_place(drawn: Case, at: int, behind: int, off: int) -> None:
    """C13: behind any place, even one that no passage has, the next passages are the pure function's."""
    expected = pure(drawn)
    if not expected:
        return
    last = expected[at % len(expected)]
    place = rank_key(last.score + off * 0.01, last.item_id, last.seq)
    ranking = await rank(drawn, Reach(1, place, behind))
    following = [r for r in expected if rank_key(r.score, r.item_id, r.seq) > place]
    first = ranking.first_after(place)
    assert ranking.ranked[first : first + behind] == following[:behind]
    assert (len(ranking.ranked) >= first + behind) == (len(following) >= behind)


async def test_an_endless_tie_ends_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tie longer than is looked at ends the search, and the ranking says that it is not certain."""
    monkeypatch.setattr(lexical_ranking, "MAX_DEPTH", 8)
    drawn = case([["sill"]] * 40, [], "sill", 1)
    ranking = await rank(drawn, Reach(2))
    assert not ranking.exhaustive
    assert len(ranking.ranked) <= 8
