"""The cases of ./dev programs: importing a module registers what it holds."""

from cases import build, data, languages, servers  # noqa: F401
from cases.case import CASES  # noqa: F401
