"""What an agent says is read strictly: a table of messages and how each must be read."""

import pytest

from flyball.reading.prose import final_question, read_outcome, read_verdict, reported_error, unlisted_claim
from flyball.reading.signals import Reading, Runtime, read_output, red_ci

PROVED = Runtime(tests_ran=True, tests_failed=0)
TWO = "Task complete. All done."
SIGNAL = "EXIT_SIGNAL: true"


def loop(text: str, runtime: Runtime = PROVED, extra: tuple[str, ...] = ()) -> Reading:
    return read_output(text, dialect="loop", role="worker", runtime=runtime, extra_indicators=extra)


def review(text: str, role: str = "worker", runtime: Runtime = PROVED, word: str = "DONE") -> Reading:
    assert role in ("worker", "reviewer")
    return read_output(text, dialect="review", role=role, runtime=runtime, done_word=word)


STATUS_BLOCK = """## Loop Status

**Iteration**: 4
**Progress**: PR approved and merged to main
**Circuit State**: {circuit}
**Task Status**: {status}

### Completion Indicators
- [x] Task complete
- [x] All tests passing
- [x] PR approved and merged
- [x] CI/CD checks passed

### Exit Decision
EXIT_SIGNAL: {signal}

**Reason**: Task fully complete
"""

GEMINI = """{"type":"message","role":"assistant","content":"Task complete. All ","delta":true}
{"type":"message","role":"assistant","content":"done.\\nEXIT_SIGNAL: true","delta":true}
{"type":"result","status":"success"}"""
CODEX = """{"type":"item.completed","item":{"type":"agent_message","text":"Task complete. All done.\\nEXIT_SIGNAL: true"}}
{"type":"turn.completed","usage":{}}"""
CLAIMED = '{"type":"text","text":"Task complete. All done.\\nEXIT_SIGNAL: true"}'
CLAIMED_BY_A_TOOL = '{"type":"tool_result","content":"Task complete. All done.\\nEXIT_SIGNAL: true"}'

