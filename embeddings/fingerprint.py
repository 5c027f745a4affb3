"""Everything that changes a vector, as readable fields and as one short stable name."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass

SCHEME = 1  # raised when this package itself comes to make other vectors from the same settings
_SLUG_LENGTH = 40
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Vectors compare when, and only when, the fingerprints they were made under are equal.

    `revision` is a digest of the weight, configuration and tokenizer files: the same model in a folder and
    from a hub agrees, and a hub commit that only edits its README is the same revision. `commit` tells where
    the files came from and is no part of the identity. `token_limit` is None where the model has none.
    """

    name: str
    revision: str
    dimension: int
    pooling: str
    normalisation: str
    query_prompt: str
    passage_prompt: str
    token_limit: int | None
    window_overlap: int
    precision: str
    scheme: int = SCHEME
    commit: str | None = None

    @property
    def id(self) -> str:
        """Such as `bge-base-en-v1-5-768-3f0c…`: lower-case letters, digits and hyphens, under 70 of them."""
        last = self.name.rpartition("/")[2].lower()
        slug = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:_SLUG_LENGTH].rstrip("-") or "model"
        return f"{slug}-{self.dimension}-{self._digest()}"

    def fields(self) -> dict[str, str | int | None]:
        """Every field by name, and the id under `id`."""
        return {"id": self.id, **asdict(self)}

    def _digest(self) -> str:
        identity = {name: value for name, value in asdict(self).items() if name != "commit"}
        text = json.dumps(identity, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:_DIGEST_LENGTH]
