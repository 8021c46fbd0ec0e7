"""freehold_lab - a laboratory for memory allocators: peers, designed experiments,
statistics, pictures"""

__version__ = "1.0.0"