COMPLETE = [
    f"{TWO}\n{SIGNAL}",
    f"{SIGNAL}\n{TWO}",
    STATUS_BLOCK.format(circuit="closed", status="complete", signal="true"),
    STATUS_BLOCK.format(circuit="half_open", status="complete", signal="True"),
    f"The task is complete and the implementation is finished.\n\n{SIGNAL}",
    f"The task has been completed. No more work remains.\n{SIGNAL}",
    f"# Task Complete\n\n- PR merged\n- Docs updated\n\n{SIGNAL}",
    f"- [x] Task complete\n- [X] All tests passing\n\n{SIGNAL}",
    f"1. [x] PR approved\n2. [x] CI/CD checks passed\n\n{SIGNAL}",
    f"+ [x] Task complete\n+ [x] PR merged\n\n{SIGNAL}",
    f"✅ Task complete\n✅ Ready for review\n\n{SIGNAL}",
    f"{TWO}\n- {SIGNAL}",
    f"{TWO}\n\n* {SIGNAL}",
    f"{TWO}\n\n1. {SIGNAL}",
    f"{TWO}\n\n**{SIGNAL}**",
    f"{TWO}\n\n**EXIT_SIGNAL**: true",
    f"{TWO}\n\n**EXIT_SIGNAL:** true",
    f"{TWO}\n\n__{SIGNAL}__",
    f"{TWO}\n\n## {SIGNAL}",
    f"{TWO}\n\n### {SIGNAL} ###",
    f"{TWO}\n\n- **EXIT_SIGNAL: TRUE**",
    f"{TWO}\nEXIT_SIGNAL: True",
    f"{TWO}\nEXIT_SIGNAL:true",
    f"{TWO}\nEXIT_SIGNAL:\ttrue",
    f"{TWO}\n   {SIGNAL}   ",
    f"{TWO}\r\n{SIGNAL}\r\n",
    f"\ufeff{TWO}\n{SIGNAL}",
    f"{TWO}\n\x1b[1;32m{SIGNAL}\x1b[0m",
    f"{TWO}\n{SIGNAL}\n{SIGNAL}",
    f"{TWO}\n\n```\nEXIT_SIGNAL: false\n```\n\n{SIGNAL}",
    f"{TWO}\n\n> EXIT_SIGNAL: false\n\n{SIGNAL}",
    f"{TWO}\n<!-- EXIT_SIGNAL: false -->\n{SIGNAL}",
    f"```python\nx = 1\n```\n{TWO}\n{SIGNAL}",
    f"````\n```\nnested\n```\n````\n{TWO}\n{SIGNAL}",
    f"~~~\ncode\n~~~\n{TWO}\n{SIGNAL}",
    f"TASK COMPLETE. ALL DONE.\n{SIGNAL}",
    f"Fixed the parser, which did not handle tabs. {TWO}\n{SIGNAL}",
    f"No tests fail. {TWO}\n{SIGNAL}",
    f"There were three bugs, all fixed, so the task is complete; no more work to do.\n{SIGNAL}",
    f"Implementation finished; ready for review.\n{SIGNAL}",
    f"I unblocked the queue, nothing is blocked now. {TWO}\n{SIGNAL}",
    f"**Task complete**, and the PR #12 was merged.\n{SIGNAL}",
    f"- Task complete\n- All done\n- I ran `pytest -q` and it passed\n{SIGNAL}",
    f"{TWO} The rate limit code now retries on 429.\n{SIGNAL}",
    f"{TWO}\n\nRemaining risk: none known.\n\n{SIGNAL}",
    f"Now that CI is green, the task is complete. All done.\n{SIGNAL}",
    f"When I started, two tests failed; now the task is complete and all done.\n{SIGNAL}",
    f"After fixing the last bug, task complete. All done.\n{SIGNAL}",
    f"Task complete: yes\nAll done: yes\n{SIGNAL}",
    f"I did not need to change the API. Task is 100% complete. PR merged after review.\n{SIGNAL}",
    f"All done. Task complete. If you want, I can add docs later.\n{SIGNAL}",
    f"As instructed, here is my exit signal:\n\n{SIGNAL}\n\n{TWO}",
    f"<details>\n<summary>Summary</summary>\n\n{TWO}\n\n</details>\n\n{SIGNAL}",
    '{"type":"result","subtype":"success","is_error":false,"result":"Task complete. All done.\\nEXIT_SIGNAL: true"}',
    '{"type":"system"}\n{"type":"result","result":"Task complete. All done.\\nEXIT_SIGNAL: true"}',
    GEMINI,
    CODEX,
    f"{TWO}\n- [x] {SIGNAL}",
    f"- [x] Task complete (no tests failing)\n- [x] All tests passing (42/42)\n{SIGNAL}",
    f"User: please fix it\nAssistant: {TWO}\n{SIGNAL}",
    f"[tool_result] all green\n[/tool_result]\n{TWO}\n{SIGNAL}",
]

