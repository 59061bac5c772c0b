// Any bytes as a configuration file: it is read or refused with a message, and what was read can be
// written and read back to the same text.
#include "config/Config_File.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace proxy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" const char* __lsan_default_suppressions();

// libconfig forgets a few bytes when it refuses a file; a file is read once a start.
extern "C" const char* __lsan_default_suppressions() {
	return "leak:libconfig";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	constexpr size_t kMostBytes = 8192; // libconfig's nesting is recursive; real files are flat
	const std::string text(reinterpret_cast<const char*>(data), size);
	// An include would read files of the machine the fuzzer runs on.
	if (size > kMostBytes || text.find("@include") != std::string::npos) {
		return 0;
	}
	const auto read = read_config_text(text, "fuzz");
	if (!read.ok()) {
		if (read.error().message.empty()) {
			abort();
		}
		return 0;
	}
	const std::string written = config_file_text(read.value());
	const auto again = read_config_text(written, "again");
	if (!again.ok() || config_file_text(again.value()) != written) {
		abort();
	}
	return 0;
}
