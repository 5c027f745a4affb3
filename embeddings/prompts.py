"""What known models want in front of a text. A missing instruction costs recall and raises no error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompts:
    """Text put before every query and before every passage window; empty for none."""

    query: str = ""
    passage: str = ""


_BGE_ENGLISH = Prompts(query="Represent this sentence for searching relevant passages: ")
_WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"

# First match wins, on the last part of the name. Each line restates the model's own card.
KNOWN_PROMPTS: tuple[tuple[re.Pattern[str], Prompts], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), prompts)
    for pattern, prompts in (
        (r"^bge-(small|base|large)-en", _BGE_ENGLISH),
        (r"^bge-(small|base|large)-zh", Prompts(query="为这个句子生成表示以用于检索相关文章\uff1a")),
        (r"^bge-m3", Prompts()),
        (r"e5-.*instruct", Prompts(query=f"Instruct: {_WEB_SEARCH}\nQuery: ")),
        (r"^(multilingual-)?e5-(small|base|large)", Prompts(query="query: ", passage="passage: ")),
        (r"^mxbai-embed", _BGE_ENGLISH),
        (r"^snowflake-arctic-embed-[ml]-v2", Prompts(query="query: ")),
        (r"^snowflake-arctic-embed", _BGE_ENGLISH),
        (r"^nomic-embed-text", Prompts(query="search_query: ", passage="search_document: ")),
        (r"minilm|mpnet|distilroberta|^multi-qa|^msmarco|^gte-(small|base|large)", Prompts()),
    )
)


def known_prompts(name: str) -> Prompts | None:
    """The prompts of a known model family, by hub name, folder name or alias; None when unknown."""
    last = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    # The cache of sentence-transformers 2 wrote `BAAI_bge-base-en` for `BAAI/bge-base-en`.
    candidates = (last, last.partition("_")[2])
    for pattern, prompts in KNOWN_PROMPTS:
        if any(candidate and pattern.search(candidate) for candidate in candidates):
            return prompts
    return None


def choose_prompts(
    names: tuple[str, ...], declared: Mapping[str, str | None], query: str | None, passage: str | None
) -> Prompts:
    """The settings' prompts, else those the model's own files declare, else the registry's, else none.

    `names` are tried in order. `declared` is sentence-transformers' `prompts` table; its `document`,
    `passage` and `corpus` entries mean the same thing.
    """
    own_query = declared.get("query") or ""
    own_passage = next(
        (text for role in ("document", "passage", "corpus") if (text := declared.get(role))), ""
    )
    if own_query or own_passage:
        base = Prompts(own_query, own_passage)
    else:
        base = next((found for name in names if (found := known_prompts(name)) is not None), Prompts())
    return Prompts(
        query=base.query if query is None else query,
        passage=base.passage if passage is None else passage,
    )