NOT_COMPLETE = [
    "",
    "   \n\n",
    SIGNAL,
    TWO,
    f"Task complete.\n{SIGNAL}",
    f"Task complete. Task completed. The task is complete.\n{SIGNAL}",
    f"Implementation finished. Implementation complete.\n{SIGNAL}",
    f"Ready for review. Ready for merge.\n{SIGNAL}",
    f"PR merged. PR approved and merged.\n{SIGNAL}",
    f"All tests passing. PR approved.\n{SIGNAL}",
    f"- All tests passing\n- CI/CD checks passed\n{SIGNAL}",
    f"Finished everything, looks great.\n{SIGNAL}",
    f"{TWO}\nEXIT_SIGNAL: false",
    f"{TWO}\n{SIGNAL}\nEXIT_SIGNAL: false",
    f"{TWO}\nEXIT_SIGNAL: false\n{SIGNAL}",
    f"{TWO}\n{SIGNAL}\n**EXIT_SIGNAL**: FALSE (one test left)",
    f"{TWO}\nEXIT_SIGNAL = true",
    f"{TWO}\nEXIT_SIGNAL true",
    f"{TWO}\nEXIT SIGNAL: true",
    f"{TWO}\nexit_signal: true",
    f"{TWO}\nNO_EXIT_SIGNAL: true",
    f"{TWO}\nEXIT_SIGNALS: true",
    f"{TWO}\nEXIT_SIGNAL: yes",
    f"{TWO}\nEXIT_SIGNAL: 1",
    f"{TWO}\nEXIT_SIGNAL: [true | false]",
    f"{TWO}\nEXIT_SIGNAL: true or false",
    f"{TWO}\nEXIT_SIGNAL: trueish",
    f"{TWO}\nEXIT_SIGNAL: not true",
    f'{TWO}\n"{SIGNAL}"',
    f"{TWO}\nI now set {SIGNAL}",
    f"{TWO}\n{SIGNAL} is what I will print at the end",
    f"{TWO}\n`{SIGNAL}`",
    f"{TWO}\n**`{SIGNAL}`**",
    f"{TWO}\n`the prompt\n{SIGNAL}\nsays so`",
    f"{TWO}\n~~{SIGNAL}~~",
    f"{TWO}\n```\n{SIGNAL}\n```",
    f"{TWO}\n```\n{SIGNAL}",
    f"{TWO}\n~~~text\n{SIGNAL}\n~~~",
    f"{TWO}\n~~~\n```\n~~~~\n```\n{SIGNAL}",
    f"````\n```\n{SIGNAL}\n```\n````\n{TWO}",
    f"- item\n  ```\n  {SIGNAL}\n  ```\n{TWO}",
    f"{TWO}\n\n    {SIGNAL}",
    f"{TWO}\n\n\t{SIGNAL}",
    f"{TWO}\n\n> {SIGNAL}",
    f"{TWO}\n\n> the prompt\n{SIGNAL}",
    f"{TWO}\n\n- > {SIGNAL}",
    f"{TWO}\n<!-- {SIGNAL} -->",
    f"{TWO}\n<!--\n{SIGNAL}\n-->",
    f"{TWO}\n<!--\n{SIGNAL}",
    f"{TWO}\n<pre>\n{SIGNAL}\n</pre>",
    f"{TWO}\n<thinking>\n{SIGNAL}\n</thinking>",
    f"<tool_result>\n{TWO}\n{SIGNAL}\n</tool_result>\nNext: the parser.",
    f"[tool_result] cat NOTES.md\n{TWO}\n{SIGNAL}\n[/tool_result]\nNext I edit the parser.",
    f"$ cat NOTES.md\n{TWO}\n{SIGNAL}\n\nNext I edit the parser.",
    f"diff --git a/x b/x\n@@ -1 +1 @@\n+ {TWO}\n+ {SIGNAL}\n\nThat is the change.",
    f"The prompt says:\n\n{TWO}\n{SIGNAL}\n\nWorking on it.",
    f"{TWO}\nPROMPT.md tells me to print:\n{SIGNAL}",
    f"{TWO}\nWhen everything works I will print\n{SIGNAL}",
    f"{TWO}\n{SIGNAL}\nwhen the tests pass",
    f"{TWO}\n\n## Instructions\n\n{SIGNAL}",
    f"User: print this when finished\n{SIGNAL}\nAssistant: understood. {TWO}",
    f"| Task complete | All done |\n|---|---|\n| no | no |\n{SIGNAL}",
    f"{TWO}\n| EXIT_SIGNAL | true |",
    f"{TWO}\nEXIT_SIGN\u200bAL: true",
    f"{TWO}\nEXIT_SIGNAL\uff1a true",
    f"{TWO}\nЕXIT_SIGNAL: true",
    f"- [ ] Task complete\n- [ ] All done\n{SIGNAL}",
    f"- [ ] Task complete\n- [x] All done\n{SIGNAL}",
    f"- [-] Task complete\n- [~] All done\n{SIGNAL}",
    f"☐ Task complete\n☐ All done\n{SIGNAL}",
    f"❌ Task complete\n❌ All done\n{SIGNAL}",
    f"{TWO}\n- [ ] {SIGNAL}",
    f"The task is not complete. We are not all done.\n{SIGNAL}",
    f"The task isn't complete, and I wouldn't say all done.\n{SIGNAL}",
    f"Task complete? No. All done? Not yet.\n{SIGNAL}",
    f"Task complete: no\nAll done: no\n{SIGNAL}",
    f"Task complete - false\nPR merged - false\n{SIGNAL}",
    f"Task complete: 80%\nAll done: 80%\n{SIGNAL}",
    f"Once the task is complete and all done, I will stop.\n{SIGNAL}",
    f"If CI is green, task complete, all done.\n{SIGNAL}",
    f"The task will be complete tomorrow; soon all done.\n{SIGNAL}",
    f"I still need to get the task complete and all done.\n{SIGNAL}",
    f"Task almost complete, nearly all done, PR merged soon.\n{SIGNAL}",
    f"Two fixes remain before the task is complete. Not ready for review.\n{SIGNAL}",
    f"All done except the docs. Task complete apart from two tests.\n{SIGNAL}",
    f"Task completed partially; implementation finished for module A only.\n{SIGNAL}",
    f"All done with the first part. Task complete for this iteration.\n{SIGNAL}",
    f"Added the task complete event and the all done banner.\n{SIGNAL}",
    f'The phrases are "task complete" and "all done".\n{SIGNAL}',
    f"- `Task complete`\n- `All done`\n{SIGNAL}",
    f"Subtask complete. The first task complete. Some more to do.\n{SIGNAL}",
    f"## Next steps\n- Task complete\n- All done\n\n## End\n{SIGNAL}",
    f"Remaining:\n- Task complete\n- PR merged\n\n{SIGNAL}",
    f"Exit criteria:\n- Task complete\n- All done\n\n{SIGNAL}",
    f"TODO: PR merged\nGoal: task complete, all done\n{SIGNAL}",
    f"Waiting for CI, then task complete and all done.\n{SIGNAL}",
    f"Task complete after one more fix, all done after that.\n{SIGNAL}",
    f"Task complete, or so I thought. All done, or so I thought.\n{SIGNAL}",
    f"It is unclear whether the task is complete. Maybe all done?\n{SIGNAL}",
    f"I can't claim task complete. I can't claim all done.\n{SIGNAL}",
    f"It would be wrong to say task complete or all done.\n{SIGNAL}",
    f"Then the task is complete. Then all done. But first the bug.\n{SIGNAL}",
    f"- [x] All tests passing (2 tests failing)\n- [x] Task complete\n{SIGNAL}",
    f"<!-- note --> {SIGNAL}\n{TWO}",
    f"✅ {SIGNAL}\n{TWO}",
    f"Completion Indicators (need >= 2): task complete, all done\n{SIGNAL}",
    f"{TWO}\n\nExit Signal (must be explicit):\n{SIGNAL}",
    f"Are we all done? Is the task complete?\n{SIGNAL}",
    f"{TWO} Correction: the task is not complete.\n{SIGNAL}",
    f"There is no more workaround, all donets.\n{SIGNAL}",
    f"Waiting for the PR to be merged; the task is complete after that, but not yet all done.\n{SIGNAL}",
    STATUS_BLOCK.format(circuit="closed", status="in_progress", signal="true"),
    STATUS_BLOCK.format(circuit="closed", status="in progress", signal="true"),
    f"{TWO}\n- Task Status: in-progress\n{SIGNAL}",
    STATUS_BLOCK.format(circuit="closed", status="complete", signal="false"),
    f"```markdown\n{STATUS_BLOCK.format(circuit='closed', status='complete', signal='true')}```",
    '{"type":"user","message":{"content":['
    + CLAIMED_BY_A_TOOL
    + ']}}\n{"type":"result","result":"Two tests fail."}',
    '{"type":"assistant","message":{"content":[' + CLAIMED + ']}}\n{"type":"user","message":{"content":[]}}',
    "You've hit your usage limit. Try again later.",
    f"Want me to commit this? {TWO}",
]

