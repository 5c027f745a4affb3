"""GO or NO-GO: the bar as one pure function of the figures."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eval.inference import Interval

BAR: Final = 0.80  # hybrid recall@8 on the paraphrase set
_ROUNDING: Final = 1e-9
_UNMEASURED: Final = "not measured"


class Decision(StrEnum):
    """What the evaluation says about turning the vector arm on. Turning it on is a person's act."""

    GO = "GO"
    NO_GO = "NO-GO"


class Condition(StrEnum):
    """What GO needs, all of it."""

    BAR = "bar"
    BETTER_THAN_LEXICAL = "better-than-lexical"
    EXACT_TOKENS = "exact-tokens"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class ParaphraseFigures:
    """Hybrid recall@8 on the paraphrase set, and hybrid minus lexical, paired."""

    hybrid: float
    gain: Interval


@dataclass(frozen=True, slots=True)
class ExactFigures:
    """Recall@8 on the exact-token set, and the look-alikes that stand above a relevant passage."""

    lexical: float
    hybrid: float
    misleading_lexical: int
    misleading_hybrid: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The figures that decide; None is what was not measured. `stale_hits` counts over every arm and set."""

    paraphrase: ParaphraseFigures | None
    exact: ExactFigures | None
    stale_hits: int


@dataclass(frozen=True, slots=True)
class Check:
    """One condition, whether it holds, and the figures as a sentence."""

    condition: Condition
    holds: bool
    figures: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The decision with its reasons."""

    decision: Decision
    checks: tuple[Check, ...]


def decide(evidence: Evidence) -> Judgement:
    """GO when every condition holds."""
    checks = (_bar(evidence), _gain(evidence), _exact(evidence), _stale(evidence))
    return Judgement(Decision.GO if all(check.holds for check in checks) else Decision.NO_GO, checks)


def _bar(evidence: Evidence) -> Check:
    if evidence.paraphrase is None:
        return Check(Condition.BAR, holds=False, figures=_UNMEASURED)
    recall = evidence.paraphrase.hybrid
    figures = f"hybrid recall@8 {recall:.3f}, at least {BAR:.2f} is needed"
    return Check(Condition.BAR, recall >= BAR - _ROUNDING, figures)


def _gain(evidence: Evidence) -> Check:
    if evidence.paraphrase is None:
        return Check(Condition.BETTER_THAN_LEXICAL, holds=False, figures=_UNMEASURED)
    gain = evidence.paraphrase.gain
    figures = f"hybrid - lexical {gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], must be above 0"
    return Check(Condition.BETTER_THAN_LEXICAL, gain.low > 0.0, figures)


def _exact(evidence: Evidence) -> Check:
    exact = evidence.exact
    if exact is None:
        return Check(Condition.EXACT_TOKENS, holds=False, figures=_UNMEASURED)
    kept = exact.hybrid >= exact.lexical - _ROUNDING
    clean = exact.misleading_hybrid <= exact.misleading_lexical
    figures = (
        f"recall@8 hybrid {exact.hybrid:.3f}, lexical {exact.lexical:.3f}; look-alikes above a relevant "
        f"passage: hybrid {exact.misleading_hybrid}, lexical {exact.misleading_lexical}"
    )
    return Check(Condition.EXACT_TOKENS, kept and clean, figures)


def _stale(evidence: Evidence) -> Check:
    figures = f"{evidence.stale_hits} passages of stale items in the answers, must be 0"
    return Check(Condition.STALE, evidence.stale_hits == 0, figures)
