"""What each arm answered to each query, asked through the production retriever and kept."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eval.dataset import CUTOFF, Corpus, Dataset
from eval.errors import ArmDidNotRun
from eval.progress import Progress
from service.core.fusion import FusionSettings
from service.core.tokenize import query_terms
from service.model import DEFAULT_WORKSPACE, ItemId, RetrievedPassage
from service.search.hybrid import FUSION_DEPTH
from service.search.request import Answer, Arms, ArmState, ByQuery, Explain, RetrieveOptions
from service.search.retrieve import Retriever

DEPTH: Final = 100  # passages of a ranking that are measured
LATENCY_SAMPLE: Final = 50  # queries whose answers of the default length are timed
BUDGET_S: Final = 60.0  # an evaluation waits for the arm it measures
ARMS: Final = (Arms.LEXICAL, Arms.VECTOR, Arms.HYBRID)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage in a ranking. `covered` is the idf mass of the query that it holds (lexical arm only)."""

    item_id: ItemId
    seq: int
    name: str
    score: float
    covered: float = 0.0


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """What a query's terms weigh in this corpus: their idf mass, and the most that a passage could score.

    A code counts once: its parts are what is looked for in its stead, not in addition.
    """

    mass: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class QueryRankings:
    """One query's rankings, best first: the single arms to the depth that is fused, hybrid to DEPTH."""

    terms: QueryTerms
    lexical: tuple[Hit, ...]
    vector: tuple[Hit, ...]
    hybrid: tuple[Hit, ...]

    def of(self, arm: Arms) -> tuple[Hit, ...]:
        """An arm's ranking as it is measured, to DEPTH."""
        whole = {Arms.LEXICAL: self.lexical, Arms.VECTOR: self.vector, Arms.HYBRID: self.hybrid}[arm]
        return whole[:DEPTH]


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage as a person reads it in a report."""

    title: str
    heading: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Rankings:
    """All queries' rankings on one instance. `seconds` are answer times of the default length, by arm."""

    fusion: FusionSettings
    queries: Mapping[str, QueryRankings]
    shown: Mapping[str, Shown] = field(default_factory=dict)
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


Weigh = Callable[[str], QueryTerms]


def unweighed(text: str) -> QueryTerms:
    """For a corpus whose statistics are out of reach."""
    return QueryTerms(0.0, 0.0)


async def collect(
    retriever: Retriever,
    dataset: Dataset,
    fusion: FusionSettings,
    weigh: Weigh = unweighed,
    progress: Progress | None = None,
) -> Rankings:
    """Ask every judged query of each arm. Raises ArmDidNotRun, StoreUnavailable."""
    shown: dict[str, Shown] = {}
    queries: dict[str, QueryRankings] = {}
    for done, query_id in enumerate(dataset.qrels, start=1):
        text = dataset.queries[query_id]
        answers = {arm: await ask(retriever, text, arm) for arm in ARMS}
        for answer in answers.values():
            shown.update(_shown(answer.results[:CUTOFF]))
        asked = frozenset(term.text for term in query_terms(text) if not term.standalone)
        hits = [tuple(_hits(dataset.corpus, answers[arm].results, arm, asked)) for arm in ARMS]
        queries[query_id] = QueryRankings(weigh(text), *hits)
        if progress is not None:
            progress(f"ask {dataset.name}", done, len(dataset.qrels))
    sample = [dataset.queries[query_id] for query_id in list(dataset.qrels)[:LATENCY_SAMPLE]]
    return Rankings(fusion, queries, shown, await _timed(retriever, sample))


async def ask(retriever: Retriever, text: str, arm: Arms) -> Answer:
    """One arm's answer, whole. Raises ArmDidNotRun where the arm degraded."""
    depth = DEPTH if arm is Arms.HYBRID else FUSION_DEPTH
    explain = Explain.OFF if arm is Arms.HYBRID else Explain.ON
    options = RetrieveOptions(DEFAULT_WORKSPACE, limit=depth, arms=arm, explain=explain, budget=BUDGET_S)
    answer = await retriever.retrieve(ByQuery(text), options)
    if arm is not Arms.LEXICAL and answer.vector.state is ArmState.DEGRADED:
        raise ArmDidNotRun(f"the {arm.value} arm did not run: {answer.vector.reason}")
    return answer


async def _timed(retriever: Retriever, texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Seconds of answers of the default length; query vectors are in memory, as `collect` has left them."""
    seconds: dict[str, tuple[float, ...]] = {}
    for arm in ARMS:
        options = RetrieveOptions(DEFAULT_WORKSPACE, limit=CUTOFF, arms=arm, budget=BUDGET_S)
        taken = []
        for text in texts:
            began = time.perf_counter()
            await retriever.retrieve(ByQuery(text), options)
            taken.append(time.perf_counter() - began)
        seconds[arm.value] = tuple(taken)
    return seconds


def _hits(
    corpus: Corpus, results: Iterable[RetrievedPassage], arm: Arms, asked: frozenset[str]
) -> Iterable[Hit]:
    for result in results:
        explain, score, covered = result.explain, result.score, 0.0
        if explain is not None and arm is Arms.VECTOR and explain.vector_score is not None:
            score = explain.vector_score
        if explain is not None and arm is Arms.LEXICAL:
            covered = sum(match.idf for match in explain.matches if match.term in asked)
        name = corpus.passage_name(result.provenance.item_id, result.heading)
        yield Hit(result.provenance.item_id, result.seq, name, score, covered)


def _shown(results: Iterable[RetrievedPassage]) -> dict[str, Shown]:
    return {
        result.passage_id: Shown(result.provenance.title, result.heading, result.text) for result in results
    }
