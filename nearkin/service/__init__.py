"""The server, its clients, consumers of streams, and the tools of agents."""