BLOCKED = [
    STATUS_BLOCK.format(circuit="open", status="complete", signal="true"),
    STATUS_BLOCK.format(circuit="OPEN", status="in_progress", signal="false"),
    STATUS_BLOCK.format(circuit="closed", status="blocked", signal="true"),
    "**Task Status**: blocked (no database)\nEXIT_SIGNAL: false",
    "I need the staging API key to go on.\nEXIT_SIGNAL: false",
    "I cannot continue without access to the private registry.",
    "I am blocked: the database password is missing.",
    "BLOCKED: waiting for credentials.",
    "Please provide the deploy token.",
    "I'm waiting for your decision on the schema.",
    "Human intervention is required.",
    "I need you to decide between the two APIs.",
    f"{TWO} I still need your approval for the migration.\n{SIGNAL}",
]

NOT_BLOCKED = [
    "I unblocked the queue; nothing is blocked now.\nEXIT_SIGNAL: false",
    "The firewall blocked the request, so I added a retry.",
    "I was blocked by a failing import but fixed it.",
    "Blocked: none",
    "Blockers: none",
    "I need to refactor the parser next.",
    "Implemented the list of blocked users.",
    "Waiting for code review.",
    "```\nTask Status: blocked\n```\nGoing on.",
    "> I need the API key\n\nThat was the old note.",
    "If you want uploads, I need the S3 key.",
    "Task Status: [in_progress | blocked | complete]",
]


