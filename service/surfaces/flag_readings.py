"""The rollout flag and shadow mode's report, in the JSON forms that every surface shares."""

import re
from datetime import datetime, timedelta
from typing import Final

import msgspec

from service.errors import InvalidInput
from service.ingest.flag import FlagOverview
from service.ports.flag import FlagChange
from service.search.shadow_report import Latency, ShadowReport
from service.surfaces.wire import utc_text

SINCE_PATTERN: Final = "^[1-9][0-9]{0,3}[hd]$"
DEFAULT_SINCE: Final = "30d"
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1)}


class FlagRowOut(msgspec.Struct, kw_only=True):
    """A state; the stored default's `workspace` is null."""

    workspace: str | None
    state: str


class EvidenceReportOut(msgspec.Struct, kw_only=True):
    """The evaluation report that a change rests on."""

    path: str
    decision: str
    dataset_hash: str
    created_at: str


class FlagChangeOut(msgspec.Struct, kw_only=True):
    """A change of the flag; `forced` when no evaluation said GO although one was needed."""

    workspace: str | None
    at: str
    who: str
    before: str | None
    after: str | None
    reason: str
    report: EvidenceReportOut | None
    forced: bool


class FlagOut(msgspec.Struct, kw_only=True):
    """The flag as a workspace sees it, and `problem` where that is not what its holder was meant to say.

    `rows` are stored; `states` are what counts for each workspace, whoever holds the flag.
    """

    workspace: str
    state: str
    holder: str
    problem: str | None
    environment: str
    rows: list[FlagRowOut]
    states: list[FlagRowOut]
    changes: list[FlagChangeOut]


class LatencyOut(msgspec.Struct, kw_only=True):
    """Milliseconds, by nearest rank."""

    p50: float
    p95: float


class ShadowReportOut(msgspec.Struct, kw_only=True):
    """What the vector arm would have changed; shares are of the compared requests, null where there are none.

    `degraded` counts the requests whose vector arm did not run, by reason.
    """

    workspace: str | None
    since: str
    requests: int
    compared: int
    mean_overlap_at_8: float | None
    median_overlap_at_8: float | None
    identical_top_8: float | None
    moves: dict[str, int]
    lexical_ms: LatencyOut | None
    hybrid_ms: LatencyOut | None
    added_ms: LatencyOut | None
    degraded: dict[str, int]
    subjects: dict[str, int]


def since_of(text: str, now: datetime) -> datetime:
    """The moment that lies 24h or 7d back. Raises InvalidInput."""
    if re.fullmatch(SINCE_PATTERN, text) is None:
        raise InvalidInput("since is a number of hours or days, such as 24h or 7d", field="since")
    return now - int(text[:-1]) * _UNITS[text[-1]]


def flag_out(overview: FlagOverview) -> FlagOut:
    """An overview as JSON."""
    return FlagOut(
        workspace=overview.workspace,
        state=str(overview.reading.state),
        holder=overview.reading.holder.value,
        problem=overview.reading.problem,
        environment=overview.environment,
        rows=[FlagRowOut(workspace=scope, state=text) for scope, text in overview.rows.items()],
        states=[
            FlagRowOut(workspace=scope, state=str(read.state)) for scope, read in overview.readings.items()
        ],
        changes=[change_out(change) for change in overview.changes],
    )


def change_out(change: FlagChange) -> FlagChangeOut:
    """A change as JSON."""
    evidence = change.evidence
    return FlagChangeOut(
        workspace=change.workspace,
        at=utc_text(change.at),
        who=change.who,
        before=change.before,
        after=change.after,
        reason=change.reason,
        report=None
        if evidence is None
        else EvidenceReportOut(
            path=evidence.path,
            decision=evidence.verdict.value,
            dataset_hash=evidence.dataset_hash,
            created_at=utc_text(evidence.created_at),
        ),
        forced=change.forced,
    )


def shadow_report_out(report: ShadowReport) -> ShadowReportOut:
    """A report as JSON."""
    return ShadowReportOut(
        workspace=report.workspace,
        since=utc_text(report.since),
        requests=report.requests,
        compared=report.compared,
        mean_overlap_at_8=report.mean_overlap,
        median_overlap_at_8=report.median_overlap,
        identical_top_8=report.identical,
        moves={kind.value: count for kind, count in report.moves.items()},
        lexical_ms=_latency_out(report.lexical),
        hybrid_ms=_latency_out(report.hybrid),
        added_ms=_latency_out(report.added),
        degraded=dict(report.degraded),
        subjects=dict(report.subjects),
    )


def _latency_out(latency: Latency | None) -> LatencyOut | None:
    return None if latency is None else LatencyOut(p50=latency.p50, p95=latency.p95)
