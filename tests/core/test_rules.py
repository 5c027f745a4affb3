"""The other pure decisions: staleness, facets, cursors, capture rules, and what is public."""

import inspect
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core import facets, fusion, retrieval, scoring, terms, tokenize
from service.core.capture_rules import ItemHead, Known, Stored, Unchanged, check_capture, decide_capture
from service.core.cursors import Position, decode_cursor, encode_cursor, request_fingerprint
from service.core.identity import content_hash, derived_item_id, source_key_hash
from service.core.staleness import is_stale
from service.errors import CitewellError, InvalidCursor, ItemExists
from service.model import (
    ContentType,
    Facet,
    FacetTag,
    FacetType,
    ItemId,
    Option,
    PassageText,
    SelectedOption,
    Source,
    SourceType,
    System,
    TagStatus,
)
from tests.builders import capture

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTION = Option("o", "threshold", "Flush sill", "0 mm", ("barrier-free",))
CHOSEN = SelectedOption(OPTION, "Threshold", ("Barrier-free access",))


def test_stale_is_retired_or_superseded() -> None:
    """C14: one pure predicate decides."""
    assert not is_stale(None, None)
    assert is_stale(NOW, None)
    assert is_stale(None, ItemId("x"))
    assert is_stale(NOW, ItemId("x"))


def tag(item: str, kind: FacetType, facet: str, status: TagStatus) -> FacetTag:
    """A tag."""
    return FacetTag(f"{item}-{facet}", ItemId(item), Facet(kind, facet), status)


def test_only_accepted_tags_of_the_selection_boost_once_each() -> None:
    """C22: the factor and the attributes of the options count, accepted tags only, each facet once."""
    wanted = facets.selection_facets([CHOSEN])
    assert wanted == {Facet(FacetType.FACTOR, "threshold"), Facet(FacetType.ATTRIBUTE, "barrier-free")}
    matched = facets.matching_facets(
        [
            tag("a", FacetType.FACTOR, "threshold", TagStatus.ACCEPTED),
            tag("a", FacetType.FACTOR, "threshold", TagStatus.ACCEPTED),
            tag("a", FacetType.ATTRIBUTE, "barrier-free", TagStatus.ACCEPTED),
            tag("b", FacetType.FACTOR, "threshold", TagStatus.PROPOSED),
            tag("c", FacetType.FACTOR, "threshold", TagStatus.REJECTED),
            tag("d", FacetType.ATTRIBUTE, "threshold", TagStatus.ACCEPTED),
        ],
        wanted,
    )
    assert facets.facet_tag_boosts(matched) == {"a": 2 * facets.TAG_BOOST}
    assert facets.TAG_BOOST > 0


def test_a_system_asks_for_its_own_words() -> None:
    """C5: name, id, operation type, material, interior/exterior and use cases are its terms, retired or not."""
    system = System("sl45", "SL45 Slide", "sliding", "aluminium", "exterior", ("balcony",), retired_at=NOW)
    assert {t.text for t in terms.system_query_terms(system)} == {
        "sl45",
        "slide",
        "sliding",
        "aluminium",
        "exterior",
        "balcony",
    }


def test_a_selection_asks_for_labels_factors_and_attributes() -> None:
    """C6: option labels and values, factor names and the influenced attributes' names."""
    found = {t.text for t in terms.context_query_terms([CHOSEN])}
    assert {"flush", "sill", "threshold", "barrier", "free", "access", "0", "mm"} <= found


FUNCTIONS = [
    tokenize.tokenize,
    terms.system_query_terms,
    terms.context_query_terms,
    scoring.score_passage,
    scoring.rank_passages,
    retrieval.retrieve_passages,
    fusion.blend_vector_scores,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: str(f.__name__))
def test_the_seven_functions_are_public_and_plain(function: object) -> None:
    """C30: tokenize … blend_vector_scores are public, documented functions without I/O."""
    assert inspect.isfunction(function)
    assert not inspect.iscoroutinefunction(function)
    assert function.__doc__
    assert function.__name__ in {
        "tokenize",
        "system_query_terms",
        "context_query_terms",
        "score_passage",
        "rank_passages",
        "retrieve_passages",
        "blend_vector_scores",
    }


def test_pure_retrieval_repeats_itself_and_leaves_its_input_alone() -> None:
    """C30: the same input gives the same output, and nothing that was passed in changes."""
    items = [
        retrieval.CorpusItem(
            ItemId(f"i{n}"),
            "Sills",
            ContentType.BLOG,
            (PassageText(0, None, f"sill {n}"), PassageText(1, None, "x")),
        )
        for n in range(5)
    ]
    before = list(items)
    query = tokenize.query_terms("sill 3")
    first = retrieval.retrieve_passages(items, query, 3)
    assert retrieval.retrieve_passages(list(reversed(items)), query, 3) == first
    assert items == before
    assert first[0].item_id == "i3"


def test_pure_retrieval_drops_stale_items_and_stubs() -> None:
    """C14: retired and superseded items and link stubs are not there, neither in the answer nor the statistics."""
    live = retrieval.CorpusItem(ItemId("a"), "", ContentType.BLOG, (PassageText(0, None, "sill"),))
    stub = replace(live, item_id=ItemId("b"), passages=(PassageText(0, None, "sill", scorable=False),))
    gone = [
        replace(live, item_id=ItemId("c"), retired_at=NOW),
        replace(live, item_id=ItemId("d"), superseded_by=ItemId("a")),
    ]
    query = tokenize.query_terms("sill")
    assert retrieval.retrieve_passages([live, stub, *gone], query) == retrieval.retrieve_passages(
        [live], query
    )


