"""Settings that were chosen without labels, as files."""

from pathlib import Path

from nearkin.engine.chosen_settings import ChosenSettings, TriedSettings
from nearkin.engine.settings_file import Settings


def test_settings_file_says_what_was_tried(tmp_path: Path) -> None:
    chosen = ChosenSettings(
        settings={"shingle": "chars:3", "measure": "jaccard", "threshold": 0.6},
        tried=(
            TriedSettings("chars:3", "jaccard", 0.6, 90, 85.4),
            TriedSettings("words:1", "jaccard", None),
        ),
        documents=2000,
        sampled=1000,
        warnings=(),
    )
    path = tmp_path / "settings.toml"
    chosen.write(path)
    text = path.read_text("utf-8")
    assert "without labels, from 1,000 of 2,000 documents" in text
    assert "chars:3 jaccard from 0.6: 85 removals without doubt" in text
    assert "words:1 jaccard: no threshold at which few removals are doubtful" in text
    assert Settings.read(path).values == chosen.settings
    assert repr(chosen) == "<ChosenSettings: shingle chars:3, measure jaccard, threshold 0.6>"
