"""tantivy as a candidate generator whose scores bound the pure scorer's from above.

Heads are indexed as 64-bit token hashes, for which tantivy's BM25 is one constant per term; bodies as
whitespace-separated tokens. Each term query is boosted by (the score we want / the score tantivy would give),
so that a document's engine score is the pure score, but for three things: tantivy rounds body lengths down
(its score is higher, never lower), counts deleted documents in its mean length (bounded by a ratio that is
known), and computes in 32 bits. Hence ``pure score <= slack x engine score``, and the best document that was
left out of a pool bounds every document outside it.
"""

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import tantivy
from tantivy import Index, IndexWriter, Occur, Query, Searcher

from service.core.scoring import HEADING_BOOST, K1, TITLE_BOOST, B, WeightedTerm
from service.core.tokenize import words_of
from service.model import ContentType
from service.ports.lexical import CandidatePool
from service.ports.store import IndexablePassage

FORMAT = 1  # raise whenever documents are indexed in another way
WRITER_HEAP = 48_000_000  # bytes; tantivy flushes a segment when it is full
ROUNDING = 1.0 + 5e-5  # 192 additions of 32-bit floats
_ANALYZER = "tokens"
_INDEX_OPTION = {"title": "basic", "heading": "basic", "body": "freq"}


_FLOAT32 = struct.Struct("f")


class EngineError(Exception):
    """tantivy refused: its folder is damaged, gone or on a full disk."""


