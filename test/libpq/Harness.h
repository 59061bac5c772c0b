#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The few lines of test framework that the libpq test needs: it counts cases and goes on after a
// failed one, and it must not depend on anything that could bring another libpq along.

struct Test_Case {
	std::string name;
	std::function<void()> body;
};

std::vector<Test_Case>& test_cases();

struct Test_Registration {
	Test_Registration(std::string name, std::function<void()> body) {
		test_cases().push_back({std::move(name), std::move(body)});
	}
};

struct Test_Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

// Bytes in a form that shows where two of them differ.
std::string printable(std::string_view bytes);

template <typename T> std::string shown(const T& value) {
	if constexpr (std::is_convertible_v<T, std::string_view>) {
		return printable(std::string_view(value));
	} else {
		std::ostringstream out;
		out << value;
		return out.str();
	}
}

template <typename A, typename B>
void expect_equal(const A& actual, const B& expected, const char* what, const char* file,
                  int line) {
	if (actual == expected) {
		return;
	}
	throw Test_Failure(std::string(file) + ":" + std::to_string(line) + ": " + what + " is\n    " +
	                   shown(actual) + "\n  and should be\n    " + shown(expected));
}

inline void expect_true(bool holds, const char* what, const char* file, int line) {
	if (!holds) {
		throw Test_Failure(std::string(file) + ":" + std::to_string(line) + ": not so: " + what);
	}
}

#define EXPECT_EQ(actual, expected) expect_equal((actual), (expected), #actual, __FILE__, __LINE__)
#define EXPECT(condition) expect_true((condition), #condition, __FILE__, __LINE__)

#define TEST_NAME_2(line) test_case_##line
#define TEST_NAME_1(line) TEST_NAME_2(line)
#define REGISTRATION_NAME_2(line) registration_##line
#define REGISTRATION_NAME_1(line) REGISTRATION_NAME_2(line)
#define TEST(name)                                                                                 \
	static void TEST_NAME_1(__LINE__)();                                                           \
	static const Test_Registration REGISTRATION_NAME_1(__LINE__)(name, TEST_NAME_1(__LINE__));     \
	static void TEST_NAME_1(__LINE__)()
