"""TREC run and qrels files, as trec_eval and ir_measures read them.

Names of passages may hold spaces, which separate the columns: white space and `%` are written as %XX.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from eval.dataset import Qrels
from eval.errors import EmptyQrels, MalformedLine, OverlappingIds, RunWithGaps
from eval.lines import numbered, whole_number

Run = Mapping[str, Sequence[str]]
_UNSAFE: Final = re.compile(r"[\s%]")
_RUN_COLUMNS: Final = 6
_QRELS_COLUMNS: Final = 4


def escaped(name: str) -> str:
    """A name without white space; different names stay different."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), name)


def once_each(names: Iterable[str]) -> list[str]:
    """Every place of a ranking under a name of its own: a repeated name keeps its place and counts once.

    A reader who is shown two chunks of one section has used up two of eight places, but found one section.
    """
    seen: dict[str, int] = {}
    placed = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        placed.append(name if seen[name] == 1 else f"{name}%again{seen[name]}")
    return placed


def run_text(run: Run, tag: str) -> str:
    """A run file, best first. Scores fall by 1 a rank, so every tool keeps the order as it is."""
    lines = []
    for query, names in run.items():
        for rank, name in enumerate(names, start=1):
            lines.append(
                f"{escaped(query)} Q0 {_placed(name)} {rank} {len(names) - rank + 1} {escaped(tag)}\n"
            )
    return "".join(lines)


def _placed(name: str) -> str:
    """`once_each` marks a repetition behind a bare %, which no escaped name holds."""
    whole, mark, again = name.rpartition("%again")
    return escaped(name) if not mark else f"{escaped(whole)}%again{again}"


def qrels_text(qrels: Qrels) -> str:
    """A qrels file."""
    return "".join(
        f"{escaped(query)} 0 {escaped(name)} {score}\n"
        for query, scores in qrels.items()
        for name, score in scores.items()
    )


def read_run(path: Path, judged: Iterable[str] = ()) -> dict[str, list[str]]:
    """A run in the order of its scores, as the standard tools take it; ranks must agree and have no gaps.

    Every query of `judged` must have a line. Raises MissingFile, MalformedLine, OverlappingIds, RunWithGaps.
    """
    found: dict[str, list[tuple[int, float, str]]] = {}
    for number, line in numbered(path):
        cells = line.split()
        if len(cells) != _RUN_COLUMNS:
            raise MalformedLine.at(path, number, f"a run has {_RUN_COLUMNS} columns, not {len(cells)}")
        query, name = unquote(cells[0]), unquote(cells[2])
        entries = found.setdefault(query, [])
        if any(name == other for _, _, other in entries):
            raise OverlappingIds(f"{path.name}:{number}: {name[:80]!r} stands twice under {query[:80]!r}")
        entries.append(
            (whole_number(path, number, cells[3], "the rank"), _score(path, number, cells[4]), name)
        )
    for query in judged:
        if query not in found:
            raise RunWithGaps(f"{path.name} has no line for query {query[:80]!r}")
    return {query: _ordered(path, query, entries) for query, entries in found.items()}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """A qrels file. Raises MissingFile, MalformedLine, EmptyQrels."""
    qrels: dict[str, dict[str, int]] = {}
    for number, line in numbered(path):
        cells = line.split()
        if len(cells) != _QRELS_COLUMNS:
            raise MalformedLine.at(path, number, f"qrels have {_QRELS_COLUMNS} columns, not {len(cells)}")
        score = whole_number(path, number, cells[3], "the score")
        qrels.setdefault(unquote(cells[0]), {}).setdefault(unquote(cells[2]), score)
    if not qrels:
        raise EmptyQrels(f"{path.name} holds no judgement")
    return qrels


def _score(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise MalformedLine.at(path, line, f"the score is no number: {text[:40]!r}") from error


def _ordered(path: Path, query: str, entries: list[tuple[int, float, str]]) -> list[str]:
    entries.sort()
    if [rank for rank, _, _ in entries] != list(range(1, len(entries) + 1)):
        raise RunWithGaps(f"{path.name}: the ranks of query {query[:80]!r} are not 1 to {len(entries)}")
    scores = [score for _, score, _ in entries]
    if scores != sorted(scores, reverse=True):
        raise RunWithGaps(f"{path.name}: the scores of query {query[:80]!r} rise along its ranks")
    return [name for _, _, name in entries]
