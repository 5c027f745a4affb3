"""What the routes answer with, beside the forms that every surface shares."""

from typing import Final

import msgspec

from service.core.evidence import evidence
from service.core.hand_off import hand_off
from service.model import RetrievedPassage
from service.surfaces.envelope import ArmsOut, NextStep, RetrievalOut
from service.surfaces.wire import RetrievedPassageOut

SELECTION_PATH: Final = "/v1/selection/passages"


class CitationOut(msgspec.Struct, kw_only=True):
    """How to cite a passage; without a `link` the title stands as plain text."""

    title: str
    source: str | None
    version: str
    link: str | None


class CitedPassageOut(msgspec.Struct, kw_only=True):
    """A passage and its citation."""

    passage: RetrievedPassageOut
    citation: CitationOut


class EvidenceOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of passages, each with its citation."""

    evidence: list[CitedPassageOut]
    shown: int
    has_more: bool
    next_cursor: str | None
    next_action: NextStep
    arms: ArmsOut
    corpus_changed: bool = False
    ranking_changed: bool = False


class DocumentOut(msgspec.Struct, kw_only=True):
    """A document of a hand-off; without a `link` the title stands as plain text."""

    item_id: str
    title: str
    link: str | None


class ResourcesOut(msgspec.Struct, kw_only=True):
    """What a hand-off brings along: its documents, CAD resources left out."""

    documents: list[DocumentOut]


class HandOffOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of passages and the documents they come from."""

    resources: ResourcesOut
    passages: list[RetrievedPassageOut]
    shown: int
    has_more: bool
    next_cursor: str | None
    next_action: NextStep
    arms: ArmsOut
    corpus_changed: bool = False
    ranking_changed: bool = False


class LifecycleOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a retirement or a supersession did; `changed` is false when it was so already."""

    item_id: str
    changed: bool
    superseded_by: str | None = None


class TagStateOut(msgspec.Struct, kw_only=True):
    """A tag's id and where it stands."""

    tag_id: str
    status: str


def as_evidence(page: RetrievalOut, passages: tuple[RetrievedPassage, ...], path: str) -> EvidenceOut:
    """The page with a citation to each of its passages; the next page is asked for at `path`."""
    citations = [
        CitationOut(
            title=one.citation.title,
            source=one.citation.source,
            version=one.citation.version,
            link=one.citation.link,
        )
        for one in evidence(passages)
    ]
    return EvidenceOut(
        evidence=[
            CitedPassageOut(passage=passage, citation=citation)
            for passage, citation in zip(page.results, citations, strict=True)
        ],
        shown=page.shown,
        has_more=page.has_more,
        next_cursor=page.next_cursor,
        next_action=_redirected(page.next_action, path),
        arms=page.arms,
        corpus_changed=page.corpus_changed,
        ranking_changed=page.ranking_changed,
    )


def as_hand_off(page: RetrievalOut, passages: tuple[RetrievedPassage, ...], path: str) -> HandOffOut:
    """The page with the documents of its passages; the next page is asked for at `path`."""
    documents = [
        DocumentOut(item_id=one.item_id, title=one.title, link=one.link)
        for one in hand_off(passages).documents
    ]
    return HandOffOut(
        resources=ResourcesOut(documents=documents),
        passages=page.results,
        shown=page.shown,
        has_more=page.has_more,
        next_cursor=page.next_cursor,
        next_action=_redirected(page.next_action, path),
        arms=page.arms,
        corpus_changed=page.corpus_changed,
        ranking_changed=page.ranking_changed,
    )


def _redirected(step: NextStep, path: str) -> NextStep:
    """A step that asks for the same selection again, in the shape it was asked for."""
    if step.http.path == SELECTION_PATH:
        step.http.path = path
    return step
