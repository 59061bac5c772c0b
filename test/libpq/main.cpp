#include "Harness.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

// Runs every registered case, or those whose names contain the argument. The last line is the
// verdict: "N passed, N failed".

std::vector<Test_Case>& test_cases() {
	static std::vector<Test_Case> cases;
	return cases;
}

std::string printable(std::string_view bytes) {
	constexpr size_t kMaxShown = 400;
	std::string text = "(" + std::to_string(bytes.size()) + " bytes) \"";
	for (const char c : bytes.substr(0, kMaxShown)) {
		if (c >= ' ' && c <= '~' && c != '\\') {
			text += c;
		} else {
			char escaped[8];
			std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
			text += escaped;
		}
	}
	return text + (bytes.size() > kMaxShown ? "\"..." : "\"");
}

int main(int argc, char** argv) {
	// Whatever the environment adds to a startup packet would be in the way of exact bytes.
	for (const char* name : {"PGOPTIONS", "PGAPPNAME", "PGCLIENTENCODING", "PGDATESTYLE", "PGTZ",
	                         "PGGEQO", "PGSERVICE", "PGPASSWORD", "PGHOSTADDR", "PGSSLMODE",
	                         "PGTARGETSESSIONATTRS", "PGREQUIREPEER", "PGSSLROOTCERT"}) {
		unsetenv(name);
	}
	// "Never raises SIGPIPE" is only proved where SIGPIPE would kill.
	std::signal(SIGPIPE, SIG_DFL);
	setvbuf(stdout, nullptr, _IOLBF, 0);

	const std::string filter = argc > 1 ? argv[1] : "";
	int passed = 0;
	int failed = 0;
	for (const Test_Case& test : test_cases()) {
		if (test.name.find(filter) == std::string::npos) {
			continue;
		}
		try {
			test.body();
			++passed;
		} catch (const std::exception& failure) {
			++failed;
			std::printf("FAILED: %s\n  %s\n", test.name.c_str(), failure.what());
		}
	}
	std::printf("%d passed, %d failed\n", passed, failed);
	return failed == 0 && passed > 0 ? 0 : 1;
}
