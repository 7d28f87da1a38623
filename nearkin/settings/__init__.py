"""Every setting: Specs, keys, presets, acceptance expressions and decisions."""
