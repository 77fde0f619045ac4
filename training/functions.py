"""Generated requests for small Python functions, with the code.

A few functions are fixed. Most combine a task ("counts the ... numbers in a list") with a condition or an operation. So a small
model learns how the code depends on the request.
"""

from __future__ import annotations

from collections.abc import Iterator

# description -> (name, parameters, body)
Function = tuple[str, str, str]
KNOWN: dict[str, Function] = {
    "adds two numbers": ("add", "a, b", "return a + b"),
    "subtracts two numbers": ("subtract", "a, b", "return a - b"),
    "multiplies two numbers": ("multiply", "a, b", "return a * b"),
    "divides two numbers": ("divide", "a, b", "if b == 0:\n    return None\nreturn a / b"),
    "adds three numbers": ("add_three", "a, b, c", "return a + b + c"),
    "returns the larger of two numbers": ("larger", "a, b", "if a > b:\n    return a\nreturn b"),
    "returns the smaller of two numbers": ("smaller", "a, b", "if a < b:\n    return a\nreturn b"),
    "returns the difference of two numbers": ("difference", "a, b", "return abs(a - b)"),
    "returns the square of a number": ("square", "x", "return x * x"),
    "returns the cube of a number": ("cube", "x", "return x * x * x"),
    "returns the largest number in a list": ("largest", "numbers", "best = numbers[0]\nfor n in numbers:\n    if n > best:\n        best = n\nreturn best"),
    "returns the smallest number in a list": ("smallest", "numbers", "best = numbers[0]\nfor n in numbers:\n    if n < best:\n        best = n\nreturn best"),
    "returns the sum of a list": ("total", "numbers", "result = 0\nfor n in numbers:\n    result += n\nreturn result"),
    "returns the product of a list": ("product", "numbers", "result = 1\nfor n in numbers:\n    result *= n\nreturn result"),
    "returns the average of a list": ("average", "numbers", "return sum(numbers) / len(numbers)"),
    "returns the first item of a list": ("first", "items", "return items[0]"),
    "returns the last item of a list": ("last", "items", "return items[-1]"),
    "counts the items in a list": ("count", "items", "result = 0\nfor item in items:\n    result += 1\nreturn result"),
    "removes duplicates from a list": ("unique", "items", "result = []\nfor item in items:\n    if item not in result:\n        result.append(item)\nreturn result"),
    "reverses a list": ("reverse", "items", "return items[::-1]"),
    "sorts a list": ("sort", "items", "return sorted(items)"),
    "tells whether a list is empty": ("is_empty", "items", "return len(items) == 0"),
    "reverses a string": ("reverse", "text", "return text[::-1]"),
    "returns the length of a string": ("length", "text", "return len(text)"),
    "counts the vowels in a string": ("count_vowels", "text", "result = 0\nfor letter in text:\n    if letter in 'aeiou':\n        result += 1\nreturn result"),
    "counts the words in a string": ("count_words", "text", "return len(text.split())"),
    "counts how often a letter is in a string": ("count_letter", "text, letter", "result = 0\nfor c in text:\n    if c == letter:\n        result += 1\nreturn result"),
    "tells whether a word is a palindrome": ("is_palindrome", "word", "return word == word[::-1]"),
    "makes a string upper case": ("upper", "text", "return text.upper()"),
    "makes a string lower case": ("lower", "text", "return text.lower()"),
    "returns the longest word in a list": ("longest", "words", "best = words[0]\nfor word in words:\n    if len(word) > len(best):\n        best = word\nreturn best"),
    "returns the factorial of a number": ("factorial", "n", "result = 1\nfor i in range(1, n + 1):\n    result *= i\nreturn result"),
    "returns the first n Fibonacci numbers": ("fibonacci", "n", "result = [0, 1]\nwhile len(result) < n:\n    result.append(result[-1] + result[-2])\nreturn result[:n]"),
    "tells whether a number is prime": ("is_prime", "n", "if n < 2:\n    return False\nfor i in range(2, n):\n    if n % i == 0:\n        return False\nreturn True"),
    "returns the area of a rectangle": ("area", "width, height", "return width * height"),
    "returns the perimeter of a rectangle": ("perimeter", "width, height", "return 2 * (width + height)"),
    "returns the area of a circle": ("area", "radius", "return 3.14159 * radius * radius"),
    "returns the area of a triangle": ("area", "base, height", "return base * height / 2"),
    "returns the area of a square": ("area", "side", "return side * side"),
    "prints the numbers from 1 to n": ("count_to", "n", "for i in range(1, n + 1):\n    print(i)"),
    "counts down from n": ("count_down", "n", "while n > 0:\n    print(n)\n    n -= 1"),
    "says hello to somebody": ("hello", "name", 'return f"Hello, {name}!"'),
}  # fmt: skip

