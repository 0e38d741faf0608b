"""An order service: what happens to orders, who reads it, and the web."""
