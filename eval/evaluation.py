"""Sets in, a report out: for a command, and for anybody with a retriever."""

import importlib.metadata
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from eval.dataset import Dataset
from eval.decision import Evidence, ExactFigures, Judgement, ParaphraseFigures, decide
from eval.measures import RECALL
from eval.progress import Progress
from eval.rankings import Rankings, collect
from eval.report import CheckOut, Model, Report, SetReport, Timings
from eval.scoring import score_set
from eval.sets import NamedSet
from eval.timing import percentiles
from service.core.fusion import FusionSettings
from service.search.request import Arms
from service.search.retrieve import Retriever

SEED: Final = 20_100_719
_PACKAGES: Final = (
    "citewell",
    "ir-measures",
    "numpy",
    "sentence-transformers",
    "tantivy",
    "torch",
    "transformers",
)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an evaluation was carried out under; all of it goes into the report.

    `paraphrase` and `exact` name the sets that decide.
    """

    model: Model = field(default_factory=lambda: Model("unknown", "unknown"))
    fusion: FusionSettings = field(default_factory=FusionSettings)
    seed: int = SEED
    paraphrase: str = NamedSet.PARAPHRASE.value
    exact: str = NamedSet.EXACT.value
    settings: Mapping[str, str | int | float] = field(default_factory=dict)


async def evaluate(
    retriever: Retriever,
    dataset: Dataset,
    conditions: Conditions | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measure a retriever on a set through the entry point that production uses.

    `conditions.fusion` is what the retriever was made with. Without the sets that decide, the decision is
    NO-GO and says what was not measured. Raises ArmDidNotRun, StoreUnavailable.
    """
    held = conditions or Conditions()
    rankings = await collect(retriever, dataset, held.fusion, progress=progress)
    scored = score_set(dataset, rankings, frozenset(), held.seed)
    return assemble([scored], held, Timings(answers={dataset.name: answer_times(rankings)}))


def assemble(sets: Sequence[SetReport], conditions: Conditions, timings: Timings) -> Report:
    """The report over the sets, with its decision."""
    judgement = judge(sets, conditions)
    fusion = conditions.fusion
    return Report(
        schema="citewell-eval-1",
        decision=judgement.decision.value,
        dataset_hash=whole_hash(sets),
        created_at=datetime.now(UTC),
        seed=conditions.seed,
        model=conditions.model,
        settings={
            "fusion_method": fusion.method.value,
            "fusion_coverage_power": fusion.power,
            "fusion_k": fusion.k,
            "fusion_lexical_weight": fusion.lexical_weight,
            "fusion_vector_weight": fusion.vector_weight,
            "paraphrase_set": conditions.paraphrase,
            "exact_set": conditions.exact,
            **conditions.settings,
        },
        versions=versions(),
        checks=[CheckOut(one.condition.value, one.holds, one.figures) for one in judgement.checks],
        sets=list(sets),
        timings=timings,
    )


def judge(sets: Sequence[SetReport], conditions: Conditions) -> Judgement:
    """The decision on what was measured."""
    named = {one.name: one for one in sets}
    paraphrase, exact = named.get(conditions.paraphrase), named.get(conditions.exact)
    return decide(
        Evidence(
            paraphrase=None if paraphrase is None else _paraphrase(paraphrase),
            exact=None if exact is None else _exact(exact),
            stale_hits=sum(len(one.stale) for one in sets),
        )
    )


def _paraphrase(one: SetReport) -> ParaphraseFigures:
    gain = next(c for c in one.comparisons if c.arm == Arms.LEXICAL.value and c.measure == RECALL)
    return ParaphraseFigures(one.arms[Arms.HYBRID.value][RECALL].estimate, gain.result.difference)


def _exact(one: SetReport) -> ExactFigures:
    def misleading(arm: Arms) -> int:
        return sum(v.arm == arm.value and v.above_relevant for v in one.look_alikes)

    return ExactFigures(
        lexical=one.arms[Arms.LEXICAL.value][RECALL].estimate,
        hybrid=one.arms[Arms.HYBRID.value][RECALL].estimate,
        misleading_lexical=misleading(Arms.LEXICAL),
        misleading_hybrid=misleading(Arms.HYBRID),
    )


def whole_hash(sets: Iterable[SetReport]) -> str:
    """One hash over the sets' own, whatever their order."""
    hashes = sorted(f"{one.name} {one.dataset_hash}" for one in sets)
    return sha256("\n".join(hashes).encode()).hexdigest()


def versions() -> dict[str, str]:
    """What is installed of what can change a figure."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def answer_times(rankings: Rankings) -> dict[str, dict[str, float]]:
    """Median and 95th percentile of each arm, in milliseconds."""
    return {arm: percentiles(seconds) for arm, seconds in rankings.seconds.items()}
