"""Blocks to passages: small siblings merged, long blocks cut, every word kept in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.adapters.extract.cutting import cut
from service.adapters.extract.document import Block
from service.adapters.extract.token_estimate import estimate_tokens
from service.core.links import is_link_stub
from service.model import PassageText

_BETWEEN_BLOCKS = "\n\n"


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """How large a passage may be, in estimated tokens (`estimate_tokens`).

    `target` bounds every passage, except one that is a single word: that may reach `hard`, and is cut there.
    The default leaves room for a title and a heading path in an encoder of 512 tokens.
    """

    target: int = 220
    hard: int = 320

    def __post_init__(self) -> None:
        if not 1 <= self.target <= self.hard:
            raise ValueError("a token budget needs 1 <= target <= hard")


DEFAULT_BUDGET = TokenBudget()


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a block that fits the budget; `glue` joins it to the part before it."""

    heading: str | None
    glue: str
    text: str
    tokens: int


def split(blocks: Sequence[Block], budget: TokenBudget = DEFAULT_BUDGET) -> tuple[PassageText, ...]:
    """Passages of at most `budget`, numbered from 0 in document order; a link stub is not scorable.

    Neighbouring blocks under one heading share a passage while they fit. The passages hold every word of
    the blocks, in order, and no word is cut unless it alone is over `budget.hard`.
    """
    passages: list[PassageText] = []
    for heading, text in _packed(_parts(blocks, budget), budget.target):
        passages.append(PassageText(len(passages), heading, text, scorable=not is_link_stub(text)))
    return tuple(passages)


def _parts(blocks: Sequence[Block], budget: TokenBudget) -> Iterator[_Part]:
    for block in blocks:
        glue = _BETWEEN_BLOCKS
        for text, tokens in cut(block.text, budget.target, budget.hard):
            yield _Part(block.heading, glue, text, tokens)
            glue = ""


def _packed(parts: Iterator[_Part], target: int) -> Iterator[tuple[str | None, str]]:
    """Heading and text of each passage: as many neighbouring parts of one heading as fit."""
    heading: str | None = None
    text, tokens = "", 0
    for part in parts:
        joined = text + part.glue + part.text
        if text and part.heading == heading and tokens + part.tokens <= target:
            # Parts cut without white space between them may weigh more together.
            weight = tokens + part.tokens if part.glue else estimate_tokens(joined)
            if weight <= target:
                text, tokens = joined, weight
                continue
        if text.strip():
            yield heading, text.strip()
        heading, text, tokens = part.heading, part.text, part.tokens
    if text.strip():
        yield heading, text.strip()
