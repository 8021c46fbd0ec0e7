"""freehold, a lock-free memory allocator, under Python.

    python -m freehold run program.py       everything of the process, C libraries included
    freehold.install()                      what Python allocates from now on, in this process
    freehold.stats()                        what the allocator holds
    with freehold.profile("heap.pb"): ...   who allocates, for pprof
"""
import contextlib
import ctypes
import functools
import json
import os
import sys
import tracemalloc

__version__ = "1.0.0"
DOMAINS = {"raw": 0, "mem": 1, "object": 2}
KINDS = {"heap": 0, "blocks": 1, "lifetimes": 2}
FOLDER = os.path.dirname(os.path.abspath(__file__))


def library_path(secure=False):
    """Where the library lies: for LD_PRELOAD."""
    return os.path.join(FOLDER, "libfreehold-secure.so.1" if secure else "libfreehold.so.1")


def is_preloaded():
    """Is malloc of this process freehold's?"""
    return hasattr(ctypes.CDLL(None), "fh_version")


@functools.lru_cache(maxsize=None)
def _library():
    """The preloaded one, or else the one beside this file: then nothing but `install` uses it."""
    library = ctypes.CDLL(None if is_preloaded() else library_path())
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for name, result, *arguments in (
            ("fh_stats_json", size, ctypes.c_char_p, size), ("fh_collect", None, ctypes.c_bool),
            ("fh_version_string", ctypes.c_char_p), ("fh_owns", ctypes.c_bool, pointer),
            ("fh_option_get", ctypes.c_bool, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)),
            ("fh_option_set", ctypes.c_bool, ctypes.c_char_p, ctypes.c_int64),
            ("fh_profile_start", ctypes.c_bool, size),
            ("fh_profile_write", ctypes.c_bool, ctypes.c_int, ctypes.c_int)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def version():
    """Of the library, such as "1.0.0" or "1.0.0-secure"."""
    return _library().fh_version_string().decode()


def stats():
    """The statistics as a dictionary; each figure is described in docs/statistics.md."""
    size = 1 << 16
    while True:
        text = ctypes.create_string_buffer(size)
        length = _library().fh_stats_json(text, size)
        if length < size:
            return json.loads(text.value)
        size = 2 * length


def collect(force=True):
    """Gives memory that is free back to the system."""
    _library().fh_collect(force)


def option(name):
    """The value of an option in force. KeyError: there is none of that name."""
    value = ctypes.c_int64()
    if "\0" in name or not _library().fh_option_get(name.encode(), ctypes.byref(value)):
        raise KeyError("no option %r: docs/options.md has the names" % name)
    return value.value


def set_option(name, value):
    """Sets an option at run time."""
    option(name)
    fits = -1 << 63 <= value < 1 << 63
    if not fits or not _library().fh_option_set(name.encode(), value):
        raise ValueError("option %s: %r is out of range, or can only be set at start"
                         % (name, value))


def _kind(name):
    if name not in KINDS:
        raise ValueError("kind: %r; expected one of %s" % (name, ", ".join(KINDS)))
    return KINDS[name]


def _write_profile(file, number):
    if not _library().fh_profile_write(file.fileno(), number):
        raise OSError("%s: no profile: nothing was sampled, or the file cannot be written"
                      % file.name)


def write_profile(path, kind="heap"):
    """Writes what was sampled so far for pprof. Kinds: heap, blocks, lifetimes."""
    number = _kind(kind)
    with open(path, "wb") as file:
        _write_profile(file, number)


_profiles = []


@contextlib.contextmanager
def profile(path, interval=512 << 10, kind="heap"):
    """Samples one block in about `interval` bytes meanwhile, and then writes the profile, also if
    the body raises an exception. One at a time: RuntimeError if another goes on. What is wrong with
    the arguments, or with the file, is told before anything runs."""
    number = _kind(kind)
    if not 1 <= interval < 1 << 63:
        raise ValueError("interval: %r; expected bytes, 1 or more" % interval)
    if _profiles:
        raise RuntimeError("a profile goes on, into %s" % _profiles[0])
    with open(path, "wb") as file:
        if not _library().fh_profile_start(interval):
            raise MemoryError("no memory for call stacks")
        _profiles.append(path)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):      # the body's own exception counts
                _write_profile(file, number)
            raise
        else:
            _write_profile(file, number)
        finally:
            _profiles.clear()
            _library().fh_profile_start(0)


class _Functions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in "malloc calloc realloc free owns".split()]


@functools.lru_cache(maxsize=None)
def _taker():
    """Called with the interpreter's lock held. It is never unloaded."""
    library = ctypes.PyDLL(os.path.join(FOLDER, "domains.so"))
    for name in "domain_take", "domain_is_taken":
        getattr(library, name).restype = ctypes.c_bool
    return library


def _refuse_hooks():
    """Python's debug hooks hand out the inside of a block, so its allocator cannot be told by the
    address; tracemalloc.stop puts back what was there when it began."""
    asked = "" if sys.flags.ignore_environment else os.environ.get("PYTHONMALLOC", "")
    if sys.flags.dev_mode or "debug" in asked or hasattr(sys, "gettotalrefcount"):
        raise RuntimeError("Python's debug hooks are on its allocators (PYTHONMALLOC=debug, -X dev "
                           "or a debug build): use python -m freehold run")
    if tracemalloc.is_tracing():
        raise RuntimeError("tracemalloc is tracing: install freehold before it starts")


def install(*domains):
    """From now on these domains of Python (raw, mem, object; all if none is named) allocate from
    freehold, in all interpreters of the process. What they have allocated before is freed where it
    came from. It stays so until the process ends; a domain that has it already is left alone.
    RuntimeError while Python's debug hooks or tracemalloc are at work."""
    for name in domains or DOMAINS:
        if name not in DOMAINS:
            raise ValueError("domain: %r; expected one of %s" % (name, ", ".join(DOMAINS)))
    _refuse_hooks()
    by = _Functions(**{name: ctypes.cast(getattr(_library(), "fh_" + name), ctypes.c_void_p)
                       for name, _ in _Functions._fields_})
    python = ctypes.pythonapi
    for name in domains or DOMAINS:
        _taker().domain_take(DOMAINS[name], ctypes.byref(by), python.PyMem_GetAllocator,
                             python.PyMem_SetAllocator)


def installed():
    """The domains that `install` has changed."""
    return sorted(name for name, number in DOMAINS.items() if _taker().domain_is_taken(number))
