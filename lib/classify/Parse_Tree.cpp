#include "classify/Parse_Tree.h"

#include <pg_query/pg_query.pb-c.h>

#include <algorithm>

namespace proxy {

bool Wire_Reader::varint(uint64_t& value) {
	value = 0;
	for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
		const uint8_t byte = static_cast<uint8_t>(rest_.front());
		rest_.remove_prefix(1);
		value |= static_cast<uint64_t>(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			return true;
		}
	}
	return false;
}

bool Wire_Reader::next(Wire_Field& field) {
	if (!ok_ || rest_.empty()) {
		return false;
	}
	field.bytes = {};
	field.value = 0;
	uint64_t key = 0;
	ok_ = varint(key);
	field.number = static_cast<uint32_t>(key >> 3);
	uint64_t length = 0;
	switch (key & 7) {
	case 0:
		ok_ = ok_ && varint(field.value);
		return ok_;
	case 1:
		length = 8;
		break;
	case 2:
		ok_ = ok_ && varint(length);
		break;
	case 5:
		length = 4;
		break;
	default:
		ok_ = false;
		break;
	}
	if (!ok_ || length > rest_.size()) {
		ok_ = false;
		return false;
	}
	field.bytes = rest_.substr(0, length);
	rest_.remove_prefix(length);
	return true;
}

const Tree_Schema& Tree_Schema::get() {
	static const Tree_Schema schema;
	return schema;
}

Tree_Schema::Tree_Schema() {
	seen_.push_back(&pg_query__parse_result__descriptor);
	// Grows while it is walked: add() appends what it has not seen.
	for (size_t i = 0; i < seen_.size(); ++i) {
		const ProtobufCMessageDescriptor* descriptor = seen_[i];
		Message message;
		message.is_node = descriptor == &pg_query__node__descriptor;
		if (message.is_node) {
			node_ = static_cast<uint16_t>(i);
		}
		for (unsigned f = 0; f < descriptor->n_fields; ++f) {
			const ProtobufCFieldDescriptor& field = descriptor->fields[f];
			if (field.type != PROTOBUF_C_TYPE_MESSAGE) {
				continue;
			}
			if (message.children.size() <= field.id) {
				message.children.resize(field.id + 1, kNoMessage);
			}
			message.children[field.id] =
			    add(static_cast<const ProtobufCMessageDescriptor*>(field.descriptor));
		}
		messages_.push_back(std::move(message));
	}
	const std::vector<uint16_t>& kinds = messages_[node_].children;
	for (size_t tag = 0; tag < kinds.size(); ++tag) {
		if (kinds[tag] != kNoMessage) {
			messages_[kinds[tag]].tag = static_cast<Node_Tag>(tag);
		}
	}
}

uint16_t Tree_Schema::add(const ProtobufCMessageDescriptor* descriptor) {
	const auto found = std::find(seen_.begin(), seen_.end(), descriptor);
	const auto index = static_cast<uint16_t>(found - seen_.begin());
	if (found == seen_.end()) {
		seen_.push_back(descriptor);
	}
	return index;
}

Tree_Node open_node(std::string_view node) {
	Wire_Reader reader(node);
	Wire_Field field;
	if (!reader.next(field)) {
		return {};
	}
	return {static_cast<Node_Tag>(field.number), field.bytes};
}

std::string_view field_bytes(std::string_view message, uint32_t number) {
	Wire_Reader reader(message);
	Wire_Field field;
	while (reader.next(field)) {
		if (field.number == number) {
			return field.bytes;
		}
	}
	return {};
}

uint64_t field_value(std::string_view message, uint32_t number) {
	Wire_Reader reader(message);
	Wire_Field field;
	while (reader.next(field)) {
		if (field.number == number) {
			return field.value;
		}
	}
	return 0;
}

} // namespace proxy
