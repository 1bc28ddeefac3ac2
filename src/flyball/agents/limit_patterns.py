"""The texts with which agents and providers report a limit. Data only; `limit_text` reads it.

A wording is matched at the start of a statement, after the marks that command lines put before it, so that prose about
limits is none. Within a list the first match counts; the lists are asked in the order in which they stand here.
"""

from typing import Literal

Kind = Literal["rate_limited", "plan_limit", "overloaded", "billing", "auth", "context", "network"]

END = r"(?=\s*(?:$|[.,:;!·∙•|()\[\]{}—–\"'-]|for\b|on\b|or\b|try\b|resets?\b|until\b|please\b|because\b|due\b|(?:right )?now\b|today\b|this (?:hour|day|week|month)\b|at (?:the|this)\b|and (?:your|will)\b|\\))"
_YOU = r"you(?:'ve|'re| have| are)?(?: already| now)? (?:hit|reached|exceeded|used(?: up| all(?: of)?)?|maxed out|exhausted|spent|(?:run )?out of)"
_OF_PLAN = r"(?:usage|message|weekly|daily|monthly|hourly|session|plan|subscription|premium|free|included|today's|(?:\d+|five)[- ]h(?:ou)?r)"
_THING = r"(?:limits?|quota|allowance|usage|requests|messages|prompts|window)(?!\.\w)"
_SPENT = r"(?:reached|exceeded|hit|used up|exhausted|spent|depleted|gone)"
_WHAT = r"(?: (?:for|of|on|in) (?:your|the|this|today|\d)[\w'.,/-]*(?: [\w'./-]+){0,3})?"
_WINDOW = r"(?:(?:5|five|\d+)[- ]hour|weekly|session|daily|hourly|monthly|opus|sonnet|haiku|usage|plan|subscription)"

CLASSES: dict[str, Kind] = {
    "TerminalQuotaError": "plan_limit", "RetryableQuotaError": "rate_limited", "RateLimitError": "rate_limited",
    "AuthenticationError": "auth", "FatalAuthenticationError": "auth", "ProviderAuthError": "auth", "PermissionDeniedError": "auth",
    "ContextWindowExceededError": "context", "InternalServerError": "overloaded",
    "ServiceUnavailableError": "overloaded", "OverloadedError": "overloaded", "APIConnectionError": "network",
}  # fmt: skip
"""Names of exceptions that a command line lets through; they count where the words say nothing."""

_CLASSES = "|".join(
    (*CLASSES, "_?ApiError", "APIError", "APIStatusError", "BadRequestError", "OpenAIException")
)
_OTHERS = "AnthropicException|ClientError|GaxiosError|AI_APICallError|Timeout"

_ORG = r"your (?:org(?:anization)?|team|workspace|group|account)"

BILLING: tuple[str, ...] = (
    # Claude Code
    r"(?:your )?credit balance (?:is )?too low",
    rf"{_YOU} your (?:[\w']+ ){{0,4}}(?:spend(?:ing)?|workspace credit) (?:limit|cap)",
    r"you hit your spend cap",
    rf"{_YOU} your (?:[\w']+ ){{0,3}}(?:shared )?budget{END}",
    rf"{_YOU} your (?:individual usage limit|(?:[\w'-]+ ){{0,3}}credits?{END})",
    r"(?:you've hit )?your (?:org(?:anization)?|team|workspace|channel)(?:'s)? monthly usage limit",
    rf"{_YOU} your (?:org(?:anization)?|team|workspace|channel)'s (?:monthly )?usage limit",
    rf"(?:your )?(?:daily |weekly |monthly |individual |workspace |org(?:anization)?(?:'s)? |team(?:'s)? |extra |usage )*spend(?:ing)? (?:limit|cap)(?: of \S+)? (?:has been |was |is )?(?:reached|exceeded|unavailable){END}",
    r"usage credits required|\S+(?: [\w.-]+){0,3} requires usage credits",
    rf"(?:usage |extra |api )*credits (?:exhausted|depleted|used up){END}",
    r"extra usage (?:is )?required",
    r"(?:(?:you've run|you have run|you're|you are|your \w+ is) )?out of (?:usage |extra |api |purchased )*credits",
    rf"{_YOU} your specified (?:workspace )?api usage limits?",
    rf"{_ORG} (?:is|are) out of usage{END}",
    rf"{_ORG}'s usage (?:credit cap is reached|limit is set to \$?0)|usage is paused for {_ORG}",
    rf"{_ORG} has (?:reached|hit|exceeded) (?:its|the) (?:\w+ )?(?:spend(?:ing)?|(?:monthly )?usage) limit",
    r"your usage allocation has been disabled",
    r"your (?:seat(?: type)?|plan|subscription) does(?:n't| not) include (?:\w+ )?usage",
    r"add funds to continue",
    # Codex and OpenAI
    r"quota exceeded\. check your plan and billing",
    r"to use codex with your chatgpt plan, upgrade",
    r"billing hard limit has been reached",
    r"your account is not active, please check your billing",
    # others
    rf"your (?:[\w'-]+ ){{0,3}}(?:balance|credits?|funds) (?:is|are|has been|have been) (?:too low|insufficient|empty|negative|exhausted|depleted|used up|gone){END}",
    r"your account has (?:an? )?(?:unpaid|overdue|outstanding)",
    rf"insufficient (?:balance|credits?|funds|quota){END}",
    r"this request requires more credits",
    r"free usage exceeded, add credits",
    rf"payment required{END}",
    r"no payment method",
    r"your (?:account|subscription|plan) (?:has been suspended|is past due|has expired|is inactive)",
    r"billing (?:account|is) (?:disabled|not (?:enabled|active))",
)

