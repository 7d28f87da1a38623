"""Words that negate what is beside them, in many languages."""

from functools import cache

import numpy as np
import pyarrow as pa

from nearkin.stages.wording.kernels import SAID
from nearkin.stages.wording.wording import read_wordings

NEGATIONS = {
    "ar": "لا لم لن ليس ليست لست لسنا ليسوا ما غير عدم بدون دون أبدا كلا",
    "bg, mk, ru, sr, uk": (
        "не ни ні нет нема немає нельзя никогда ніколи никто ніхто ничего никак ніяк нигде ніде "
        "едва навряд без"
    ),
    "ca": "no mai ningú",
    "cs, sk": "ne není nikdy nic nikdo žádný nie bez ani",
    "da, no": "ikke ikkje aldrig aldri ingen intet ingenting uden uten hverken verken",
    "bn": "না নয় নি নেই",
    "de": (
        "nicht nie niemals kein keine keinen keinem keiner keines keinesfalls keineswegs nein "
        "nichts nirgends nirgendwo niemand niemanden niemandem weder ohne kaum außer"
    ),
    "el": "δεν δε μη μην όχι ποτέ τίποτα κανείς κανένας χωρίς",
    # don't is two tokens
    "en": (
        "not no never nor neither none nobody nothing nowhere without cannot hardly barely "
        "scarcely rarely seldom unless except aint cant couldnt didnt doesnt dont hadnt hasnt "
        "havent isnt mustnt shouldnt wasnt werent wont wouldnt t"
    ),
    "eo": "ne neniam nenio neniu",
    "es": "no nunca jamás ningún ninguno ninguna nada nadie tampoco sin ni",
    "et, fi": "ei emme ette eivät eikä älä ilman mitte pole",
    "eu": "ez inoiz",
    "fa": "نه نیست هرگز هیچ بدون",
    "fr": "ne n non pas plus jamais aucun aucune aucunement nullement rien ni sans nul nulle guère",
    "ga": "ní níl níor gan",
    "he, yi": "לא אין בלי נישט ניט",
    "hi, ne": "नहीं न ना मत बिना छैन होइन",
    "hu": "nem ne soha semmi senki nincs sem nélkül",
    "hy": "ոչ չէ երբեք առանց",
    "id": "tidak bukan tak jangan belum tanpa",
    "it": "non mai nessun nessuno nessuna niente nulla né senza neppure nemmeno neanche",
    "ja, zh": "不 没 沒 未 非 無 无 勿 别 別 莫 否 な ず ぬ",
    "ko": "안 못 않다 않는다 않았다 않습니다 아니다 아닙니다 없다 없습니다",
    "lt": "ne nėra niekada niekas nieko",
    "nl": "niet nooit geen niets niks niemand nergens zonder",
    "pl": "nie nigdy nic nikt żaden bez ani",
    "pt": "não nunca jamais nenhum nenhuma nada ninguém sem nem tampouco",
    "ro": "nu niciodată nimic nimeni nicio niciun fără",
    "sv": "inte ej aldrig ingen inget inga ingenting icke",
    "ta": "இல்லை அல்ல",
    "th": "ไม่ มิ ไร้",
    "tr": "değil hiç yok asla hayır",
    "vi": "không chưa chẳng đừng",
}
"""The words of each language, or of several with the same ones."""


@cache
def negation_tokens() -> np.ndarray:
    """Returns what the tokens of all negations say, sorted, uint64 (n,)."""
    words = sorted({word for line in NEGATIONS.values() for word in line.split()})
    tokens, _ = read_wordings(pa.array(words, pa.large_string()))
    return np.unique(tokens & SAID)
