"""What a request does with the vector arm, and what it says where the arm does not run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from service.core.cursors import Position
from service.core.fusion import FusionSettings
from service.core.rollout import RolloutDecision, decide_rollout
from service.ports.flag import RolloutFlag
from service.ports.tracing import Step, Tracer
from service.search.degradation import ArmDegraded, Reason
from service.search.hybrid import FUSION_DEPTH
from service.search.nearest import EncodedQuery, Nearest, VectorRequest
from service.search.page import LEXICAL
from service.search.request import Answer, Arms, ArmState, RetrieveOptions, Subject, VectorArm
from service.search.vector_arm import VectorArm as VectorSearchArm

RAN = VectorArm(ArmState.RAN, "ran")
Report = Callable[[Subject, RetrieveOptions, Answer], None]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Everything the vector arm adds. `budget` is in seconds, counted from the request's arrival.

    `shadow` is told of every answer that was served while the flag said shadow.
    """

    arm: VectorSearchArm
    flag: RolloutFlag
    fusion: FusionSettings = field(default_factory=FusionSettings)
    budget: float = 0.25
    shadow: Report | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Whether the vector arm runs and until when (monotonic seconds), and what is said if it does not."""

    run: bool
    vector: VectorArm
    deadline: float
    fusion: FusionSettings
    encoded: EncodedQuery | None = None

    def has_encoded(self, text: str) -> bool:
        """Whether this text's vector is there; no text needs none."""
        return not text.strip() or (self.encoded is not None and self.encoded.request.text == text)

    def degraded(self, reason: Reason) -> "Plan":
        """Go on without the arm, and say why."""
        return replace(self, run=False, vector=VectorArm(ArmState.DEGRADED, reason), encoded=None)


class Planner:
    """The vector arm's part of a read, up to its first candidates; without `hybrid` it is always off."""

    def __init__(self, hybrid: Hybrid | None, tracer: Tracer) -> None:
        self._hybrid = hybrid
        self._tracer = tracer

    async def plan(self, options: RetrieveOptions, start: Position | None) -> Plan:
        """The flag's word, unless the request names its arms, is a drill or goes on with a lexical walk.

        A drill asks for the vector arm whatever the flag says: it is to be seen before anybody has the arm.
        """
        hybrid = self._hybrid
        if hybrid is None or options.arms is Arms.LEXICAL:
            return Plan(
                run=False, vector=VectorArm(ArmState.OFF, Reason.OFF), deadline=0.0, fusion=FusionSettings()
            )
        arrived = time.monotonic() if options.arrived is None else options.arrived
        deadline = arrived + (hybrid.budget if options.budget is None else options.budget)
        decision = RolloutDecision.RUN
        if options.arms is Arms.BY_FLAG and options.drill is None:
            state = await hybrid.flag.state(options.workspace)
            decision = decide_rollout(state, options.workspace, options.caller)
        if start is not None and start.ranking == LEXICAL and decision is RolloutDecision.RUN:
            decision = RolloutDecision.OFF  # a walk stays on the ranking that its first page had
        fusion = hybrid.fusion
        if options.arms is Arms.VECTOR:
            fusion = FusionSettings(k=fusion.k, lexical_weight=0.0, vector_weight=1.0)
        run = decision is RolloutDecision.RUN
        plan = Plan(run, RAN if run else VectorArm(ArmState.OFF, Reason(decision.value)), deadline, fusion)
        refused = hybrid.arm.refusal(options.drill) if run else None
        return plan if refused is None else plan.degraded(refused)

    async def encoded(self, text: str, options: RetrieveOptions, plan: Plan) -> Plan:
        """The plan with the text's vector. No snapshot is held meanwhile: they are few, and encoding is slow."""
        if self._hybrid is None or not plan.run or plan.has_encoded(text):
            return plan
        request = VectorRequest(
            text=text,
            workspace=options.workspace,
            content_type=options.content_type,
            deadline=plan.deadline,
            budget=self._hybrid.budget,
            drill=options.drill,
            tracer=self._tracer,
        )
        with self._tracer.span(Step.VECTOR) as span:
            try:
                return replace(plan, encoded=await self._hybrid.arm.encode(request))
            except ArmDegraded as degraded:
                span.fail(degraded.reason.value)
                return plan.degraded(degraded.reason)

    async def nearest(self, encoded: EncodedQuery) -> Nearest:
        """The vector arm's first round, under the request's deadline. Raises ArmDegraded."""
        if self._hybrid is None:
            raise ArmDegraded(Reason.OFF)
        with self._tracer.span(Step.VECTOR) as span:
            try:
                return await self._hybrid.arm.nearest(encoded, FUSION_DEPTH)
            except ArmDegraded as degraded:
                span.fail(degraded.reason.value)
                raise

    def served(self, subject: Subject, options: RetrieveOptions, answer: Answer, plan: Plan) -> None:
        """Tell the shadow of an answer that was served while the flag said shadow."""
        hybrid = self._hybrid
        if hybrid is not None and hybrid.shadow is not None and plan.vector.reason == Reason.SHADOW:
            hybrid.shadow(subject, options, answer)
