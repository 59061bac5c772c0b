"""Cases of test/kernel/check. A case is a function with a docstring that says what must hold.

It gets the cluster (primary and two standbys) and the text "kernel" or "extension", the latter for an
unpatched server with the extension alone.
"""
CASES = []


def case(*flavours):
	"""Registers a case for the named flavours; for both without one."""
	def register(function):
		CASES.append((function, flavours or ('kernel', 'extension')))
		return function
	return register
