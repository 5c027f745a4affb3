"""What each way of asking looks for, resolved from the rows of one snapshot."""

import asyncio
from collections.abc import Callable
from functools import partial

from service.core.cursors import request_fingerprint
from service.core.facets import facet_tag_boosts, matching_facets, selection_facets
from service.core.terms import (
    context_query_terms,
    context_query_text,
    system_query_terms,
    system_query_text,
)
from service.core.text import is_storable
from service.core.tokenize import QueryTerm, query_terms
from service.errors import QueryTooLong
from service.model import Workspace
from service.ports.store import ReadSnapshot
from service.search.request import (
    MAX_QUERY_CHARS,
    ByQuery,
    BySelection,
    BySystem,
    ResolvedQuery,
    Subject,
)

NOTHING = ResolvedQuery((), "", {}, {})
LOOP_CHARS = 10_000  # of a text that is read on the event loop; a longer one is read on a thread


async def resolve(snapshot: ReadSnapshot, workspace: Workspace, subject: Subject) -> ResolvedQuery:
    """The query of a subject; `NOTHING` for what the vocabulary does not know.

    Raises QueryTooLong for a subject whose words in the vocabulary are too many.
    """
    match subject:
        case ByQuery(query):
            return ResolvedQuery(await terms_in(query), query, {}, {})
        case BySystem(system_id):
            return await _system(snapshot, workspace, system_id)
        case BySelection(context):
            return await _selection(snapshot, workspace, context.option_ids)


async def _system(snapshot: ReadSnapshot, workspace: Workspace, system_id: str) -> ResolvedQuery:
    system = await snapshot.system(workspace, system_id) if is_storable(system_id) else None
    if system is None:
        return NOTHING
    text = system_query_text(system)
    return ResolvedQuery(await _read(text, partial(system_query_terms, system)), text, {}, {})


async def _selection(
    snapshot: ReadSnapshot, workspace: Workspace, option_ids: tuple[str, ...]
) -> ResolvedQuery:
    known = [option_id for option_id in option_ids if is_storable(option_id)]
    selected = await snapshot.selected_options(workspace, known) if known else []
    if not selected:
        return NOTHING
    facets = selection_facets(selected)
    matched = matching_facets(await snapshot.tags_of_facets(workspace, sorted(facets)), facets)
    text = context_query_text(selected)
    terms = await _read(text, partial(context_query_terms, selected))
    return ResolvedQuery(terms, text, facet_tag_boosts(matched), dict(matched))


async def terms_in(query: str) -> tuple[QueryTerm, ...]:
    """The terms of a free text."""
    return await _read(query, partial(query_terms, query))


async def _read(text: str, terms: Callable[[], tuple[QueryTerm, ...]]) -> tuple[QueryTerm, ...]:
    if len(text) > MAX_QUERY_CHARS:
        raise QueryTooLong(f"what is asked for has more than {MAX_QUERY_CHARS} characters")
    return terms() if len(text) <= LOOP_CHARS else await asyncio.to_thread(terms)


def subject_fingerprint(subject: Subject) -> tuple[str, ...]:
    """What of a subject decides its ranking. The order and repeats of options do not."""
    match subject:
        case ByQuery(query):
            return ("query", query)
        case BySystem(system_id):
            return ("system", system_id)
        case BySelection(context):
            return ("selection", *sorted(set(context.option_ids)))


def ranking_fingerprint(workspace: Workspace, subject: Subject, *settings: str | None) -> bytes:
    """The fingerprint that a cursor is bound to."""
    return request_fingerprint(workspace, *subject_fingerprint(subject), *settings)
