"""Builds what is not Python: the library, the command, and the functions by which Python's own
allocators are replaced. The wheel is one for all versions of Python."""
import os
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARIES = ["libfreehold.so.1", "libfreehold-secure.so.1"]     # by these the command finds them
TARGETS = ["freehold_shared", "freehold_secure_shared", "freehold_command"]


def build_with_cmake(folder):
    """Without the libraries that the command can do without: they are not everywhere."""
    subprocess.check_call(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                           "-Dfh_libdw=", "-Dfh_libdw_include=",
                           "-DCMAKE_DISABLE_FIND_PACKAGE_Curses=ON"])
    subprocess.check_call(["cmake", "--build", folder, "--parallel", str(os.cpu_count()),
                           "--target", *TARGETS])


class Build(build_py):
    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "freehold")
        made = os.environ.get("FREEHOLD_BUILD")     # a folder with what was built so already
        if made is None:
            made = os.path.join(HERE, "build", "native")
            build_with_cmake(made)
        for name in [*LIBRARIES, "freehold"]:
            shutil.copy(os.path.realpath(os.path.join(made, name)), os.path.join(package, name))
        subprocess.check_call([os.environ.get("CC", "cc"), "-O2", "-fPIC", "-shared", "-Wall",
                               "-Wextra", "-I" + os.path.join(ROOT, "include"),
                               os.path.join(HERE, "domains.c"),
                               "-o", os.path.join(package, "domains.so")])


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Native)
