"""Comma-separated records: reading, writing, asking."""


def split_line(line, separator=","):
    """The fields of a line; quotes keep separators, a doubled quote is a quote."""
    fields = []
    field = ""
    quoted = False
    at = 0
    while at < len(line):
        char = line[at]
        if quoted:
            if char == '"' and line[at + 1 : at + 2] == '"':
                field += '"'
                at += 1
            elif char == '"':
                quoted = False
            else:
                field += char
        elif char == '"':
            quoted = True
        elif char == separator:
            fields.append(field)
            field = ""
        else:
            field += char
        at += 1
    if quoted:
        raise ValueError("a quote is not closed")
    fields.append(field)
    return fields


def join_fields(fields, separator=","):
    out = []
    for field in fields:
        text = str(field)
        if separator in text or '"' in text:
            text = '"' + text.replace('"', '""') + '"'
        out.append(text)
    return separator.join(out)


def convert(text):
    """Numbers as numbers, nothing as None, all else as text."""
    text = text.strip()
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def parse(text):
    """Records as dictionaries; the first line names the fields, empty lines are skipped."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    names = [name.strip() for name in split_line(lines[0])]
    records = []
    for number, line in enumerate(lines[1:], start=2):
        fields = split_line(line)
        if len(fields) != len(names):
            raise ValueError(f"line {number} has {len(fields)} fields, not {len(names)}")
        records.append({name: convert(field) for name, field in zip(names, fields)})
    return records


def where(records, **wanted):
    return [record for record in records if all(record.get(key) == value for key, value in wanted.items())]


def group_by(records, key):
    groups = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return groups


def mean(records, key):
    """The average of the numbers there are; None if there are none."""
    values = [record[key] for record in records if record[key] is not None]
    if not values:
        return None
    return sum(values) / len(values)


def top(records, key, count=3):
    known = [record for record in records if record[key] is not None]
    return sorted(known, key=lambda record: record[key], reverse=True)[:count]
