"""freehold for Conan 2, built from the sources around it: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

ROOT = os.path.join("..", "..")

class Freehold(ConanFile):
    name = "freehold"
    description = "a lock-free general-purpose memory allocator"
    license = "MIT"
    topics = ("malloc", "allocator", "lock-free")
    settings = "os", "arch", "compiler", "build_type"
    package_type = "library"
    options = {"shared": [True, False], "secure": [True, False]}
    default_options = {"shared": True, "secure": False}
    languages = "C"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, ROOT, "include/freehold/freehold.h"))
        numbers = dict(re.findall(r"#define FH_VERSION_(\w+) (\d+)", header))
        self.version = "{MAJOR}.{MINOR}.{PATCH}".format(**numbers)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, ROOT)
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "docs/options.md", "include/*",
                        "packaging/completion/*", "packaging/debian/changelog", "src/*", "tools/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FH_TESTS"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        grade = "-secure" if self.options.secure else ""
        self.cpp_info.set_property("cmake_target_name", "freehold::freehold")
        self.cpp_info.set_property("pkg_config_name", "freehold")
        if self.options.shared:
            self.cpp_info.libs = ["freehold" + grade]
        else:
            self.cpp_info.objects = ["lib/freehold/freehold%s.o" % grade]
            self.cpp_info.system_libs = ["pthread"]
        self.runenv_info.append_path("PATH", os.path.join(self.package_folder, "bin"))
