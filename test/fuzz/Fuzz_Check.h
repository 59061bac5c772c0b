// For fuzz targets: a property that must hold for every input; a violation is a crash to report.
#pragma once

#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                           \
		if (!(condition)) {                                                                        \
			std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);     \
			std::abort();                                                                          \
		}                                                                                          \
	} while (false)
