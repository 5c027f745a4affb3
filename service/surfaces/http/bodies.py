"""What the routes take, beside the captures and the vocabulary that every surface shares."""

from typing import Annotated, Final, Literal

import msgspec

from service.core.access import Access, KeyScope
from service.core.drill import Drill, parse_drill
from service.model import DEFAULT_LIMIT, MAX_LIMIT
from service.search.request import Explain, RetrieveOptions, View
from service.surfaces.http.access import Sender
from service.surfaces.wire import ContentTypeName, FacetTypeName, content_type

MAX_OPTIONS: Final = 10_000
ANONYMOUS: Final = "anonymous"

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)]
OptionIds = Annotated[list[str], msgspec.Meta(max_length=MAX_OPTIONS)]
ViewName = Literal["summary", "brief", "full"]


class Choices(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The options of every retrieval."""

    limit: Limit = DEFAULT_LIMIT
    content_type: ContentTypeName | None = None
    cursor: str | None = None
    view: ViewName = "brief"
    explain: bool = False
    force_arm: str | None = None  # a drill: off, error or slow:300ms; needs the scope operate

    def options(self, access: Access, caller: Sender) -> RetrieveOptions:
        """As the use case takes them. Raises InvalidInput, Forbidden."""
        return RetrieveOptions(
            access.workspace,
            limit=self.limit,
            content_type=content_type(self.content_type),
            cursor=self.cursor,
            view=View(self.view),
            explain=Explain.ON if self.explain else Explain.OFF,
            caller=caller.name,
            drill=drill_of(self.force_arm, access),
            arrived=caller.arrived,
        )


def drill_of(force_arm: str | None, access: Access) -> Drill | None:
    """A drill that its asker may order. Raises Forbidden, InvalidInput."""
    if force_arm is None:
        return None
    access.require(KeyScope.OPERATE)
    return parse_drill(force_arm)


class RetrieveIn(Choices, kw_only=True):
    """A free-text retrieval."""

    query: str


class SelectionIn(Choices, kw_only=True):
    """A retrieval by what a buyer chose."""

    option_ids: OptionIds


class SupersedeIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The item that takes another's place."""

    by: str


class TagIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A tag to propose, and who proposes it."""

    item_id: str
    facet_type: FacetTypeName
    facet_id: str
    by: str | msgspec.UnsetType = msgspec.UNSET


class DecisionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Who decides a tag."""

    by: str | msgspec.UnsetType = msgspec.UNSET


class NoFields(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a call that needs none: absent or empty."""


def name_of(by: str | msgspec.UnsetType, access: Access) -> str:
    """Who is on record for a change: who the request says, else the key's name, else nobody in particular."""
    return access.name or ANONYMOUS if by is msgspec.UNSET else by
