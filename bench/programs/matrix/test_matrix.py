import pytest
from matrix import (
    add,
    determinant,
    identity,
    is_symmetric,
    minor,
    multiply,
    power,
    scale,
    shape,
    spiral,
    trace,
    transpose,
)

A = [[1, 2, 3], [4, 5, 6]]
B = [[7, 8], [9, 10], [11, 12]]
SQUARE = [[2, 0, 1], [1, 3, 2], [1, 1, 4]]


def test_shape():
    assert shape(A) == (2, 3)
    assert shape([]) == (0, 0)


def test_identity():
    assert identity(2) == [[1, 0], [0, 1]]


def test_transpose():
    assert transpose(A) == [[1, 4], [2, 5], [3, 6]]


def test_add_and_scale():
    assert add(A, A) == scale(A, 2) == [[2, 4, 6], [8, 10, 12]]
    with pytest.raises(ValueError):
        add(A, B)


def test_multiply():
    assert multiply(A, B) == [[58, 64], [139, 154]]
    assert multiply(SQUARE, identity(3)) == SQUARE
    with pytest.raises(ValueError):
        multiply(A, A)


def test_power():
    fibonacci = [[1, 1], [1, 0]]
    assert power(fibonacci, 10) == [[89, 55], [55, 34]]
    assert power(fibonacci, 0) == identity(2)
    assert power([[3]], 5) == [[243]]


def test_minor():
    assert minor(SQUARE, 0, 1) == [[1, 2], [1, 4]]


def test_determinant():
    assert determinant([[4]]) == 4
    assert determinant([[1, 2], [3, 4]]) == -2
    assert determinant(SQUARE) == 18
    with pytest.raises(ValueError):
        determinant(A)


def test_trace():
    assert trace(SQUARE) == 9


def test_symmetry():
    assert is_symmetric([[1, 2], [2, 1]])
    assert not is_symmetric([[1, 2], [3, 1]])
    assert not is_symmetric(A)
    assert not is_symmetric([[1, 0, 0], [0, 1, 5], [0, 6, 1]])


def test_spiral():
    assert spiral([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) == [1, 2, 3, 6, 9, 8, 7, 4, 5]
    assert spiral(A) == [1, 2, 3, 6, 5, 4]
    assert spiral([]) == []
