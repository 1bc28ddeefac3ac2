"""A calculator: tokens, a parser with precedence, variables."""

OPERATORS = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}
RIGHT = {"^"}


class BadInput(Exception):
    pass


def tokens(text):
    """Numbers, names, operators and parentheses, in order."""
    out = []
    at = 0
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
        elif char.isdigit() or char == ".":
            end = at
            while end < len(text) and (text[end].isdigit() or text[end] == "."):
                end += 1
            out.append(("number", float(text[at:end])))
            at = end
        elif char.isalpha():
            end = at
            while end < len(text) and text[end].isalnum():
                end += 1
            out.append(("name", text[at:end]))
            at = end
        elif char in OPERATORS or char in "()=":
            out.append((char, char))
            at += 1
        else:
            raise BadInput(f"unexpected {char!r} at {at}")
    return out


def apply(operator, left, right):
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        if right == 0:
            raise BadInput("division by zero")
        return left / right
    return left**right


class Calculator:
    def __init__(self):
        self.names = {"pi": 3.14159}
        self.rest = []

    def run(self, text):
        """The value of a line; `name = value` also remembers it."""
        self.rest = tokens(text)
        if len(self.rest) > 2 and self.rest[0][0] == "name" and self.rest[1][0] == "=":
            name = self.rest[0][1]
            self.rest = self.rest[2:]
            self.names[name] = self.expression(0)
            value = self.names[name]
        else:
            value = self.expression(0)
        if self.rest:
            raise BadInput(f"unexpected {self.rest[0][1]!r}")
        return value

    def expression(self, least):
        left = self.factor()
        while self.rest and OPERATORS.get(self.rest[0][0], 0) > least:
            operator = self.rest.pop(0)[0]
            level = OPERATORS[operator]
            right = self.expression(level - 1 if operator in RIGHT else level)
            left = apply(operator, left, right)
        return left

    def factor(self):
        if not self.rest:
            raise BadInput("unexpected end")
        kind, value = self.rest.pop(0)
        if kind == "number":
            return value
        if kind == "name":
            if value not in self.names:
                raise BadInput(f"unknown name {value!r}")
            return self.names[value]
        if kind == "-":
            return -self.expression(2)
        if kind == "(":
            inner = self.expression(0)
            if not self.rest or self.rest.pop(0)[0] != ")":
                raise BadInput("missing )")
            return inner
        raise BadInput(f"unexpected {value!r}")
