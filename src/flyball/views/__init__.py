"""What people see of a run or a machine. Pure: reads runs and events, decides nothing."""