AUTH: tuple[str, ...] = (
    # Claude Code
    rf"not logged in{END}",
    r"(?:[^\n]{0,120}(?: ·|\.) )?please run /login",
    rf"invalid (?:x-)?api[ -]key{END}",
    rf"invalid (?:auth(?:entication)? (?:token|credentials)|bearer token|authentication){END}",
    rf"failed to authenticate{END}",
    r"oauth token does not meet scope requirement",
    r"access blocked by cloudflare",
    r"oauth (?:token|session) (?:has )?(?:been )?(?:revoked|expired|refresh failed|unavailable)",
    rf"(?:[\w.]+ ){{0,2}}login (?:has )?(?:expired|was rejected|not accepted|reached its time limit){END}",
    r"this organization has been disabled|your \w+ belongs to a disabled organization",
    r"your (?:organization|account) (?:has (?:disabled|been disabled)|does not have (?:access|permission))",
    r"could not resolve authentication method",
    r"your apikeyhelper script is failing",
    r"signed out of claude",
    r"your (?:[\w'-]+ ){0,3}(?:account|session|token|login|credentials?|key) (?:has been|have been|has|was|is|are) (?:signed out|logged out|expired|revoked|rejected|invalid(?:ated)?|no longer valid)(?=\s*(?:$|[.;·•!]))",
    rf"(?:\w+ )?token (?:refresh|exchange) failed{END}|failed to refresh (?:the |your )?token(?=\s*:)",
    rf"not signed in{END}",
    # Codex and OpenAI
    r"incorrect api key provided",
    r"you didn't provide an api key",
    r"your (?:access token|refresh token|session|authentication|login|credentials?)(?: \w+){0,2} (?:could not be refreshed|been used|has expired|expired|was revoked|has been (?:revoked|invalidated)|is invalid)",
    r"(?:(?:your |the )?(?:[\w-]+ ){0,2}(?:session|token|login|credentials?)\b[^\n]{0,100}[.·] )?(?:please )?(?:try )?(?:log|sign)(?:g?ing)? (?:out and (?:log|sign) )?in again",
    r"you(?:'re| are) not (?:logged|signed) in",
    r"you (?:must|need to) be (?:logged|signed) in",
    r"missing environment variable: `?\w*(?:key|token)",
    r"missing bearer",
    r"no (?:api key|credentials|auth(?:entication)?)(?: \w+){0,3} (?:found|provided|configured|available|set)",
    # Gemini
    r"api key not valid",
    r"api key (?:not found|expired|is missing|is invalid|missing)",
    r"please set an auth method",
    r"when using gemini api, you must specify",
    r"failed to (?:log ?in|sign in)",
    rf"authentication (?:failed(?! for ['\"])|error|required|timed out|expired){END}",
    rf"unauthori[sz]ed{END}",
    rf"unauthenticated{END}",
    r"permission denied on resource project",
    r"request had (?:invalid|insufficient) authentication",
)

