"""Any sentence-transformers model as an `Encoder`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embeddings.encoder import require_encodable
from embeddings.errors import InvalidText
from embeddings.fingerprint import Fingerprint
from embeddings.model_runner import ModelRunner
from embeddings.query_cache import Role
from embeddings.vectors import Vectors, unit_rows
from embeddings.windows import Window, Windower


@dataclass(frozen=True, slots=True)
class SentenceTransformerEncoder:
    """A loaded model with its prompts and windows. The caller decides how many texts it passes at once."""

    runner: ModelRunner
    fingerprint: Fingerprint
    windower: Windower

    def windows(self, text: str) -> tuple[Window, ...]:
        """See `Encoder.windows`."""
        require_encodable(text)
        with self.runner.turn():
            return self.windower.split(text)

    def encode_windows(self, windows: Sequence[Window]) -> Vectors:
        """See `Encoder.encode_windows`."""
        return self._encode(
            [window.text for window in windows], Role.PASSAGE, self.fingerprint.passage_prompt
        )

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.encode_queries`."""
        for text in texts:
            require_encodable(text)
            if not self.runner.count_tokens(text):
                raise InvalidText("a query in which the model sees no token has no vector")
        return self._encode(texts, Role.QUERY, self.fingerprint.query_prompt)

    def _encode(self, texts: Sequence[str], role: Role, prompt: str) -> Vectors:
        dimension = self.fingerprint.dimension
        if not texts:
            return np.empty((0, dimension), np.float32)
        return unit_rows(self.runner.encode(texts, role, prompt), rows=len(texts), dimension=dimension)
