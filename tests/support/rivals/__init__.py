"""What others lose, double or leave stuck: Projectionist and its rivals under the same events, kills and providers."""
