"""Two or more models on the same sets: what each finds, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval.errors import OtherDataset
from eval.inference import Comparison, compare
from eval.measures import RECALL
from eval.report import Report
from service.search.request import Arms


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model on one set. Milliseconds; `against_first` is hybrid recall@8 minus the first model's."""

    model: str
    set_name: str
    vector: float
    hybrid: float
    against_first: Comparison | None
    encode_passage_ms: float | None
    encode_query_ms: float | None
    answer_ms: float | None


def compare_models(reports: Sequence[Report]) -> list[ModelRow]:
    """A row a set and model, in the order given. Raises OtherDataset when the data differ."""
    first = reports[0]
    for report in reports[1:]:
        if report.dataset_hash != first.dataset_hash:
            raise OtherDataset(
                f"{report.model.name} was measured on {report.dataset_hash[:12]}, "
                f"{first.model.name} on {first.dataset_hash[:12]}"
            )
    return [_row(report, name, first) for name in [one.name for one in first.sets] for report in reports]


def _row(report: Report, name: str, first: Report) -> ModelRow:
    one, base = report.set_named(name), first.set_named(name)
    if one is None or base is None:
        raise OtherDataset(f"the set {name} is not in every report")
    hybrid, vector = one.arms[Arms.HYBRID.value][RECALL], one.arms[Arms.VECTOR.value][RECALL]
    timings = report.timings
    against = None
    if report is not first:
        mine, theirs = (r.per_query[Arms.HYBRID.value][RECALL] for r in (one, base))
        against = compare([mine[q] for q in theirs], list(theirs.values()), report.seed)
    encoded = timings.passages_encoded
    return ModelRow(
        model=report.model.name,
        set_name=name,
        vector=vector.estimate,
        hybrid=hybrid.estimate,
        against_first=against,
        encode_passage_ms=1e3 * timings.encode_seconds / encoded if encoded else None,
        encode_query_ms=timings.encode_query.get("p50"),
        answer_ms=timings.answers.get(name, {}).get(Arms.HYBRID.value, {}).get("p50"),
    )
