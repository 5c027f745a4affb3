"""The HTTP application: the routes, and what every request passes through."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from litestar import Litestar
from litestar.datastructures import State

from service.bootstrap import application
from service.errors import CitewellError
from service.settings import Settings, read_settings
from service.surfaces.http import flag, health, imports, items, retrieval, tags, vocabulary
from service.surfaces.http.access import authorize
from service.surfaces.http.document import openapi_config
from service.surfaces.http.gate import Gate, House
from service.surfaces.http.leaving import Leaving
from service.surfaces.http.lifecycle import draining_of
from service.surfaces.http.metrics import Metrics
from service.surfaces.http.pages.routes import PAGES
from service.surfaces.http.parts import DEPENDENCIES
from service.surfaces.http.problems import EXCEPTION_HANDLERS
from service.surfaces.http.queue import Limits
from service.surfaces.http.readiness import Readiness
from service.surfaces.http.requests import StrictRequest, refuse_unknown_query
from service.surfaces.http.templates import RouteTemplates
from service.surfaces.http.tracing import Traced

_ROUTES = [
    retrieval.retrieve,
    retrieval.system_passages,
    retrieval.selection_passages,
    retrieval.selection_evidence,
    retrieval.selection_hand_off,
    items.capture_item,
    items.get_item,
    items.trace_item,
    items.retire_item,
    items.supersede_item,
    imports.import_items,
    vocabulary.replace_vocabulary,
    vocabulary.read_vocabulary,
    tags.propose_tag,
    tags.accept_tag,
    tags.reject_tag,
    tags.list_tags,
    flag.shadow_report,
    health.live,
    health.ready,
    health.metrics_page,
]


def create_app(settings: Settings) -> Litestar:
    """The ASGI application of one instance. Nothing opens before its lifespan begins."""
    metrics = Metrics()
    app = Litestar(
        route_handlers=[*_ROUTES, PAGES],
        lifespan=[_opened(settings, metrics)],
        state=State({"metrics": metrics}),
        dependencies=DEPENDENCIES,
        exception_handlers=EXCEPTION_HANDLERS,
        guards=[authorize],
        before_request=refuse_unknown_query,
        request_class=StrictRequest,
        request_max_body_size=settings.max_body_bytes,
        openapi_config=openapi_config(),
        logging_config=None,
    )
    app.state.leaving = Leaving(draining_of(app.state))
    house = House(app.asgi_handler, lambda: "application" in app.state, RouteTemplates(app).of)
    app.state.gate = Gate(house, metrics, _limits(settings), app.state.leaving)
    app.asgi_handler = Traced(app.state.gate, app.state)
    return app


def _limits(settings: Settings) -> Limits:
    return Limits(
        in_flight=settings.max_in_flight,
        waiting=settings.max_waiting,
        deadline=settings.request_deadline,
        log_queries=settings.log_queries,
    )


def app_from_environment() -> Litestar:
    """The application of the environment's settings: a factory for ASGI servers. Raises ConfigurationError."""
    return create_app(read_settings())


def _opened(settings: Settings, metrics: Metrics) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def opened(app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                running = await stack.enter_async_context(application(settings))
            except CitewellError as error:
                app.state.refusal = (
                    error  # for whoever serves: the server itself would tell of it as of a defect
                )
                raise
            app.state.application, app.state.readiness = running, Readiness()
            running.shadow.watch(metrics.shadow.observe)
            yield

    return opened
