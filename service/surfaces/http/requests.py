"""How a request is read: JSON strictly by its wire type, and no parameter that the route does not have."""

from typing import cast

from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import ClientException, HTTPException, InternalServerException
from litestar.params import QueryParameter

from service.errors import InvalidInput
from service.model import MAX_LIMIT
from service.surfaces.wire import decode_json, limit_refused

IDENTITY = ("", "identity")


class UnsupportedMediaType(HTTPException):
    """The body is in a form that the route does not read."""

    status_code = 415


class StrictRequest(Request[None, None, State]):
    """A request whose JSON is decoded at once into the handler's type, without any leniency."""

    async def json(self) -> object:
        """The body as the struct that the handler's `data` is. Raises what `decode_json` raises."""
        try:
            body = await self.body()
        except InternalServerException as error:
            raise ClientException("the client went away before its request was complete") from error
        self._check_form()
        field = self.route_handler.parsed_data_field
        return decode_json(body, cast("type[object]", object if field is None else field.annotation))

    def _check_form(self) -> None:
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in ("", "application/json") and not media_type.endswith("+json"):
            raise UnsupportedMediaType("the body must be application/json")
        if self.headers.get("content-encoding", "").strip().lower() not in IDENTITY:
            raise UnsupportedMediaType("the body must not be compressed")


async def refuse_unknown_query(request: Request[None, None, State]) -> None:
    """Raises InvalidInput for a query parameter that the route does not have, and for one given twice."""
    if not request.scope["query_string"]:
        return
    known = {
        name
        for name, field in request.route_handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }
    for name, values in request.query_params.dict().items():
        if name not in known:
            allowed = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise InvalidInput(f"the path has no such query parameter; {allowed}", field=name[:100])
        if len(values) > 1:
            raise InvalidInput(f"{name} stands twice in the query", field=name)


def limit_of(text: str) -> int:
    """A limit from a query string: digits only. Raises InvalidLimit for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIMIT))):
        raise limit_refused()
    return int(text)