@pytest.mark.parametrize("text", COMPLETE)
def test_a_claim_with_signal_and_two_indicators_is_complete(text: str) -> None:
    assert loop(text).reading == "complete", loop(text)


@pytest.mark.parametrize("text", NOT_COMPLETE)
def test_no_message_that_lacks_anything_is_complete(text: str) -> None:
    read = loop(text)
    assert read.reading == "not_complete", read
    assert read.missing


@pytest.mark.parametrize("text", BLOCKED)
def test_a_stated_need_a_status_or_an_open_circuit_blocks(text: str) -> None:
    assert loop(text).reading == "blocked"


@pytest.mark.parametrize("text", NOT_BLOCKED)
def test_the_word_blocked_alone_blocks_nothing(text: str) -> None:
    assert loop(text).reading == "not_complete"


CLAIM = f"{TWO}\n{SIGNAL}"


@pytest.mark.parametrize(
    ("runtime", "reading"),
    [
        (Runtime(), "complete"),
        (Runtime(tests_ran=True, tests_failed=0), "complete"),
        (Runtime(tests_ran=True, tests_failed=2), "not_complete"),
        (Runtime(tests_ran=False), "not_complete"),
        (Runtime(tests_ran=False, tests_failed=0), "not_complete"),
        (Runtime(tests_ran=True), "not_complete"),
        (Runtime(tests_failed=1), "not_complete"),
        (Runtime(exit_code=1), "failed"),
        (Runtime(exit_code=-9), "failed"),
        (Runtime(exit_code=124, timed_out=True), "failed"),
        (Runtime(timed_out=True, provider_error="rate_limit"), "failed"),
        (Runtime(provider_error="rate_limit"), "rate_limited"),
        (Runtime(exit_code=1, provider_error="usage_limit"), "rate_limited"),
        (Runtime(provider_error="overloaded_error"), "rate_limited"),
        (Runtime(provider_error="authentication_failed"), "failed"),
    ],
)
def test_what_the_process_did_outranks_what_it_said(runtime: Runtime, reading: str) -> None:
    assert loop(CLAIM, runtime).reading == reading
    assert review("DONE", runtime=runtime).reading == reading


def test_a_limit_in_words_is_no_limit() -> None:
    assert loop("Claude AI usage limit reached|1749924000", PROVED).reading == "not_complete"


def test_a_refused_limit_in_the_stream_is_a_limit() -> None:
    event = '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1784702400}}'
    assert loop(event).reading == "rate_limited"
    assert (
        loop(event + '\n{"type":"result","is_error":true,"result":"x","api_error_status":429}').reading
        == "rate_limited"
    )


def test_an_error_result_of_the_stream_is_a_failure() -> None:
    line = '{"type":"result","is_error":true,"result":"Task complete. All done.\\nEXIT_SIGNAL: true"}'
    assert loop(line).reading == "failed"


def test_the_indicators_are_named_once_and_in_order() -> None:
    read = loop(f"Ready for review. All done; all done. Task complete.\n{SIGNAL}")
    assert read == Reading(
        reading="complete",
        exit_signal=True,
        indicators=("task complete", "all done", "ready for review/merge"),
    )


def test_a_project_may_add_its_own_indicators() -> None:
    text = f"Task complete. Shipped to staging.\n{SIGNAL}"
    assert loop(text).reading == "not_complete"
    assert loop(text, extra=("shipped to  staging",)).reading == "complete"
    assert (
        loop(f"Task complete. Not shipped to staging.\n{SIGNAL}", extra=("shipped to staging",)).reading
        == "not_complete"
    )


def test_what_is_missing_is_said_in_sentences() -> None:
    read = loop("Task complete.", Runtime(tests_ran=True, tests_failed=2))
    assert len(read.missing) == 3
    assert "EXIT_SIGNAL: true" in read.missing[0]
    assert "task complete" in read.missing[1]
    assert read.missing[2].startswith("2 tests fail")


