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
    if not _library().fh_option_get(name.encode(), ctypes.byref(value)):
        raise KeyError("no option %r: docs/options.md has the names" % name)
    return value.value


def set_option(name, value):
    """Sets an option at run time."""
    option(name)
    if not _library().fh_option_set(name.encode(), value):
        raise ValueError("option %s: %r is out of range, or can only be set at start"
                         % (name, value))


def write_profile(path, kind="heap"):
    """Writes what was sampled so far for pprof. Kinds: heap, blocks, lifetimes."""
    if kind not in KINDS:
        raise ValueError("kind: %r; expected one of %s" % (kind, ", ".join(KINDS)))
    with open(path, "wb") as file:
        if not _library().fh_profile_write(file.fileno(), KINDS[kind]):
            raise OSError("%s: no profile: nothing was sampled, or the file cannot be written"
                          % path)


@contextlib.contextmanager
def profile(path, interval=512 << 10, kind="heap"):
    """Samples one block in about `interval` bytes meanwhile, and then writes the profile."""
    if not _library().fh_profile_start(interval):
        raise MemoryError("no memory for call stacks")
    try:
        yield
    finally:
        write_profile(path, kind)
        _library().fh_profile_start(0)


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in "context malloc calloc realloc free".split()]


class _Domain(ctypes.Structure):
    _fields_ = [("before", _Allocator)] + [
        (name, ctypes.c_void_p) for name in "malloc calloc realloc free owns".split()]


_installed = {}


def install(*domains):
    """From now on these domains of Python (raw, mem, object; all if none is named) allocate from
    freehold. What they have allocated before is freed where it came from. It stays so until the
    process ends; a domain that has it already is left alone."""
    for name in domains or DOMAINS:
        if name not in DOMAINS:
            raise ValueError("domain: %r; expected one of %s" % (name, ", ".join(DOMAINS)))
    take = ctypes.CDLL(os.path.join(FOLDER, "domains.so")).domain_take
    functions = {name: ctypes.cast(getattr(_library(), "fh_" + name), ctypes.c_void_p)
                 for name in "malloc calloc realloc free owns".split()}
    for name in domains or DOMAINS:
        if name in _installed:
            continue
        domain, allocator = _Domain(**functions), _Allocator()
        _installed[name] = domain, allocator         # for as long as the process
        ctypes.pythonapi.PyMem_GetAllocator(DOMAINS[name], ctypes.byref(allocator))
        take(ctypes.byref(domain), ctypes.byref(allocator))
        ctypes.pythonapi.PyMem_SetAllocator(DOMAINS[name], ctypes.byref(allocator))


def installed():
    """The domains that `install` has changed."""
    return sorted(_installed)
