// The readers of the file's sections, one function each; private to lib/config.
#pragma once

#include "Entry_Reader.h"

#include <libconfig.h++>

#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// Reads the section named `section` into `contents`; false: no table of that name.
// Where pairs stand is kept for the checks that need the variables too.
struct Pair_Place {
	size_t index = 0; // into contents.servers.replication_hostgroups
	std::string place;
};
bool read_row_section(const libconfig::Setting& setting, std::string_view section,
                      Config_File_Contents& contents, std::vector<Pair_Place>& pairs,
                      Config_Faults& faults);
// Tables that are only handed on.
bool read_generic_section(const libconfig::Setting& setting, std::string_view section,
                          Config_File_Contents& contents, Config_Faults& faults);

// What libconfig reads without a word although it is wrong, or reports at the wrong place. In line
// order.
struct Scan_Fault {
	int line = 0;
	std::string text;
};
std::vector<Scan_Fault> scan_config_text(std::string_view text);

// The columns of a generic table, for the writer.
struct Generic_Column {
	const char* name;
	const char* alias; // nullptr: none
	enum class Type { text, integer, required_text, required_integer } type;
	Integer_Range range;
	const char* default_text; // nullptr: NULL
};
struct Generic_Section {
	const char* section;
	const char* table;
	std::vector<Generic_Column> columns;
	std::vector<const char*> key; // the columns of the primary key
};
const std::vector<Generic_Section>& generic_sections();

} // namespace proxy
