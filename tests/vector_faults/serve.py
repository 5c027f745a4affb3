"""A server of its own process in which hashed words take the model's place; all else is real.

Arguments: the descriptor of a socket to serve, the seconds that a batch of queries takes to encode, and the
seconds for which a state of the rollout flag is used without asking its holder again.
"""

import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import uvicorn

from embeddings.encoder import Encoder
from embeddings.encoder_settings import EncoderSettings
from embeddings.vectors import Vectors
from service.adapters.flags.evaluated import OpenFeatureFlag
from service.adapters.flags.opening import open_flag
from service.adapters.flags.settings import FlagSettings, FlagTiming
from service.ports.flag import FlagLedger
from service.surfaces.http.app import app_from_environment
from tests.embeddings.hash_encoder import HashEncoder


@dataclass(frozen=True, slots=True)
class SlowWords(HashEncoder):
    """Takes its time over queries, in the thread that encodes, as a large model would."""

    seconds: float = 0.0

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """One row a text, later."""
        time.sleep(self.seconds)
        return HashEncoder.encode_queries(self, texts)


def main() -> None:
    """Serve the application of this process's environment until it is told to end."""
    descriptor, seconds, fresh = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    timing = FlagTiming(fresh=fresh, first_patience=10.0, patience=10.0)

    def load_words(_: EncoderSettings) -> Encoder:
        return SlowWords(seconds=seconds)

    def open_fresh(chosen: FlagSettings, ledger: FlagLedger) -> OpenFeatureFlag:
        return open_flag(replace(chosen, timing=timing), ledger)

    with pytest.MonkeyPatch.context() as patch, socket.socket(fileno=descriptor) as listening:
        patch.setattr("embeddings.encoder_service.load_encoder", load_words)
        patch.setattr("service.bootstrap.open_flag", open_fresh)
        config = uvicorn.Config(app_from_environment, factory=True, log_level="warning", ws="none")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
