"""Rows the fuzzer starts from: the daily commands of developers that this machine can run, hostile ones, and pieces."""

from pathlib import Path

_HERE = Path(__file__).parent

DAILY = (
    *(_HERE / "daily.txt").read_text("utf-8").splitlines(),
    "cat <<'E'\n$(reboot)\nE",
    "cat <<E\n$HOME\nE",
    "cat > build/here.txt <<'E'\na; b\nE\n",
    "cat <<-E\n\ta\n\tE\n",
)
HOSTILE = tuple((_HERE / "hostile.txt").read_text("utf-8").splitlines())
# What is looked up in PATH: never a builtin, so that the trace shows its arguments.
EXTERNAL = ("/bin/echo", "/bin/echo", "/bin/echo", "/usr/bin/printf", "cat", "ls", "wc", "head -n1", "grep -c", "touch", "basename", "stat", "sort", "git log -1 --", "git status --", "du -s", "file", "echo", "printf %s", "mkdir -p", "rm -f", "tail -n1", "cut -c1", "md5sum", "diff", "cp a.txt", "sed -n 1p", "find", "test -f", "tee", "ls -d --", "/usr/bin/env echo")  # fmt: skip
PATHS = ("a.txt", "b.txt", "src", "src/app.py", "README.md", "build/x", "docs", ".", "./a.txt", "src/../a.txt", "data.csv", "a b.txt", "no/such", "-n", "--", "build", "é.txt", "a=b", "x,y")  # fmt: skip
TEXTS = ("a", "b c", "", "x=1", "rm -rf /", "$(reboot)", "`id`", "a;b", "a|b", "#c", "~", "*", "{a,b}", "it's", 'say "hi"', "\\", "é", "日本", "a\tb", "a\nb", "!", "[x]", "&&", "->", "%s", "1", "-e", "-x", "$x", "^a", "@", "+%s", "0")  # fmt: skip
SECRETS = ("/etc/passwd", "../x", "~/.ssh/id_rsa", ".env", ".git/config", ".flyball/policy.toml", "/x", "/tmp/x", "/home/dev/.bashrc", "/dev/sda", "/proc/self/environ", ".claude/settings.json", "src/../../x", "/w/repo/../x", "https://x.example", "./tools.sh", "-exec", "--exec=id", "--output=/x")  # fmt: skip
VARIABLES = ("CI=1", "PATH=.", "LD_PRELOAD=./x", "GIT_DIR=x", "PAGER=./tools.sh", "IFS=/", "X=$(id)", "BASH_ENV=tools.sh", "HOME=/x", "a[0]=1", "x+=y", "PYTHONPATH=/x", "TZ=UTC", "LC_ALL=C", "SHELLOPTS=x", "PS4='$(id)'")  # fmt: skip
PIECES = ("'", '"', "`", "$(", ")", "${", "}", "((", "))", "[[", "]]", "<<E\n", "\\", "\n", "#", ";", "&", "|", ">", "<", "{a,b}", "*", "~", "$x", "é", "\u200b", "\0", "\r", "\x1b", "$'", "coproc ", "function ", "!", "=", "--", "&>", "<>", ";;", "esac", "do", "fi", " ", "\t", "\\\n", "'' ", '""', "$", "?", "[a]", "-", "$((", "<(", ">(", "2>&1", "+", "/", "..", ",", "%", "^", "@", "(", "{", "<<<", ">>", "|&", ";&", '$"', "\u00a0", "\ufeff", "\u0430", "$?", "$#", "$*", "~+", "\\x", "\\'", "time ", "in ", "then ", "time -p ", "$'\\'", "E\n", " # ", "${x", "1>", "\v")  # fmt: skip