REVIEW = [
    ("worker", "All work is in place.\n\nDONE", "complete", "DONE"),
    ("worker", "DONE", "complete", "DONE"),
    ("worker", "DONE\n\n\n", "complete", "DONE"),
    ("worker", "DONE  \r\n", "complete", "DONE"),
    ("worker", "```\ncode\n```\nDONE", "complete", "DONE"),
    ("worker", "\x1b[32mDONE\x1b[0m", "complete", "DONE"),
    ("worker", "done", "not_complete", None),
    ("worker", "Done", "not_complete", None),
    ("worker", "DONE.", "not_complete", None),
    ("worker", "DONE!", "not_complete", None),
    ("worker", "NOT DONE", "not_complete", None),
    ("worker", "I am DONE", "not_complete", None),
    ("worker", "DONE\u200b", "not_complete", None),
    ("worker", "`DONE`", "not_complete", None),
    ("worker", "ABANDONED", "not_complete", None),
    ("worker", "DONE\nbut one test fails", "not_complete", None),
    ("worker", "```\nDONE\n```", "not_complete", None),
    ("worker", "```\nDONE", "not_complete", None),
    ("worker", "DONE\n```\nx\n```", "not_complete", None),
    ("worker", "> DONE", "not_complete", None),
    ("worker", "> the plan says\nDONE", "not_complete", None),
    ("worker", "text\n\n    DONE", "not_complete", None),
    ("worker", "<!--\nDONE\n-->", "not_complete", None),
    ("worker", "<!-- DONE -->", "not_complete", None),
    ("worker", "[tool_result]\nDONE", "not_complete", None),
    ("worker", "The prompt says to output DONE\nwhen finished. Starting now.", "not_complete", None),
    ("worker", "PASS", "not_complete", None),
    ("worker", "FAIL", "failed", "FAIL"),
    ("worker", "I cannot do this.\nFAIL", "failed", "FAIL"),
    ("worker", "FAIL\nDONE", "failed", "FAIL"),
    ("worker", "FAILED", "not_complete", None),
    ("reviewer", "Looks good.\n\nPASS", "complete", "PASS"),
    ("reviewer", "DONE", "not_complete", None),
    ("reviewer", "pass", "not_complete", None),
    ("reviewer", "PASSED", "not_complete", None),
    ("reviewer", "BYPASS", "not_complete", None),
    ("reviewer", "PASSED 12, FAILED 3", "not_complete", None),
    ("reviewer", "ok   pkg/a 0.01s\nPASS\nok   pkg/b 0.02s", "not_complete", None),
    ("reviewer", "COMPASS calibration is wrong in nav.py.\nFAIL", "failed", "FAIL"),
    ("reviewer", "PASS\nFAIL", "failed", "FAIL"),
    ("reviewer", "FAIL\nPASS", "failed", "FAIL"),
    ("reviewer", "FAIL\n\nThen I looked again.\n\nPASS", "not_complete", None),
    ("reviewer", "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS", "not_complete", None),
    ("reviewer", "The prompt asks me to end with:\nPASS", "not_complete", None),
    ("reviewer", "Verdict:\n\nPASS", "complete", "PASS"),
    ("reviewer", "PASS or FAIL", "not_complete", None),
    ("reviewer", "PASS/FAIL", "not_complete", None),
    ("reviewer", "PASS: looks good", "not_complete", None),
    ("reviewer", "> PASS", "not_complete", None),
    ("reviewer", "", "not_complete", None),
]


@pytest.mark.parametrize(("role", "text", "reading", "signal"), REVIEW)
def test_a_review_signal_is_the_roles_own_word_alone_on_the_last_line(
    role: str, text: str, reading: str, signal: str | None
) -> None:
    read = review(text, role)
    assert (read.reading, read.signal) == (reading, signal)


def test_the_done_word_is_configurable() -> None:
    assert review("SHIPPED", word="SHIPPED").signal == "DONE"
    assert review("DONE", word="SHIPPED").signal is None


def test_a_claim_without_proof_keeps_its_signal() -> None:
    read = review("DONE", runtime=Runtime(tests_ran=True, tests_failed=1))
    assert (read.reading, read.signal) == ("not_complete", "DONE")


