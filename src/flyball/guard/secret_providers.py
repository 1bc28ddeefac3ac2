"""What the credentials of known providers look like: a name, a literal to look for first, and the pattern.

The literal (lower case) must be part of every match, so that most text is never searched. The group `v`, where
there is one, is the secret part; else it is the whole match. To add a provider, add a row.
"""

import base64
import re
from typing import NamedTuple

from flyball.reading.terminal import Lazy


class Rule(NamedTuple):
    name: str
    hint: str
    pattern: Lazy


_START = r"(?<![A-Za-z0-9])"
_END = r"(?![A-Za-z0-9])"


def _rule(name: str, hint: str, body: str) -> Rule:
    return Rule(name, hint, Lazy(_START + body))


def _exact(name: str, hint: str, body: str) -> Rule:
    return Rule(name, hint, Lazy(_START + body + _END))


def _free(name: str, hint: str, body: str) -> Rule:
    return Rule(name, hint, Lazy(body, re.IGNORECASE))


CLOUD = (
    *(
        _exact("aws-access-key", hint, rf"{hint.upper()}[A-Z0-9]{{16}}")
        for hint in ("akia", "asia", "abia", "acca")
    ),
    _rule("aws-session", "fwogz", r"(?:FwoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9+/=]{60,}"),
    _rule("aws-session", "iqojb3", r"IQoJb3JpZ2lu[A-Za-z0-9+/=]{60,}"),
    _rule("aws-mws", "amzn.mws", r"amzn\.mws\.[0-9a-f-]{30,}"),
    _rule("aws-bedrock-key", "absk", r"ABSK[A-Za-z0-9+/]{80,}={0,2}"),
    _rule("gcp-api-key", "aiza", r"AIza[0-9A-Za-z_-]{35}"),
    _rule("gcp-oauth-secret", "gocspx-", r"GOCSPX-[\w-]{20,}"),
    _rule("gcp-oauth-token", "ya29.", r"ya29\.[\w.-]{20,}"),
    _rule("gcp-refresh-token", "1//0", r"1//0[\w-]{30,}"),
    _free("azure-storage-key", "accountkey=", r"AccountKey=(?P<v>[A-Za-z0-9+/]{40,}={0,2})"),
    _free("azure-shared-key", "sharedaccesskey=", r"SharedAccessKey=(?P<v>[A-Za-z0-9+/]{30,}={0,2})"),
    _free("azure-sas", "sig=", r"[?&;'\"]sig=(?P<v>[A-Za-z0-9%/+]{30,}={0,2})"),
    Rule("azure-client-secret", "8q~", Lazy(r"(?<![\w~.-])[\w~.-]{3}[78]Q~[\w~.-]{30,36}")),
    _rule("azure-devops-pat", "azdo", r"[A-Za-z0-9]{70,80}AZDO[A-Za-z0-9]{4}"),
    _exact("alibaba-key", "ltai", r"LTAI[A-Za-z0-9]{16,24}"),
    _exact("tencent-key", "akid", r"AKID[A-Za-z0-9]{28,40}"),
    _rule("yandex-key", "aqvn", r"AQVN[\w-]{35,38}"),
    _rule("yandex-key", "t1.", r"t1\.[\w-]{10,}={0,2}\.[\w-]{80,}"),
    _rule("volcengine-key", "aklt", r"AKLT[A-Za-z0-9+/_-]{40,}={0,2}"),
    _rule("baidu-key", "altak-", r"ALTAK-[A-Za-z0-9]{20,}(?:/[0-9a-f]{40})?"),
    _rule("amazon-client-secret", "amzn1.oa2-cs", r"amzn1\.oa2-cs\.v1\.[0-9a-f]{40,}"),
    Rule("amazon-refresh-token", "atz", Lazy(r"(?<![A-Za-z0-9])Atz[ar]\|[\w+/=-]{60,}")),
    _free(
        "azure-function-key",
        "azurewebsites.net",
        r"azurewebsites\.net/\S{1,200}?code=(?P<v>[\w%/+-]{30,}={0,2})",
    ),
    _rule("render-key", "rnd_", r"rnd_[A-Za-z0-9]{28,}"),
    _rule("ibm-digitalocean-key", "do", r"do[opr]_v1_[0-9a-f]{40,}"),
    _rule("cloudflare-origin-ca", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    _rule("cloudflare-token", "cf", r"cf(?:ut|at|k)_[\w-]{36,}"),
    _rule("heroku-key", "hrku-", r"HRKU-[\w-]{30,}"),
    _rule("fly-token", "fm", r"fm[12][ar]?_[A-Za-z0-9+/=]{60,}"),
    _rule("fly-token", "fo1_", r"fo1_[\w-]{40,}"),
    _rule("vercel-token", "vc", r"vc[pkiar]_[A-Za-z0-9]{24,}"),
    _rule("netlify-token", "nf", r"nf[pcoub]_[A-Za-z0-9]{32,}"),
    _rule("scaleway-key", "scw", r"SCW[A-Z0-9]{17}(?![A-Z0-9])"),
    _rule("oracle-key", "ocid1.credential", r"ocid1\.credential\.[\w.-]{40,}"),
)

FORGES = (
    _rule("github-token", "gh", r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    _rule("github-fine-grained", "github_pat_", r"github_pat_\w{40,}"),
    _rule("github-app-token", "v1.", r"v1\.[0-9a-f]{40}(?![0-9a-f])"),
    _rule("gitlab-token", "gl", r"gl(?:pat|ptt|dt|rt|rtr|cbt|ft|ffct|imt|agent|soat|oas|wt)-[\w.-]{20,}"),
    _rule("gitlab-runner", "gr1348941", r"GR1348941[\w-]{20,}"),
    _rule("bitbucket-token", "atbb", r"ATBB[A-Za-z0-9_=.-]{24,}"),
    _rule("atlassian-token", "atatt3", r"AT(?:ATT|CTT)3[\w=-]{60,}"),
    _rule("npm-token", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    _rule("pypi-token", "pypi-", r"pypi-Ag[\w-]{50,}"),
    _rule("rubygems-key", "rubygems_", r"rubygems_[0-9a-f]{40,}"),
    _rule("crates-token", "cio", r"(?<![+/])cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _rule("nuget-key", "oy2", r"(?<![+/])oy2[a-z0-9]{43}(?![a-z0-9])"),
    _rule("clojars-token", "clojars_", r"CLOJARS_[a-z0-9]{60}"),
    _rule("docker-token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,}"),
    _rule("jfrog-key", "akcp", r"AKCp[A-Za-z0-9]{60,}"),
    _rule("jfrog-reference", "cmvmdgtu", r"cmVmdGtu[A-Za-z0-9]{50,}"),
    _rule("circleci-token", "ccip", r"CCIP(?:AT|RJ)_[\w]{20,}"),
    _rule("buildkite-token", "bk", r"bk(?:ua|ct)_[0-9A-Za-z]{40}"),
    _rule("sourcegraph-token", "sgp_", r"sgp_(?:(?:[0-9a-f]{16}|local)_)?[0-9a-f]{40}"),
    _rule("packagist-token", "packagist_", r"packagist_[a-z]{3}_[0-9a-f]{60,}"),
    _rule("deno-token", "dd", r"dd[op]_[A-Za-z0-9]{36}"),
    _rule("octopus-key", "api-", r"API-[A-Z0-9]{25,30}(?![A-Za-z0-9])"),
    _rule("openshift-token", "sha256~", r"sha256~[\w-]{43}"),
    _rule("rancher-token", "token-", r"token-[a-z0-9]{5}:[a-z0-9]{50,}"),
    _rule("harness-token", "at.", r"[ps]at\.[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    _rule("nexus-token", "token.", r"(?:Npm|NuGet|Docker)Token\.[0-9a-f-]{36}"),
    _rule("snyk-token", "snyk_", r"snyk_[a-z]+\.[\w.-]{20,}"),
    _rule("dbt-token", "dbt", r"dbt[cu]_[\w+/=-]{30,}"),
    _rule(
        "authress-key",
        ".acc",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][\w.+/=-]{40,}",
    ),
    _rule("defined-networking-key", "dnkey-", r"dnkey-[\w=-]{26}-[\w=-]{50,}"),
    _rule("scalingo-token", "tk-us-", r"tk-us-[\w-]{48}"),
    _rule("matrix-token", "syt_", r"syt_[A-Za-z0-9+/=]+_[A-Za-z]{16,}_[A-Za-z0-9]{6}"),
    _rule("upcloud-token", "ucat_", r"ucat_[A-Z0-9]{26}"),
    _rule("cloudsmith-key", "csa_", r"csa_[0-9a-f]{40}"),
    _rule("portainer-token", "ptr_", r"ptr_[A-Za-z0-9+/=]{40,}"),
    _rule(
        "onepassword-key",
        "a3-",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}(?![A-Z0-9])",
    ),
    _rule("sonar-token", "sq", r"sq[upa]_[0-9a-f]{40}"),
    _rule("terraform-token", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,}"),
    _rule("pulumi-token", "pul-", r"pul-[0-9a-f]{40}"),
    _rule("vault-token", "hv", r"hv[sbr]\.[\w-]{20,}"),
    _exact(
        "vault-token", "s.", r"(?<![\w.$])s\.(?=[A-Za-z]*\d)(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9]{24}"
    ),
    _rule("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{36,}"),
    _rule("onepassword-token", "ops_eyj", r"ops_eyJ[\w=-]{100,}"),
    _rule("age-key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _rule("tailscale-key", "tskey-", r"tskey-[a-z]+-[\w-]{15,}"),
    _rule(
        "launchdarkly-key", "-", r"(?:sdk|api)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
    ),
)

MODELS = (
    _rule("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    _rule("openai-key", "sk-", r"sk-(?:proj|svcacct|admin|service|None)-[\w-]{20,}"),
    _rule("openai-key", "t3blbkfj", r"sk-[\w-]{16,}T3BlbkFJ[\w-]{16,}"),
    _rule("openrouter-key", "sk-or-", r"sk-or-(?:v1-)?[\w-]{30,}"),
    _rule("langfuse-key", "-lf-", r"sk-lf-[0-9a-f-]{30,}"),
    _rule("model-key", "sk-", r"sk-[A-Za-z0-9]{32,}"),
    _rule("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _rule("huggingface-token", "api_org_", r"api_org_[A-Za-z0-9]{30,}"),
    _rule("replicate-token", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    _rule("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    _rule("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{30,}"),
    _rule("xai-key", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    _rule("fireworks-key", "fw_", r"fw_[A-Za-z0-9]{22,}"),
    _rule("tavily-key", "tvly-", r"tvly-[\w-]{20,}"),
    _rule("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _rule("pinecone-key", "pcsk_", r"pcsk_\w{30,}"),
    _rule("nvidia-key", "nvapi-", r"nvapi-[\w-]{40,}"),
    _rule("elevenlabs-key", "sk_", r"sk_[0-9a-f]{48}"),
    _rule("cerebras-key", "csk-", r"csk-[a-z0-9]{40,}"),
    _rule("firecrawl-key", "fc-", r"fc-[0-9a-f]{32}(?![0-9a-f])"),
    _rule("jina-key", "jina_", r"jina_[A-Za-z0-9_-]{40,}"),
    _rule("e2b-key", "e2b_", r"e2b_[0-9a-f]{40}"),
    _rule("runpod-key", "rpa_", r"rpa_[A-Z0-9]{30,}"),
    _rule("cursor-key", "key_", r"key_[0-9a-f]{64}"),
    _rule("together-key", "tgp_v1_", r"tgp_v1_[\w-]{30,}"),
    _rule("voyage-key", "pa-", r"pa-[A-Za-z0-9_-]{43}(?![\w-])"),
)

SERVICES = (
    _rule("slack-token", "xox", r"xox[a-z](?:\.xox[a-z])?-[0-9A-Za-z%/+-]{10,}"),
    _rule("slack-app-token", "xapp-", r"xapp-\d-[A-Z0-9]+-\d+-[0-9a-f]{20,}"),
    _free(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<v>[\w/+-]{30,})",
    ),
    _free(
        "discord-webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(?P<v>\d{15,}/[\w-]{40,})",
    ),
    _rule("discord-token", ".", r"[MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),
    _free("teams-webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/(?P<v>[\w@/-]{60,})"),
    _free("teams-webhook", "outlook.office", r"outlook\.office(?:365)?\.com/webhook/(?P<v>[\w@/-]{60,})"),
    _free(
        "google-chat-webhook",
        "chat.googleapis.com",
        r"chat\.googleapis\.com/v1/spaces/\S{1,300}?[?&]key=(?P<v>[\w-]{20,})",
    ),
    _free("zapier-webhook", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/(?P<v>\d+/\w{5,})"),
    _free("make-webhook", "hook.", r"hook\.(?:eu|us)\d\.make\.com/(?P<v>\w{20,})"),
    _free(
        "ifttt-webhook",
        "maker.ifttt.com",
        r"maker\.ifttt\.com/trigger/[^\s/]{1,100}/with/key/(?P<v>[\w-]{16,})",
    ),
    Rule("telegram-token", ":aa", Lazy(r"(?<!\d)\d{8,10}:AA[\w-]{32,34}(?![\w-])")),
    _rule("stripe-key", "k_", r"[sr]k_(?:live|test|prod)_[0-9a-zA-Z]{16,}"),
    _rule("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}"),
    _rule("square-token", "sq0", r"sq0(?:atp|csp|idp)-[\w-]{20,}"),
    _rule("square-token", "eaaa", r"EAAA[\w-]{56,64}(?![\w-])"),
    _rule("facebook-token", "eaa", r"(?<![+/])EAA[A-Za-z0-9]{80,}"),
    _rule(
        "paypal-token", "access_token$", r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"
    ),
    _rule("plaid-token", "access-", r"access-(?:sandbox|development|production)-[0-9a-f-]{36}"),
    _rule("razorpay-key", "rzp_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    _rule("flutterwave-key", "flwseck", r"FLWSECK(?:_TEST)?-[A-Za-z0-9-]{20,}"),
    _rule("shopify-token", "shp", r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}"),
    _exact("twilio-key", "sk", r"SK[0-9a-f]{32}"),
    _exact("twilio-auth-token", "ac", r"AC[0-9a-f]{32}[\"':,;\s]{1,8}(?P<v>[0-9a-f]{32})"),
    _rule("dropbox-token", "sl.", r"sl\.(?:u\.)?[\w-]{100,}"),
    _rule("clickup-token", "pk_", r"pk_\d{6,9}_[A-Z0-9]{32}"),
    _exact("klaviyo-key", "pk_", r"pk_(?=[0-9a-f]*[a-f])[0-9a-f]{34}"),
    _exact("live-key", "live_", r"live_[A-Za-z0-9_-]{30,48}"),
    _rule("adobe-secret", "p8e-", r"p8e-[\w-]{32}"),
    _rule("woocommerce-secret", "ck_", r"ck_[0-9a-f]{40}"),
    _rule("woocommerce-secret", "cs_", r"cs_[0-9a-f]{40}"),
    _rule("telnyx-key", "key0", r"KEY0[0-9A-F]{31}_\w{20,}"),
    _rule("stytch-secret", "secret-", r"secret-(?:live|test)-[\w-]{30,}={0,2}"),
    _rule("axiom-token", "xa", r"xa(?:at|pt)-[0-9a-f-]{36}"),
    _rule("maxmind-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    _rule("calcom-key", "cal_", r"cal_(?:live_)?[0-9a-f]{32}"),
    _rule("pinterest-token", "pina_", r"pina_[A-Z0-9]{40,}"),
    _rule("instagram-token", "igq", r"IGQ[A-Z][A-Za-z0-9_-]{100,}"),
    _rule("twitch-token", "oauth:", r"oauth:[a-z0-9]{30}(?![a-z0-9])"),
    _rule("fauna-key", "fna", r"(?<![+/])fnA[A-Za-z0-9_-]{37}(?![\w-])"),
    _rule("cockroach-key", "ccdb1_", r"CCDB1_[\w]{20,}"),
    _rule("atlas-secret", "mdb_sa_sk_", r"mdb_sa_sk_[\w-]{30,}"),
    _rule("xata-key", "xau_", r"xau_[A-Za-z0-9]{30,}"),
    _rule("sanity-token", "sk", r"sk[A-Za-z0-9]{80,}(?![A-Za-z0-9])"),
    _rule("ghost-key", ":", r"[0-9a-f]{24}:[0-9a-f]{64}(?![0-9a-f])"),
    _rule("sendgrid-key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{30,64}"),
    _exact("mailgun-key", "key-", r"key-[0-9a-f]{32}"),
    _exact("mailchimp-key", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    _rule("sendinblue-key", "xkeysib-", r"xkeysib-[0-9a-f]{64}-\w{16}"),
    _rule("resend-key", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    _rule("postman-key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _rule("newrelic-key", "nr", r"NR(?:AK|JS|RA|II|IQ|SP)-[A-Za-z0-9_-]{19,}"),
    _rule("grafana-key", "eyjrijoi", r"eyJrIjoi[A-Za-z0-9+/]{40,}={0,2}"),
    _rule("grafana-token", "gl", r"gl(?:c|sa)_[A-Za-z0-9+/_=]{30,}"),
    _rule("sentry-token", "sntry", r"sntry[suai]_[A-Za-z0-9+/=_-]{40,}"),
    _rule("dynatrace-token", "dt0", r"dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{60,}"),
    _rule("honeycomb-key", "hc", r"hc[abmx][a-z0-9]{2}_[a-z0-9]{50,}"),
    _rule("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _rule("notion-token", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    _rule("notion-token", "secret_", r"secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    _rule("figma-token", "figd_", r"figd_[\w-]{35,}"),
    _rule("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{60,}"),
    _rule("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _rule("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}"),
    _rule("supabase-key", "sb", r"sb(?:p|_secret|_publishable_secret)_[A-Za-z0-9_-]{20,}"),
    _rule("posthog-key", "phx_", r"phx_[A-Za-z0-9]{30,}"),
    _rule("contentful-token", "cfpat-", r"CFPAT-[\w-]{40,}"),
    _rule("mapbox-token", "sk.eyj", r"sk\.eyJ[\w-]{40,}\.[\w-]{20,}"),
    _rule("asana-token", "/", r"[12]/\d{15,17}(?:/\d{15,17})?:[0-9a-f]{32}"),
    _rule("hubspot-token", "pat-", r"pat-[a-z]{2}\d-[0-9a-f-]{36}"),
    _rule("adafruit-key", "aio_", r"aio_[A-Za-z0-9]{28}"),
    _rule("prefect-key", "pn", r"pn[ub]_[A-Za-z0-9]{36}"),
    _rule("infracost-key", "ico-", r"ico-[A-Za-z0-9]{32}"),
    _rule("frameio-token", "fio-u-", r"fio-u-[\w-]{60,}"),
    _rule("duffel-token", "duffel_", r"duffel_(?:live|test)_[\w-]{40,}"),
    _rule("easypost-key", "ez", r"EZ[AT]K[A-Za-z0-9]{54}"),
    _rule("lob-key", "_pub_", r"(?:live|test)_pub_[0-9a-f]{30,}"),
    _rule("shippo-token", "shippo_", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    _rule("readme-key", "rdme_", r"rdme_[a-z0-9]{60,}"),
    _rule("typeform-token", "tfp_", r"tfp_[\w.=-]{40,}"),
    _rule("twitter-bearer", "aaaaaaaaaaaaaaaaaaaa", r"A{20,}[A-Za-z0-9%]{50,}"),
    _rule("intercom-token", "dg9rom", r"dG9rOm[A-Za-z0-9+/=]{40,}"),
    _rule("clickhouse-key", "4b1d", r"(?<![+/])4b1d[A-Za-z0-9]{38}(?![A-Za-z0-9])"),
)


def _encoded(kind: str) -> str:
    """How the header of such a key begins in base64, without the end that depends on what follows."""
    head = base64.b64encode(f"-----BEGIN {kind}PRIVATE".encode()).decode().rstrip("=")
    return head[: -2 if len(head) % 4 else None]


_HEADERS = "|".join(map(_encoded, ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")))

SHAPES = (
    _rule("private-key", "ls0tls1crudjti", rf"(?:{_HEADERS})[A-Za-z0-9+/=]*"),
    _rule("private-key", "mi", r"MII[A-Za-z0-9+/]{3}IBA[A-Za-z0-9+/]{24,}={0,2}"),
    _rule("private-key", "age", r"MI(?:GHAgEAM|G2AgEAM|HuAgEAM|GkAgEBBD|HcAgEBBE)[A-Za-z0-9+/]{24,}={0,2}"),
    _rule("private-key", "mhccaqee", r"MHcCAQEE[A-Za-z0-9+/]{24,}={0,2}"),
    _rule("private-key", "mc4caqaw", r"MC4CAQAwBQYDK2Vw[A-Za-z0-9+/]{24,}={0,2}"),
    _rule("private-key", "b3blbnnzac1r", r"b3BlbnNzaC1rZXktdj[A-Za-z0-9+/]{20,}={0,2}"),
    Rule("private-key", '"kty"', Lazy(r"[\"'](?:d|k)\\?[\"']\s*:\s*\\?[\"'](?P<v>[\w-]{20,})")),
    _rule("json-web-token", "eyj", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{10,}"),
    _rule("json-web-token", "eyj", r"eyJ[\w-]{16,}\.\.?[\w-]{8,}\.[\w-]{16,}\.[\w-]{10,}"),
)

PROVIDERS: tuple[Rule, ...] = (*FORGES, *MODELS, *CLOUD, *SERVICES, *SHAPES)

PRIVATE_KEYS = (
    Lazy(
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}(?:PRIVATE|SECRET) KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----BEGIN)[\s\S]){0,20000}?-----END (?:[A-Z0-9]+ ){0,3}(?:PRIVATE|SECRET) KEY(?: BLOCK)?-----)?"
    ),
    Lazy(r"PuTTY-User-Key-File-\d"),
    Lazy(r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"),
)
"""The header alone counts; with its end the whole block is the secret."""