@contextmanager
def _translated() -> Iterator[None]:
    """The errors of tantivy as ours. On damaged files it may panic, and a panic is no Exception in Python."""
    try:
        yield
    except (ValueError, OSError, RuntimeError, KeyError) as error:
        raise EngineError(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise EngineError("tantivy panicked") from error


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_text_field("content_type", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("title", indexed=True)
    builder.add_unsigned_field("heading", indexed=True)
    builder.add_text_field("body", tokenizer_name=_ANALYZER, index_option="freq")
    return builder.build()


SCHEMA = _schema()


@lru_cache(maxsize=65_536)
def token_hash(token: str) -> int:
    """A token as 64 bits. A collision could only propose a passage too many; the scorer decides."""
    return int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class _Calibration:
    """What tantivy's BM25 multiplies with, read from its own explanation."""

    documents: float
    mean_length: float

    def idf(self, document_frequency: int) -> float:
        """In tantivy's own 32-bit steps: for a term of nearly all documents they are percents off, or 0."""
        others = _float32(_float32(self.documents - document_frequency) + 0.5)
        ratio = _float32(others / _float32(_float32(document_frequency) + 0.5))
        return _float32(math.log(_float32(1.0 + ratio)))

    def head_score(self, document_frequency: int) -> float:
        """The score of one head term: one occurrence in a field of length one."""
        relative = 1.0 / self.mean_length
        return self.idf(document_frequency) * (K1 + 1.0) / (1.0 + K1 * (1.0 - B + B * relative))


@dataclass(slots=True)
class EngineSearcher:
    """An immutable snapshot of the index."""

    searcher: Searcher
    _calibrations: dict[str, _Calibration] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """Documents that are not deleted."""
        return self.searcher.num_docs

    def search(
        self, terms: Sequence[WeightedTerm], mean_length: float, content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        """The best `depth` documents. Raises EngineError."""
        with _translated():
            return self._search(terms, mean_length, content_type, depth)

    def _search(
        self, terms: Sequence[WeightedTerm], mean_length: float, content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        parts = [(Occur.Should, query) for term in terms for query in self._term_queries(term)]
        if not parts:
            return CandidatePool((), 0.0)
        query = Query.boolean_query(parts)
        if content_type is not None:
            wanted = Query.term_query(SCHEMA, "content_type", content_type.value, "basic")
            query = Query.boolean_query(
                [(Occur.Must, Query.const_score_query(wanted, 0.0)), (Occur.Must, query)]
            )
        hits = self.searcher.search(query, depth, count=False).hits
        keys = self.searcher.fast_field_values("key", [address for _, address in hits])
        slack = self._slack(mean_length)
        known = [
            (int(key), float(hit[0] or 0.0) * slack)
            for hit, key in zip(hits, keys, strict=True)
            if key is not None
        ]
        ceiling = 0.0 if len(hits) < depth else float(hits[-1][0] or 0.0) * slack
        return CandidatePool([key for key, _ in known], ceiling, [bound for _, bound in known])

    def _term_queries(self, weighted: WeightedTerm) -> Iterable[Query]:
        text = weighted.term.text
        hashed = token_hash(text)
        for name, value, boost in (
            ("title", hashed, TITLE_BOOST),
            ("heading", hashed, HEADING_BOOST),
            ("body", text, 1.0),
        ):
            frequency = self.searcher.doc_freq(name, value)
            if frequency == 0:
                continue
            query = Query.term_query(SCHEMA, name, value, _INDEX_OPTION[name])
            calibration = self._calibration(name, query)
            if calibration is None:
                continue
            native = calibration.idf(frequency) if name == "body" else calibration.head_score(frequency)
            if native > 0.0:
                yield Query.boost_query(query, weighted.idf * boost / native)
            else:  # so common that 32 bits know no idf: the most that the field can add stands for its score
                most = K1 + 1.0 if name == "body" else boost
                yield Query.const_score_query(query, weighted.idf * most)

    def _calibration(self, name: str, query: Query) -> _Calibration | None:
        """None when only deleted documents have the term."""
        known = self._calibrations.get(name)
        if known is not None:
            return known
        hits = self.searcher.search(query, 1, count=False).hits
        if not hits:
            return None
        explanation = json.loads(query.explain(self.searcher, hits[0][1]).to_json())
        found = _Calibration(
            documents=_described(explanation, "N, total number of docs"),
            mean_length=_described(explanation, "avgdl, average length of field"),
        )
        self._calibrations[name] = found
        return found

    def _slack(self, mean_length: float) -> float:
        body = self._calibrations.get("body")
        if body is None or body.mean_length <= 0.0:
            return ROUNDING
        return max(1.0, mean_length / body.mean_length) * ROUNDING


class Engine:
    """One open index folder. Calls are blocking, and those that write are made one at a time.

    The writer costs seven threads and some megabytes, so it is there only from the first write to `release`.
    `guard` is called before each write and commit, and raises OSError where they are not allowed.
    """

    def __init__(self, folder: Path, guard: Callable[[], None] = lambda: None) -> None:
        self._writer: IndexWriter | None = None
        self._guard = guard
        with _translated():
            folder.mkdir(parents=True, exist_ok=True)
            self._index = Index(SCHEMA, path=str(folder), reuse=True)
            self._index.register_tokenizer(
                _ANALYZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
            )
            self._index.config_reader(reload_policy="manual")
            self._index.reload()

    @property
    def is_writing(self) -> bool:
        """Whether the writer is there."""
        return self._writer is not None

    def searcher(self) -> EngineSearcher:
        """The index as of the last commit."""
        return EngineSearcher(self._index.searcher())

    def add(self, passages: Iterable[IndexablePassage]) -> None:
        """Add passages; visible after `commit`."""
        with _translated():
            writer = self._opened()
            for passage in passages:
                writer.add_document(_document(passage))

    def delete(self, keys: Iterable[int]) -> None:
        """Delete passages that were added before; unknown keys are ignored."""
        # By query: the binding takes an int for a signed term, which an unsigned field never has.
        with _translated():
            if unwanted := list(keys):
                self._opened().delete_documents_by_query(Query.term_set_query(SCHEMA, "key", unwanted))

    def commit(self) -> EngineSearcher:
        """Make what was written durable and visible."""
        with _translated():
            if self._writer is not None:
                self._guard()
                self._writer.commit()
            self._index.reload()
        return self.searcher()

    def release(self) -> None:
        """Wait for merges and let the writer go, with what was not committed. The next write opens another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with _translated():
                writer.wait_merging_threads()

    def _opened(self) -> IndexWriter:
        self._guard()
        if self._writer is None:
            self._writer = self._index.writer(WRITER_HEAP, 1)
        return self._writer


def _document(passage: IndexablePassage) -> tantivy.Document:
    document = tantivy.Document()
    document.add_unsigned("key", passage.key)
    document.add_text("content_type", passage.content_type.value)
    for name, stored in (("title", passage.title), ("heading", passage.heading)):
        for token in set(words_of(stored).split()):
            document.add_unsigned(name, token_hash(token))
    document.add_text("body", words_of(passage.body))
    return document


def _float32(value: float) -> float:
    """The nearest 32-bit float."""
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


def _described(explanation: object, description: str) -> float:
    """The value of the part of an explanation with this description. Raises ValueError without one."""
    stack = [explanation]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if part.get("description") == description:
                return float(part["value"])
            stack += part.get("details", [])
    raise ValueError(f"tantivy's explanation has no {description!r}")
