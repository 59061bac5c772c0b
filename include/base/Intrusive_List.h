// Doubly linked list through a node that lives inside the element: O(1) insert and remove, no
// allocation. The list never owns its elements. An element leaves its list when it is destroyed.
#pragma once

#include <cstddef>

namespace proxy {

template <typename T> class Intrusive_List;

// One list membership. Derive from List_Node<T> (T is the element's own class).
template <typename T> class List_Node {
public:
	List_Node() = default;
	~List_Node() { unlink(); }
	List_Node(const List_Node&) = delete;
	List_Node& operator=(const List_Node&) = delete;

	bool linked() const { return list_ != nullptr; }

	void unlink() {
		if (list_ == nullptr) {
			return;
		}
		previous_->next_ = next_;
		next_->previous_ = previous_;
		--list_->size_;
		list_ = nullptr;
	}

private:
	friend class Intrusive_List<T>;
	List_Node* previous_ = nullptr;
	List_Node* next_ = nullptr;
	Intrusive_List<T>* list_ = nullptr;
};

template <typename T> class Intrusive_List {
public:
	Intrusive_List() { head_.previous_ = head_.next_ = &head_; }
	~Intrusive_List() {
		while (!empty()) {
			head_.next_->unlink();
		}
		head_.previous_ = head_.next_ = nullptr;
	}
	Intrusive_List(const Intrusive_List&) = delete;
	Intrusive_List& operator=(const Intrusive_List&) = delete;

	bool empty() const { return size_ == 0; }
	size_t size() const { return size_; }

	void push_back(T& element) { insert_before(head_, element); }
	void push_front(T& element) { insert_before(*head_.next_, element); }
	T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }
	T* back() { return empty() ? nullptr : static_cast<T*>(head_.previous_); }
	// Element after `element`, or nullptr. Take it before removing `element`.
	T* next(T& element) {
		List_Node<T>* node = static_cast<List_Node<T>&>(element).next_;
		return node == &head_ ? nullptr : static_cast<T*>(node);
	}
	T* pop_front() {
		T* element = front();
		if (element != nullptr) {
			static_cast<List_Node<T>*>(element)->unlink();
		}
		return element;
	}

private:
	friend class List_Node<T>;

	void insert_before(List_Node<T>& place, T& element) {
		List_Node<T>& node = element;
		node.unlink();
		node.list_ = this;
		node.previous_ = place.previous_;
		node.next_ = &place;
		place.previous_->next_ = &node;
		place.previous_ = &node;
		++size_;
	}

	List_Node<T> head_;
	size_t size_ = 0;
};

} // namespace proxy
