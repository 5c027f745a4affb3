"""How the handlers reach the application that the lifespan opened."""

from typing import Final

from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from service.bootstrap import Application
from service.surfaces.http.access import get_access, get_caller
from service.surfaces.http.metrics import Metrics

App = NamedDependency[SkipValidation[Application]]
Counted = NamedDependency[SkipValidation[Metrics]]


def get_application(state: State) -> Application:
    """The use cases of this process."""
    application: Application = state.application
    return application


def get_metrics(state: State) -> Metrics:
    """The metrics of this process."""
    metrics: Metrics = state.metrics
    return metrics


DEPENDENCIES: Final = {
    "application": Provide(get_application, sync_to_thread=False),
    "metrics": Provide(get_metrics, sync_to_thread=False),
    "access": Provide(get_access),
    "caller": Provide(get_caller, sync_to_thread=False),
}
