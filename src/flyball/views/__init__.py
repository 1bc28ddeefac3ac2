"""What people are told about a run or a machine. Pure: reads runs and events, decides nothing."""
