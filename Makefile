# A short front to CMake: make, make install PREFIX=... DESTDIR=..., make test, make clean.
PREFIX ?= /usr/local
BUILD  ?= build
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN || echo 2)

all: $(BUILD)/CMakeCache.txt
	@cmake --build $(BUILD) --parallel $(JOBS)

$(BUILD)/CMakeCache.txt: CMakeLists.txt
	@cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX)

install: all
	@cmake -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) > /dev/null
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD)

test: all
	@ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

clean:
	@cmake -E rm -rf $(BUILD)

.PHONY: all install test clean
