"""
Intents with out-of-scope queries
=================================

A dialogue system knows some intents. It must say "I do not understand" to everything
else.

The queries are generated from a few sentence patterns, so that nothing is downloaded.
With your own data, replace the first cell; with a sentence encoder, replace TF-IDF.
"""

# %%
from itertools import product

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from openset.integrations.sklearn import OpenSetClassifier

PATTERNS = {
    "balance": "how much {money} is {left} on my {account} {when}",
    "transfer": "{please} send {money} from my {account} to {person} {when}",
    "block card": "{please} block my {card} it was {stolen} {when}",
    "weather": "{please} tell me will it {rain} in {place} {when}",
    "recipe": "{please} how long do i {cook} {food} {when}",
    "joke": "{please} tell {person} a {funny} joke about {food}",
    "open account": "{please} open a new {account} for {person} {when}",
}
WORDS = {
    "money": ["money", "cash", "fifty euros"], "left": ["left", "there"],
    "account": ["account", "savings account"], "when": ["today", "tomorrow", "now"],
    "person": ["anna", "my brother", "me"], "please": ["please", "could you", "hey"],
    "card": ["card", "credit card"], "stolen": ["stolen", "lost"],
    "rain": ["rain", "snow"], "place": ["berlin", "rome", "oslo"],
    "cook": ["cook", "fry", "bake"], "food": ["eggs", "rice", "fish"],
    "funny": ["funny", "good"],
}  # fmt: skip


def queries(pattern):
    used = [name for name in WORDS if f"{{{name}}}" in pattern]
    choices = product(*(WORDS[name] for name in used))
    return [pattern.format(**dict(zip(used, words, strict=True))) for words in choices]


# %%
# Four intents are known. *Recipe* serves as out-of-scope when the threshold is chosen.
# *Joke* and *open account* occur only in the test. The latter is close to the known
# intents.

made = {intent: np.array(queries(pattern)) for intent, pattern in PATTERNS.items()}
known = list(PATTERNS)[:4]
text = np.concatenate([made[intent] for intent in known])
intent = np.repeat(known, [len(made[name]) for name in known])
rng = np.random.default_rng(0)
is_train = rng.random(len(text)) < 0.15
train_text = np.append(text[is_train], made["recipe"])
train_intent = np.append(intent[is_train], ["out of scope"] * len(made["recipe"]))

# %%
model = OpenSetClassifier(
    make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10)),
    detector="maxlogit",
    unknown_label="out of scope",
    cv=3,
)
model.fit(train_text, train_intent)
others = np.append(made["joke"], made["open account"])
test_text = np.append(text[~is_train], others)
test_intent = np.append(intent[~is_train], ["out of scope"] * len(others))
result = model.evaluate(test_text, test_intent)
for metric in ("accuracy", "auroc", "openauc", "ccr", "urr"):
    print(f"{metric:9} {result[metric]:.3f}")

# %%
# What does it answer?

asked = [
    "how much cash is left on my account now",
    "will it rain in oslo",
    "tell me a good joke about fish",
    "please open a new savings account for anna",
    "who won the football match",
]
for query, answer in zip(asked, model.predict(asked), strict=True):
    print(f"{query:45} {answer}")
