"""Credentials in texts: where they are recognised, and how they are left out of what is shown.

A credential is recognised by its place (behind the name of a user, or as the value of a parameter
with a name such as `token`, of a header such as `Authorization`, or of an option such as
`--password`), by its form (keys of well-known services), or, as the value of any
parameter of a URL, by a length and mixture of characters that only keys have. ``$NAME`` or
``${NAME}``, the name of an environment variable, is none.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

# Parameters of URLs whose value is a credential: whole names, in small letters without - _ . and +.
PARAMETERS = (
    "accesskey",
    "accesstoken",
    "apikey",
    "auth",
    "authcode",
    "authkey",
    "authorization",
    "bearer",
    "code",
    "credential",
    "credentials",
    "hmac",
    "jwt",
    "key",
    "oauth",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwort",
    "pat",
    "privatekey",
    "privatetoken",
    "pwd",
    "sas",
    "sastoken",
    "secret",
    "secretkey",
    "session",
    "sessionid",
    "sessionkey",
    "sharedaccesskey",
    "sharedaccesssignature",
    "sig",
    "signature",
    "subscriptionkey",
    "token",
    "webhook",
)
# Ends of other names, such as X-Amz-Signature and sas_token.
ENDS = (
    "accesskey",
    "accountkey",
    "apikey",
    "assertion",
    "credential",
    "credentials",
    "credentialsbase64",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "sharedkey",
    "signature",
    "signingkey",
    "subscriptionkey",
    "token",
)
# Names of a connection's keywords, which are followed by = in any text.
_KEYWORDS = (
    r"passw(?:or)?d|passwort|passphrase|pwd|account_?key"
    r"|shared_?access_?(?:key|signature)|client_?secret"
    r"|(?:aws_?)?secret_?(?:access_?)?key"
    r"|(?:aws_?)?session_?token|api_?key|access_?token|auth_?token"
    r"|private_?key|sas_?token|connection_?password"
)
# Repetitions that another part of a pattern follows are bounded: a search begins at every place of
# a text, and each would read on to the end of a long one.
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
# Keys that are recognised by their form.
_FORMS = re.compile(
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{30}"
    r"|\bgithub_pat_\w{22}|\bgl[a-z]{2,6}-[\w-]{18}"
    r"|\bxox[a-z]-[\w-]{10}|\bxapp-[\w-]{10}"
    r"|\bsk-(?:ant-|proj-|live-)?[\w-]{20}|\b[sr]k_(?:live|test)_\w{16}"
    r"|\bhf_[A-Za-z]{30}|\bnpm_\w{36}|\bpypi-\w{16}"
    r"|\bdapi[0-9a-f]{32}|\bAIza[\w-]{35}|\bya29\.[\w-]{20}"
    r"|\beyJ[\w-]{8,2000}\.eyJ[\w-]{8,2000}\.|\bSG\.[\w-]{16,99}\.[\w-]{16}"
    r"|\bdop_v1_\w{32}|\bshp(?:at|ca|pa|ss)_\w{32}"
    r"|\bdckr_pat_[\w-]{20}|\bhv[sbr]\.[\w-]{20}|\bGOCSPX-[\w-]{20}"
    r"|\bATATT3[\w=-]{20}|\bglsa_\w{30}|\blin_api_\w{30}"
    r"|\bwhsec_[\w/+=]{20}|\bkey-[0-9a-f]{32}\b|\b[0-9a-f]{32}-us\d{1,2}\b|\bsq0\w{3}-[\w-]{22}"
    r"|\bEAAA[\w-]{50}|\bEAA[A-Z][A-Za-z0-9]{60}|\b[SA]K[0-9a-f]{32}\b|\bnfp_\w{36}|\bfigd_[\w-]{20}"
    r"|\b(?:ntn|secret)_[A-Za-z0-9]{40}|\bglc_[\w=+/]{30}|\b\w{14}\.atlasv1\.[\w-]{40}"
    r"|\bpscale_(?:pw|tkn|oauth)_[\w-]{30}|\bsbp_[0-9a-f]{40}|\bNRAK-[A-Z0-9]{27}"
    r"|\bAKCp[A-Za-z0-9]{50}|\b[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}|\brubygems_[0-9a-f]{40}"
    r"|\bdp\.(?:pt|st|ct|sa)\.\w{40}|\bpat\w{14}\.[0-9a-f]{60}|\b1//0[\w-]{30}|\bIQoJb3[\w/+=]{60}"
    r"|\bLTAI[A-Za-z0-9]{16}|\bAKID[A-Za-z0-9]{32}|\bpplx-\w{40}|\bgsk_\w{40}|\br8_\w{30}"
    r"|\bpcsk_\w{40}|\bsl\.[\w-]{100}|\b\d{8,10}:AA[\w-]{33}|\b\w{3}8Q~[\w.~-]{31}"
    r"|\bxkeysib-\w{60}|\boy2[a-z0-9]{43}\b|\bcio[A-Za-z0-9]{32}\b|\btskey-\w+-\w{10}"
    r"|\bsntrys_\w{20}|\bPMAK-\w{20}|\bAGE-SECRET-KEY-1\w{20}|-----BEGIN [A-Z ]*PRIV"
    r"|\b(?:Bearer|Basic)\s+(?!\$)[\w.~+/-]{16,}=*|\bAccountKey=(?!\$)[\w+/]{20}",
    re.IGNORECASE,
)
# Addresses that are themselves the permission to write to a channel.
_HOOKS = re.compile(
    r"\b(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/"
    r"|webhook\.office(?:365)?\.com/webhookb?2?/|outlook\.office(?:365)?\.com/webhook/"
    r"|api\.telegram\.org/(?:file/)?bot|maker\.ifttt\.com/trigger/[^/\s]+/with/key/"
    r"|hooks\.zapier\.com/hooks/catch/"
    r"|open\.(?:feishu|larksuite)\.(?:cn|com)/open-apis/bot/v2/hook/)"
    r"(?!\$)[^\s'\"]+",
    re.IGNORECASE,
)
_USER = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]{0,40})://(?P<user>[^/?#\s@]+)@")
# A password may hold blanks, which an address should not have.
_USER_WITH_PASSWORD = re.compile(r"//[^\s/:@]*:(?P<password>\S{1,2000}|[^/@\n]{1,2000})@")
_PARAMETER = re.compile(r"[?&#](?P<name>[\w.%+-]+)=(?P<value>[^\s&#\"]+)")
# The value is up to its closing quote or bracket, where it has one.
_KEYWORD = re.compile(
    rf"(?<![A-Za-z])(?:{_KEYWORDS})\s*=\s*"
    r"(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"\n]+)\"|\{(?P<braces>[^\n]{1,2000}?)\}(?![^\s;])"
    r"|['\"{]?(?P<value>[^\s;&'\"}]+))",
    re.IGNORECASE,
)
# A field of a header, also where a text quotes it.
_HEADER = re.compile(
    r"(?<![\w-])(?:(?:Proxy-)?Authorization|(?:X-)?(?:[A-Za-z]+-)*(?:Api-?Key|Token|Secret|Auth"
    r"|Access-?Key|Subscription-Key|Signature))[\"']?\s*:\s*[\"']?"
    r"(?:(?:Bearer|Basic|Token|Digest|ApiKey|Negotiate|AWS4-HMAC-SHA256)\s+(?P<schemed>[^\s\"']{4,})"
    r"|(?P<value>[\w.~+/=$%{}-]*[\d=+/][\w.~+/=$%{}-]*))"
    r"|(?<![\w-])(?:Set-)?Cookie[\"']?\s*:\s*[\"']?(?P<cookie>[\w.-]+=[^\n\"']+)",
    re.IGNORECASE,
)
# In JSON the name is quoted; in other texts a value with a digit is no remark.
_FIELD = re.compile(
    rf"(?<![A-Za-z])(?:(?:{_KEYWORDS})[\"']\s*:\s*[\"'](?P<quoted>[^\"'\n]+)"
    rf"|(?:{_KEYWORDS})\s*:\s*(?P<plain>(?=\S{0, 200}?\d)[^\s,;\"']+))",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"(?<![\w-])--?(?:{_KEYWORDS}|api-key|token|secret|access-token|auth-token|client-secret)"
    r"(?:\s+|=)(?!-)[\"']?(?P<value>[^\s\"']+)"
    r"|(?<![\w-])(?:-u|--user)(?:\s+|=)[\"']?[^\s:\"']{1,200}:(?P<password>[^\s\"']+)",
    re.IGNORECASE,
)
# A variable of the environment that is set within a text.
_SETTING = re.compile(
    r"(?<!\w)[A-Z][A-Z0-9_]*_(?:TOKEN|SECRET|KEY|PASS|PWD|CREDENTIALS?|PAT)\s*=\s*[\"']?"
    r"(?P<value>(?=\S{0,200}?\d)[^\s;&\"']{6,})"
)
_SECRET_KEY_OF_AWS = re.compile(r"(?<![\w/+=])[A-Za-z0-9/+]{40}(?![\w/+=])")
_END_OF_BLOCK = re.compile(r"-----END [A-Z ]*-----")
_REST_OF_KEY = re.compile(r"[\w.~+=%-]*")
_ENCODED_WORD = re.compile(r"(?<!\S)\S*%[0-9A-Fa-f]{2}\S*")
# A scheme whose addresses name no user: what stands in its place is a token.
_WEB = ("http", "https", "ftp", "ftps", "ws", "wss")
_NAMES_OF_THINGS = re.compile(r"(?:id|etag|generation|sha\d*|digest|doi)$", re.IGNORECASE)
LEAST_KEY = 24  # characters of a value that may be a key by its mixture alone
LEAST_ENTROPY = 3.5  # bits a character
MOST_DECODINGS = 3
HIDDEN = "***"


def holds_credential(text: str) -> bool:
    """Whether a text looks like it holds a credential, also where characters are written as %3D."""
    return any(_credentials(decoded) for decoded in _decoded(text))


def without_credentials(text: str) -> str:
    """Replace the credentials of a text, such as a message of a library, by ``***``."""
    text = _ENCODED_WORD.sub(_without_encoded_credential, text)
    parts = []
    last = 0
    for start, end in sorted(_credentials(text)):
        if end <= last:
            continue
        parts += [text[last : max(start, last)], HIDDEN if start >= last else ""]
        last = end
    return "".join([*parts, text[last:]])


def _without_encoded_credential(word: re.Match[str]) -> str:
    """Leave out the part with %XX of a word that holds a credential only when it is decoded."""
    text = word.group()
    if _credentials(text) or not holds_credential(text):
        return text
    before, mark, _ = text.partition("?")
    return f"{before}{mark}{HIDDEN}" if mark else HIDDEN


def redacted(value: Any) -> Any:
    """Return lists and mappings with the credentials of their texts replaced by ``***``."""
    if isinstance(value, Mapping):
        return {key: redacted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return without_credentials(value) if isinstance(value, str) else value


def _decoded(text: str) -> Iterator[str]:
    """Return the text, and what it says when %XX are decoded, which may hold %XX again."""
    for _ in range(MOST_DECODINGS):
        yield text
        plain = unquote_plus(text) if "%" in text else text
        if plain == text:
            return
        text = plain


def _credentials(text: str) -> list[tuple[int, int]]:
    """Return where credentials begin and end."""
    spans = []
    for match in _USER_WITH_PASSWORD.finditer(text):
        if not _is_variable(match["password"]):
            spans.append(match.span("password"))
    for match in _USER.finditer(text):
        if _is_token_of_user(match["scheme"], match["user"]):
            spans.append(match.span("user"))
    for match in _PARAMETER.finditer(text):
        if _is_credential_parameter(match["name"], match["value"]):
            spans.append(match.span("value"))
    for match in _KEYWORD.finditer(text):
        group = str(match.lastgroup)
        if not _is_variable(match[group]):
            spans.append(match.span(group))
    return [*spans, *_named_values(text), *_keys_of_services(text)]


def _named_values(text: str) -> list[tuple[int, int]]:
    """Return where the values of headers, fields, options and settings begin and end."""
    spans = []
    for pattern in (_HEADER, _FIELD, _OPTION, _SETTING):
        for match in pattern.finditer(text):
            group = str(match.lastgroup)
            if not _is_variable(match[group]):
                spans.append(match.span(group))
    return spans


def _keys_of_services(text: str) -> list[tuple[int, int]]:
    """Return where keys begin and end that are recognised by their form alone."""
    spans = []
    for pattern in (_FORMS, _HOOKS):
        for match in pattern.finditer(text):
            spans.append((match.start(), _end_of_key(text, match.end())))
    for match in _SECRET_KEY_OF_AWS.finditer(text):
        # the only key of this length with mixed letters; digests have small ones
        if looks_random(match.group()):
            spans.append(match.span())
    return spans


def _end_of_key(text: str, end: int) -> int:
    """Where a key ends whose form says how it begins: with its block, or its last character."""
    if text.endswith("PRIV", 0, end):
        block = _END_OF_BLOCK.search(text, end)
        return block.end() if block else len(text)
    key_end = _REST_OF_KEY.match(text, end)
    return key_end.end() if key_end else end


def _is_variable(value: str) -> bool:
    """Whether a value consists of names of environment variables, perhaps with signs
    between them.
    """
    constant_text, variables = _VARIABLE.subn("", value)
    return variables > 0 and not re.search(r"\w", constant_text)


def _is_token_of_user(scheme: str, user: str) -> bool:
    """Whether the part before the @ of a URL, which has no password, is a token."""
    name, _, password = user.partition(":")
    if password or not name or _is_variable(name):
        return False
    return scheme.rpartition("+")[2].lower() in _WEB or looks_random(name)


def _is_credential_parameter(name: str, value: str) -> bool:
    plain = re.sub(r"[-_.+ ]", "", unquote_plus(name)).lower()
    decoded = unquote_plus(value)
    if _is_variable(value):
        return False
    if (
        plain in PARAMETERS
        or plain.endswith(ENDS)
        or (decoded != value and holds_credential(decoded))
    ):
        return True
    return not _NAMES_OF_THINGS.search(name) and looks_random(decoded.rstrip(".,:;)"))


def looks_random(value: str) -> bool:
    """Whether a text has the length and the mixture of characters of a key; no word, date or digest
    has.
    """
    if len(value) < LEAST_KEY or not re.fullmatch(r"[\w+/=.~-]+", value):
        return False
    kinds = (r"[a-z]", r"[A-Z]", r"\d")
    if not all(re.search(kind, value) for kind in kinds):
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    changes = len(re.findall(r"[a-z](?=[A-Z\d])|\d(?=[A-Za-z])|[A-Z](?=\d)", value))
    return entropy >= LEAST_ENTROPY and changes * 5 >= len(value)