PLAN: tuple[str, ...] = (
    # Claude Code
    rf"claude (?:ai |pro |max |code )*usage limit reached{END}",
    rf"{_YOU}(?: your| the)?(?: (?!rate|current)[\w'./-]+(?: \d[\d.]*)?){{0,5}} {_THING}{_WHAT}{END}",
    rf"(?:your |the |this )?(?:[\w'-]+ ){{0,4}}{_OF_PLAN}(?: (?!rate)[\w'-]+){{0,2}} {_THING}{_WHAT} (?:(?:has|have|is|are|was) )?(?:now |already )?(?:been )?{_SPENT}{END}",
    rf"your (?:account|plan|subscription|team) has (?:exceeded|reached|used (?:up|all)) (?:of )?(?:its|the) (?:[\w'-]+ ){{0,4}}(?:limit|allowance|usage|requests){END}",
    rf"(?:your |the )?(?:plan's )?{_WINDOW}(?: (?:weekly|usage|session|daily))*(?: (?:limit|window|quota|allowance))? (?:has been |was |is )?(?:limit )?(?:reached|exceeded|hit|used up|exhausted){END}",
    r"limit reached\s*[·∙•|-]\s*resets?\b",
    r"your (?:usage )?limits? (?:will )?resets? (?:at|in|on|when)\b",
    r"you've saved \S+ on api model usage",
    r"(?:you're|you are) out of (?:extra )?usage",
    r"stop and wait for limit to reset",
    # Codex
    r"(?:the |your )?usage limit has been reached",
    r"you've reached your (?:\S+ )?message limit",
    # Gemini and others
    r"free usage (?:limit )?exceeded",
    r"you have exhausted your daily quota",
    rf"your free (?:daily )?(?:tier|plan|quota|allowance|requests) (?:has|have|is|are)(?: been)? (?:reached|run out|used up|exhausted){END}",
    r"you have reached your daily \S+ (?:quota|limit|request)",
    r"you(?:'ve| have) reached (?:your|the) daily",
    r"(?:your )?(?:daily|weekly|monthly|subscription|premium request|free tier) (?:request )?quota (?:has been )?(?:exceeded|exhausted|reached|used up)",
    r"you have (?:exceeded|used all|no remaining) (?:of )?your (?:premium|monthly|weekly|free|included)",
    r"quota exceeded for quota metric.*per day",
)

QUOTA: tuple[str, ...] = (
    r"you have exhausted your (?:capacity|quota) on this model",
    r"you(?:'ve| have)? exceeded your current quota",
    r"quota exceeded for (?:quota )?metric",
    rf"you have no (?:[\w'-]+ )?quota (?:remaining|left){END}",
    rf"(?:[\w-]+ ){{0,3}}quota (?:exceeded|exhausted|reached){END}",
    r"(?:your )?quota will reset (?:after|in|at)",
    rf"resource (?:has been )?exhausted{END}",
    rf"resource_exhausted{END}",
)
"""A quota may be a minute's or a day's: `limits_text` looks at what else is said."""

CONTEXT: tuple[str, ...] = (
    rf"(?:the )?(?:prompt|input|conversation|request|message) is too (?:long|large)(?! for the (?!model|context)){END}",
    r"request too large \(max \d+ ?[km]b\)",
    rf"(?:conversation|prompt|request|input) too (?:long|large){END}",
    r"error during compaction",
    r"(?:your )?input (?:exceeds|length)(?: \S+){0,4} (?:the )?context",
    r"input length and `?max_tokens`? exceed context limit",
    r"codex ran out of room in the model's context window",
    r"(?:the )?input token count \S* ?exceeds the maximum",
    r"this model's maximum context length is",
    rf"(?:maximum )?context (?:window|length|limit)(?: \w+)? (?:exceeded|reached|is full|overflow){END}",
    r"(?:the )?(?:model's )?context window (?:is full|was exceeded|has been exceeded)",
    r"auto mode classifier transcript exceeded context window",
    r"(?:total )?tokens? (?:count )?exceeds? (?:the )?(?:model|context|maximum)",
    r"this conversation (?:is too long|has reached)",
    r"model \S+ has hit a token limit",
)

