"""A report against a stored one: what fell past the tolerance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eval.errors import OtherDataset
from eval.report import Report

TOLERANCE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Change:
    """A measure's mean before and now."""

    set_name: str
    arm: str
    measure: str
    before: float
    now: float
    fell: bool


def compare_reports(baseline: Report, report: Report, tolerance: float = TOLERANCE) -> list[Change]:
    """Every mean of the sets that both have. A new stale passage is a fall whatever the tolerance.

    Raises OtherDataset where a set of the same name has other data, or no set is in both.
    """
    before = {one.name: one for one in baseline.sets}
    shared = [one for one in report.sets if one.name in before]
    if not shared:
        raise OtherDataset("the baseline and the report have no set in common")
    changes: list[Change] = []
    for one in shared:
        old = before[one.name]
        if old.dataset_hash != one.dataset_hash:
            raise OtherDataset(
                f"the baseline's {one.name} is data {old.dataset_hash[:12]}, the report's {one.dataset_hash[:12]}"
            )
        for arm, measures in one.arms.items():
            for measure, now in measures.items():
                was = old.arms[arm][measure].estimate
                fell = now.estimate < was - tolerance - 1e-12
                changes.append(Change(one.name, arm, measure, was, now.estimate, fell))
        changes.append(_stale_change(one.name, len(old.stale), len(one.stale)))
    return changes


def _stale_change(name: str, before: int, now: int) -> Change:
    return Change(name, "any", "stale passages", float(before), float(now), now > before)


def same_figures(a: Report, b: Report) -> Mapping[str, bool]:
    """Whether two runs gave the same: everything but when and how fast they ran."""
    return {
        "decision": a.decision == b.decision and a.checks == b.checks,
        "sets": a.sets == b.sets,
        "dataset_hash": a.dataset_hash == b.dataset_hash,
        "model": a.model.fingerprint == b.model.fingerprint,
    }
