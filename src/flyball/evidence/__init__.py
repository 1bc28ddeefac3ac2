"""What a finished run can show: certificates, verification, landing, consistency checks, artifacts."""
