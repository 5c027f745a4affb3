"""U3: a page ends at its byte budget, and walking pages is reading the list."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from service.bootstrap import Application, application
from service.core.passage_size import SUMMARY_CHARS, fitting, passage_bytes
from service.errors import QueryTooLong, TooLarge
from service.model import (
    DEFAULT_WORKSPACE,
    MAX_LIMIT,
    Capture,
    ContentType,
    Explanation,
    ItemId,
    PassageText,
    Provenance,
    RetrievedPassage,
    Source,
    SourceType,
    TermMatch,
)
from service.search.request import MAX_QUERY_CHARS, ByQuery, Explain, RetrieveOptions, View
from service.search.retrieve import Retriever
from service.settings import Settings
from service.surfaces import wire
from service.surfaces.wire import passage_out

OPTIONS = RetrieveOptions(DEFAULT_WORKSPACE, limit=MAX_LIMIT)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SILL = ByQuery("sill jamb")
LENGTHS = (1, 3_000, 40, 900, 12_000, 5, 700, 2_500, 60, 30_000, 1_000, 10, 4_000, 80, 2_000, 6)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=400)


def document(number: int, length: int) -> Capture:
    """A document with a passage of about so many bytes, some of them not ASCII, some escaped in JSON."""
    filler = 'sill "ä"\n' * (length // 10)
    return Capture(
        title=f"Document {number}",
        content_type=ContentType.TECH_DOC,
        source=Source(SourceType.UPLOAD, None, f"{number}.md"),
        version="1",
        passages=(PassageText(0, "Sills" if number % 3 else None, f"sill {number} jamb {filler}"),),
        item_id=ItemId(f"d{number}"),
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Application]]:
    """Passages of very different sizes, and the loop that their application lives on."""
    with asyncio.Runner() as runner:
        settings = Settings(data_dir=tmp_path_factory.mktemp("budget"))
        opened = application(settings)
        app = runner.run(opened.__aenter__())
        try:
            documents = [document(number, length) for number, length in enumerate(LENGTHS)]
            runner.run(app.capturing.capture_batch(DEFAULT_WORKSPACE, documents))
            yield runner, app
        finally:
            runner.run(opened.__aexit__(None, None, None))


def reader(app: Application, budget: int) -> Retriever:
    """Retrieval with a budget."""
    return Retriever(app.store, app.lexical, page_bytes=budget)


@given(
    budget=st.integers(1, 60_000),
    limit=st.integers(1, 20),
    view=st.sampled_from([View.SUMMARY, View.BRIEF]),
    explain=st.sampled_from(list(Explain)),
)
@hypothesis_settings(deadline=None, max_examples=40)
def test_walking_pages_is_reading_the_list(
    corpus: tuple[asyncio.Runner, Application], budget: int, limit: int, view: View, explain: Explain
) -> None:
    """U3: whatever the budget, the pages together are the list, none is over it unless it is one passage alone."""
    runner, app = corpus
    options = replace(OPTIONS, view=view, explain=explain)
    whole = runner.run(reader(app, 10**9).retrieve(SILL, options))
    assert len(whole.results) == len(LENGTHS)
    assert not whole.has_more
    walked, cursor = list[RetrievedPassage](), None
    while True:
        page = runner.run(reader(app, budget).retrieve(SILL, replace(options, limit=limit, cursor=cursor)))
        shown = [passage_out(passage, summary=view is View.SUMMARY) for passage in page.results]
        assert 1 <= len(shown) <= limit
        assert len(shown) == 1 or len(msgspec.json.encode(shown)) <= budget
        walked += page.results
        assert page.has_more is (page.next_cursor is not None)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert tuple(walked) == whole.results


def test_no_text_is_cut(corpus: tuple[asyncio.Runner, Application]) -> None:
    """U3: a passage that is over the budget by itself is shown whole, alone on its page."""
    runner, app = corpus
    whole = runner.run(reader(app, 10**9).retrieve(SILL, OPTIONS)).results
    page = runner.run(reader(app, 1).retrieve(SILL, OPTIONS))
    assert page.results == whole[:1]
    assert page.has_more


@given(st.lists(texts, min_size=1, max_size=8), st.booleans(), st.booleans())
@hypothesis_settings(deadline=None)
def test_sizes_are_never_too_small(
    parts: list[str],
    summary: bool,  # noqa: FBT001 - drawn
    explained: bool,  # noqa: FBT001 - drawn
) -> None:
    """U3: what is counted for a passage is at least its JSON on the wire, and not far above it."""
    explain = None
    if explained:
        matches = tuple(
            TermMatch(part[:60], 0.1234567, in_title=True, in_heading=False, body_count=10**6, score=1 / 3)
            for part in parts
        )
        explain = Explanation(200, 12.345678, matches, fusion={"k": 5.0, "lexical_share": 1 / 3})
    provenance = Provenance(
        item_id=ItemId("i"),
        title=parts[0],
        content_type=ContentType.TECH_DOC,
        source_type=SourceType.UPLOAD,
        source_url=parts[-1],
        source_url_ok=False,
        source_filename=parts[0],
        resource_types=tuple(parts),
        version="v1",
        fetched_at=NOW,
    )
    passage = RetrievedPassage("i#0", parts[0], 2**31 - 1, "".join(parts), 1 / 3, provenance, explain)
    sent = len(msgspec.json.encode(passage_out(passage, summary=summary))) + 1
    assert sent <= passage_bytes(passage, summary=summary) <= sent + 2_000 + 300 * len(parts)
    assert fitting([passage, passage], sent, summary=summary) == 1


def test_a_summary_is_as_long_as_it_counts() -> None:
    """U3: the budget counts as much of a text as a summary shows."""
    assert wire.SUMMARY_CHARS == SUMMARY_CHARS


def test_inputs_are_bounded(corpus: tuple[asyncio.Runner, Application]) -> None:
    """U3: a query and a passage to store have a longest length, each with a stable code."""
    runner, app = corpus
    ByQuery("x" * MAX_QUERY_CHARS)
    with pytest.raises(QueryTooLong) as refused:
        ByQuery("x" * (MAX_QUERY_CHARS + 1))
    assert refused.value.code == "query_too_long"
    large = replace(document(99, 0), passages=(PassageText(0, None, "x " * 100_001),))
    with pytest.raises(TooLarge) as too_large:
        runner.run(app.capturing.capture(DEFAULT_WORKSPACE, large))
    assert too_large.value.code == "too_large"


def test_the_setting_bounds_every_surface(tmp_path: Path) -> None:
    """U3: the setting reaches the one retriever that every surface asks."""

    async def shown() -> int:
        async with application(Settings(data_dir=tmp_path, max_answer_bytes=10_000)) as app:
            await app.capturing.capture_batch(DEFAULT_WORKSPACE, [document(n, 3_000) for n in range(5)])
            return len((await app.retriever.retrieve(SILL, OPTIONS)).results)

    assert asyncio.run(shown()) == 2
