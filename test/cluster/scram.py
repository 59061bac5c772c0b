"""Client side of SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding."""
import base64
import hashlib
import hmac
import os


def _hmac(key, data):
	return hmac.new(key, data, hashlib.sha256).digest()


class Client:
	def __init__(self, password):
		self.password = password.encode()
		self.nonce = base64.b64encode(os.urandom(18))
		self.first_bare = b'n=,r=' + self.nonce
		self.server_signature = b''

	def first_message(self):
		return b'n,,' + self.first_bare

	def final_message(self, server_first):
		attributes = dict(part.split(b'=', 1) for part in server_first.split(b','))
		nonce, salt = attributes[b'r'], base64.b64decode(attributes[b's'])
		if not nonce.startswith(self.nonce):
			raise ValueError('the server did not keep the client nonce')
		salted = hashlib.pbkdf2_hmac('sha256', self.password, salt, int(attributes[b'i']))
		client_key = _hmac(salted, b'Client Key')
		stored_key = hashlib.sha256(client_key).digest()
		without_proof = b'c=biws,r=' + nonce
		auth_message = self.first_bare + b',' + server_first + b',' + without_proof
		signature = _hmac(stored_key, auth_message)
		proof = bytes(a ^ b for a, b in zip(client_key, signature))
		self.server_signature = _hmac(_hmac(salted, b'Server Key'), auth_message)
		return without_proof + b',p=' + base64.b64encode(proof)

	def verify(self, server_final):
		if base64.b64decode(server_final[2:]) != self.server_signature:
			raise ValueError('the server does not know the password')
