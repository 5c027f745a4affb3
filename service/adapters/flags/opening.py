"""The flag of a process, from its settings."""

from openfeature.provider import FeatureProvider

from service.adapters.flags.evaluated import OpenFeatureFlag
from service.adapters.flags.flag_file import FileProvider
from service.adapters.flags.flagd import flagd_provider
from service.adapters.flags.providers import EnvironmentProvider, StoreProvider
from service.adapters.flags.settings import FlagSettings
from service.errors import ConfigurationError
from service.ports.flag import FlagHolder, FlagLedger


def open_flag(settings: FlagSettings, ledger: FlagLedger) -> OpenFeatureFlag:
    """The flag as its holder says. Nothing is asked yet, nothing is waited for. Raises ConfigurationError."""
    provider = _provider(settings, ledger)
    return OpenFeatureFlag(provider, settings.holder, settings.environment, settings.timing)


def _provider(settings: FlagSettings, ledger: FlagLedger) -> FeatureProvider:
    match settings.holder:
        case FlagHolder.STORE:
            return StoreProvider(ledger)
        case FlagHolder.ENV:
            return EnvironmentProvider(settings.environment)
        case FlagHolder.FILE:
            if settings.file is None:
                raise ConfigurationError("the flag holder file needs CITEWELL_FLAG_FILE")
            return FileProvider(settings.file)
        case FlagHolder.FLAGD:
            return flagd_provider()
