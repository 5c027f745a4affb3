"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/test.tsv, and this project's additions to them.

Additions, each optional: `qrels/must_not_match.tsv` (look-alikes), `qrels/must_not_appear.tsv` (stale
passages), `<tag>_ids.txt` (the queries of a slice, one a line) and a `tags` list in a line of queries.jsonl.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from eval.dataset import CUTOFF, Corpus, CorpusKind, Dataset, Findings, Names
from eval.errors import EmptyQrels, MissingFile, NoRelevantPassage, OverlappingIds
from eval.lines import json_lines, numbered, table_rows, whole_number

_CODE: Final = re.compile(r"(?=\w*\d)\w", re.ASCII)  # a word with a digit in it
_NATURAL: Final = 4  # words from which on a text without codes is taken for natural language
EXACT_TOKEN: Final = "exact-token"  # noqa: S105 - the name of a slice
NATURAL: Final = "natural-language"
BROAD: Final = f"over-{CUTOFF}-relevant"


class QueryLine(msgspec.Struct):
    """A line of queries.jsonl."""

    id: str = msgspec.field(name="_id")
    text: str
    tags: list[str] = []


class CorpusLine(msgspec.Struct):
    """A line of corpus.jsonl."""

    id: str = msgspec.field(name="_id")
    text: str
    title: str = ""


@dataclass(slots=True)
class _Judged:
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)


def read_corpus(path: Path) -> Iterator[CorpusLine]:
    """The documents. Raises MissingFile, MalformedLine, OverlappingIds."""
    seen: set[str] = set()
    for number, line in json_lines(path, CorpusLine):
        if line.id in seen:
            raise OverlappingIds(
                f"{path.parent.name}/{path.name}:{number}: id {line.id[:80]!r} is taken twice"
            )
        seen.add(line.id)
        yield line


def beir_corpus(path: Path, name: str) -> Corpus:
    """The corpus of a corpus.jsonl. Raises MissingFile."""
    return Corpus(name, CorpusKind.BEIR, digest_of([path]), path)


def read_dataset(folder: Path, name: str, corpus: Corpus | None = None) -> Dataset:
    """A BEIR folder, over its own corpus.jsonl unless another corpus is given.

    Raises MissingFile, MalformedLine, EmptyQrels, OverlappingIds, NoRelevantPassage.
    """
    if not folder.is_dir():
        raise MissingFile(f"there is no folder {folder.name}")
    chosen = corpus or beir_corpus(folder / "corpus.jsonl", name)
    queries, stated = _read_queries(folder / "queries.jsonl")
    judged = _read_qrels(folder / "qrels" / "test.tsv")
    qrels = {query: scores for query, scores in judged.qrels.items() if query in queries}
    if not qrels:
        raise EmptyQrels(f"no query of {name} is judged")
    for query, scores in qrels.items():
        if not any(score > 0 for score in scores.values()):
            raise NoRelevantPassage(f"query {query[:80]!r} of {name} has no relevant passage")
    return Dataset(
        name=name,
        corpus=chosen,
        queries=queries,
        qrels=qrels,
        digest=digest_of(_files(folder), chosen.digest),
        must_not_match=_read_names(folder / "qrels" / "must_not_match.tsv"),
        must_not_appear=_read_names(folder / "qrels" / "must_not_appear.tsv"),
        tags=_tags(folder, queries, stated, qrels),
        findings=Findings(
            duplicate_judgements=tuple(judged.duplicates),
            unknown_queries=tuple(sorted(set(judged.qrels) - set(queries))),
            unjudged_queries=tuple(sorted(set(queries) - set(qrels))),
        ),
    )


def digest_of(paths: Sequence[Path], salt: str = "") -> str:
    """A hash of files' names and bytes, in the order of their names. Raises MissingFile."""
    whole = hashlib.sha256(salt.encode())
    for path in sorted(paths, key=lambda one: one.name):
        try:
            contents = path.read_bytes()
        except OSError as error:
            raise MissingFile(f"{path.parent.name}/{path.name} cannot be read") from error
        whole.update(f"\n{path.name} {len(contents)}\n".encode())
        whole.update(contents)
    return whole.hexdigest()


def _files(folder: Path) -> list[Path]:
    """Every file that can change a figure."""
    return [folder / "queries.jsonl", *sorted((folder / "qrels").glob("*.tsv")), *_tag_files(folder)]


def _tag_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*_ids.txt"))


def _read_queries(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    queries: dict[str, str] = {}
    tags: dict[str, list[str]] = {}
    for number, line in json_lines(path, QueryLine):
        if line.id in queries:
            raise OverlappingIds(
                f"{path.parent.name}/{path.name}:{number}: id {line.id[:80]!r} is taken twice"
            )
        queries[line.id] = line.text
        tags[line.id] = line.tags
    return queries, tags


def _read_qrels(path: Path) -> _Judged:
    judged = _Judged()
    for number, row in table_rows(path, 3):
        scores = judged.qrels.setdefault(row[0], {})
        if row[1] in scores:
            judged.duplicates.append(f"{row[0]} {row[1]}")
            continue
        scores[row[1]] = whole_number(path, number, row[2], "the score")
    if not judged.qrels:
        raise EmptyQrels(f"{path.parent.parent.name}/{path.parent.name}/{path.name} holds no judgement")
    return judged


def _read_names(path: Path) -> Names:
    if not path.exists():
        return {}
    names: dict[str, set[str]] = {}
    for _, row in table_rows(path, 2):
        names.setdefault(row[0], set()).add(row[1])
    return {query: frozenset(found) for query, found in names.items()}


def _tags(
    folder: Path,
    queries: Mapping[str, str],
    stated: Mapping[str, Sequence[str]],
    qrels: Mapping[str, Mapping[str, int]],
) -> dict[str, tuple[str, ...]]:
    tags = {query: {*stated[query], *kind_of(text)} for query, text in queries.items()}
    for path in _tag_files(folder):
        tag = path.name.removesuffix("_ids.txt").replace("_", "-")
        for _, line in numbered(path):
            tags.setdefault(line.strip(), set()).add(tag)
    for query, scores in qrels.items():
        if sum(score > 0 for score in scores.values()) > CUTOFF:
            tags[query].add(BROAD)
    return {query: tuple(sorted(found)) for query, found in tags.items()}


def kind_of(text: str) -> tuple[str, ...]:
    """The slice that a query's form puts it in, if any."""
    if _CODE.search(text):
        return (EXACT_TOKEN,)
    return (NATURAL,) if len(text.split()) >= _NATURAL else ()
