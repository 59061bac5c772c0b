# Rules for the patched libpq, included by the top Makefile.
#
# LIBPQ_CFLAGS, LIBPQ_LIBS: for whatever includes libpq-fe.h or links libpq. Depend on LIBPQ.

LIBPQ := build/libpq/lib/libpq.a
LIBPQ_CFLAGS := -isystem build/libpq/include
LIBPQ_LIBS := $(LIBPQ) -lssl -lcrypto

$(LIBPQ): $(wildcard deps/postgresql/patches/*.patch) deps/postgresql/build-libpq \
		scripts/fetch-postgresql-source
	@deps/postgresql/build-libpq build/libpq
