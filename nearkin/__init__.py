"""nearkin finds near-duplicates: among documents on disk, among those that arrive one by one, among feature vectors."""
