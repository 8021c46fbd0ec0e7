"""programs - real programs of Debian; importing the package registers them all"""

from freehold_lab.programs import building, languages, servers, single, small  # noqa: F401
from freehold_lab.programs.program import PROGRAMS  # noqa: F401
