"""What the search form was filled in with: every search is an address."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from litestar.datastructures import MultiDict

from service.core.access import Access, KeyScope
from service.errors import InvalidInput
from service.model import DEFAULT_LIMIT, SelectionContext
from service.search.request import (
    Arms,
    ByQuery,
    BySelection,
    BySystem,
    Explain,
    RetrieveOptions,
    Subject,
)
from service.surfaces.http.access import Sender
from service.surfaces.http.pages.visit import Parameters
from service.surfaces.http.requests import limit_of
from service.surfaces.wire import content_type

COMPARE: Final = "compare"
FORCED_BUDGET_S: Final = 5.0  # whoever names the arms waits for them
MAX_OPTIONS: Final = 200  # of a selection in an address


class By(StrEnum):
    """The three ways to ask."""

    QUERY = "query"
    SYSTEM = "system"
    SELECTION = "selection"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchForm:
    """The form as it was sent, nothing checked; what is absent is ''. Parameters it lacks are ignored."""

    by: By = By.QUERY
    query: str = ""
    system: str = ""
    option_ids: tuple[str, ...] = ()
    content_type: str = ""
    limit: str = str(DEFAULT_LIMIT)
    is_explained: bool = True
    arms: str = Arms.BY_FLAG.value
    cursor: str = ""

    @classmethod
    def of(cls, parameters: MultiDict[str]) -> "SearchForm":
        """The form that an address holds; of what stands twice the last counts."""
        last = {name: values[-1] for name, values in parameters.dict().items()}
        by = last.get("by", "")
        return cls(
            by=By(by) if by in set(By) else By.QUERY,
            query=last.get("q", ""),
            system=last.get("system", ""),
            option_ids=tuple(dict.fromkeys(parameters.getall("option", []))),
            content_type=last.get("type", ""),
            limit=last.get("limit", "") or str(DEFAULT_LIMIT),
            is_explained=last.get("explain", "") != "off",
            arms=last.get("arms", "") or Arms.BY_FLAG.value,
            cursor=last.get("cursor", ""),
        )

    @property
    def is_comparison(self) -> bool:
        """Whether the lexical and the hybrid order are wanted side by side."""
        return self.arms == COMPARE

    def subject(self) -> Subject | None:
        """What is asked for; None while the form is empty. Raises QueryTooLong, InvalidInput."""
        if self.by is By.SYSTEM:
            return BySystem(self.system) if self.system else None
        if self.by is By.SELECTION:
            if len(self.option_ids) > MAX_OPTIONS:
                raise InvalidInput(f"a selection here has at most {MAX_OPTIONS} options", field="option")
            return BySelection(SelectionContext(self.option_ids)) if self.option_ids else None
        return ByQuery(self.query) if self.query.strip() else None

    def options(self, access: Access, caller: Sender) -> RetrieveOptions:
        """As the use case takes them. Raises InvalidLimit, UnknownContentType, InvalidInput, Forbidden."""
        arms = Arms.BY_FLAG if self.is_comparison else _arms(self.arms)
        if self.is_comparison or arms is not Arms.BY_FLAG:
            access.require(KeyScope.OPERATE)
        return RetrieveOptions(
            access.workspace,
            limit=limit_of(self.limit.strip()),
            content_type=content_type(self.content_type or None),
            cursor=None if self.is_comparison else self.cursor or None,
            explain=Explain.ON,  # the marks in the texts need it; the form decides what else is shown
            caller=caller.name,
            arms=arms,
            budget=None if arms is Arms.BY_FLAG else FORCED_BUDGET_S,
            arrived=caller.arrived,
        )

    def parameters(self) -> Parameters:
        """The address that brings this form back; what is at its default is left out."""
        stated: Sequence[tuple[str, str, str]] = (
            ("by", self.by.value, By.QUERY.value),
            ("q", self.query if self.by is By.QUERY else "", ""),
            ("system", self.system if self.by is By.SYSTEM else "", ""),
            ("type", self.content_type, ""),
            ("limit", self.limit, str(DEFAULT_LIMIT)),
            ("explain", "on" if self.is_explained else "off", "on"),
            ("arms", self.arms, Arms.BY_FLAG.value),
            ("cursor", self.cursor, ""),
        )
        options = self.option_ids if self.by is By.SELECTION else ()
        return (
            *((name, value) for name, value, default in stated if value != default),
            *(("option", one) for one in options),
        )

    def at(self, cursor: str) -> "SearchForm":
        """The same search at another place of its walk; '' is the beginning."""
        return replace(self, cursor=cursor)

    def of_every_type(self) -> "SearchForm":
        """The same search in every content type, from its beginning."""
        return replace(self, content_type="", cursor="")

    def by_way(self, by: By) -> "SearchForm":
        """The form for another way to ask, with the same options."""
        return replace(self, by=by, cursor="")


def _arms(name: str) -> Arms:
    try:
        return Arms(name)
    except ValueError as error:
        known = ", ".join([*Arms, COMPARE])
        raise InvalidInput(f"arms is one of {known}", field="arms") from error
