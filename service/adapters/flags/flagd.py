"""A flag held by flagd: its server, or a file in its format.

Configured as every flagd client is, by the FLAGD_… variables: FLAGD_HOST and FLAGD_PORT of a server, or
FLAGD_RESOLVER=file with FLAGD_OFFLINE_FLAG_SOURCE_PATH. The flag is a string flag named
`corpus-hybrid-retrieval`, its variants off, shadow, on and percentages; targeting rules see `workspace`. Who
is inside a percentage is decided here, by workspace and caller, not by flagd's fractional rules: so it is the
same whoever holds the flag. A disabled flag means off.

The provider's own cache stays off, whatever FLAGD_CACHE says: a change made while the connection is away is
announced to nobody, and a value that is cached without end would outlive the kill switch.
"""

from openfeature.provider import FeatureProvider

from service.errors import ConfigurationError


def flagd_provider() -> FeatureProvider:
    """The provider that flagd's makers ship; it connects in the background. Raises ConfigurationError."""
    try:
        from openfeature.contrib.provider.flagd import FlagdProvider  # an optional extra  # noqa: PLC0415
        from openfeature.contrib.provider.flagd.config import CacheType  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "the flag holder flagd needs the package openfeature-provider-flagd"
        ) from error
    try:
        return FlagdProvider(cache=CacheType.DISABLED)
    except (AttributeError, ValueError) as error:
        raise ConfigurationError("the FLAGD_ variables do not describe a flagd source") from error
