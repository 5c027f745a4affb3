"""Real sentence-transformers folders, small enough to build in a test: random weights, trained tokenizers."""

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

SENTENCES = (
    "The sliding door runs on a bottom roller that carries the whole weight of the panel.",
    "Drain the sill pan to the outside before the threshold is sealed.",
    "SL45 and SL4500 are different systems; the adapter NW-SL45/2 fits the first only.",
    "Wie wird die Dichtung am unteren Profil ausgetauscht? Größe und Maß stehen im Anhang.",
    "Returns: unopened items within 30 days, opened items within 14 days of delivery.",
)
PAD, UNK, CLS, SEP, MASK = _SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNIGRAM_UNK = "<unk>"
DIMENSION = 32
TOKEN_LIMIT = 48


def wordpiece() -> Tokenizer:
    """A BERT-style tokenizer: lower case, `[UNK]` for letters it never saw."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=list(_SPECIALS))
    tokenizer.train_from_iterator(SENTENCES, trainer)
    ids = tokenizer.get_vocab()
    tokenizer.post_processor = processors.BertProcessing((SEP, ids[SEP]), (CLS, ids[CLS]))
    return tokenizer


def byte_level() -> Tokenizer:
    """A GPT-style tokenizer: any text is bytes, so one character may be several tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    return tokenizer


def unigram() -> Tokenizer:
    """A SentencePiece-style tokenizer: a space belongs to the word after it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, unk_token=UNIGRAM_UNK, special_tokens=[UNIGRAM_UNK])
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def save_transformer(folder: Path, *, outlier: float = 0.0, normalise: bool = True) -> Path:
    """A two-layer BERT with mean pooling.

    `outlier` is put into every row of the linear weights: too large to share 8 bits with the rest.
    """
    source = folder / "transformer"
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=wordpiece(),
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        sep_token=SEP,
        mask_token=MASK,
        model_max_length=TOKEN_LIMIT,
    )
    tokenizer.save_pretrained(source)
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=DIMENSION,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=TOKEN_LIMIT,
        initializer_range=0.3,
    )
    bert = BertModel(config)
    if outlier:
        with torch.no_grad():
            for name, weight in bert.named_parameters():
                if name.endswith("dense.weight"):
                    weight[:, 0] = outlier
    bert.save_pretrained(source)
    transformer = Transformer(str(source))
    modules: list[torch.nn.Module] = [transformer, Pooling(DIMENSION, pooling_mode="mean")]
    if normalise:
        modules.append(Normalize())
    target = folder / "tiny-bert"
    SentenceTransformer(modules=modules, device="cpu").save(str(target))
    return target


def save_static(folder: Path) -> Path:
    """An embedding bag: no transformer, no token limit."""
    torch.manual_seed(7)
    target = folder / "tiny-static"
    module = StaticEmbedding(wordpiece(), embedding_dim=DIMENSION)
    SentenceTransformer(modules=[module], device="cpu").save(str(target))
    return target
