"""One module for each client: how it is configured and started, and which of its tools writes a file."""
