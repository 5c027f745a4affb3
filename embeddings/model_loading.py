"""From a located model folder to a checked encoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers.utils import logging as transformers_logging

from embeddings.encoder_settings import Backend, EncoderSettings, Precision
from embeddings.errors import InvalidEncoderSettings, UnsuitableModel
from embeddings.fingerprint import Fingerprint
from embeddings.location import ModelLocation, locate
from embeddings.model_files import content_digest
from embeddings.model_runner import ModelRunner
from embeddings.openvino_backend import run_on_openvino
from embeddings.prompts import Prompts, choose_prompts
from embeddings.query_cache import Role
from embeddings.self_check import PROBES, least_cosine, require_agreement
from embeddings.sentence_transformer import SentenceTransformerEncoder
from embeddings.token_offsets import TokenReader, token_reader
from embeddings.torch_threads import torch_threads
from embeddings.vectors import Vectors, unit_rows
from embeddings.windows import PADDING, Windower

_SMALLEST_WINDOW = 4
# What the library and those below it raise on damaged or foreign files.
_LOAD_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ImportError,
    RuntimeError,
    SafetensorError,
)


def open_encoder(settings: EncoderSettings) -> SentenceTransformerEncoder:
    """Load the model the settings name; whatever is not plain fp32 on torch has to agree with it first.

    Raises:
        ModelNotFound, HubUnreachable, UnsuitableModel, BackendUnavailable, PrecisionRefused,
        InvalidEncoderSettings: see `embeddings.errors`.
    """
    location = locate(settings)
    with torch_threads(settings.threads):
        model = _load(location.folder, settings.device)
        prompts = _prompts(model, location, settings)
        reader = token_reader(model)
        limit = _cap_tokens(model, reader, settings.token_limit)
        runner = ModelRunner(model, reader, limit, settings.threads)
        reference = _encode_probes(runner, prompts.passage)
        if (settings.backend, settings.precision) != (Backend.TORCH, Precision.FP32):
            _run_as(model, settings)
            agreement = least_cosine(reference, _encode_probes(runner, prompts.passage))
            require_agreement(settings.precision, agreement)
    windower = _windower(reader, limit, prompts, settings.window_overlap)
    fingerprint = Fingerprint(
        name=location.name,
        revision=f"sha256:{content_digest(location.folder)}",
        commit=location.commit,
        dimension=reference.shape[1],
        pooling=_pooling(model),
        normalisation="l2",
        query_prompt=prompts.query,
        passage_prompt=prompts.passage,
        token_limit=limit,
        window_overlap=windower.overlap,
        precision=settings.precision.value,
    )
    return SentenceTransformerEncoder(runner, fingerprint, windower)


def _load(folder: Path, device: str) -> SentenceTransformer:
    try:
        with _no_progress_bars():
            return SentenceTransformer(
                str(folder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": torch.float32},
            )
    except _LOAD_ERRORS as error:
        raise UnsuitableModel(f"the model's files cannot be loaded ({type(error).__name__})") from error


def _run_as(model: SentenceTransformer, settings: EncoderSettings) -> None:
    """Change the loaded model, in place, to the backend and precision asked for."""
    if settings.backend is Backend.OPENVINO:
        run_on_openvino(model, settings.precision, settings.threads, list(PROBES[:2]))
    else:
        model.to(torch.bfloat16)


def _prompts(model: SentenceTransformer, location: ModelLocation, settings: EncoderSettings) -> Prompts:
    written_name = str(getattr(model.config, "name_or_path", "") or "")
    names = (location.name, written_name)
    return choose_prompts(names, model.prompts, settings.query_prompt, settings.passage_prompt)


def _cap_tokens(model: SentenceTransformer, reader: TokenReader, cap: int) -> int | None:
    """Make the model read no more than the smaller of its own limit and `cap`, in whole steps of padding.

    Padding beyond its own limit would ask the model for positions that it does not have.
    """
    if not reader.bounded:
        return None
    own = model.max_seq_length
    limit = (cap if own is None else min(cap, own)) // PADDING * PADDING
    model.max_seq_length = limit
    return limit


def _windower(reader: TokenReader, limit: int | None, prompts: Prompts, overlap: int) -> Windower:
    # A prompt may merge with the word after it or gain a token by it; one more is set aside for that.
    prompt_tokens = len(reader.offsets(prompts.passage)) + 1 if prompts.passage else 0
    overhead = reader.specials + prompt_tokens
    if limit is None:
        return Windower(reader.offsets, None, 0, overhead)
    capacity = limit - overhead
    if capacity < _SMALLEST_WINDOW:
        raise InvalidEncoderSettings(f"the passage prompt leaves no room within {limit} tokens")
    return Windower(reader.offsets, capacity, min(overlap, capacity // 2), overhead)


def _encode_probes(runner: ModelRunner, prompt: str) -> Vectors:
    raw = runner.encode(PROBES, Role.PASSAGE, prompt)
    return unit_rows(raw, rows=len(PROBES), dimension=raw.shape[1])


def _pooling(model: SentenceTransformer) -> str:
    """Such as `mean`, or the chain of modules where no pooling module says it."""
    modes = [str(module.pooling_mode) for module in model.children() if isinstance(module, Pooling)]
    return "+".join(modes) or ">".join(type(module).__name__.lower() for module in model.children())


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
