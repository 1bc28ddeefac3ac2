"""Matrices as lists of rows."""


def shape(a):
    return (len(a), len(a[0]) if a else 0)


def zeros(rows, columns):
    return [[0] * columns for _ in range(rows)]


def identity(n):
    out = zeros(n, n)
    for i in range(n):
        out[i][i] = 1
    return out


def transpose(a):
    rows, columns = shape(a)
    return [[a[i][j] for i in range(rows)] for j in range(columns)]


def add(a, b):
    if shape(a) != shape(b):
        raise ValueError("shapes differ")
    return [[x + y for x, y in zip(r, s)] for r, s in zip(a, b)]


def scale(a, factor):
    return [[x * factor for x in row] for row in a]


def multiply(a, b):
    rows, inner = shape(a)
    other, columns = shape(b)
    if inner != other:
        raise ValueError("shapes do not fit")
    out = zeros(rows, columns)
    for i in range(rows):
        for j in range(columns):
            for k in range(inner):
                out[i][j] += a[i][k] * b[k][j]
    return out


def power(a, n):
    """By squaring."""
    out = identity(len(a))
    while n > 0:
        if n % 2 == 1:
            out = multiply(out, a)
        a = multiply(a, a)
        n //= 2
    return out


def minor(a, row, column):
    return [[x for j, x in enumerate(r) if j != column] for i, r in enumerate(a) if i != row]


def determinant(a):
    rows, columns = shape(a)
    if rows != columns:
        raise ValueError("not square")
    if rows == 1:
        return a[0][0]
    total = 0
    for j in range(columns):
        sign = -1 if j % 2 else 1
        total += sign * a[0][j] * determinant(minor(a, 0, j))
    return total


def trace(a):
    return sum(a[i][i] for i in range(len(a)))


def is_symmetric(a):
    rows, columns = shape(a)
    return rows == columns and all(a[i][j] == a[j][i] for i in range(rows) for j in range(i))


def spiral(a):
    """All values, clockwise from the top left."""
    out = []
    rest = [list(row) for row in a]
    while rest:
        out += rest.pop(0)
        rest = [list(row) for row in zip(*rest)][::-1]
    return out
