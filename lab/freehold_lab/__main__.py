"""__main__.py - python3 -m freehold_lab is freehold-lab"""

import sys

from freehold_lab.cli import main

sys.exit(main())
