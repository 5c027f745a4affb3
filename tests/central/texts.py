"""What the generated corpora are made of: few distinct words, so that everything that can collide does.

Ties, saturation, codes that look alike, CJK runs, words that stand in titles and headings too, link stubs.
"""

from hypothesis import strategies as st

from service.model import (
    Attribute,
    Capture,
    ContentType,
    Facet,
    FacetType,
    Factor,
    Option,
    PassageText,
    SelectionContext,
    Source,
    SourceType,
    System,
    Vocabulary,
)
from service.search.request import ByQuery, BySelection, BySystem, Subject

WORDS = (
    "sill", "door", "SL45", "SL4500", "NW-SL45/2", "NW-SL45/20", "SL45-2", "20.04", "20.04.1",
    "AB-12", "AB-123", "成语接龙", "成语", "Tür", "don't",
)  # fmt: skip
FILL = ("the", "water", "drains", "outward")
NAMES = ("manual", "leaflet", "drawing", "notes")

word = st.one_of(st.sampled_from(WORDS[:3]), st.sampled_from(WORDS + FILL))
_words = st.lists(word, min_size=1, max_size=12).map(" ".join)
_dumps = st.builds(lambda one, n: " ".join([one] * n), word, st.integers(20, 60))
text = st.one_of(_words, _words, _words, _dumps, st.just("!?"))
heading = st.one_of(st.none(), st.none(), st.lists(word, min_size=1, max_size=2).map(" ".join))
title = st.one_of(st.just("A document"), st.lists(word, min_size=1, max_size=2).map(" ".join))
content_type = st.sampled_from(ContentType)
passages = st.lists(st.tuples(heading, text, st.integers(0, 9).map(bool)), min_size=1, max_size=5).map(
    lambda drawn: tuple(PassageText(seq, *one) for seq, one in enumerate(drawn))
)
crowd = st.tuples(_words, st.integers(30, 90)).map(
    lambda drawn: tuple(PassageText(seq, None, drawn[0] + " water" * (seq % 3)) for seq in range(drawn[1]))
)


def capture_of(
    name: str, version: str, kind: ContentType, heads: str, body: tuple[PassageText, ...]
) -> Capture:
    """A capture of the upload `name`."""
    return Capture(
        title=heads,
        content_type=kind,
        source=Source(SourceType.UPLOAD, None, name),
        version=version,
        passages=body,
    )


captures = st.builds(
    capture_of,
    st.sampled_from(NAMES),
    st.just("v"),
    content_type,
    title,
    st.one_of(passages, passages, passages, passages, crowd),
)

FACTORS = (Factor("f1", "Water"), Factor("f2", "Door type"))
ATTRIBUTES = (Attribute("a1", "Sill"), Attribute("a2", "成语"))
FACETS = (
    Facet(FacetType.FACTOR, "f1"),
    Facet(FacetType.FACTOR, "f2"),
    Facet(FacetType.ATTRIBUTE, "a1"),
    Facet(FacetType.ATTRIBUTE, "a2"),
)
facets = st.sampled_from(FACETS)
_options = st.builds(
    lambda o1, o2, v, a: (
        Option("o1", "f1", o1, v, a),
        Option("o2", "f2", o2, None, ("a2",)),
        Option("o3", "f2", "!", None, ()),
    ),
    word,
    word,
    st.one_of(st.none(), word),
    st.sampled_from([(), ("a1",), ("a1", "a2")]),
)
_systems = st.builds(
    lambda name, material, uses: (
        System("sl45", name, material=material, use_cases=uses),
        System("nw-sl45/2", "NW"),
    ),
    word,
    st.one_of(st.none(), word),
    st.lists(word, max_size=2).map(tuple),
)
vocabularies = st.builds(
    lambda systems, options: Vocabulary(systems, ATTRIBUTES, FACTORS, options), _systems, _options
)

subjects: st.SearchStrategy[Subject] = st.one_of(
    st.builds(ByQuery, word),
    st.builds(ByQuery, st.lists(word, max_size=4).map(" ".join)),
    st.builds(BySystem, st.sampled_from(["sl45", "nw-sl45/2", "unknown"])),
    st.builds(
        lambda options: BySelection(SelectionContext(tuple(options))),
        st.lists(st.sampled_from(["o1", "o2", "o3", "unknown"]), max_size=3),
    ),
)
content_types: st.SearchStrategy[ContentType | None] = st.one_of(st.none(), st.none(), content_type)
