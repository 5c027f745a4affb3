"""The search page: a query tried, with both arms, ranks and fusion."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from litestar import Response, get

from service.bootstrap import Application
from service.core.access import Access
from service.core.fusion import FusionMethod
from service.core.scoring import MAX_TERMS
from service.core.tokenize import QueryTerm
from service.errors import InvalidInput
from service.ingest.vocabulary import get_vocabulary
from service.model import ContentType, RetrievedPassage, Vocabulary, Workspace
from service.search.request import Answer, Arms, Explain, RetrieveOptions, Subject
from service.search.subjects import resolve
from service.settings import Settings
from service.surfaces.envelope import retrieval_out
from service.surfaces.http.access import FOR_PAGES, READS, Asking, Caller
from service.surfaces.http.metrics import Metrics
from service.surfaces.http.pages.asked import By, SearchForm
from service.surfaces.http.pages.choices import Choices, choices_of
from service.surfaces.http.pages.commands import Commands, Place, next_commands, same_request
from service.surfaces.http.pages.comparing import Both, Comparison, both_ways, compared
from service.surfaces.http.pages.marking import Marker, ranked_terms
from service.surfaces.http.pages.rendering import page
from service.surfaces.http.pages.results import Hit, Reader, facet_names, first_rank, hit_of
from service.surfaces.http.pages.visit import PageRequest, Visit, site_of, visit_of
from service.surfaces.http.pages.words import Told, lexical_told, vector_told
from service.surfaces.http.parts import App, Counted
from service.surfaces.http.problems import Problem, problem_of

SEARCH_PATH: Final = "/"
_WHAT_NEXT: Final = {
    "next_page": "Next page",
    "read_item": "Read the best hit's whole document",
    "any_content_type": "Search every content type",
    "read_vocabulary": "See which words this workspace knows",
}


@dataclass(frozen=True, slots=True)
class Found:
    """An answer as the page shows it. `after` is the address of the next page; `terms` what was looked for."""

    arms: tuple[Told, ...]
    hits: tuple[Hit, ...]
    comparison: Comparison | None
    terms: tuple[str, ...]
    fusion: str
    notices: tuple[str, ...]
    same: Commands
    then: Commands
    then_name: str
    after: str | None
    start: str | None


@dataclass(frozen=True, slots=True)
class SearchView:
    """The form and, where something was asked, the answer or what is wrong with the request."""

    form: SearchForm
    tabs: tuple[tuple[str, str, bool], ...]
    content_types: tuple[str, ...]
    choices: Choices
    is_empty_workspace: bool
    found: Found | None
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class _Question:
    """A checked request with who asks it."""

    form: SearchForm
    subject: Subject
    options: RetrieveOptions
    place: Place
    vocabulary: Vocabulary


@dataclass(frozen=True, slots=True)
class _Answered:
    """An answer, side by side with the lexical one where that was asked for, and what the query asks for."""

    answer: Answer
    both: Both | None
    terms: tuple[QueryTerm, ...]

    @property
    def passages(self) -> tuple[RetrievedPassage, ...]:
        """Every hit that is shown."""
        return self.answer.results + (self.both.lexical.results if self.both else ())


@get(SEARCH_PATH, opt={**READS, FOR_PAGES: True})
async def search_page(
    request: PageRequest, application: App, access: Asking, caller: Caller, metrics: Counted
) -> Response[str]:
    """The form, and the answer to what it holds."""
    form = SearchForm.of(request.query_params)
    visit = visit_of(request, access)
    vocabulary = Vocabulary()
    if form.by is not By.QUERY:
        vocabulary = await get_vocabulary(application.store, access.workspace)
    found, problem = None, None
    try:
        subject, options = form.subject(), form.options(access, caller)
        if subject is not None:
            place = Place(site_of(request), access, application.settings.workspace)
            question = _Question(form, subject, options, place, vocabulary)
            answered = await _answered(application, metrics, question)
            found = await asyncio.to_thread(_told, application.settings, question, visit, answered)
    except InvalidInput as error:
        problem = problem_of(error)
    has_hits = found is not None and bool(found.hits)
    view = SearchView(
        form=form,
        tabs=_tabs(form, visit),
        content_types=tuple(kind.value for kind in ContentType),
        choices=choices_of(vocabulary, form),
        is_empty_workspace=not has_hits and await _is_empty(application, access),
        found=found,
        problem=problem,
    )
    status = 200 if problem is None else problem.status
    return await asyncio.to_thread(page, "search.html", visit, view, status=status)


def _tabs(form: SearchForm, visit: Visit) -> tuple[tuple[str, str, bool], ...]:
    """Each way to ask: its name, its address, and whether it is the form's."""
    return tuple(
        (by.value, visit.href(SEARCH_PATH, form.by_way(by).parameters()), by is form.by) for by in By
    )


