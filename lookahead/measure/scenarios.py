"""Presets: a prompt, a suitable method and a note for readers. The training text of the bundled models has none of the prompts."""

import json
from dataclasses import dataclass, field
from typing import Any

DEFAULT_FAMILY = "pocket"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A preset. `options` are settings that differ from the defaults; `further` are additional methods, before the main one."""

    id: str
    label: str
    category: str
    prompt: str
    method: str
    note: str
    chat: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    family: str = DEFAULT_FAMILY  # also the family of its recording

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to race against naive, in the order of their lanes."""
        return (*self.further, self.method)


FOX = "Once upon a time, there was a small fox who"  # its first draft is accepted, and its second one is not
FROG = "Once upon a time there was a small frog who"
ITEMS = "Item: apples\nPrice: 20\n\nItem: pears\nPrice: 31\n\nItem: books\nPrice:"
RECORDS = "Name: Anna\nAge: 23\nCity: Denver\n\nName: Ben\nAge: 31\nCity: Miami\n\nName: Lily\nAge:"
WORDS = (
    "river moon old friend under the garden and small box\nnear the door cake sun wind star boat over road\n"
    "happy bird sat on a tree rain song window lake\nsnow big house with a young cat found the night\n"
    "morning hill took little game and saw the star near"
)
MORE_WORDS = (
    "hill game morning little found gave moon bird door\ncake young old star river saw took lake under\n"
    "night friend song road box sun tree happy wind rain\nhouse with a boat snow ran garden near window\n"
    "big the moon over a box made under small hill"
)


