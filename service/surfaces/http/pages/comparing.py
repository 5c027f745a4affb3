"""The lexical and the hybrid order of one request side by side, and who moved."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from service.model import RetrievedPassage
from service.search.request import Answer, Arms, ArmState, RetrieveOptions, Subject
from service.search.retrieve import Retriever
from service.surfaces.http.pages.asked import FORCED_BUDGET_S
from service.surfaces.http.pages.results import Hit


@dataclass(frozen=True, slots=True)
class Placed:
    """A hit in one of the two orders. `mood` is up, down, same, new or gone; `move` says it in words."""

    hit: Hit
    mood: str
    move: str


@dataclass(frozen=True, slots=True)
class Both:
    """The two answers to one request."""

    lexical: Answer
    hybrid: Answer

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The passages of both, best first."""
        return _names(self.lexical), _names(self.hybrid)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both orders. `is_fused` is false where the vector arm did not run: then the two are the same.

    `shared` passages are on both pages, `moved` of them in different places.
    """

    lexical: tuple[Placed, ...]
    hybrid: tuple[Placed, ...]
    shared: int
    moved: int
    is_fused: bool

    @property
    def told(self) -> str:
        """How the two pages differ, in a sentence."""
        if self.shared == 0:
            return "No passage is on both pages."
        both = (
            "1 passage is on both pages" if self.shared == 1 else f"{self.shared} passages are on both pages"
        )
        if self.moved == 0:
            return f"{both}, in the same place." if self.shared == 1 else f"{both}, each in the same place."
        if self.shared == 1:
            return f"{both}, in another place."
        return f"{both}; {self.moved} of them {'is' if self.moved == 1 else 'are'} in another place."


async def both_ways(retriever: Retriever, subject: Subject, options: RetrieveOptions) -> Both:
    """Ask lexically and with both arms. Raises what retrieving raises."""
    asked = replace(options, cursor=None, budget=FORCED_BUDGET_S)
    lexical = await retriever.retrieve(subject, replace(asked, arms=Arms.LEXICAL))
    await asyncio.sleep(0)
    return Both(lexical, await retriever.retrieve(subject, replace(asked, arms=Arms.HYBRID)))


def compared(both: Both, hit_of: Callable[[RetrievedPassage, int], Hit]) -> Comparison:
    """The two orders with every passage's move, as the hybrid's reader sees it."""
    before, after = both.names
    places = {name: place for place, name in enumerate(before)}
    moves = [places[name] != place for place, name in enumerate(after) if name in places]
    return Comparison(
        lexical=_placed(both.lexical.results, after, hit_of, is_before=True),
        hybrid=_placed(both.hybrid.results, before, hit_of, is_before=False),
        shared=len(moves),
        moved=sum(moves),
        is_fused=both.hybrid.vector.state is ArmState.RAN,
    )


def _placed(
    passages: Sequence[RetrievedPassage],
    other: Sequence[str],
    hit_of: Callable[[RetrievedPassage, int], Hit],
    *,
    is_before: bool,
) -> tuple[Placed, ...]:
    ranks = {name: rank for rank, name in enumerate(other, start=1)}
    placed = []
    for rank, passage in enumerate(passages, start=1):
        mood, move = _move(rank, ranks.get(passage.passage_id), is_before=is_before)
        placed.append(Placed(hit_of(passage, rank), mood, move))
    return tuple(placed)


def _move(rank: int, elsewhere: int | None, *, is_before: bool) -> tuple[str, str]:
    if elsewhere is None:
        return ("gone", "not in the hybrid page") if is_before else ("new", "new")
    if elsewhere == rank:
        return "same", "same place"
    lexical, hybrid = (rank, elsewhere) if is_before else (elsewhere, rank)
    if hybrid < lexical:
        return "up", f"up {lexical - hybrid}" if not is_before else f"moves up to {hybrid}"
    return "down", f"down {hybrid - lexical}" if not is_before else f"moves down to {hybrid}"


def _names(answer: Answer) -> list[str]:
    return [passage.passage_id for passage in answer.results]
