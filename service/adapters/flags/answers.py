"""What a provider's answer means: a state, or nothing that the last known state should give way to."""

from dataclasses import dataclass

from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason

from service.adapters.flags.providers import PROBLEM
from service.core.rollout import OFF, FlagState, parse_flag
from service.errors import InvalidInput

# The holder answered, and what it holds is wrong: that is known, and it means off.
_WRONG = frozenset({ErrorCode.PARSE_ERROR, ErrorCode.TYPE_MISMATCH, ErrorCode.INVALID_CONTEXT})


class NoAnswer(Exception):
    """The provider could not say what the flag is."""


@dataclass(frozen=True, slots=True)
class Meant:
    """A state. `unparsable` is the text that is no state at all, in a short excerpt."""

    state: FlagState
    problem: str | None = None
    unparsable: str | None = None


def understood(details: FlagEvaluationDetails[str]) -> Meant:
    """The state that an evaluation means. Raises NoAnswer."""
    if details.reason == Reason.DISABLED:
        return Meant(OFF, "the flag is disabled")
    match details.error_code:
        case None:
            problem = details.flag_metadata.get(PROBLEM)
            return _parsed(details.value, None if problem is None else str(problem))
        case ErrorCode.FLAG_NOT_FOUND:
            return _parsed(details.value, "the holder has no such flag; the environment's value counts")
        case code if code in _WRONG:
            return Meant(OFF, f"the holder's flag is wrong ({code.value}): {details.error_message}"[:300])
        case code:
            raise NoAnswer(f"the flag's holder failed ({code.value}): {details.error_message}"[:300])


def _parsed(text: str, problem: str | None) -> Meant:
    try:
        return Meant(parse_flag(text), problem)
    except InvalidInput as error:
        excerpt = text[:40]
        return Meant(OFF, f"{excerpt!r} is no state of the flag: {error.detail}", excerpt)