def _object(**properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties. A tuple has the allowed texts."""
    schemas = {name: {"enum": [*value]} if isinstance(value, tuple) else value for name, value in properties.items()}
    return {"type": "object", "properties": schemas, "required": [*schemas], "additionalProperties": False}


def _list(items: dict[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


WORD, COUNT, CHECKED = (
    {"type": "string", "maxLength": 24},
    {"type": "integer", "minimum": 0, "maximum": 999},
    {"type": "boolean"},
)
PEOPLE = _list(_object(Name=WORD, Age=COUNT, City=WORD), 3, 3)
ORDER = _object(item=WORD, size=("S", "M", "L", "XL"), color=WORD, price=COUNT, currency=("dollars", "euros"))
ADOPTION = _object(
    pet_name=WORD, species=("dog", "cat", "rabbit"), age_in_years=COUNT, vaccinated=CHECKED, good_with_children=CHECKED
)
TOPICS = {"enum": ["battery", "screen", "support", "price"]}
REVIEW = _object(sentiment=("positive", "neutral", "negative"), topics=_list(TOPICS, 1, 2), recommended=CHECKED)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "story", "story", "story", FOX, "hybrid",
        "A good match: the draft model was trained on simple stories like this one. Compare drafted and accepted tokens.",
    ),
    Scenario(
        "tale", "tale", "tale", "Write a bedtime story called `The Lantern in the Snow`.", "hybrid",
        "A similar style: sentences are longer than in the story, but more tokens are accepted, because tales repeat typical phrases.", chat=True,
    ),
    Scenario(
        "records", "records", "repetitive", RECORDS, "ngram",
        "Repetitive content: the text repeats itself, so drafting needs no model.",
    ),
    Scenario(
        "json", "JSON", "repetitive", "Convert this CSV to JSON:\nName,Age,City\nAnna,23,Denver\nBen,31,Miami\nLily,40,Boston", "suffix",
        "Text to JSON: keys repeat in every record, and values are in the question. So earlier text predicts them.", chat=True,
    ),
    Scenario(
        "schema", "JSON by schema", "schema", "Convert this CSV to JSON:\nName,Age,City\nAnna,23,Denver\nBen,31,Miami\nLily,40,Boston", "hybrid",
        "Structured output: the text must match a schema. If it allows only one token, no model is needed to draft it.",
        chat=True, options={"schema": json.dumps(PEOPLE)}, further=("grammar",),
    ),
    Scenario(
        "code", "code", "code", "Write a Python function that does this: Return the largest number in a list.", "hybrid",
        "Another domain: brackets, indents and names are easy to predict, the algorithm is not.", chat=True,
    ),
    Scenario(
        "sum", "sum", "arithmetic", "Rosa has 14 shells. She finds 6 more and gives 3 to Omar. How many shells does she have now?", "hybrid",
        "A calculation in steps: its form is easy to predict, its numbers are not. See which drafted tokens are rejected.", chat=True,
    ),
    Scenario(
        "explain", "explain", "explain", "Explain rain like I'm five years old.", "hybrid",
        "Explanations vary more than stories, so more drafted tokens are rejected.", chat=True,
    ),
    Scenario(
        "quantum", "quantum", "explain", "Explain quantum computing:", "hybrid",
        "A common test prompt. A model of this size writes in the style of an explanation, but the content is wrong.", chat=True,
    ),
    Scenario(
        "hot", "hot", "sampled", FROG, "hybrid",
        "High entropy: at temperature 1, many tokens are likely. Acceptance depends on how well q matches p. If q = p, every draft is accepted.", options={"temperature": 1.0},
    ),
    Scenario(
        "short", "short", "story", FROG, "hybrid",
        "A short output: with 12 tokens, there is little to gain, and the draft length has not adapted yet.", options={"max_new_tokens": 12},
    ),
    Scenario(
        "mismatch", "wrong draft", "story", FROG, "draft",
        "A mismatched draft model: it was trained without stories. With k = auto, drafting almost stops.", options={"draft": "offdomain"},
    ),
    Scenario(
        "window", "Jacobi", "repetitive", ITEMS, "lookahead",
        "No draft model: the target computes n-grams in a Jacobi window and drafts from them. Open a pass to see the window.", options={"k": 4},
    ),
    Scenario(
        "generations", "generations", "story", FROG, "block",
        "Three trained heads: multi-token prediction, which many checkpoints include, EAGLE-3, and a head that drafts a block in one pass.", further=("mtp", "eagle"),
    ),
)  # fmt: skip

BICYCLE = (
    "Anna found an old bicycle in the cellar. On Sunday Anna cleaned it, mended the brakes and painted it blue. "
    "Now Anna rides it to work every day, and on Saturdays Anna takes it to the market."
)
BAKERY = (
    "Our village has a small bakery. The baker gets up at three in the morning and bakes forty loaves of bread. "
    "By noon most of them are sold, and the children wait for the last warm rolls."
)
CAKE = (
    "Anna baked a cake for the school fair. The cake had three layers, and Anna put strawberries on top. "
    "By noon the cake was gone, and everybody asked Anna for the recipe."
)
CODE = "def average(numbers):\n    total = 0\n    for n in numbers\n        total += n\n    return total / len(number)"


def _message(name: str, label: str, category: str, prompt: str, note: str = "", **changes: Any) -> Scenario:
    return Scenario(f"smol-{name}", label, category, prompt, "hybrid", note, chat=True, family="smol", **changes)


ANSWERS: tuple[Scenario, ...] = (
    _message(
        "explain", "explain", "explain", "Explain in simple words why the sky is blue.",
        "An explanation: its words are not in the question, so the trained head drafts almost all of it.",
    ),
    _message(
        "story", "story", "story", "Write a short story about an old lighthouse keeper and a storm.",
        "A story: the text that is hardest to predict. Drafts are often rejected at names and at surprises.",
    ),
    _message(
        "rewrite", "rewrite", "rewrite", f"Rewrite this text in two sentences:\n{BAKERY}",
        "Rewriting: lookup drafts the passages from the question, and the trained head drafts the other text.",
    ),
    _message(
        "fix", "fix this code", "code", f"Fix this Python function:\n{CODE}",
        "Code: indents, brackets and repeated names are easy to predict.",
    ),
    _message(
        "json", "extract as JSON", "extract",
        "Write this order as JSON with the keys item, size, colour and price:\nA shirt, size M, blue, 25 dollars.",
        "Extraction: keys and values are in the question, and quotes and brackets are easy to predict.",
    ),
    _message(
        "schema", "JSON by schema", "schema", "Write this order as JSON: a shirt, size M, blue, 25 dollars.",
        "Structured output: the schema forces names, quotes and brackets, so only the values need a guess.",
        options={"schema": json.dumps(ORDER)}, further=("grammar",),
    ),
    _message(
        "form", "fill in a form", "schema", "Fill in the adoption form for Bella, a dog that is two years old, vaccinated, good with children.",
        "A form: long field names are forced, and checked fields have two possible values.",
        options={"schema": json.dumps(ADOPTION)}, further=("grammar",),
    ),
    _message(
        "classify", "classify", "schema", "Classify this review: The phone is fast, but its battery is empty after four hours and the support never answered.",
        "Classification: the first letters of a class force the others.",
        options={"schema": json.dumps(REVIEW)}, further=("grammar",),
    ),
    _message(
        "list", "list", "list", "Give me seven tips for writing a good letter.",
        "A list: its form is easy to predict, its words are not. Later items repeat more of the earlier text.",
    ),
    _message(
        "date", "date", "copy", "Translate the date 14/07/1989 into words.",
        "A date in another form: with about 12 tokens, there is little to gain.",
    ),
    _message(
        "copy", "copy with a change", "copy", f"Copy this text, but write Maria instead of Anna:\n{CAKE}",
        "Copying: the next tokens are in the question, so lookup drafts long chains at almost no cost.",
    ),
)  # fmt: skip
CHIPS = (*SCENARIOS, *ANSWERS)

# Races of the teacher's plan that have no chip on the page.
TAUGHT: tuple[Scenario, ...] = (
    Scenario("same-text", "same text", "story", FROG, "draft", "Exactly four drafted tokens per pass.", options={"k": 4}),
    Scenario(
        "same-text-wrong-draft", "same text, mismatched draft", "story", FROG, "draft", "The same settings with a draft model trained without stories.", options={"k": 4, "draft": "offdomain"},
    ),
)  # fmt: skip
ALL_SCENARIOS = (*CHIPS, *TAUGHT)

# The bench prompts for chat models: seven kinds with six prompts each. The drafters were not trained on them.
ANSWERS_BENCH: tuple[Scenario, ...] = (
    *(s for s in ANSWERS if s.id != "smol-date" and s.category != "schema"),
    _message("explain-2", "explain", "explain", "Why do leaves change their colour in autumn?"),
    _message("explain-3", "explain", "explain", "Explain to a beginner what a database is."),
    _message("explain-4", "explain", "explain", "How does a refrigerator keep food cold?"),
    _message("explain-5", "explain", "explain", "Why is the sea salty? Answer for a child."),
    _message("explain-6", "explain", "explain", "Explain in four sentences what a vaccine does."),
    _message("story-2", "story", "story", "Write a fairy tale about a mouse who wants to become a king."),
    _message("story-3", "story", "story", "Tell a short story that begins with the words: The train was late again."),
    _message("story-4", "story", "story", "Write a short story about two neighbours who share one well."),
    _message("story-5", "story", "story", "Write the opening of a detective story set in a library."),
    _message("story-6", "story", "story", "Tell me a funny story about a parrot that repeats secrets."),
    _message("rewrite-2", "rewrite", "rewrite", "Write this message as a formal e-mail:\nhey, the printer on the second floor is broken again. can somebody fix it before noon?"),
    _message("rewrite-3", "rewrite", "rewrite", f"Summarise this text in two sentences:\n{BICYCLE}"),
    _message("rewrite-4", "rewrite", "rewrite", "Correct the mistakes in this sentence: Him and me was walking to the station when it start raining."),
    _message("rewrite-5", "rewrite", "rewrite", "Rewrite this text in a cheerful tone:\nThe bus was late, the shop was closed and the soup had gone cold. Still, nobody complained."),
    _message("rewrite-6", "rewrite", "rewrite", "Summarise in one sentence:\nThe committee met for three hours. It discussed the new playground, the broken street lamps and the price of parking. In the end it decided to repair the lamps first."),
    _message("code-2", "code", "code", "Write a Python class for a bank account with methods to deposit and withdraw money."),
    _message("code-3", "code", "code", "Write an HTML page with a heading, a paragraph and a list of three links."),
    _message("code-4", "code", "code", "Write a Python function that counts how often each word occurs in a text."),
    _message("code-5", "code", "code", "Fix this code:\ndef average(numbers):\n    total = 0\n    for n in numbers:\n        total =+ n\n    return total / len(number)"),
    _message("code-6", "code", "code", "Write a JavaScript function that reverses the words of a sentence."),
    _message("extract-2", "extract", "extract", "Convert this text to a list of ingredients:\nFor the cake you need two cups of flour, one cup of sugar, three eggs and half a pound of butter."),
    _message("extract-3", "extract", "extract", "Turn this into a Markdown table with the columns Fruit, Colour and Price:\napples, red, 2.50; bananas, yellow, 1.20; pears, green, 3.10; plums, blue, 2.80"),
    _message("extract-4", "extract", "extract", "Extract the date, the place and the price as JSON:\nThe concert takes place on 14 June in the town hall of Leeds. Tickets cost 18 euros."),
    _message("extract-5", "extract", "extract", "Make a CSV table with the columns Name, Team and Points:\nRuth plays for the Reds and has 31 points, Karl plays for the Blues and has 27, Ivan plays for the Reds and has 19."),
    _message("extract-6", "extract", "extract", "List the phone numbers in this message:\nCall the office at 555-0142 before noon. After that try 555-0177, or my sister at 555-0199."),
    _message("list-2", "list", "list", "List the months of the year with the number of days of each."),
    _message("list-3", "list", "list", "Give me eight ideas for a birthday party at home."),
    _message("list-4", "list", "list", "List seven things to pack for a week at the sea."),
    _message("list-5", "list", "list", "Make a numbered list of the planets from the Sun outwards."),
    _message("list-6", "list", "list", "Name five musical instruments and say in a few words how each is played."),
    _message("copy-2", "copy", "copy", "Write this poem again, line by line:\nThe moon is out, the wind is low,\nthe little boats are sailing slow.\nA bell is ringing far away,\nand night has come to end the day."),
    _message("copy-3", "copy", "copy", "Repeat this list and add two more items:\n- two pounds of flour\n- one cup of sugar\n- three eggs\n- half a pound of butter\n- a pinch of salt"),
    _message("copy-4", "copy", "copy", "Copy this text, but change every \"blue\" to \"green\":\nThe blue boat left the blue harbour at dawn. Its captain wore a blue coat and sang to the gulls until the blue hills were out of sight."),
    _message("copy-5", "copy", "copy", "Repeat the following text exactly:\nTurn left at the bakery, walk past the old mill and cross the second bridge. The house with the yellow door is ours. Ring twice, because the bell is quiet, and mind the cat."),
    _message("copy-6", "copy", "copy", "Write this recipe again, but for cherries instead of apples:\nPeel four apples and cut them into thin slices. Mix the apples with two spoons of sugar. Lay the apples on the dough and bake everything for forty minutes."),
)  # fmt: skip

BENCH: tuple[Scenario, ...] = (
    *(s for s in SCENARIOS if s.id not in ("schema", "code", "sum", "short", "mismatch", "window", "generations")),
    Scenario("json-2", "JSON", "repetitive", "Turn this CSV into JSON:\nName,Pet,Color\nAnna,cat,red\nBen,dog,blue\nLily,frog,green\nTom,hen,pink", "suffix", "", chat=True),
    Scenario("story-2", "story", "story", "Lily and Ben went to the park. They saw a big", "hybrid", ""),
    Scenario("story-3", "story", "story", "Tom had a red kite. It was a windy day, so", "hybrid", ""),
    Scenario("story-4", "story", "story", "One sunny morning a little mouse found a golden key", "hybrid", ""),
    Scenario("tale-2", "tale", "tale", "Write a bedtime story called `The Sleepy Cloud`.", "hybrid", "", chat=True),
    Scenario("tale-3", "tale", "tale", "Write a bedtime story called `Ellen Meets a Friendly Robot`.", "hybrid", "", chat=True),
    Scenario("tale-4", "tale", "tale", "Tell a story for children called Antonio and the Mysterious Map.", "hybrid", "", chat=True),
    Scenario("records-2", "records", "repetitive", ITEMS, "ngram", ""),
    Scenario("copy", "copy", "repetitive", f"Copy this text:\n{WORDS}", "ngram", "", chat=True),
    Scenario("copy-2", "copy", "repetitive", f"Write this again:\n{MORE_WORDS}", "suffix", "", chat=True),
    Scenario("code-1", "code", "code", "Calculate the area of a rectangle in Python.", "hybrid", "", chat=True),
    Scenario("code-2", "code", "code", "Calculate the average of a list in Python.", "hybrid", "", chat=True),
    Scenario("code-3", "code", "code", "Calculate the area of a rhombus. Write it in Python.", "hybrid", "", chat=True),
    Scenario("code-4", "code", "code", "Write a Python function. Calculate the Surface Area of a Hemisphere.", "hybrid", "", chat=True),
    Scenario("explain-2", "explain", "explain", "Explain the sun like I'm five years old.", "hybrid", "", chat=True),
    Scenario("hot-2", "hot", "sampled", "Lily and Ben went to the park. They saw a big", "hybrid", "", options={"temperature": 1.0}),
    Scenario("hot-3", "hot", "sampled", "Explain the wind like I'm five years old.", "hybrid", "", chat=True, options={"temperature": 1.0}),
)  # fmt: skip
