# A short front to CMake: make, make install PREFIX=... DESTDIR=..., make test, make clean.
PREFIX ?= /usr/local
BUILD  ?= build

all: $(BUILD)/CMakeCache.txt
	@cmake --build $(BUILD) --parallel

$(BUILD)/CMakeCache.txt: CMakeLists.txt
	@cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX)

install: all
	@cmake -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) > /dev/null
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD)

test: all
	@ctest --test-dir $(BUILD) --output-on-failure --parallel 2

clean:
	@cmake -E rm -rf $(BUILD)

.PHONY: all install test clean
