"""Puts Projectionist and its rivals under the same events, kills and providers: who loses, doubles, leaves stuck."""
