"""What the service's states and reasons mean, in words for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.core.rollout import FlagKind, FlagState
from service.search.degradation import Reason
from service.search.request import LexicalArm, VectorArm

_RAN: Final = "ran"


@dataclass(frozen=True, slots=True)
class Told:
    """A state for people: `mood` is good, idle or bad; `meaning` one sentence; `advice` what to do, or ''."""

    name: str
    state: str
    mood: str
    meaning: str
    advice: str = ""


_OFF_BY_FLAG: Final = "Try it on your own queries with citewell eval run; a person sets the flag afterwards."
_NOT_RUN: Final[Mapping[Reason, tuple[str, str]]] = {
    Reason.OFF: ("The rollout flag is off, so only words were matched, not meanings.", _OFF_BY_FLAG),
    Reason.SHADOW: (
        "The flag is in shadow mode: the answer is lexical, and what vectors would have changed is recorded.",
        "See the reports for what it would have changed.",
    ),
    Reason.NOT_IN_ROLLOUT: (
        "The flag is on for a share of callers, and this one is not among them.",
        "Callers are chosen by their name; the choice stays the same until the share is changed.",
    ),
    Reason.NO_MODEL: (
        "No embedding model is loaded in this process.",
        "Start the service with CITEWELL_VECTORS=on and a model that can be had.",
    ),
    Reason.MODEL_LOADING: ("The embedding model is still being loaded.", "Search again in a minute."),
    Reason.ENCODE_TIMEOUT: (
        "The query was not embedded within the time that an answer may take.",
        "Search again; if it stays so, raise CITEWELL_VECTOR_BUDGET or use a faster encoder.",
    ),
    Reason.ENCODE_ERROR: (
        "The embedding model failed on this query.",
        "The service's log has the cause; the lexical answer is complete.",
    ),
    Reason.STORE_UNAVAILABLE: (
        "The vector store does not answer.",
        "It is tried again by itself; see the status page.",
    ),
    Reason.STORE_TIMEOUT: (
        "The vector store did not answer within the time that an answer may take.",
        "Search again; if it stays so, see the status page.",
    ),
    Reason.STORE_ERROR: ("The vector store refused the search.", "The service's log has the cause."),
    Reason.FINGERPRINT_MISMATCH: (
        "The stored vectors were made by another model than the one that is loaded.",
        "Load the model that made them, or run citewell vectors migrate.",
    ),
    Reason.NO_VECTORS: (
        "No passage in reach has a vector yet.",
        "The worker follows by itself; citewell vectors status says how far it is.",
    ),
    Reason.FORCED_OFF: ("A drill keeps the vector arm off for this request.", ""),
}
_IDLE: Final = frozenset({Reason.OFF, Reason.SHADOW, Reason.NOT_IN_ROLLOUT, Reason.FORCED_OFF})


def lexical_told(arm: LexicalArm) -> Told:
    """How the lexical arm ran."""
    if arm.source == "scan":
        meaning = "The index is being repaired, so the rows themselves were read. The order is the same."
        return Told(
            "Lexical", _RAN, "bad", meaning, "Nothing to do: it repairs itself. The status page has more."
        )
    return Told("Lexical", _RAN, "good", "Words and codes were matched exactly, in title, heading and text.")


def vector_told(arm: VectorArm) -> Told:
    """How the vector arm ran, or why it did not."""
    if arm.reason == _RAN:
        meaning = "Passages near in meaning were fused with the lexical ranking."
        return Told("Vector", _RAN, "good", meaning)
    known = _known(arm.reason)
    if known is None:
        return Told("Vector", arm.state.value, "bad", f"It did not run: {arm.reason}.")
    meaning, advice = _NOT_RUN[known]
    mood = "idle" if known in _IDLE else "bad"
    return Told("Vector", known.value.replace("_", " "), mood, meaning, advice)


def reason_told(reason: str) -> str:
    """Why a vector arm did not run, in one sentence; as it stands where it is of another version."""
    known = _known(reason)
    return reason if known is None else _NOT_RUN[known][0]


def _known(reason: str) -> Reason | None:
    return next((one for one in Reason if one.value == reason), None)


def flag_told(state: FlagState) -> str:
    """What a state of the flag means."""
    match state.kind:
        case FlagKind.OFF:
            return "Every answer is lexical."
        case FlagKind.SHADOW:
            return "Every answer is lexical; both arms run, and the difference is recorded."
        case FlagKind.PERCENT:
            return f"{state.percent:g} % of the callers get both arms fused, the others the lexical answer."
        case FlagKind.ON:
            return "Every answer fuses both arms, unless the vector arm cannot run."
