"""Print pip's settings as shell commands that set uv's variables, because uv reads none of pip's.

python envs/uv_settings.py  (with the Python whose pip settings are used)
"""

import ast
import shlex
import subprocess
import sys

# pip's setting -> uv's variable, and the separator of its values
VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
SOURCES = ("global", "install", ":env:")  # a later one replaces an earlier one, as in pip


def pip_settings() -> dict[str, str]:
    """Each setting of pip, such as `global.index-url`, and its value."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    return {name: ast.literal_eval(value) for name, _, value in (line.partition("=") for line in listing.splitlines())}


def main() -> None:
    settings = pip_settings()
    for setting, (variable, separator) in VARIABLES.items():
        values = [settings[name] for source in SOURCES if (name := f"{source}.{setting}") in settings]
        if values:
            print(f"export {variable}={shlex.quote(separator.join(values[-1].split()))}")


if __name__ == "__main__":
    main()