# Properties of a number: (word, name, condition).
CONDITIONS = (
    ("even", "even", "n % 2 == 0"), ("odd", "odd", "n % 2 == 1"), ("positive", "positive", "n > 0"),
    ("negative", "negative", "n < 0"), ("large", "large", "n > 100"), ("small", "small", "n < 10"),
)  # fmt: skip
# Operations on the numbers with a property: (request, name, body).
TASKS = (
    ("counts the {} numbers in a list", "count_{}", "result = 0\nfor n in numbers:\n    if {}:\n        result += 1\nreturn result"),
    ("returns the {} numbers of a list", "keep_{}", "result = []\nfor n in numbers:\n    if {}:\n        result.append(n)\nreturn result"),
    ("returns the sum of the {} numbers in a list", "sum_{}", "result = 0\nfor n in numbers:\n    if {}:\n        result += n\nreturn result"),
    ("prints the {} numbers of a list", "print_{}", "for n in numbers:\n    if {}:\n        print(n)"),
    ("returns the first {} number in a list", "first_{}", "for n in numbers:\n    if {}:\n        return n\nreturn None"),
    ("tells whether all numbers in a list are {}", "all_{}", "for n in numbers:\n    if not {}:\n        return False\nreturn True"),
)  # fmt: skip
# Operations on every number: (request, name, expression).
CHANGES = (
    ("doubles", "double", "n * 2"), ("triples", "triple", "n * 3"), ("squares", "square", "n * n"), ("halves", "halve", "n / 2"),
    ("negates", "negate", "-n"), ("adds one to", "add_one_to", "n + 1"), ("adds ten to", "add_ten_to", "n + 10"),
)  # fmt: skip
# Conversions: (from, to, formula).
CONVERSIONS = (
    ("Celsius", "Fahrenheit", "{} * 9 / 5 + 32"), ("Fahrenheit", "Celsius", "({} - 32) * 5 / 9"), ("minutes", "seconds", "{} * 60"),
    ("hours", "minutes", "{} * 60"), ("days", "hours", "{} * 24"), ("weeks", "days", "{} * 7"), ("feet", "inches", "{} * 12"),
    ("dollars", "cents", "{} * 100"), ("kilometers", "meters", "{} * 1000"), ("meters", "centimeters", "{} * 100"),
    ("seconds", "minutes", "{} / 60"), ("cents", "dollars", "{} / 100"),
)  # fmt: skip

REQUESTS = (
    "Write a Python function that {}.", "Write a function in Python that {}.", "Please write a Python function that {}.",
    "I need a Python function that {}.", "Write Python code for a function that {}.", "Python: a function that {}.",
)  # fmt: skip
ORDERED = "Write a Python function that does this: {}."


def functions() -> Iterator[tuple[str, str]]:
    """Yield (question, code) for every function and every wording of its request."""
    for does, (name, parameters, body) in _all():
        code = f"def {name}({parameters}):\n" + "\n".join("    " + line for line in body.split("\n"))
        yield from ((ask.format(does), code) for ask in REQUESTS)
        yield ORDERED.format(_order(does)), code


def _all() -> Iterator[tuple[str, Function]]:
    yield from KNOWN.items()
    for word, short, condition in CONDITIONS:
        yield f"tells whether a number is {word}", (f"is_{short}", "n", f"return {condition}")
        for does, name, body in TASKS:
            yield does.format(word), (name.format(short), "numbers", body.format(condition))
    for does, name, changed in CHANGES:
        yield f"{does} every number in a list", (f"{name}_all", "numbers", f"return [{changed} for n in numbers]")
        yield f"{does} a number", (name, "n", f"return {changed}")
    for a, b, formula in CONVERSIONS:
        yield f"converts {a} to {b}", (f"to_{b.lower()}", a.lower(), f"return {formula.format(a.lower())}")


def _order(does: str) -> str:
    """Return a description as an imperative: "returns the sum" becomes "Return the sum"."""
    verb, object_ = does.split(" ", 1)
    verb = verb.removesuffix("ies") + "y" if verb.endswith("ies") else verb.removesuffix("s")
    return f"{verb.capitalize()} {object_}"
