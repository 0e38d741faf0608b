"""The doctor: looks at servers, streams and consumers, and says what would lose, double or stop something."""
