# Polar Proxy: build rules. `make help` lists the targets.
#
# One static library per folder of lib/, linked in layer order (doc/internal, scripts/check_layers.py).
# MODE picks the build flavour; each has its own object folder:
#   release (default)  asan  tsan  debug  fuzz (clang, libFuzzer)
MODE ?= release
BUILD := build$(if $(filter-out release,$(MODE)),-$(MODE))

# Lowest layer first; a folder may use only folders to its left (the finer rule is in check_layers.py).
LAYERS := base config stats protocol auth net classify prepared backend pool route forward session thread monitor admin

CXX := $(if $(filter fuzz,$(MODE)),clang++,$(if $(filter default,$(origin CXX)),g++,$(CXX)))
# The directory is no part of ccache's key: a fresh clone finds what was compiled elsewhere.
export CCACHE_NOHASHDIR := 1
CCACHE := $(shell command -v ccache 2>/dev/null)
# PostgreSQL's headers are C and full of old-style casts: everything outside this tree is -isystem.
CPPFLAGS += -Iinclude -Ilib $(LIBPQ_CFLAGS)
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wold-style-cast -Wimplicit-fallthrough \
	-Wnon-virtual-dtor -Werror
CXXFLAGS_release := -O2 -g
CXXFLAGS_debug := -O0 -g -DPROXY_DEBUG=1
# gcc 12 sees uninitialized reads in instrumented std::regex code where there are none.
CXXFLAGS_asan := -Wno-maybe-uninitialized -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined -DPROXY_DEBUG=1 \
	$(if $(findstring clang,$(CXX)),,-Wno-maybe-uninitialized)
CXXFLAGS_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -DPROXY_DEBUG=1
CXXFLAGS_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
	-DPROXY_DEBUG=1
ALL_CXXFLAGS := -std=c++20 -pthread $(WARNINGS) $(CXXFLAGS_$(MODE)) $(CXXFLAGS)
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_fuzz := -fsanitize=address,undefined
ALL_LDFLAGS := -pthread $(LDFLAGS_$(MODE)) $(LDFLAGS)
# jemalloc and the sanitizers both replace malloc, so only the plain builds take jemalloc.
LDLIBS_release := -ljemalloc
LDLIBS_debug := -ljemalloc
SYSTEM_LIBS := -lev -lsqlite3 -lssl -lcrypto -lre2 -lpg_query -lprotobuf-c -lconfig++ -lxxhash -lfmt
VERSION := $(shell sed -n '1s/^.*"\(.*\)".*$$/\1/p' include/base/Version.def 2>/dev/null)

reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
ARCHIVES := $(foreach layer,$(LAYERS),$(if $(wildcard lib/$(layer)/*.cpp),$(BUILD)/lib/$(layer).a))
LINK_ARCHIVES := $(call reverse,$(ARCHIVES))
SRC_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard src/*.cpp))

UNIT_FOLDERS := $(notdir $(patsubst %/,%,$(wildcard test/unit/*/)))
UNIT_TESTS := $(UNIT_FOLDERS:%=$(BUILD)/test/unit-%)
WIRE_TEST := $(if $(wildcard test/wire/*_test.cpp),$(BUILD)/test/wire)
FUZZERS := $(patsubst test/fuzz/%_fuzz.cpp,$(BUILD)/fuzz/%,$(wildcard test/fuzz/*_fuzz.cpp))

.PHONY: all help unit wire fuzzers fuzz-smoke asan tsan check check-all format bench clean
.DEFAULT_GOAL := all
# LIBPQ (the archive), LIBPQ_CFLAGS and the rule that builds the patched libpq.
include deps/postgresql/rules.mk
.SECONDARY:

all: src/polar-proxy

help:
	@echo "make             build src/polar-proxy"
	@echo "make unit        build the unit tests (unit-FOLDER for one folder)"
	@echo "make check       layers, sizes, format, thread-safety analysis, unit and wire tests"
	@echo "make check-all   check, plus every integration test, sanitizers and fuzzers"
	@echo "make asan|tsan   sanitizer builds in build-asan/ and build-tsan/"
	@echo "make fuzz-smoke  each fuzzer for a few seconds"
	@echo "make bench       side by side with the peers that Debian packages"
	@echo "make format      clang-format over the tree"

src/polar-proxy: $(BUILD)/polar-proxy
	cp -f $< $@

$(BUILD)/polar-proxy: $(SRC_OBJECTS) $(ARCHIVES) $(LIBPQ)
	$(CXX) $(ALL_CXXFLAGS) $(ALL_LDFLAGS) -o $@ $(SRC_OBJECTS) -Wl,--start-group $(LINK_ARCHIVES) \
		-Wl,--end-group $(LIBPQ) $(SYSTEM_LIBS) $(LDLIBS_$(MODE))

define layer_rules
$(BUILD)/lib/$(1).a: $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard lib/$(1)/*.cpp))
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach layer,$(LAYERS),$(eval $(call layer_rules,$(layer))))

# Files that include libpq's headers wait for the patched libpq to be there.
$(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard lib/backend/*.cpp lib/monitor/*.cpp)): | $(LIBPQ)

$(BUILD)/obj/%.o: %.cpp Makefile
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(CPPFLAGS) $(ALL_CXXFLAGS) -MMD -MP -c -o $@ $<

# A unit test of one folder links that folder and all below it, never anything above.
below = $(wordlist 1,$(words $(shell echo '$(LAYERS)' | sed 's/\b$(1)\b.*/$(1)/')),$(LAYERS))
define unit_rules
$(BUILD)/test/unit-$(1): $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard test/unit/$(1)/*.cpp)) \
		$(BUILD)/obj/test/unit/catch_main.o \
		$(foreach layer,$(call below,$(1)),$(if $(wildcard lib/$(layer)/*.cpp),$(BUILD)/lib/$(layer).a)) \
		$(if $(filter backend pool route forward session thread monitor admin,$(1)),$(LIBPQ))
	@mkdir -p $$(@D)
	$$(CXX) $$(ALL_CXXFLAGS) $$(ALL_LDFLAGS) -o $$@ $$(filter %.o,$$^) -Wl,--start-group \
		$$(filter $$(BUILD)/lib/%.a,$$^) -Wl,--end-group $$(filter $$(LIBPQ),$$^) $$(SYSTEM_LIBS)
unit-$(1): $(BUILD)/test/unit-$(1)
.PHONY: unit-$(1)
endef
$(foreach folder,$(UNIT_FOLDERS),$(eval $(call unit_rules,$(folder))))
unit: $(UNIT_TESTS)

$(BUILD)/test/wire: $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard test/wire/*.cpp)) \
		$(BUILD)/obj/test/unit/catch_main.o $(ARCHIVES) $(LIBPQ)
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(LINK_ARCHIVES) \
		-Wl,--end-group $(LIBPQ) $(SYSTEM_LIBS)
wire: $(WIRE_TEST)

# Fuzzers: MODE=fuzz builds; they link only the pure layers they name by including headers.
$(BUILD)/fuzz/%: $(BUILD)/obj/test/fuzz/%_fuzz.o $(foreach layer,base config stats protocol auth \
		net classify,$(if $(wildcard lib/$(layer)/*.cpp),$(BUILD)/lib/$(layer).a))
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group \
		$(filter %.a,$^) -Wl,--end-group $(SYSTEM_LIBS)
# The admin's session sits above the pure layers; its host is replaced, so SQLite is not reached.
$(BUILD)/fuzz/admin_%: $(BUILD)/obj/test/fuzz/admin_%_fuzz.o $(foreach layer,base config stats \
		protocol auth net classify admin,$(if $(wildcard lib/$(layer)/*.cpp),$(BUILD)/lib/$(layer).a))
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group \
		$(filter %.a,$^) -Wl,--end-group $(SYSTEM_LIBS)
ifeq ($(MODE),fuzz)
fuzzers: $(FUZZERS)
else
fuzzers:
	$(MAKE) MODE=fuzz fuzzers
endif
fuzz-smoke: fuzzers
	scripts/fuzz_smoke

# Micro benchmarks: make build/bench/NAME, then run it.
$(BUILD)/bench/%: $(BUILD)/obj/test/bench/%_bench.o $(foreach layer,base config stats protocol auth \
		net classify,$(if $(wildcard lib/$(layer)/*.cpp),$(BUILD)/lib/$(layer).a))
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group \
		$(filter %.a,$^) -Wl,--end-group $(SYSTEM_LIBS)

asan tsan:
	$(MAKE) MODE=$@ all-of-mode
all-of-mode: $(BUILD)/polar-proxy unit wire
.PHONY: all-of-mode

check:
	scripts/check

check-all: check
	scripts/run_tests
	$(MAKE) fuzz-smoke
	scripts/run_sanitizers

format:
	scripts/format

bench:
	scripts/bench

clean:
	rm -rf build/obj build/lib build/test build/fuzz build/polar-proxy src/polar-proxy build-asan \
		build-tsan build-debug build-fuzz

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
