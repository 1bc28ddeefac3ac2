"""The command guard against many lines: judged (`judged`), and run in a traced sandbox (`traced`). `make fuzz`."""
