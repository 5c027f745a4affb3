"""One hit as a page shows it, and why it stands where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from service.core.cursors import decode_cursor
from service.core.fusion import contribution
from service.model import Explanation, Facet, FacetType, RetrievedPassage, TermMatch, Vocabulary
from service.search.request import RetrieveOptions, Subject
from service.search.subjects import ranking_fingerprint
from service.surfaces.http.pages.citing import Cited, cited
from service.surfaces.http.pages.marking import Marker, Segment

SHOWN_CHARS: Final = 6_000  # of a passage among others; its item's page has the rest


@dataclass(frozen=True, slots=True)
class ArmPart:
    """What one arm says of a hit. `contribution` is None where the arms were not fused."""

    name: str
    rank: int | None
    score_name: str
    score: float | None
    weight: float | None
    contribution: float | None
    formula: str


@dataclass(frozen=True, slots=True)
class FacetRow:
    """A facet that the selection and an accepted tag share."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Why:
    """The parts of a hit's score. `k` is None where the arms were not fused."""

    arms: tuple[ArmPart, ...]
    k: int | None
    total: float
    matches: tuple[TermMatch, ...]
    lexical_score: float
    tag_boost: float
    facets: tuple[FacetRow, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit. `rank` counts from the ranking's beginning, whatever page it is on."""

    rank: int
    passage_id: str
    item_path: str
    anchor: str
    heading: tuple[Segment, ...]
    title: tuple[Segment, ...]
    text: tuple[Segment, ...]
    is_cut: bool
    score: float
    cited: Cited
    why: Why | None


def item_path(item_id: str) -> str:
    """The page of an item."""
    return f"/items/{quote(item_id, safe='')}"


@dataclass(frozen=True, slots=True)
class Reader:
    """How hits are shown: which terms are marked, what facets are called, and whether ranks are explained."""

    marker: Marker
    names: Mapping[Facet, str]
    is_explained: bool


def hit_of(reader: Reader, passage: RetrievedPassage, rank: int) -> Hit:
    """A hit with its terms marked."""
    marker, explain = reader.marker, passage.explain if reader.is_explained else None
    return Hit(
        rank=rank,
        passage_id=passage.passage_id,
        item_path=item_path(passage.provenance.item_id),
        anchor=f"p{passage.seq}",
        heading=marker.segments(passage.heading or ""),
        title=marker.segments(passage.provenance.title),
        text=marker.segments(passage.text[:SHOWN_CHARS]),
        is_cut=len(passage.text) > SHOWN_CHARS,
        score=passage.score,
        cited=cited(passage.provenance),
        why=None if explain is None else _why(explain, passage.score, reader.names),
    )


def first_rank(subject: Subject, options: RetrieveOptions) -> int:
    """The rank of a page's first hit. Raises InvalidCursor."""
    if options.cursor is None:
        return 1
    kind = None if options.content_type is None else options.content_type.value
    return decode_cursor(options.cursor, ranking_fingerprint(options.workspace, subject, kind)).rank + 1


def facet_names(vocabulary: Vocabulary) -> dict[Facet, str]:
    """What people call the facets."""
    return {
        **{Facet(FacetType.FACTOR, factor.factor_id): factor.name for factor in vocabulary.factors},
        **{Facet(FacetType.ATTRIBUTE, one.attribute_id): one.name for one in vocabulary.attributes},
    }


def _why(explanation: Explanation, score: float, names: Mapping[Facet, str]) -> Why:
    fusion = explanation.fusion
    parts = (
        _part("Lexical", explanation.lexical_rank, "score", _lexical_score(explanation), fusion),
        _part("Vector", explanation.vector_rank, "cosine", explanation.vector_score, fusion),
    )
    return Why(
        arms=parts if fusion else parts[:1],
        k=int(fusion["k"]) if fusion else None,
        total=score,
        matches=tuple(sorted(explanation.matches, key=lambda match: -match.score)),
        lexical_score=explanation.lexical_score,
        tag_boost=explanation.tag_boost,
        facets=tuple(FacetRow(one.type.value, names.get(one, one.id)) for one in explanation.matched_facets),
    )


def _lexical_score(explanation: Explanation) -> float | None:
    if explanation.lexical_rank is None:
        return None
    return explanation.lexical_score + explanation.tag_boost


def _part(
    name: str, rank: int | None, score_name: str, score: float | None, fusion: Mapping[str, float]
) -> ArmPart:
    if not fusion:
        return ArmPart(name, rank, score_name, score, None, None, "")
    arm = name.lower()
    weight, given, k = fusion[f"{arm}_weight"], fusion[f"{arm}_contribution"], int(fusion["k"])
    by_rank = rank is not None and abs(contribution(rank, weight, k) - given) < 1e-9
    formula = f"{weight:.3g} / ({k} + {rank})" if by_rank else ""
    return ArmPart(name, rank, score_name, score, weight, given, formula)