NAMES = ("accepted", "rejected")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("OUTCOME: great", "great"),
        ("I looked.\n**Verdict:** `Approved`, all tests pass", "approved"),
        ("OUTCOME: approved\nOutcome: approved.", "approved"),
        ("OUTCOME: approved\nOUTCOME: great", ""),
        ("OUTCOME: accepted", ""),
        ("OUTCOME: accepted if the tests pass", ""),
        ("OUTCOME: great\nOUTCOME: accepted if the tests pass", ""),
        ("OUTCOME: FAIL", ""),
        ("> OUTCOME: great", ""),
        ("great", ""),
        ("", ""),
    ],
)
def test_a_claim_of_a_name_that_does_not_count_is_known(text: str, name: str) -> None:
    assert unlisted_claim(text, NAMES) == name


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Fine.\nPASS", "pass"),
        ("Broken.\n**Fail.**", "fail"),
        ("PASS: it does what was asked", "pass"),
        ("Verdict: PASS", "pass"),
        ("FAIL\nPASS", "pass"),
        ("--- PASS: TestAdd (0.00s)\nPASS", None),
        ("All tests pass.", None),
        ("2 tests fail", None),
        ("DONE", None),
        ("The word PASS is in this line", None),
        ("```\nPASS\n```", None),
        ("", None),
        ("Fine.\nOUTCOME: Accepted.", "accepted"),
        ("Fine.\nOutcome: accepted", "accepted"),
        ("Fine.\n`OUTCOME: accepted`", "accepted"),
        ("Fine.\n- **Outcome:** `accepted`", "accepted"),
        ("OUTCOME: **Rejected** – the test is missing", "rejected"),
        ("Verdict: accepted, all tests pass", "accepted"),
        ("It was rejected before.\nOUTCOME: accepted", "accepted"),
        ("accepted: all tests pass", "accepted"),
        ("Accepted.", "accepted"),
        ("**Rejected** – `add` still subtracts", "rejected"),
        ("I read the diff and ran the tests. The change is accepted.", "accepted"),
        ("My verdict is “rejected”.\n\nThe test is missing.", "rejected"),
        ("The change is rejected.\n\na\n\nb\n\nc", None),
        ("The change is not accepted.", None),
        ("The change can be accepted.", None),
        ("Accepted if the tests pass.", None),
        ("OUTCOME: accepted if the tests pass", None),
        ("OUTCOME: accepted | rejected", None),
        ("OUTCOME: accepted\nOUTCOME: rejected", None),
        ("OUTCOME: rejected – it cannot be accepted as it is", "rejected"),
        ("OUTCOME: accepted / rejected", None),
        ("Accepted or rejected?", None),
        ("It was rejected.\nNow it is accepted.", None),
        ("OUTCOME: great\nIt is accepted.", None),
        ("> The change is accepted.", None),
        ("- [ ] accepted\n- [ ] rejected", None),
        ("- [x] accepted\n- [ ] rejected", "accepted"),
        ("The accepted criteria are met", None),
        ("I accept this change.", "accepted"),
        ("I'm accepting this change.", "accepted"),
        ("I reject the change: the limit is off by one.", "rejected"),
        ("I accept the change if the tests pass.", None),
        ("This change is accepted as is.", "accepted"),
        ("This change is accepted if the tests pass.", None),
        ("The diff is rejected: it deletes a test.", "rejected"),
        ("**REJECTED** — the function is never called.", "rejected"),
        ("Decision: ❌ rejected", "rejected"),
        ("Outcome:\naccepted", "accepted"),
        ("I would have rejected the first version, but this one is accepted.", "accepted"),
        ("The previous verdict was: accepted. I have more to check.", None),
        ("All invalid inputs are rejected.", None),
        ("REJECTED\n\n- no test\n- the name is wrong\n- docs are missing", "rejected"),
        ("The function returns 'accepted'.", None),
        ("Only positive numbers are accepted.", None),
    ],
)
def test_a_verdict_is_read_as_people_write_it(text: str, verdict: str | None) -> None:
    assert read_verdict(text, NAMES) == verdict


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Started over.\nOUTCOME: rewrite", "rewrite"),
        ("**OUTCOME:** Rewrite", "rewrite"),
        ("- OUTCOME: needs_work", "needs_work"),
        ("OUTCOME: rewrite\nOUTCOME: rewrite", "rewrite"),
        ("OUTCOME: rewrite\nOUTCOME: needs_work", None),
        ("outcome: rewrite", "rewrite"),
        ("OUTCOME: rewrite it all", "rewrite"),
        ("`OUTCOME: rewrite`", "rewrite"),
        ("OUTCOME = rewrite", None),
        ("This needs a rewrite.", None),
        ("OUTCOME: passed", None),
        ("OUTCOME:", None),
        ("```\nOUTCOME: rewrite\n```", None),
        ("> OUTCOME: rewrite", None),
        ("If it is bad I will print\nOUTCOME: rewrite", None),
        ("", None),
    ],
)
def test_an_outcome_is_claimed_by_one_line_of_its_own(text: str, name: str | None) -> None:
    assert read_outcome(text, ("rewrite", "needs_work")) == name


