"""A flagd on loopback: its evaluation service over gRPC, with the protocol's own generated messages.

Only what a client of one text flag sees: values, targeting by workspace, disabled and unknown flags, and the
stream that announces changes. `stop` drops every connection, as a server does that is killed.
"""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc  # type: ignore[import-untyped] # no type information is shipped with it
from openfeature.flag_evaluation import Reason
from openfeature.schemas.protobuf.flagd.evaluation.v2 import evaluation_pb2 as messages

from service.ports.flag import FLAG_KEY

SERVICE = "flagd.evaluation.v2.Service"


@dataclass(slots=True)
class HeldFlag:
    """The flag as the server has it; `targeted` values are those of single workspaces."""

    default: str = "off"
    targeted: dict[str, str] = field(default_factory=dict)
    disabled: bool = False
    key: str = FLAG_KEY


class _Evaluation:
    """Answers from one flag, on the server's threads."""

    def __init__(self, flag: HeldFlag) -> None:
        self._flag = flag
        self._streams: list[queue.SimpleQueue[str | None]] = []
        self._lock = threading.Lock()
        self.asked = 0

    def handler(self) -> grpc.GenericRpcHandler:
        """The two methods that such a client calls."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ResolveString": grpc.unary_unary_rpc_method_handler(
                    self.resolve_string,
                    request_deserializer=messages.ResolveStringRequest.FromString,
                    response_serializer=messages.ResolveStringResponse.SerializeToString,
                ),
                "EventStream": grpc.unary_stream_rpc_method_handler(
                    self.event_stream,
                    request_deserializer=messages.EventStreamRequest.FromString,
                    response_serializer=messages.EventStreamResponse.SerializeToString,
                ),
            },
        )

    def resolve_string(
        self, request: messages.ResolveStringRequest, context: grpc.ServicerContext
    ) -> messages.ResolveStringResponse:
        """As flagd: its value and why, a disabled flag without one, an unknown flag as an error."""
        self.asked += 1
        if request.flag_key != self._flag.key:
            context.abort(grpc.StatusCode.NOT_FOUND, "flag not found")
        if self._flag.disabled:
            return messages.ResolveStringResponse(reason=Reason.DISABLED)
        own = self._flag.targeted.get(request.context.fields["workspace"].string_value)
        if own is not None:
            return messages.ResolveStringResponse(value=own, variant=own, reason=Reason.TARGETING_MATCH)
        value = self._flag.default
        reason = Reason.DEFAULT if self._flag.targeted else Reason.STATIC  # static ones may be cached
        return messages.ResolveStringResponse(value=value, variant=value, reason=reason)

    def event_stream(
        self, _: messages.EventStreamRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.EventStreamResponse]:
        """Ready at once, then every announced change, until the server stops or the client goes."""
        events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with self._lock:
            self._streams.append(events)
        context.add_callback(lambda: events.put(None))
        yield messages.EventStreamResponse(type="provider_ready")
        while (kind := events.get()) is not None:
            event = messages.EventStreamResponse(type=kind)
            event.data["flags"] = {self._flag.key: {"type": "update"}}
            yield event

    def announce(self, kind: str | None) -> None:
        """Put an event into every stream; None ends them."""
        with self._lock:
            for events in self._streams:
                events.put(kind)


class FlagdServer:
    """May be stopped and started again on its port; what it holds stays."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.flag = HeldFlag()
        self._evaluation = _Evaluation(self.flag)
        self._server: grpc.Server | None = None

    @property
    def asked(self) -> int:
        """Evaluations since the last start."""
        return self._evaluation.asked

    def start(self) -> None:
        """Listen."""
        self._evaluation = _Evaluation(self.flag)
        self._server = grpc.server(ThreadPoolExecutor(max_workers=8))
        self._server.add_generic_rpc_handlers((self._evaluation.handler(),))
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def announce_change(self) -> None:
        """Tell every client that the flag has changed."""
        self._evaluation.announce("configuration_change")

    def stop(self) -> None:
        """Drop every connection and the port."""
        server, self._server = self._server, None
        if server is not None:
            self._evaluation.announce(None)
            server.stop(grace=None).wait()
