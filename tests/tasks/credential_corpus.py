"""Two hundred made-up secrets of over thirty kinds, and a thousand harmless values.

They are built when the tests run, because scanners of repositories refuse files that hold such
texts.
"""

from __future__ import annotations

import base64
import random
import string
from urllib.parse import quote

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def secrets(seed: int = 5) -> list[tuple[str, str]]:
    """Pairs of a text that holds a secret, and the part that nobody may see."""
    chance = random.Random(seed)

    def word(count: int, letters: str = LETTERS) -> str:
        return "".join(chance.choice(letters) for _ in range(count - 2)) + "q7"

    pairs = []
    for _ in range(6):
        plain = word(12)
        key = word(40)
        upper = word(18, string.ascii_uppercase + string.digits).upper()[:16]
        hexes = word(34, HEX)[:32]
        odbc = quote(f"DRIVER={{ODBC}};SERVER=h;UID=me;PWD={plain}")
        basic = base64.b64encode(f"me:{plain}".encode()).decode()
        web = f"eyJ{word(20)}.eyJ{word(30)}.{word(40)}"
        pairs += [
            (f"postgresql://me:{plain}@db.example/people", plain),
            (f"https://{plain}@host.example/x.csv", plain),
            (f"https://host.example/x.csv?key={plain}", plain),
            (f"https://host.example/x.csv?code={plain}&a=1", plain),
            (f"https://host.example/x.csv?jwt={web}", web),
            (f"https://host.example/x.csv#access_token={plain}", plain),
            (f"https://host.example/x.csv?sv=2024&sig={plain}%3D", plain),
            (f"https://host.example/x.csv?X-Amz-Signature={hexes}", hexes),
            (f"https://host.example/x.csv?pat={plain}", plain),
            (f"https://host.example/next?to=https%3A%2F%2Fh%2F%3Ftoken%3D{plain}", plain),
            (f"mssql+pyodbc:///?odbc_connect={odbc}", plain),
            (f"jdbc:sqlserver://host;user=me;password={plain}", plain),
            (f"Server=h;Uid=me;Pwd={{{plain}}};", plain),
            (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={key}==", key),
            (f"Endpoint=sb://h/;SharedAccessKeyName=a;SharedAccessKey={key}", key),
            (f"Authorization: Bearer {plain}", plain),
            (f"Authorization: Basic {basic}", basic),
            (f"X-Api-Key: {plain}", plain),
            (f"PRIVATE-TOKEN: {plain}", plain),
            (f"Cookie: session={plain}; path=/", plain),
            (f'{{"user": "me", "password": "{plain}"}}', plain),
            (f"curl --user me:{plain} host", plain),
            (f"tool --password {plain} --verbose", plain),
            (f"export WAREHOUSE_TOKEN={plain}", plain),
            (f"AKIA{upper}", upper),
            (f"aws_secret_access_key = {key}", key),
            (f"ghp_{key}", key),
            (f"glpat-{word(20)}", ""),
            (f"xoxb-{word(12, string.digits)}-{word(24)}", ""),
            (f"sk-ant-api03-{word(60)}", ""),
            (f"hf_{word(34, string.ascii_letters)}abcdef", ""),
            (f"whsec_{word(32)}", ""),
            (f"SG.{word(22)}.{word(43)}", ""),
            (f"https://hooks.slack.com/services/T0{upper[:6]}/B0{upper[:6]}/{word(24)}", ""),
            (f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----", key),
        ]
    return pairs


def harmless(seed: int = 6) -> list[str]:
    """Addresses, values, descriptions and digests as jobs, contracts and policies have them."""
    chance = random.Random(seed)
    names = (
        "people income age education region loan credit score bank campaign marital month salary "
        "token password key secret session code authorization cookie basic bearer pass user data"
    )
    words = names.split()
    values = []
    for number in range(50):
        a, b, c = chance.sample(words, 3)
        digest = "".join(chance.choice(HEX) for _ in range(64))
        year = 1990 + number % 35
        identifier = "".join(chance.choice(LETTERS) for _ in range(28))
        values += [
            f"/srv/{a}/{b}-{year}.csv",
            f"s3://bucket/{a}/{b}/part-{number:05d}.parquet",
            f"https://host.example/{a}/{b}/{year}.csv?page={number}&sort={b}",
            f"https://docs.google.com/spreadsheets/d/{identifier}/export?format=csv",
            f"https://host.example/x.csv?sha256={digest}",
            f"postgresql://${{DB_USER}}:${{DB_PASSWORD}}@host:5432/{a}",
            f"postgresql://reader@host.example/{a}",
            f"https://host.example/x.csv?token=$TOKEN&year={year}",
            f"select {a}, {b} from {c} where {a} = {number} and {b} is not null",
            f"The {a} of a person; {b} by {c}, in {year}.",
            f"{a}: {b} of the {c}",
            f"sha256:{digest}",
            digest[:40],
            f"models:/{a}-{b}/{number + 1}",
            f"{year}-0{number % 9 + 1}-1{number % 9}T10:00:00Z",
            f"{chance.random():.12f}",
            f"contact: {a}.{b}@example.org, phone +49 {number}{year}",
            f"job-{a}-{b}-{c}-{year}-{number}",
            f"DE{chance.randrange(10**20):020d}",
            f"{a}_{b}_{c} >= {number}; {b}={c}",
        ]
    return values
