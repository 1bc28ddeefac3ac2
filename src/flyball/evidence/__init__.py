"""What a finished run can show: certificates, verification, consistency checks."""
