"""The state machine: anything that can happen to a corpus, against plain dicts and the pure functions."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from service.bootstrap import Application
from service.core.identity import tag_id
from service.core.order import rank_key
from service.errors import AlreadySuperseded, SupersessionCycle
from service.ingest.vocabulary import put_vocabulary
from service.model import (
    Capture,
    ContentType,
    Facet,
    FacetTag,
    ItemId,
    TagStatus,
    Vocabulary,
    Workspace,
)
from service.search import lexical_ranking
from service.search.request import Answer, ByQuery, RetrieveOptions, Subject
from service.settings import Settings
from tests.central import texts
from tests.central.house import House
from tests.central.model import Corpus, Hit

HERE, ELSEWHERE = Workspace("here"), Workspace("elsewhere")
BROAD = ByQuery("SL45 sill door water")
LONGEST = 200
FIRST_DEPTH, GROWTH = lexical_ranking.FIRST_DEPTH, lexical_ranking.GROWTH
Write = Callable[[], Awaitable[None]]

apps = st.sampled_from([0, 0, 1])
limits = st.sampled_from([1, 2, 3, 8, LONGEST])
picks = st.integers(0, 10_000)


class CorpusMachine(RuleBasedStateMachine):
    """Two applications on one database; `folder` is empty and theirs."""

    def __init__(self, folder: Path, database_url: str) -> None:
        super().__init__()
        self.house = House(
            tuple(
                Settings(
                    data_dir=folder / f"process-{number}",
                    database_url=database_url,
                    index_grace=0.0,
                    index_checkpoint_every=0.001,
                    index_patience=20.0,
                )
                for number in range(2)
            )
        )
        self.corpora = {HERE: Corpus(), ELSEWHERE: Corpus()}
        self.seen: list[Capture] = []
        self.kept: Path | None = None
        self.labels = 0

    @initialize(
        depth=st.sampled_from([1, 4, 16, lexical_ranking.FIRST_DEPTH]), growth=st.sampled_from([2, 4])
    )
    def pools_grow(self, depth: int, growth: int) -> None:
        """Small first pools make small corpora go through the rounds that large ones need."""
        lexical_ranking.FIRST_DEPTH, lexical_ranking.GROWTH = depth, growth

    def teardown(self) -> None:
        """Shut everything down."""
        lexical_ranking.FIRST_DEPTH, lexical_ranking.GROWTH = FIRST_DEPTH, GROWTH
        self.house.close()

    @property
    def corpus(self) -> Corpus:
        return self.corpora[HERE]

    def some_item(self, pick: int) -> ItemId:
        ids = list(self.corpus.items)
        return ids[pick % len(ids)]

    # Writes

    @rule(number=apps, capture=texts.captures)
    def capture_something(self, number: int, capture: Capture) -> None:
        self.house.run(self.store(self.house.app(number), HERE, capture))

    @precondition(lambda self: self.seen)
    @rule(number=apps, pick=picks, tail=st.integers(0, 2))
    def capture_again(self, number: int, pick: int, tail: int) -> None:
        """The same text, an older text or a shorter one; the same source or the text of another."""
        self.house.run(self.store(self.house.app(number), HERE, self.earlier(pick, tail)))

    @rule(number=apps, capture=texts.captures)
    def capture_in_another_workspace(self, number: int, capture: Capture) -> None:
        self.house.run(self.store(self.house.app(number), ELSEWHERE, capture))

    @precondition(lambda self: self.corpus.items)
    @rule(number=apps, pick=picks)
    def retire(self, number: int, pick: int) -> None:
        self.house.run(self.retire_item(self.house.app(number), self.some_item(pick)))

    @precondition(lambda self: self.corpus.items)
    @rule(number=apps, pick=picks, by=picks)
    def supersede(self, number: int, pick: int, by: int) -> None:
        item_id, successor = self.some_item(pick), self.some_item(by)
        self.house.run(self.supersede_item(self.house.app(number), item_id, successor))

    @rule(number=apps, vocabulary=texts.vocabularies)
    def replace_vocabulary(self, number: int, vocabulary: Vocabulary) -> None:
        self.house.run(put_vocabulary(self.house.app(number).store, HERE, vocabulary))
        self.corpus.vocabulary = vocabulary

    @precondition(lambda self: self.corpus.items and self.corpus.vocabulary.factors)
    @rule(
        number=apps, pick=picks, facet=texts.facets, decided=st.sampled_from([TagStatus.ACCEPTED, *TagStatus])
    )
    def tag(self, number: int, pick: int, facet: Facet, decided: TagStatus) -> None:
        self.house.run(self.tag_item(self.house.app(number), self.some_item(pick), facet, decided))

    # What happens to processes and folders

    @rule(number=apps)
    def restart(self, number: int) -> None:
        self.house.stop(number)

    @rule(number=apps)
    def crash(self, number: int) -> None:
        self.house.app(number)
        self.house.kill(number)

    @rule()
    def keep_index(self) -> None:
        self.house.app(0)
        self.kept = self.house.keep_folder(0, "kept")

    @precondition(lambda self: self.kept is not None)
    @rule()
    def put_an_older_index_back(self) -> None:
        assert self.kept is not None
        self.house.stop(0)
        self.house.put_folder(0, self.kept)

    @rule(number=apps)
    def rebuild(self, number: int) -> None:
        self.house.run(self.house.app(number).lexical.rebuild(HERE))

    @rule(number=apps)
    def upkeep(self, number: int) -> None:
        """Remove what is stale from the index and write a checkpoint, as time would."""
        for shard in self.house.app(number).lexical._shards.values():
            self.house.run(shard.maintain())

    @rule(number=apps)
    def ask_everyone_to_rebuild(self, number: int) -> None:
        self.house.run(_request_rebuild(self.house.app(number)))

    # Reads

    @rule(number=apps, subject=texts.subjects, kind=texts.content_types, limit=limits)
    def ask(self, number: int, subject: Subject, kind: ContentType | None, limit: int) -> None:
        answer = self.house.run(_ask(self.house.app(number), subject, kind, limit))
        self.check(answer, [self.corpus], subject, kind, limit)

    @rule(number=apps, subject=texts.subjects, kind=texts.content_types, limit=st.sampled_from([1, 2, 7]))
    def walk(self, number: int, subject: Subject, kind: ContentType | None, limit: int) -> None:
        """Pages put together are the one-shot list."""
        pages = self.house.run(_walk(self.house.app(number), subject, kind, limit))
        expected = self.corpus.answer(subject, kind)
        assert [hit for page in pages for hit in shown(page)] == expected[: limit * len(pages)]
        assert all(len(page.results) == limit for page in pages[:-1])
        assert pages[-1].has_more == (limit * len(pages) < len(expected))

    @precondition(lambda self: self.corpus.items)
    @rule(
        number=apps, writer=apps, subject=texts.subjects, capture=texts.captures,
        limit=st.sampled_from([1, 3, 20]),
    )  # fmt: skip
    def turn_the_page_after_a_write(
        self, number: int, writer: int, subject: Subject, capture: Capture, limit: int
    ) -> None:
        """The next page holds what now stands behind the place where the page before it ended."""
        first = self.house.run(_ask(self.house.app(number), subject, None, limit))
        self.house.run(self.store(self.house.app(writer), HERE, capture))
        if first.next_cursor is None:
            return
        options = RetrieveOptions(HERE, limit, cursor=first.next_cursor)
        second = self.house.run(self.house.app(number).retriever.retrieve(subject, options))
        item_id, seq, score = shown(first)[-1]
        ranking = self.corpus.answer(subject, None)
        behind = [hit for hit in ranking if rank_key(hit[2], hit[0], hit[1]) > rank_key(score, item_id, seq)]
        assert shown(second) == behind[:limit]
        assert second.has_more == (len(behind) > limit)

    @precondition(lambda self: self.corpus.items)
    @rule(
        number=apps, what=st.sampled_from(["capture", "again", "retire"]), capture=texts.captures, pick=picks,
        subjects=st.lists(st.tuples(apps, texts.subjects), min_size=1, max_size=4),
    )  # fmt: skip
    def read_while_writing(
        self, number: int, what: str, capture: Capture, pick: int, subjects: list[tuple[int, Subject]]
    ) -> None:
        """A reader sees what was before the write or what is after it, whole."""
        before = self.corpus.copy()
        app = self.house.app(number)
        match what:
            case "capture":
                write = self.store(app, HERE, capture)
            case "again":
                write = self.store(app, HERE, self.earlier(pick, 1))
            case _:
                write = self.retire_item(app, self.some_item(pick))
        readers = [_ask(self.house.app(reader), subject, None, LONGEST) for reader, subject in subjects]

        async def together() -> list[Answer]:
            reading = [asyncio.ensure_future(reader) for reader in readers]
            await asyncio.gather(write, *reading)
            return [read.result() for read in reading]

        for answer, (_, subject) in zip(self.house.run(together()), subjects, strict=True):
            self.check(answer, [before, self.corpus], subject, None, LONGEST)

    @invariant()
    def both_workspaces_answer_exactly(self) -> None:
        for workspace, corpus in self.corpora.items():
            if corpus.items:
                answer = self.house.run(_ask(self.house.app(0), BROAD, None, LONGEST, workspace))
                self.check(answer, [corpus], BROAD, None, LONGEST)

    # Shared steps

    def earlier(self, pick: int, tail: int) -> Capture:
        """A capture seen before, without its last passages."""
        capture = self.seen[pick % len(self.seen)]
        kept = max(1, len(capture.passages) - tail)
        return texts.capture_of(
            capture.source.filename or "", "v", capture.content_type, capture.title, capture.passages[:kept]
        )

    async def store(self, app: Application, workspace: Workspace, capture: Capture) -> None:
        corpus = self.corpora[workspace]
        self.seen.append(capture)
        live = corpus.live_of(capture)
        result = await app.capturing.capture(workspace, capture)
        if live is not None and corpus.items[live].says_the_same_as(capture):
            assert result.unchanged
            assert result.item_id == live
            return
        assert not result.unchanged
        assert result.item_id not in corpus.items
        assert result.superseded == live
        corpus.store(capture, result.item_id)

    async def retire_item(self, app: Application, item_id: ItemId) -> None:
        result = await app.lifecycle.retire(HERE, item_id)
        assert result.changed == (not self.corpus.items[item_id].retired)
        self.corpus.retire(item_id)

    async def supersede_item(self, app: Application, item_id: ItemId, by: ItemId) -> None:
        known = self.corpus.items[item_id].superseded_by
        try:
            result = await app.lifecycle.supersede(HERE, item_id, by)
        except SupersessionCycle:
            assert self.corpus.leads_to(by, item_id)
        except AlreadySuperseded:
            assert known not in (None, by)
        else:
            assert known in (None, by)
            assert not self.corpus.leads_to(by, item_id)
            assert result.changed == (known is None)
            self.corpus.supersede(item_id, by)

    async def tag_item(self, app: Application, item_id: ItemId, facet: Facet, decided: TagStatus) -> None:
        known = self.corpus.tags.get((item_id, facet))
        proposed: FacetTag = await app.tagging.propose(HERE, item_id, facet, "a tester")
        assert proposed.status is (known or TagStatus.PROPOSED)
        assert proposed.tag_id == tag_id(item_id, facet)
        if decided is not TagStatus.PROPOSED:
            await app.tagging.decide(HERE, proposed.tag_id, decided, "a tester")
            self.corpus.tags[item_id, facet] = decided
        else:
            self.corpus.tags[item_id, facet] = known or TagStatus.PROPOSED

    def check(
        self, answer: Answer, corpora: list[Corpus], subject: Subject, kind: ContentType | None, limit: int
    ) -> None:
        """The page is the pure function's of one of the corpora, and shows that corpus's own rows."""
        expected = [corpus.answer(subject, kind) for corpus in corpora]
        got = shown(answer)
        live = {i for corpus in corpora for i, version in corpus.items.items() if version.live}
        assert not {item_id for item_id, _, _ in got} - live
        assert got in [ranking[:limit] for ranking in expected]
        assert answer.has_more in [len(ranking) > limit for ranking in expected]
        for result in answer.results:
            capture = corpora[-1].items[result.provenance.item_id].capture
            passage = capture.passages[result.seq]
            assert (result.text, result.heading) == (passage.text, passage.heading)
            assert result.provenance.title == capture.title
            assert result.provenance.content_type is capture.content_type
            assert kind is None or capture.content_type is kind


def shown(answer: Answer) -> list[Hit]:
    """What an answer shows, as plain tuples."""
    return [(result.provenance.item_id, result.seq, result.score) for result in answer.results]


async def _ask(
    app: Application, subject: Subject, kind: ContentType | None, limit: int, workspace: Workspace = HERE
) -> Answer:
    return await app.retriever.retrieve(subject, RetrieveOptions(workspace, limit, kind))


async def _walk(app: Application, subject: Subject, kind: ContentType | None, limit: int) -> list[Answer]:
    pages: list[Answer] = []
    cursor: str | None = None
    while len(pages) < 20:
        answer = await app.retriever.retrieve(subject, RetrieveOptions(HERE, limit, kind, cursor))
        pages.append(answer)
        cursor = answer.next_cursor
        if cursor is None:
            break
    return pages


async def _request_rebuild(app: Application) -> None:
    async with app.store.transaction(HERE) as transaction:
        await transaction.request_rebuild()
