"""The promise the whole read path stands on: no document outside a pool scores above the pool's ceiling."""

import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.adapters.lexical import engine as engine_module
from service.adapters.lexical.engine import Engine, EngineSearcher
from service.core.retrieval import corpus_statistics
from service.core.scoring import ScorablePassage, score_passage, weigh_terms
from service.core.tokenize import query_terms, stored_tokens
from service.model import ContentType, ItemId
from service.ports.store import IndexablePassage, PassageKey

WORDS = ("sill", "SL45", "SL4500", "NW-SL45/2", "AB-12", "成语接龙")
QUERIES = (
    "sill", "brand", "brand sill", "SL45", "NW-SL45/2", "AB-12 sill", "成语 brand SL4500", "sill brand NW-SL45/2",
)  # fmt: skip
DEPTHS = (1, 2, 5, 20, 64)


@dataclass(slots=True)
class Bench:
    """An engine, and the documents in it that are not deleted."""

    engine: Engine
    live: dict[int, IndexablePassage] = field(default_factory=dict)
    keys: Iterator[int] = field(default_factory=lambda: count(1))

    def add(self, texts: Iterable[tuple[str, str, str]]) -> None:
        """Add (title, heading, body) texts and commit: each time another segment, until tantivy merges them."""
        kinds = list(ContentType)
        added = []
        for title, heading, text in texts:
            body, length = stored_tokens(text)
            key = next(self.keys)
            heads = stored_tokens(title)[0], stored_tokens(heading)[0]
            added.append(IndexablePassage(PassageKey(key), kinds[key % len(kinds)], *heads, body, length))
        self.engine.add(added)
        self.live.update({passage.key: passage for passage in added})
        self.engine.commit()

    def delete(self, keys: Sequence[int]) -> None:
        """Delete documents and commit; tantivy's own statistics count them on."""
        self.engine.delete(keys)
        for key in keys:
            del self.live[key]
        self.engine.commit()

    def assert_bounded(self, queries: Iterable[str] = QUERIES, depths: Iterable[int] = DEPTHS) -> None:
        """Whatever the query and the depth, the ceiling bounds all that was left out."""
        searcher = self.engine.searcher()
        assert searcher.documents == len(self.live)
        for query in queries:
            for depth in depths:
                for kind in (None, ContentType.BLOG):
                    self._assert_bounded(searcher, query, kind, depth)

    def _assert_bounded(
        self, searcher: EngineSearcher, query: str, kind: ContentType | None, depth: int
    ) -> None:
        passages = {key: scorable(passage) for key, passage in self.live.items()}
        terms = query_terms(query)
        statistics = corpus_statistics(list(passages.values()), terms)
        weighted = weigh_terms(terms, statistics)
        pool = searcher.search(weighted, statistics.mean_length, kind, depth)
        assert set(pool.keys) <= set(self.live)
        assert len(set(pool.keys)) == len(pool.keys) <= depth
        left_out = [
            score_passage(passage, weighted, statistics.mean_length)
            for key, passage in passages.items()
            if key not in pool.keys and (kind is None or self.live[key].content_type is kind)
        ]
        assert max(left_out, default=0.0) <= pool.ceiling, (query, kind, depth)


def scorable(passage: IndexablePassage) -> ScorablePassage:
    """The same passage as the scorer reads it."""
    return ScorablePassage(
        ItemId(str(passage.key)), 0, passage.title, passage.heading, passage.body, passage.length
    )


@contextmanager
def bench() -> Iterator[Bench]:
    """An empty engine."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - nothing here needs a disk
    with tempfile.TemporaryDirectory(prefix="citewell-", dir=memory) as folder:
        opened = Engine(Path(folder) / "index")
        yield Bench(opened)
        opened.release()


words = st.sampled_from((*WORDS, "brand", "filler"))
heads = st.lists(words, max_size=2).map(" ".join)
bodies = st.one_of(
    st.lists(words, max_size=8).map(" ".join),
    st.builds(
        lambda word, n, pad: " ".join([word] * n + ["filler"] * pad),
        words,
        st.integers(1, 80),
        st.integers(0, 300),
    ),
)
batches = st.lists(
    st.tuples(
        st.lists(st.tuples(heads, heads, bodies), min_size=1, max_size=25),
        st.integers(0, 100).map(lambda percent: percent / 100),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(batches)
def test_the_ceiling_bounds_whatever_is_left_out(
    drawn: list[tuple[list[tuple[str, str, str]], float]],
) -> None:
    """C12: in any corpus with any deletions, a pool's ceiling is at least every other document's pure score."""
    with bench() as at:
        for texts, kept in drawn:
            at.add(texts)
            at.delete(sorted(at.live)[: int(len(at.live) * (1 - kept))])
        at.assert_bounded(depths=(1, 3, 10))


@pytest.mark.parametrize("seed", range(3))
def test_a_word_that_nearly_every_document_has(seed: int) -> None:
    """C12: the bound holds where tantivy's 32-bit idf is far off: a brand in all of some thousand documents."""
    chance = random.Random(seed)  # noqa: S311 - a corpus, not a secret
    with bench() as at:
        for _ in range(3):
            at.add(
                (
                    "Brand" if chance.random() < 0.999 else "",
                    "",
                    "brand " * chance.randrange(1, 4)
                    + " ".join(chance.choices(WORDS, k=chance.randrange(60))),
                )
                for _ in range(700)
            )
        at.delete(sorted(at.live)[:500])
        at.assert_bounded(("brand", "brand sill", "brand SL4500"), (2, 64, 256))


def test_segments_of_very_different_lengths() -> None:
    """C12: block maxima, computed with a segment's own mean length, prune nothing that belongs in the pool."""
    with bench() as at:
        at.add(
            ("", "", "sill door " * 10 + "filler " * 190) if n % 128 == 60 else ("", "", "sill door")
            for n in range(2_000)
        )
        at.add(("", "", "other " * 5_000) for _ in range(50))
        at.assert_bounded(("sill", "sill door", "sill door other"), (1, 4, 16, 64))


def test_a_term_whose_idf_is_nothing_in_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """C12: a term too common for tantivy's idf is bounded by the most it can add."""
    calibration = engine_module._Calibration(float(2**25), 10.0)
    assert calibration.idf(2**25) == calibration.head_score(2**25) == 0.0
    monkeypatch.setattr(engine_module._Calibration, "idf", lambda *_: 0.0)
    with bench() as at:
        at.add(("brand" * (n % 2), "sill" * (n % 3 == 0), "brand sill " * (n % 9 + 1)) for n in range(60))
        at.assert_bounded(("brand", "brand sill"), (1, 7, 30))


def test_deleted_is_gone() -> None:
    """C14: a deleted document is proposed no more, in the commit that added it or in a later one."""
    with bench() as at:
        at.add(("", "", f"sill word{n}") for n in range(10))
        at.delete([1, 2, 3])
        again = at.live[4]
        at.engine.add([again])
        at.engine.delete([4])
        at.engine.add([again])
        searcher = at.engine.commit()
        assert searcher.documents == 7
        at.assert_bounded(("sill",), (3, 20))


def test_a_collision_of_hashes_only_proposes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """C12: head tokens are indexed as hashes; equal hashes of different words keep the bound."""
    monkeypatch.setattr(engine_module, "token_hash", lambda token: len(token) % 2)
    with bench() as at:
        at.add((WORDS[n % 3], WORDS[(n + 1) % 3], "filler") for n in range(30))
        at.assert_bounded(("sill", "SL45", "sill SL45"), (1, 5, 29))
