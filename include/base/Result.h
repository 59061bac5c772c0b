// Result<T>: a value or an Error. Errors travel by value; nothing on a worker throws.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace proxy {

// What went wrong, in the words the client or the administrator will read.
// sqlstate: five characters of the SQL standard / PostgreSQL appendix A.
struct Error {
	std::string sqlstate = "XX000";
	std::string message;
	std::string detail;
	std::string hint;
};

inline Error make_error(std::string_view sqlstate, std::string message) {
	return Error{std::string(sqlstate), std::move(message), {}, {}};
}

template <typename T> class [[nodiscard]] Result {
public:
	Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
	Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

	bool ok() const { return state_.index() == 0; }
	explicit operator bool() const { return ok(); }

	// REQUIRES: ok().
	T& value() { return std::get<0>(state_); }
	const T& value() const { return std::get<0>(state_); }
	T take() { return std::move(std::get<0>(state_)); }

	// REQUIRES: !ok().
	const Error& error() const { return std::get<1>(state_); }
	Error take_error() { return std::move(std::get<1>(state_)); }

private:
	std::variant<T, Error> state_;
};

template <> class [[nodiscard]] Result<void> {
public:
	Result() = default;
	Result(Error error) : failed_(true), error_(std::move(error)) {}

	bool ok() const { return !failed_; }
	explicit operator bool() const { return ok(); }
	const Error& error() const { return error_; }
	Error take_error() { return std::move(error_); }

private:
	bool failed_ = false;
	Error error_;
};

} // namespace proxy

// Passes an Error up; use only in functions that return a Result.
#define PROXY_TRY(expression)                                                                      \
	do {                                                                                           \
		if (auto proxy_try_result = (expression); !proxy_try_result.ok()) {                        \
			return proxy_try_result.take_error();                                                  \
		}                                                                                          \
	} while (false)
