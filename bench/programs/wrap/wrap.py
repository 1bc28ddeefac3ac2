"""Text in columns: wrapping, aligning, tables."""


def wrap(text, width):
    """Lines of at most this width; a word that is too long gets a line of its own."""
    lines = []
    line = ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def justify(line, width):
    """Spread the spaces so that the line is exactly this wide, more of them on the left."""
    words = line.split()
    if len(words) < 2:
        return line
    spaces = width - sum(len(word) for word in words)
    gaps = len(words) - 1
    each, more = divmod(spaces, gaps)
    out = words[0]
    for at, word in enumerate(words[1:]):
        out += " " * (each + (1 if at < more else 0)) + word
    return out


def paragraph(text, width):
    lines = wrap(text, width)
    return "\n".join([justify(line, width) for line in lines[:-1]] + lines[-1:])


def shorten(text, width, mark="..."):
    if len(text) <= width:
        return text
    return text[: width - len(mark)].rstrip() + mark


def center(text, width, fill=" "):
    left = (width - len(text)) // 2
    right = width - len(text) - left
    return fill * left + text + fill * right


def table(rows):
    """Columns as wide as their widest cell; numbers to the right."""
    if not rows:
        return ""
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for cell, width in zip(row, widths):
            if isinstance(cell, int):
                cells.append(str(cell).rjust(width))
            else:
                cells.append(str(cell).ljust(width))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def indent(text, by=4, first=None):
    """Every line but empty ones; the first one may differ."""
    out = []
    for number, line in enumerate(text.split("\n")):
        spaces = by if number or first is None else first
        out.append(" " * spaces + line if line else line)
    return "\n".join(out)
