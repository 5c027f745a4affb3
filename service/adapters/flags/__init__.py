"""The rollout flag through OpenFeature: whoever holds it, the read path sees one cheap question."""
