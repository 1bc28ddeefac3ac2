"""What people see of runs and machines. Pure: reads runs and events, decides nothing."""
