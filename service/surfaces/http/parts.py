"""How the handlers reach the application that the lifespan opened."""

from typing import Final

from litestar import Request
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from service.bootstrap import Application
from service.model import Workspace
from service.surfaces.http.metrics import Metrics

App = NamedDependency[SkipValidation[Application]]
Counted = NamedDependency[SkipValidation[Metrics]]
Caller = NamedDependency[SkipValidation[str]]
CALLER_HEADER: Final = "X-Citewell-Caller"
MAX_CALLER: Final = 200  # characters


def get_application(state: State) -> Application:
    """The use cases of this process."""
    application: Application = state.application
    return application


def get_metrics(state: State) -> Metrics:
    """The metrics of this process."""
    metrics: Metrics = state.metrics
    return metrics


def workspace_of(application: Application) -> Workspace:
    """The workspace that requests speak of."""
    return Workspace(application.settings.workspace)


def get_caller(request: Request[None, None, State]) -> str:
    """Whom a percentage rollout counts by; the empty name where the caller does not say."""
    return request.headers.get(CALLER_HEADER, "")[:MAX_CALLER]


DEPENDENCIES: Final = {
    "application": Provide(get_application, sync_to_thread=False),
    "metrics": Provide(get_metrics, sync_to_thread=False),
    "caller": Provide(get_caller, sync_to_thread=False),
}