async def _answered(application: Application, metrics: Metrics, question: _Question) -> _Answered:
    """Ask."""
    subject, options = question.subject, question.options
    async with application.store.snapshot() as snapshot:
        terms = (await resolve(snapshot, options.workspace, subject)).terms
    if question.form.is_comparison:
        both = await both_ways(application.retriever, subject, options)
        return _Answered(both.hybrid, both, terms)
    answer = await application.retriever.retrieve(subject, options)
    if options.arms is Arms.BY_FLAG:  # what an operator forces says nothing of the rollout
        metrics.retrieved(answer)
    return _Answered(answer, None, terms)


def _told(settings: Settings, question: _Question, visit: Visit, answered: _Answered) -> Found:
    """An answer as the page shows it. It takes as long as its texts are: no work for the event loop."""
    form, options, answer = question.form, question.options, answered.answer
    terms = ranked_terms(answered.terms, answered.passages)
    reader = Reader(Marker(terms), facet_names(question.vocabulary), form.is_explained)
    stated = options if form.is_explained else replace(options, explain=Explain.OFF)
    step = retrieval_out(answer, question.subject, stated, Workspace(settings.workspace)).next_action
    cursor = None if answered.both else answer.next_cursor
    first = first_rank(question.subject, options)
    return Found(
        arms=(lexical_told(answer.lexical), vector_told(answer.vector)),
        hits=tuple(hit_of(reader, one, rank) for rank, one in enumerate(answer.results, first)),
        comparison=compared(answered.both, partial(hit_of, reader)) if answered.both else None,
        terms=tuple(term.text for term in terms or answered.terms[:MAX_TERMS]),
        fusion=_fusion(answer, settings),
        notices=_notices(answer, question),
        same=same_request(question.subject, stated, question.place),
        then=next_commands(step, question.place),
        then_name=_WHAT_NEXT.get(step.do, step.do.replace("_", " ")),
        after=visit.href(SEARCH_PATH, form.at(cursor).parameters()) if cursor else None,
        start=visit.href(SEARCH_PATH, form.at("").parameters()) if form.cursor else None,
    )


def _fusion(answer: Answer, settings: Settings) -> str:
    """How the page's arms were fused; '' where they were not."""
    explained = answer.results[0].explain if answer.results else None
    if explained is None or not explained.fusion:
        return ""
    k, lexical, vector = (explained.fusion[name] for name in ("k", "lexical_weight", "vector_weight"))
    configured, follows = settings.fusion_lexical_weight, ""
    if 0.0 < lexical < configured:
        follows = f" (of {configured:g}: it follows how much of the query the best lexical passages hold)"
    how = "by score" if settings.fusion_method == FusionMethod.CONVEX else f"by rank with k = {k:g}"
    return f"Fused {how}, lexical weight {lexical:.3g}{follows}, vector weight {vector:.3g}."


def _notices(answer: Answer, question: _Question) -> tuple[str, ...]:
    """What a reader has to know about this page beyond its hits."""
    notices = []
    if answer.corpus_changed:
        notices.append(
            "The corpus has changed since this walk began: passages may be missing or come twice. "
            "Start again for the newest order."
        )
    if answer.ranking_changed:
        notices.append(
            "The first page was ranked by both arms; the vector arm could not run this time, "
            "so the walk goes on by rank in the lexical order."
        )
    if question.options.arms is not Arms.BY_FLAG or question.form.is_comparison:
        notices.append("The arms were chosen here. Callers get what the rollout flag says.")
    return tuple(notices)


async def _is_empty(application: Application, access: Access) -> bool:
    """Whether the workspace has nothing that could be found."""
    async with application.store.snapshot() as snapshot:
        return await snapshot.count_scorable(access.workspace, 1) == 0
