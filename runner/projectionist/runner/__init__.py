"""From a JetStream delivery to committed rows: source, reading, the batch transaction, decisions, and the processes."""
