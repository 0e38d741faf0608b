"""What every process needs: settings, connections, signals, names, backoff, leases. Imports no other part."""
