"""A whole run: instances of the corpora, rankings of the sets, and the report over them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eval.dataset import Dataset, Findings
from eval.encoding import EncodingCost
from eval.errors import NoRelevantPassage, OverlappingIds
from eval.evaluation import SEED, Conditions, answer_times, assemble
from eval.instance import Instance, Laboratory, open_instance, open_laboratory
from eval.progress import Progress
from eval.rankings import Rankings, collect
from eval.report import Model, Report, SetReport, Timings
from eval.scoring import score_set
from eval.sets import NamedSet
from eval.timing import percentiles
from service.core.fusion import FusionSettings
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to measure. `cache_dir` keeps embeddings for later runs."""

    sets: Sequence[Dataset]
    model: str
    fusion: FusionSettings
    cache_dir: Path
    settings: Settings
    seed: int = SEED
    paraphrase: str = NamedSet.PARAPHRASE.value
    exact: str = NamedSet.EXACT.value

    def __post_init__(self) -> None:
        """Raises OverlappingIds when two sets have one name."""
        names = [one.name for one in self.sets]
        for name in names:
            if names.count(name) > 1:
                raise OverlappingIds(f"two sets are named {name[:80]!r}")


@dataclass(frozen=True, slots=True)
class Measured:
    """A report with the rankings behind it, by set."""

    report: Report
    datasets: Sequence[Dataset]
    rankings: Sequence[Rankings]


async def run_plan(plan: RunPlan, progress: Progress | None = None) -> Measured:
    """Measure every set. Raises EvaluationError, ConfigurationError, Unavailable."""
    async with open_laboratory(plan.settings, plan.cache_dir, plan.model) as laboratory:
        return await run_in(laboratory, plan, progress)


async def run_in(laboratory: Laboratory, plan: RunPlan, progress: Progress | None = None) -> Measured:
    """Measure every set with a model that is loaded; a corpus is stored once for all of its sets."""
    scored: dict[str, tuple[Dataset, Rankings, SetReport]] = {}
    costs: list[EncodingCost] = []
    for digest in dict.fromkeys(one.corpus.digest for one in plan.sets):
        sets = [one for one in plan.sets if one.corpus.digest == digest]
        async with open_instance(laboratory, sets[0].corpus, progress) as instance:
            for dataset in sets:
                scored[dataset.name] = await _measured(instance, dataset, plan, progress)
            costs.append(instance.cost)
    ordered = [scored[one.name] for one in plan.sets]
    conditions = Conditions(
        model=Model(laboratory.model, laboratory.encoder.fingerprint),
        fusion=plan.fusion,
        seed=plan.seed,
        paraphrase=plan.paraphrase,
        exact=plan.exact,
        settings={
            "backend": plan.settings.embedding_backend,
            "precision": plan.settings.embedding_precision,
        },
    )
    report = assemble([one for _, _, one in ordered], conditions, _timings(ordered, costs))
    return Measured(report, [one for one, _, _ in ordered], [one for _, one, _ in ordered])


async def _measured(
    instance: Instance, dataset: Dataset, plan: RunPlan, progress: Progress | None
) -> tuple[Dataset, Rankings, SetReport]:
    known = await known_judgements(instance, dataset)
    retriever = instance.retriever(plan.fusion)
    rankings = await collect(retriever, known, plan.fusion, instance.weigh, progress)
    items = {
        hit.item_id
        for ranked in rankings.queries.values()
        for ranking in (ranked.lexical, ranked.vector, ranked.hybrid)
        for hit in ranking
    }
    stale = frozenset([item for item in sorted(items) if await instance.is_stale(item)])
    return known, rankings, score_set(known, rankings, stale, plan.seed)


async def known_judgements(instance: Instance, dataset: Dataset) -> Dataset:
    """The set without judgements of passages that the corpus does not have; they are reported.

    Raises NoRelevantPassage when that leaves no query at all.
    """
    names = sorted({name for scores in dataset.qrels.values() for name in scores})
    known: set[str] = set()
    for item_id in sorted({name.partition("#")[0] for name in names}):
        known |= await instance.names_of(item_id)
    unknown = [name for name in names if name not in known]
    if not unknown:
        return dataset
    qrels = {q: {n: s for n, s in scores.items() if n in known} for q, scores in dataset.qrels.items()}
    qrels = {query: scores for query, scores in qrels.items() if any(s > 0 for s in scores.values())}
    if not qrels:
        raise NoRelevantPassage(f"no judged passage of {dataset.name} is in its corpus")
    dropped = sorted(set(dataset.qrels) - set(qrels))
    findings: Findings = replace(
        dataset.findings,
        unknown_passages=tuple(unknown),
        unjudged_queries=(*dataset.findings.unjudged_queries, *dropped),
    )
    return replace(dataset, qrels=qrels, findings=findings)


def _timings(scored: Sequence[tuple[Dataset, Rankings, SetReport]], costs: Sequence[EncodingCost]) -> Timings:
    return Timings(
        answers={dataset.name: answer_times(rankings) for dataset, rankings, _ in scored},
        encode_query=percentiles([second for cost in costs for second in cost.query_seconds]),
        passages_encoded=sum(cost.encoded for cost in costs),
        passages_from_cache=sum(cost.from_cache for cost in costs),
        encode_seconds=round(sum(cost.seconds for cost in costs), 6),
    )
