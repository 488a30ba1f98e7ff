"""The version of the installed distribution."""

from importlib import metadata

try:
    __version__ = metadata.version("evenhand")
except metadata.PackageNotFoundError:  # a copy of the sources that is not installed
    __version__ = "unknown"
