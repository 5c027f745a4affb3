"""Where a model's own tokenizer sees tokens in a text."""

from collections.abc import Callable
from dataclasses import dataclass

import tokenizers
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerBase

from embeddings.errors import UnsuitableModel
from embeddings.windows import Offsets


@dataclass(frozen=True, slots=True)
class TokenReader:
    """`offsets` gives the character span of each token; `specials` is what the model adds to any text.

    `bounded` is False for models that read texts of any length at the same cost per token.
    """

    offsets: Callable[[str], Offsets]
    specials: int
    bounded: bool


def token_reader(model: SentenceTransformer) -> TokenReader:
    """The reader of a loaded model.

    Raises:
        UnsuitableModel: its tokenizer cannot say where tokens stand, so long texts could not be windowed.
    """
    tokenizer: object = model.tokenizer
    if isinstance(tokenizer, tokenizers.Tokenizer):
        return TokenReader(_static_offsets(tokenizer), specials=0, bounded=False)
    if isinstance(tokenizer, PreTrainedTokenizerBase) and tokenizer.is_fast:
        specials = int(tokenizer.num_special_tokens_to_add(pair=False))
        return TokenReader(_transformer_offsets(tokenizer), specials, bounded=True)
    raise UnsuitableModel("the model's tokenizer does not report character offsets")


def _static_offsets(tokenizer: tokenizers.Tokenizer) -> Callable[[str], Offsets]:
    def offsets(text: str) -> Offsets:
        spans: list[tuple[int, int]] = tokenizer.encode(text, add_special_tokens=False).offsets
        return spans

    return offsets


def _transformer_offsets(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], Offsets]:
    def offsets(text: str) -> Offsets:
        spans: list[tuple[int, int]] = tokenizer(
            text,
            add_special_tokens=False,
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
            verbose=False,
        )["offset_mapping"]
        return spans

    return offsets
