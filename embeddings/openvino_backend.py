"""The transformer of a loaded model, run by OpenVINO; everything around it stays sentence-transformers'."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn

from embeddings.encoder_settings import Precision
from embeddings.errors import BackendUnavailable
from embeddings.int8_linear import to_int8

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_HIDDEN = "last_hidden_state"
_TELEMETRY = "openvino_telemetry"


class _InferRequest(Protocol):
    def infer(self, inputs: Mapping[int, NDArray[np.int64]]) -> Mapping[int, NDArray[np.float32]]: ...


def run_on_openvino(
    model: SentenceTransformer, precision: Precision, threads: int, examples: list[str]
) -> None:
    """Replace the model's transformer, in place, by its compiled form.

    `examples` are two or more texts of different length that the transformer is traced with.

    Raises:
        BackendUnavailable: OpenVINO is not installed or cannot run this model.
    """
    openvino = import_openvino()
    transformer = model[0]
    if not isinstance(transformer, Transformer) or _reads(transformer) != ("forward", _HIDDEN):
        raise BackendUnavailable("the openvino backend runs models that begin with a text transformer")
    features = model.preprocess(examples)
    names = [name for name in _INPUTS if name in features]
    if precision is Precision.INT8:
        to_int8(transformer.model)
    try:
        request = _compile(
            openvino, transformer.model, [features[name] for name in names], precision, threads
        )
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise BackendUnavailable(f"openvino cannot compile this model ({type(error).__name__})") from error
    transformer.model = _CompiledTransformer(transformer.model.config, request, names)


class _CompiledTransformer(nn.Module):
    """Stands where the torch transformer stood, and answers as it did."""

    def __init__(self, config: object, request: _InferRequest, names: list[str]) -> None:
        super().__init__()
        self.config = config
        self.names = names
        self._request = request

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None, **_: object
    ) -> dict[str, Tensor]:
        """`(batch, tokens, hidden)` float32 under `last_hidden_state`."""
        given = (input_ids, attention_mask, token_type_ids)
        arrays = {
            number: tensor.numpy().astype(np.int64, copy=False)
            for number, tensor in enumerate(given[: len(self.names)])
            if tensor is not None
        }
        return {_HIDDEN: torch.from_numpy(self._request.infer(arrays)[0])}


class _HiddenStates(nn.Module):
    """The transformer with plain tensors in and out, as tracing wants it."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            given["token_type_ids"] = token_type_ids
        hidden: Tensor = self.transformer(**given).last_hidden_state
        return hidden


def _compile(
    openvino: ModuleType, transformer: nn.Module, inputs: list[Tensor], precision: Precision, threads: int
) -> _InferRequest:
    decoders = import_module("openvino.frontend.pytorch.ts_decoder")
    frontend = openvino.frontend.FrontEndManager().load_by_framework("pytorch")
    with _tracing_warnings_hidden(), torch.inference_mode():
        decoder = decoders.TorchScriptPythonDecoder(
            _HiddenStates(transformer).eval(), example_input=tuple(inputs)
        )
    graph = frontend.convert(frontend.load(decoder))
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "bf16" if precision is Precision.BF16 else "f32",
    }
    request: _InferRequest = openvino.Core().compile_model(graph, "CPU", options).create_infer_request()
    return request


def _reads(transformer: Transformer) -> tuple[object, object]:
    text: Mapping[str, object] = transformer.modality_config.get("text") or {}
    return text.get("method"), text.get("method_output_name")


def import_openvino() -> ModuleType:
    """Import OpenVINO without its usage reports.

    Its import posts an event to an analytics server unless the telemetry package is missing; a None in
    `sys.modules` makes it missing, and the engine then uses its own stub.
    """
    hide = "openvino" not in sys.modules and _TELEMETRY not in sys.modules
    if hide:
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment] # the documented way to block an import
    try:
        return import_module("openvino")
    except ImportError as error:
        raise BackendUnavailable("the openvino backend needs the package openvino") from error
    finally:
        if hide:
            sys.modules.pop(_TELEMETRY, None)


@contextmanager
def _tracing_warnings_hidden() -> Iterator[None]:
    """Hide what tracing says of this library's own source; shapes baked in by it fail the self-check."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        yield
