# Rules for the patched libpq, included by the top Makefile.
#
# LIBPQ_CFLAGS, LIBPQ_LIBS: for whatever includes libpq-fe.h or links libpq. Depend on LIBPQ.

LIBPQ := build/libpq/lib/libpq.a
LIBPQ_DIR = $(LIBPQ:%/lib/libpq.a=%)
LIBPQ_CFLAGS = -isystem $(LIBPQ_DIR)/include
LIBPQ_LIBS = $(LIBPQ) -lssl -lcrypto

$(LIBPQ): $(wildcard deps/postgresql/patches/*.patch) deps/postgresql/build-libpq \
		scripts/fetch-postgresql-source
	@deps/postgresql/build-libpq $(LIBPQ_DIR)

# The test of everything that the patches add: builds and runs it.
LIBPQ_TEST_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard test/libpq/*.cpp))
$(LIBPQ_TEST_OBJECTS): | $(LIBPQ)
$(BUILD)/test/libpq: $(LIBPQ_TEST_OBJECTS) $(LIBPQ)
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(ALL_LDFLAGS) -o $@ $(LIBPQ_TEST_OBJECTS) $(LIBPQ_LIBS)

.PHONY: libpq-test libpq-test-asan
libpq-test: $(BUILD)/test/libpq
	$<

# The same with a libpq that is instrumented itself, which the one of the other builds is not.
LIBPQ_SANITIZED := -O1 -g -fPIC -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined
libpq-test-asan:
	LIBPQ_BUILD_CFLAGS="$(LIBPQ_SANITIZED)" $(MAKE) MODE=asan LIBPQ=build-asan/libpq/lib/libpq.a \
		libpq-test

-include $(LIBPQ_TEST_OBJECTS:.o=.d)