RATE: tuple[str, ...] = (
    r"server is temporarily limiting requests",
    r"request rejected \(429\)",
    rf"(?:api )?rate[ -]?limit(?:s|ed)?(?: has been| was)? (?:reached|exceeded|hit){END}",
    r"rate[ -]?limit reached for \S+ (?:\S+ )?(?:on|in)\b",
    rf"rate[ -]?limited{END}",
    r"this request would exceed (?:your|the) (?:\S+ )?rate limit",
    r"number of (?:request|input|output|concurrent)\b.*\bexceeded your\b.*rate limit",
    rf"(?:sorry, )?{_YOU} (?:your|a|the) (?:[\w'-]+ )*rate[ -]limit",
    rf"(?:sorry, )?you(?:'ve| have)? (?:are|been)(?: being)? rate[ -]limited{END}",
    r"(?:your )?requests to .{1,120}? have exceeded (?:the )?(?:\w+ )?rate limit",
    r"your \S+ (?:is|are) being rate limited",
    rf"too many requests{END}",
    r"(?:exceeded retry limit, )?last status: 429",
    r"we(?:'re| are) receiving too many requests",
    r"you are sending requests too (?:quickly|fast)",
    r"requests? (?:are )?(?:being )?throttled",
    r"throttlingexception",
    rf"please slow down{END}",
)

OVERLOADED: tuple[str, ...] = (
    rf"(?:repeated )?(?:529 )?overloaded(?: errors?)?{END}",
    rf"(?:selected |the |this )?(?:model|server|service|system|api|engine) (?:is|are) (?:currently |temporarily )*(?:experiencing high|(?:overloaded|at capacity|unavailable){END})",
    r"we(?:'re| are) (?:currently )?experiencing high demand",
    r"\S+(?: \d[\d.]*)? is (?:currently )?experiencing high (?:load|demand)",
    r"\S+(?: \d[\d.]*)? is temporarily unavailable",
    rf"(?:503 )?service (?:temporarily )?unavailable{END}",
    rf"[\w-]+ capacity (?:is )?unavailable{END}",
    r"no capacity (?:is )?available for (?:the )?model",
    rf"internal server error{END}",
    r"an internal error has occurred",
    rf"bad gateway{END}",
    rf"gateway time-?out{END}",
    r"the server had an error while processing your request",
    rf"(?:the |our )?servers? (?:is|are) (?:currently )?(?:busy|overloaded){END}",
    rf"(?:[\w-]+ )?(?:provider|model|server|api) overloaded{END}",
    r"agent terminated early due to an api error",
    rf"high demand{END}",
)

NETWORK: tuple[str, ...] = (
    r"unable to connect to (?:api|anthropic|the api|openai|server)",
    rf"connection (?:refused|reset|error|failed|closed|timed out|stalled|aborted|lost){END}",
    r"connection failed: ",
    r"reconnecting\.* waiting for network",
    r"waiting for network",
    r"stream disconnected before completion",
    r"stream closed before",
    r"idle timeout waiting for sse",
    rf"(?:the )?request timed out(?:{END}| after \d)",
    rf"self[- ]signed certificate(?: in certificate chain)?{END}",
    rf"(?:typeerror: )?fetch failed(?: sending request)?{END}",
    rf"network (?:error|failure|is unreachable|connection (?:lost|error)){END}",
    rf"socket hang up{END}",
    r"getaddrinfo (?:e[a-z_]+|failed)\b",
    r"(?:read|connect|write) (?:econnrefused|econnreset|etimedout|enotfound|epipe|eai_again)",
    rf"(?:econnrefused|econnreset|etimedout|enotfound|eai_again|epipe|eproto|enetunreach|ehostunreach)(?:{END}|(?= \S*\d))",
    r"(?:the )?tls handshake (?:failed|timed out)",
    r"error sending request",
    r"error while reading the server response",
    r"exception typeerror: fetch failed",
    r"ssl certificate verification failed",
    r"(?:could not|couldn't|failed to) (?:resolve host|connect to (?:the )?(?:api|server|anthropic|openai))",
    r"check your internet connection",
    r"api returned an empty or malformed response",
    r"dns (?:lookup|resolution) failed",
    r"temporary failure in name resolution",
)