@given(
    st.integers(1, 10_000),
    st.floats(0, 1e6),
    st.text(max_size=20),
    st.integers(0, 1_000),
    st.integers(0, 2**40),
)
def test_a_cursor_reads_back_for_its_own_request_only(
    rank: int, score: float, item: str, seq: int, corpus: int
) -> None:
    """U7: a cursor gives its position back, and fails for another request."""
    item = item.encode("utf-8", "ignore").decode()
    position = Position(rank, score, ItemId(item), seq, corpus, "lexical-1")
    mine, other = request_fingerprint("w", "query", "a"), request_fingerprint("w", "query", "b")
    cursor = encode_cursor(position, mine)
    assert decode_cursor(cursor, mine) == position
    with pytest.raises(InvalidCursor):
        decode_cursor(cursor, other)


def test_an_altered_cursor_is_refused() -> None:
    """U7: no character of a cursor can be changed."""
    mine = request_fingerprint("w", "query", "a")
    cursor = encode_cursor(Position(8, 1.5, ItemId("i"), 0, 7, "lexical-1"), mine)
    for place in range(len(cursor)):
        for letter in "A_z":
            altered = cursor[:place] + letter + cursor[place + 1 :]
            if altered == cursor:
                continue
            with pytest.raises(InvalidCursor):
                decode_cursor(altered, mine)
    for text in ("", "=", "x" * 5_000, "ä", cursor + "A", cursor[:-1]):
        with pytest.raises(InvalidCursor):
            decode_cursor(text, mine)


def head(source: str, content: str, superseded_by: str | None = None) -> ItemHead:
    """A stored item."""
    return ItemHead(
        ItemId("old"), 1, source, content, None, None if superseded_by is None else ItemId(superseded_by)
    )


def test_an_unchanged_capture_is_no_new_item() -> None:
    """C16: the same content of the same source refreshes and nothing else; other content supersedes."""
    one = capture("a", "text")
    assert decide_capture(one, "s", "h", Known(None, head("s", "h"), 1)) == Unchanged(
        ItemId("old"), refresh=True
    )
    decided = decide_capture(one, "s", "other", Known(None, head("s", "h"), 1))
    assert decided == Stored(derived_item_id("s", "other", 1), ItemId("old"))
    named = replace(one, item_id=ItemId("new"))
    assert decide_capture(named, "s", "h2", Known(None, None, 0)) == Stored(ItemId("new"), None)


def test_a_stored_id_is_never_given_other_content() -> None:
    """C16: repeating a capture by id changes nothing, even of a stale item; other content is refused."""
    named = replace(capture("a", "text"), item_id=ItemId("old"))
    stale = head("s", "h", superseded_by="x")
    assert decide_capture(named, "s", "h", Known(stale, None, 1)) == Unchanged(ItemId("old"), refresh=False)
    with pytest.raises(ItemExists):
        decide_capture(named, "s", "other", Known(stale, None, 1))


def test_labels_and_dates_are_not_content() -> None:
    """C16: version label, fetched_at and liveness do not make a new version; title, type and text do."""
    one = capture("a", "text", "more")
    same = replace(one, version="v9", fetched_at=NOW, source_url_ok=True)
    assert content_hash(same) == content_hash(one)
    for other in (
        replace(one, title="Another"),
        replace(one, content_type=ContentType.PDP),
        replace(one, resource_types=("CAD",)),
        replace(one, passages=one.passages[:1]),
        replace(one, passages=(replace(one.passages[0], scorable=False), one.passages[1])),
        capture("a", "textmore"),
    ):
        assert content_hash(other) != content_hash(one)
    assert source_key_hash(one.source) != source_key_hash(capture("b", "text").source)


@pytest.mark.parametrize(
    "bad",
    [
        replace(capture("a", "text"), title=" "),
        replace(capture("a", "text"), title="x" * 2_001),
        replace(capture("a", "text"), version=""),
        replace(capture("a", "text"), item_id=ItemId("a/b")),
        replace(capture("a", "text"), item_id=ItemId("")),
        replace(capture("a", "text"), passages=()),
        replace(capture("a", "text"), passages=(PassageText(0, None, " "),)),
        replace(capture("a", "text"), passages=(PassageText(0, None, "\ufeff\u200b\u00ad"),)),
        replace(capture("a", "text"), source=Source(SourceType.URL, "http://[::1", None)),
        replace(capture("a", "text"), source=Source(SourceType.URL, "javascript:alert(1)", None)),
        replace(capture("a", "text"), passages=(PassageText(-1, None, "x"),)),
        replace(capture("a", "text"), passages=(PassageText(2**31, None, "x"),)),
        replace(capture("a", "text"), passages=(PassageText(0, None, "x"), PassageText(0, None, "y"))),
        replace(capture("a", "text"), passages=(PassageText(0, None, "a\x00b"),)),
        replace(capture("a", "text"), passages=(PassageText(0, None, "a\ud800b"),)),
        replace(capture("a", "text"), passages=(PassageText(0, "h\x00", "x"),)),
        replace(capture("a", "text"), fetched_at=datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_a_capture_that_cannot_be_cited_is_refused(bad: object) -> None:
    """C1: what has no title, version, source or text, or cannot be stored, is refused with a stable code."""
    with pytest.raises(CitewellError) as caught:
        check_capture(bad)  # type: ignore[arg-type]
    assert caught.value.code != "internal"
