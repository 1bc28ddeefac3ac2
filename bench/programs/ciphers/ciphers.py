"""Old ciphers and codes."""

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
MORSE = {
    "a": ".-", "b": "-...", "c": "-.-.", "d": "-..", "e": ".", "g": "--.", "h": "....", "i": "..",
    "k": "-.-", "l": ".-..", "m": "--", "n": "-.", "o": "---", "r": ".-.", "s": "...", "t": "-",
}  # fmt: skip


def shift(letter, by):
    """The letter so many places further on; case stays, all else is left alone."""
    lower = letter.lower()
    if lower not in ALPHABET:
        return letter
    moved = ALPHABET[(ALPHABET.index(lower) + by) % len(ALPHABET)]
    return moved.upper() if letter.isupper() else moved


def caesar(text, by):
    return "".join(shift(letter, by) for letter in text)


def vigenere(text, key, decode=False):
    out = []
    used = 0
    for letter in text:
        if letter.lower() in ALPHABET:
            by = ALPHABET.index(key[used % len(key)].lower())
            out.append(shift(letter, -by if decode else by))
            used += 1
        else:
            out.append(letter)
    return "".join(out)


def to_morse(text):
    words = []
    for word in text.lower().split():
        words.append(" ".join(MORSE[letter] for letter in word if letter in MORSE))
    return " / ".join(words)


def from_morse(code):
    letters = {signs: letter for letter, signs in MORSE.items()}
    words = code.split(" / ")
    return " ".join("".join(letters.get(signs, "?") for signs in word.split()) for word in words)


def run_length(text):
    """aaab as 3a1b."""
    out = ""
    at = 0
    while at < len(text):
        end = at
        while end < len(text) and text[end] == text[at]:
            end += 1
        out += f"{end - at}{text[at]}"
        at = end
    return out


def expand(code):
    out = ""
    count = ""
    for char in code:
        if char.isdigit():
            count += char
        else:
            out += char * int(count)
            count = ""
    return out


def rail_fence(text, rails):
    """Written in a zigzag over so many lines, read line by line."""
    if rails < 2:
        return text
    lines = [""] * rails
    row, step = 0, 1
    for letter in text:
        lines[row] += letter
        if row == 0:
            step = 1
        elif row == rails - 1:
            step = -1
        row += step
    return "".join(lines)


def likely_shift(text):
    """The shift under which the commonest letter is an e."""
    letters = [letter for letter in text.lower() if letter in ALPHABET]
    if not letters:
        return 0
    commonest = max(sorted(set(letters)), key=letters.count)
    return (ALPHABET.index(commonest) - ALPHABET.index("e")) % 26
