"""Words and short texts that fill the templates of instructions. Data only."""

from __future__ import annotations

THINGS = (
    "the moon", "rain", "a volcano", "photosynthesis", "gravity", "the internet", "a battery", "a rainbow", "the heart",
    "inflation", "a vaccine", "the water cycle", "an earthquake", "a bicycle", "recycling", "the tides", "a black hole",
    "yeast", "a computer", "electricity", "the seasons", "a magnet", "DNA", "a bridge", "sleep", "a telescope", "soap",
    "a thunderstorm", "democracy", "compound interest", "a refrigerator", "the ozone layer", "bees", "a search engine",
    "noise-cancelling headphones", "a lighthouse", "glaciers", "an airplane wing", "the stock market", "memory",
    "an algorithm", "a variable in a program", "a firewall", "machine learning", "a spreadsheet", "the speed of light",
    "a solar eclipse", "the Roman Empire", "supply and demand", "a parliament", "the greenhouse effect", "blood pressure",
    "digestion", "a mortgage", "an operating system", "encryption", "evolution", "migration of birds", "static electricity",
)  # fmt: skip
MATTERS = (
    "why ice floats", "why we dream", "why the sea is salty", "how a seed grows", "how a plane flies", "how a clock works",
    "why cats purr", "how bread rises", "why leaves fall", "how a camera takes a picture", "why we yawn", "how mountains form",
)  # fmt: skip
HEROES = (
    "a lighthouse keeper", "a shy dragon", "a young baker", "an old clockmaker", "a lost robot", "a curious fox", "twin sisters",
    "a tired wizard", "a boy who collects stones", "a girl who talks to birds", "a sailor", "a librarian", "a small elephant",
    "the last gardener on Mars", "a street musician", "a cat in a bookshop", "a nervous astronaut", "a kind giant",
    "two neighbours", "a stubborn donkey", "a postman", "a snow leopard", "a beekeeper", "a violin maker",
    "a detective", "a princess who hates dresses", "a pirate", "a teacher", "a hedgehog", "an inventor", "a ghost", "a farmer",
    "a taxi driver", "a young king", "a turtle", "two brothers", "a nurse on the night shift", "a wolf", "a puppet maker",
)  # fmt: skip
EVENTS = (
    "finds a message in a bottle", "loses a golden key", "makes an unlikely friend", "hears a strange noise at night",
    "must cross a frozen lake", "opens a door that was always locked", "learns to say sorry", "gets a letter without a sender",
    "wakes up in another century", "wins a race by accident", "plants a seed that grows overnight", "repairs an old radio",
    "is afraid of the dark", "finds a map under the floor", "has to give a speech", "saves a village from a flood",
    "forgets a birthday", "bakes the worst cake of the year", "meets a talking river", "keeps a secret",
    "misses the last bus", "gets lost in a big city", "finds an old photograph", "builds a boat", "sees the sea for the first time",
    "must decide between two friends", "wants to be brave", "inherits a strange house", "breaks a promise", "follows the stars",
)  # fmt: skip
TASKS = (
    "reverses a string",
    "counts the vowels in a text",
    "finds the largest number in a list",
    "checks whether a number is prime",
    "removes duplicates from a list",
    "adds up the digits of a number",
    "sorts a list of names by length",
    "computes the factorial of a number",
    "reads a CSV file and prints every row",
    "merges two dictionaries",
    "checks whether a word is a palindrome",
    "returns the n-th Fibonacci number",
    "converts Celsius to Fahrenheit",
    "counts how often every word occurs in a text",
    "finds the common elements of two lists",
    "flattens a nested list",
    "computes the average of a list of numbers",
    "rounds every number of a list",
    "splits a list into pairs",
    "finds the longest word in a sentence",
    "capitalises every word",
    "checks whether brackets are balanced",
    "computes the greatest common divisor of two numbers",
    "prints a multiplication table",
    "removes all spaces from a text",
    "finds the smallest number in a list",
    "converts a number to binary",
    "calculates the area of a circle",
    "validates an email address",
    "shuffles a list",
    "sorts numbers with bubble sort",
    "searches a sorted list with binary search",
    "generates a random password",
    "counts the words in a file",
    "prints the first ten square numbers",
    "swaps two variables",
    "rotates a list by one place",
    "sums the even numbers of a list",
    "draws a triangle of stars",
    "measures how long a function takes",
    "parses a date",
)
CLASSES = (
    "a shopping cart",
    "a library book",
    "a student with grades",
    "a rectangle",
    "a stack",
    "a queue",
    "a linked list",
    "a car",
    "a to-do list",
    "an address book",
    "a playlist",
    "a timer",
    "a matrix",
    "an employee",
    "a recipe",
    "a board game",
)
PAGES = (
    "a form with two fields and a button",
    "a table of three rows",
    "a menu with four links",
    "a picture and a caption",
    "a title and two columns",
    "a list of five items",
    "a quote and a footer",
    "a video and a paragraph",
)
QUERIES = (
    "all customers from Paris",
    "the ten most expensive products",
    "the number of orders of each customer",
    "the average salary of every department",
    "all students who are older than twenty",
    "orders without a customer",
)
BUGS = (
    "def add(a, b)\n    return a + b", "for i in range(10)\n    print(i)", "def area(r):\n    return 3.14 * r * x",
    "def longest(words):\n    best = ''\n    for w in words:\n        if len(w) < len(best):\n            best = w\n    return best",
    "def count(text, letter):\n    n = 0\n    for c in text:\n        if c = letter:\n            n += 1\n    return n",
    "function total(prices) {\n  let sum = 0;\n  for (p of price) sum += p\n  return sum;\n}",
    "def greet(name):\n    print('Hello ' + nam)", "def last(items):\n    return items[len(items)]",
    "x = input('Your age: ')\nif x > 18:\n    print('adult')", "def even(n):\n    if n % 2 == 1:\n        return True\n    return False",
    "numbers = [1, 2, 3\nprint(sum(numbers))", "while True:\n    n = n + 1\n    if n > 10:\n        brake",
)  # fmt: skip
LANGUAGES = ("Python", "Python", "Python", "JavaScript", "Java", "C")
LISTS = (
    "healthy breakfasts", "books for a long journey", "ways to save water at home", "games for a rainy day",
    "things to pack for a camping trip", "questions for a job interview", "fruits that are rich in vitamin C",
    "good habits for students", "capitals of Europe", "animals that live in the desert", "uses of baking soda",
    "tips for learning a language", "gifts for a teacher", "exercises without equipment", "kinds of clouds",
    "musical instruments", "inventions of the last century", "rules for a library", "plants that need little water",
    "ways to say thank you", "steps to change a bicycle tyre", "ideas for a school project", "safety rules for a laboratory",
    "things that can be recycled", "ways to calm down before an exam", "jobs that need mathematics",
    "tips for a good presentation", "ways to save money", "planets of the solar system", "colours of the rainbow", "days of the week",
    "reasons to read every day", "ideas for a weekend trip", "ingredients of a tomato soup", "European rivers", "famous painters",
    "mistakes that beginners make in chess", "ways to stay healthy at a desk", "questions to ask a doctor", "programming languages",
    "parts of a computer", "emotions", "ideas for a garden party", "rules for a good discussion", "healthy snacks", "birds of the forest",
)  # fmt: skip
SENTENCES = (
    "me and him goes to the market yesterday",
    "the meeting is moved to friday because the boss are ill",
    "i dont know where is the station",
    "We was very happy with the service, it were great.",
    "The results of the experiment was not what we had expect.",
    "she dont like apples but she like pears",
    "their going to be late if they doesnt hurry",
    "Can you send me the informations about the course?",
    "He said that he will came tomorrow.",
    "the dog have eaten all it's food",
    "I has been working here since three years.",
    "Your invited to the party, bring you're friends.",
    "There is many reasons to learn a instrument.",
    "the childrens are playing in the garden since morning",
    "I am agree with you in this point.",
    "me brother and i was late because the bus",
    "It depend of the weather if we goes out.",
    "she teached us how to made bread",
    "Who's keys is these?",
    "The informations in this reports is wrong.",
    "we looking forward to meet you",
    "He run faster then me yesterday.",
    "i could of done it better",
    "Each of the players have their own locker.",
)
MESSAGES = (
    "hi, the heating in room 12 does not work, can someone come today?", "sorry cant come tomorrow, my son is ill",
    "hey did you get my report? i need your comments till monday", "the coffee machine is empty again and nobody cares!!",
    "i want my money back, the shoes were too small", "can we move the call to 4? i have a dentist appointment",
    "pls send me the invoice again, the last one had a wrong address", "our flight was cancelled, we arrive one day later",
    "thx for the help with the move last week", "the new software is slow, can we go back to the old one?",
)  # fmt: skip
TEXTS = (
    "The new library opens on Monday. It has three floors, a café and a quiet room for students. Entry is free, and every "
    "visitor gets a card at the desk.",
    "Bees collect nectar from flowers and bring it to the hive. There other bees turn it into honey. The hive lives on this "
    "honey through the winter, when nothing blooms.",
    "The train to Bristol was forty minutes late because of snow on the line. Passengers were given hot drinks, and most of "
    "them were patient. The driver apologised twice.",
    "Our shop sells used bicycles. Each one is cleaned, tested and repaired before it is sold. If something breaks within a "
    "year, we mend it for nothing.",
    "Rosa planted tomatoes in May. By August she had so many that she gave them to her neighbours. Next year she wants to "
    "plant fewer tomatoes and more beans.",
    "The museum shows paintings by local artists. Some of them are for sale. On Thursdays it stays open until nine in the "
    "evening and students pay half.",
    "Water boils at a lower temperature on a mountain, because the air presses less on it. That is why cooking an egg takes "
    "longer there.",
    "The team played badly in the first half and was two goals behind. After the break it scored three times, and the "
    "goalkeeper stopped a penalty in the last minute.",
    "Omar opened a small restaurant near the harbour. In the first winter few guests came. Then a newspaper wrote about his "
    "fish soup, and since that day every table is taken.",
    "The old bridge was closed in March. Engineers measured it for six weeks and found rust in two pillars. It will open again "
    "when both of them have been replaced.",
    "Every morning the ferry leaves at six. It carries workers, children and sometimes a cow. In a storm it stays in the "
    "harbour and the school on the island has a holiday.",
    "Mr Tan repairs watches. His shop is so small that only one customer can enter at a time. Some people wait in the rain, "
    "because nobody else is as careful as he is.",
    "Our class planted a hedge behind the school. The first year it was eaten by rabbits. Now it is taller than our teacher, "
    "and sparrows build their nests in it.",
    "The company will introduce a four-day week in July. Wages stay the same. After half a year everybody will be asked "
    "whether the work was still done and how they feel.",
    "Lena forgot her umbrella on the tram. Two days later a stranger brought it to her door. Her name had been written on the "
    "handle by her grandmother.",
    "A new telescope has been built in the desert. The air there is dry and the nights are dark. Its mirror is as wide as a "
    "tennis court and was polished for three years.",
)
VERSES = (
    "The cat is small, the night is long,\nthe kettle sings a quiet song.",
    "Snow on the roof and snow on the tree,\nnobody out but the robin and me.",
    "I had a coin, I had a key,\nI lost them both beside the sea.\nThe waves came in, the waves went out,\nand turned my pockets inside out.",
    "Red leaves fall and swallows go,\nsoon the hills are white with snow.\nIn the kitchen bread is warm,\nsafe we sit and hear the storm.",
)
GOODS = (
    "a jacket",
    "three notebooks",
    "a lamp",
    "two chairs",
    "a teapot",
    "a pair of boots",
    "five pencils",
    "a raincoat",
    "a backpack",
    "a blanket",
    "six plates",
    "a football",
    "a hammer",
    "two tickets",
    "a mirror",
    "a carpet",
)
COLORS = ("red", "green", "black", "white", "grey", "brown", "orange", "purple")
FOODS = (
    "two cups of rice", "one onion", "three carrots", "half a litre of milk", "a spoon of oil", "four potatoes", "two cloves of garlic",
    "a glass of water", "a tin of beans", "200 grams of cheese", "one lemon", "a handful of nuts", "six eggs", "a little pepper",
    "one cup of oats", "two ripe bananas",
)  # fmt: skip
STYLES = (
    "more politely",
    "for a child",
    "in a formal style",
    "as a short poem",
    "in fewer words",
    "as an advertisement",
    "in the past tense",
)
NAMES = ("Anna", "Ben", "Carlos", "Dina", "Emil", "Fatima", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Leo", "Mia", "Noah", "Olga", "Pia")  # fmt: skip
CITIES = ("Denver", "Lyon", "Oslo", "Kyoto", "Lagos", "Quito", "Perth", "Cairo", "Turin", "Boston", "Delhi", "Porto")
JOBS = ("nurse", "teacher", "carpenter", "pilot", "cook", "engineer", "painter", "farmer", "lawyer", "driver")
TALK = (
    "Hello! How are you today?", "What is your name?", "Can you help me with my homework?", "I am bored. What can I do?",
    "Tell me a joke.", "What should I cook tonight?", "I had a bad day at work.", "Good morning! What can you do?",
    "Do you like music?", "I cannot sleep. Any advice?", "What is the best way to start the day?", "Thank you for your help!",
    "I am nervous about my first day at a new school.", "Recommend me a hobby.", "What do you think about cats?",
    "My friend is angry with me. What should I say?", "Give me a reason to go for a walk.", "How do I make new friends?",
    "What is a good name for a puppy?", "I forgot my mother's birthday. Help!", "Say something that cheers me up.",
    "Is it better to read or to watch a film?", "I want to learn to draw. Where do I begin?", "What is your favourite season?",
)  # fmt: skip
ENDS = ("", "", " Answer in one sentence.", " Please explain.", " Keep it short.")