_GONE = r"(?:exceeded|exhausted|reached|hit|used up|depleted|has run out)"
SUBJECTS: tuple[tuple[Kind | Literal["quota"], tuple[str, ...]], ...] = (
    (
        "billing",
        (
            r"\b(?:insufficient|out of|no|not enough|more|run out of)\b(?:\s+[\w-]+){0,2}\s+(?:credits?|balance|funds)\b",
            r"\b(?:credits?|balance|funds)\b(?:\s+[\w-]+){0,3}\s+(?:insufficient|too low|exhausted|depleted|required|used up|run out)\b",
            r"\bspend(?:ing)? (?:limit|cap)\b",
            r"\bpaid account\b|\bpayment (?:required|information|method)\b|\bbilling\b[^.]{0,40}\b(?:disabled|inactive|required|hard limit)\b|\brequires? billing\b",
        ),
    ),
    (
        "auth",
        (
            r"\b(?:invalid|incorrect|missing|wrong|expired|revoked|no|bad)\b(?:\s+[\w-]+){0,3}\s+(?:api[ -]?keys?|subscription key|credentials?|authenti\w+)\b",
            r"\b(?:could not|unable to|failed to) (?:load|find|locate|resolve) (?:[\w-]+ ){0,2}credentials\b",
            r"\b(?:api[ -]?key|(?:access|auth|refresh|security|bearer|session|oauth) token|credentials?|login|authentication)\b[^.]{0,60}\b(?:invalid|incorrect|expired|missing|revoked|required|wrong|rejected|invalidated|fail(?:s|ed)(?! for\b)|not (?:found|valid))\b",
            r"\b(?:un(?:authori[sz]ed|authenticated)|not (?:logged|signed) in|access denied|invalid_grant|authentication fail(?:s|ed)(?! for\b))\b",
        ),
    ),
    (
        "plan_limit",
        (
            rf"\b(?:usage|weekly|monthly|daily|session|plan|subscription|premium requests?|messages?|requests?) limits?\b(?:\s+[\w-]+){{0,3}}\s+{_GONE}\b",
            r"\bmaximum number of requests for your plan\b",
            rf"\b{_GONE} (?:[\w-]+ ){{0,4}}(?:usage|weekly|monthly|daily|session|plan|requests) limit\b",
        ),
    ),
    (
        "rate_limited",
        (
            rf"\brate[ -]?limit(?:ed\b|(?:s|ing)?\b(?:\s+[\w-]+){{0,3}}\s+{_GONE}\b)|\b(?:{_GONE}|over)\b(?:\s+[\w-]+){{0,4}}\s+rate[ -]?limits?\b",
            r"\b(?:high|maximum|reduce|exceeded)\b(?:\s+[\w-]+){0,2}\s+concurren\w+\b",
            r"\btoo many (?:requests|tokens)\b|throttl|\bper[ -]min(?:ute)?\b|\brequests? too (?:fast|quickly)\b",
            r"\bexceeded your \w+ token usage\b",
        ),
    ),
    ("quota", (rf"\bquota\b(?:\s+[\w-]+){{0,4}}\s+{_GONE}|\b(?:no|out of|exceed\w*)\b(?:\s+[\w-]+){{0,3}}\s+quota\b", r"\bresource_exhausted\b")),
    (
        "context",
        (
            r"\bcontext (?:window|length|limit|size)\b|\brange of input length\b|\b(?:prompt|input|request|conversation)\b[^.]{0,30}\btoo (?:long|large|many tokens)\b",
            r"\btokens?\b[^.]{0,40}\bexceeds?\b[^.]{0,40}\b(?:maximum|context|limit)\b",
        ),
    ),
    (
        "overloaded",
        (
            r"\boverload|\b(?:at|no|over) capacity\b|\bcapacity (?:exceeded|exhausted)\b|\bhigh (?:demand|load)\b|\b(?:temporarily|service) unavailable\b",
            r"\bunable to process your request\b",
        ),
    ),
    (
        "network",
        (
            r"\b(?:econn\w+|enotfound|etimedout|eai_again|epipe|enetunreach|ehostunreach|getaddrinfo|socket hang up)\b",
            r"\b(?:cannot|can't|could not|couldn't|unable to|failed to) (?:connect|reach|resolve)\b|\b(?:issuer|ssl|tls) certificate\b",
            r"\b(?:connection|network|dns)\b[^.]{0,30}\b(?:refused|reset|closed|timed out|lost|unreachable|failed|error)\b|\bfetch failed\b|\berror sending request\b",
        ),
    ),
)  # fmt: skip
"""What a statement is about that is known to be an error: looked for anywhere in it, the first that is found counts."""

