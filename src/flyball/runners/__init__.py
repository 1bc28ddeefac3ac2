"""How a proof learns which tests ran: probes that test runners load by themselves, and the reports they leave.

A probe is a file outside the checkout that a runner picks up through the environment (PYTHONPATH, NODE_OPTIONS,
PATH …), so the user's command stays as it is. Where no probe reports, the proof is judged by its exit code.
"""