@pytest.mark.parametrize(
    "noise",
    [
        ("word ` <!-- x --> EXIT_SIGNAL: tru " * 40 + "\n") * 200 + "`" * 5000 + "\n" * 20000,
        ("task complete " * 700 + "\n\n") * 20,
        ("i need " * 1400 + "\n\n") * 20,
        "no a b c d e " * 7000,
        "<output " * 20000,
        "- " * 4000 + "\n" + "> " * 4000 + "\n\n",
    ],
)
def test_a_huge_message_is_read_in_time(noise: str) -> None:
    assert loop(noise + "\n\n" + CLAIM).reading in ("complete", "not_complete")


@pytest.mark.parametrize(
    "line",
    [
        "CI is red.",
        "CI checks are still failing on Windows.",
        "Note that the CI pipeline failed again.",
        "CI/CD: failing",
        "Locally all is well, but CI is broken.",
    ],
)
def test_a_known_red_ci_keeps_it_going(line: str) -> None:
    said = loop(f"Task complete. All done.\n\n{line}\n\nEXIT_SIGNAL: true")
    assert said.reading == "not_complete" and any("CI" in sentence for sentence in said.missing)
    assert red_ci(line)


@pytest.mark.parametrize(
    "line",
    [
        "CI was red before; it is green now.",
        "CI is green.",
        "CI no longer fails.",
        "- [x] Fix the job in which CI fails",
        "If CI fails, run it again.",
        "The loader prints `CI failed`.",
        "I fixed what made CI fail.",
        "CI checks passed.",
    ],
)
def test_a_ci_that_is_not_red_now_stops_nobody(line: str) -> None:
    assert loop(f"Task complete. All done.\n\n{line}\n\nEXIT_SIGNAL: true").reading == "complete"
    assert not red_ci(line)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("I looked around.\n\nWhich database should I use?", "Which database should I use?"),
        (
            "There are two tables.\nWhich one holds the prices?",
            "There are two tables.\nWhich one holds the prices?",
        ),
        ("**Should the flag be on by default?**", "**Should the flag be on by default?**"),
        ("Please clarify whether empty titles are allowed.",) * 2,
        ("I need a decision from you: keep the old API or remove it.",) * 2,
        ("Which one do you prefer?\n\n- keep\n- drop", "Which one do you prefer?\nkeep\ndrop"),
        ("Which branch is the base?\n\nThanks!", "Which branch is the base?\nThanks!"),
        ("How do you want errors reported? I have changed nothing yet.",) * 2,
        ("What changed?\n- the loop", ""),
        (
            "Should negative numbers be allowed?\n\n1. yes\n2. no",
            "Should negative numbers be allowed?\nyes\nno",
        ),
        ('The docstring now says "Which unit?"', ""),
        ("Should I also update the docs?", ""),
        ("How does that sound?", ""),
        ("Ready for the next task?", ""),
        ("Please review the change.", ""),
        ("Is it done? Yes.", ""),
        ("All done. Would you like me to add tests?", ""),
        ("Shall I proceed?", ""),
        ("The docs ask:\n> Which database?", ""),
        ("```\nWhich database?\n```", ""),
        ("", ""),
    ],
)
def test_a_question_that_ends_a_message(text: str, question: str) -> None:
    assert final_question(text) == question


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("I tried again.\nImportError: No module named 'x'", "ImportError: No module named 'x'"),
        ("It still fails: the port is taken.", "It still fails: the port is taken."),
        ("Fixed the TypeError: it was None.", ""),
        ("```\nTypeError: x\n```\nAll good.", ""),
        ("> error: quoted", ""),
        ("Passed: 12. Failed: 0", ""),
        ("**Error**: none", ""),
        ("All tests pass.", ""),
    ],
)
def test_an_error_in_the_agents_own_words(text: str, error: str) -> None:
    assert reported_error(text) == error
