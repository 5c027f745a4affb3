"""Facet tags in ranking: what a selection implies, and what an accepted tag adds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from service.model import Facet, FacetTag, FacetType, ItemId, SelectedOption, TagStatus

TAG_BOOST = 4.0  # about one heading hit of a moderately rare term: lifts an item into view, buries nothing


def selection_facets(selected: Iterable[SelectedOption]) -> frozenset[Facet]:
    """The factors of the chosen options and the attributes those options influence."""
    facets = set()
    for choice in selected:
        facets.add(Facet(FacetType.FACTOR, choice.option.factor_id))
        facets.update(Facet(FacetType.ATTRIBUTE, attribute) for attribute in choice.option.attribute_ids)
    return frozenset(facets)


def matching_facets(tags: Iterable[FacetTag], facets: frozenset[Facet]) -> Mapping[ItemId, tuple[Facet, ...]]:
    """Per item, the distinct facets of its accepted tags that the selection implies, sorted."""
    found: dict[ItemId, set[Facet]] = defaultdict(set)
    for tag in tags:
        if tag.status is TagStatus.ACCEPTED and tag.facet in facets:
            found[tag.item_id].add(tag.facet)
    return {item_id: tuple(sorted(matched)) for item_id, matched in found.items()}


def facet_tag_boosts(matched: Mapping[ItemId, tuple[Facet, ...]]) -> dict[ItemId, float]:
    """The boost of each item: `TAG_BOOST` once per matching facet, never below 0."""
    return {item_id: TAG_BOOST * len(facets) for item_id, facets in matched.items()}