CODES: dict[str, Kind] = {
    "rate_limit": "rate_limited", "rate_limit_error": "rate_limited", "rate_limit_exceeded": "rate_limited",
    "ratelimitexceeded": "rate_limited", "too_many_requests": "rate_limited", "resource_exhausted": "rate_limited",
    "throttlingexception": "rate_limited", "rate_limited": "rate_limited", "rate_limit_reached": "rate_limited",
    "policycapacityunavailable": "overloaded", "flexunavailable": "overloaded",
    "usage_limit_reached": "plan_limit", "usagelimitexceeded": "plan_limit", "usage_limit_exceeded": "plan_limit",
    "usage_limit": "plan_limit", "plan_limit": "plan_limit", "terminalquotaerror": "plan_limit",
    "freeusagelimiterror": "plan_limit", "workspace_member_usage_limit_reached": "billing",
    "overloaded": "overloaded", "overloaded_error": "overloaded", "server_error": "overloaded", "api_error": "overloaded",
    "internal_server_error": "overloaded", "internalservererror": "overloaded", "serveroverloaded": "overloaded",
    "server_is_overloaded": "overloaded", "slow_down": "overloaded", "unavailable": "overloaded", "internal": "overloaded",
    "billing_error": "billing", "insufficient_quota": "billing", "quota_exceeded": "billing", "creditserror": "billing",
    "billing_hard_limit_reached": "billing", "model_requires_usage_credits": "billing", "long_context_credits_required": "billing", "usage_not_included": "billing", "payment_required": "billing",
    "authentication_error": "auth", "authentication_failed": "auth", "permission_error": "auth", "unauthorized": "auth",
    "invalid_api_key": "auth", "api_key_invalid": "auth", "unauthenticated": "auth", "permission_denied": "auth",
    "token_expired": "auth", "cloud_credential_error": "auth", "verification_required": "auth", "fatalauthenticationerror": "auth", "providerautherror": "auth", "authrequired": "auth", "auth_required": "auth",
    "context_length_exceeded": "context", "contextwindowexceeded": "context", "prompt_too_long": "context",
    "context_window_exceeded": "context", "request_too_large": "context", "contextoverflowerror": "context",
    "network_error": "network", "timeout": "network", "timeout_error": "network", "connection_error": "network",
    "httpconnectionfailed": "network", "responsestreamdisconnected": "network", "responsestreamconnectionfailed": "network",
}  # fmt: skip
"""Codes and types in structured errors, lower case."""

STATUSES: dict[int, Kind] = {
    401: "auth", 402: "billing", 403: "auth", 408: "network", 413: "context", 429: "rate_limited",
    500: "overloaded", 502: "overloaded", 503: "overloaded", 504: "overloaded", 520: "overloaded", 522: "network",
    529: "overloaded",
}  # fmt: skip

PREFIXES: tuple[str, ...] = (
    r"[\s\u2000-\u2bff\ufe0f\U0001f300-\U0001faff*\[\](\"']+",
    r"\d{1,2}[.)]\s+",
    r"\[?\d{4}-\d{2}-\d{2}[T ][\d:.,]+(?:Z|[+-]\d{2}:?\d{2})?\]?\s*",
    r"(?:error|fatal|warn|warning|info|critical|panic)\b\s*(?:[:\]]|\s(?=[\w:.]+:\s))\s*",
    r"[a-z_]+::[\w:]+:?\s*",
    r"(?:api|internal|stream|request|unhandled|unexpected|provider|model|network|http|server)? ?error(?: during turn)?\s*(?:\(attempt \d+\))?\s*[:·—-]\s*",
    r"(?:claude|codex|gemini|opencode)(?: \w+){0,3} (?:error|failed|exited with code \d+)(?: \([^)]*\))?:\s*",
    rf"(?:\w+\.)*(?:{_CLASSES}|{_OTHERS})\s*[:-]\s*",
    r"error when talking to gemini api\s*(?:full report available at: \S+)?\s*",
    r"attempt \d+ failed(?: with status (?=\d))?[:.]?\s*",
    r"retrying with backoff\.*\s*",
    r"api error \((?=[a-z])",
    r"retrying \S+ in \d+ seconds as it raised\s+",
    r"reconnecting\.{3} \d+/\d+\s*\(?",
    r"[A-Z]: (?=\[)",
    r"[45]\d\d\]?\s+(?=[a-z])",
    r"\d{3,5}\]\s*(?=\[)",
    r"(?:rate limit exceeded|unhandled error during turn|execution error|turn failed|task failed|run failed|agent error): ",
    r"(?:unexpected status|status(?: code)?|http(?:/[\d.]+)?|code|error code|api error)\s*[:=]?\s*\(?(?=\d{3}\b)",
    r"request rejected \(429\)\s*[·:—-]\s*",
    r"(?:unavailable|internal|deadline_exceeded|failed_precondition|invalid_argument): ",
    r"failed to authenticate\.\s+(?=api error)",
)
"""What stands before a statement; taken off again and again."""
